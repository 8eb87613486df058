//! The sampled positions and the text that a tool is shown at each.
//!
//! # Place
//! Part of `bench::completion`. `scripts/eval/positions.py` writes the file that is read here.
//! # Shapes and units
//! Offsets are bytes of the file as it is on disk.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::CompletionBenchError;

/// What kind of name stands at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PositionKind {
    /// After a dot.
    Member,
    /// A name that is read.
    Name,
    /// The name of a keyword argument.
    Keyword,
}

/// Whether the name is read, bound or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NameContext {
    Load,
    Store,
    Del,
}

/// One identifier of real code, with the function it stands in.
#[derive(Clone, Debug, Deserialize)]
pub struct Position {
    pub package: String,
    /// Relative to the folder of projects; its first component is the project.
    pub file: PathBuf,
    pub offset_byte: usize,
    pub kind: PositionKind,
    pub ctx: NameContext,
    /// The identifier that really stands there.
    pub name: String,
    /// The receiver is of a class of the project: `self`, a class name, a new instance.
    pub own_class: bool,
    /// The name is bound in the function, but only after the cursor.
    pub forward: bool,
    pub function: String,
    /// First byte of the function and the byte after its last.
    pub span_byte: (usize, usize),
}

/// Positions in the order of their file, and a hash that names the file's content.
#[derive(Clone, Debug)]
pub struct Positions {
    pub positions: Vec<Position>,
    pub sha256: String,
}

impl Positions {
    /// Read a file of JSON lines.
    ///
    /// # Errors
    /// When it cannot be read or a line is not a position.
    pub fn read(path: &Path) -> Result<Self, CompletionBenchError> {
        let text = fs::read_to_string(path).map_err(|problem| CompletionBenchError::File {
            what: "read the positions",
            path: path.to_owned(),
            problem,
        })?;
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let parse = |(i, line): (usize, &str)| {
            serde_json::from_str(line).map_err(|problem| CompletionBenchError::Line {
                path: path.to_owned(),
                line: i + 1,
                what: "position",
                problem: problem.to_string(),
            })
        };
        let digest = Sha256::digest(text.as_bytes());
        Ok(Self {
            positions: lines.map(parse).collect::<Result<_, _>>()?,
            sha256: digest.iter().map(|b| format!("{b:02x}")).collect(),
        })
    }

    /// The packages, each once, in order.
    pub fn packages(&self) -> Vec<&str> {
        let mut packages: Vec<&str> = Vec::new();
        for position in &self.positions {
            if !packages.contains(&position.package.as_str()) {
                packages.push(&position.package);
            }
        }
        packages
    }
}

/// The file with the function cut at the cursor: what stands after the function stays.
pub(super) struct Overlay {
    pub path: PathBuf,
    pub text: String,
}

impl Overlay {
    /// The text for `position`, with the cursor at its `offset_byte`.
    pub(super) fn new(projects: &Path, position: &Position) -> Result<Self, CompletionBenchError> {
        let path = projects.join(&position.file);
        let whole = fs::read_to_string(&path).map_err(|problem| CompletionBenchError::File {
            what: "read",
            path: path.clone(),
            problem,
        })?;
        let (offset, end) = (position.offset_byte, position.span_byte.1);
        let parts = (whole.get(..offset), whole.get(offset..end), whole.get(end..));
        let (Some(before), Some(cut), Some(after)) = parts else {
            return Err(stale(path, position));
        };
        if !cut.starts_with(position.name.as_str()) {
            return Err(stale(path, position));
        }
        let text = format!("{before}{after}");
        Ok(Self { path, text })
    }
}

fn stale(path: PathBuf, position: &Position) -> CompletionBenchError {
    CompletionBenchError::Stale { path, name: position.name.clone(), offset: position.offset_byte }
}
