//! The project as SQL tables: CoCoGen's six, and richer ones.
//!
//! # Place
//! Uses outlines, scopes and inference. The database is made from a snapshot and read only afterwards.
//! # Sources
//! CoCoGen: Bi et al. 2024, arXiv:2403.16792, table 13 (the six tables of the project database).

mod error;
mod fill;
mod query;
mod schema;
#[cfg(test)]
mod tests;

pub use error::TableError;
pub use fill::{Database, References};
pub use query::{Cell, QueryLimits, Rows};
pub use schema::{Column, TABLES, Table, schema_markdown};
