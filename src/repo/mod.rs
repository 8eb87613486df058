//! The Python project database.
//!
//! # Place
//! Uses `base`.

mod check;
mod cursor;
mod environment;
mod error;
mod file;
#[allow(dead_code)] // facts that the checker and the queries are going to read
mod infer;
mod layout;
mod library;
mod locate;
mod name;
mod outline;
mod project;
#[allow(dead_code)] // as above
mod scope;
mod session;
mod source;
mod symbol;
#[allow(dead_code)] // the tree keeps what the checker and the queries are going to read
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
