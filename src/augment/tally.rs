//! Counting: what was found, what was refused by which rule, what the tool knew, where two tools differ.
//!
//! # Place
//! Part of `augment`; pure.

use super::example::Rejection;
use super::function::{Around, CountTokens};
use super::insert::Asked;
use crate::base::Answer;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counts of one shard, or of several together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    pub files: u64,
    /// Files that were left out whole, by rule.
    pub files_refused: BTreeMap<String, u64>,
    /// Repositories that were left out whole, by rule.
    pub repos_refused: BTreeMap<String, u64>,
    pub functions_found: u64,
    pub functions_kept: u64,
    pub refused: BTreeMap<Rejection, u64>,
    /// Triggers in a body → functions.
    pub triggers: BTreeMap<usize, u64>,
    pub code_chars: u64,
    /// Of the cleaned code, when there was somebody to count them.
    pub code_tokens: Option<u64>,
    /// Questions, and those whose answer held the name.
    pub asked: u64,
    pub known: u64,
    /// Questions by kind of answer.
    pub answers: BTreeMap<String, u64>,
    /// Of two tools: both know the name, neither does, only the first, only the second.
    pub both: u64,
    pub neither: u64,
    pub only_first: u64,
    pub only_second: u64,
    /// Positions on which the tools differ, by class.
    pub classes: BTreeMap<String, u64>,
    #[serde(skip)]
    pub(super) differences: Vec<Difference>,
}

impl Tally {
    pub(super) fn refuse(&mut self, why: Rejection) {
        *self.refused.entry(why).or_default() += 1;
    }

    pub(super) fn keep(&mut self, n_triggers: usize, code: &str, count: CountTokens<'_>) {
        self.functions_kept += 1;
        *self.triggers.entry(n_triggers).or_default() += 1;
        self.code_chars += code.chars().count() as u64;
        if let Some(count) = count {
            *self.code_tokens.get_or_insert(0) += count(code) as u64;
        }
    }

    pub(super) fn ask(&mut self, answer: Answer, is_known: bool) {
        self.asked += 1;
        self.known += u64::from(is_known);
        *self.answers.entry(answer.as_str().to_owned()).or_default() += 1;
    }

    pub(super) fn compare(&mut self, first: bool, second: bool, difference: Difference) {
        match (first, second) {
            (true, true) => self.both += 1,
            (false, false) => self.neither += 1,
            (true, false) => self.only_first += 1,
            (false, true) => self.only_second += 1,
        }
        if first != second {
            *self.classes.entry(difference.class.clone()).or_default() += 1;
            self.differences.push(difference);
        }
    }

    /// Share of positions on which two tools agree; `None` when one tool was asked.
    pub fn agreement(&self) -> Option<f64> {
        let all = self.both + self.neither + self.only_first + self.only_second;
        (all > 0).then(|| (self.both + self.neither) as f64 / all as f64)
    }

    /// Mean triggers of a kept function.
    pub fn triggers_mean(&self) -> f64 {
        let sum: u64 = self.triggers.iter().map(|(n, count)| *n as u64 * count).sum();
        sum as f64 / self.functions_kept.max(1) as f64
    }

    /// Rules with their counts, most first.
    pub fn refused_by_rule(&self) -> String {
        let mut rules: Vec<(&Rejection, &u64)> = self.refused.iter().collect();
        rules.sort_by_key(|(rule, n)| (std::cmp::Reverse(**n), **rule));
        let rules: Vec<String> =
            rules.iter().map(|(rule, n)| format!("{} {n}", rule.as_str())).collect();
        rules.join(", ")
    }

    pub(super) fn add(&mut self, other: Self) {
        fn sum<K: Ord>(into: &mut BTreeMap<K, u64>, from: BTreeMap<K, u64>) {
            for (key, n) in from {
                *into.entry(key).or_default() += n;
            }
        }
        self.files += other.files;
        sum(&mut self.files_refused, other.files_refused);
        sum(&mut self.repos_refused, other.repos_refused);
        self.functions_found += other.functions_found;
        self.functions_kept += other.functions_kept;
        sum(&mut self.refused, other.refused);
        sum(&mut self.triggers, other.triggers);
        self.code_chars += other.code_chars;
        if let Some(n) = other.code_tokens {
            *self.code_tokens.get_or_insert(0) += n;
        }
        self.asked += other.asked;
        self.known += other.known;
        sum(&mut self.answers, other.answers);
        self.both += other.both;
        self.neither += other.neither;
        self.only_first += other.only_first;
        self.only_second += other.only_second;
        sum(&mut self.classes, other.classes);
        self.differences.extend(other.differences);
    }
}

/// A position where one tool knows the name and the other does not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    pub repo: String,
    pub file_path: String,
    pub function_name: String,
    /// The cleaned line up to the name.
    pub before: String,
    pub word: String,
    /// Where the name stands, and which tool knows it.
    pub class: String,
    pub first: String,
    pub first_names: usize,
    pub first_reason: Option<String>,
    pub second: String,
    pub second_names: usize,
    pub second_reason: Option<String>,
}

impl Difference {
    pub(super) fn between(
        around: &Around<'_>,
        function: &str,
        code: &str,
        first: &Asked,
        second: &Asked,
    ) -> Self {
        let before = &code[..first.offset];
        let line = before.rsplit('\n').next().unwrap_or_default();
        let who = if first.is_known { "only the first" } else { "only the second" };
        let reason = |asked: &Asked| asked.reason.as_ref().map(|r| r.to_string());
        Self {
            repo: around.repo.to_owned(),
            file_path: around.file_path.to_owned(),
            function_name: function.to_owned(),
            before: line.to_owned(),
            word: first.word.clone(),
            class: format!("{}, {who}", class(line, &code[first.offset + first.word.len()..])),
            first: first.answer.as_str().to_owned(),
            first_names: first.n_names,
            first_reason: reason(first),
            second: second.answer.as_str().to_owned(),
            second_names: second.n_names,
            second_reason: reason(second),
        }
    }
}

/// What kind of name stands behind `before`, a line's beginning.
fn class(before: &str, after: &str) -> &'static str {
    let code = before.trim_start();
    let follows = after.trim_start();
    if before.ends_with('.') {
        return match code.strip_suffix('.') {
            Some("self" | "cls") => "member of self at a statement's start",
            _ if before.ends_with("self.") || before.ends_with("cls.") => "member of self",
            _ => "member",
        };
    }
    if code.starts_with("import ") || code.starts_with("from ") {
        return "import";
    }
    let is_equals = follows.starts_with('=') && !follows.starts_with("==");
    match (code.is_empty(), is_equals) {
        (true, true) => "name assigned",
        (false, true) if after.starts_with('=') => "keyword argument",
        _ if code.starts_with("for ") && !code.contains(" in ") => "name assigned",
        _ if code.ends_with("as ") => "name assigned",
        _ => "name read",
    }
}

/// What a finished run says about itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Statistics {
    pub settings: super::AugmentConfig,
    pub split: super::split::SplitConfig,
    pub repos: Vec<RepoCount>,
    #[serde(flatten)]
    pub tally: Tally,
    pub triggers_mean: f64,
    pub agreement: Option<f64>,
    /// File → functions and SHA-256.
    pub files: BTreeMap<String, FileCount>,
    /// Left out of a split because another has the same or nearly the same.
    pub duplicates: BTreeMap<String, u64>,
}

/// A repository's functions and where they went.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RepoCount {
    pub repo: String,
    pub functions: u64,
    pub split: &'static str,
}

/// A file of the data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileCount {
    pub functions: u64,
    pub triggers: u64,
    pub bytes: u64,
    pub sha256: String,
}
