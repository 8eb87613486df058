//! What can go wrong while data is made.
//!
//! # Place
//! Part of `augment`.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AugmentError {
    #[error("cannot read the repository {path}: {reason}")]
    Repository { path: PathBuf, reason: String },

    #[error("the tool for {path} did not start: {reason}")]
    Tool { path: PathBuf, reason: String },

    #[error("{path} is no record of answers: {reason}")]
    Recorded { path: PathBuf, reason: String },

    #[error("no function was found in {n_repos} repositories; expected folders with Python files")]
    NoFunctions { n_repos: usize },

    #[error("{n_found} functions were found and every one was refused ({by_rule})")]
    AllRefused { n_found: usize, by_rule: String },

    #[error(
        "cannot write {path}: {source}; what is finished stays, run the same command again to go on"
    )]
    Write { path: PathBuf, source: std::io::Error },

    #[error("cannot read {path}: {reason}; delete it and run the same command again")]
    Shard { path: PathBuf, reason: String },

    #[error("{path} holds other files; name an empty folder, or one that an earlier run wrote")]
    ForeignFolder { path: PathBuf },

    #[error(
        "{path} holds data that was made with other settings ({what}); name another folder, or overwrite it with --force"
    )]
    OtherSettings { path: PathBuf, what: String },

    #[error("the trigger '{trigger}' {reason}")]
    BadTrigger { trigger: String, reason: &'static str },
}
