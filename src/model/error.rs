//! Why a model cannot be built.
//!
//! # Place
//! Part of `model`.

use super::AdapterError;
use crate::device::DeviceError;
use crate::format::FormatError;

/// A configuration or set of weights that cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    #[error("architecture '{name}' is not supported; supported are {supported}")]
    UnknownArchitecture { name: String, supported: &'static str },
    #[error("the model's configuration lacks '{key}'")]
    MissingKey { key: String },
    #[error("the model's configuration has {key} = {value}; {expected}")]
    BadValue { key: String, value: String, expected: String },
    #[error(
        "rope scaling '{name}' is not supported (supported: linear, llama3); running without it would write nonsense on long prompts"
    )]
    UnknownRopeScaling { name: String },
    #[error("the weights lack {} tensor(s): {}", .names.len(), shown(.names))]
    MissingTensors { names: Vec<String> },
    #[error(
        "the file has {} layer tensor(s) that this architecture does not use, so its results would be wrong: {}",
        .names.len(), shown(.names)
    )]
    UnusedTensors { names: Vec<String> },
    #[error("tensor '{name}' has shape {got:?}, the configuration asks for {expected:?}")]
    WrongShape { name: String, expected: Vec<usize>, got: Vec<usize> },
    #[error(
        "the tokenizer has {tokenizer} tokens but the embedding only {embedding} rows; the files do not belong together"
    )]
    TokenizerTooLarge { tokenizer: usize, embedding: usize },
    #[error(transparent)]
    Adapter(#[from] AdapterError),
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// The first names of a list, and how many more there are.
fn shown(names: &[String]) -> String {
    const SHOWN_MAX: usize = 6;
    let mut text = names.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN_MAX {
        text.push_str(&format!(" and {} more", names.len() - SHOWN_MAX));
    }
    text
}
