//! One line of the data.
//!
//! # Place
//! Part of `augment`.
//! # Sources
//! Field names of the published data where it has one: `file_path`, `function_name`, `code`,
//! `augmented_code`, `lsp_dict`, `docstring`, `signature`, `prefix`, `body`, `augmented_prefix`,
//! `augmented_body`, `context`, `line`, `column`.

use super::example::Rejection;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A function with and without triggers, in the forms that trainers read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub repo: String,
    /// From the repository's root, with `/`.
    pub file_path: String,
    pub function_name: String,
    /// Of `def`, from 1.
    pub line: u32,
    /// Of `def`, from 0, in characters.
    pub column: u32,
    /// As written, quotes included.
    pub docstring: String,
    /// The first sentence of the documentation.
    pub description: String,
    /// Without `def` and without the colon.
    pub signature: String,
    /// The cleaned function.
    pub code: String,
    /// The same with numbered markers.
    pub augmented_code: String,
    pub prefix: String,
    pub body: String,
    pub augmented_prefix: String,
    pub augmented_body: String,
    /// Of [`Record::augmented_body`].
    pub n_triggers: usize,
    /// Marker → the names that were offered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lsp_dict: Option<BTreeMap<String, Vec<String>>>,
    /// The file, with `<PLACEHOLDER>` for the function.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub context: Option<String>,
    /// The rule that refused the function.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rejected: Option<Rejection>,
    /// What an instruction model is asked, and the whole function that it should answer with.
    pub instruction: String,
    pub completion: String,
}
