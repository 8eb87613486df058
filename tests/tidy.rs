//! House rules that lints cannot say: the direction of the arrows between folders, which folder may
//! name which outside crate, the head of every module, sizes, names, and where `unsafe` may stand.
//!
//! Each rule is a function from source texts to complaints. It is tried on small made-up texts first
//! (a rule that cannot complain is a defect) and then on the tree. `UPDATE_EXPECT=1 cargo test
//! --test tidy` rewrites the generated table of `ARCHITECTURE.md`.

#[path = "tidy/made_up.rs"]
mod made_up;
#[path = "tidy/rule.rs"]
mod rule;
#[path = "tidy/rust_text.rs"]
mod rust_text;
#[path = "tidy/table.rs"]
mod table;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rule::*;
use rust_text::{Complaint, Source};
use table::{LONG_FILES, LONG_FUNCTIONS};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every text file of the repository that people write.
fn tree() -> Vec<Source> {
    let mut sources = Vec::new();
    let tops = ["src", "tests", "examples", "scripts", "kernels", "models", "fuzz", "bench", ".ci"];
    let mut pending: Vec<PathBuf> = tops.iter().map(|top| root().join(top)).collect();
    let at_root = std::fs::read_dir(root()).expect("the repository root is readable");
    pending.extend(
        at_root
            .filter_map(Result::ok)
            .map(|e| e.path())
            .filter(|p| p.is_file() && !p.ends_with(".git")),
    );
    while let Some(path) = pending.pop() {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        if path.is_dir() {
            if matches!(name, "target" | "__pycache__" | "runs" | "corpus" | "artifacts") {
                continue;
            }
            let entries = std::fs::read_dir(&path).expect("a folder of the tree is readable");
            pending.extend(entries.filter_map(Result::ok).map(|entry| entry.path()));
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            let relative = path.strip_prefix(root()).expect("found below the root");
            let path = relative.to_string_lossy().replace('\\', "/");
            sources.push(Source { path, text });
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    let n_rust = sources.iter().filter(|s| s.in_src()).count();
    assert!(n_rust > 5, "the tree was not found: {n_rust} Rust files");
    sources
}

/// Names of the dependencies of `Cargo.toml` that ship (not those of tests).
fn dependencies(manifest: &str) -> Vec<String> {
    let manifest: toml::Table = manifest.parse().expect("Cargo.toml is TOML");
    let mut names = BTreeSet::new();
    let mut take = |table: Option<&toml::Value>| {
        names.extend(
            table.and_then(toml::Value::as_table).into_iter().flat_map(|t| t.keys().cloned()),
        );
    };
    take(manifest.get("dependencies"));
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    targets.into_iter().flat_map(|t| t.values()).for_each(|t| take(t.get("dependencies")));
    names.into_iter().collect()
}

#[track_caller]
fn nothing_to_say(complaints: Vec<Complaint>) {
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn arrows_between_folders_point_down() {
    nothing_to_say(check_arrows(&tree()));
}

#[test]
fn outside_crates_are_named_where_they_belong() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    let dependencies = dependencies(&manifest);
    assert!(dependencies.iter().any(|name| name == "thiserror"), "{dependencies:?}");
    nothing_to_say(check_outside(&tree(), &dependencies));
}

#[test]
fn modules_say_what_they_are() {
    nothing_to_say(check_heads(&tree()));
}

#[test]
fn files_and_functions_are_short() {
    let tree = tree();
    nothing_to_say(check_file_length(&tree, LONG_FILES));
    nothing_to_say(check_function_length(&tree, LONG_FUNCTIONS));
}

#[test]
fn names_say_something() {
    nothing_to_say(check_names(&tree()));
}

#[test]
fn unsafe_stands_where_it_may() {
    nothing_to_say(check_unsafe(&tree()));
}

#[test]
fn no_machine_paths_and_no_stubs() {
    nothing_to_say(check_leftovers(&tree()));
}

#[test]
fn the_folder_table_of_the_architecture_page_is_current() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    let table = folder_table(&tree(), &dependencies(&manifest));
    let path = root().join("ARCHITECTURE.md");
    let document = std::fs::read_to_string(&path).expect("ARCHITECTURE.md");
    let place = generated_part(&document, "folders").expect("ARCHITECTURE.md has the two markers");
    if document[place.clone()] == table {
        return;
    }
    assert!(
        std::env::var_os("UPDATE_EXPECT").is_some(),
        "the folder table of ARCHITECTURE.md is out of date; run `make docs`"
    );
    let updated = format!("{}{table}{}", &document[..place.start], &document[place.end..]);
    std::fs::write(&path, updated).expect("ARCHITECTURE.md is writable");
}
