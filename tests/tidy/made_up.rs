//! Every rule on small made-up texts: one that keeps it, and each way of breaking it.

use crate::rule::*;
use crate::rust_text::*;

/// Exactly the complaints that contain these words, in this order.
#[track_caller]
fn check(complaints: Vec<Complaint>, expected: &[&str]) {
    let fits = complaints.len() == expected.len()
        && complaints.iter().zip(expected).all(|(got, want)| got.contains(want));
    assert!(fits, "expected {expected:#?}\ngot {complaints:#?}");
}

fn one(path: &str, text: &str) -> Vec<Source> {
    vec![Source::new(path, text)]
}

#[test]
fn the_lexer_drops_comments_and_literals_and_keeps_lifetimes() {
    let text =
        "a /* b /* c */ d */ r#\"x\"y\"# 'q' '\\'' <'life> b\"z\\\"\" // e\n\"two\nlines\" f";
    let words: Vec<(String, usize)> =
        lex(text).into_iter().filter(|t| is_word(&t.text)).map(|t| (t.text, t.line)).collect();
    assert_eq!(words, [("a".into(), 1), ("life".into(), 1), ("f".into(), 3)]);
}

#[test]
fn groups_in_braces_are_expanded() {
    let source =
        Source::new("src/engine/mod.rs", "use crate::{kv::{A, b::C as D}, base::*}; x::y();");
    let written: Vec<String> = paths(&source).iter().map(|p| p.segments.join("::")).collect();
    assert_eq!(written, ["crate::kv::A", "crate::kv::b::C", "crate::base", "x::y"]);
}

#[test]
fn an_arrow_upwards_or_sideways_is_found() {
    check(check_arrows(&one("src/engine/step.rs", "use crate::base::TokenId; fn f() {}")), &[]);
    check(
        check_arrows(&one("src/engine/step.rs", "use crate::{model::Decoder, cli};")),
        &["`engine` (level 4) uses `cli` (level 9)"],
    );
    check(
        check_arrows(&one("src/kv/mod.rs", "fn f() { crate::tokenizer::encode(); }")),
        &["`kv` (level 2) uses `tokenizer` (level 2)"],
    );
    check(
        check_arrows(&one("src/kv/mod.rs", "#[cfg(test)] mod tests { use crate::engine::E; }")),
        &["`kv` (level 2) uses `engine`"],
    );
    check(check_arrows(&one("src/kv/pool.rs", "// crate::cli\nlet s = \"crate::cli\";")), &[]);
}

#[test]
fn a_path_around_the_crate_root_is_found() {
    check(
        check_arrows(&one("src/kv/mod.rs", "use super::cli::main;")),
        &["climbs to the crate root"],
    );
    check(check_arrows(&one("src/kv/pool.rs", "use super::Pool;")), &[]);
    check(
        check_arrows(&one("src/kv/pool.rs", "use super::super::cli;")),
        &["climbs to the crate root"],
    );
    let nested =
        "mod tests { use super::super::Pool; mod more { use super::super::super::Pool; } }";
    check(check_arrows(&one("src/kv/pool.rs", nested)), &[]);
}

#[test]
fn a_folder_or_target_without_a_level_is_found() {
    check(check_arrows(&one("src/extra/mod.rs", "")), &["`extra` has no level"]);
    check(
        check_arrows(&one("src/cli/mod.rs", "use crate::extra::X;")),
        &["`crate::extra` is not a folder"],
    );
}

#[test]
fn an_outside_crate_in_the_wrong_folder_is_found() {
    let deps = ["clap".to_owned(), "tree-sitter".to_owned(), "cudarc".to_owned()];
    check(check_outside(&one("src/cli/args.rs", "use clap::Parser;"), &deps), &[]);
    check(
        check_outside(&one("src/engine/mod.rs", "use clap::Parser;"), &deps),
        &["crate `clap` belongs to cli"],
    );
    check(
        check_outside(&one("src/complete/native.rs", "fn f(n: tree_sitter::Node) {}"), &deps),
        &["crate `tree_sitter` belongs to repo"],
    );
    check(check_outside(&one("src/device/cuda/mod.rs", "use cudarc::driver;"), &deps), &[]);
    check(
        check_outside(&one("src/device/cpu/mod.rs", "use cudarc::driver;"), &deps),
        &["belongs to device/cuda"],
    );
    check(check_outside(&one("src/engine/tests.rs", "use clap::Parser;"), &deps), &[]);
    check(check_outside(&[], &["leftpad".to_owned()]), &["nobody may use `leftpad` yet"]);
}

#[test]
fn the_environment_and_child_processes_are_reached_only_from_their_folders() {
    check(
        check_outside(&one("src/engine/mod.rs", "let x = std::env::var(\"A\");"), &[]),
        &["`std::env::var` belongs to cli"],
    );
    check(check_outside(&one("src/cli/env.rs", "let x = std::env::var(\"A\");"), &[]), &[]);
    check(
        check_outside(&one("src/cli/mod.rs", "use std::{fs, process::{Command, ExitCode}};"), &[]),
        &["`std::process::Command` belongs to repo"],
    );
    check(
        check_outside(&one("src/cli/mod.rs", "fn f() { std::process::exit(1) }"), &[]),
        &["`std::process::exit` belongs to nobody"],
    );
    assert!(!check_outside(&one("src/engine/mod.rs", "use std::env;"), &[]).is_empty());
}

#[test]
fn a_module_without_a_head_is_found() {
    let good = "//! Blocks of the cache and who holds them.\n//!\n//! # Place\n//! Uses `base`.\n";
    check(check_heads(&one("src/kv/pool.rs", good)), &[]);
    check(check_heads(&one("src/kv/tests.rs", "use super::*;")), &[]);
    check(check_heads(&one("src/kv/pool.rs", "use std::fmt;\n")), &["first line must be `//!`"]);
    check(check_heads(&one("src/kv/pool.rs", "//! # Place\n//! x")), &["first line must be `//!`"]);
    check(
        check_heads(&one("src/kv/pool.rs", "//! Blocks of the cache.\n\n//! # Place\n")),
        &["lacks `//! # Place`"],
    );
}

#[test]
fn a_long_file_is_found_and_its_tests_are_not_counted() {
    let lines = |n: usize| "fn f() {}\n".repeat(n);
    let with_tests = format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", lines(790), lines(300));
    check(check_file_length(&one("src/kv/pool.rs", &with_tests), &[]), &[]);
    check(
        check_file_length(&one("src/kv/pool.rs", &lines(801)), &[]),
        &["801 lines, at most 800; split"],
    );
    let listed = [("src/kv/pool.rs", 900)];
    check(check_file_length(&one("src/kv/pool.rs", &lines(850)), &listed), &[]);
    check(check_file_length(&one("src/kv/pool.rs", &lines(901)), &listed), &["grew to 901 lines"]);
    check(
        check_file_length(&one("src/kv/pool.rs", &lines(12)), &listed),
        &["take it off LONG_FILES"],
    );
    check(check_file_length(&[], &listed), &["on LONG_FILES but not there"]);
}

#[test]
fn a_long_function_is_found() {
    let function = |n: usize| format!("fn g() {{\n{}}}\n", "x();\n".repeat(n));
    check(check_function_length(&one("src/kv/pool.rs", &function(68)), &[]), &[]);
    let long = one("src/kv/pool.rs", &function(69));
    check(check_function_length(&long, &[]), &["src/kv/pool.rs::g (line 1): 71 lines"]);
    check(check_function_length(&long, &["src/kv/pool.rs::g"]), &[]);
    check(check_function_length(&[], &["src/kv/pool.rs::g"]), &["short or gone"]);
    let in_tests = format!("#[cfg(test)]\nmod tests {{ {} }}", function(99));
    check(check_function_length(&one("src/kv/pool.rs", &in_tests), &[]), &[]);
}

#[test]
fn a_name_that_says_nothing_is_found() {
    check(check_names(&one("src/kv/block_pool.rs", "")), &[]);
    check(check_names(&one("src/kv/utils.rs", "")), &["`utils` says nothing"]);
    check(check_names(&one("tests/it/common/mod.rs", "")), &["`common` says nothing"]);
    check(check_names(&one("kernels/common/warp.cuh", "")), &[]);
}

#[test]
fn unsafe_without_a_reason_or_in_the_wrong_place_is_found() {
    let body = "fn f() { unsafe { g() } }";
    let opened = format!("#![allow(unsafe_code)] // intrinsics need it\n{body}");
    check(check_unsafe(&one("src/device/cpu/dot.rs", &opened)), &[]);
    check(check_unsafe(&one("src/device/cpu/dot.rs", body)), &["does not open the lint"]);
    check(check_unsafe(&one("src/engine/mod.rs", &opened)), &["`unsafe` is for src/device/cpu/"]);
    check(
        check_unsafe(&one("src/device/cpu/dot.rs", &opened.replace("// intrinsics need it", ""))),
        &["without a reason"],
    );
    check(
        check_unsafe(&one("src/device/cpu/dot.rs", "#![allow(unsafe_code)] // intrinsics need it")),
        &["has no `unsafe`"],
    );
    check(
        check_unsafe(&one("src/device/cpu/dot.rs", "#[allow(unsafe_code)] fn f() {}")),
        &["for the file, at its top"],
    );
    check(check_unsafe(&one("src/engine/mod.rs", "// unsafe\nlet s = \"unsafe\";")), &[]);
}

#[test]
fn machine_paths_and_stubs_are_found() {
    let path = format!("let p = \"{}me/x\";", "/ho");
    check(check_leftovers(&one("src/kv/mod.rs", &path)), &["is a path of one machine"]);
    check(check_leftovers(&one("README.md", &format!("see {}rk/x", "/wo"))), &["one machine"]);
    check(check_leftovers(&one("README.md", "see scripts/work/x and https://a.b/home/c")), &[]);
    check(check_leftovers(&one("src/kv/mod.rs", "fn f() { todo!() }")), &["`todo!` is a stub"]);
    check(
        check_leftovers(&one("src/kv/mod.rs", &format!("// TO{} later", "DO"))),
        &["file an issue"],
    );
}

#[test]
fn the_folder_table_lists_what_exists_with_its_first_paragraph() {
    let text = "//! Blocks of the cache,\n//! and who holds them.\n//!\n//! # Place\n";
    let table = folder_table(&one("src/kv/mod.rs", text), &[]);
    assert!(
        table.contains("| 2 | `src/kv/` | Blocks of the cache, and who holds them |"),
        "{table}"
    );
    assert_eq!(table.lines().count(), 3, "{table}");
    let served = one("src/serve/mod.rs", "//! The HTTP interface.\n");
    let table = folder_table(&served, &["axum".to_owned(), "clap".to_owned()]);
    assert!(table.ends_with("| The HTTP interface | `axum` |\n"), "{table}");
    let document = "a\n<!-- t: begin, written by `make docs` -->\nold\n<!-- t: end -->\nb";
    assert_eq!(generated_part(document, "t").map(|r| &document[r]), Some("old\n"));
    assert_eq!(generated_part(document, "u"), None);
}
