//! A function's text without comments, documentation and blank lines.
//!
//! # Place
//! Part of `augment`; uses its items.
//! # Sources
//! [`Mode::Compat`]: the published program's cleaning, with its quirks (every bare string after a line end
//! becomes documentation; a string at column 0 inside brackets is lost; a back-slash continuation joins its
//! lines; gaps become spaces).

use super::Mode;
use super::items::{Item, Kind, items};
use std::borrow::Cow;
use std::ops::Range;

/// One piece of the cleaned text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece<'t> {
    pub(super) text: Cow<'t, str>,
    /// Where it stood in the function's text; of a gap, where the gap ended.
    pub(super) start: usize,
    pub(super) is_name: bool,
}

impl Piece<'_> {
    fn is_line_end(&self) -> bool {
        self.text == "\n"
    }

    pub(super) fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }
}

/// A function that was cleaned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cleaned<'t> {
    pub(super) pieces: Vec<Piece<'t>>,
    /// The documentation as it is written, quotes included.
    pub(super) docstring: String,
}

impl Cleaned<'_> {
    pub(super) fn code(&self) -> String {
        self.pieces.iter().map(|p| &*p.text).collect()
    }
}

/// Clean a function. `text` begins with `def` (or `async`), with LF line ends; `docstring` is where in it
/// the documentation stands, if anywhere.
pub(super) fn clean<'t>(
    text: &'t str,
    docstring: Option<&Range<usize>>,
    mode: Mode,
) -> Cleaned<'t> {
    let all = items(text);
    let mut cleaned = match mode {
        Mode::Compat => by_published_rules(&all),
        Mode::Strict => by_syntax(text, &all, docstring),
    };
    cleaned.pieces = without_blank_lines(cleaned.pieces);
    cleaned
}

fn by_published_rules<'t>(all: &[Item<'t>]) -> Cleaned<'t> {
    let mut pieces = Vec::new();
    let mut docstring = String::new();
    let mut before = None;
    let mut end_col = 0;
    for item in all {
        if item.opens_line {
            end_col = 0;
        }
        if item.col > end_col {
            let gap = " ".repeat(item.col - end_col);
            pieces.push(Piece { text: gap.into(), start: item.start, is_name: false });
        }
        let is_documentation = item.kind == Kind::String
            && (matches!(before, None | Some(Kind::Indent | Kind::Newline)) || item.col == 0);
        if is_documentation {
            docstring.push_str(item.text);
        } else if item.kind != Kind::Comment {
            pieces.push(piece(item));
        }
        before = Some(item.kind);
        end_col = match item.text.rsplit_once('\n') {
            // The column in the line that it ends on.
            Some((_, last)) if item.kind == Kind::String => last.chars().count(),
            _ => item.col + item.text.chars().count(),
        };
    }
    Cleaned { pieces, docstring }
}

fn by_syntax<'t>(text: &'t str, all: &[Item<'t>], docstring: Option<&Range<usize>>) -> Cleaned<'t> {
    let mut pieces: Vec<Piece<'t>> = Vec::new();
    let mut end = 0;
    for item in all {
        let item_end = item.start + item.text.len();
        if item.kind == Kind::Comment {
            end = item_end; // the gap before it goes too
            continue;
        }
        let gap = &text[end.min(item.start)..item.start];
        // Nothing is left of the space before a comment that ended the line.
        let is_wanted = !gap.is_empty() && !matches!(item.kind, Kind::Newline | Kind::Break);
        if is_wanted {
            pieces.push(Piece { text: gap.into(), start: item.start, is_name: false });
        }
        if !docstring.is_some_and(|d| d.contains(&item.start) && item.kind == Kind::String) {
            pieces.push(piece(item));
        }
        end = item_end;
    }
    let docstring = docstring.and_then(|d| text.get(d.clone())).unwrap_or_default();
    Cleaned { pieces, docstring: docstring.to_owned() }
}

fn piece<'t>(item: &Item<'t>) -> Piece<'t> {
    Piece { text: item.text.into(), start: item.start, is_name: item.kind == Kind::Name }
}

/// Lines that hold nothing but white space go, each with its line end.
fn without_blank_lines(pieces: Vec<Piece<'_>>) -> Vec<Piece<'_>> {
    let mut kept = Vec::with_capacity(pieces.len());
    let mut line_start = 0;
    for piece in pieces {
        let ends_line = piece.is_line_end();
        kept.push(piece);
        if ends_line {
            if kept[line_start..].iter().all(Piece::is_blank) {
                kept.truncate(line_start);
            }
            line_start = kept.len();
        }
    }
    if kept[line_start..].iter().all(Piece::is_blank) {
        kept.truncate(line_start);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(text: &str, mode: Mode) -> (String, String) {
        let start = text.find("\"\"\"").unwrap_or(0);
        let docstring = start..text[start + 3..].find("\"\"\"").map_or(start, |n| start + n + 6);
        let cleaned = clean(text, Some(&docstring), mode);
        (cleaned.code(), cleaned.docstring)
    }

    const FUNCTION: &str = "def f(a,  # first\n      b):\n        \"\"\"Say it.\n\n        More.\"\"\"\n\n        # note\n        x = 1  # one\n        'loose'\n        y = g('''\n# kept\n''',\n'lost')\n        if x and \\\n                y:\n            return x\n";

    #[test]
    fn the_published_rules_lose_what_they_are_known_to_lose() {
        let (code, docstring) = cleaned(FUNCTION, Mode::Compat);
        assert_eq!(
            code,
            "def f(a,  \n      b):\n        x = 1  \n        y = g('''\n# kept\n''',\n)\n        if x and                y:\n            return x\n"
        );
        assert_eq!(docstring, "\"\"\"Say it.\n\n        More.\"\"\"'loose''lost'");
    }

    #[test]
    fn strict_cleaning_takes_comments_blank_lines_and_the_documentation_only() {
        let (code, docstring) = cleaned(FUNCTION, Mode::Strict);
        assert_eq!(
            code,
            "def f(a,\n      b):\n        x = 1\n        'loose'\n        y = g('''\n# kept\n''',\n'lost')\n        if x and \\\n                y:\n            return x\n"
        );
        assert_eq!(docstring, "\"\"\"Say it.\n\n        More.\"\"\"");
    }

    #[test]
    fn a_tab_stays_a_tab_only_when_strict() {
        let text = "def f():\n\tx = 1\n\ty = 2\n";
        assert_eq!(cleaned(text, Mode::Compat).0, "def f():\n\tx = 1\n y = 2\n");
        assert_eq!(cleaned(text, Mode::Strict).0, text);
    }
}
