//! `tether complete` and `tether candidates` on the demonstration package and on damaged repositories.

use crate::program::{refused, tether, tiny};
use std::path::{Path, PathBuf};

fn inventory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/inventory")
}

/// `FILE:LINE:COL` right after the first occurrence of `text` in a file of the demonstration package.
fn after(file: &str, text: &str) -> String {
    let path = inventory().join(file);
    let source = std::fs::read_to_string(&path).expect("committed");
    let end = source.find(text).expect("in the file") + text.len();
    let line = source[..end].matches('\n').count() + 1;
    let col = source[..end].rsplit('\n').next().expect("a line").chars().count() + 1;
    format!("{}:{line}:{col}", path.display())
}

fn in_inventory<'a>(verb: &'a str, repo: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec![verb, "--repo", repo];
    args.extend(more);
    args
}

fn run(verb: &str, more: &[&str]) -> crate::program::Run {
    let repo = inventory().display().to_string();
    tether(&in_inventory(verb, &repo, more))
}

const SYMBOL: &str = "stockroom.store:Store.count_items";

#[test]
fn candidates_after_self_are_closed_and_say_what_they_are() {
    let at = after("stockroom/store.py", "return self.");
    let run = run("candidates", &["--at", &at, "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let json = run.json();
    assert_eq!(json["answer"], "closed", "{json}");
    let names = json["names"].as_array().expect("names");
    let units_of = names.iter().find(|n| n["name"] == "units_of").expect("a method");
    assert_eq!((&units_of["kind"], &units_of["origin"]), (&"method".into(), &"project".into()));
    assert!(names.iter().all(|n| n["name"] != "get_items"), "an invented name");
}

#[test]
fn completed_json_has_the_shape_that_stays() {
    let model = tiny("llama");
    let more = [
        "--model",
        &model,
        "--symbol",
        SYMBOL,
        "-n",
        "12",
        "--prompt-style",
        "plain",
        "--prompt-tokens-max",
        "60",
    ];
    let run = run("complete", &[&more[..], &["--json"]].concat());
    assert!(run.code <= 1, "{}", run.stderr);
    let json = run.json();
    assert_eq!(json["symbol"], SYMBOL);
    assert!(json["body"].as_str().expect("text").starts_with("        "), "{json}");
    assert!(json["finish_reason"].is_string());
    for key in ["asked", "closed", "open", "unknown", "timed_out", "changed"] {
        assert!(json["guide"][key].is_u64(), "{key}");
    }
    assert_eq!(json["events"].as_array().expect("events").len(), json["guide"]["asked"]);
    assert_eq!(json["prompt_is_cut"], true);
}

#[test]
fn a_guided_random_model_writes_a_name_that_exists() {
    let at = after("stockroom/store.py", "return self.");
    let offered = run("candidates", &["--at", &at, "--json", "--dunder"]).json();
    for model in ["llama", "qwen3", "mistral"] {
        for seed in ["1", "2", "3"] {
            let model = tiny(model);
            let more = [
                "--model",
                &model,
                "--at",
                &at,
                "-n",
                "40",
                "--prompt-style",
                "plain",
                "--prompt-tokens-max",
                "40",
            ];
            let sampling = ["--temperature", "1", "--seed", seed, "--json"];
            let json = run("complete", &[&more[..], &sampling].concat()).json();
            let event = &json["events"][0];
            assert_eq!(event["answer"], "closed", "{json}");
            // A name that the token limit cut has no end; every other one exists.
            if let Some(name) = event["name"].as_str() {
                let names = offered["names"].as_array().expect("names");
                assert!(names.iter().any(|n| n["name"] == name), "{name} is not offered");
                assert!(json["body"].as_str().expect("text").starts_with(name), "{json}");
            }
        }
    }
}

#[test]
fn every_policy_writes_names_that_exist_and_says_how_likely_they_were() {
    let at = after("stockroom/store.py", "return self.");
    let offered = run("candidates", &["--at", &at, "--json", "--dunder"]).json();
    let names = offered["names"].as_array().expect("names");
    let (mut n_names, mut chosen) = (0, std::collections::BTreeSet::new());
    for policy in ["greedy", "score", "score:per-token", "score:per-byte", "beam:1", "beam:4"] {
        for model in ["llama", "qwen2", "gguf/llama-q8_0.gguf"] {
            let model = tiny(model);
            let more = ["--model", &model, "--at", &at, "-n", "40", "--policy", policy, "--json"];
            let style = ["--prompt-style", "plain", "--prompt-tokens-max", "40"];
            let run = run("complete", &[&more[..], &style].concat());
            assert!(run.code <= 1, "{}", run.stderr);
            let json = run.json();
            let event = &json["events"][0];
            assert_eq!(event["answer"], "closed", "{json}");
            if let Some(name) = event["name"].as_str() {
                assert!(names.iter().any(|n| n["name"] == name), "{policy}: {name}");
                let chance = |key: &str| event[key].as_f64().expect("explained");
                assert!(chance("logprob") <= chance("logprob_allowed") + 1e-6, "{event}");
                assert!(chance("logprob_allowed") <= 1e-6, "{event}");
                n_names += 1;
                chosen.insert(format!("{policy} {name}"));
            }
        }
    }
    assert!(n_names >= 12, "only {n_names} names were finished: {chosen:?}");
}

#[test]
fn a_stop_string_or_a_limit_inside_a_name_cuts_it_and_says_so() {
    let at = after("stockroom/store.py", "return self.");
    let model = tiny("llama");
    let style = ["--prompt-style", "plain", "--prompt-tokens-max", "40", "--json"];
    let complete = |more: &[&str]| {
        let args = ["--model", &model, "--at", &at];
        run("complete", &[&args[..], &style, more].concat()).json()
    };
    let whole = complete(&["-n", "40"]);
    let name = whole["events"][0]["name"].as_str().expect("a name").to_owned();
    assert!(name.len() >= 4, "{name}");
    let stop = &name[2..4];
    let stopped = complete(&["-n", "40", "--stop", stop]);
    let cut = &name[..name.find(stop).expect("inside")];
    assert_eq!(stopped["body"], cut, "{stopped}");
    assert_eq!(stopped["finish_reason"], "stop");
    let limited = complete(&["-n", "1"]);
    assert_eq!(limited["finish_reason"], "length");
    let part = limited["body"].as_str().expect("text");
    assert!(name.starts_with(part) && part.len() < name.len(), "{part} of {name}");
    assert_eq!(limited["events"][0]["name"], part, "what is written is what is reported");
}

#[test]
fn policies_and_triggers_that_cannot_work_are_refused() {
    let repo = inventory().display().to_string();
    let model = tiny("llama");
    let complete = |more: &[&'static str], parts: &[&str]| {
        let mut args = in_inventory("complete", &repo, more);
        args.extend(["--model", &model, "--symbol", SYMBOL, "-n", "4"]);
        refused(&args, parts);
    };
    complete(&["--policy", "best"], &["best", "greedy, score"]);
    complete(&["--policy", "beam"], &["beam:N"]);
    complete(&["--policy", "paper"], &["--guide trigger"]);
    complete(&["--guide", "trigger", "--trigger", "names, please"], &["one token", "adapter"]);
    complete(&["--level", "everything"], &["everything", "members"]);
}

#[test]
fn unguided_completion_asks_nothing() {
    let model = tiny("llama");
    let more = ["--model", &model, "--symbol", SYMBOL, "-n", "8", "--guide", "off", "--json"];
    let json = run(
        "complete",
        &[&more[..], &["--prompt-style", "plain", "--prompt-tokens-max", "60"]].concat(),
    )
    .json();
    assert_eq!(json["guide"]["asked"], 0);
}

#[test]
fn symbols_and_positions_that_do_not_exist_name_the_nearest() {
    let repo = inventory().display().to_string();
    let complete = |more: &[&'static str], parts: &[&str]| {
        let model = tiny("llama");
        let mut args = in_inventory("complete", &repo, more);
        args.extend(["--model", &model]);
        refused(&args, parts);
    };
    complete(&["--symbol", "stockroom.store:Store.count_item"], &["count_item", SYMBOL]);
    complete(&["--symbol", "nonsense"], &["nonsense"]);
    complete(&["--at", "stockroom/store.py:9999:1"], &["9999"]);
    complete(&["--at", "stockroom/store.py:1:9999"], &["9999"]);
    complete(&["--at", "store.py:1:1"], &["stockroom/store.py"]);
    complete(&["--at", "store.py"], &["FILE:LINE:COL"]);
    complete(&["--symbol", SYMBOL, "--tool", "oracle"], &["oracle", "native"]);
    refused(&["candidates", "--repo", "/nonexistent", "--at", "a.py:1:1"], &["/nonexistent"]);
}

/// A package in a folder of its own, written as the bytes given.
fn package(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, bytes) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().expect("inside")).expect("made");
        std::fs::write(path, bytes).expect("written");
    }
    dir
}

fn write_body(dir: &Path, symbol: &str) -> crate::program::Run {
    let (repo, model) = (dir.display().to_string(), tiny("llama"));
    tether(&[
        "complete",
        "--repo",
        &repo,
        "--symbol",
        symbol,
        "--model",
        &model,
        "-n",
        "6",
        "--write",
        "--prompt-style",
        "plain",
        "--prompt-tokens-max",
        "60",
    ])
}

#[test]
fn a_written_body_keeps_the_line_ends_and_the_rest_of_the_file() {
    let source = "class A:\r\n\tdef f(self):\r\n\t\t'''Doc.'''\r\n\t\treturn 1\r\n\r\n\tdef g(self):\r\n\t\treturn 2\r\n";
    let dir = package(&[("m.py", source.as_bytes())]);
    let run = write_body(dir.path(), "m:A.f");
    assert!(run.code <= 1, "{}", run.stderr);
    let text = std::fs::read_to_string(dir.path().join("m.py")).expect("there");
    assert!(text.starts_with("class A:\r\n\tdef f(self):\r\n\t\t'''Doc.'''\r\n\t\t"), "{text:?}");
    assert!(text.ends_with("\r\n\r\n\tdef g(self):\r\n\t\treturn 2\r\n"), "{text:?}");
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count(), "{text:?}");
}

#[test]
fn a_byte_order_mark_is_kept_and_another_encoding_is_never_overwritten() {
    let body = "def f():\n    '''Doc.'''\n    return 1\n";
    let marked = [b"\xef\xbb\xbf", body.as_bytes()].concat();
    let dir = package(&[("m.py", &marked)]);
    assert!(write_body(dir.path(), "m:f").code <= 1);
    let stored = std::fs::read(dir.path().join("m.py")).expect("there");
    assert!(stored.starts_with(b"\xef\xbb\xbfdef f():\n    '''Doc.'''\n    "));

    let latin = b"# -*- coding: latin-1 -*-\ndef f():\n    '''Caf\xe9.'''\n    return 1\n";
    let dir = package(&[("m.py", latin)]);
    let run = write_body(dir.path(), "m:f");
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("UTF-8"), "{}", run.stderr);
    assert_eq!(std::fs::read(dir.path().join("m.py")).expect("there"), latin);
}

#[test]
fn a_diff_shows_the_change_and_changes_nothing() {
    let source = "def f():\n    '''Doc.'''\n    return 1\n";
    let dir = package(&[("m.py", source.as_bytes())]);
    let (repo, model) = (dir.path().display().to_string(), tiny("llama"));
    let args = ["complete", "--repo", &repo, "--symbol", "m:f", "--model", &model, "-n", "6"];
    let run = tether(
        &[&args[..], &["--diff", "--prompt-style", "plain", "--prompt-tokens-max", "60"]].concat(),
    );
    assert!(
        run.stdout.contains("--- a/m.py") && run.stdout.contains("-    return 1"),
        "{}",
        run.stdout
    );
    assert_eq!(std::fs::read_to_string(dir.path().join("m.py")).expect("there"), source);
}

#[cfg(unix)]
#[test]
fn files_that_cannot_be_analysed_are_named_and_the_others_are_used() {
    let long = "x = 1\n".repeat(100_000);
    let dir = package(&[
        (
            "good.py",
            b"class A:\n    def f(self):\n        self.x = 1\n\n    def g(self):\n        return self.x\n",
        ),
        ("broken.py", b"class B:\n    def (((\n"),
        ("binary.py", b"\0\x01\x02\xff"),
        ("latin.py", b"# caf\xe9\nclass L: pass\n"),
        ("long.py", long.as_bytes()),
    ]);
    std::os::unix::fs::symlink(dir.path(), dir.path().join("again")).expect("linked");
    std::os::unix::fs::symlink("missing.py", dir.path().join("gone.py")).expect("linked");
    let repo = dir.path().display().to_string();
    let at = format!("{}:6:21", dir.path().join("good.py").display());
    let run = tether(&["candidates", "--repo", &repo, "--at", &at, "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    for name in ["binary.py", "latin.py"] {
        assert!(run.stderr.contains(name), "{name} is not named in {}", run.stderr);
    }
    let json = run.json();
    let names = json["names"].as_array().expect("names");
    assert!(names.iter().any(|n| n["name"] == "x"), "{json}");
}

#[test]
fn a_machine_without_python_is_told_and_served() {
    let at = after("stockroom/store.py", "return self.");
    let run = run("candidates", &["--at", &at, "--json", "--python", "/nonexistent/python"]);
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    if run.code == 2 {
        assert!(run.stderr.contains("/nonexistent/python"), "{}", run.stderr);
    } else {
        assert!(!run.json()["names"].as_array().expect("names").is_empty());
    }
}
