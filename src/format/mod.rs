//! Model files: GGUF and safetensors → names, element types, shapes, byte ranges, metadata.
//!
//! # Place
//! Uses `base`. Used by `tokenizer` (metadata), `model` (tensors) and `runtime` (finding and checking
//! files). Does not know what a tensor means, nor any arithmetic on its elements.
//! # Invariants
//! - A file is an input like any other: every length is checked by subtraction against what is left,
//!   no count from a file reserves memory, and what is wrong is named in one error.
//! - Tensors are never copied: a [`TensorView`] borrows the mapped file.
//! # Errors
//! [`FormatError`]: the file and one [`FormatProblem`].

mod digest;
mod error;
mod gguf;
mod map;
mod safetensors;
mod tensor;

pub use digest::{Fingerprint, Sha256Hex, fingerprint_file, sha256_file};
pub use error::{FormatError, FormatProblem};
pub use gguf::{Array, GgufFile, MetaValue, Metadata, Value, ValueType, stream_gguf, write_gguf};
pub use map::FileMap;
pub use safetensors::Safetensors;
pub use tensor::{TensorView, Tensors};
