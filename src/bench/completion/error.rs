//! Why a completion evaluation cannot run.
//!
//! # Place
//! Part of `bench::completion`. What goes wrong at one position is data of the run, not an error.

use std::path::PathBuf;

use crate::runtime::RuntimeError;

/// A completion evaluation could not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompletionBenchError {
    #[error("cannot {what} {path:?}: {problem}")]
    File { what: &'static str, path: PathBuf, problem: std::io::Error },
    #[error("{path:?} line {line} is not a {what}: {problem}")]
    Line { path: PathBuf, line: usize, what: &'static str, problem: String },
    #[error(
        "{path:?} does not hold {name:?} at byte {offset}: the packages are not those the positions were \
         sampled from; run scripts/eval/positions.py again"
    )]
    Stale { path: PathBuf, name: String, offset: usize },
    #[error("{path:?} holds answers for other positions; delete it to ask again")]
    OtherPositions { path: PathBuf },
    #[error("cannot ask about {package}: {problem}")]
    Tool { package: String, problem: Box<RuntimeError> },
}
