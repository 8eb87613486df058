//! What can be wrong with a model file.
//!
//! # Place
//! Part of `format`.

use std::path::{Path, PathBuf};

use super::gguf::ValueType;

/// One file and what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct FormatError {
    pub path: PathBuf,
    #[source]
    pub problem: FormatProblem,
}

impl FormatError {
    pub(super) fn new(path: &Path, problem: impl Into<FormatProblem>) -> Self {
        Self { path: path.to_owned(), problem: problem.into() }
    }
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatProblem {
    #[error("cannot be read: {0}")]
    Io(#[from] std::io::Error),
    #[error(
        "is a Git LFS pointer, not the model itself; run `git lfs pull` in its repository, or download the file again"
    )]
    LfsPointer,
    #[error("is not a GGUF file: it begins with {begin:?}, expected \"GGUF\"")]
    NotGguf { begin: String },
    #[error("has GGUF version {version}; versions 2 and 3 are supported{hint}")]
    Version { version: u32, hint: &'static str },
    #[error(
        "ends inside {what}: {need} bytes needed at offset {at}, {left} left; the download is incomplete or the file is damaged"
    )]
    Truncated { what: String, at: u64, need: u64, left: u64 },
    #[error("says that it has {got} {what}; at most {max} are accepted")]
    TooMany { what: &'static str, got: u64, max: u64 },
    #[error("{what} is {got} bytes long; at most {max} are accepted")]
    TooLong { what: String, got: u64, max: u64 },
    #[error("{what} is not UTF-8")]
    NotUtf8 { what: String },
    #[error("has {what} {name:?} twice")]
    Duplicate { what: &'static str, name: String },
    #[error(
        "metadata {key:?} has the unknown value type {id}; the file is damaged or newer than this program"
    )]
    UnknownValueType { key: String, id: u32 },
    #[error("metadata {key:?} is an array of arrays, which is not supported")]
    NestedArray { key: String },
    #[error("metadata {key:?} is a truth value stored as {got}, expected 0 or 1")]
    BadBool { key: String, got: u8 },
    #[error("metadata {key:?} has type {found}, expected {expected}")]
    WrongType { key: String, expected: &'static str, found: ValueType },
    #[error(
        "metadata {key:?} is missing; the file was written by an incomplete converter, convert it again"
    )]
    MissingKey { key: String },
    #[error("metadata \"general.alignment\" is {got}, expected a power of two from 1 to {max}")]
    BadAlignment { got: u64, max: u64 },
    #[error(
        "tensor {tensor:?} has type {found}, which is not supported; supported are {supported}"
    )]
    UnsupportedType { tensor: String, found: String, supported: &'static str },
    #[error("tensor {tensor:?} has {got} dimensions; at most {max} are accepted")]
    TooManyDims { tensor: String, got: u64, max: u64 },
    #[error("tensor {tensor:?} has the impossible shape {shape:?} for {dtype}: {why}")]
    BadShape { tensor: String, shape: Vec<u64>, dtype: String, why: &'static str },
    #[error(
        "tensor {tensor:?} begins at offset {offset}, which is not a multiple of the alignment {alignment}"
    )]
    Misaligned { tensor: String, offset: u64, alignment: u64 },
    #[error(
        "tensor {tensor:?} needs bytes {start} to {end} of the data, which has {have}; the download is incomplete or the file is damaged"
    )]
    OutOfRange { tensor: String, start: u64, end: u64, have: u64 },
    #[error("tensor {tensor:?} takes {got} bytes, its type and shape need {need}")]
    WrongSize { tensor: String, got: u64, need: u64 },
    #[error("tensors {first:?} and {second:?} overlap")]
    Overlap { first: String, second: String },
    #[error(
        "has {bytes} bytes that belong to no tensor {place}; the file is damaged or was joined with another"
    )]
    StrayBytes { bytes: u64, place: String },
    #[error("{what} is not what it should be: {problem}")]
    BadJson { what: String, problem: String },
    #[error("shard {shard:?} is missing; download all {n_shards} files of the model")]
    MissingShard { shard: String, n_shards: usize },
    #[error("the index names the shard {shard:?}, which is not a plain file name")]
    BadShardName { shard: String },
    #[error("the index says that tensor {tensor:?} is in shard {shard:?}, where it is not")]
    NotInShard { tensor: String, shard: String },
    #[error("contains no .safetensors file")]
    NoSafetensors,
}
