//! The static checker: pylint's errors that CoCoGen and ToolGen use, found with the project database.
//!
//! # Place
//! Uses the rest of `repo`. Its [`Finding`] is also what the adapter of real pylint gives.
//! # Invariants
//! - A finding is reported only when the opposite is ruled out: unresolved imports, dynamic attributes,
//!   values that are not known and bounds that are hit all silence a check.
//! - A file that does not parse has one finding, E0001: what is behind an error is a guess.
//! # Sources
//! Message ids and symbols: pylint 4.1 user guide, messages overview (read 2026-11-30).

mod argument;
mod definition;
mod finding;
mod import;
mod inspect;
mod member;
mod message;
mod name;
mod run;
mod sarif;
mod suppress;
#[cfg(test)]
mod tests;
mod value;

pub use finding::{Finding, quoted};
pub use message::{Message, MessageSet, messages_markdown};
pub use run::{CheckConfig, CheckReport, Heed, check};
pub use sarif::to_sarif;
