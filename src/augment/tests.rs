//! Whole runs: the published rules against an independent implementation's golden, and what a run leaves on
//! disk.

use super::*;
use crate::base::CandidateSource;
use crate::complete::NativeTool;
use crate::repo::{IndexReport, Project, ProjectConfig, PythonChoice};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/augment").join(name)
}

fn json_lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("the golden is there");
    text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect()
}

fn project(root: &Path) -> ProjectConfig {
    ProjectConfig { python: PythonChoice::Without, ..ProjectConfig::new(root) }
}

fn split() -> SplitConfig {
    SplitConfig {
        valid_share: 0.0,
        test_share: 0.0,
        by_function: false,
        similarity_min: Some(0.7),
        by_pair: false,
        seed: 42,
    }
}

fn native(
    _: &str,
    project: &Arc<Project>,
    _: &IndexReport,
) -> Result<Box<dyn CandidateSource>, String> {
    Ok(Box::new(NativeTool::new(Arc::clone(project))))
}

/// Records by file, function and line.
type Records = BTreeMap<(String, String, u32), Record>;

/// Run everything into `out`; the records of all functions, refused ones too, by place.
fn run(
    config: &AugmentConfig,
    repos: &[ProjectConfig],
    out: &Path,
    n_threads: usize,
    open: OpenTool<'_>,
) -> Result<(Published, Records), AugmentError> {
    let progress = Progress { repo: &|_, _, _, _| {}, functions: &|_, _| {} };
    let shards = augment(config, repos, out, n_threads, open, None, &progress)?;
    let mut records = BTreeMap::new();
    for line in shards.iter().flat_map(|path| shard::read(path).expect("a shard")) {
        if let shard::Line::Record(r) = line? {
            records.insert((r.file_path.clone(), r.function_name.clone(), r.line), *r);
        }
    }
    let published = publish(config, &split(), &shards, out)?;
    Ok((published, records))
}

#[test]
fn the_published_rules_give_what_an_independent_implementation_gives() {
    let dir = tempfile::tempdir().expect("a folder");
    let root = dir.path().join("library");
    copy(&golden("library"), &root);
    let mut long = String::from(
        "from . import item\n\n\ndef first(entry):\n    \"\"\"Return the title that an entry begins with.\"\"\"\n    title = item.label(entry)\n    return title\n",
    );
    while long.split('\n').count() <= 1001 {
        long.push_str("#\n");
    }
    fs::write(root.join("lending/long.py"), long).expect("a file");
    let config = AugmentConfig { keep_rejected: true, ..AugmentConfig::new(Mode::Compat) };
    let open = |_: &str, _: &Arc<Project>, _: &IndexReport| {
        let recorded =
            Recorded::read(&golden("compat.answers.jsonl")).map_err(|e| e.to_string())?;
        Ok(Box::new(recorded) as Box<dyn CandidateSource>)
    };
    let out = dir.path().join("out");
    let (published, records) = run(&config, &[project(&root)], &out, 1, &open).expect("a run");
    let refused = &published.statistics.tally.files_refused;
    assert_eq!(refused.get("file_too_long"), Some(&1), "{refused:?}");
    let rules = fs::read_to_string(golden("rules.json")).expect("the rules' names");
    let rules: Value = serde_json::from_str(&rules).expect("JSON");
    let golden = json_lines(&golden("compat.jsonl"));
    let mut differing = Vec::new();
    for expected in &golden {
        let text = |key: &str| expected[key].as_str().unwrap_or_default().to_owned();
        let line = expected["line"].as_u64().expect("a line") as u32;
        let place = (text("file_path"), text("function_name"), line);
        let Some(got) = records.get(&place) else {
            differing.push(format!("{place:?} is missing"));
            continue;
        };
        let mut check = |key: &str, got: &str| {
            if expected[key].as_str().unwrap_or_default() != got {
                differing.push(format!("{place:?} {key}: {} is {got:?}", expected[key]));
            }
        };
        check("code", &got.code);
        check("docstring", &got.docstring);
        if let Some(why) = expected["rejected"].as_str() {
            let got = got.rejected.map_or("kept", Rejection::as_str);
            let rule = rules[why].as_str().expect("the golden has no rules that rules.json lacks");
            if rule != got {
                differing.push(format!("{place:?}: {why} is {got}"));
            }
            continue;
        }
        check("description", &got.description);
        check("signature", &got.signature);
        check("prefix", &got.prefix);
        check("body", &got.body);
        check("augmented_prefix", &got.augmented_prefix);
        check("augmented_body", &got.augmented_body);
    }
    differing.retain(|d| !KNOWN_DIFFERENCES.iter().any(|known| d.contains(known)));
    assert!(
        differing.is_empty(),
        "{} of {}:\n{}",
        differing.len(),
        golden.len(),
        differing.join("\n")
    );
}

/// Places where the golden has what ours leaves out: Jedi also offers a dictionary's keys as literals, which
/// are no names.
const KNOWN_DIFFERENCES: &[&str] = &["\"written_keys\", 87) augmented_body"];

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).expect("a file");
        }
    }
}

const SHELF: &str = r#"
class Shelf:
    def __init__(self, width):
        self.width = width
        self.books = []

    def room_left(self):
        """Say how much room is left on it."""
        text = """
        of several lines
        """
        used = sum(book.width for book in self.books)
        return self.width - used


class Tall(Shelf):
    def room_left(self):
        """Say how much room is left on a tall one."""
        return max(self.width, limit(value=self.width))

    async def fetch(self, url):
        """Fetch a book from far away."""
        return await download(url)


def limit(value, most=10):
    """Keep a value below the most there is."""
    return min(value, most)  # never more


def download(url):
    """Get <COMP> from an address."""
    return url
"#;

fn small_project() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    fs::create_dir(dir.path().join("repo")).expect("a folder");
    fs::write(dir.path().join("repo/shelf.py"), SHELF).expect("a file");
    fs::write(dir.path().join("repo/broken.py"), "def f(:\n    '''Do it or not.'''\n  x\n")
        .expect("a file");
    fs::write(dir.path().join("repo/latin.py"), b"# \xe9\nx = '\xff'\n").expect("a file");
    dir
}

fn strict() -> AugmentConfig {
    AugmentConfig { keep_rejected: true, ..AugmentConfig::new(Mode::Strict) }
}

#[test]
fn strict_rules_mark_what_the_tool_knows_wherever_it_stands() {
    let dir = small_project();
    let repo = project(&dir.path().join("repo"));
    let (published, records) =
        run(&strict(), &[repo], &dir.path().join("out"), 2, &native).expect("a run");
    let body = |name: &str, line: u32| {
        let key = ("shelf.py".to_owned(), name.to_owned(), line);
        records.get(&key).map(|r| r.augmented_body.as_str()).unwrap_or_default()
    };
    assert_eq!(
        body("room_left", 7),
        "        text = \"\"\"\n        of several lines\n        \"\"\"\n        used = sum(book.width for book in \
         self.<COMP>books)\n        return self.<COMP>width - <COMP>used",
    );
    assert_eq!(
        body("room_left", 17),
        "        return max(self.<COMP>width, <COMP>limit(<COMP>value=self.<COMP>width))",
        "an overriding method and a keyword name"
    );
    assert_eq!(body("fetch", 21), "        return await <COMP>download(<COMP>url)", "async");
    assert_eq!(
        body("limit", 26),
        "    return min(<COMP>value, <COMP>most)",
        "no comment, no space"
    );
    let refused = &published.statistics.tally.refused;
    assert_eq!(refused.get(&Rejection::TriggerInSource), Some(&1), "{refused:?}");
    let prefix = &records[&("shelf.py".to_owned(), "limit".to_owned(), 26)].prefix;
    assert_eq!(
        prefix,
        "def limit(value, most=10):\n    '''Keep a value below the most there is.'''\n"
    );
}

#[test]
fn every_function_is_kept_or_counted_under_one_rule_and_threads_change_nothing() {
    let dir = small_project();
    let repo = || project(&dir.path().join("repo"));
    let mut texts = Vec::new();
    for n_threads in [1, 3] {
        let out = dir.path().join(format!("out{n_threads}"));
        let (published, _) = run(&strict(), &[repo()], &out, n_threads, &native).expect("a run");
        let tally = &published.statistics.tally;
        let refused: u64 = tally.refused.values().sum();
        assert_eq!(tally.functions_found, tally.functions_kept + refused, "{tally:?}");
        assert_eq!(tally.files_refused.get("file_does_not_parse"), Some(&1));
        texts.push(fs::read_to_string(out.join("train.jsonl")).expect("the data"));
        assert!(!out.join("shards").exists());
    }
    assert_eq!(texts[0], texts[1]);
}

#[test]
fn a_run_that_was_killed_makes_only_what_is_missing() {
    let dir = small_project();
    let repo = project(&dir.path().join("repo"));
    let out = dir.path().join("out");
    let progress = Progress { repo: &|_, _, _, _| {}, functions: &|_, _| {} };
    let repos = [repo];
    let config = strict();
    let first = augment(&config, &repos, &out, 1, &native, None, &progress).expect("shards");
    let never = |_: &str, _: &Arc<Project>, _: &IndexReport| Err("it was asked again".to_owned());
    let again = augment(&config, &repos, &out, 1, &never, None, &progress).expect("nothing to do");
    assert_eq!(first, again);
    fs::write(&first[0], "{\"head\":").expect("half a line"); // as a full disk leaves it
    let error = augment(&config, &repos, &out, 1, &never, None, &progress).expect_err("it is made");
    assert!(error.to_string().contains("it was asked again"), "{error}");
    augment(&config, &repos, &out, 1, &native, None, &progress).expect("made again");
    fs::write(dir.path().join("repo/shelf.py"), SHELF.replace("most", "top")).expect("a file");
    let error = augment(&config, &repos, &out, 1, &never, None, &progress).expect_err("it changed");
    assert!(error.to_string().contains("did not start"), "{error}");
}

#[test]
fn a_folder_is_claimed_by_one_run_and_the_setting_that_differs_is_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let out = dir.path().join("out");
    let repos = [dir.path().to_owned()];
    claim(&out, &strict(), &split(), &repos, false).expect("a new folder");
    claim(&out, &strict(), &split(), &repos, false).expect("the same run");
    let other = AugmentConfig { items_max: 7, ..strict() };
    let error = claim(&out, &other, &split(), &repos, false).expect_err("other settings");
    assert!(error.to_string().contains("items_max was 512 and is 7"), "{error}");
    claim(&out, &other, &split(), &repos, true).expect("forced");
    let error = claim(dir.path(), &strict(), &split(), &repos, false).expect_err("other files");
    assert!(matches!(error, AugmentError::ForeignFolder { .. }), "{error}");
    for trigger in ["", "a b", "COMP", "<COMP>x"] {
        let config = AugmentConfig { trigger: trigger.to_owned(), ..strict() };
        let error = claim(&dir.path().join("t"), &config, &split(), &repos, false);
        assert!(matches!(error, Err(AugmentError::BadTrigger { .. })), "{trigger:?}");
    }
}

#[test]
fn what_cannot_be_used_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let out = dir.path().join("out");
    let missing = run(&strict(), &[project(&dir.path().join("none"))], &out, 1, &native);
    assert!(matches!(missing, Err(AugmentError::Repository { .. })));
    fs::create_dir(dir.path().join("bare")).expect("a folder");
    fs::write(dir.path().join("bare/a.py"), "def f():\n    return 1\n").expect("a file");
    let bare = [project(&dir.path().join("bare"))];
    let Err(error) = run(&strict(), &bare, &out, 1, &native) else {
        panic!("nothing is left");
    };
    assert!(error.to_string().contains("no_docstring 1"), "{error}");
    let answers = dir.path().join("answers");
    for (text, said) in [
        ("{}\n", "does not say toolgen-answers"),
        ("{\"format\": \"toolgen-answers\"}\n{\"lists\": 1}\n", "line 2: "),
        (
            "\"toolgen-answers\"\n{\"lists\":[],\"questions\":[{\"sha256\":\"a\",\"line\":1,\"column\":0,\"list\":3}]}\n",
            "line 2: there is no list 3",
        ),
    ] {
        fs::write(&answers, text).expect("a file");
        let Err(error) = Recorded::read(&answers) else {
            panic!("that is no record: {text}");
        };
        assert!(error.to_string().contains(said), "{error}");
    }
    fs::write(dir.path().join("file"), "").expect("a file");
    let error = run(&strict(), &bare, &dir.path().join("file/out"), 1, &native).err();
    assert!(matches!(error, Some(AugmentError::Write { .. })), "{error:?}");
}
