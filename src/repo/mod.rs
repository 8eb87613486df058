//! The Python project database.
//!
//! # Place
//! Uses `base`.

mod cursor;
mod environment;
mod error;
mod file;
mod infer;
mod layout;
mod library;
mod name;
mod project;
#[cfg(test)]
mod replay;
mod scope;
mod session;
mod source;
mod symbol;
mod syntax;

#[cfg(test)]
mod tests;

pub use cursor::name_start;
pub use environment::{Environment, PythonChoice};
pub use error::{RepoError, SkipReason, Skipped};
pub use project::{IndexReport, Project, ProjectConfig, Snapshot};
pub use session::Session;
pub use symbol::FunctionInfo;
