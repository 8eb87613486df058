//! A lexer of Python text that takes one byte at a time and says where names begin.
//!
//! # Place
//! Uses the identifier rules. The monitor drives it; it knows neither tokens nor candidates.
//! # Invariants
//! - A byte costs O(1), whatever came before, and a copy of the state is a few dozen bytes.
//! - No input is an error: broken text leaves the lexer in the state Python's recovery would need
//!   (a string ends with its line, a line that can only begin a statement closes open brackets).
//! # Sources
//! The Python Language Reference 3.14, chapter 2, and PEP 701 for f-strings (quotes may nest). Template
//! strings (PEP 750) are read like f-strings.

use smallvec::SmallVec;

use super::PlaceKind;
use super::identifier::{
    is_identifier_byte, is_identifier_start, is_keyword, is_statement_keyword, is_value_keyword,
};
use super::reading::Reading;

/// The state after some text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PythonLexer {
    mode: Mode,
    /// The last token is a value, so that a dot after it is an attribute access.
    after_value: bool,
    /// Where in an import statement.
    import: Import,
    /// Whether only white space stands before the cursor in its line.
    line_is_blank: bool,
    /// Whether a statement may begin here.
    may_begin_statement: bool,
    /// Open brackets of the innermost replacement field, or of the text outside strings.
    n_brackets: u32,
    /// The f-strings whose fields the cursor is in, outermost first.
    fields: SmallVec<[Field; 2]>,
    reading: Reading,
}

/// An f-string around the cursor, with what the field inside interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    string: StringKind,
    n_brackets: u32,
    /// Brackets and fields around the string.
    level: u8,
    /// The field is inside the format specification of another one of the same string.
    in_spec: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StringKind {
    quote: u8,
    is_triple: bool,
    is_raw: bool,
    has_fields: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Between tokens.
    Gap,
    Word(Word),
    Number(Number),
    /// After an attribute dot and any white space.
    Dot,
    /// After one or two dots that are no attribute access.
    Dots(u8),
    Comment {
        after_dot: bool,
    },
    /// After a backslash outside strings.
    Continuation {
        after_dot: bool,
    },
    /// After `count` quotes of a string that is not yet known to be triple.
    Opening {
        string: StringKind,
        count: u8,
    },
    Text {
        string: StringKind,
        part: Part,
    },
    /// In the format specification of a field.
    Spec,
}

/// Where inside the text of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Plain,
    /// After this many closing quotes of a triple-quoted string (1 or 2).
    Quotes(u8),
    Escape,
    /// After a backslash and a carriage return.
    EscapeCr,
    /// After `\N`.
    EscapeName,
    /// Inside `\N{…}`.
    CharacterName,
    /// After one `{` of a string with fields.
    Brace,
}

/// The word under the cursor: enough of it to tell keywords and string prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    bytes: [u8; 8],
    len: u8, // saturates past the longest keyword
    is_attribute: bool,
    is_first: bool,
    begins_statement: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    /// Decimal digits; only `0` so far?
    Int { is_zero: bool },
    /// With a radix prefix, or after a suffix: a dot is no part of it.
    Whole,
    /// After the decimal point.
    Fraction,
    /// After `e`, before a digit.
    Exponent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Import {
    No,
    /// After `import`, where a module path begins or goes on.
    Module,
    /// After `from`, likewise.
    FromModule,
    /// After `from … import`, where a name begins.
    Names,
    /// After a name or path, before the next comma.
    Done,
    /// As [`Import::Done`], in a `from … import` list.
    NamesDone,
}

impl Default for PythonLexer {
    fn default() -> Self {
        Self::new()
    }
}

impl PythonLexer {
    /// At the start of a file.
    pub fn new() -> Self {
        Self {
            mode: Mode::Gap,
            after_value: false,
            import: Import::No,
            line_is_blank: true,
            may_begin_statement: true,
            n_brackets: 0,
            fields: SmallVec::new(),
            reading: Reading::new(),
        }
    }

    /// Read one byte.
    pub fn push(&mut self, byte: u8) {
        match self.mode {
            Mode::Gap => self.begin(byte),
            Mode::Word(word) => self.in_word_byte(word, byte),
            Mode::Number(number) => self.in_number(number, byte),
            Mode::Dot => self.after_dot(byte),
            Mode::Dots(count) => self.in_dots(count, byte),
            Mode::Comment { after_dot } => {
                if is_newline(byte) {
                    self.resume(after_dot);
                    self.push(byte);
                }
            }
            Mode::Continuation { after_dot } => match byte {
                b'\r' => {} // a line feed may follow
                b'\n' => self.resume(after_dot),
                _ => {
                    self.resume(after_dot);
                    self.push(byte);
                }
            },
            Mode::Opening { string, count } => self.in_opening(string, count, byte),
            Mode::Text { string, part } => self.in_text(string, part, byte),
            Mode::Spec => self.in_spec(byte),
        }
    }

    /// Read several bytes.
    pub fn push_all(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.push(byte);
        }
    }

    /// The kind of name that may begin with the next byte, if it is known to be one.
    pub fn place(&self) -> Option<PlaceKind> {
        match (self.mode, self.import) {
            (Mode::Dot, _) => Some(PlaceKind::Member),
            (Mode::Gap, Import::Module | Import::FromModule) if !self.after_value => {
                Some(PlaceKind::Module)
            }
            (Mode::Gap, Import::Names) => Some(PlaceKind::ImportedName),
            (Mode::Gap, Import::No) if self.after_value => None,
            (Mode::Gap, Import::No) if self.reading.is_argument() => Some(PlaceKind::Keyword),
            (Mode::Gap, Import::No) if self.reading.is_read() => Some(PlaceKind::Name),
            _ => None,
        }
    }

    /// Whether the cursor is inside the text of a string or in a comment.
    pub fn in_text_or_comment(&self) -> bool {
        matches!(
            self.mode,
            Mode::Comment { .. } | Mode::Opening { .. } | Mode::Text { .. } | Mode::Spec
        )
    }

    /// Whether a line that begins here belongs to a string, a bracket or a replacement field.
    pub fn is_inside(&self) -> bool {
        self.n_brackets > 0
            || !self.fields.is_empty()
            || matches!(self.mode, Mode::Opening { .. } | Mode::Text { .. } | Mode::Spec)
    }

    /// Whether a line end here is taken back by a backslash.
    pub fn is_continued(&self) -> bool {
        matches!(self.mode, Mode::Continuation { .. })
    }

    /// Whether the last byte belongs to an identifier or number.
    pub fn in_word(&self) -> bool {
        matches!(self.mode, Mode::Word(_) | Mode::Number(_))
    }

    /// A byte that begins a token, or white space.
    fn begin(&mut self, byte: u8) {
        match byte {
            b' ' | b'\t' | b'\x0c' => return self.reading.gap(),
            b'\n' | b'\r' => return self.newline(),
            b'#' => self.mode = Mode::Comment { after_dot: false },
            b'\\' => self.mode = Mode::Continuation { after_dot: false },
            b'\'' | b'"' => self.open_string(&[], byte),
            b'.' => self.dot(),
            b'0'..=b'9' => {
                self.mode = Mode::Number(Number::Int { is_zero: byte == b'0' });
            }
            _ if is_identifier_start(byte) => self.begin_word(byte, false),
            b'(' | b'[' | b'{' => {
                self.reading.open(byte, self.after_value);
                self.after_value = false;
                self.n_brackets = self.n_brackets.saturating_add(1);
            }
            b'}' if self.n_brackets == 0 && !self.fields.is_empty() => self.close_field(),
            b')' | b']' | b'}' => {
                self.after_value = true;
                self.n_brackets = self.n_brackets.saturating_sub(1);
                self.reading.close();
                if self.import == Import::Names {
                    self.import = Import::NamesDone;
                }
            }
            b':' if self.n_brackets == 0 && !self.fields.is_empty() => self.mode = Mode::Spec,
            _ => self.operator(byte),
        }
        self.line_is_blank = false;
        if !matches!(byte, b':' | b';') {
            self.may_begin_statement = false;
        }
    }

    fn operator(&mut self, byte: u8) {
        self.reading.operator(byte, self.after_value);
        self.after_value = false;
        self.import = match (byte, self.import) {
            (b',', Import::Done) => Import::Module,
            (b',', Import::NamesDone) => Import::Names,
            (b'*', Import::Names) => Import::NamesDone,
            (b';', _) => Import::No,
            (_, import) => import,
        };
        self.may_begin_statement =
            matches!(byte, b':' | b';') && self.n_brackets == 0 && self.fields.is_empty();
    }

    fn newline(&mut self) {
        self.line_is_blank = true;
        self.reading.gap();
        if self.n_brackets == 0 && self.fields.is_empty() {
            self.reading.begin_statement();
            self.after_value = false;
            self.import = Import::No;
            self.may_begin_statement = true;
        }
    }

    fn resume(&mut self, after_dot: bool) {
        self.mode = if after_dot { Mode::Dot } else { Mode::Gap };
    }

    fn dot(&mut self) {
        self.reading.dot();
        if matches!(self.import, Import::Module | Import::FromModule) {
            self.after_value = false;
        } else if self.after_value {
            self.mode = Mode::Dot;
        } else {
            self.mode = Mode::Dots(1);
        }
    }

    fn after_dot(&mut self, byte: u8) {
        match byte {
            b' ' | b'\t' | b'\x0c' => {}
            b'\\' => self.mode = Mode::Continuation { after_dot: true },
            b'#' => self.mode = Mode::Comment { after_dot: true },
            b'\n' | b'\r' if self.n_brackets > 0 || !self.fields.is_empty() => self.newline(),
            b'0'..=b'9' => self.mode = Mode::Number(Number::Fraction),
            _ if is_identifier_start(byte) => self.begin_word(byte, true),
            _ => {
                self.after_value = false;
                self.mode = Mode::Gap;
                self.begin(byte);
            }
        }
    }

    fn in_dots(&mut self, count: u8, byte: u8) {
        match (byte, count) {
            (b'.', 1) => self.mode = Mode::Dots(2),
            (b'.', _) => self.end_value(), // an ellipsis
            (b'0'..=b'9', 1) => self.mode = Mode::Number(Number::Fraction),
            _ => {
                self.mode = Mode::Gap;
                self.begin(byte);
            }
        }
    }

    fn end_value(&mut self) {
        self.reading.value();
        self.after_value = true;
        self.mode = Mode::Gap;
    }

    fn in_number(&mut self, number: Number, byte: u8) {
        let next = match (number, byte) {
            (Number::Int { .. }, b'0'..=b'9' | b'_') => Number::Int { is_zero: false },
            (Number::Int { .. }, b'.') => Number::Fraction,
            (Number::Int { is_zero: true }, b'x' | b'X' | b'o' | b'O' | b'b' | b'B') => {
                Number::Whole
            }
            (Number::Int { .. } | Number::Fraction, b'e' | b'E') => Number::Exponent,
            (Number::Int { .. } | Number::Fraction, b'j' | b'J') => Number::Whole,
            (Number::Fraction, b'0'..=b'9' | b'_') => Number::Fraction,
            (Number::Exponent, b'+' | b'-') => Number::Exponent,
            (Number::Exponent, b'0'..=b'9' | b'_') => Number::Whole,
            (Number::Whole, _) if is_identifier_byte(byte) => Number::Whole,
            _ => {
                // A letter that cannot belong to the number begins a word (`1if x else 2`).
                self.end_value();
                return self.begin(byte);
            }
        };
        self.mode = Mode::Number(next);
    }

    fn begin_word(&mut self, byte: u8, is_attribute: bool) {
        let mut word = Word {
            bytes: [0; 8],
            len: 0,
            is_attribute,
            is_first: self.line_is_blank,
            begins_statement: self.may_begin_statement,
        };
        word.push(byte);
        self.mode = Mode::Word(word);
    }

    fn in_word_byte(&mut self, mut word: Word, byte: u8) {
        if is_identifier_byte(byte) {
            word.push(byte);
            self.mode = Mode::Word(word);
        } else if matches!(byte, b'\'' | b'"') && word.is_string_prefix() {
            self.open_string(word.bytes(), byte);
        } else {
            self.mode = Mode::Gap;
            self.end_word(word);
            self.begin(byte);
        }
    }

    fn end_word(&mut self, word: Word) {
        self.after_value = true;
        let text = word.bytes();
        if word.is_attribute || !is_keyword(text) || is_value_keyword(text) {
            let is_plain = !word.is_attribute && !is_value_keyword(text);
            self.reading.name(text, is_plain);
            if self.import == Import::Names {
                self.import = Import::NamesDone;
            }
            return;
        }
        self.after_value = false;
        if word.is_first && is_statement_keyword(text) {
            self.n_brackets = 0;
            self.fields.clear();
            self.import = Import::No;
            self.reading.begin_statement();
        }
        self.reading.keyword(text);
        self.import = match (text, self.import) {
            (b"import", Import::FromModule) => Import::Names,
            (b"import", _) if word.begins_statement => Import::Module,
            (b"from", _) if word.begins_statement => Import::FromModule,
            (b"as", Import::Module) => Import::Done,
            (_, import) => import,
        };
    }

    fn open_string(&mut self, prefix: &[u8], quote: u8) {
        let has = |letter: u8| prefix.iter().any(|b| b.eq_ignore_ascii_case(&letter));
        self.mode = Mode::Opening {
            string: StringKind {
                quote,
                is_triple: false,
                is_raw: has(b'r'),
                has_fields: has(b'f') || has(b't'),
            },
            count: 1,
        };
    }

    fn in_opening(&mut self, mut string: StringKind, count: u8, byte: u8) {
        if byte == string.quote {
            string.is_triple = count == 2;
            self.mode = if string.is_triple {
                Mode::Text { string, part: Part::Plain }
            } else {
                Mode::Opening { string, count: 2 }
            };
        } else if count == 2 {
            self.end_value(); // an empty string
            self.begin(byte);
        } else {
            self.in_text(string, Part::Plain, byte);
        }
    }

    fn in_text(&mut self, string: StringKind, part: Part, byte: u8) {
        let next = match (part, byte) {
            (Part::Plain, b'\\') => Part::Escape,
            (Part::Plain, b'{') if string.has_fields => Part::Brace,
            (Part::Plain, _) if byte == string.quote => {
                if !string.is_triple {
                    return self.end_value();
                }
                Part::Quotes(1)
            }
            (Part::Plain, b'\n' | b'\r') if !string.is_triple => {
                self.end_value(); // not closed: it ends with its line
                return self.newline();
            }
            (Part::Plain, _) => Part::Plain,
            (Part::Quotes(2), _) if byte == string.quote => return self.end_value(),
            (Part::Quotes(n), _) if byte == string.quote => Part::Quotes(n + 1),
            (Part::Escape, b'\r') => Part::EscapeCr,
            (Part::Escape, b'N') if string.has_fields && !string.is_raw => Part::EscapeName,
            (Part::Escape, b'{' | b'}') if string.has_fields => {
                return self.in_text(string, Part::Plain, byte);
            }
            (Part::Escape, _) | (Part::EscapeCr, b'\n') => Part::Plain,
            (Part::EscapeName, b'{') => Part::CharacterName,
            (Part::CharacterName, b'}') | (Part::Brace, b'{') => Part::Plain,
            (Part::CharacterName, b' ' | b'-' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z') => {
                Part::CharacterName
            }
            (Part::Quotes(_) | Part::EscapeCr | Part::EscapeName | Part::CharacterName, _) => {
                return self.in_text(string, Part::Plain, byte);
            }
            (Part::Brace, _) => {
                self.open_field(string, false);
                return self.begin(byte);
            }
        };
        self.mode = Mode::Text { string, part: next };
    }

    fn open_field(&mut self, string: StringKind, in_spec: bool) {
        let level = self.reading.level();
        self.reading.open_field();
        self.fields.push(Field { string, n_brackets: self.n_brackets, level, in_spec });
        self.n_brackets = 0;
        self.after_value = false;
        self.mode = Mode::Gap;
    }

    fn close_field(&mut self) {
        let Some(field) = self.fields.pop() else {
            return;
        };
        self.n_brackets = field.n_brackets;
        self.reading.leave(field.level);
        self.mode = if field.in_spec {
            Mode::Spec
        } else {
            Mode::Text { string: field.string, part: Part::Plain }
        };
    }

    fn in_spec(&mut self, byte: u8) {
        let Some(string) = self.fields.last().map(|f| f.string) else {
            self.mode = Mode::Gap; // unreachable: a specification has its field
            return;
        };
        match byte {
            b'{' => self.open_field(string, true),
            b'}' => self.close_field(),
            b'\n' | b'\r' if !string.is_triple => {
                self.abandon_string();
                self.newline();
            }
            _ if byte == string.quote && !string.is_triple => self.abandon_string(),
            _ => {}
        }
    }

    /// The string around the cursor ended in the middle of a field.
    fn abandon_string(&mut self) {
        while let Some(field) = self.fields.pop() {
            self.n_brackets = field.n_brackets;
            self.reading.leave(field.level);
            if !field.in_spec {
                break;
            }
        }
        self.end_value();
    }
}

impl Word {
    fn push(&mut self, byte: u8) {
        if let Some(slot) = self.bytes.get_mut(self.len as usize) {
            *slot = byte;
        }
        self.len = self.len.saturating_add(1);
    }

    /// The word, or nothing when it is longer than every word that matters.
    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len as usize).unwrap_or(&[])
    }

    fn is_string_prefix(&self) -> bool {
        if self.is_attribute {
            return false;
        }
        let mut text = [0; 2];
        let bytes = self.bytes();
        if bytes.is_empty() || bytes.len() > 2 {
            return false;
        }
        text[..bytes.len()].copy_from_slice(bytes);
        text.make_ascii_lowercase();
        matches!(
            &text[..bytes.len()],
            b"r" | b"b" | b"u" | b"f" | b"t" | b"br" | b"rb" | b"fr" | b"rf" | b"tr" | b"rt"
        )
    }
}

fn is_newline(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}
