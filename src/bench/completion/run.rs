//! Asking a tool at every position.
//!
//! # Place
//! Part of `bench::completion`. Works on any [`CandidateSource`]; a factory makes one for each project.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::position::{Overlay, Position};
use super::{CompletionBenchError, Positions};
use crate::base::{CandidateSource, Query};
use crate::runtime::RuntimeError;

/// How a run is done.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// The folder with one folder for each package, as `scripts/eval/positions.py` fills it.
    pub projects: PathBuf,
    /// The deadline of one call, in milliseconds.
    pub call_ms_max: u64,
}

/// A tool's answer at one position, short enough to keep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// `closed`, `open`, `unknown` or `timed_out`.
    pub answer: String,
    /// The true name is among the names.
    pub offered: bool,
    pub n_names: usize,
    pub ms: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Ask at every position, in order. `start` makes a tool for a project folder; positions of one package
/// stand together, so it is called once for each. Before the first position of a file one call is made
/// that does not count: the file is known then, and times are warm.
///
/// # Errors
/// When a tool cannot be started or the files are not those that were sampled.
pub fn run(
    positions: &Positions,
    config: &RunConfig,
    mut start: impl FnMut(&Path) -> Result<Box<dyn CandidateSource>, RuntimeError>,
    mut each: impl FnMut(&Position, &Outcome),
) -> Result<Vec<Outcome>, CompletionBenchError> {
    let mut outcomes = Vec::with_capacity(positions.positions.len());
    let mut tool: Option<(&str, Box<dyn CandidateSource>)> = None;
    let mut warm_file: Option<&Path> = None;
    for position in &positions.positions {
        let overlay = Overlay::new(&config.projects, position)?;
        if tool.as_ref().is_none_or(|(package, _)| *package != position.package) {
            let project = config.projects.join(&position.package);
            let started = start(&project).map_err(|problem| CompletionBenchError::Tool {
                package: position.package.clone(),
                problem: Box::new(problem),
            })?;
            tool = Some((&position.package, started));
            warm_file = None;
        }
        let (_, source) = tool.as_mut().expect("set above");
        if warm_file != Some(&position.file) {
            ask(source.as_mut(), &overlay, position, config);
            warm_file = Some(&position.file);
        }
        let outcome = ask(source.as_mut(), &overlay, position, config);
        each(position, &outcome);
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

fn ask(
    source: &mut dyn CandidateSource,
    overlay: &Overlay,
    position: &Position,
    config: &RunConfig,
) -> Outcome {
    let asked = Instant::now();
    let candidates = source.candidates(&Query {
        path: &overlay.path,
        text: &overlay.text,
        offset: position.offset_byte,
        deadline: asked + Duration::from_millis(config.call_ms_max),
    });
    let ms = asked.elapsed().as_secs_f64() * 1e3;
    let name = position.name.as_str();
    Outcome {
        answer: candidates.answer.as_str().to_owned(),
        offered: candidates.names.iter().any(|c| &*c.name == name),
        n_names: candidates.names.len(),
        ms: (ms * 1e4).round() / 1e4,
        reason: candidates.reason.map(|reason| reason.to_string()),
    }
}
