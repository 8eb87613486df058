//! `tether index`, `query`, `definition`, `symbols` and `check` on the demonstration package and on
//! repositories made for a test.

use crate::program::{refused, tether};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn inventory() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/inventory").display().to_string()
}

/// A repository of these files.
fn repository(files: &[(&str, &[u8])]) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for (name, bytes) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("created");
        std::fs::write(path, bytes).expect("written");
    }
    let path = dir.path().display().to_string();
    (dir, path)
}

#[test]
fn index_says_what_is_there() {
    let run = tether(&["index", &inventory()]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    for part in ["files", "lines/s", "bytes a line", "functions"] {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
    let json = tether(&["index", &inventory(), "--json"]).json();
    for key in ["n_files", "n_lines", "n_functions", "n_classes", "memory_bytes"] {
        assert!(json[key].as_u64().expect("a count") > 0, "{key}: {json}");
    }
}

#[test]
fn index_names_what_it_skips() {
    let (_dir, repo) =
        repository(&[("a.py", b"x = 1\n"), ("b.py", b"\0\0"), ("c.py", b"x = '\xff'\n")]);
    let run = tether(&["index", &repo, "--json"]);
    assert_eq!(run.json()["skipped"].as_array().expect("a list").len(), 2);
    assert!(
        run.stderr.contains("b.py: binary") && run.stderr.contains("c.py: not valid"),
        "{}",
        run.stderr
    );
}

#[test]
fn query_prints_a_table_json_and_csv() {
    let sql = "SELECT cname, count(*) AS n FROM M_C_CF JOIN M_C USING (m, c) WHERE cname = 'Store' GROUP BY 1";
    let table = tether(&["query", &inventory(), sql]);
    assert_eq!(table.code, 0, "{}", table.stderr);
    assert!(table.stdout.starts_with("cname"), "{}", table.stdout);
    let json = tether(&["query", &inventory(), sql, "--json"]).json();
    assert_eq!(json[0]["cname"], "Store");
    let n = json[0]["n"].as_u64().expect("a number");
    assert!(n > 2, "{json}");
    let csv = tether(&["query", &inventory(), sql, "--csv"]);
    assert_eq!(csv.stdout, format!("cname,n\r\nStore,{n}\r\n"));
}

#[test]
fn csv_quotes_what_needs_it_and_no_rows_are_a_negative_result() {
    let sql = "SELECT 'a,\"b\"' AS x, NULL AS y, 1.5 AS z";
    let csv = tether(&["query", &inventory(), sql, "--csv"]);
    assert_eq!(csv.stdout, "x,y,z\r\n\"a,\"\"b\"\"\",,1.5\r\n");
    assert_eq!(tether(&["query", &inventory(), "SELECT 1 WHERE 0"]).code, 1);
}

#[test]
fn query_refuses_mistakes_and_writes() {
    let repo = inventory();
    refused(
        &["query", &repo, "SELECT * FROM missing_table"],
        &["no such table", "definitions", "M_C_CF"],
    );
    refused(
        &["query", &repo, "SELECT missing_column FROM files"],
        &["no such column", "files(id, path"],
    );
    refused(&["query", &repo, "DELETE FROM files"], &["only one statement that reads"]);
    let endless =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
    refused(&["query", &repo, endless, "--timeout", "1"], &["1000 ms", "--timeout"]);
    refused(&["query", "/nonexistent/folder", "SELECT 1"], &["/nonexistent/folder"]);
}

#[test]
fn the_tables_can_be_kept_in_a_file() {
    let (_dir, repo) = repository(&[("a.py", b"def f():\n    return 1\n")]);
    let path = format!("{repo}/tables.db");
    assert_eq!(tether(&["index", &repo, "--database", &path]).code, 0);
    let connection = rusqlite::Connection::open(&path).expect("a database");
    let name: String =
        connection.query_row("SELECT gfname FROM M_GF", [], |row| row.get(0)).expect("one row");
    assert_eq!(name, "f");
}

/// `FILE:LINE:COL` in the middle of the first occurrence of a text.
fn at(repo: &str, file: &str, text: &str) -> String {
    let path = PathBuf::from(repo).join(file);
    let source = std::fs::read_to_string(&path).expect("in the repository");
    let start = source.find(text).expect("in the file") + text.len() / 2;
    let line = source[..start].matches('\n').count() + 1;
    let col = source[..start].rsplit('\n').next().expect("a line").chars().count() + 1;
    format!("{}:{line}:{col}", path.display())
}

#[test]
fn definition_follows_names_imports_attributes_and_keywords() {
    let (_dir, repo) = repository(&[
        ("pk/__init__.py", b"from .core import Oven as Kiln\n"),
        ("pk/core.py", b"LIMIT = 3\n\nclass Base:\n    def heat(self):\n        return LIMIT\n\nclass Oven(Base):\n    def bake(self, degrees=LIMIT):\n        self.load = degrees\n        return self.heat()\n"),
        ("use.py", b"import json\nfrom pk import Kiln\n\nkiln = Kiln()\nprint(kiln.bake(degrees=200), kiln.heat, json.dumps(kiln.load))\nxs = [len(item) for item in []]\n"),
    ]);
    let symbols = |file: &str, text: &str| {
        let run =
            tether(&["definition", "--repo", &repo, "--at", &at(&repo, file, text), "--json"]);
        assert_eq!(run.code, 0, "{text}: {}", run.stderr);
        let list = run.json();
        let symbols = list.as_array().expect("a list").iter();
        symbols
            .map(|s| {
                format!(
                    "{} {}",
                    s["kind"].as_str().expect("text"),
                    s["symbol"].as_str().expect("text")
                )
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(symbols("use.py", "Kiln"), ["class pk.core:Oven"]);
    assert_eq!(symbols("use.py", "bake"), ["function pk.core:Oven.bake"]);
    assert_eq!(symbols("use.py", "heat"), ["function pk.core:Base.heat"]);
    assert_eq!(symbols("use.py", "degrees"), ["parameter pk.core:Oven.bake.degrees"]);
    assert_eq!(symbols("use.py", "json"), ["module json"]);
    assert_eq!(symbols("use.py", "dumps"), ["function json:dumps"]);
    assert_eq!(symbols("use.py", "len"), ["function builtins:len"]);
    assert_eq!(symbols("use.py", "pk"), ["module pk"]);
    assert_eq!(symbols("pk/core.py", "self.heat").len(), 1);
    assert_eq!(symbols("pk/core.py", "bake"), ["function pk.core:Oven.bake"]);
}

#[test]
fn definition_of_a_union_has_several_places() {
    let (_dir, repo) = repository(&[(
        "a.py",
        b"class A:\n    def go(self): pass\nclass B:\n    def go(self): pass\ndef f(c):\n    x = A() if c else B()\n    return x.go_()\n",
    )]);
    let fixed = std::fs::read_to_string(format!("{repo}/a.py")).expect("read").replace("go_", "go");
    std::fs::write(format!("{repo}/a.py"), fixed).expect("written");
    let run = tether(&["definition", "--repo", &repo, "--at", "a.py:7:14", "--json"]);
    assert_eq!(run.json().as_array().expect("a list").len(), 2, "{}", run.stdout);
}

#[test]
fn definition_says_when_nothing_is_known() {
    let (_dir, repo) = repository(&[("a.py", b"def f(x):\n    return x.anything\n")]);
    assert_eq!(tether(&["definition", "--repo", &repo, "--at", "a.py:2:15"]).code, 1);
    refused(&["definition", "--repo", &repo, "--at", "b.py:1:1"], &["b.py", "1 Python files"]);
    refused(&["definition", "--repo", &repo, "--at", "a.py:99:1"], &["a.py:99:1"]);
    refused(&["definition", "--repo", &repo, "--at", "a.py"], &["FILE:LINE:COL"]);
}

#[test]
fn symbols_are_an_outline_or_a_list_of_matches() {
    let run = tether(&["symbols", &inventory()]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains("class Store") && run.stdout.contains("  def "), "{}", run.stdout);
    let found = tether(&["symbols", &inventory(), "--match", "OLDEST"]);
    assert!(found.stdout.contains("stockroom.store:Store.oldest_lot"), "{}", found.stdout);
    let file = format!("{}/stockroom/store.py", inventory());
    let json = tether(&["symbols", &file, "--repo", &inventory(), "--json"]).json();
    assert!(json.as_array().expect("a list").iter().all(|d| d["module"] == "stockroom.store"));
    assert_eq!(tether(&["symbols", &inventory(), "--match", "nothing_like_it"]).code, 1);
    refused(&["symbols", "/nonexistent/file.py"], &["/nonexistent/file.py"]);
}

const FAULTY: &[u8] = b"import os\n\n\nclass Box:\n    def __init__(self):\n        self.size = 1\n\n    def grow(self):\n        return self.sice + os.cwd()\n\n\nprint(Bocks())\n";

#[test]
fn check_finds_errors_and_says_so_in_three_forms() {
    let (_dir, repo) = repository(&[("box.py", FAULTY)]);
    let text = tether(&["check", "--repo", &repo]);
    assert_eq!(text.code, 1, "{}", text.stderr);
    assert!(
        text.stdout.contains("box.py:9:21: E1101: instance of 'Box' has no member 'sice'"),
        "{}",
        text.stdout
    );
    assert!(
        text.stdout.contains("box.py:12:7: E0602: undefined variable 'Bocks'"),
        "{}",
        text.stdout
    );
    let json = tether(&["check", "--repo", &repo, "--json"]).json();
    let findings = json["findings"].as_array().expect("a list");
    assert_eq!(findings.len(), text.stdout.lines().count());
    assert_eq!((&findings[0]["id"], &findings[0]["object"]), (&"E1101".into(), &"Box.grow".into()));
    let sarif = tether(&["check", "--repo", &repo, "--format", "sarif"]).json();
    assert_eq!(sarif["version"], "2.1.0");
    assert_eq!(sarif["runs"][0]["results"].as_array().expect("results").len(), findings.len());
}

#[test]
fn check_takes_files_folders_and_choices_of_messages() {
    let (_dir, repo) = repository(&[("a/box.py", FAULTY), ("b/fine.py", b"x = 1\n")]);
    assert_eq!(tether(&["check", "--repo", &repo, "b"]).code, 0);
    assert_eq!(tether(&["check", "--repo", &repo, "b/fine.py"]).code, 0);
    let only = tether(&["check", "--repo", &repo, "a", "--enable", "undefined-variable"]);
    assert_eq!(only.stdout.lines().count(), 1, "{}", only.stdout);
    let none = tether(&["check", "--repo", &repo, "--disable", "E0602,E1101"]);
    assert_eq!(none.code, 0, "{}", none.stdout);
}

#[test]
fn check_reads_standard_input_in_place_of_a_file() {
    let (_dir, repo) = repository(&[("box.py", FAULTY)]);
    let check = |text: &str| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tether"))
            .args(["check", "--repo", &repo, "-", "--stdin-path", "box.py"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("written");
        let out = child.wait_with_output().expect("it ends");
        (out.status.code(), String::from_utf8_lossy(&out.stdout).into_owned())
    };
    assert_eq!(check("x = 1\n"), (Some(0), String::new()));
    let (code, text) = check("print(gone)\n");
    assert!(code == Some(1) && text.contains("box.py:1:7: E0602"), "{text}");
}

#[test]
fn check_refuses_what_it_cannot_check() {
    let (_dir, repo) = repository(&[("a.py", b"x = 1\n"), ("bin.py", b"\0"), ("notes.txt", b"x")]);
    let check = |more: &[&str], parts: &[&str]| {
        refused(&[&["check", "--repo", &repo][..], more].concat(), parts);
    };
    check(&["nothing.py"], &["nothing.py", "no file"]);
    check(&["bin.py"], &["bin.py", "binary"]);
    check(&["notes.txt"], &["notes.txt"]);
    check(&[env!("CARGO_MANIFEST_DIR")], &["outside the repository"]);
    check(&["--disable", "E9999"], &["E9999", "E0602"]);
    check(&["-"], &["--stdin-path"]);
    check(&["--stdin-path", "a.py"], &["-"]);
    let huge = format!("{repo}/huge.py");
    std::fs::File::create(&huge).expect("made").set_len(64 << 20).expect("long");
    check(&["huge.py"], &["huge.py", "too large"]);
}

#[test]
fn a_missing_pylint_is_named_with_what_to_do() {
    let (_dir, repo) = repository(&[("a.py", b"x = 1\n")]);
    refused(
        &["check", "--repo", &repo, "--tool", "pylint", "--python", "/nonexistent/python"],
        &["/nonexistent/python"],
    );
}
