//! Python source as the items that Python's own `tokenize` module cuts it into.
//!
//! # Place
//! Part of `augment`. The project's lexer serves a parser and leaves out what it does not need; here the
//! published rules look at every newline, indentation and comment, so these are the interpreter's items.
//! # Invariants
//! - Never fails: what is no Python becomes an item of one character.
//! - An f-string is one item, as in Python up to 3.11.
//! # Sources
//! The `tokenize` module of Python 3.11; Python Language Reference 3.14, chapter 2.

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Name,
    Number,
    String,
    Operator,
    Comment,
    /// The end of a logical line.
    Newline,
    /// A line end that means nothing: in brackets, after a comment, of a blank line.
    Break,
    Indent,
    /// Without text.
    Dedent,
    Unknown,
}

/// One item and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item<'t> {
    pub(super) kind: Kind,
    pub(super) text: &'t str,
    /// Byte offset in the text.
    pub(super) start: usize,
    /// Column of the first character, from 0, in characters.
    pub(super) col: usize,
    /// Is it the first item of its physical line?
    pub(super) opens_line: bool,
}

/// All operators of more than one character, longest first.
const OPERATORS: [&str; 24] = [
    "**=", "//=", ">>=", "<<=", "...", "!=", "->", ":=", "==", "<=", ">=", "+=", "-=", "*=", "/=",
    "%=", "@=", "&=", "|=", "^=", "**", "//", "<<", ">>",
];

/// Width of a tab stop.
const TAB: usize = 8;

/// The items of `text`, which begins where a statement begins.
pub(super) fn items(text: &str) -> Vec<Item<'_>> {
    let mut scan = Scan { text, at: 0, line_start: 0, opens_line: true, depth: 0, out: Vec::new() };
    scan.run();
    scan.out
}

struct Scan<'t> {
    text: &'t str,
    at: usize,
    /// Byte offset of the physical line.
    line_start: usize,
    opens_line: bool,
    /// Open brackets.
    depth: usize,
    out: Vec<Item<'t>>,
}

impl<'t> Scan<'t> {
    fn run(&mut self) {
        let mut indents = vec![0];
        let mut is_continued = false;
        while self.at < self.text.len() {
            if self.depth == 0 && !is_continued && !self.line_begin(&mut indents) {
                continue;
            }
            is_continued = self.rest_of_line();
        }
        let ends_open =
            self.out.last().is_some_and(|i| !matches!(i.kind, Kind::Newline | Kind::Break));
        if ends_open {
            self.push(Kind::Newline, self.at);
        }
        self.next_line();
        for _ in 1..indents.len() {
            self.push(Kind::Dedent, self.at);
        }
    }

    /// White space at the start of a logical line, and what it means. `false` when the line holds no code.
    fn line_begin(&mut self, indents: &mut Vec<usize>) -> bool {
        let start = self.at;
        let mut width = 0;
        while let Some(b) = self.byte(0) {
            match b {
                b' ' => width += 1,
                b'\t' => width = (width / TAB + 1) * TAB,
                0x0c => width = 0,
                _ => break,
            }
            self.at += 1;
        }
        match self.byte(0) {
            None => return false,
            Some(b'#') => {
                self.comment();
                self.line_end(Kind::Break);
                return false;
            }
            Some(b'\r' | b'\n') => {
                self.line_end(Kind::Break);
                return false;
            }
            Some(_) => {}
        }
        let deepest = |indents: &[usize]| indents.last().copied().unwrap_or(0);
        if width > deepest(indents) {
            indents.push(width);
            self.push(Kind::Indent, start);
        }
        while width < deepest(indents) {
            indents.pop();
            self.push(Kind::Dedent, self.at);
        }
        true
    }

    /// Items up to the end of the physical line. `true` when a back-slash continues it.
    fn rest_of_line(&mut self) -> bool {
        loop {
            while matches!(self.byte(0), Some(b' ' | b'\t' | 0x0c)) {
                self.at += 1;
            }
            let Some(first) = self.text[self.at..].chars().next() else {
                return false;
            };
            match first {
                '\n' | '\r' => {
                    let is_end = self.depth == 0;
                    self.line_end(if is_end { Kind::Newline } else { Kind::Break });
                    return false;
                }
                '#' => self.comment(),
                '\\' if matches!(self.byte(1), Some(b'\n' | b'\r')) => {
                    self.at += 1;
                    self.skip_line_end();
                    self.next_line();
                    return true;
                }
                '\'' | '"' => self.string(self.at, 0),
                c if c == '_' || c.is_alphabetic() => self.word(),
                c if c.is_ascii_digit() || (c == '.' && self.is_digit(1)) => self.number(),
                c => self.operator(c),
            }
        }
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn is_digit(&self, ahead: usize) -> bool {
        self.byte(ahead).is_some_and(|b| b.is_ascii_digit())
    }

    /// The item from `start` to here.
    fn push(&mut self, kind: Kind, start: usize) {
        let col = self.text[self.line_start..start].chars().count();
        let text = &self.text[start..self.at];
        self.out.push(Item { kind, text, start, col, opens_line: self.opens_line });
        self.opens_line = false;
        if kind == Kind::String
            && let Some(n) = text.rfind('\n')
        {
            self.line_start = start + n + 1; // the line it ends on
        }
    }

    fn next_line(&mut self) {
        self.line_start = self.at;
        self.opens_line = true;
    }

    fn skip_line_end(&mut self) {
        self.at += if self.byte(0) == Some(b'\r') && self.byte(1) == Some(b'\n') { 2 } else { 1 };
        self.at = self.at.min(self.text.len());
    }

    fn line_end(&mut self, kind: Kind) {
        let start = self.at;
        if start < self.text.len() {
            self.skip_line_end();
        }
        self.push(kind, start);
        self.next_line();
    }

    fn comment(&mut self) {
        let start = self.at;
        let rest = &self.text[start..];
        self.at += rest.find(['\n', '\r']).unwrap_or(rest.len());
        self.push(Kind::Comment, start);
    }

    /// A name, or the string that it is the prefix of.
    fn word(&mut self) {
        let start = self.at;
        let rest = &self.text[start..];
        let len = rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len());
        let is_prefix = matches!(
            rest[..len].to_ascii_lowercase().as_str(),
            "r" | "u" | "b" | "f" | "br" | "rb" | "fr" | "rf"
        );
        if is_prefix && matches!(rest.as_bytes().get(len), Some(b'\'' | b'"')) {
            self.string(start, len);
            return;
        }
        self.at += len;
        self.push(Kind::Name, start);
    }

    /// A string whose quote stands `prefix` bytes after `start`. One that does not end is its quote only.
    fn string(&mut self, start: usize, prefix: usize) {
        let open = start + prefix;
        let rest = &self.text[open..];
        let quote = &rest[..1];
        let delimiter = if rest.starts_with(&quote.repeat(3)) { &rest[..3] } else { quote };
        let is_long = delimiter.len() == 3;
        let bytes = rest.as_bytes();
        let mut i = delimiter.len();
        while i < bytes.len() {
            match bytes[i] {
                b'\\' if bytes.get(i + 1) == Some(&b'\r') && bytes.get(i + 2) == Some(&b'\n') => {
                    i += 3
                }
                b'\\' => i += 2,
                b'\n' if !is_long => break,
                _ if rest.get(i..).is_some_and(|r| r.starts_with(delimiter)) => {
                    self.at = open + i + delimiter.len();
                    self.push(Kind::String, start);
                    return;
                }
                _ => i += 1,
            }
        }
        if prefix > 0 {
            self.at = open;
            self.push(Kind::Name, start);
        }
        self.at = open + 1;
        self.push(Kind::Unknown, open);
    }

    fn number(&mut self) {
        let start = self.at;
        let is_radix = self.byte(0) == Some(b'0')
            && matches!(self.byte(1), Some(b'x' | b'X' | b'o' | b'O' | b'b' | b'B'));
        if is_radix {
            self.at += 2;
            self.skip_while(|b| b.is_ascii_hexdigit() || b == b'_');
        } else {
            let digit = |b: u8| b.is_ascii_digit() || b == b'_';
            self.skip_while(digit);
            if self.byte(0) == Some(b'.') {
                self.at += 1;
                self.skip_while(digit);
            }
            if matches!(self.byte(0), Some(b'e' | b'E')) {
                let sign = usize::from(matches!(self.byte(1), Some(b'+' | b'-')));
                if self.is_digit(1 + sign) {
                    self.at += 1 + sign;
                    self.skip_while(digit);
                }
            }
            if matches!(self.byte(0), Some(b'j' | b'J')) {
                self.at += 1;
            }
        }
        self.push(Kind::Number, start);
    }

    fn skip_while(&mut self, is_part: impl Fn(u8) -> bool) {
        while self.byte(0).is_some_and(&is_part) {
            self.at += 1;
        }
    }

    fn operator(&mut self, first: char) {
        let start = self.at;
        let rest = &self.text[start..];
        let known = OPERATORS.iter().find(|o| rest.starts_with(**o));
        self.at += known.map_or(first.len_utf8(), |o| o.len());
        match first {
            '(' | '[' | '{' => self.depth += 1,
            ')' | ']' | '}' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        let is_operator = known.is_some() || "()[]{},:.;@=~^&|+-*/%<>".contains(first);
        self.push(if is_operator { Kind::Operator } else { Kind::Unknown }, start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str) -> String {
        items(text).iter().map(|i| format!("{:?}:{}:{:?} ", i.kind, i.col, i.text)).collect()
    }

    #[test]
    fn a_function_is_cut_as_the_interpreter_cuts_it() {
        expect_test::expect![[r##"Name:0:"def" Name:4:"f" Operator:5:"(" Name:6:"a" Operator:7:")" Operator:8:":" Newline:9:"\n" Indent:0:"        " String:8:"'''d\n    e'''" Newline:8:"\n" Comment:8:"# c" Break:11:"\n" Name:8:"if" Name:11:"a" Operator:13:">=" Number:16:"1.5e-3" Operator:22:":" Newline:23:"\n" Indent:0:"            " Name:12:"return" String:19:"rb'x'" Newline:24:"\n" Break:0:"\n" Dedent:8:"" Name:8:"x" Operator:10:"=" Name:15:"y" Newline:16:"" Dedent:0:"" "##]]
        .assert_eq(&shown(
            "def f(a):\n        '''d\n    e'''\n        # c\n        if a >= 1.5e-3:\n            return rb'x'\n\n        x = \\\n               y",
        ));
    }

    #[test]
    fn line_ends_in_brackets_end_nothing_and_broken_text_is_cut_somehow() {
        assert_eq!(
            shown("f(1,\n  '''x\n''')\n"),
            "Name:0:\"f\" Operator:1:\"(\" Number:2:\"1\" Operator:3:\",\" Break:4:\"\\n\" String:2:\"'''x\\n'''\" \
             Operator:3:\")\" Newline:4:\"\\n\" "
        );
        assert_eq!(
            shown("é = 'un\n$"),
            "Name:0:\"é\" Operator:2:\"=\" Unknown:4:\"'\" Name:5:\"un\" Newline:7:\"\\n\" Unknown:0:\"$\" Newline:1:\"\" "
        );
    }

    proptest! {
        #[test]
        fn whatever_the_text_items_are_its_parts_in_order(text in "[a-z'\"\\\\(){}\\[\\]\n\r\t #.0-9é=]{0,60}") {
            let mut at = 0;
            for item in items(&text) {
                prop_assert!(item.start >= at);
                prop_assert_eq!(&text[item.start..item.start + item.text.len()], item.text);
                at = item.start + item.text.len();
            }
        }
    }
}
