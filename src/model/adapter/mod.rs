//! Adapters (LoRA): what their files say, whether they fit a model, and how they change it: merged into the
//! weights while loading, or beside them for the requests that name one.
//!
//! # Place
//! Part of `model`. Tensors come from `format`, terms go to `device`; `runtime` opens the files. Does not
//! know paths, requests or how a token is spelled.
//! # Invariants
//! - Every tensor of an adapter is used, or it is refused with a count of those that fit.
//! - Terms per request and merged weights are made of the same numbers, in f32.
//! - Rows of query and key are stored in another order in GGUF files of some architectures; terms are put
//!   into the order of the model that they are applied to.
//! # Shapes and units
//! A pair is `a [r, K]` and `b [R, r]`; what it adds is `scale · b (a x)`.
//! # Sources
//! LoRA: Hu et al. 2021, arXiv:2106.09685; rsLoRA: Kalajdzievski 2023, arXiv:2312.03732. Names and fields of the
//! files: what peft 0.21 and the converter of llama.cpp write, as facts.

mod bind;
mod config;
mod error;
mod file;
mod fit;
mod merge;
mod pattern;
mod table;

#[cfg(test)]
mod tests;

pub(super) use bind::BoundAdapter;
pub use config::PeftConfig;
pub use error::{AdapterError, AdapterProblem};
pub use file::Adapter;
pub use merge::Merged;
