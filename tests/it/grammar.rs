//! `tether generate` under a schema, a regular expression, a grammar or a list of choices.

use crate::program::{refused, tether, tiny};
use serde_json::Value;

/// What the random model writes, and the exit code.
fn write(more: &[&str]) -> (String, i32, String) {
    let model = tiny("llama");
    let base =
        ["generate", "--model", &model, "--prompt", "x", "--temperature", "1", "--seed", "3"];
    let run = tether(&[&base[..], more].concat());
    (run.stdout.strip_suffix('\n').unwrap_or_default().to_owned(), run.code, run.stderr)
}

fn file(name: &str, text: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join(name);
    std::fs::write(&path, text).expect("written");
    (dir, path.display().to_string())
}

const SCHEMA: &str = r#"{"type":"object","properties":{"n":{"type":"integer","minimum":10,"maximum":99}},"required":["n"],"additionalProperties":false}"#;

#[test]
fn json_follows_its_schema_given_inline_or_in_a_file() {
    let (_dir, path) = file("schema.json", SCHEMA);
    for schema in [SCHEMA, path.as_str()] {
        let (text, code, messages) = write(&["--json-schema", schema]);
        assert_eq!(code, 0, "{messages}");
        let value: Value = serde_json::from_str(&text).expect("JSON");
        assert!((10..100).contains(&value["n"].as_i64().expect("a number")), "{text}");
    }
}

#[test]
fn a_regular_expression_matches_the_whole_text() {
    let (text, code, _) = write(&["--regex", "[a-c]{3}-[0-9]{2}"]);
    let (letters, digits) = text.split_once('-').expect("a dash");
    assert!(letters.len() == 3 && letters.bytes().all(|b| b"abc".contains(&b)), "{text}");
    assert!(digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit()), "{text}");
    assert_eq!(code, 0);
}

#[test]
fn grammars_in_either_notation_give_one_of_their_texts() {
    for (name, text) in [
        ("a.lark", "start: \"yes\" | no\nno: /n+o/\n"),
        ("a.gbnf", "root ::= \"yes\" | no\nno ::= \"n\"+ \"o\"\n"),
        ("a.txt", "# by its text\nroot ::= \"yes\" | \"no\"\n"),
    ] {
        let (_dir, path) = file(name, text);
        let (text, code, messages) = write(&["--grammar", &path]);
        let no = text.strip_suffix('o').unwrap_or_default();
        assert!(text == "yes" || !no.is_empty() && no.bytes().all(|b| b == b'n'), "{text:?}");
        assert_eq!(code, 0, "{messages}");
    }
}

#[test]
fn one_of_the_choices_is_written_in_every_mode() {
    let choices = ["--choice", "alpha", "--choice", "alpine\nbeta"];
    for more in [&[][..], &["--top-k", "1"], &["--top-p", "0.01"]] {
        let (text, code, _) = write(&[&choices[..], more].concat());
        assert!(["alpha", "alpine\nbeta"].contains(&&*text), "{text:?}");
        assert_eq!(code, 0);
    }
}

#[test]
fn a_text_cut_before_its_grammar_is_complete_is_a_negative_result_and_still_printed() {
    let (text, code, messages) = write(&["--regex", "[a-z]{30}", "-n", "3"]);
    assert_eq!(code, 1);
    assert!(!text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase()), "{text}");
    assert!(messages.contains("cut before it was complete"), "{messages}");
    let (json, code, _) = write(&["--json-schema", "{}", "-n", "1", "--json"]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((code, json["finish_reason"].as_str()), (1, Some("length")));
}

#[test]
fn mistakes_and_what_cannot_be_enforced_are_named() {
    let model = tiny("llama");
    let base = ["generate", "--model", &model, "--prompt", "x"];
    let bad = |more: &[&str], parts: &[&str]| refused(&[&base[..], more].concat(), parts);
    bad(&["--json-schema", "{\"a\""], &["not JSON", "line 1 column 4"]);
    bad(&["--json-schema", "nowhere.json"], &["nowhere.json"]);
    bad(&["--json-schema", "{\"uniqueItems\": true}"], &["\"uniqueItems\"", "cannot be enforced"]);
    bad(&["--json-schema", "{\"format\": \"iri\"}"], &["format \"iri\""]);
    bad(&["--json-schema", "{\"$ref\": \"http://a/b\"}"], &["http://a/b"]);
    bad(&["--json-schema", "{\"type\": \"strin\"}"], &["strin"]);
    bad(&["--regex", "a("], &["regular expression", "unclosed group"]);
    bad(&["--regex", "(a{1,500}){1,500}"], &["too large"]);
    bad(&["--choice", ""], &["choices"]);
    bad(&["--choice", "a", "--regex", "b"], &["cannot be used with"]);
    bad(&["--regex", "b", "--ignore-eos"], &["cannot be used with"]);
    bad(&["--grammar-format", "lark"], &["--grammar"]);
    let (_dir, path) = file("bad.gbnf", "root ::= \"a\"\nb ::= (\n");
    bad(&["--grammar", &path], &["GBNF grammar", "line 3, column 1"]);
    let (_dir, path) = file("bad.lark", "start: b\nb: /[0-9/\n");
    bad(&["--grammar", &path], &["Lark grammar", "line 2", "unclosed"]);
    let stdin = ["generate", "--model", &model, "--prompt", "-", "--json-schema", "-"];
    refused(&stdin, &["standard input"]);
}
