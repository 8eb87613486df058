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
    #[error("the adapter '{name}' has no adapter_config.json in {}; name the folder that peft saved, or a .gguf file", path.display())]
    NoAdapterConfig { name: String, path: PathBuf },
    #[error(
        "there is no adapter {spec:?}: neither a folder, nor a .gguf file, nor a name in {looked_in}"
    )]
    NoSuchAdapter { spec: String, looked_in: String },
    #[error("no adapter '{name}' is loaded beside the weights; loaded are: {known}")]
    NotLoaded { name: String, known: String },
    #[error("{n} adapters were named; at most {max} can be loaded")]
    TooManyAdapters { n: usize, max: usize },
    #[error("two adapters are called '{name}': {} and {}; give one another name with NAME=PATH", first.display(), second.display())]
    SameName { name: String, first: PathBuf, second: PathBuf },
    #[error(
        "token {token} is {first_text:?} in the adapter '{first}' and {second_text:?} in '{second}'; load one of them at a time"
    )]
    TwoSpellings {
        token: u32,
        first: String,
        first_text: String,
        second: String,
        second_text: String,
    },
    #[error(
        "the adapter '{name}' was trained on {base} with the hash {expected}, but {} has {got}; use that model, or --adapter-force to try", path.display()
    )]
    OtherBase { name: String, base: String, expected: String, path: PathBuf, got: String },
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
