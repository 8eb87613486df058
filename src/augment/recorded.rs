//! A tool that repeats answers which another one gave, so that what it said can be had without it.
//!
//! # Place
//! Part of `augment`; a [`CandidateSource`].
//! # Sources
//! The format of `scripts/golden/toolgen_augment.py --answers`, described at its head.

use super::AugmentError;
use crate::base::{
    Answer, Candidate, CandidateKind, CandidateSource, Candidates, LineIndex, Origin, Query,
};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

/// Answers by the text that was asked about (its SHA-256), line and column. A question that is not among them
/// has no names.
#[derive(Clone)]
pub struct Recorded {
    answers: Arc<HashMap<Asked, Arc<[String]>>>,
}

/// SHA-256, line from 1, column from 0.
type Asked = (String, u32, u32);

/// One function's questions.
#[derive(Deserialize)]
struct Function {
    lists: Vec<Vec<String>>,
    questions: Vec<Question>,
}

#[derive(Deserialize)]
struct Question {
    sha256: String,
    /// From 1.
    line: u32,
    /// From 0.
    column: u32,
    list: usize,
}

impl Recorded {
    /// Read a record: a line that says what it is, then one for each function.
    ///
    /// # Errors
    /// Files that cannot be read, lines that are no record.
    pub fn read(path: &Path) -> Result<Self, AugmentError> {
        let bad = |reason: String| AugmentError::Recorded { path: path.to_owned(), reason };
        let file = File::open(path).map_err(|e| bad(e.to_string()))?;
        let mut answers = HashMap::new();
        for (i, line) in BufReader::new(file).lines().enumerate() {
            let line = line.map_err(|e| bad(e.to_string()))?;
            if i == 0 {
                if !line.contains("\"toolgen-answers\"") {
                    return Err(bad("its first line does not say toolgen-answers".to_owned()));
                }
                continue;
            }
            let function: Function =
                serde_json::from_str(&line).map_err(|e| bad(format!("line {}: {e}", i + 1)))?;
            let lists: Vec<Arc<[String]>> = function.lists.into_iter().map(Arc::from).collect();
            for q in function.questions {
                let list = lists
                    .get(q.list)
                    .cloned()
                    .ok_or_else(|| bad(format!("line {}: there is no list {}", i + 1, q.list)))?;
                answers.insert((q.sha256, q.line, q.column), list);
            }
        }
        Ok(Self { answers: Arc::new(answers) })
    }
}

impl CandidateSource for Recorded {
    fn name(&self) -> &str {
        "recorded"
    }

    fn candidates(&mut self, query: &Query<'_>) -> Candidates {
        let hash: String = Sha256::digest(query.text).iter().map(|b| format!("{b:02x}")).collect();
        let at = LineIndex::new(query.text).position(query.text, query.offset);
        let Some(names) = self.answers.get(&(hash, at.line, at.col - 1)) else {
            return Candidates::unknown(query.offset, "this question was not recorded");
        };
        let candidate = |name: &String| {
            let kind = match name.ends_with('=') {
                true => CandidateKind::Keyword,
                false => CandidateKind::Unknown,
            };
            Candidate::new(name.as_str(), kind, Origin::Unknown)
        };
        let names = names.iter().map(candidate).collect();
        Candidates { answer: Answer::Open, names, start_byte: query.offset, reason: None }
    }
}
