//! Kinds of tokens.
//!
//! # Place
//! Made by the lexer, read by the parser.

use super::ast::Span;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum T {
    Eof,
    Newline,
    Indent,
    Dedent,
    /// The completion cursor.
    Cursor,
    Name,
    Int,
    Float,
    Complex,
    Str,
    Bytes,
    FStr,
    Error,
    LParen,
    RParen,
    LBracket,
    RBracket,
    LBrace,
    RBrace,
    Comma,
    Colon,
    Semicolon,
    Dot,
    Dots3,
    Arrow,
    At,
    Assign,
    ColonEq,
    AugAssign,
    Plus,
    Minus,
    Star,
    DoubleStar,
    Slash,
    DoubleSlash,
    Percent,
    LShift,
    RShift,
    Amp,
    Pipe,
    Caret,
    Tilde,
    Lt,
    Gt,
    LtE,
    GtE,
    EqEq,
    NotEq,
    Bang,
    KwFalse,
    KwNone,
    KwTrue,
    KwAnd,
    KwAs,
    KwAssert,
    KwAsync,
    KwAwait,
    KwBreak,
    KwClass,
    KwContinue,
    KwDef,
    KwDel,
    KwElif,
    KwElse,
    KwExcept,
    KwFinally,
    KwFor,
    KwFrom,
    KwGlobal,
    KwIf,
    KwImport,
    KwIn,
    KwIs,
    KwLambda,
    KwNonlocal,
    KwNot,
    KwOr,
    KwPass,
    KwRaise,
    KwReturn,
    KwTry,
    KwWhile,
    KwWith,
    KwYield,
}

impl T {
    pub(super) fn is_keyword(self) -> bool {
        self as u8 >= T::KwFalse as u8
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) kind: T,
    pub(super) start: u32,
    pub(super) end: u32,
    /// The first token of its physical line.
    pub(super) first_on_line: bool,
}

impl Token {
    pub(super) fn span(self) -> Span {
        Span { start: self.start, end: self.end }
    }
}

/// The keyword that a word is.
pub(super) fn keyword(word: &[u8]) -> Option<T> {
    if word.len() < 2 || word.len() > 8 {
        return None;
    }
    Some(match word {
        b"False" => T::KwFalse,
        b"None" => T::KwNone,
        b"True" => T::KwTrue,
        b"and" => T::KwAnd,
        b"as" => T::KwAs,
        b"assert" => T::KwAssert,
        b"async" => T::KwAsync,
        b"await" => T::KwAwait,
        b"break" => T::KwBreak,
        b"class" => T::KwClass,
        b"continue" => T::KwContinue,
        b"def" => T::KwDef,
        b"del" => T::KwDel,
        b"elif" => T::KwElif,
        b"else" => T::KwElse,
        b"except" => T::KwExcept,
        b"finally" => T::KwFinally,
        b"for" => T::KwFor,
        b"from" => T::KwFrom,
        b"global" => T::KwGlobal,
        b"if" => T::KwIf,
        b"import" => T::KwImport,
        b"in" => T::KwIn,
        b"is" => T::KwIs,
        b"lambda" => T::KwLambda,
        b"nonlocal" => T::KwNonlocal,
        b"not" => T::KwNot,
        b"or" => T::KwOr,
        b"pass" => T::KwPass,
        b"raise" => T::KwRaise,
        b"return" => T::KwReturn,
        b"try" => T::KwTry,
        b"while" => T::KwWhile,
        b"with" => T::KwWith,
        b"yield" => T::KwYield,
        _ => return None,
    })
}
