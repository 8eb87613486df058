//! What can go wrong between text and ids.
//!
//! # Place
//! Part of `tokenizer`.

use std::path::PathBuf;

use crate::format::FormatError;

/// A tokenizer could not be made or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{} is not what it should be: {problem}", path.display())]
    BadFile { path: PathBuf, problem: String },
    #[error(
        "the tokenizer model {name:?} (tokenizer.ggml.model) is not supported; supported are gpt2, llama"
    )]
    UnknownModel { name: String },
    #[error(
        "the text splitter {name:?} (tokenizer.ggml.pre) is not supported, and another one would silently give wrong tokens; supported are {supported}"
    )]
    UnknownSplitter { name: String, supported: String },
    #[error(
        "the file does not name its text splitter (tokenizer.ggml.pre); it was written by an old converter, convert it again"
    )]
    NoSplitter,
    #[error("the tokenizer has {n} entries of {what}, but {n_tokens} tokens")]
    WrongLength { what: &'static str, n: usize, n_tokens: usize },
    #[error("the vocabulary has {n} tokens; from 1 to {max} are accepted")]
    VocabularySize { n: usize, max: usize },
    #[error("token {id} has type {got} (tokenizer.ggml.token_type), expected 1 to 6")]
    BadTokenType { id: usize, got: i64 },
    #[error("{what} is token {id}, but the vocabulary has {n_tokens} tokens")]
    NoSuchToken { what: String, id: u64, n_tokens: usize },
    #[error("merge {index} is {merge:?}, expected two pieces with one space between them")]
    BadMerge { index: usize, merge: String },
    #[error("the byte-pair merges do not fit the vocabulary: {problem}")]
    BadMerges { problem: String },
    #[error("the token {text:?} cannot be added under the id {id}: {problem}")]
    BadAddedToken { text: String, id: u32, problem: String },
    #[error("the text cannot be encoded: {problem}")]
    Encode { problem: String },
    #[error(
        "the tokenizer has {n_tokens} tokens, but the model only {rows} embedding rows; the files do not belong together"
    )]
    LargerThanEmbedding { n_tokens: usize, rows: usize },
    #[error(
        "no token of the vocabulary is exactly {byte:?}, so text with it cannot be constrained; use --guide off"
    )]
    Uncovered { byte: char },
    #[error(
        "the model has no chat template and its vocabulary is not of a known kind; use a plain prompt"
    )]
    NoChatTemplate,
    #[error(transparent)]
    BadTemplate(#[from] BrokenTemplate),
    #[error("the chat template ({origin}) refuses these messages: {problem}")]
    Refused { origin: &'static str, problem: String },
}

/// A chat template that cannot be used. Only a conversation needs it: the tokenizer loads all the same.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the chat template ({origin}) is not valid: {problem}; use a plain prompt")]
pub struct BrokenTemplate {
    pub origin: &'static str,
    pub problem: String,
}
