//! The Python project database.
//!
//! # Place
//! Uses `base`.

mod check;
mod cursor;
mod environment;
mod error;
mod file;
mod infer;
mod layout;
mod library;
mod locate;
mod name;
mod outline;
mod project;
mod scope;
mod session;
mod source;
mod symbol;
mod syntax;
mod tables;
mod validity;
mod walk;

#[cfg(test)]
mod tests;

pub use check::{
    CheckConfig, CheckReport, Finding, Heed, Message, MessageSet, check, messages_markdown, quoted,
    to_sarif,
};
pub use cursor::name_start;
pub use environment::{Environment, PythonChoice};
pub use error::{RepoError, SkipReason, Skipped};
pub use locate::Located;
pub use outline::{Definition, DefinitionKind};
pub use project::{IndexReport, Project, ProjectConfig, Snapshot};
pub use session::Session;
pub use symbol::FunctionInfo;
pub use tables::{
    Cell, Column, Database, QueryLimits, References, Rows, TABLES, Table, TableError,
    schema_markdown,
};
pub use validity::first_syntax_error;
