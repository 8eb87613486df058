//! The arguments that say which form a text must have.
//!
//! # Place
//! Part of `cli`; shared by the verbs that write free text.

use crate::constrain::GrammarSource;
use anyhow::Context;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What the text must look like, from its first byte to its last. At most one of these.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Form of the text")]
#[command(group(clap::ArgGroup::new("form")
    .args(["json_schema", "regex", "grammar", "choice"]).multiple(false)))]
pub(super) struct GrammarArgs {
    /// Write JSON that is valid against a schema: a file, `-` for standard input, or the schema
    /// itself when it begins with `{`.
    #[arg(long, value_name = "SCHEMA")]
    json_schema: Option<String>,
    /// Write text that a regular expression matches as a whole.
    #[arg(long, value_name = "REGEX")]
    regex: Option<String>,
    /// Write text that follows the grammar in a file; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    grammar: Option<PathBuf>,
    /// The notation of the grammar; from the file's ending (.lark, .gbnf) or its text unless given.
    #[arg(long, value_enum, value_name = "FORMAT", requires = "grammar")]
    grammar_format: Option<Notation>,
    /// Write one of these texts (may be given several times).
    #[arg(long, value_name = "TEXT")]
    choice: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Notation {
    /// Rules `name: ...`, beginning at `start`.
    Lark,
    /// Rules `name ::= ...`, beginning at `root`, as llama.cpp has them.
    Gbnf,
}

impl GrammarArgs {
    /// Whether standard input is read here.
    pub(super) fn reads_stdin(&self) -> bool {
        self.json_schema.as_deref() == Some("-") || self.grammar.as_deref() == Some(Path::new("-"))
    }

    /// What was asked for, files read.
    pub(super) fn source(&self) -> anyhow::Result<Option<GrammarSource>> {
        if let Some(schema) = &self.json_schema {
            return json_schema(schema).map(Some);
        }
        if let Some(regex) = &self.regex {
            return Ok(Some(GrammarSource::Regex(regex.clone())));
        }
        if let Some(path) = &self.grammar {
            let text = read(path, "the grammar")?;
            let notation = self.grammar_format.unwrap_or_else(|| notation(path, &text));
            return Ok(Some(match notation {
                Notation::Lark => GrammarSource::Lark(text),
                Notation::Gbnf => GrammarSource::Gbnf(text),
            }));
        }
        Ok((!self.choice.is_empty()).then(|| GrammarSource::Choice(self.choice.clone())))
    }
}

fn json_schema(argument: &str) -> anyhow::Result<GrammarSource> {
    let (text, place) = if argument.trim_start().starts_with('{') {
        (argument.to_owned(), "on the command line".to_owned())
    } else {
        (read(Path::new(argument), "the JSON schema")?, format!("in {argument}"))
    };
    let schema = serde_json::from_str(&text)
        .with_context(|| format!("the JSON schema {place} is not JSON"))?;
    Ok(GrammarSource::JsonSchema(schema))
}

fn read(path: &Path, what: &str) -> anyhow::Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .with_context(|| format!("cannot read {what} from standard input as UTF-8 text"))?;
        return Ok(text);
    }
    std::fs::read_to_string(path)
        .with_context(|| format!("cannot read {what} from {}", path.display()))
}

/// By the file's ending; without a known one, GBNF is what defines its rules with `::=`.
fn notation(path: &Path, text: &str) -> Notation {
    match path.extension().and_then(|e| e.to_str()) {
        Some("lark") => Notation::Lark,
        Some("gbnf") => Notation::Gbnf,
        _ => {
            let code = text.lines().map(str::trim).find(|l| !l.is_empty() && !l.starts_with('#'));
            match code.and_then(|line| line.split_once(':')) {
                Some((_, rest)) if rest.starts_with(":=") => Notation::Gbnf,
                _ => Notation::Lark,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notation_of_a_grammar_is_known_by_its_ending_or_its_first_rule() {
        for (path, text, expected) in [
            ("a.lark", "root ::= \"a\"", Notation::Lark),
            ("a.gbnf", "start: \"a\"", Notation::Gbnf),
            ("a.txt", "# ::=\n\nroot ::= \"a\"", Notation::Gbnf),
            ("-", "start: \"::=\"", Notation::Lark),
            ("-", "", Notation::Lark),
        ] {
            assert_eq!(notation(Path::new(path), text), expected, "{path} {text}");
        }
    }
}
