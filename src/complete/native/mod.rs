//! Our own completion, on the project database.
//!
//! # Place
//! Uses `repo`. Runs each question with a deadline, on a thread with a stack of its own when the asking
//! one has little left.
//! # Invariants
//! - A fault inside the analysis ends that question with `Unknown`, nothing else.

#[cfg(test)]
mod cases;
mod stack;
#[cfg(test)]
mod tests;

use crate::base::{CandidateSource, Candidates, NameRole, Query};
use crate::repo::{Project, Session};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

/// Stack of the thread that answers a question when the asking one has little, in bytes. Inference is
/// bounded to 90 nested questions of a few frames each; debug builds need the most.
const STACK_BYTES: usize = 64 << 20;
/// Stack that the asking thread must have left to answer by itself.
const OWN_STACK_BYTES_MIN: usize = 3 << 19;
/// What inference leaves of it: the frames of one step, and of parsing a quoted annotation.
const STACK_RESERVE_BYTES: usize = 1 << 19;

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
        self.candidates_for(query, NameRole::Any)
    }

    fn candidates_for(&mut self, query: &Query<'_>, role: NameRole) -> Candidates {
        let left = stack::left();
        if left >= OWN_STACK_BYTES_MIN {
            self.session.limit_stack(left - STACK_RESERVE_BYTES);
            let answer =
                std::panic::catch_unwind(AssertUnwindSafe(|| ask(&mut self.session, query, role)));
            let is_done = answer.is_err() || !self.session.ran_out_of_stack();
            self.session.limit_stack(usize::MAX);
            if is_done {
                return self.checked(answer, query);
            }
        }
        let session = &mut self.session;
        let answer = std::thread::scope(|scope| {
            let worker = std::thread::Builder::new()
                .name("complete".to_owned())
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, || ask(session, query, role));
            worker.map(std::thread::ScopedJoinHandle::join)
        });
        match answer {
            Ok(answer) => self.checked(answer, query),
            Err(_) => Candidates::unknown(query.offset, "no thread could be started"),
        }
    }
}

fn ask(session: &mut Session, query: &Query<'_>, role: NameRole) -> Candidates {
    session.names_for(role, query.path, query.text, query.offset, Some(query.deadline))
}

impl NativeTool {
    /// An answer, or what a fault inside the analysis leaves of it.
    fn checked(
        &mut self,
        answer: std::thread::Result<Candidates>,
        query: &Query<'_>,
    ) -> Candidates {
        answer.unwrap_or_else(|_| {
            // What the session kept may be half changed.
            self.session = Session::new(self.project.clone());
            let start = query.offset.min(query.text.len());
            Candidates::unknown(start, "the analysis failed on this file")
        })
    }
}
