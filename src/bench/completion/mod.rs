//! Completion tools asked at every identifier of a sample of real functions.
//!
//! # Place
//! Part of `bench`. Works on any [`CandidateSource`](crate::base::CandidateSource). `scripts/eval/positions.py` samples the
//! positions from pinned packages.
//! # Invariants
//! Every tool is shown the same: the file with the function cut at the cursor and what follows the function
//! kept, nothing of the name typed. Thresholds bound a measure on the side where it gets worse.

mod cache;
mod error;
mod index;
mod position;
mod replay;
mod report;
mod run;
#[cfg(test)]
mod tests;

pub use cache::{CacheHead, CacheWriter, read_cache};
pub use error::CompletionBenchError;
pub use index::IndexSpeed;
pub use position::{NameContext, Position, PositionKind, Positions};
pub use replay::{Forbidden, Replay, ReplayConfig};
pub use report::{ALL, Measure, Missed, Report, Row, Slice, Threshold};
pub use run::{Outcome, RunConfig, run};
