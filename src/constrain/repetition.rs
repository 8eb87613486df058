//! How large a pattern becomes when its counted repetitions are written out.
//!
//! # Place
//! Uses nothing but text. Part of the grammar compiler, which refuses what grows too large: nested counts
//! multiply, so that a dozen characters can describe millions of positions.

/// The notation a pattern is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notation {
    /// A regular expression.
    Regex,
    /// A Lark grammar: literals in quotes, regular expressions between slashes.
    Lark,
}

/// Number of positions of a pattern with `x{m,n}` written out `n` times. An estimate from above for
/// well-formed patterns; malformed ones get some number and are refused later, by their parser.
pub(super) fn expanded_size(text: &str, notation: Notation) -> u64 {
    let mut reader = Reader { bytes: text.as_bytes(), at: 0, notation };
    // One entry for each open group: positions before its last item, and of that item.
    let mut groups: Vec<(u64, u64)> = vec![(0, 0)];
    while let Some(item) = reader.next() {
        let (before, last) = groups.last_mut().expect("the outermost group stays");
        match item {
            Item::Atom(n) => {
                *before = before.saturating_add(*last);
                *last = n;
            }
            Item::Times(n) => *last = last.saturating_mul(n),
            Item::Open => groups.push((0, 0)),
            Item::Close => {
                let size = before.saturating_add(*last);
                if groups.len() > 1 {
                    groups.pop();
                }
                let (before, last) = groups.last_mut().expect("the outermost group stays");
                *before = before.saturating_add(*last);
                *last = size;
            }
        }
    }
    groups
        .iter()
        .fold(0, |sum: u64, (before, last)| sum.saturating_add(*before).saturating_add(*last))
}

enum Item {
    Atom(u64),
    Times(u64),
    Open,
    Close,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    notation: Notation,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<Item> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(match (byte, self.notation) {
            (b'(', _) => Item::Open,
            (b')', _) => Item::Close,
            (b'{', _) => self.counted(b'}'),
            (b'~', Notation::Lark) => self.counted(b'\n'),
            (b'[', Notation::Regex) => {
                self.skip_to(b']');
                Item::Atom(1)
            }
            (b'\\', Notation::Regex) => {
                self.at += 1;
                if matches!(self.bytes.get(self.at - 1), Some(b'p' | b'P' | b'x' | b'u' | b'U'))
                    && self.bytes.get(self.at) == Some(&b'{')
                {
                    self.skip_to(b'}');
                }
                Item::Atom(1)
            }
            (b'"', Notation::Lark) => {
                let start = self.at;
                self.skip_to(b'"');
                Item::Atom((self.at - start) as u64)
            }
            (b'/', Notation::Lark) => {
                let start = self.at;
                self.skip_to(b'/');
                let regex = self.bytes.get(start..self.at - 1).unwrap_or(&[]);
                let regex = String::from_utf8_lossy(regex);
                Item::Atom(expanded_size(&regex, Notation::Regex))
            }
            (b'*' | b'+' | b'?' | b'|', _) => Item::Times(1),
            (b' ' | b'\t' | b'\n' | b'\r', Notation::Lark) => Item::Times(1),
            _ => Item::Atom(1),
        })
    }

    fn skip_to(&mut self, end: u8) {
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += if byte == b'\\' { 2 } else { 1 };
            if byte == end {
                return;
            }
        }
        self.at = self.bytes.len().max(1);
    }

    /// The largest number up to `end` (`{m,n}`, `{m,}`, `~m..n`).
    fn counted(&mut self, end: u8) -> Item {
        let mut largest = 0u64;
        let mut number = 0u64;
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'0'..=b'9' => {
                    number = number.saturating_mul(10).saturating_add(u64::from(byte - b'0'))
                }
                b',' | b'.' | b' ' => number = 0,
                _ => break,
            }
            largest = largest.max(number);
            self.at += 1;
        }
        if end == b'}' && self.bytes.get(self.at) == Some(&b'}') {
            self.at += 1;
        }
        Item::Times(largest.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_counts_multiply() {
        for (regex, size) in [
            ("", 0),
            ("abc", 3),
            ("a{3}", 3),
            ("a{1,500}b", 501),
            ("(a{1,500}){1,500}", 250_000),
            ("((a{2}){3,}b|c){10}", 80),
            ("[a-z{9}]{2}", 2),
            ("\\{9}\\p{Lu}{3}\\x{41}", 7),
            ("(a){99999999999}{99999999999}", u64::MAX),
            ("a{1,500", 500),
            (")))(", 0),
        ] {
            assert_eq!(expanded_size(regex, Notation::Regex), size, "{regex}");
        }
        for (lark, size) in [
            ("\"abc\"{3}", 12),
            ("/a{4}/ \"\" ~2..5", 9),
            ("(/[\\/\\]]/ x){7}", 14),
            ("\"(((\" \"{9}\"", 8),
        ] {
            assert_eq!(expanded_size(lark, Notation::Lark), size, "{lark}");
        }
    }

    #[test]
    fn unfinished_patterns_end() {
        for text in ["\\", "[", "[\\", "\"", "\"\\", "/", "/\\", "{", "~", "a{9,", "\\p{"] {
            expanded_size(text, Notation::Regex);
            expanded_size(text, Notation::Lark);
        }
    }
}
