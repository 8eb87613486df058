//! How fast a project is analysed, what that costs in memory, and how soon a change is taken in.
//!
//! # Place
//! Part of `bench::completion`. One thread, so that numbers of different machines can be compared.

use std::fs;
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
/// Lines of the large tree.
const MILLION: usize = 1_000_000;
/// Promised of projects with at least so many lines.
const LINES_JUDGED_MIN: usize = 100_000;
const LINES_PER_S_MIN: f64 = 200_000.0;
const BYTES_PER_LINE_MAX: f64 = 1500.0;
const CHANGE_MS_MAX: f64 = 20.0;

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

    /// Analyse every package, and a tree of a million lines made of copies of them.
    ///
    /// # Errors
    /// When a package is no project, or the copies cannot be written.
    pub fn measure_all(
        packages: &[&str],
        projects: &Path,
    ) -> Result<Vec<Self>, CompletionBenchError> {
        let mut speeds = Vec::new();
        for package in packages {
            speeds.push(Self::measure(package, &projects.join(package), 3)?);
        }
        let file = |path: &Path, what| {
            let path = path.to_owned();
            move |problem| CompletionBenchError::File { what, path, problem }
        };
        let folder = tempfile::tempdir().map_err(file(Path::new("a temporary folder"), "make"))?;
        let n_lines: usize = speeds.iter().map(|s| s.lines).sum();
        for copy in 0..MILLION.div_ceil(n_lines.max(1)) {
            for package in packages {
                let (from, to) =
                    (projects.join(package), folder.path().join(format!("copy_{copy}")));
                copy_sources(&from, &to.join(package)).map_err(file(&from, "copy"))?;
            }
        }
        speeds.push(Self::measure("copies of all", folder.path(), 1)?);
        Ok(speeds)
    }

    /// The promises that were not kept; of small projects nothing is promised.
    pub fn missed(&self) -> Vec<String> {
        if self.lines < LINES_JUDGED_MIN {
            return Vec::new();
        }
        let change = quantile(&self.change_ms, 100);
        let (lines, bytes) = (self.lines_per_s(), self.bytes_per_line());
        let judged = [
            (lines >= LINES_PER_S_MIN, format!("{lines:.0} lines/s")),
            (bytes <= BYTES_PER_LINE_MAX, format!("{bytes:.0} bytes a line")),
            (change <= CHANGE_MS_MAX, format!("{change:.1} ms from a change to an answer")),
        ];
        let failed = judged.into_iter().filter(|(holds, _)| !holds);
        failed.map(|(_, what)| format!("{}: {what}", self.what)).collect()
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

fn copy_sources(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_sources(&path, &target)?;
        } else if path.extension().is_some_and(|e| e == "py" || e == "pyi") {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
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
