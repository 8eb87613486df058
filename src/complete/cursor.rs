//! The part of a name that is typed already at a cursor.
//!
//! # Place
//! Part of `complete`; the tools that are asked from outside share it.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// The name that is being typed at a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Typed {
    /// Byte offset where it begins.
    pub start_byte: usize,
    /// Its characters up to the cursor, NFKC-normalised as Python compares names.
    pub prefix: String,
    /// Whether the text spells it differently: a tool that compares spellings would not find it.
    pub differs: bool,
}

/// The name before `offset`, or `None` when the offset is not a position of the text.
pub(super) fn typed(text: &str, offset: usize) -> Option<Typed> {
    let before = text.get(..offset)?;
    let start_byte = before
        .char_indices()
        .rev()
        .take_while(|&(_, c)| is_name_char(c))
        .last()
        .map_or(offset, |(i, _)| i);
    let raw = &before[start_byte..];
    let prefix: String = raw.nfkc().collect();
    Some(Typed { start_byte, differs: prefix != raw, prefix })
}

/// Whether `name` can be written as one name.
pub(super) fn is_name(name: &str) -> bool {
    name.chars().all(is_name_char) && name.chars().next().is_some_and(|c| !c.is_numeric())
}

/// A character of an identifier, `$` of JavaScript and PHP included.
pub(super) fn is_name_char(c: char) -> bool {
    c == '_' || c == '$' || c.is_alphanumeric() || is_combining_mark(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(marked: &str, prefix: &str, start_byte: usize, differs: bool) {
        let offset = marked.find('|').expect("a cursor");
        let got = typed(&marked.replacen('|', "", 1), offset).expect("a position");
        let want = Typed { start_byte, prefix: prefix.to_owned(), differs };
        assert_eq!(got, want, "{marked}");
    }

    #[test]
    fn the_typed_part_of_a_name_is_found_and_normalised() {
        check("x.fo|o", "fo", 2, false);
        check("x.|foo", "", 2, false);
        check("|", "", 0, false);
        check("x.\u{fb01}e|", "fie", 2, true);
        check("s = '🦀'; z.na|", "na", 14, false);
    }

    #[test]
    fn a_cursor_outside_the_text_or_inside_a_character_is_no_position() {
        assert_eq!(typed("ab", 3), None);
        assert_eq!(typed("🦀", 2), None);
    }

    #[test]
    fn names_are_told_from_other_texts() {
        for name in ["a", "_", "é1", "$scope", "名"] {
            assert!(is_name(name), "{name}");
        }
        for other in ["", "1a", "a b", "a-b", "a(", "²"] {
            assert!(!is_name(other), "{other}");
        }
    }

    proptest! {
        #[test]
        fn any_text_and_cursor_gives_a_start_before_the_cursor(text in ".{0,20}", cut in 0_usize..80) {
            if let Some(typed) = typed(&text, cut) {
                prop_assert!(typed.start_byte <= cut && text.is_char_boundary(typed.start_byte));
            }
        }
    }
}
