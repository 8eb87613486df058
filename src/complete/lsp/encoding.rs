//! Columns as the language server counts them.
//!
//! # Place
//! Part of `complete::lsp`. Inside the crate a position is a byte offset; here is the edge.
//! # Shapes and units
//! Lines and columns count from 0; a line ends with LF, CRLF or a lone CR.
//! # Sources
//! Language Server Protocol 3.17, "Position Encoding Kinds" (read 2025-11).

use serde::{Deserialize, Serialize};

use crate::base::LineIndex;

/// The unit of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Utf8,
    Utf16,
    Utf32,
}

/// A position as it stands in messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    pub line: u32,
    pub character: u32,
}

impl Encoding {
    /// What we offer, best first. Characters come first because some servers built on Jedi say yes to
    /// any unit and hand the number on as characters.
    pub(super) const OFFERED: [&'static str; 3] = ["utf-32", "utf-8", "utf-16"];

    /// The server's choice; a server that says nothing, or something unknown, counts in UTF-16.
    pub(super) fn negotiated(chosen: Option<&str>) -> Self {
        match chosen {
            Some("utf-8") => Self::Utf8,
            Some("utf-32") => Self::Utf32,
            _ => Self::Utf16,
        }
    }

    fn width(self, c: char) -> usize {
        match self {
            Self::Utf8 => c.len_utf8(),
            Self::Utf16 => c.len_utf16(),
            Self::Utf32 => 1,
        }
    }

    /// The position of a byte offset, which is on a character boundary.
    pub(super) fn position(self, text: &str, index: &LineIndex, offset: usize) -> Position {
        let line = index.position(text, offset).line - 1;
        let before = &text[index.line_start(line as usize)..offset];
        let character: usize = before.chars().map(|c| self.width(c)).sum();
        Position { line, character: u32::try_from(character).unwrap_or(u32::MAX) }
    }

    /// The byte offset of a position; `None` when it is not in the text or inside a character.
    pub(super) fn offset(self, text: &str, index: &LineIndex, at: Position) -> Option<usize> {
        if at.line >= index.n_lines() {
            return None;
        }
        let start = index.line_start(at.line as usize);
        let line = index.line(text, at.line as usize);
        let mut column = 0;
        for (i, c) in line.char_indices() {
            if column == at.character as usize {
                return Some(start + i);
            }
            column += self.width(c);
        }
        (column == at.character as usize).then_some(start + line.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, offset: usize, line: u32, columns: [u32; 3]) {
        let index = LineIndex::new(text);
        let encodings = [Encoding::Utf8, Encoding::Utf16, Encoding::Utf32];
        for (encoding, character) in encodings.into_iter().zip(columns) {
            let position = encoding.position(text, &index, offset);
            assert_eq!(position, Position { line, character }, "{encoding:?}");
            assert_eq!(encoding.offset(text, &index, position), Some(offset));
        }
    }

    #[test]
    fn columns_after_non_ascii_text_differ_by_unit() {
        check("s = '🦀'; z.", 14, 0, [14, 12, 11]);
        check("é\r\né.x", 7, 1, [3, 2, 2]);
        check("a\rb", 2, 1, [0, 0, 0]);
        check("", 0, 0, [0, 0, 0]);
    }

    #[test]
    fn a_position_outside_or_inside_a_character_is_none() {
        let text = "🦀\nb";
        let index = LineIndex::new(text);
        for (line, character) in [(0, 1), (0, 3), (1, 2), (2, 0)] {
            let at = Position { line, character };
            assert_eq!(Encoding::Utf16.offset(text, &index, at), None, "{at:?}");
        }
    }

    #[test]
    fn an_unknown_or_missing_choice_is_utf_16() {
        assert_eq!(Encoding::negotiated(None), Encoding::Utf16);
        assert_eq!(Encoding::negotiated(Some("utf-7")), Encoding::Utf16);
        assert_eq!(Encoding::negotiated(Some("utf-32")), Encoding::Utf32);
    }

    proptest! {
        #[test]
        fn every_position_goes_there_and_back(text in "[ab🦀é\r\n]{0,20}", cut in 0_usize..80) {
            let index = LineIndex::new(&text);
            // Between CR and LF there is no position of its own.
            let inside_crlf = cut > 0 && text.get(cut - 1..=cut) == Some("\r\n");
            if text.is_char_boundary(cut) && !inside_crlf {
                for encoding in [Encoding::Utf8, Encoding::Utf16, Encoding::Utf32] {
                    let at = encoding.position(&text, &index, cut);
                    prop_assert_eq!(encoding.offset(&text, &index, at), Some(cut));
                }
            }
        }
    }
}
