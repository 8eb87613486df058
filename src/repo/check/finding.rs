//! One finding: what is wrong, where, and the names it is about.
//!
//! # Place
//! The output of every check, ours and pylint's.

use super::message::Message;
use crate::base::LineCol;
use std::path::PathBuf;

/// Something that a check is sure of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub path: PathBuf,
    pub start: LineCol,
    /// Just after the last character.
    pub end: LineCol,
    pub message: Message,
    /// The module it is in, dotted; empty when the file belongs to none.
    pub module: String,
    /// The function or class around it, dotted; empty at module level.
    pub object: String,
    /// One sentence; names are quoted.
    pub text: String,
    /// The names that the text quotes, in order: for E1101 the owner, then the member.
    pub names: Vec<String>,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}:{}:{}: {}: {} ({})",
            self.path.display(),
            self.start.line,
            self.start.col,
            self.message.id(),
            self.text,
            self.message.symbol()
        )
    }
}

/// The parts of a text in single quotes.
pub fn quoted(text: &str) -> Vec<String> {
    text.split('\'').skip(1).step_by(2).map(str::to_owned).collect()
}
