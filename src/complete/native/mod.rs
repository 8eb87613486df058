//! Our own completion, on the project database.
//!
//! # Place
//! Uses `repo`. Runs each question on a thread with a stack of its own and a deadline.
//! # Invariants
//! - A fault inside the analysis ends that question with `Unknown`, nothing else.

#[cfg(test)]
mod tests;

use crate::base::{CandidateSource, Candidates, Query};
use crate::repo::Project;
use std::sync::Arc;

/// Stack of the thread that answers a question, in bytes. Inference is bounded to 90 nested
/// questions of a few frames each; debug builds need the most.
const STACK_BYTES: usize = 64 << 20;

/// Completion on the project database.
pub struct NativeTool {
    project: Arc<Project>,
}

impl NativeTool {
    pub fn new(project: Arc<Project>) -> Self {
        Self { project }
    }
}

impl CandidateSource for NativeTool {
    fn name(&self) -> &str {
        "native"
    }

    fn candidates(&mut self, query: &Query<'_>) -> Candidates {
        let snapshot = self.project.snapshot();
        let project = &self.project;
        let start = query.offset.min(query.text.len());
        std::thread::scope(|scope| {
            let worker = std::thread::Builder::new().name("complete".to_owned()).stack_size(STACK_BYTES).spawn_scoped(
                scope,
                || {
                    snapshot.names_at(
                        query.path,
                        query.text,
                        query.offset,
                        Some(query.deadline),
                        project.source_roots(),
                    )
                },
            );
            match worker.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(found)) => found,
                Ok(Err(_)) => Candidates::unknown(start, "the analysis failed on this file"),
                Err(_) => Candidates::unknown(start, "no thread could be started"),
            }
        })
    }
}
