//! An inference engine for LLaMA-style code models that keeps what a model writes tied to names that
//! really exist in the user's repository.
//!
//! # Place
//! The folders and the one direction of their arrows are described in `ARCHITECTURE.md` and checked
//! by `tests/tidy.rs`: a folder uses only folders with a lower number.

pub mod base;
pub mod bench;
pub mod cli;
pub mod complete;
pub mod constrain;
pub mod device;
pub mod engine;
pub mod format;
pub mod kv;
pub mod model;
pub mod profile;
pub mod repo;
pub mod runtime;
pub mod sandbox;
pub mod tokenizer;
