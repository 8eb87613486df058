//! Asking the completion tool before every item, and remembering where it knew the item.
//!
//! # Place
//! Part of `augment`; asks a [`CandidateSource`].
//! # Sources
//! [`Mode::Compat`]: the published rules. The position is counted in the cleaned text from the `def` on,
//! ignores line ends inside strings, and every copy of the function in its file is replaced at once.

use super::Mode;
use super::clean::{Cleaned, Piece};
use crate::base::{Answer, CandidateKind, CandidateSource, Candidates, LineCol, LineIndex, Query};
use crate::constrain::is_skipped;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use unicode_normalization::{UnicodeNormalization, is_nfkc};

/// What stands for the function in the file around it.
pub(super) const PLACEHOLDER: &str = "<PLACEHOLDER>";

/// Where a function stands.
pub(super) struct Place<'a> {
    /// The file, absolute.
    pub(super) path: &'a Path,
    /// Its text, with LF line ends.
    pub(super) text: &'a str,
    /// The function's text in it, from `def` on.
    pub(super) range: std::ops::Range<usize>,
    /// Where `def` stands.
    pub(super) at: LineCol,
    /// Bytes of the function's text up to the colon that ends its header.
    pub(super) header_len: usize,
}

/// A name that the tool knew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// Where the name begins in the cleaned code.
    pub(super) offset: usize,
    pub(super) word: String,
    /// What the tool offered, without the words that are never wanted.
    pub(super) names: Vec<Arc<str>>,
}

/// A place that was asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// Where the name begins in the cleaned code.
    pub(super) offset: usize,
    pub(super) word: String,
    pub(super) is_known: bool,
    pub(super) answer: Answer,
    pub(super) n_names: usize,
    pub(super) reason: Option<Arc<str>>,
}

/// What asking about one function found.
#[derive(Clone, Debug, Default)]
pub(super) struct Insertion {
    pub(super) marks: Vec<Mark>,
    pub(super) asked: Vec<Asked>,
}

/// Ask about every name of the cleaned function.
pub(super) fn insert(
    place: &Place<'_>,
    cleaned: &Cleaned<'_>,
    mode: Mode,
    tool: &mut dyn CandidateSource,
    call_ms_max: u64,
) -> Insertion {
    let mut out = Insertion::default();
    let mut overlay = Overlay::new(place, mode);
    let mut written = String::new();
    let mut at = place.at;
    let mut before = None;
    for piece in &cleaned.pieces {
        if wants_asking(piece, before, place, mode) {
            let answer = overlay.ask(&written, at, place.path, tool, call_ms_max);
            note(&mut out, written.len(), &piece.text, &answer, mode);
        }
        if !piece.is_blank() {
            before = Some(&*piece.text);
        }
        at = advanced(at, &piece.text, mode);
        written.push_str(&piece.text);
    }
    out
}

/// Only a name can be what a tool offers, so nothing else is asked about.
fn wants_asking(piece: &Piece<'_>, before: Option<&str>, place: &Place<'_>, mode: Mode) -> bool {
    if !piece.is_name || is_skipped(&piece.text) {
        return false;
    }
    match mode {
        Mode::Compat => true,
        // Names being defined are not chosen from what exists.
        Mode::Strict => piece.start >= place.header_len && !matches!(before, Some("def" | "class")),
    }
}

fn note(out: &mut Insertion, offset: usize, word: &str, answer: &Candidates, mode: Mode) {
    let is_name = |c: &&crate::base::Candidate| match mode {
        // Jedi spells these `name=`, which never equals a name.
        Mode::Compat => c.kind != CandidateKind::Keyword,
        Mode::Strict => true,
    };
    let normal = normalised(word);
    let names = answer.names.iter().filter(is_name);
    let names: Vec<Arc<str>> =
        names.map(|c| Arc::clone(&c.name)).filter(|n| !is_skipped(n)).collect();
    let is_known = names.iter().any(|n| **n == *normal);
    out.asked.push(Asked {
        offset,
        word: word.to_owned(),
        is_known,
        answer: answer.answer,
        n_names: names.len(),
        reason: answer.reason.clone(),
    });
    if is_known {
        out.marks.push(Mark { offset, word: word.to_owned(), names });
    }
}

/// A name as Python compares it.
fn normalised(word: &str) -> std::borrow::Cow<'_, str> {
    if is_nfkc(word) { word.into() } else { word.nfkc().collect::<String>().into() }
}

/// The position after a piece.
fn advanced(at: LineCol, text: &str, mode: Mode) -> LineCol {
    let n_chars = |t: &str| u32::try_from(t.chars().count()).unwrap_or(u32::MAX);
    match text.rsplit_once('\n') {
        Some((_, last)) if mode == Mode::Strict || text == "\n" => {
            let n_lines = text.bytes().filter(|&b| b == b'\n').count() as u32;
            LineCol { line: at.line.saturating_add(n_lines), col: n_chars(last).saturating_add(1) }
        }
        _ => LineCol { line: at.line, col: at.col.saturating_add(n_chars(text)) },
    }
}

/// The file around the function, and the file with the part that is written so far.
struct Overlay {
    mode: Mode,
    /// What stands between copies of the function; the first is before the first copy.
    around: Vec<String>,
    text: String,
}

impl Overlay {
    fn new(place: &Place<'_>, mode: Mode) -> Self {
        let around = match mode {
            // A placeholder that stands in the source is taken for the function too.
            Mode::Compat => {
                let rest = place.text.replace(&place.text[place.range.clone()], PLACEHOLDER);
                rest.split(PLACEHOLDER).map(str::to_owned).collect()
            }
            Mode::Strict => {
                let (before, after) = (place.range.start, place.range.end);
                vec![place.text[..before].to_owned(), place.text[after..].to_owned()]
            }
        };
        Self { mode, around, text: String::with_capacity(place.text.len() * 2) }
    }

    fn ask(
        &mut self,
        written: &str,
        at: LineCol,
        path: &Path,
        tool: &mut dyn CandidateSource,
        call_ms_max: u64,
    ) -> Candidates {
        self.text.clear();
        for (i, part) in self.around.iter().enumerate() {
            if i > 0 {
                self.text.push_str(written);
            }
            self.text.push_str(part);
        }
        let offset = match self.mode {
            Mode::Strict => Some(self.around[0].len() + written.len()),
            Mode::Compat => LineIndex::new(&self.text).offset(&self.text, at).ok(),
        };
        let Some(offset) = offset else {
            return Candidates::unknown(0, "the position is not in the text");
        };
        let deadline = Instant::now() + Duration::from_millis(call_ms_max);
        tool.candidates(&Query { path, text: &self.text, offset, deadline })
    }
}
