//! The words of a language server's command line.
//!
//! # Place
//! Part of `complete::lsp`. No shell is ever started: `$`, `|` and `*` mean nothing.

use super::super::CompleteError;

/// Split at blanks; quotes and backslashes keep blanks together, as in a shell.
///
/// # Errors
/// When the command is empty or a quote is not closed.
pub(super) fn split(command: &str) -> Result<Vec<String>, CompleteError> {
    let bad = |problem| CompleteError::BadCommand { command: command.to_owned(), problem };
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = command.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some('"') | None, '\\') => {
                let next = chars.next().ok_or_else(|| bad("ends with a backslash"))?;
                word.get_or_insert_default().push(next);
            }
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '"' | '\'') => {
                word.get_or_insert_default();
                quote = Some(c);
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(bad("has a quote that is not closed"));
    }
    words.extend(word);
    match words.first().is_none_or(String::is_empty) {
        true => Err(bad("names no program")),
        false => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, expected: Result<&[&str], &str>) {
        match (split(command), expected) {
            (Ok(words), Ok(expected)) => assert_eq!(words, expected),
            (Err(e), Err(told)) => assert!(e.to_string().contains(told), "{e}"),
            (got, _) => panic!("{command}: {got:?}"),
        }
    }

    #[test]
    fn words_are_split_as_in_a_shell_without_being_run() {
        check("ty server", Ok(&["ty", "server"]));
        check("  a  'b c' \"d \\\" e\" f\\ g ''", Ok(&["a", "b c", "d \" e", "f g", ""]));
        check("x $HOME|y *", Ok(&["x", "$HOME|y", "*"]));
    }

    #[test]
    fn an_unusable_command_says_why() {
        check("", Err("names no program"));
        check("''", Err("names no program"));
        check("a 'b", Err("quote that is not closed"));
        check("a \\", Err("ends with a backslash"));
    }
}
