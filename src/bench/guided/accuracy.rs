//! Real member accesses predicted from the text before them: how often the true name is written.
//!
//! # Place
//! Part of `bench::guided`.

use super::GuidedBenchError;
use super::functions::Setting;
use crate::base::{Answer, CandidateSource};
use crate::bench::completion::{NameContext, Position, PositionKind};
use crate::repo::Snapshot;
use crate::runtime::{Model, Target};
use serde::Serialize;
use std::path::Path;

/// One access under one setting.
#[derive(Clone, Debug, Serialize)]
pub struct Access {
    pub package: String,
    pub file: String,
    pub offset: usize,
    pub setting: &'static str,
    pub truth: String,
    pub written: String,
    pub is_right: bool,
    /// Names that the complete answer listed.
    pub n_names: usize,
    pub ms: f64,
}

/// Predict the name at a member position under every setting. Empty when the position is not a member
/// that is read, or when the tool's answer there is not complete: nothing would be constrained. One of the
/// settings must be guided, and is what finds out.
///
/// # Errors
/// As [`Model::complete`].
pub(super) fn predict(
    model: &mut Model,
    tool: &mut dyn CandidateSource,
    snapshot: &Snapshot,
    projects: &Path,
    position: &Position,
    settings: &[Setting],
) -> Result<Vec<Access>, GuidedBenchError> {
    if position.kind != PositionKind::Member || position.ctx != NameContext::Load {
        return Ok(Vec::new());
    }
    let path = projects.join(&position.file);
    let path = path.canonicalize().unwrap_or(path);
    let not_there = || GuidedBenchError::NotInProject { path: path.clone() };
    let text = snapshot.text(&path).ok_or_else(not_there)?;
    let (offset, end) = (position.offset_byte, position.span_byte.1);
    let (Some(before), Some(after)) = (text.get(..offset), text.get(end..)) else {
        return Err(not_there());
    };
    let shown = format!("{before}{after}");
    let target = Target::position(path.clone(), &shown, offset);
    let mut accesses = Vec::new();
    let mut n_names = None;
    // Guided settings come first: where they are free, there is nothing to compare.
    for setting in settings {
        let done = model.complete(&target, &setting.config, tool)?;
        let first = done.output.guide.events.iter().find(|e| e.offset == offset);
        if let Some(event) = first {
            if event.answer != Answer::Closed {
                return Ok(Vec::new());
            }
            n_names.get_or_insert(event.n_names);
        }
        let Some(n_names) = n_names else {
            return Ok(Vec::new());
        };
        let is_part = |c: &char| c.is_alphanumeric() || *c == '_';
        let written: String = done.output.text.chars().take_while(is_part).collect();
        accesses.push(Access {
            package: position.package.clone(),
            file: position.file.display().to_string(),
            offset,
            setting: setting.label,
            is_right: written == position.name,
            truth: position.name.clone(),
            written,
            n_names,
            ms: done.output.timings.total_ms - done.output.timings.first_token_ms,
        });
    }
    Ok(accesses)
}
