//! Whether a file is valid Python, asked of the interpreter when there is one.
//!
//! # Place
//! Part of `runtime`; uses `sandbox` to run the interpreter and `repo` where there is none.

use crate::repo::first_syntax_error;
use crate::sandbox::{Job, run};
use std::path::Path;
use std::time::Duration;

/// What is known about a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// The interpreter parsed it.
    Valid,
    /// It does not parse.
    Invalid { line: u32, problem: String },
    /// No interpreter could be asked, and the grammar found no error.
    Plausible,
}

impl Syntax {
    /// `Some` when it is certain.
    pub fn is_valid(&self) -> Option<bool> {
        match self {
            Self::Valid => Some(true),
            Self::Invalid { .. } => Some(false),
            Self::Plausible => None,
        }
    }
}

const QUESTION: &str = "\
import ast, sys
try:
    ast.parse(sys.stdin.buffer.read())
except SyntaxError as e:
    print(e.lineno or 1, e.msg)
except Exception as e:
    print(1, e)
else:
    print('ok')
";

/// Check a whole file. It is parsed, never run.
pub fn check_syntax(text: &str, python: Option<&Path>) -> Syntax {
    let answer = python.and_then(|python| {
        let job = Job {
            program: python.to_owned(),
            args: ["-I", "-S", "-c", QUESTION].map(Into::into).to_vec(),
            stdin: text.as_bytes().to_vec(),
            timeout: Duration::from_secs(10),
            output_bytes_max: 4096,
        };
        let outcome = run(&job).ok().filter(|o| o.status.success())?;
        String::from_utf8(outcome.stdout).ok()
    });
    match (answer, first_syntax_error(text)) {
        (Some(answer), _) if answer.trim() == "ok" => Syntax::Valid,
        (Some(answer), grammar) => {
            let (line, problem) = answer.trim().split_once(' ').unwrap_or((answer.trim(), ""));
            let line = line.parse().ok().or(grammar).unwrap_or(1);
            Syntax::Invalid { line, problem: problem.to_owned() }
        }
        (None, Some(line)) => Syntax::Invalid { line, problem: "invalid syntax".to_owned() },
        (None, None) => Syntax::Plausible,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_has_the_last_word_and_the_grammar_stands_in() {
        let bad = "def f():\nreturn 1\n";
        assert!(matches!(check_syntax("def f(:\n", None), Syntax::Invalid { line: 1, .. }));
        assert_eq!(check_syntax("x = 1\n", None), Syntax::Plausible);
        let python = Path::new("python3");
        match check_syntax("x = 1\n", Some(python)) {
            Syntax::Valid => {
                assert!(matches!(check_syntax(bad, Some(python)), Syntax::Invalid { line: 2, .. }));
            }
            other => println!("skipped: no python3 here ({other:?})"),
        }
    }
}
