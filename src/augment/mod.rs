//! Trigger insertion: from repositories to data that a model is fine-tuned on.
//!
//! # Place
//! Uses `repo`, the words that `constrain` skips and, through the port in `base`, any completion tool. Used by
//! `runtime` and `cli`. Does not run a model.
//! # Invariants
//! - The same repositories and settings give the same files, whatever the number of threads.
//! - Every function that is found is either in the data or counted under the one rule that refused it.
//! - What is on disk is whole: files are written beside their place and renamed. A run that was killed goes
//!   on from its last shard.
//! # Sources
//! ToolGen, Wang et al. 2024, arXiv:2401.06391 (its program's rules are [`Mode::Compat`]); Jaccard similarity of shingles by MinHash: Broder 1997.

mod clean;
mod error;
mod example;
mod folder;
mod function;
mod insert;
mod items;
mod publish;
mod record;
mod recorded;
mod shard;
mod similar;
mod source;
mod split;
mod tally;
#[cfg(test)]
mod tests;

pub use error::AugmentError;
pub use example::Rejection;
pub use folder::claim;
pub use function::prompt;
pub use publish::{Published, publish};
pub use record::Record;
pub use recorded::Recorded;
pub use shard::{OpenTool, Progress, augment};
pub use split::SplitConfig;
pub use tally::{Difference, Statistics, Tally};

use serde::Serialize;

/// Whose rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The published program's, quirks included, so that data can be compared.
    Compat,
    /// The same idea without the quirks: positions stay right after a string of several lines, overriding
    /// methods and async functions are kept, only documentation is cut, keyword names count.
    Strict,
}

impl std::str::FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "compat" => Ok(Self::Compat),
            "strict" => Ok(Self::Strict),
            _ => Err(format!("'{text}' is no mode; expected strict or compat")),
        }
    }
}

/// How data is made. It is part of every shard's identity: another setting, other shards.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AugmentConfig {
    pub mode: Mode,
    /// What is put before a name that the tool knows.
    pub trigger: String,
    /// Name of the tool, for the record.
    pub tool: String,
    /// Name of a second tool whose answers are compared, if any.
    pub compare: Option<String>,
    /// Projects with more Python files are left out whole.
    pub files_max: Option<usize>,
    pub file_lines_max: usize,
    /// Of the cleaned function.
    pub function_lines_max: usize,
    pub items_max: usize,
    /// Tokens of the cleaned function, when there is somebody to count them.
    pub tokens_max: Option<usize>,
    /// The names that were offered go into the records.
    pub keep_candidates: bool,
    /// The file around the function goes into the records.
    pub keep_context: bool,
    /// Functions that a rule refused are written too, to a file of their own.
    pub keep_rejected: bool,
    /// Deadline of one question.
    pub call_ms_max: u64,
    /// At most this many functions of a repository, drawn by the seed.
    pub functions_max: Option<usize>,
    pub seed: u64,
}

impl AugmentConfig {
    /// The published limits in [`Mode::Compat`]; in [`Mode::Strict`] those that only spare memory are wider.
    pub fn new(mode: Mode) -> Self {
        let is_compat = mode == Mode::Compat;
        Self {
            mode,
            trigger: if is_compat { "<lsp>" } else { "<COMP>" }.to_owned(),
            tool: "native".to_owned(),
            compare: None,
            files_max: is_compat.then_some(500),
            file_lines_max: if is_compat { 1000 } else { 5000 },
            function_lines_max: 50,
            items_max: 512,
            tokens_max: None,
            keep_candidates: is_compat,
            keep_context: false,
            keep_rejected: false,
            call_ms_max: 10_000,
            functions_max: None,
            seed: 42,
        }
    }
}
