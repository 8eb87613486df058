//! The decoder of the LLaMA family: configuration, weights, and one step over a batch of rows.
//!
//! # Place
//! Uses `base`, `format` (tensors by name), `device` (operations) and `kv` (block tables, as plain
//! slices in a step). Used by `engine`. Does not open paths, does not sample, and does not know which
//! device it runs on.
//! # Invariants
//! - One decoder serves every architecture: what differs between them is configuration.
//! - An architecture, rope scaling or activation that is not known is refused by name; nothing is guessed.
//! # Sources
//! LLaMA: Touvron et al. 2023, arXiv:2302.13971; grouped-query attention: Ainslie et al. 2023,
//! arXiv:2305.13245; rotary embedding: Su et al. 2021, arXiv:2104.09864; sliding windows: Jiang et al.
//! 2023, arXiv:2310.06825.

mod adapter;
mod beside;
mod config;
mod config_gguf;
mod config_hf;
mod decoder;
mod error;
mod part;
mod rope;
mod weights;

#[cfg(test)]
mod tests;

pub use adapter::{Adapter, AdapterError, AdapterProblem, Merged, PeftConfig};
pub use config::{Architecture, ModelConfig, RopeConfig, RopeScaling};
pub use decoder::{AdapterId, AdapterRows, Decoder, DecoderLimits, StepInput};
pub use error::ModelError;
