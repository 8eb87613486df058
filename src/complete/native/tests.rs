//! Cases: small projects with a cursor, and what must and must not be offered there.

use super::NativeTool;
use crate::base::{Answer, CandidateKind, CandidateSource, Candidates, NameRole, Query};
use crate::repo::{Project, ProjectConfig, PythonChoice};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) fn ask(files: &[(String, Vec<u8>)], main: &str) -> Candidates {
    ask_for(files, main, NameRole::Any)
}

fn ask_for(files: &[(String, Vec<u8>)], main: &str, role: NameRole) -> Candidates {
    let dir = tempfile::tempdir().unwrap();
    let mut text = String::new();
    let mut offset = 0;
    for (name, bytes) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut bytes = bytes.clone();
        if name == main {
            let whole = String::from_utf8(bytes).unwrap();
            offset = whole.find('█').expect("the main file has a cursor");
            text = whole.replace('█', "");
            bytes = text.clone().into_bytes();
        }
        std::fs::write(path, bytes).unwrap();
    }
    let python = std::env::var_os("TETHER_TEST_PYTHON");
    let mut config = ProjectConfig::new(dir.path());
    config.python = python.map_or(PythonChoice::Active, |p| PythonChoice::Path(p.into()));
    config.n_threads = 1;
    let (project, _) = Project::open(config).unwrap();
    let mut tool = NativeTool::new(Arc::new(project));
    let path = dir.path().join(main);
    let deadline = Instant::now() + Duration::from_secs(20);
    tool.candidates_for(&Query { path: &path, text: &text, offset, deadline }, role)
}

/// What is answered at `█` for a name with a role: how sure, and the names.
fn role(text: &str, role: NameRole) -> (Answer, Vec<String>) {
    let found = ask_for(&[("main.py".to_owned(), text.as_bytes().to_vec())], "main.py", role);
    (found.answer, found.names.iter().map(|c| c.name.to_string()).collect())
}

#[test]
fn keyword_arguments_are_closed_when_the_signature_says_all_of_them() {
    let closed = |text: &str, names: &[&str]| {
        let (answer, found) = role(text, NameRole::Argument);
        assert_eq!(answer, Answer::Closed, "{text}: {found:?}");
        assert_eq!(found, names, "{text}");
    };
    closed("def f(a, b=1, *, c): ...\nf(1, █", &["b", "c"]);
    closed("def f(a, b=1): ...\nf(b=2, █", &["a"]);
    closed("class C:\n    def m(self, width, height): ...\nC().m(█", &["height", "width"]);
    closed("class C:\n    def __init__(self, width): ...\nC(█", &["width"]);
    for (text, answer) in [
        ("def f(a, **k): ...\nf(█", Answer::Open),
        ("import functools\n@functools.wraps(g)\ndef f(a): ...\nf(█", Answer::Unknown),
        ("f(█", Answer::Unknown),
        ("def f(a, /): ...\nf(█", Answer::Unknown),
        ("def f(a): ...\nx = █", Answer::Unknown),
    ] {
        let (found, names) = role(text, NameRole::Argument);
        assert!(found == answer || found != Answer::Closed, "{text}: {found:?} {names:?}");
        assert_ne!(found, Answer::Closed, "{text}: {names:?}");
    }
}

#[test]
fn variables_that_are_read_are_closed_unless_others_may_be_bound() {
    let text = "import os\nLIMIT = 3\ndef f(size):\n    for x in size:\n        if x > █\n        late = x\n";
    let (answer, names) = role(text, NameRole::Read);
    assert_eq!(answer, Answer::Closed);
    for name in ["os", "LIMIT", "f", "size", "x", "len", "__name__", "__class__", "ValueError"] {
        assert!(names.iter().any(|n| n == name), "{name} is in scope: {names:?}");
    }
    assert!(!names.iter().any(|n| n == "nowhere"));
    for text in
        ["from nowhere import *\nx = 1 + █", "try:\n    x = 1 + █\nexcept NameError:\n    pass\n"]
    {
        assert_ne!(role(text, NameRole::Read).0, Answer::Closed, "{text}");
    }
    assert_eq!(role("x = 1 + █", NameRole::Any).0, Answer::Open);
}

pub(super) fn offers(found: &Candidates, name: &str) -> bool {
    found.names.iter().any(|c| match name.strip_suffix('=') {
        Some(keyword) => c.kind == CandidateKind::Keyword && &*c.name == keyword,
        None => &*c.name == name,
    })
}

#[test]
fn the_shared_cases_are_all_right() {
    let shared = std::env::var("TETHER_SHARED").unwrap_or_else(|_| "../shared".to_owned());
    let Ok(cases) = std::fs::read_to_string(format!("{shared}/cases/completion.jsonl")) else {
        println!("skipped: no shared cases");
        return;
    };
    let mut wrong = Vec::new();
    for line in cases.lines() {
        let case: serde_json::Value = serde_json::from_str(line).unwrap();
        let name = case["name"].as_str().unwrap();
        let files: Vec<(String, Vec<u8>)> = case["files"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(path, text)| {
                let text = text.as_str().unwrap();
                let latin = case["encoding"][path] == "latin-1";
                let bytes = if latin {
                    text.chars().map(|c| c as u8).collect()
                } else {
                    text.as_bytes().to_vec()
                };
                (path.clone(), bytes)
            })
            .collect();
        let found = ask(&files, case["main"].as_str().unwrap());
        let list = |key: &str| -> Vec<String> {
            case[key].as_array().unwrap().iter().map(|v| v.as_str().unwrap().to_owned()).collect()
        };
        let missing: Vec<String> =
            list("want").into_iter().filter(|w| !offers(&found, w)).collect();
        let banned: Vec<String> = list("ban").into_iter().filter(|b| offers(&found, b)).collect();
        let unknown_wanted = list("want").is_empty() && list("ban").is_empty();
        if !missing.is_empty()
            || !banned.is_empty()
            || (unknown_wanted && found.answer == Answer::Closed && name != "bad-utf8-no-cookie")
        {
            wrong.push(format!(
                "{name}: {:?} missing {missing:?} banned {banned:?} ({:?})",
                found.answer, found.reason
            ));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
