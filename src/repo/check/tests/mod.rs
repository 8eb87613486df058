//! Cases of the checker: small projects in which a comment `#! E1101` marks each line that must be flagged,
//! and no other line may be.
//!
//! # Place
//! Test code. `check` writes the files, checks them all, and compares.

mod calls;
mod names;
mod property;
mod report;
mod suppression;
mod values;

use super::{CheckConfig, CheckReport, Finding, Heed, MessageSet, check as run_check};
use crate::repo::{Project, ProjectConfig, PythonChoice};
use std::path::Path;

/// Files separated by lines `#- name`; the first may go without (it is `main.py`).
pub(super) fn write_files(dir: &Path, fixture: &str) {
    let mut name = "main.py".to_owned();
    let mut text = String::new();
    let write = |name: &str, text: &str| {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    for line in fixture.split_inclusive('\n') {
        if let Some(next) = line.strip_prefix("#- ") {
            write(&name, &text);
            text.clear();
            next.trim_end().clone_into(&mut name);
        } else {
            text.push_str(line);
        }
    }
    write(&name, &text);
}

pub(super) fn config() -> CheckConfig {
    CheckConfig { messages: MessageSet::all(), n_threads: 1, heed_comments: Heed::Comments }
}

pub(super) fn checked(dir: &Path) -> CheckReport {
    let mut config_of_project = ProjectConfig::new(dir);
    config_of_project.python = PythonChoice::Active;
    config_of_project.n_threads = 1;
    let (project, _) = Project::open(config_of_project).unwrap();
    run_check(&project.snapshot(), &[], &config()).unwrap()
}

/// `main.py:3 E1101` of every finding.
fn places(findings: &[Finding], dir: &Path) -> Vec<String> {
    let dir = dir.canonicalize().unwrap();
    let place = |f: &Finding| {
        let path = f.path.strip_prefix(&dir).unwrap().display();
        format!("{path}:{} {}", f.start.line, f.message.id())
    };
    let mut places: Vec<String> = findings.iter().map(place).collect();
    places.sort();
    places.dedup();
    places
}

fn marked(dir: &Path) -> Vec<String> {
    let mut out = Vec::new();
    let mut pending = vec![dir.to_path_buf()];
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            pending.extend(std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for (i, line) in text.lines().enumerate() {
            let ids = line.split_once("#! ").map_or("", |(_, ids)| ids);
            for id in ids.split_whitespace() {
                out.push(format!("{}:{} {id}", path.strip_prefix(dir).unwrap().display(), i + 1));
            }
        }
    }
    out.sort();
    out
}

#[track_caller]
pub(super) fn check(fixture: &str) {
    let dir = tempfile::tempdir().unwrap();
    write_files(dir.path(), fixture);
    let report = checked(dir.path());
    let texts: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        places(&report.findings, dir.path()),
        marked(dir.path()),
        "in {fixture}\n{texts:#?}"
    );
}

macro_rules! cases {
    ($($name:ident: $fixture:expr;)*) => {
        $(#[test] fn $name() { crate::repo::check::tests::check($fixture); })*
    };
}
pub(super) use cases;
