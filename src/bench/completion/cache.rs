//! Answers kept on disk, so that a slow peer is asked once.
//!
//! # Place
//! Part of `bench::completion`.
//! # Shapes and units
//! JSON lines: a head with the tool, its version and the hash of the positions file, then one
//! [`Outcome`] for each position, in order, written as they come.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{CompletionBenchError, Outcome, Positions};

/// Who answered what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheHead {
    pub tool: String,
    pub version: String,
    pub positions_sha256: String,
}

/// Writes a head and then outcomes.
pub struct CacheWriter {
    path: PathBuf,
    out: BufWriter<File>,
}

impl CacheWriter {
    /// Begin a new file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(path: &Path, head: &CacheHead) -> Result<Self, CompletionBenchError> {
        let file = File::create(path).map_err(|problem| CompletionBenchError::File {
            what: "write",
            path: path.to_owned(),
            problem,
        })?;
        let mut writer = Self { path: path.to_owned(), out: BufWriter::new(file) };
        writer.line(head)?;
        Ok(writer)
    }

    /// Append one outcome.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(&mut self, outcome: &Outcome) -> Result<(), CompletionBenchError> {
        self.line(outcome)
    }

    fn line(&mut self, value: &impl Serialize) -> Result<(), CompletionBenchError> {
        let mut line = serde_json::to_vec(value).expect("plain data always serialises");
        line.push(b'\n');
        let written = self.out.write_all(&line).and_then(|()| self.out.flush());
        written.map_err(|problem| CompletionBenchError::File {
            what: "write",
            path: self.path.clone(),
            problem,
        })
    }
}

/// Read kept outcomes. A last line that was cut off is as if it was not there.
///
/// # Errors
/// When the file cannot be read, a line is damaged, or the answers are for other positions.
pub fn read_cache(
    path: &Path,
    positions: &Positions,
) -> Result<(CacheHead, Vec<Outcome>), CompletionBenchError> {
    let cannot =
        |problem| CompletionBenchError::File { what: "read", path: path.to_owned(), problem };
    let mut lines = BufReader::new(File::open(path).map_err(cannot)?).lines();
    let damaged = |line, what, problem: serde_json::Error| CompletionBenchError::Line {
        path: path.to_owned(),
        line,
        what,
        problem: problem.to_string(),
    };
    let first = lines.next().transpose().map_err(cannot)?.unwrap_or_default();
    let head: CacheHead = serde_json::from_str(&first).map_err(|e| damaged(1, "head", e))?;
    if head.positions_sha256 != positions.sha256 {
        return Err(CompletionBenchError::OtherPositions { path: path.to_owned() });
    }
    let mut outcomes = Vec::new();
    for (i, line) in lines.enumerate() {
        let line = line.map_err(cannot)?;
        match serde_json::from_str(&line) {
            Ok(outcome) => outcomes.push(outcome),
            Err(e) if e.is_eof() => break,
            Err(e) => return Err(damaged(i + 2, "outcome", e)),
        }
    }
    Ok((head, outcomes))
}
