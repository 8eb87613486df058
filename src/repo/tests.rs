//! Projects on disk: layouts, bad files, symbols, updates, sessions.

use super::syntax::Region;
use super::*;
use crate::base::{Answer, LineCol};
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn write(root: &Path, files: &[(&str, &[u8])]) {
    for (name, bytes) in files {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

fn open(root: &Path) -> (Project, IndexReport) {
    let mut config = ProjectConfig::new(root);
    config.python = PythonChoice::Without;
    config.n_threads = 2;
    Project::open(config).unwrap()
}

fn names(session: &mut Session, path: &Path, text: &str) -> (Answer, Vec<String>) {
    let offset = text.find('█').expect("a cursor");
    let whole = text.replace('█', "");
    let found = session.names_at(path, &whole, offset, None);
    (found.answer, found.names.iter().map(|c| c.name.to_string()).collect())
}

#[test]
fn bad_files_are_skipped_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write(
        root,
        &[
            ("ok.py", b"def fine(): ...\n"),
            ("binary.py", b"\x7fELF\0\0\0"),
            ("utf16.py", b"\xff\xfea\0"),
            ("latin.py", b"x = '\xe9'\n"),
            ("cookie.py", b"# coding: latin-1\nx = '\xe9'\ndef puff(): ...\n"),
            ("broken.py", b"def a(:\n  ((((\ndef b(): ...\n"),
            ("empty.py", b""),
            ("sub/deep.py", b"x = 1\n"),
        ],
    );
    let big = std::fs::File::create(root.join("big.py")).unwrap();
    big.set_len(64 << 20).unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("..", root.join("sub/loop")).unwrap();
        std::os::unix::fs::symlink("/", root.join("everything")).unwrap();
        std::os::unix::fs::symlink("missing.py", root.join("dangling.py")).unwrap();
        std::os::unix::fs::symlink("ok.py", root.join("alias.py")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(root.join("pipe.py")).status();
        assert!(made.is_ok_and(|s| s.success()));
    }
    let started = Instant::now();
    let (project, report) = open(root);
    assert!(started.elapsed() < Duration::from_secs(20));
    let skipped = |name: &str| {
        let found = report.skipped.iter().find(|s| s.path.ends_with(name));
        found.map(|s| s.reason.clone())
    };
    assert_eq!(skipped("binary.py"), Some(SkipReason::Binary));
    assert!(matches!(skipped("utf16.py"), Some(SkipReason::Undecodable { .. })));
    assert!(matches!(skipped("latin.py"), Some(SkipReason::Undecodable { .. })));
    assert!(matches!(skipped("big.py"), Some(SkipReason::TooLarge { .. })));
    #[cfg(unix)]
    {
        assert_eq!(skipped("pipe.py"), Some(SkipReason::NotAFile));
        assert!(matches!(skipped("everything"), Some(SkipReason::Link { .. })));
        assert!(matches!(skipped("loop"), Some(SkipReason::Link { .. })));
        assert!(matches!(skipped("dangling.py"), Some(SkipReason::Link { .. })));
    }
    assert_eq!(report.n_files_with_errors, 1);
    let symbols: Vec<String> = project.snapshot().functions().map(|f| f.symbol).collect();
    for wanted in ["ok:fine", "cookie:puff", "broken:b"] {
        assert!(symbols.iter().any(|s| s == wanted), "{wanted} in {symbols:?}");
    }
}

#[test]
fn a_root_that_cannot_be_used_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let open = |path: &Path| {
        Project::open(ProjectConfig { python: PythonChoice::Without, ..ProjectConfig::new(path) })
    };
    assert!(matches!(open(&dir.path().join("none")), Err(RepoError::NotADirectory { .. })));
    assert!(matches!(open(dir.path()), Err(RepoError::NoPython { .. })));
    let file = dir.path().join("a.py");
    std::fs::write(&file, "x = 1").unwrap();
    assert!(matches!(open(&file), Err(RepoError::NotADirectory { .. })));
}

#[test]
fn an_interpreter_that_is_not_there_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[("a.py", b"x = 1\n")]);
    let mut config = ProjectConfig::new(dir.path());
    config.python = PythonChoice::Path("/no/such/python".into());
    let (_, report) = Project::open(config).unwrap();
    assert!(report.environment.fault.is_some_and(|f| f.contains("/no/such/python")));
}

#[test]
fn an_interpreter_that_answers_nonsense_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[("a.py", b"x = 1\n"), ("python", b"#!/bin/sh\necho nonsense\n")]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let program = dir.path().join("python");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut config = ProjectConfig::new(dir.path());
        config.python = PythonChoice::Path(program);
        let (_, report) = Project::open(config).unwrap();
        assert!(report.environment.fault.is_some());
    }
}

#[test]
fn functions_are_found_by_symbol_with_their_parts() {
    let dir = tempfile::tempdir().unwrap();
    let text = "class K:\n    @property\n    def m(self, a,\n          b):\n        '''Doc.'''\n        x = a\n        return x\n\n\
                def one(): return 1\ndef none():\n\t\"doc\"\nasync def outer():\n    def inner(): pass\n";
    write(dir.path(), &[("pk/__init__.py", b""), ("pk/mod.py", text.as_bytes())]);
    let (project, _) = open(dir.path());
    let snapshot = project.snapshot();
    let m = snapshot.find_symbol("pk.mod:K.m").unwrap();
    assert_eq!(&text[m.header.clone()], "def m(self, a,\n          b):");
    assert_eq!(&text[m.docstring.clone().unwrap()], "'''Doc.'''");
    assert_eq!(&text[m.body.clone()], "        x = a\n        return x");
    assert_eq!(
        (m.indent.as_str(), m.class.as_deref(), m.n_decorators, m.line),
        ("        ", Some("K"), 1, 3)
    );
    let one = snapshot.find_symbol("pk.mod:one").unwrap();
    assert_eq!(&text[one.body.clone()], " return 1");
    assert_eq!(one.indent, "    ");
    let none = snapshot.find_symbol("pk.mod:none").unwrap();
    assert_eq!((&text[none.body.clone()], none.indent.as_str()), ("", "\t"));
    assert!(snapshot.find_symbol("pk.mod:outer").unwrap().is_async);
    assert_eq!(snapshot.find_symbol("pk.mod:outer.inner").unwrap().line, 13);
    assert_eq!(snapshot.find_symbol("pk.mod.K.m").unwrap().symbol, "pk.mod:K.m");
    match snapshot.find_symbol("pk.mod:K.n") {
        Err(RepoError::NoSuchSymbol { nearest, .. }) => {
            assert_eq!(nearest.first().map(String::as_str), Some("pk.mod:K.m"))
        }
        other => panic!("{other:?}"),
    }
    let path = dir.path().join("pk/mod.py");
    let at = |line, col| snapshot.function_at(&path, LineCol { line, col });
    assert_eq!(at(6, 9).unwrap().symbol, "pk.mod:K.m");
    assert!(matches!(at(1, 1), Err(RepoError::NoFunctionAt { .. })));
    assert!(matches!(at(99, 1), Err(RepoError::NoFunctionAt { .. })));
}

#[test]
fn a_package_given_as_the_root_keeps_its_name() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[("pk/__init__.py", b""), ("pk/a.py", b"def f(): ...\n")]);
    let (project, _) = open(&dir.path().join("pk"));
    assert!(project.snapshot().find_symbol("pk.a:f").is_ok());
}

#[test]
fn namespace_packages_spread_over_source_roots() {
    let dir = tempfile::tempdir().unwrap();
    write(
        dir.path(),
        &[("r1/ns/a.py", b"x = 1\n"), ("r2/ns/b.py", b"y = 1\n"), ("r1/main.py", b"")],
    );
    let mut config = ProjectConfig::new(dir.path());
    config.python = PythonChoice::Without;
    config.source_roots = Some(vec!["r1".into(), "r2".into()]);
    let (project, _) = Project::open(config).unwrap();
    let mut session = Session::new(Arc::new(project));
    let main = dir.path().join("r1/main.py");
    assert_eq!(
        names(&mut session, &main, "import ns.b\nimport ns.a\nns.b.█")
            .1
            .iter()
            .filter(|n| *n == "y")
            .count(),
        1
    );
    assert_eq!(names(&mut session, &main, "import ns.█").1, ["a", "b"]);
}

#[test]
fn an_updated_file_changes_the_next_answer() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[("lib.py", b"def old(): ...\n"), ("main.py", b"")]);
    let (project, _) = open(dir.path());
    let project = Arc::new(project);
    let mut session = Session::new(project.clone());
    let main = dir.path().join("main.py");
    let text = "import lib\ndef f():\n    return lib.█\n";
    assert!(names(&mut session, &main, text).1.contains(&"old".to_owned()));
    let before = project.snapshot();
    project.update(&dir.path().join("lib.py"), Some("def new(): ...\n".to_owned())).unwrap();
    let (_, found) = names(&mut session, &main, text);
    assert!(found.contains(&"new".to_owned()) && !found.contains(&"old".to_owned()));
    assert!(before.find_symbol("lib:old").is_ok(), "a snapshot never changes");
    project.update(&dir.path().join("more.py"), Some("def extra(): ...\n".to_owned())).unwrap();
    let (_, found) = names(&mut session, &main, "import more\nmore.█");
    assert!(found.contains(&"extra".to_owned()));
    std::fs::remove_file(dir.path().join("lib.py")).unwrap();
    project.update(&dir.path().join("lib.py"), None).unwrap();
    assert_eq!(names(&mut session, &main, text).0, Answer::Unknown);
    assert!(project.update(Path::new("/etc/hosts"), None).is_err());
}

#[test]
fn the_text_being_written_takes_the_place_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    write(
        dir.path(),
        &[("m.py", b"class K:\n    def old_name(self): ...\n    def f(self): ...\n")],
    );
    let (project, _) = open(dir.path());
    let mut session = Session::new(Arc::new(project));
    let path = dir.path().join("m.py");
    let text = "class K:\n    def new_name(self): ...\n    def f(self):\n        return self.█\n";
    let (_, found) = names(&mut session, &path, text);
    assert!(found.contains(&"new_name".to_owned()) && !found.contains(&"old_name".to_owned()));
    let (answer, _) = names(&mut session, &dir.path().join("not_there.py"), text);
    assert_eq!(answer, Answer::Closed);
}

#[test]
fn answers_do_not_depend_on_earlier_questions() {
    let dir = tempfile::tempdir().unwrap();
    let head = "class Z:\n    def zap(self): ...\nclass K:\n    def f(self, q):\n        ";
    let tail = "\n    def g(self):\n        return self.made\n";
    let bodies = [
        "x = self.█",
        "self.made = Z()\n        return self.█",
        "self.made = Z()\n        return self.made.█",
        "self.made = 1\n        return self.made.█",
        "return self.made.█",
        "return self.g().█",
        "q = Z()\n        return q.█",
        "return [q for q in [Z()] if q.█",
        "return self.█",
    ];
    write(dir.path(), &[("m.py", format!("{head}pass{tail}").as_bytes())]);
    let (project, _) = open(dir.path());
    let project = Arc::new(project);
    let path = dir.path().join("m.py");
    let mut shared = Session::new(project.clone());
    for round in 0..2 {
        for body in bodies.iter().cycle().skip(round * 4).take(bodies.len()) {
            let text = format!("{head}{body}{tail}");
            let together = names(&mut shared, &path, &text);
            let alone = names(&mut Session::new(project.clone()), &path, &text);
            assert_eq!(together, alone, "{body}");
        }
    }
}

#[test]
fn a_cursor_outside_the_text_is_unknown() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[("m.py", b"x = 1\n")]);
    let (project, _) = open(dir.path());
    let mut session = Session::new(Arc::new(project));
    let path = dir.path().join("m.py");
    assert_eq!(session.names_at(&path, "x.", 99, None).answer, Answer::Unknown);
    assert_eq!(session.names_at(&path, "é.", 1, None).answer, Answer::Unknown);
    assert_eq!(session.names_at(&path, "", 0, None).answer, Answer::Open);
}

#[test]
fn a_deadline_that_passed_is_timed_out() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = String::new();
    for i in 0..600 {
        text.push_str(&format!("class C{i}:\n    def m(self): return C{}().m()\n", (i + 1) % 600));
    }
    write(dir.path(), &[("m.py", text.as_bytes())]);
    let (project, _) = open(dir.path());
    let mut session = Session::new(Arc::new(project));
    let path = dir.path().join("m.py");
    let whole = format!("{text}def f():\n    return C0().m().");
    let found = session.names_at(&path, &whole, whole.len(), Some(Instant::now()));
    assert!(matches!(found.answer, Answer::TimedOut | Answer::Unknown), "{:?}", found.answer);
}

#[test]
fn a_class_of_twenty_thousand_methods_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = String::from("class Big:\n");
    for i in 0..20_000 {
        text.push_str(&format!("    def m{i}(self): ...\n"));
    }
    write(dir.path(), &[("m.py", text.as_bytes())]);
    let (project, _) = open(dir.path());
    let mut session = Session::new(Arc::new(project));
    let whole = format!("{text}def f(b: Big):\n    return b.");
    let started = Instant::now();
    let found = session.names_at(&dir.path().join("m.py"), &whole, whole.len(), None);
    assert!(found.names.len() >= 20_000);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[test]
fn a_hundred_thousand_lines_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let text = "def f(a, b=1):\n    x = a.b(c)[0] + 1\n    return x\n\n".repeat(25_000);
    write(dir.path(), &[("m.py", text.as_bytes())]);
    let (_, report) = open(dir.path());
    assert_eq!((report.n_lines, report.n_functions), (100_000, 25_000));
    assert!(
        report.memory_bytes / report.n_lines < 1536,
        "{} bytes a line",
        report.memory_bytes / report.n_lines
    );
}

fn with_stack(work: impl FnOnce() + Send + 'static) {
    let worker = std::thread::Builder::new().stack_size(64 << 20).spawn(work).unwrap();
    worker.join().unwrap();
}

#[test]
fn deep_code_is_bounded() {
    with_stack(|| {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &[("m.py", b"")]);
        let (project, _) = open(dir.path());
        let mut session = Session::new(Arc::new(project));
        let path = dir.path().join("m.py");
        let chain =
            format!("class Z:\n    def t(self): return self\nx = Z(){}.█", ".t()".repeat(3_000));
        let nested = format!("x = {}1{}\nx.█", "[".repeat(190), "]".repeat(190));
        let sum = format!("x = {}\nx.█", vec!["1"; 20_000].join(" + "));
        let calls: String =
            (0..2_000).map(|i| format!("def f{i}(): return f{}()\n", i + 1)).collect();
        let classes: String =
            (1..2_000).map(|i| format!("class C{i}(C{}): ...\n", i - 1)).collect();
        for text in [
            chain,
            nested,
            sum,
            format!("{calls}f0().█"),
            format!("class C0:\n    def z(self): ...\n{classes}C1999().█"),
            format!(
                "x = y\n{}y = x\nx.█",
                (0..500).map(|i| format!("x = x or y{i}\n")).collect::<String>()
            ),
        ] {
            let started = Instant::now();
            let _ = names(&mut session, &path, &text);
            assert!(
                started.elapsed() < Duration::from_secs(5),
                "{} {:?}",
                &text[..30],
                started.elapsed()
            );
        }
    });
}

const SAMPLE: &str = include_str!("syntax/sample.txt");

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn questions_in_mutated_sources_have_an_answer(
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..40, "[ -~\n\t{}()\\[\\]'\":.,é]{0,6}"), 0..6),
        cursors in prop::collection::vec(any::<prop::sample::Index>(), 1..6),
    ) {
        let mut text = SAMPLE.to_owned();
        for (at, len, insert) in edits {
            let mut start = at.index(text.len() + 1);
            while !text.is_char_boundary(start) { start -= 1; }
            let mut end = (start + len).min(text.len());
            while !text.is_char_boundary(end) { end += 1; }
            text.replace_range(start..end, &insert);
        }
        with_stack(move || {
            let dir = tempfile::tempdir().unwrap();
            write(dir.path(), &[("m.py", SAMPLE.as_bytes()), ("sibling.py", SAMPLE.as_bytes())]);
            let (project, _) = open(dir.path());
            let mut session = Session::new(Arc::new(project));
            for cursor in cursors {
                let mut at = cursor.index(text.len() + 1);
                while !text.is_char_boundary(at) { at -= 1; }
                let started = Instant::now();
                let found = session.names_at(&dir.path().join("m.py"), &text, at, None);
                assert!(found.start_byte <= at);
                assert!(found.names.windows(2).all(|w| w[0].name < w[1].name), "sorted and distinct");
                assert!(started.elapsed() < Duration::from_secs(3));
            }
        });
    }
}

#[test]
fn a_region_of_a_text_keeps_its_offsets() {
    let text = "x = 1\n    def m(self):\n        return self\n";
    let start = text.find("def").unwrap();
    let ast = syntax::parse(text, &Region { range: start..text.len(), hole: None });
    assert_eq!(&text[ast.functions[0].span.range()], "def m(self):\n        return self");
}
