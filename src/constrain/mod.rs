//! Constrained decoding: which tokens may follow, decided on bytes.
//!
//! # Place
//! Uses `base`. Driven by `engine`; `runtime` answers its questions. Sans-IO: bytes and answers come
//! in, masks and questions go out. Does not know completion tools, devices, files or threads.
//! # Invariants
//! - Every state belongs to one sequence, can be cloned and taken back.
//! - Unknown is not empty: only an answer that is `Closed` forbids a token.
//! - Nothing allowed is an explicit dead end with a reason, never an empty distribution.

mod beam;
mod both;
mod candidate_tree;
mod constraint;
mod distribution;
mod error;
mod gbnf;
mod grammar;
mod grammar_constraint;
mod identifier;
mod lead;
mod lexer;
mod mask;
mod monitor;
mod name;
mod name_store;
mod paper;
mod place;
mod reading;
mod record;
mod repetition;
mod schema;
mod skipped;
mod token_tree;
mod token_trie;
mod trigger;
mod vocabulary;

pub use beam::NameBeam;
pub use both::Both;
pub use candidate_tree::{CandidateTree, Normalisation, ScoredName, Scores};
pub use constraint::{AskAt, Constraint, DeadEnd, GuideReport, Need, Verdict};
pub use distribution::Distribution;
pub use error::ConstraintError;
pub use grammar::{GrammarCompiler, GrammarSource};
pub use grammar_constraint::GrammarConstraint;
pub use lead::Lead;
pub use lexer::PythonLexer;
pub use mask::TokenMask;
pub use monitor::{Monitor, MonitorLevels};
pub use name::{NameAutomaton, NameSet, NameStart, NameState, NameStep};
pub use name_store::NameStore;
pub use paper::{Encode, PAPER_CONFIDENCE, PaperCache, PaperConfig, PaperGuide};
pub use record::{Chance, GuideEvent, GuideStats, PlaceKind};
pub use skipped::is_skipped;
pub use token_tree::{TokenTree, TreeNode};
pub use token_trie::TokenTrie;
pub use trigger::TriggerGuide;
pub use vocabulary::Vocabulary;

#[cfg(test)]
mod tests;
