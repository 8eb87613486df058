//! Which modules a pattern of an adapter's configuration means.
//!
//! # Place
//! Part of `model::adapter`. The rules are peft's: keys of `rank_pattern` and `alpha_pattern` are regular expressions
//! that must match a module's name from some dot to its end; a string in `target_modules` must match all of it.

use fancy_regex::{Regex, RegexBuilder};

use super::AdapterProblem;

/// Steps of the matcher before a pattern is given up.
const BACKTRACK_MAX: usize = 100_000;
/// Longest pattern that is compiled, in bytes.
const PATTERN_BYTES_MAX: usize = 4096;

/// A pattern that compiled.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    key: &'static str,
    text: String,
    regex: Regex,
}

impl Pattern {
    /// Matches a name from some dot to its end.
    pub(super) fn of_end(key: &'static str, text: &str) -> Result<Self, AdapterProblem> {
        Self::new(key, text, &format!(r"^(?:.*\.)?(?:{text})$"))
    }

    /// Matches a whole name.
    pub(super) fn of_all(key: &'static str, text: &str) -> Result<Self, AdapterProblem> {
        Self::new(key, text, &format!("^(?:{text})$"))
    }

    fn new(key: &'static str, text: &str, whole: &str) -> Result<Self, AdapterProblem> {
        let bad = |problem: String| AdapterProblem::BadPattern {
            key,
            pattern: text.chars().take(200).collect(),
            problem,
        };
        if text.len() > PATTERN_BYTES_MAX {
            return Err(bad(format!("it is longer than {PATTERN_BYTES_MAX} bytes")));
        }
        let regex = RegexBuilder::new(whole)
            .backtrack_limit(BACKTRACK_MAX)
            .build()
            .map_err(|e| bad(e.to_string()))?;
        Ok(Self { key, text: text.to_owned(), regex })
    }

    pub(super) fn matches(&self, module: &str) -> Result<bool, AdapterProblem> {
        self.regex.is_match(module).map_err(|e| AdapterProblem::BadPattern {
            key: self.key,
            pattern: self.text.clone(),
            problem: e.to_string(),
        })
    }
}
