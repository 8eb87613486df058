//! What can go wrong between a statement and its rows.
//!
//! # Place
//! Part of the tables.

use std::path::PathBuf;

/// Why a database could not be made or asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    #[error("the statement is not understood: {problem}; {hint}")]
    BadStatement { problem: String, hint: String },
    #[error("only one statement that reads is accepted (SELECT, WITH, VALUES, EXPLAIN): {problem}")]
    NotReading { problem: String },
    #[error("the statement did not finish within {ms} ms; narrow it down or raise --timeout")]
    TooLong { ms: u64 },
    #[error("the statement fails: {problem}")]
    Failed { problem: String },
    #[error("cannot make the database {path}: {problem}", path = path.display())]
    Unwritable { path: PathBuf, problem: String },
    #[error("cannot make the tables: {problem}")]
    Fill { problem: String },
}
