//! Why a completion tool cannot be started.
//!
//! # Place
//! Part of `complete`. After a tool has started there are no errors: see [`crate::complete`].

use std::path::PathBuf;

/// A completion tool could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompleteError {
    #[error("cannot start {tool}: {program:?} {problem}; install it or give its full path")]
    CannotStart { tool: &'static str, program: PathBuf, problem: std::io::Error },
    #[error(
        "{python:?} has no module `jedi` ({problem}); run `{} -m pip install jedi`, or name an \
         interpreter that has it",
        python.display()
    )]
    NoJedi { python: PathBuf, problem: String },
    #[error(
        "jedi cannot use the interpreter {environment:?} ({problem}); give the python of the project's environment"
    )]
    Environment { environment: PathBuf, problem: String },
    #[error("{tool} did not get ready within {ms_max} ms; last heard: {heard}")]
    StartTimedOut { tool: String, ms_max: u64, heard: String },
    #[error("{tool} failed while starting: {problem}")]
    StartFailed { tool: String, problem: String },
    #[error("{tool} refused to be initialised: {problem}")]
    Refused { tool: String, problem: String },
    #[error("{tool} offers no completion; choose a language server that does")]
    NoCompletion { tool: String },
    #[error("the language server command {command:?} {problem}")]
    BadCommand { command: String, problem: &'static str },
}
