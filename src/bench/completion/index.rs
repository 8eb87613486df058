//! How fast a project is analysed, what that costs in memory, and how soon a change is taken in.
//!
//! # Place
//! Part of `bench::completion`. One thread, so that numbers of different machines can be compared.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::CompletionBenchError;
use super::report::quantile;
use crate::base::{CandidateSource, Query};
use crate::complete::NativeTool;
use crate::repo::{Project, ProjectConfig, PythonChoice};
use crate::runtime::RuntimeError;

/// Files that are changed, one after the other.
const CHANGES_MAX: usize = 40;

/// One project, analysed from nothing on one thread.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexSpeed {
    pub what: String,
    pub files: usize,
    pub lines: usize,
    pub bytes: usize,
    /// The middle one of the runs.
    pub ms: f64,
    /// What trees, scopes and texts hold.
    pub memory_bytes: usize,
    /// From a changed file to the answer of the next question, milliseconds, ascending.
    pub change_ms: Vec<f64>,
}

impl IndexSpeed {
    /// Analyse a project `runs` times, then change files of it and ask.
    ///
    /// # Errors
    /// When the folder is no project.
    pub fn measure(what: &str, root: &Path, runs: usize) -> Result<Self, CompletionBenchError> {
        let failed = |problem| CompletionBenchError::Tool {
            package: what.to_owned(),
            problem: Box::new(RuntimeError::Repo(problem)),
        };
        let mut config = ProjectConfig::new(root);
        config.n_threads = 1;
        config.python = PythonChoice::Without;
        let mut ms = Vec::new();
        let mut opened = None;
        for _ in 0..runs.max(1) {
            drop(opened.take());
            let (project, report) = Project::open(config.clone()).map_err(failed)?;
            ms.push(report.elapsed_ms);
            opened = Some((project, report));
        }
        let (project, report) = opened.expect("at least one run");
        ms.sort_unstable_by(f64::total_cmp);
        Ok(Self {
            what: what.to_owned(),
            files: report.n_files,
            lines: report.n_lines,
            bytes: report.n_bytes,
            ms: quantile(&ms, 50),
            memory_bytes: report.memory_bytes,
            change_ms: changes(project),
        })
    }

    pub fn lines_per_s(&self) -> f64 {
        self.lines as f64 / self.ms.max(1e-3) * 1e3
    }

    pub fn bytes_per_line(&self) -> f64 {
        self.memory_bytes as f64 / self.lines.max(1) as f64
    }

    /// One line for each project, with a head.
    pub fn to_csv(speeds: &[Self]) -> String {
        let mut csv = "what,files,lines,bytes,ms,lines_per_s,memory_bytes_per_line,changes,\
                       change_ms_p50,change_ms_max\n"
            .to_owned();
        for s in speeds {
            csv.push_str(&format!(
                "{},{},{},{},{:.1},{:.0},{:.0},{},{:.2},{:.2}\n",
                s.what,
                s.files,
                s.lines,
                s.bytes,
                s.ms,
                s.lines_per_s(),
                s.bytes_per_line(),
                s.change_ms.len(),
                quantile(&s.change_ms, 50),
                quantile(&s.change_ms, 100),
            ));
        }
        csv
    }
}

/// Change files all over the project; after each, ask for the names of a module that imports it.
fn changes(project: Project) -> Vec<f64> {
    let project = Arc::new(project);
    let snapshot = project.snapshot();
    let paths: Vec<PathBuf> = snapshot.paths().map(Path::to_path_buf).collect();
    let asker = project.root().join("tether_asks.py");
    let mut tool = NativeTool::new(Arc::clone(&project));
    let mut ms = Vec::new();
    let step = (paths.len() / CHANGES_MAX).max(1);
    for path in paths.iter().step_by(step).take(CHANGES_MAX) {
        let Some(text) = snapshot.text(path) else {
            continue;
        };
        let module = path.file_stem().and_then(|s| s.to_str()).unwrap_or("x");
        let changed = format!("{text}\n\ndef tether_changed():\n    return []\n");
        let question = format!("import {module}\n\ndef f(x: {module}.K):\n    y = x.");
        let started = Instant::now();
        if project.update(path, Some(changed)).is_err() {
            continue;
        }
        let _ = tool.candidates(&Query {
            path: &asker,
            text: &question,
            offset: question.len(),
            deadline: started + Duration::from_secs(5),
        });
        ms.push(started.elapsed().as_secs_f64() * 1e3);
    }
    ms.sort_unstable_by(f64::total_cmp);
    ms
}
