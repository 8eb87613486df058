//! Why a measurement of guided decoding cannot be done.
//!
//! # Place
//! Part of `bench::guided`.

use crate::bench::completion::CompletionBenchError;
use crate::repo::RepoError;
use crate::runtime::RuntimeError;
use std::path::PathBuf;

/// A measurement that cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuidedBenchError {
    #[error(transparent)]
    Positions(#[from] CompletionBenchError),
    #[error(transparent)]
    Repo(#[from] RepoError),
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error("{} is not analysed as a file of its project; sample the positions again", path.display())]
    NotInProject { path: PathBuf },
}
