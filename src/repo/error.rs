//! What can go wrong with a repository as a whole. Faults of single files are data, not errors.
//!
//! # Place
//! Returned by [`super::Project`].

use std::path::PathBuf;

/// Why a project could not be opened or a symbol not be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepoError {
    #[error("{path} is not a directory that can be read: {reason}; give the root of a Python project", path = path.display())]
    NotADirectory { path: PathBuf, reason: String },
    #[error("no Python file below {path}; give the root of a Python project or its source roots", path = path.display())]
    NoPython { path: PathBuf },
    #[error("no symbol {symbol}; {}", nearest_text(nearest))]
    NoSuchSymbol { symbol: String, nearest: Vec<String> },
    #[error("{symbol} does not name a function: write it as package.module:Class.method")]
    BadSymbol { symbol: String },
    #[error("{path} is not part of the project: {reason}", path = path.display())]
    NoSuchFile { path: PathBuf, reason: String },
    #[error("no function around line {line} of {path}", path = path.display())]
    NoFunctionAt { path: PathBuf, line: u32 },
}

fn nearest_text(nearest: &[String]) -> String {
    if nearest.is_empty() {
        return "nothing has a similar name".to_owned();
    }
    format!("nearest: {}", nearest.join(", "))
}

/// Why a file was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// Holds NUL bytes.
    Binary,
    TooLarge {
        n_bytes: u64,
    },
    /// Not valid in the encoding that it names (or UTF-8, when it names none).
    Undecodable {
        encoding: String,
    },
    Unreadable {
        reason: String,
    },
    /// A FIFO, socket or device.
    NotAFile,
    /// Was there when its folder was listed and is not any more.
    Vanished,
    /// A link that leads to a folder that is read already, or nowhere, or out of the project.
    Link {
        reason: &'static str,
    },
    TooManyFiles {
        n_max: usize,
    },
}

impl std::fmt::Display for SkipReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Binary => f.write_str("binary (NUL bytes)"),
            Self::TooLarge { n_bytes } => write!(f, "too large ({n_bytes} bytes)"),
            Self::Undecodable { encoding } => write!(f, "not valid {encoding}"),
            Self::Unreadable { reason } => write!(f, "unreadable: {reason}"),
            Self::NotAFile => f.write_str("not a regular file"),
            Self::Vanished => f.write_str("vanished while reading"),
            Self::Link { reason } => write!(f, "link: {reason}"),
            Self::TooManyFiles { n_max } => write!(f, "more than {n_max} files"),
        }
    }
}

/// A file that was left out, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    pub path: PathBuf,
    pub reason: SkipReason,
}
