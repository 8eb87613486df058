//! A pair of description and code, as it is trained on: what is taken from a function, and why one is refused.
//!
//! # Place
//! Part of `augment`; pure.
//! # Sources
//! [`Mode::Compat`]: the published dataset builder, with its quirks.

use super::Mode;
use super::clean::Cleaned;
use super::insert::Mark;
use serde::{Deserialize, Serialize};

/// Why a function is not in the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Rejection {
    Async,
    NoDocstring,
    TooManyLines,
    TooManyItems,
    TooManyTokens,
    DescriptionEmpty,
    DescriptionStart,
    DescriptionLength,
    DescriptionWord,
    DescriptionKind,
    DescriptionMark,
    TestFunction,
    SingleLine,
    EmptyBody,
    NoSignature,
    /// The trigger's own text stands in the source.
    TriggerInSource,
    /// Code goes on behind the documentation in the same line.
    SharedLine,
}

impl Rejection {
    /// The spelling used in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Async => "async",
            Self::NoDocstring => "no_docstring",
            Self::TooManyLines => "too_many_lines",
            Self::TooManyItems => "too_many_items",
            Self::TooManyTokens => "too_many_tokens",
            Self::DescriptionEmpty => "description_empty",
            Self::DescriptionStart => "description_start",
            Self::DescriptionLength => "description_length",
            Self::DescriptionWord => "description_word",
            Self::DescriptionKind => "description_kind",
            Self::DescriptionMark => "description_mark",
            Self::TestFunction => "test_function",
            Self::SingleLine => "single_line",
            Self::EmptyBody => "empty_body",
            Self::NoSignature => "no_signature",
            Self::TriggerInSource => "trigger_in_source",
            Self::SharedLine => "shared_line",
        }
    }
}

/// Words and characters of a description.
const WORDS: std::ops::RangeInclusive<usize> = 3..=256;
const WORD_CHARS_MAX: usize = 25;
/// How descriptions begin that describe nothing.
const USELESS_STARTS: [&str; 8] =
    ["deprecated", "todo", "note", "test", "overrides", "we ", "you ", "this "];
const USELESS_PARTS: [&str; 5] = ["<img ", "https://", "---", " -- ", "="];
const EMPTY_BODIES: [&str; 4] =
    ["raise NotImplementedError", "raise NotImplementedError()", "pass", "return"];

/// The first sentence of a documentation string.
pub(super) fn description(docstring: &str, mode: Mode) -> String {
    let text = match mode {
        Mode::Compat => {
            // Three characters from each end, whatever the quotes.
            let chars: Vec<char> = docstring.trim().chars().collect();
            let end = chars.len().saturating_sub(3).max(3.min(chars.len()));
            chars[3.min(chars.len())..end].iter().collect::<String>()
        }
        Mode::Strict => unquoted(docstring.trim()).to_owned(),
    };
    let text = text.trim_matches(|c: char| {
        c == '"' || c == '\'' || (mode == Mode::Strict && c.is_whitespace())
    });
    let paragraph = first_paragraph(text);
    let mut text = paragraph;
    for mark in [":param", ":return"] {
        text = text.split(mark).next().unwrap_or(text);
    }
    if mode == Mode::Compat
        && let Some((rest, last)) = text.rsplit_once('\n')
        && last.trim_start_matches([' ', '\t']).starts_with(|c: char| c.is_ascii_uppercase())
    {
        text = rest;
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    line.split(". ").next().unwrap_or_default().to_owned()
}

/// What stands between the quotes of a literal.
fn unquoted(literal: &str) -> &str {
    let text = literal.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    for quote in ["\"\"\"", "'''", "\"", "'"] {
        if let Some(rest) = text.strip_prefix(quote) {
            return rest.strip_suffix(quote).unwrap_or(rest);
        }
    }
    text
}

/// The text before the first blank line.
fn first_paragraph(text: &str) -> &str {
    let mut from = 0;
    while let Some(n) = text[from..].find('\n') {
        let at = from + n;
        let rest = &text[at + 1..];
        let blank = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        if rest[blank..].starts_with('\n') {
            return &text[..at];
        }
        from = at + 1;
    }
    text
}

/// Why this description is refused, if so.
pub(super) fn refuse_description(description: &str) -> Option<Rejection> {
    let text = description.to_lowercase();
    let Some(first) = text.chars().next() else {
        return Some(Rejection::DescriptionEmpty);
    };
    if !first.is_ascii_lowercase() {
        return Some(Rejection::DescriptionStart);
    }
    let words: Vec<&str> = text.split(' ').collect();
    if !WORDS.contains(&words.len()) {
        return Some(Rejection::DescriptionLength);
    }
    if words.iter().any(|w| w.chars().count() > WORD_CHARS_MAX) {
        return Some(Rejection::DescriptionWord);
    }
    let word_end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let is_labelled = text[word_end..].starts_with(':');
    if is_labelled
        || USELESS_STARTS.iter().any(|s| text.starts_with(s))
        || text.ends_with(['?', '!'])
    {
        return Some(Rejection::DescriptionKind);
    }
    USELESS_PARTS.iter().any(|p| text.contains(p)).then_some(Rejection::DescriptionMark)
}

/// Why this code is refused before anybody is asked about it, if so.
pub(super) fn refuse_code(code: &str) -> Option<Rejection> {
    if code.starts_with("def test_") || code.starts_with("async def test_") {
        return Some(Rejection::TestFunction);
    }
    (code.trim_end().lines().count() <= 1).then_some(Rejection::SingleLine)
}

pub(super) fn refuse_body(body: &str) -> Option<Rejection> {
    let body = body.trim();
    (body.is_empty() || EMPTY_BODIES.contains(&body)).then_some(Rejection::EmptyBody)
}

/// Where the header of a cleaned function ends: after its colon.
pub(super) fn header_end(
    cleaned: &Cleaned<'_>,
    name: &str,
    header_len: usize,
    mode: Mode,
) -> Option<usize> {
    match mode {
        Mode::Strict => {
            let mut end = 0;
            for piece in cleaned.pieces.iter().take_while(|p| p.start < header_len) {
                end += piece.text.len();
            }
            (end > 0).then_some(end)
        }
        Mode::Compat => shortest_header(&cleaned.code(), name),
    }
}

/// The shortest text from `def name` that ends in `)`, an annotation or none, and a colon.
fn shortest_header(code: &str, name: &str) -> Option<usize> {
    let start = code.find(&format!("def {name}"))? + 4 + name.len();
    let mut from = start;
    while let Some(n) = code[from..].find(')') {
        from += n + 1;
        let rest = code[from..].trim_start();
        let at = code.len() - rest.len();
        if rest.starts_with(':') {
            return Some(at + 1);
        }
        if rest.starts_with("->") {
            return rest.find(':').map(|n| at + n + 1);
        }
    }
    None
}

/// The parts of an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    /// From `def` to the colon.
    pub(super) header: String,
    /// From the name to the closing parenthesis or annotation.
    pub(super) signature: String,
    /// The header and the description, with the line end.
    pub(super) prefix: String,
    pub(super) body: String,
}

/// A header with its description, as every example begins and as a model is asked for a body.
pub(super) fn prefix(header: &str, indent: &str, description: &str) -> String {
    format!("{header}\n{indent}'''{description}'''\n")
}

/// Cut code into header and body. `code` may hold triggers in its body.
pub(super) fn parts(code: &str, header_end: usize, description: &str, mode: Mode) -> Parts {
    let (header, rest) = code.split_at(header_end);
    let name_start =
        if header.starts_with("async ") { header.find("def ").map_or(0, |n| n + 4) } else { 4 };
    let signature = header[name_start.min(header.len())..].trim_end_matches(':').trim_end();
    let lines: Vec<&str> = rest.split('\n').collect();
    let is_kept = |l: &&&str| !l.trim().is_empty();
    let first = lines.iter().find(is_kept).copied().unwrap_or_default();
    let indent = &first[..first.len() - first.trim_start().len()];
    let body = match mode {
        Mode::Compat => lines.iter().filter(is_kept).copied().collect::<Vec<_>>().join("\n"),
        Mode::Strict => rest.trim_start_matches('\n').trim_end().to_owned(),
    };
    Parts {
        header: header.to_owned(),
        signature: signature.to_owned(),
        prefix: prefix(header, indent, description),
        body,
    }
}

/// The code with something put before each marked name.
pub(super) fn marked(code: &str, marks: &[Mark], text: &mut dyn FnMut(usize) -> String) -> String {
    let mut out = String::with_capacity(code.len() + marks.len() * 8);
    let mut from = 0;
    for (i, mark) in marks.iter().enumerate() {
        out.push_str(&code[from..mark.offset]);
        out.push_str(&text(i));
        from = mark.offset;
    }
    out.push_str(&code[from..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_the_first_sentence() {
        for (docstring, compat, strict) in [
            ("\"\"\"Add two. Then stop.\"\"\"", "Add two", "Add two"),
            ("'Short one.'", "ort on", "Short one."),
            (
                "\"\"\"\n    Say it\n    again.\n\n    More.\n\"\"\"",
                "Say it again.",
                "Say it again.",
            ),
            ("\"\"\"Do. :param x: y\"\"\"", "Do.", "Do."),
            ("\"\"\"do a\nReturns b\"\"\"", "do a", "do a Returns b"),
            ("r'''Raw one.'''", "'Raw one.".trim_matches('\''), "Raw one."),
            ("''", "", ""),
        ] {
            assert_eq!(description(docstring, Mode::Compat), compat, "{docstring}");
            assert_eq!(description(docstring, Mode::Strict), strict, "{docstring}");
        }
    }

    #[test]
    fn descriptions_that_describe_nothing_are_refused_by_name() {
        use Rejection as R;
        for (text, why) in [
            ("", Some(R::DescriptionEmpty)),
            ("2 of them here", Some(R::DescriptionStart)),
            ("too short", Some(R::DescriptionLength)),
            ("one abcdefghijklmnopqrstuvwxyz two", Some(R::DescriptionWord)),
            ("Todo write it down", Some(R::DescriptionKind)),
            ("this is it", Some(R::DescriptionKind)),
            ("is it so?", Some(R::DescriptionKind)),
            ("args: a and b", Some(R::DescriptionKind)),
            ("see https://x for it", Some(R::DescriptionMark)),
            ("set a=b for it", Some(R::DescriptionMark)),
            ("Thistle is a plant", None),
        ] {
            assert_eq!(refuse_description(text), why, "{text}");
        }
    }

    #[test]
    fn a_header_is_the_shortest_text_that_looks_like_one() {
        for (code, name, header) in [
            ("def f(a):\n  x", "f", "def f(a):"),
            (
                "def f(a: (1) = 2, b=(3)) -> Dict[str, int]:\n  x",
                "f",
                "def f(a: (1) = 2, b=(3)) -> Dict[str, int]:",
            ),
            ("def f(a=lambda: g():\n", "f", "def f(a=lambda: g():"),
        ] {
            let end = shortest_header(code, name).map(|n| &code[..n]);
            assert_eq!(end, Some(header));
        }
        assert_eq!(shortest_header("def f", "f"), None);
    }
}
