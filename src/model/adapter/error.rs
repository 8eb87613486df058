//! Why an adapter cannot be used.
//!
//! # Place
//! Part of `model`.

/// One adapter and what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("adapter '{name}': {problem}")]
pub struct AdapterError {
    pub name: String,
    #[source]
    pub problem: AdapterProblem,
}

/// What is wrong with an adapter.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdapterProblem {
    #[error("adapter_config.json lacks '{key}'")]
    MissingKey { key: &'static str },
    #[error("adapter_config.json has {key} = {value}; {expected}")]
    BadValue { key: String, value: String, expected: &'static str },
    #[error("{what} is not supported; supported is LoRA with bias \"none\" (rsLoRA included)")]
    Unsupported { what: String },
    #[error(
        "the pattern {pattern:?} of {key} is not a regular expression that can be used: {problem}"
    )]
    BadPattern { key: &'static str, pattern: String, problem: String },
    #[error("target_modules names '{module}', which this model does not have; it has {known}")]
    UnknownModule { module: String, known: String },
    #[error("holds no tensors")]
    Empty,
    #[error("tensor '{tensor}' has no counterpart '{other}'; the file is damaged or incomplete")]
    HalfPair { tensor: String, other: String },
    #[error("tensor '{tensor}' has shape {got:?}; expected {expected}")]
    Shape { tensor: String, got: Vec<usize>, expected: String },
    #[error("tensor '{tensor}' has rank {got}, adapter_config.json says {expected}")]
    Rank { tensor: String, got: usize, expected: usize },
    #[error("the rank of '{tensor}' is {rank}; 1 to {max} are supported")]
    BadRank { tensor: String, rank: usize, max: usize },
    #[error(
        "tensor '{tensor}' holds {value} at element {at}; the training diverged, or the file is damaged"
    )]
    NotFinite { tensor: String, value: f32, at: usize },
    #[error(
        "does not fit this model: {matched} of {total} tensors match; the first that does not is '{tensor}': {why}"
    )]
    DoesNotFit { matched: usize, total: usize, tensor: String, why: String },
    #[error(
        "is incomplete: target_modules asks for {expected} modules of this model and {found} are there; the first that is missing is '{module}'"
    )]
    Incomplete { expected: usize, found: usize, module: String },
    #[error("token {token} is trained but the file has no row for it in '{tensor}'")]
    NoRow { token: u32, tensor: String },
    #[error("token {token} is beyond the {max} tokens that a vocabulary may have")]
    TokenTooLarge { token: u32, max: usize },
    #[error(
        "replaces '{module}' whole, which cannot be done for single requests; merge it into the weights with --merge"
    )]
    NeedsMerge { module: String },
    #[error("general.type is {found:?}, expected \"adapter\"; this is not an adapter file")]
    NotAnAdapter { found: String },
    #[error("was made for the architecture {adapter}, the model is {model}")]
    OtherArchitecture { adapter: String, model: &'static str },
    #[error("the metadata lacks '{key}'")]
    MissingMetadata { key: &'static str },
    #[error(
        "the scale {scale} is not a number that can be used; expected one between -1000 and 1000"
    )]
    BadScale { scale: f32 },
}
