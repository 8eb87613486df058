//! Completion tools behind one port: who knows which names may stand at a cursor.
//!
//! # Place
//! Uses `base` and `repo`. Every tool implements [`CandidateSource`](crate::base::CandidateSource);
//! `runtime` picks one. Does not know tokens, tries or masks.
//! # Invariants
//! - A tool never fails a request: whatever goes wrong is `Unknown` or `TimedOut`, with a reason, and
//!   is counted.
//! - Only the native engine may answer `Closed`. Jedi and language servers leave names out (Jedi gets
//!   13 of our 77 small cases wrong), so what they list is `Open`: a preference, never a wall.
//! - No answer comes from an old version of the file: the text that is asked about travels with the
//!   question.

mod counters;
mod cursor;
mod error;
mod jedi;
mod lsp;
mod native;
mod place;
mod process;

pub use counters::ToolCounters;
pub use error::CompleteError;
pub use jedi::{Jedi, JediConfig};
pub use lsp::{Lsp, LspConfig};
pub use native::NativeTool;
