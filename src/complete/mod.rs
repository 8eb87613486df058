//! Completion tools: what names may stand at a cursor.
//!
//! # Place
//! Uses `base` and `repo`. Implements [`crate::base::CandidateSource`] for `runtime`, which picks a
//! tool. Knows nothing of tokens, tries or masks.
//! # Invariants
//! - A tool never fails a request: whatever goes wrong is `Unknown` or `TimedOut`, with a reason.

pub mod native;

pub use native::NativeTool;
