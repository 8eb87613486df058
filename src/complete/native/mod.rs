//! Our own completion, on the project database.
//!
//! # Place
//! Uses `repo`. Runs each question on a thread with a stack of its own and a deadline.
//! # Invariants
//! - A fault inside the analysis ends that question with `Unknown`, nothing else.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod tests;

use crate::base::{CandidateSource, Candidates, Query};
use crate::repo::{Project, Session};
use std::sync::Arc;

/// Stack of the thread that answers a question, in bytes. Inference is bounded to 90 nested
/// questions of a few frames each; debug builds need the most.
const STACK_BYTES: usize = 64 << 20;

/// Completion on the project database.
pub struct NativeTool {
    session: Session,
    project: Arc<Project>,
}

impl NativeTool {
    pub fn new(project: Arc<Project>) -> Self {
        Self { session: Session::new(project.clone()), project }
    }
}

impl CandidateSource for NativeTool {
    fn name(&self) -> &str {
        "native"
    }

    fn candidates(&mut self, query: &Query<'_>) -> Candidates {
        let start = query.offset.min(query.text.len());
        let session = &mut self.session;
        let answer = std::thread::scope(|scope| {
            let worker = std::thread::Builder::new()
                .name("complete".to_owned())
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, || {
                    session.names_at(query.path, query.text, query.offset, Some(query.deadline))
                });
            worker.map(std::thread::ScopedJoinHandle::join)
        });
        match answer {
            Ok(Ok(found)) => found,
            Ok(Err(_)) => {
                // What the session kept may be half changed.
                self.session = Session::new(self.project.clone());
                Candidates::unknown(start, "the analysis failed on this file")
            }
            Err(_) => Candidates::unknown(start, "no thread could be started"),
        }
    }
}
