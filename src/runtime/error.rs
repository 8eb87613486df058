//! Why a run could not be set up or finished.
//!
//! # Place
//! Part of `runtime`.

use crate::complete::CompleteError;
use crate::constrain::ConstraintError;
use crate::device::DeviceError;
use crate::engine::EngineError;
use crate::format::FormatError;
use crate::model::ModelError;
use crate::repo::RepoError;
use crate::tokenizer::TokenizerError;
use std::path::PathBuf;

/// A run that cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Repo(#[from] RepoError),
    #[error(transparent)]
    Tool(#[from] CompleteError),
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
    #[error(
        "'{text}' is {n_tokens} tokens of this model's vocabulary; a trigger must be one token: take one that an adapter adds, or an existing special token"
    )]
    NoTrigger { text: String, n_tokens: usize },
    #[error("{} {problem}", path.display())]
    BadFile { path: PathBuf, problem: String },
    #[error("pylint is not installed for {}; run `{} -m pip install pylint`, or name another interpreter with --python", python.display(), python.display())]
    PylintMissing { python: PathBuf },
    #[error("pylint, run by {}, {problem}", python.display())]
    Pylint { python: PathBuf, problem: String },
    #[error(
        "the model needs {need} for weights, workspace and the smallest cache, and may use {usable} of the {free} that are free, so weights of up to {fit} would fit; use a smaller quantisation, raise --gpu-memory-fraction, or use --device cpu"
    )]
    ModelTooLarge { need: String, usable: String, free: String, fit: String },
    #[error(
        "a key/value cache of {asked_tokens} tokens needs {need} and {left} are left for it; --kv-tokens {fit_tokens} would fit"
    )]
    CacheTooLarge { asked_tokens: usize, need: String, left: String, fit_tokens: usize },
    #[error(
        "the prompt style toolgen shows a function's header and documentation, and here is no function with a docstring; write one, or use --prompt-style plain"
    )]
    NoExamplePrompt,
    #[error("the engine stopped before every request was finished")]
    Stalled,
}
