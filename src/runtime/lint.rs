//! Real pylint, asked for the same messages as our checker and answering with the same findings.
//!
//! # Place
//! Part of `runtime`; runs pylint through `sandbox`. The project's own pylint configuration is left out,
//! so that a result depends on the sources only.
//! # Sources
//! pylint's JSON output: user guide, "Output options" (4.1, read 2026-11-30).

use super::RuntimeError;
use crate::base::limit::{PYLINT_OUTPUT_BYTES_MAX, PYLINT_STDERR_BYTES_SHOWN_MAX};
use crate::base::{LineCol, LineIndex};
use crate::repo::{Finding, Message, MessageSet, quoted};
use crate::sandbox::{Job, SandboxError, run};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How pylint is run.
#[derive(Clone, Debug)]
pub struct PylintConfig {
    pub python: PathBuf,
    /// Folders that modules are imported from.
    pub source_roots: Vec<PathBuf>,
    pub messages: MessageSet,
    pub timeout: Duration,
}

/// Exit code of the start script when pylint cannot be imported.
const NOT_INSTALLED: i32 = 97;

/// The arguments are the source roots, `--`, and pylint's own.
const START: &str = "\
import sys
end = sys.argv.index('--')
sys.path[:] = sys.argv[1:end] + [p for p in sys.path if p]
try:
    from pylint.lint import Run
except ImportError as e:
    print(e, file=sys.stderr)
    sys.exit(97)
Run(sys.argv[end + 1:])
";

#[derive(serde::Deserialize)]
struct Row {
    #[serde(default)]
    module: String,
    #[serde(default)]
    obj: String,
    line: u32,
    column: u32,
    #[serde(rename = "endLine")]
    end_line: Option<u32>,
    #[serde(rename = "endColumn")]
    end_column: Option<u32>,
    path: PathBuf,
    message: String,
    #[serde(rename = "message-id")]
    id: String,
}

/// Run pylint over files. With `stdin` one file is read from there: its path, and the text.
///
/// # Errors
/// When pylint is not installed, overruns its time, or answers with something that is not its output.
pub fn run_pylint(
    files: &[PathBuf],
    stdin: Option<(&Path, &str)>,
    config: &PylintConfig,
) -> Result<Vec<Finding>, RuntimeError> {
    let pylint = |problem: String| RuntimeError::Pylint { python: config.python.clone(), problem };
    let job = Job {
        program: config.python.clone(),
        args: arguments(files, stdin.map(|(path, _)| path), config),
        stdin: stdin.map(|(_, text)| text.as_bytes().to_vec()).unwrap_or_default(),
        timeout: config.timeout,
        output_bytes_max: PYLINT_OUTPUT_BYTES_MAX,
    };
    let outcome = run(&job).map_err(|e| match e {
        SandboxError::TimedOut { timeout, .. } => {
            pylint(format!("did not finish within {} s; name fewer files", timeout.as_secs()))
        }
        e => pylint(e.to_string()),
    })?;
    let stderr = String::from_utf8_lossy(&outcome.stderr);
    if outcome.status.code() == Some(NOT_INSTALLED) {
        return Err(RuntimeError::PylintMissing { python: config.python.clone() });
    }
    if outcome.is_cut {
        return Err(pylint("printed more than is read; name fewer files".to_owned()));
    }
    let rows: Vec<Row> = serde_json::from_slice(&outcome.stdout).map_err(|e| {
        let said: String =
            stderr.trim().chars().rev().take(PYLINT_STDERR_BYTES_SHOWN_MAX).collect();
        let said: String = said.chars().rev().collect();
        pylint(format!("gave no JSON ({e}, {}): {said}", outcome.status))
    })?;
    let mut lines = Lines { stdin, known: None };
    let mut findings: Vec<Finding> =
        rows.into_iter().filter_map(|row| finding(row, &mut lines)).collect();
    findings.sort();
    Ok(findings)
}

fn arguments(files: &[PathBuf], stdin: Option<&Path>, config: &PylintConfig) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec!["-c".into(), START.into()];
    args.extend(config.source_roots.iter().map(|r| r.as_os_str().to_owned()));
    args.push("--".into());
    let ids: Vec<&str> = config.messages.iter().map(Message::id).collect();
    let fixed = ["--rcfile=/dev/null", "--output-format=json", "--persistent=n", "--score=n"];
    args.extend(fixed.map(OsString::from));
    args.push("--disable=all".into());
    args.push(format!("--enable={}", ids.join(",")).into());
    match stdin {
        Some(path) => {
            args.push("--from-stdin".into());
            args.push(path.as_os_str().to_owned());
        }
        None => args.extend(files.iter().map(|f| f.as_os_str().to_owned())),
    }
    args
}

/// The text that positions are in, one file at a time: pylint reports file by file.
struct Lines<'a> {
    stdin: Option<(&'a Path, &'a str)>,
    known: Option<(PathBuf, Option<Arc<str>>)>,
}

impl Lines<'_> {
    /// A position from a line and pylint's column, which counts bytes from 0.
    fn position(&mut self, path: &Path, line: u32, column: u32) -> LineCol {
        if self.known.as_ref().is_none_or(|(known, _)| known != path) {
            let text = match self.stdin {
                Some((_, text)) => Some(Arc::from(text)),
                None => std::fs::read_to_string(path).ok().map(Arc::from),
            };
            self.known = Some((path.to_owned(), text));
        }
        let line = line.max(1);
        let text = self.known.as_ref().and_then(|(_, text)| text.clone());
        let col = text.and_then(|text| {
            let index = LineIndex::new(&text);
            let line_idx = line as usize - 1;
            ((line_idx as u64) < u64::from(index.n_lines())).then(|| {
                let before = &index.line(&text, line_idx).as_bytes();
                let before = &before[..before.len().min(column as usize)];
                String::from_utf8_lossy(before).chars().count() as u32
            })
        });
        LineCol { line, col: col.unwrap_or(column) + 1 }
    }
}

/// One of our messages; none for others (pylint reports some that were not asked for).
fn finding(row: Row, lines: &mut Lines<'_>) -> Option<Finding> {
    let message = Message::named(&row.id)?;
    let path = row.path.canonicalize().unwrap_or(row.path);
    let start = lines.position(&path, row.line, row.column);
    let end = match (row.end_line, row.end_column) {
        (Some(line), Some(column)) => lines.position(&path, line, column),
        _ => start,
    };
    Some(Finding {
        start,
        end: end.max(start),
        message,
        module: row.module,
        object: row.obj,
        names: quoted(&row.message),
        text: row.message.replace('\n', " "),
        path,
    })
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A stand-in for Python that prints `stdout` and ends with `code`.
    fn check(stdout: &str, code: i32) -> Result<Vec<Finding>, RuntimeError> {
        let dir = tempfile::tempdir().expect("a folder");
        let python = dir.path().join("python");
        let script =
            format!("#!/bin/sh\ncat <<'END'\n{stdout}\nEND\necho trouble >&2\nexit {code}\n");
        std::fs::write(&python, script).expect("written");
        std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).expect("set");
        let config = PylintConfig {
            python,
            source_roots: vec![],
            messages: MessageSet::all(),
            timeout: Duration::from_secs(5),
        };
        run_pylint(&[], Some((Path::new("/x/a.py"), "é.f(x)\n")), &config)
    }

    #[test]
    fn rows_become_findings_with_columns_in_characters() {
        let row = r#"[{"type":"error","module":"a","obj":"","line":1,"column":3,"endLine":1,"endColumn":4,
            "path":"/x/a.py","symbol":"no-member","message":"Instance of 'A' has no 'f' member",
            "message-id":"E1101"},
            {"line":1,"column":0,"path":"/x/a.py","message":"other","message-id":"C0114"}]"#;
        let found = check(row, 2).expect("findings");
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].start, found[0].message),
            (LineCol { line: 1, col: 3 }, Message::NoMember)
        );
        assert_eq!(found[0].names, ["A", "f"]);
    }

    #[test]
    fn what_goes_wrong_is_named() {
        let missing = check("", NOT_INSTALLED).expect_err("refused").to_string();
        assert!(missing.contains("pylint is not installed"), "{missing}");
        let garbage = check("no json", 0).expect_err("refused").to_string();
        assert!(garbage.contains("trouble") && garbage.contains("no JSON"), "{garbage}");
    }
}
