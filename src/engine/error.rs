//! Why a request is refused or an engine stops.
//!
//! # Place
//! Part of `engine`.

use crate::device::DeviceError;
use crate::kv::KvError;

/// A request that cannot run, or a device that no longer does.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    #[error("the prompt is empty; at least one token is needed to begin")]
    EmptyPrompt,
    #[error(
        "the prompt has {prompt_tokens} tokens and {wanted_tokens} more were asked for, but the context holds {context_tokens}; shorten the prompt or ask for fewer tokens"
    )]
    ContextOverflow { prompt_tokens: usize, wanted_tokens: usize, context_tokens: usize },
    #[error(
        "the request may need {need_tokens} tokens of key/value cache, but the whole cache holds {cache_tokens}; raise --kv-tokens"
    )]
    CacheTooSmall { need_tokens: usize, cache_tokens: usize },
    #[error("{name} is {value}; expected {expected}")]
    BadParameter { name: &'static str, value: String, expected: &'static str },
    #[error("token {token} is not in the vocabulary of {vocab} tokens")]
    NoSuchToken { token: u32, vocab: usize },
    #[error("the request names an adapter, but only {n_adapters} are loaded")]
    NoSuchAdapter { n_adapters: usize },
    #[error(transparent)]
    Cache(#[from] KvError),
    #[error(transparent)]
    Device(#[from] DeviceError),
}
