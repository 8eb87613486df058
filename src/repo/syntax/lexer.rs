//! Tokens of Python source, pulled one at a time, with indentation and with a place for the cursor.
//!
//! # Place
//! Uses nothing of `repo`. Used by the parser beside it.
//! # Invariants
//! - Never fails and always advances: whatever is not Python becomes an [`T::Error`] token.
//! - LF, CRLF and a lone CR end a line; a form feed resets the column; tabs go to the next multiple
//!   of eight, as in CPython.
//! - A line that begins with a word that only a statement can begin with ends every open bracket:
//!   in valid code this never happens, in code being written it keeps one unclosed bracket from
//!   swallowing the rest of the file.

use super::ast::BinOp;
use super::token::keyword;
pub(super) use super::token::{T, Token};

/// Deepest indentation that is tracked (CPython allows 100 levels).
const INDENTS_MAX: usize = 100;

/// How far a string inside an f-string field is looked for, in bytes.
const LOOKAHEAD_MAX: usize = 2000;

/// A part of the text that is not there: the cursor stands at `start`, and the text goes on at
/// `resume` (the start of a line, or the end).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hole {
    pub(crate) start: usize,
    pub(crate) resume: usize,
}

#[derive(Clone)]
pub(super) struct Lexer<'s> {
    src: &'s [u8],
    pos: usize,
    /// End of the text that may be read now: the hole while it lies ahead.
    limit: usize,
    end: usize,
    hole: Option<Hole>,
    depth: u32,
    indents: Vec<u32>,
    pending_dedents: u32,
    at_line_start: bool,
    line_has_token: bool,
    first_on_line: bool,
    force_newline: bool,
    /// The hole lies in a string, comment or number.
    pub(super) cursor_in_literal: bool,
}

fn is_name_start(b: u8) -> bool {
    b.is_ascii_alphabetic() || b == b'_' || b >= 0x80
}

fn is_name_part(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80
}

impl<'s> Lexer<'s> {
    pub(super) fn new(src: &'s str, range: std::ops::Range<usize>, hole: Option<Hole>) -> Self {
        let mut pos = range.start;
        if src[pos..].starts_with('\u{feff}') {
            pos += 3;
        }
        Self {
            src: src.as_bytes(),
            pos,
            limit: hole.map_or(range.end, |h| h.start),
            end: range.end,
            hole,
            depth: 0,
            indents: vec![0],
            pending_dedents: 0,
            at_line_start: true,
            line_has_token: false,
            first_on_line: true,
            force_newline: false,
            cursor_in_literal: false,
        }
    }

    /// A lexer for the expression of an f-string field, where line ends mean nothing.
    pub(super) fn field(&self, start: usize, end: usize, hole: Option<Hole>) -> Self {
        Self {
            src: self.src,
            pos: start,
            limit: hole.map_or(end, |h| h.start),
            end,
            hole,
            depth: 1,
            indents: vec![0],
            pending_dedents: 0,
            at_line_start: false,
            line_has_token: true,
            first_on_line: false,
            force_newline: false,
            cursor_in_literal: false,
        }
    }

    fn indent_width(&self, start: usize, end: usize) -> (u32, usize) {
        let mut col = 0;
        let mut p = start;
        while p < end {
            match self.src[p] {
                b' ' => col += 1,
                b'\t' => col = (col / 8 + 1) * 8,
                0x0c | 0x0b => col = 0,
                _ => break,
            }
            p += 1;
        }
        (col, p)
    }

    /// Forget open brackets and go on as if a new line began with the token at `at`.
    pub(super) fn break_brackets(&mut self, at: usize) {
        let mut start = at;
        while start > 0 && !matches!(self.src[start - 1], b'\n' | b'\r') {
            start -= 1;
        }
        self.pos = start;
        self.depth = 0;
        self.at_line_start = true;
        self.line_has_token = false;
        self.pending_dedents = 0;
    }

    fn token(&mut self, kind: T, start: usize) -> Token {
        let first_on_line = self.first_on_line;
        self.first_on_line = false;
        if !matches!(kind, T::Newline | T::Indent | T::Dedent | T::Eof) {
            self.line_has_token = true;
        }
        Token { kind, start: start as u32, end: self.pos as u32, first_on_line }
    }

    fn skip_newline(&mut self) {
        if self.src[self.pos] == b'\r'
            && self.pos + 1 < self.limit
            && self.src[self.pos + 1] == b'\n'
        {
            self.pos += 1;
        }
        self.pos += 1;
        self.first_on_line = true;
    }

    fn skip_comment(&mut self) {
        while self.pos < self.limit && !matches!(self.src[self.pos], b'\n' | b'\r') {
            self.pos += 1;
        }
        if self.pos == self.limit && self.hole.is_some() {
            self.cursor_in_literal = true;
        }
    }

    /// Is the text at `pos` (the first word of a line) one that only a statement begins with?
    fn statement_word_at(&self, pos: usize) -> bool {
        let mut e = pos;
        while e < self.limit && is_name_part(self.src[e]) {
            e += 1;
        }
        if e == self.limit {
            return false;
        }
        let word = &self.src[pos..e];
        match word {
            b"def" | b"class" | b"with" | b"while" | b"import" => {
                matches!(self.src[e], b' ' | b'\t')
            }
            b"return" | b"raise" | b"assert" | b"del" | b"global" | b"nonlocal" | b"pass"
            | b"break" | b"continue" | b"try" | b"except" | b"finally" | b"elif" => {
                matches!(self.src[e], b' ' | b'\t' | b':' | b'\n' | b'\r')
            }
            _ => false,
        }
    }

    pub(super) fn next(&mut self) -> Token {
        loop {
            if self.pending_dedents > 0 {
                self.pending_dedents -= 1;
                return self.token(T::Dedent, self.pos);
            }
            if self.force_newline {
                self.force_newline = false;
                self.depth = 0;
                self.at_line_start = true;
                if self.line_has_token {
                    self.line_has_token = false;
                    return self.token(T::Newline, self.pos);
                }
            }
            if self.at_line_start && self.depth == 0 {
                if let Some(token) = self.line_start() {
                    return token;
                }
                if self.pending_dedents > 0 {
                    continue;
                }
            }
            // White space inside a line.
            while self.pos < self.limit {
                match self.src[self.pos] {
                    b' ' | b'\t' | 0x0c | 0x0b => self.pos += 1,
                    b'\\'
                        if self.pos + 1 < self.limit
                            && matches!(self.src[self.pos + 1], b'\n' | b'\r') =>
                    {
                        self.pos += 1;
                        self.skip_newline();
                        self.first_on_line = false;
                    }
                    b'#' => self.skip_comment(),
                    b'\n' | b'\r' if self.depth > 0 => {
                        self.skip_newline();
                        let (_, p) = self.indent_width(self.pos, self.limit);
                        if p < self.limit
                            && self.src[p].is_ascii_lowercase()
                            && self.statement_word_at(p)
                        {
                            self.depth = 0;
                            self.at_line_start = true;
                            self.line_has_token = false;
                            return self.token(T::Newline, self.pos);
                        }
                    }
                    _ => break,
                }
            }
            if self.pos >= self.limit {
                if let Some(hole) = self.hole.take() {
                    let start = self.limit;
                    self.limit = self.end;
                    if self.cursor_in_literal {
                        self.pos = hole.resume.max(start);
                        self.force_newline = true;
                        continue;
                    }
                    self.pos = start;
                    let token = self.token(T::Cursor, start);
                    self.pos = hole.resume.max(start);
                    self.force_newline = true;
                    return token;
                }
                if self.line_has_token {
                    self.line_has_token = false;
                    return self.token(T::Newline, self.pos);
                }
                if self.indents.len() > 1 {
                    self.pending_dedents = self.indents.len() as u32 - 1;
                    self.indents.truncate(1);
                    continue;
                }
                return self.token(T::Eof, self.pos);
            }
            if matches!(self.src[self.pos], b'\n' | b'\r') {
                let start = self.pos;
                self.skip_newline();
                self.at_line_start = true;
                if self.line_has_token {
                    self.line_has_token = false;
                    return Token {
                        kind: T::Newline,
                        start: start as u32,
                        end: start as u32,
                        first_on_line: false,
                    };
                }
                continue;
            }
            return self.scan();
        }
    }

    /// Indentation of a new logical line. Blank lines and comments are skipped.
    fn line_start(&mut self) -> Option<Token> {
        let col = loop {
            let (col, p) = self.indent_width(self.pos, self.limit);
            self.pos = p;
            if p >= self.limit {
                if self.hole.is_none() {
                    // End of text: dedents are given out by the caller.
                    self.at_line_start = false;
                    return None;
                }
                break col;
            }
            match self.src[p] {
                b'#' => {
                    self.skip_comment();
                    if self.pos >= self.limit {
                        continue;
                    }
                }
                b'\n' | b'\r' => self.skip_newline(),
                b'\\' if p + 1 < self.limit && matches!(self.src[p + 1], b'\n' | b'\r') => {
                    // A continued blank start: the indentation is that of the first line.
                    break col;
                }
                _ => break col,
            }
        };
        self.at_line_start = false;
        self.first_on_line = true;
        let top = *self.indents.last().unwrap_or(&0);
        if col > top {
            if self.indents.len() < INDENTS_MAX {
                self.indents.push(col);
                let token = self.token(T::Indent, self.pos);
                self.first_on_line = true;
                return Some(token);
            }
        } else {
            while self.indents.len() > 1 && self.indents.last().is_some_and(|&t| t > col) {
                self.indents.pop();
                self.pending_dedents += 1;
            }
            // A column between two levels is an error in Python; here the line belongs to the outer one.
        }
        None
    }

    fn peek(&self, n: usize) -> u8 {
        let at = self.pos + n;
        if at < self.limit { self.src[at] } else { 0 }
    }

    fn scan(&mut self) -> Token {
        let start = self.pos;
        let b = self.src[start];
        if is_name_start(b) {
            return self.name();
        }
        if b.is_ascii_digit() || (b == b'.' && self.peek(1).is_ascii_digit()) {
            return self.number();
        }
        let (kind, len) = match b {
            b'"' | b'\'' => {
                let kind = self.string(false);
                return self.token(kind, start);
            }
            b'(' => (T::LParen, 1),
            b')' => (T::RParen, 1),
            b'[' => (T::LBracket, 1),
            b']' => (T::RBracket, 1),
            b'{' => (T::LBrace, 1),
            b'}' => (T::RBrace, 1),
            b',' => (T::Comma, 1),
            b';' => (T::Semicolon, 1),
            b'~' => (T::Tilde, 1),
            b':' if self.peek(1) == b'=' => (T::ColonEq, 2),
            b':' => (T::Colon, 1),
            b'.' if self.peek(1) == b'.' && self.peek(2) == b'.' => (T::Dots3, 3),
            b'.' => (T::Dot, 1),
            b'-' if self.peek(1) == b'>' => (T::Arrow, 2),
            b'=' if self.peek(1) == b'=' => (T::EqEq, 2),
            b'=' => (T::Assign, 1),
            b'!' if self.peek(1) == b'=' => (T::NotEq, 2),
            b'!' => (T::Bang, 1),
            b'<' if self.peek(1) == b'<' => self.or_assign(T::LShift, 2),
            b'>' if self.peek(1) == b'>' => self.or_assign(T::RShift, 2),
            b'<' if self.peek(1) == b'=' => (T::LtE, 2),
            b'<' if self.peek(1) == b'>' => (T::NotEq, 2),
            b'<' => (T::Lt, 1),
            b'>' if self.peek(1) == b'=' => (T::GtE, 2),
            b'>' => (T::Gt, 1),
            b'*' if self.peek(1) == b'*' => self.or_assign(T::DoubleStar, 2),
            b'*' => self.or_assign(T::Star, 1),
            b'/' if self.peek(1) == b'/' => self.or_assign(T::DoubleSlash, 2),
            b'/' => self.or_assign(T::Slash, 1),
            b'+' => self.or_assign(T::Plus, 1),
            b'-' => self.or_assign(T::Minus, 1),
            b'%' => self.or_assign(T::Percent, 1),
            b'@' => self.or_assign(T::At, 1),
            b'&' => self.or_assign(T::Amp, 1),
            b'|' => self.or_assign(T::Pipe, 1),
            b'^' => self.or_assign(T::Caret, 1),
            _ => (T::Error, 1),
        };
        self.pos += len;
        match kind {
            T::LParen | T::LBracket | T::LBrace => self.depth += 1,
            T::RParen | T::RBracket | T::RBrace => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.token(kind, start)
    }

    fn or_assign(&self, kind: T, len: usize) -> (T, usize) {
        if self.peek(len) == b'=' { (T::AugAssign, len + 1) } else { (kind, len) }
    }

    /// The operator of an [`T::AugAssign`] token.
    pub(super) fn aug_op(&self, token: Token) -> BinOp {
        match &self.src[token.start as usize..token.end as usize] {
            b"-=" => BinOp::Sub,
            b"*=" => BinOp::Mul,
            b"@=" => BinOp::MatMul,
            b"/=" => BinOp::Div,
            b"//=" => BinOp::FloorDiv,
            b"%=" => BinOp::Mod,
            b"**=" => BinOp::Pow,
            b"<<=" => BinOp::LShift,
            b">>=" => BinOp::RShift,
            b"&=" => BinOp::And,
            b"|=" => BinOp::Or,
            b"^=" => BinOp::Xor,
            _ => BinOp::Add,
        }
    }

    fn name(&mut self) -> Token {
        let start = self.pos;
        while self.pos < self.limit && is_name_part(self.src[self.pos]) {
            self.pos += 1;
        }
        let word = &self.src[start..self.pos];
        if word.len() <= 2 && self.pos < self.limit && matches!(self.src[self.pos], b'"' | b'\'') {
            let mut bytes = false;
            let mut format = false;
            let mut prefix = true;
            for c in word {
                match c.to_ascii_lowercase() {
                    b'r' => {} // A backslash keeps a quote from closing a raw string too.
                    b'b' => bytes = true,
                    b'f' | b't' => format = true,
                    b'u' => {}
                    _ => prefix = false,
                }
            }
            if prefix {
                let kind = self.string(format);
                let kind = if bytes { T::Bytes } else { kind };
                return self.token(kind, start);
            }
        }
        let kind = keyword(word).unwrap_or(T::Name);
        self.token(kind, start)
    }

    fn number(&mut self) -> Token {
        let start = self.pos;
        let mut kind = T::Int;
        if self.src[start] == b'0'
            && matches!(self.peek(1), b'x' | b'X' | b'o' | b'O' | b'b' | b'B')
        {
            self.pos += 2;
            while self.peek(0).is_ascii_hexdigit() || self.peek(0) == b'_' {
                self.pos += 1;
            }
        } else {
            let digits = |lx: &mut Self| {
                while lx.peek(0).is_ascii_digit() || lx.peek(0) == b'_' {
                    lx.pos += 1;
                }
            };
            digits(self);
            if self.peek(0) == b'.' {
                kind = T::Float;
                self.pos += 1;
                digits(self);
            }
            if matches!(self.peek(0), b'e' | b'E')
                && (self.peek(1).is_ascii_digit()
                    || (matches!(self.peek(1), b'+' | b'-') && self.peek(2).is_ascii_digit()))
            {
                kind = T::Float;
                self.pos += 2;
                digits(self);
            }
            if matches!(self.peek(0), b'j' | b'J') {
                kind = T::Complex;
                self.pos += 1;
            }
        }
        if self.pos == self.limit && self.hole.is_some() {
            self.cursor_in_literal = true;
        }
        self.token(kind, start)
    }

    /// From the opening quote to after the closing one.
    fn string(&mut self, format: bool) -> T {
        let kind = if format { T::FStr } else { T::Str };
        let quote = self.src[self.pos];
        let triple = self.peek(1) == quote && self.peek(2) == quote;
        self.pos += if triple { 3 } else { 1 };
        while self.pos < self.limit {
            let b = self.src[self.pos];
            if b == b'\\' {
                self.pos += 1;
                // A backslash does not escape the braces of a format string.
                if self.pos < self.limit && !(format && matches!(self.src[self.pos], b'{' | b'}')) {
                    if self.src[self.pos] == b'\r' && self.peek(1) == b'\n' {
                        self.pos += 1;
                    }
                    self.pos += 1;
                }
                continue;
            }
            if b == quote {
                if !triple {
                    self.pos += 1;
                    return kind;
                }
                if self.peek(1) == quote && self.peek(2) == quote {
                    self.pos += 3;
                    return kind;
                }
            }
            if !triple && matches!(b, b'\n' | b'\r') {
                return kind; // Unterminated: ends with its line.
            }
            if format && b == b'{' {
                if self.peek(1) == b'{' {
                    self.pos += 2;
                    continue;
                }
                self.pos += 1;
                if self.skip_field(quote, triple) {
                    continue;
                }
                if self.pos >= self.limit && self.hole.is_some() {
                    return kind; // The cursor stands in a field: the parser meets it there.
                }
                continue;
            }
            self.pos += 1;
        }
        self.pos = self.limit;
        if self.hole.is_some() {
            self.cursor_in_literal = true;
        }
        kind
    }

    /// After the brace of an f-string field: skip to after its closing brace. False when the field does
    /// not end in this string (the position is then where the string may end, or the limit).
    fn skip_field(&mut self, quote: u8, triple: bool) -> bool {
        let from = self.pos;
        let mut depth = 1u32;
        let mut in_spec = false;
        while self.pos < self.limit {
            let b = self.src[self.pos];
            match b {
                b'{' | b'(' | b'[' => depth += 1,
                b')' | b']' => depth = depth.saturating_sub(1).max(1),
                b'}' => {
                    depth -= 1;
                    if depth == 0 {
                        self.pos += 1;
                        return true;
                    }
                }
                b':' if depth == 1 => in_spec = true,
                b'\n' | b'\r' if !triple => break,
                b'"' | b'\'' => {
                    let closes =
                        b == quote && (!triple || (self.peek(1) == quote && self.peek(2) == quote));
                    if closes && (in_spec || !self.nested_string_closes(b)) {
                        return false;
                    }
                    if !in_spec && !self.skip_nested_string(b, triple) {
                        break;
                    }
                    if in_spec {
                        self.pos += 1;
                    }
                    continue;
                }
                b'\\' => self.pos += 1,
                _ => {}
            }
            self.pos += 1;
        }
        if self.pos >= self.limit {
            self.pos = self.limit;
            if self.hole.is_some() {
                return false;
            }
        }
        self.pos = from;
        false
    }

    /// Does a string that opens here close on this line, with a brace after it?
    fn nested_string_closes(&self, quote: u8) -> bool {
        let mut p = self.pos + 1;
        let mut closed = false;
        let end = self.limit.min(p + LOOKAHEAD_MAX);
        while p < end {
            match self.src[p] {
                b'\n' | b'\r' => return false,
                b'}' if closed => return true,
                b if b == quote => closed = true,
                _ => {}
            }
            p += 1;
        }
        false
    }

    fn skip_nested_string(&mut self, quote: u8, multiline: bool) -> bool {
        let triple = self.peek(1) == quote && self.peek(2) == quote;
        self.pos += if triple { 3 } else { 1 };
        while self.pos < self.limit {
            let b = self.src[self.pos];
            if b == b'\\' {
                self.pos += 2;
                continue;
            }
            if b == quote && (!triple || (self.peek(1) == quote && self.peek(2) == quote)) {
                self.pos += if triple { 3 } else { 1 };
                return true;
            }
            if !triple && !multiline && matches!(b, b'\n' | b'\r') {
                return false;
            }
            self.pos += 1;
        }
        self.pos = self.pos.min(self.limit);
        if self.hole.is_some() {
            self.cursor_in_literal = true;
        }
        false
    }

    pub(super) fn hole(&self) -> Option<Hole> {
        self.hole
    }

    /// The cursor was met elsewhere (in a field of the f-string just read): go on after the hole.
    pub(super) fn leave_hole(&mut self) {
        if let Some(hole) = self.hole.take() {
            self.limit = self.end;
            self.pos = hole.resume.max(self.pos);
            self.force_newline = true;
        }
    }

    pub(super) fn bytes(&self) -> &'s [u8] {
        self.src
    }

    /// Does the logical line that goes on after the current token end with a colon? Decides whether
    /// `match` begins a statement.
    pub(super) fn line_ends_with_colon(&self) -> bool {
        let mut ahead = self.clone();
        let mut last = T::Newline;
        loop {
            let token = ahead.next();
            match token.kind {
                T::Newline | T::Eof | T::Indent | T::Dedent => return last == T::Colon,
                T::Cursor => return true,
                kind => last = kind,
            }
        }
    }

    pub(super) fn at_hole(&self) -> bool {
        self.hole.is_some_and(|h| h.start == self.pos)
    }
}
