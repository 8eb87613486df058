//! Whether names can stand at a position of Python source at all.
//!
//! # Place
//! Part of `complete`; for tools that answer in comments, strings and numbers too (Jedi lists 181 names
//! after `# see os.`). The native engine sees the same through its own syntax tree.
//! # Sources
//! The Python Language Reference 3.14, chapter 2 "Lexical analysis" (read 2025-11).

/// Where in Python's lexical structure a position lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Code,
    Comment,
    String,
    Number,
}

impl Place {
    /// The reason given to the caller.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::Code => "in code",
            Self::Comment => "in a comment",
            Self::String => "in a string",
            Self::Number => "in a number",
        }
    }
}

/// The lexical place of `offset` in Python source, found by one scan from the start. An unterminated
/// one-line string ends with its line, as editors colour it.
pub(super) fn python_place(text: &str, offset: usize) -> Place {
    let mut scan =
        Scan { bytes: &text.as_bytes()[..offset.min(text.len())], at: 0, open: Vec::new() };
    while scan.at < scan.bytes.len() {
        let ends_in = match scan.open.last().copied() {
            Some(Open::Text(text)) => scan.step_text(text),
            Some(Open::Spec { quote }) => scan.step_spec(quote),
            Some(Open::Field { depth }) => scan.step_field(depth),
            None => scan.step_code(),
        };
        if let Some(place) = ends_in {
            return place;
        }
    }
    match scan.open.last() {
        Some(Open::Text(_) | Open::Spec { .. }) => Place::String,
        Some(Open::Field { .. }) | None => Place::Code,
    }
}

/// What is open at a position, outermost first.
#[derive(Clone, Copy)]
enum Open {
    Text(Text),
    /// Inside `{…}` of a formatted string; `depth` counts brackets opened within.
    Field {
        depth: u32,
    },
    /// After the colon of a field; `quote` is that of the string around it.
    Spec {
        quote: u8,
    },
}

#[derive(Clone, Copy)]
struct Text {
    quote: u8,
    is_triple: bool,
    is_formatted: bool,
}

struct Scan<'a> {
    /// The text up to the position that is asked about.
    bytes: &'a [u8],
    at: usize,
    open: Vec<Open>,
}

impl Scan<'_> {
    /// One step inside a string. Returns a place when the position lies in what is met here.
    fn step_text(&mut self, text: Text) -> Option<Place> {
        let rest = &self.bytes[self.at..];
        let b = rest[0];
        let mut n_bytes = 1;
        match b {
            b'\\' => n_bytes = 2,
            b'\n' | b'\r' if !text.is_triple => drop(self.open.pop()),
            b'{' if text.is_formatted && rest.get(1) == Some(&b'{') => n_bytes = 2,
            b'{' if text.is_formatted => self.open.push(Open::Field { depth: 0 }),
            _ if b == text.quote && !text.is_triple => drop(self.open.pop()),
            _ if b == text.quote && rest.starts_with(&[b; 3]) => {
                n_bytes = 3;
                self.open.pop();
            }
            _ => {}
        }
        self.at += n_bytes;
        None
    }

    /// One step inside a format specification, which is text that may hold fields.
    fn step_spec(&mut self, quote: u8) -> Option<Place> {
        match self.bytes[self.at] {
            b'}' => drop(self.open.pop()),
            b'{' => self.open.push(Open::Field { depth: 0 }),
            // The string around ends here: the field was not closed.
            b if b == quote => {
                self.open.pop();
                return None;
            }
            _ => {}
        }
        self.at += 1;
        None
    }

    fn step_field(&mut self, depth: u32) -> Option<Place> {
        let within = |depth| Open::Field { depth };
        let replace = match self.bytes[self.at] {
            b'}' if depth == 0 => {
                self.open.pop();
                self.at += 1;
                return None;
            }
            b':' if depth == 0 => Open::Spec { quote: self.quote_around() },
            b'(' | b'[' | b'{' => within(depth + 1),
            b')' | b']' | b'}' => within(depth.saturating_sub(1)),
            b'\n' if !self.is_in_triple() => {
                self.open.clear();
                return None;
            }
            _ => return self.step_code(),
        };
        self.open.pop();
        self.open.push(replace);
        self.at += 1;
        None
    }

    fn step_code(&mut self) -> Option<Place> {
        let (bytes, at) = (self.bytes, self.at);
        let b = bytes[at];
        let (end, place) = match b {
            b'#' => (end_of_line(bytes, at), Place::Comment),
            b'"' | b'\'' => {
                let is_triple = bytes[at..].starts_with(&[b; 3]);
                self.open.push(Open::Text(Text {
                    quote: b,
                    is_triple,
                    is_formatted: is_formatted_prefix(bytes, at),
                }));
                self.at += if is_triple { 3 } else { 1 };
                return None;
            }
            b'0'..=b'9' => (end_of_number(bytes, at), Place::Number),
            b'.' if bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => {
                (end_of_number(bytes, at), Place::Number)
            }
            _ if is_word(b) => (end_of_word(bytes, at), Place::Code),
            _ => (at + 1, Place::Code),
        };
        self.at = end;
        (end == bytes.len()).then_some(place)
    }

    fn quote_around(&self) -> u8 {
        let texts = self.open.iter().rev().filter_map(|open| match open {
            Open::Text(text) => Some(text.quote),
            Open::Field { .. } | Open::Spec { .. } => None,
        });
        texts.take(1).next().unwrap_or(b'"')
    }

    fn is_in_triple(&self) -> bool {
        let is_triple = |open: &Open| matches!(open, Open::Text(text) if text.is_triple);
        self.open.iter().any(is_triple)
    }
}

fn is_word(b: u8) -> bool {
    b == b'_' || b.is_ascii_alphanumeric() || b >= 0x80
}

fn end_of_line(bytes: &[u8], from: usize) -> usize {
    let rest = bytes[from..].iter();
    rest.take_while(|&&b| b != b'\n' && b != b'\r').count() + from
}

fn end_of_word(bytes: &[u8], from: usize) -> usize {
    bytes[from..].iter().take_while(|&&b| is_word(b)).count() + from
}

/// Whether the letters before the quote at `quote_idx` make it a formatted or template string.
fn is_formatted_prefix(bytes: &[u8], quote_idx: usize) -> bool {
    let letters = bytes[..quote_idx].iter().rev().take_while(|&&b| is_word(b));
    let letters: Vec<u8> = letters.take(3).map(u8::to_ascii_lowercase).collect();
    letters.len() <= 2
        && letters.iter().any(|&b| b == b'f' || b == b't')
        && letters.iter().all(|b| b"frt".contains(b))
}

/// The end of a numeric literal: one point, one exponent with its sign.
fn end_of_number(bytes: &[u8], from: usize) -> usize {
    let is_radix = bytes[from] == b'0'
        && matches!(bytes.get(from + 1), Some(b'x' | b'X' | b'o' | b'O' | b'b' | b'B'));
    if is_radix {
        return end_of_word(bytes, from);
    }
    let digits = |mut i: usize| {
        while bytes.get(i).is_some_and(|b| b.is_ascii_digit() || *b == b'_') {
            i += 1;
        }
        i
    };
    let mut i = digits(from);
    if bytes.get(i) == Some(&b'.') {
        i = digits(i + 1);
    }
    if matches!(bytes.get(i), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(i + 1), Some(b'+' | b'-')));
        let end = digits(i + 1 + sign);
        if end > i + 1 + sign || end == bytes.len() {
            i = end;
        }
    }
    if matches!(bytes.get(i), Some(b'j' | b'J')) {
        i += 1;
    }
    i
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `|` marks the cursor.
    #[track_caller]
    fn check(marked: &str, place: Place) {
        let offset = marked.find('|').expect("a cursor");
        let text = marked.replacen('|', "", 1);
        assert_eq!(python_place(&text, offset), place, "{marked}");
    }

    #[test]
    fn attribute_access_and_names_are_code() {
        for marked in [
            "os.|",
            "|",
            "x = y|",
            "'a'.|",
            "\"\"\"d\"\"\"; x.|",
            "# c\nx.|",
            "f'{os.|",
            "f'{os.|}'",
            "f'{a!r}' + x.|",
            "f'{{' + x.|",
            "rb'\\'' + x.|",
            "x = 'open\ny.|",
            "a1.|",
            "é1.|",
            "1.5.|",
            "1..|",
            "x = 3 .|",
            "f\"{d['k'].|}\"",
            "f'''{\nx.|\n}'''",
            "f'{x:>{w.|}}'",
            "t'{os.|}'",
            "print('#', x.|",
            "'''it's''' ; x.|",
            "x[1:y.|",
            "f'{x}'; y.|",
            "f'{x:>3}'; y.|",
            "'\\\n' + x.|",
            "0x1f .|",
        ] {
            check(marked, Place::Code);
        }
    }

    #[test]
    fn comments_strings_and_numbers_are_not_code() {
        for marked in ["# see os.|", "x = 1 # |", "#|", "'a' # '|"] {
            check(marked, Place::Comment);
        }
        for marked in [
            "'os.|",
            "'|'",
            "'''a\nos.|",
            "r'\\'|",
            "b'os.|",
            "f'os.|",
            "f'{x} os.|",
            "f'{{os.|",
            "'''it''|",
            "f'{x:>|",
            "\"don't os.|",
            "f'{x:{y}os.|",
            "xf'{os.|",
        ] {
            check(marked, Place::String);
        }
        for marked in
            ["x = 3.|", "1|", "1.5|", "1.e5|", "0x1|f", "1_000|", "3e|", "3e-|", ".5|", "2j|"]
        {
            check(marked, Place::Number);
        }
    }

    proptest! {
        #[test]
        fn any_text_and_cursor_is_placed_without_a_panic(text in "[a-f0-9.'\"{}:#\\\\\n_ ()é]{0,60}", cut in 0_usize..200) {
            let _ = python_place(&text, cut);
        }
    }
}
