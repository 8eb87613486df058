//! GGUF: one file with metadata and tensors, versions 2 and 3, little-endian.
//!
//! # Place
//! Part of `format`.
//! # Sources
//! GGUF specification (ggml repository, `docs/gguf.md`, read 2026-11), as facts.

mod cursor;
mod element;
mod file;
mod metadata;
mod write;

#[cfg(test)]
mod tests;

pub use file::GgufFile;
pub use metadata::{Array, Metadata, Value, ValueType};
pub use write::{MetaValue, stream_gguf, write_gguf};
