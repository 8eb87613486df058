//! Constrained decoding: which tokens may follow, decided on bytes.
//!
//! # Place
//! Uses `base`. Driven by `engine`; `runtime` answers its questions. Sans-IO: bytes and answers come
//! in, masks and questions go out. Does not know completion tools, devices, files or threads.
//! # Invariants
//! - Every state belongs to one sequence, can be cloned and taken back.
//! - Unknown is not empty: only an answer that is `Closed` forbids a token.
//! - Nothing allowed is an explicit dead end with a reason, never an empty distribution.

mod constraint;
mod error;
mod gbnf;
mod grammar;
mod grammar_constraint;
mod identifier;
mod lexer;
mod mask;
mod monitor;
mod name;
mod name_store;
mod place;
mod record;
mod repetition;
mod token_trie;
mod vocabulary;

pub use constraint::{AskAt, Constraint, DeadEnd, GuideReport, Need, Verdict};
pub use error::ConstraintError;
pub use grammar::{GrammarCompiler, GrammarSource};
pub use grammar_constraint::GrammarConstraint;
pub use lexer::PythonLexer;
pub use mask::TokenMask;
pub use monitor::{Monitor, MonitorLevels};
pub use name::{NameAutomaton, NameSet, NameStart, NameState, NameStep};
pub use name_store::NameStore;
pub use record::{GuideEvent, GuideStats, PlaceKind};
pub use token_trie::TokenTrie;
pub use vocabulary::Vocabulary;

#[cfg(test)]
mod tests;
