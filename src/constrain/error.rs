//! What can go wrong in a constraint.
//!
//! # Place
//! Part of `constrain`.

/// A constraint could not be made, or was used against its protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConstraintError {
    #[error(
        "the vocabulary is too large: at most {tokens_max} tokens and 4 GiB of text are supported"
    )]
    VocabularyTooLarge { tokens_max: usize },
    #[error("token {token} is not in the vocabulary of {n_tokens} tokens")]
    NoSuchToken { token: u32, n_tokens: usize },
    #[error(
        "token {token} is not allowed at byte {offset} of the text; sample under the mask and check before accepting"
    )]
    Forbidden { token: u32, offset: usize },
    #[error("cannot take back {n_tokens} tokens: only the last {kept} can be taken back")]
    RollbackTooFar { n_tokens: usize, kept: usize },
    #[error("the {kind} has a mistake{}: {problem}", at(*line, *column))]
    Grammar { kind: &'static str, line: Option<u32>, column: Option<u32>, problem: String },
    #[error(
        "the JSON schema uses {what}, which cannot be enforced; remove it or check the result afterwards"
    )]
    UnsupportedSchema { what: String },
    #[error("the {kind} is too large: {what}; make it smaller")]
    GrammarTooLarge { kind: &'static str, what: &'static str },
    #[error("{waiting_max} requests already wait for their grammars; try again later")]
    TooManyGrammars { waiting_max: usize },
    #[error("grammars are not available for this model: {problem}")]
    GrammarEngine { problem: String },
}

fn at(line: Option<u32>, column: Option<u32>) -> String {
    match (line, column) {
        (Some(line), Some(column)) => format!(" at line {line}, column {column}"),
        _ => String::new(),
    }
}
