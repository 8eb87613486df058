//! Python's identifiers and keywords, as far as bytes can tell.
//!
//! # Place
//! Uses nothing. Shared by the lexer and the automata of `constrain`.
//! # Sources
//! The Python Language Reference 3.14, section 2.3 (identifiers and keywords).

/// Whether a byte can stand inside an identifier. Every byte of a non-ASCII character counts: no such
/// character is an operator or white space to Python.
pub(super) const fn is_identifier_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Whether a byte can begin an identifier.
pub(super) const fn is_identifier_start(byte: u8) -> bool {
    is_identifier_byte(byte) && !byte.is_ascii_digit()
}

/// Whether a word is reserved (soft keywords such as `match` are ordinary names).
pub(super) fn is_keyword(word: &[u8]) -> bool {
    is_value_keyword(word)
        || matches!(
            word,
            b"and"
                | b"as"
                | b"assert"
                | b"async"
                | b"await"
                | b"break"
                | b"class"
                | b"continue"
                | b"def"
                | b"del"
                | b"elif"
                | b"else"
                | b"except"
                | b"finally"
                | b"for"
                | b"from"
                | b"global"
                | b"if"
                | b"import"
                | b"in"
                | b"is"
                | b"lambda"
                | b"nonlocal"
                | b"not"
                | b"or"
                | b"pass"
                | b"raise"
                | b"return"
                | b"try"
                | b"while"
                | b"with"
                | b"yield"
        )
}

/// Whether a keyword is itself a value, so that an attribute may follow.
pub(super) fn is_value_keyword(word: &[u8]) -> bool {
    matches!(word, b"None" | b"True" | b"False")
}

/// Whether a keyword can only begin a statement: seen first on a line, it shows that a bracket left
/// open above was a mistake.
pub(super) fn is_statement_keyword(word: &[u8]) -> bool {
    matches!(
        word,
        b"assert"
            | b"break"
            | b"class"
            | b"continue"
            | b"def"
            | b"del"
            | b"except"
            | b"finally"
            | b"global"
            | b"nonlocal"
            | b"pass"
            | b"raise"
            | b"return"
            | b"try"
            | b"while"
            | b"with"
    )
}

/// Keywords that may stand where an operand begins, after `not` and `yield` included, and the beginnings of
/// strings.
pub(super) const OPERAND_WORDS: [&str; 59] = [
    "None", "True", "False", "not", "lambda", "await", "yield", "in", "from", "r'", "r\"", "R'",
    "R\"", "b'", "b\"", "B'", "B\"", "u'", "u\"", "U'", "U\"", "f'", "f\"", "F'", "F\"", "t'",
    "t\"", "T'", "T\"", "rb'", "rb\"", "rB'", "rB\"", "Rb'", "Rb\"", "RB'", "RB\"", "br'", "br\"",
    "bR'", "bR\"", "Br'", "Br\"", "BR'", "BR\"", "rf'", "rf\"", "rF'", "rF\"", "Rf'", "Rf\"",
    "RF'", "RF\"", "fr'", "fr\"", "fR'", "fR\"", "Fr'", "Fr\"",
];

/// Whether a name can be written after a dot: an identifier that is not reserved.
pub(super) fn is_name(text: &str) -> bool {
    text.bytes().next().is_some_and(is_identifier_start)
        && text.bytes().all(is_identifier_byte)
        && !text.chars().any(|c| c.is_whitespace() || c.is_control())
        && !is_keyword(text.as_bytes())
}
