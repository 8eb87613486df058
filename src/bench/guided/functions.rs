//! Writing the bodies of sampled functions under several settings.
//!
//! # Place
//! Part of `bench::guided`.
//! # Shapes and units
//! Milliseconds, per function; passes are steps of the decoder after the prompt.

use super::GuidedBenchError;
use crate::base::{Answer, CandidateSource, LineIndex, Query, limit};
use crate::bench::completion::Position;
use crate::constrain::GuideStats;
use crate::repo::Snapshot;
use crate::runtime::{CompleteConfig, Completion, Model, Target};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A function that positions were sampled from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Function {
    pub package: String,
    /// Relative to the folder of projects.
    pub file: PathBuf,
    pub start_byte: usize,
    pub name: String,
}

/// The functions of a sample, each once, in the order of their positions.
pub(super) fn functions(positions: &[Position]) -> Vec<Function> {
    let mut found: Vec<Function> = Vec::new();
    for p in positions {
        let function = Function {
            package: p.package.clone(),
            file: p.file.clone(),
            start_byte: p.span_byte.0,
            name: p.function.clone(),
        };
        if found.last() != Some(&function) && !found.contains(&function) {
            found.push(function);
        }
    }
    found
}

impl Function {
    /// Where its body is written.
    ///
    /// # Errors
    /// When its file is not one of the project.
    pub(super) fn target(
        &self,
        projects: &Path,
        snapshot: &Snapshot,
    ) -> Result<Target, GuidedBenchError> {
        let path = projects.join(&self.file);
        let path = path.canonicalize().unwrap_or(path);
        let not_there = || GuidedBenchError::NotInProject { path: path.clone() };
        let text = snapshot.text(&path).ok_or_else(not_there)?;
        let at = LineIndex::new(&text).position(&text, self.start_byte);
        let function = snapshot.function_at(&path, at)?;
        Ok(Target::body(&function, &text))
    }
}

/// One way to write.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub label: &'static str,
    pub config: CompleteConfig,
}

/// What writing one function under one setting did.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    pub package: String,
    pub function: String,
    pub setting: &'static str,
    pub n_prompt: usize,
    pub n_tokens: usize,
    /// Passes of the decoder after the prompt, and tokens that were fed before they were chosen.
    pub n_passes: u64,
    pub n_drafted: u64,
    pub n_draft_taken: u64,
    /// From the request to the first token, the prompt's pass included.
    pub first_ms: f64,
    /// From the first token to the end, the tool's time included.
    pub decode_ms: f64,
    /// In the tool, the questions before the first token included.
    pub tool_ms: f64,
    /// Everything, from the call to its return.
    pub wall_ms: f64,
    pub asked: usize,
    pub closed: usize,
    pub changed: usize,
    pub finish: &'static str,
    #[serde(skip)]
    pub body: String,
}

impl Sample {
    /// Milliseconds for each token after the first; `None` for fewer than two tokens.
    pub fn ms_per_token(&self) -> Option<f64> {
        (self.n_tokens > 1).then(|| self.decode_ms / (self.n_tokens - 1) as f64)
    }
}

/// Write one function under every setting, beginning with number `first`. The completions come in the
/// order of the settings.
///
/// # Errors
/// As [`Model::complete`].
pub(super) fn write(
    model: &mut Model,
    tool: &mut dyn CandidateSource,
    function: &Function,
    target: &Target,
    settings: &[Setting],
    first: usize,
) -> Result<Vec<(Sample, Completion)>, GuidedBenchError> {
    let mut done: Vec<Option<(Sample, Completion)>> = settings.iter().map(|_| None).collect();
    for k in 0..settings.len() {
        let k = (first + k) % settings.len();
        let setting = &settings[k];
        model.engine_mut().reset_times();
        let started = Instant::now();
        let completion = model.complete(target, &setting.config, tool)?;
        let wall = started.elapsed();
        let times = model.engine().times();
        let output = &completion.output;
        let GuideStats { asked, closed, changed, .. } = output.guide.stats;
        let n_prompt_passes = output.n_prompt.div_ceil(limit::STEP_ROWS_MAX) as u64;
        let sample = Sample {
            package: function.package.clone(),
            function: format!("{}:{}", function.file.display(), function.name),
            setting: setting.label,
            n_prompt: output.n_prompt,
            n_tokens: output.ids.len(),
            n_passes: times.n_steps.saturating_sub(n_prompt_passes),
            n_drafted: times.n_drafted,
            n_draft_taken: times.n_draft_taken,
            first_ms: output.timings.first_token_ms,
            decode_ms: output.timings.total_ms - output.timings.first_token_ms,
            tool_ms: output.timings.tool_ms,
            wall_ms: wall.as_secs_f64() * 1e3,
            asked,
            closed,
            changed,
            finish: output.reason.as_str(),
            body: completion.body.clone(),
        };
        done[k] = Some((sample, completion));
    }
    Ok(done.into_iter().flatten().collect())
}

/// Names that were written where the answer was complete, and that a fresh question about the finished
/// text does not list. Names cut off by the end of the text do not count.
pub(super) fn missing_names(
    completion: &Completion,
    target: &Target,
    tool: &mut dyn CandidateSource,
) -> Vec<String> {
    let mut missing = Vec::new();
    let after = &completion.file[completion.range.end..];
    for event in &completion.output.guide.events {
        let (Answer::Closed, Some(name)) = (event.answer, &event.name) else {
            continue;
        };
        // Line ends may differ from what the model wrote; the name's own text decides.
        let Some(written) = completion.file.get(event.offset..event.offset + name.len()) else {
            continue;
        };
        let next = completion.file[event.offset + name.len()..].chars().next();
        let is_cut = event.offset + name.len() >= completion.range.end;
        if written.as_bytes() != &name[..]
            || is_cut
            || next.is_some_and(|c| c.is_alphanumeric() || c == '_')
        {
            continue;
        }
        let text = format!("{}{after}", &completion.file[..event.offset]);
        let deadline = Instant::now() + Duration::from_secs(10);
        let query = Query { path: &target.path, text: &text, offset: event.offset, deadline };
        let names = tool.candidates(&query).names;
        if !names.iter().any(|n| *n.name == *written) {
            missing.push(written.to_owned());
        }
    }
    missing
}
