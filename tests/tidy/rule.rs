//! The rules: from source texts to complaints.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::Range;

use crate::rust_text::{Complaint, Source, is_word, matching_brace, paths};
use crate::table::*;

pub(crate) fn level_of(folder: &str) -> Option<u32> {
    LEVELS.iter().find(|(_, names)| names.contains(&folder)).map(|(level, _)| *level)
}

/// A folder names only folders with a lower level, and reaches them from the crate root.
pub(crate) fn check_arrows(sources: &[Source]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for source in sources.iter().filter(|s| s.in_src()) {
        let Some(folder) = source.folder() else {
            continue;
        };
        let Some(level) = level_of(folder) else {
            complaints.push(format!(
                "{}: folder `{folder}` has no level; add it to LEVELS and to ARCHITECTURE.md",
                source.path
            ));
            continue;
        };
        for path in paths(source) {
            let n_supers = path.segments.iter().take_while(|s| *s == "super").count();
            if n_supers > 0 && n_supers >= path.depth {
                complaints.push(format!(
                    "{}:{}: `{}` climbs to the crate root; write `crate::…`",
                    source.path,
                    path.line,
                    path.segments.join("::")
                ));
            }
            let target = match path.segments.as_slice() {
                [root, target, ..] if root == "crate" => target.as_str(),
                _ => continue,
            };
            if target == folder {
                continue;
            }
            match level_of(target) {
                Some(target_level) if target_level < level => {}
                Some(target_level) => complaints.push(format!(
                    "{}:{}: `{folder}` (level {level}) uses `{target}` (level {target_level}); \
                     arrows go to lower levels only",
                    source.path, path.line
                )),
                None => complaints.push(format!(
                    "{}:{}: `crate::{target}` is not a folder of the table",
                    source.path, path.line
                )),
            }
        }
    }
    complaints
}

/// Outside crates and the parts of `std` that reach outside are named only where they belong.
pub(crate) fn check_outside(sources: &[Source], dependencies: &[String]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut places: BTreeMap<String, &[&str]> = BTreeMap::new();
    for dependency in dependencies {
        match CRATES.iter().find(|(name, _)| name == dependency) {
            Some((name, allowed)) => {
                places.insert(name.replace('-', "_"), allowed);
            }
            None => complaints.push(format!(
                "Cargo.toml: nobody may use `{dependency}` yet; add it to CRATES with its folders"
            )),
        }
    }
    for source in sources.iter().filter(|s| s.in_src() && s.folder().is_some()) {
        for path in paths(source).iter().filter(|p| !p.in_test) {
            let written = path.segments.join("::");
            let crate_rule =
                places.get(&path.segments[0]).map(|allowed| (&path.segments[0], *allowed));
            if let Some((name, allowed)) = crate_rule
                && !source.is_in(allowed)
            {
                complaints.push(format!(
                    "{}:{}: crate `{name}` belongs to {}",
                    source.path,
                    path.line,
                    allowed.join(", ")
                ));
            }
            for (prefix, allowed) in STD_PATHS {
                let matches = written == *prefix || written.starts_with(&format!("{prefix}::"));
                // `use std::env;` hides what is used behind a short name.
                let hides = prefix.starts_with(&format!("{written}::")) && written == "std::env";
                if (matches || hides) && !source.is_in(allowed) {
                    let where_to = match allowed {
                        [] => "nobody".to_owned(),
                        _ => allowed.join(", "),
                    };
                    complaints.push(format!(
                        "{}:{}: `{written}`: `{prefix}` belongs to {where_to}",
                        source.path, path.line
                    ));
                }
            }
        }
    }
    complaints
}

/// Every module says in its first line what it is, and then what its place is.
pub(crate) fn check_heads(sources: &[Source]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for source in sources.iter().filter(|s| s.in_src() && !s.is_test_file()) {
        let head: Vec<&str> =
            source.text.lines().map_while(|line| line.strip_prefix("//!")).collect();
        let first = head.first().map_or("", |line| line.trim());
        if first.len() < 10 || first.starts_with('#') {
            complaints.push(format!(
                "{}:1: the first line must be `//!` and say what it is",
                source.path
            ));
        } else if !head.iter().any(|line| line.trim() == "# Place") {
            complaints.push(format!(
                "{}:1: the head lacks `//! # Place`: what it uses, who uses it, what it must not know",
                source.path
            ));
        }
    }
    complaints
}

/// Files stay short enough to read; tests are not counted.
pub(crate) fn check_file_length(
    sources: &[Source],
    exceptions: &[(&str, usize)],
) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut seen = BTreeSet::new();
    for source in sources.iter().filter(|s| s.in_src() && !s.is_test_file()) {
        let test_lines: BTreeSet<usize> = {
            let tokens = source.tokens();
            let mut spans: Vec<(usize, usize)> = Vec::new();
            for pair in tokens.windows(2).filter(|pair| pair[0].in_test && pair[1].in_test) {
                spans.push((pair[0].line, pair[1].line));
            }
            spans.into_iter().flat_map(|(from, to)| from..=to).collect()
        };
        let n_lines = source.text.lines().count() - test_lines.len();
        let exception = exceptions.iter().find(|(path, _)| *path == source.path);
        if let Some((path, _)) = exception {
            seen.insert(*path);
        }
        match exception {
            None if n_lines > FILE_LINES_MAX => complaints.push(format!(
                "{}: {n_lines} lines, at most {FILE_LINES_MAX}; split it by concept",
                source.path
            )),
            Some(_) if n_lines <= FILE_LINES_MAX => complaints
                .push(format!("{}: {n_lines} lines now: take it off LONG_FILES", source.path)),
            Some((_, max)) if n_lines > *max => complaints
                .push(format!("{}: grew to {n_lines} lines, LONG_FILES allows {max}", source.path)),
            _ => {}
        }
    }
    for (path, _) in exceptions.iter().filter(|(path, _)| !seen.contains(path)) {
        complaints.push(format!("{path}: on LONG_FILES but not there; take it off"));
    }
    complaints
}

/// Functions stay short enough to hold in the head; tests are not counted.
pub(crate) fn check_function_length(sources: &[Source], exceptions: &[&str]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut unseen: BTreeSet<&str> = exceptions.iter().copied().collect();
    for source in sources.iter().filter(|s| s.in_src() && !s.is_test_file()) {
        let tokens = source.tokens();
        for (i, token) in tokens.iter().enumerate() {
            if token.text != "fn"
                || token.in_test
                || !tokens.get(i + 1).is_some_and(|t| is_word(&t.text))
            {
                continue;
            }
            let Some(open) =
                tokens[i..].iter().position(|t| t.text == "{" || t.text == ";").map(|at| i + at)
            else {
                continue;
            };
            if tokens[open].text == ";" {
                continue;
            }
            let n_lines = tokens[matching_brace(&tokens, open)].line - token.line + 1;
            if n_lines <= FUNCTION_LINES_MAX {
                continue;
            }
            let name = format!("{}::{}", source.path, tokens[i + 1].text);
            if !unseen.remove(name.as_str()) && !exceptions.contains(&name.as_str()) {
                complaints.push(format!(
                    "{name} (line {}): {n_lines} lines, at most {FUNCTION_LINES_MAX}",
                    token.line
                ));
            }
        }
    }
    for name in unseen {
        complaints.push(format!("{name}: on LONG_FUNCTIONS but short or gone; take it off"));
    }
    complaints
}

/// Files and folders have names that say what is inside.
pub(crate) fn check_names(sources: &[Source]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for source in sources {
        // Kernels share device functions in one folder whose name the toolchain's users expect.
        let parts = source.path.split('/').filter(|_| !source.path.starts_with("kernels/"));
        for part in parts {
            let stem = part.split('.').next().unwrap_or(part);
            if EMPTY_NAMES.contains(&stem) {
                complaints
                    .push(format!("{}: `{stem}` says nothing; name the concept", source.path));
            }
        }
    }
    complaints
}

/// `unsafe` stands only in files that open the lint with a reason, in the places meant for it.
pub(crate) fn check_unsafe(sources: &[Source]) -> Vec<Complaint> {
    const OPEN: &str = "#![allow(unsafe_code)]";
    let mut complaints = Vec::new();
    for source in sources.iter().filter(|s| s.is_rust() && !s.path.starts_with("tests/tidy")) {
        let tokens = source.tokens();
        let uses = tokens.iter().find(|t| t.text == "unsafe");
        let opens = source.text.lines().find(|line| line.trim_start().starts_with(OPEN));
        let opens_an_item = tokens.windows(6).find(|w| {
            ["#", "[", "allow", "(", "unsafe_code"].iter().zip(*w).all(|(want, t)| *want == t.text)
        });
        if let Some(token) = opens_an_item {
            complaints.push(format!(
                "{}:{}: open `unsafe_code` for the file, at its top, or not at all",
                source.path, token[0].line
            ));
        }
        match (uses, opens) {
            (Some(token), None) => complaints.push(format!(
                "{}:{}: `unsafe` in a file that does not open the lint",
                source.path, token.line
            )),
            (None, Some(_)) => {
                complaints.push(format!("{}: opens `unsafe_code` and has no `unsafe`", source.path))
            }
            (Some(_), Some(line)) => {
                let reason = line.split_once("//").map_or("", |(_, reason)| reason.trim());
                if reason.len() < 10 {
                    complaints
                        .push(format!("{}: opens `unsafe_code` without a reason", source.path));
                }
                if !UNSAFE_PLACES.iter().any(|place| source.path.starts_with(place)) {
                    complaints.push(format!(
                        "{}: `unsafe` is for {}",
                        source.path,
                        UNSAFE_PLACES.join(", ")
                    ));
                }
            }
            (None, None) => {}
        }
    }
    complaints
}

/// No path of one person's machine, no promise of code that is not there.
pub(crate) fn check_leftovers(sources: &[Source]) -> Vec<Complaint> {
    let roots = [
        concat!("/ho", "me/"),
        concat!("/ro", "ot/"),
        concat!("/Us", "ers/"),
        concat!("/wo", "rk/"),
        concat!("C:", "\\Users"),
    ];
    let promises = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:")];
    let mut complaints = Vec::new();
    for source in sources {
        for (i, line) in source.text.lines().enumerate() {
            let at = format!("{}:{}", source.path, i + 1);
            // A root counts where a path may begin: `https://host/home/` is no machine path.
            for root in roots {
                let is_path = line.match_indices(root).any(|(byte, _)| {
                    !line[..byte].ends_with(|c: char| c.is_alphanumeric() || "._-/}~".contains(c))
                });
                if is_path {
                    complaints.push(format!("{at}: `{root}` is a path of one machine"));
                }
            }
            if source.is_rust() && promises.iter().any(|promise| line.contains(promise)) {
                complaints.push(format!("{at}: file an issue instead of leaving a note"));
            }
        }
        if source.in_src() {
            let tokens = source.tokens();
            for pair in tokens.windows(2).filter(|pair| pair[1].text == "!") {
                if matches!(pair[0].text.as_str(), "todo" | "unimplemented") {
                    complaints.push(format!(
                        "{}:{}: `{}!` is a stub; write it or leave it out",
                        source.path, pair[0].line, pair[0].text
                    ));
                }
            }
        }
    }
    complaints
}

/// One row for each folder that exists: its level, the first paragraph of its head, and the crates
/// that few others may name.
pub(crate) fn folder_table(sources: &[Source], dependencies: &[String]) -> String {
    let mut table = String::from("| level | folder | what it is | outside crates of its own |\n");
    table.push_str("|---|---|---|---|\n");
    for (level, names) in LEVELS {
        for name in *names {
            let head = format!("src/{name}/mod.rs");
            let Some(source) = sources.iter().find(|s| s.path == head) else {
                continue;
            };
            let mut what = String::new();
            for line in source.text.lines().map_while(|line| line.strip_prefix("//!")) {
                if line.trim().is_empty() {
                    break;
                }
                what.push_str(line);
            }
            let crates: Vec<String> = CRATES
                .iter()
                .filter(|(dependency, places)| {
                    *places != SPEAKS_JSON
                        && dependencies.iter().any(|d| d == dependency)
                        && places.iter().any(|p| p.split('/').next() == Some(name))
                })
                .map(|(name, _)| format!("`{name}`"))
                .collect();
            let what = what.trim().trim_end_matches('.').replace('|', "\\|");
            writeln!(table, "| {level} | `src/{name}/` | {what} | {} |", crates.join(", "))
                .expect("writing to a string");
        }
    }
    table
}

/// Where the text between the two markers of a document is.
pub(crate) fn generated_part(document: &str, name: &str) -> Option<Range<usize>> {
    let begin = format!("<!-- {name}: begin, written by `make docs` -->\n");
    let end = format!("<!-- {name}: end -->");
    let from = document.find(&begin)? + begin.len();
    let to = from + document[from..].find(&end)?;
    Some(from..to)
}
