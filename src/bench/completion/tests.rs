//! The evaluation over a small project and tools of which everything is known.
//!
//! # Place
//! Tests of `bench::completion`.

use super::*;
use crate::base::{Answer, Candidate, CandidateKind, CandidateSource, Candidates, Origin, Query};
use crate::repo::{ProjectConfig, PythonChoice};
use crate::runtime::{Repository, ToolChoice};
use std::fs;
use std::path::Path;

/// Answers `answer` with the words that follow `# names:` in the text.
struct Told(Answer);

impl CandidateSource for Told {
    fn name(&self) -> &str {
        "told"
    }

    fn candidates(&mut self, query: &Query<'_>) -> Candidates {
        assert!(!query.text.contains("cut_away"), "what follows the cursor is shown");
        assert!(query.text.contains("kept"), "what follows the function is cut");
        let line = query.text.lines().find_map(|l| l.strip_prefix("# names:"));
        let names = line.unwrap_or_default().split_whitespace();
        Candidates {
            answer: self.0,
            names: names
                .map(|n| Candidate::new(n, CandidateKind::Unknown, Origin::Unknown))
                .collect(),
            start_byte: query.offset,
            reason: None,
        }
    }
}

const SOURCE: &str =
    "# names: append real\ndef f(x):\n    x.append(y).cut_away\n\ndef kept(): pass\n";

/// Positions of `x`, `append` and `y` in [`SOURCE`], written to disk with the project.
fn project() -> (tempfile::TempDir, Positions) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let root = dir.path().join("toy/toy");
    fs::create_dir_all(&root).expect("made");
    fs::write(root.join("m.py"), SOURCE).expect("written");
    let start = SOURCE.find("def f").expect("in the source");
    let end = SOURCE.find("\n\ndef kept").expect("in the source");
    let line = |name: &str, kind: &str| {
        let at = SOURCE[start + 9..].find(name).expect("in the source") + start + 9;
        format!(
            r#"{{"package":"toy","file":"toy/toy/m.py","offset_byte":{at},"kind":"{kind}","ctx":"load","receiver":null,"name":"{name}","own_class":false,"own":null,"forward":false,"function":"f","span_byte":[{start},{end}]}}"#
        )
    };
    let lines = [line("x", "name"), line("append", "member"), line("y", "name")];
    let path = dir.path().join("positions.jsonl");
    fs::write(&path, lines.join("\n")).expect("written");
    let positions = Positions::read(&path).expect("positions");
    (dir, positions)
}

fn config(dir: &Path) -> RunConfig {
    RunConfig { projects: dir.to_owned(), call_ms_max: 1000 }
}

#[track_caller]
fn report(answer: Answer) -> Report {
    let (dir, positions) = project();
    let start = |_: &Path| -> Result<Box<dyn CandidateSource>, _> { Ok(Box::new(Told(answer))) };
    let outcomes = run(&positions, &config(dir.path()), start, |_, _| ()).expect("a run");
    Report::new(&positions, &outcomes)
}

#[test]
fn a_closed_answer_without_the_true_name_is_false() {
    let report = report(Answer::Closed);
    let member = report.row("toy", Slice::Member).expect("a row");
    assert_eq!((member.n, member.offered, member.false_closed), (1, 1, 0));
    let names = report.row("toy", Slice::Name).expect("a row");
    assert_eq!((names.n, names.offered, names.false_closed), (2, 0, 2));
    let every = report.row(ALL, Slice::Every).expect("a row");
    assert_eq!((every.n, every.closed, every.functions, every.functions_forbidden), (3, 3, 1, 1));
}

#[test]
fn an_open_answer_forbids_nothing() {
    let report = report(Answer::Open);
    let every = report.row(ALL, Slice::Every).expect("a row");
    assert_eq!((every.open, every.false_closed), (3, 0));
    assert_eq!(report.row("toy", Slice::Keyword), None);
}

#[test]
fn thresholds_fail_on_the_side_where_a_measure_gets_worse() {
    let report = report(Answer::Closed);
    let csv = "package,slice,measure,bound\nALL,member,offered_rate,1\nALL,name,offered_rate,0.5\n\
               toy,every,false_closed_rate,0.003\nALL,member,ms_max,5000\nALL,keyword,known_rate,0\n";
    let thresholds = Threshold::read_csv(Path::new("t.csv"), csv).expect("thresholds");
    let missed: Vec<String> =
        Threshold::check(&thresholds, &report).into_iter().map(|m| m.0).collect();
    assert_eq!(
        missed,
        [
            "ALL name: offered_rate is 0.0000, at least 0.5000 wanted",
            "toy every: false_closed_rate is 0.6667, at most 0.0030 wanted",
            "ALL keyword: no positions",
        ]
    );
    for bad in ["x", "ALL,member,offered_rate,much", "ALL,sky,ms_p50,1", "ALL,name,ms_p50,NaN"] {
        let csv = format!("head\n{bad}\n");
        assert!(Threshold::read_csv(Path::new("t.csv"), &csv).is_err(), "{bad}");
    }
}

#[test]
fn a_peer_sets_the_bar() {
    let peer = report(Answer::Open);
    let bar = Threshold::from_peer(&peer);
    assert_eq!(bar.len(), 3);
    assert_eq!(Threshold::check(&bar, &peer), []);
    let worse = report(Answer::Unknown);
    assert_eq!(Threshold::check(&bar, &worse).len(), 1);
}

#[test]
fn the_csv_has_one_line_for_each_row_and_as_many_fields_as_its_head() {
    let csv = report(Answer::Open).to_csv();
    let n_fields: Vec<usize> = csv.lines().map(|l| l.split(',').count()).collect();
    assert_eq!(n_fields, [17; 7]);
    assert!(csv.contains("\ntoy,member,1,1,1.0000,0,1,0,0,1.0000,0,0.0000,1,0,"), "{csv}");
}

#[test]
fn positions_of_other_sources_are_refused() {
    let (dir, positions) = project();
    fs::write(dir.path().join("toy/toy/m.py"), format!("\n{SOURCE}")).expect("written");
    let start =
        |_: &Path| -> Result<Box<dyn CandidateSource>, _> { Ok(Box::new(Told(Answer::Open))) };
    let failed = run(&positions, &config(dir.path()), start, |_, _| ());
    let told = failed.expect_err("another text").to_string();
    assert!(told.contains("positions.py again"), "{told}");
}

#[test]
fn kept_answers_are_read_back_and_belong_to_their_positions() {
    let (dir, positions) = project();
    let path = dir.path().join("answers.jsonl");
    let head = CacheHead {
        tool: "told".to_owned(),
        version: "1".to_owned(),
        positions_sha256: positions.sha256.clone(),
    };
    let outcome =
        Outcome { answer: "open".to_owned(), offered: true, n_names: 2, ms: 0.25, reason: None };
    let mut writer = CacheWriter::create(&path, &head).expect("a file");
    writer.add(&outcome).expect("written");
    writer.add(&outcome).expect("written");
    drop(writer);
    let kept = read_cache(&path, &positions).expect("a cache");
    assert_eq!(kept, (head.clone(), vec![outcome.clone(), outcome.clone()]));

    let whole = fs::read_to_string(&path).expect("read");
    fs::write(&path, &whole[..whole.len() - 9]).expect("written");
    assert_eq!(read_cache(&path, &positions).expect("a cache").1, [outcome]);
    fs::write(&path, whole.replace("\"open\"", "7")).expect("written");
    assert!(read_cache(&path, &positions).is_err());
    let other = Positions { sha256: "0".to_owned(), ..positions };
    fs::write(&path, whole).expect("written");
    assert!(matches!(read_cache(&path, &other), Err(CompletionBenchError::OtherPositions { .. })));
}

#[test]
fn a_ratchet_holds_what_was_reached_and_fails_on_a_drop() {
    let reached = report(Answer::Open);
    let written = Threshold::to_csv(&Threshold::ratchet(&reached, 0.01));
    let thresholds = Threshold::read_csv(Path::new("t.csv"), &written).expect("thresholds");
    assert_eq!(Threshold::to_csv(&thresholds), written);
    assert_eq!(Threshold::check(&thresholds, &reached), []);
    let missed = Threshold::check(&thresholds, &report(Answer::Closed));
    assert_eq!(missed.len(), 2, "{missed:?}");
}

#[test]
fn the_committed_thresholds_are_thresholds() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench/completion/thresholds.csv");
    let csv = fs::read_to_string(&path).expect("a committed file");
    let thresholds = Threshold::read_csv(&path, &csv).expect("thresholds");
    assert!(thresholds.iter().all(|t| t.package == ALL));
    assert_eq!(thresholds.len(), 8);
}

/// A project analysed without any interpreter.
fn repository(root: &Path) -> Repository {
    let mut config = ProjectConfig::new(root);
    config.python = PythonChoice::Without;
    Repository::open(config, &ToolChoice::Native).expect("a project")
}

fn inventory() -> Repository {
    repository(&Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/inventory"))
}

#[test]
fn our_tool_holds_its_promises_on_a_small_package() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let positions = Positions::read(&root.join("tests/data/completion/positions.jsonl"))
        .expect("committed positions");
    let config = RunConfig { projects: root.join("examples"), call_ms_max: 20_000 };
    let mut missed = Vec::new();
    let note = |p: &Position, o: &Outcome| {
        if !o.offered && p.kind == PositionKind::Member {
            missed.push(format!(
                "{}:{} {} ({})",
                p.file.display(),
                p.offset_byte,
                p.name,
                o.answer
            ));
        }
    };
    let outcomes = run(&positions, &config, |_| Ok(inventory().tool), note).expect("a run");
    let report = Report::new(&positions, &outcomes);
    let csv = "package,slice,measure,bound\nALL,every,false_closed_rate,0\n\
               ALL,member,offered_rate,0.92\nALL,member_own,offered_rate,1\n\
               ALL,name,offered_rate,0.95\nALL,member,known_rate,0.92\n";
    let thresholds = Threshold::read_csv(Path::new("t.csv"), csv).expect("thresholds");
    assert_eq!(Threshold::check(&thresholds, &report), [], "{missed:#?}\n{}", report.to_csv());
}

#[test]
fn replaying_a_small_package_forbids_nothing() {
    let mut repository = inventory();
    let snapshot = repository.project.snapshot();
    let config = ReplayConfig { functions_max: 1000, call_ms_max: 20_000, seed: 1 };
    let replay = Replay::of("inventory", &snapshot, repository.tool.as_mut(), config);
    assert_eq!(replay.forbidden, []);
    assert!(replay.functions >= 40 && replay.closed >= 60, "{replay:?}");
    let csv = Replay::to_csv(&[replay]);
    assert_eq!(csv.lines().map(|l| l.split(',').count()).collect::<Vec<_>>(), [13, 13]);
}

/// Allows `right` and nothing else, everywhere.
struct Only;

impl CandidateSource for Only {
    fn name(&self) -> &str {
        "only"
    }

    fn candidates(&mut self, query: &Query<'_>) -> Candidates {
        let names = vec![Candidate::new("right", CandidateKind::Attribute, Origin::Project)];
        Candidates { answer: Answer::Closed, names, start_byte: query.offset, reason: None }
    }
}

#[test]
fn a_replay_finds_what_the_guide_would_have_forbidden() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let text = "def f(x):\n    y = x.right.wrong(x.right)\n    'x.no'\n    return y.wrongly\n";
    fs::write(dir.path().join("m.py"), text).expect("written");
    let snapshot = repository(dir.path()).project.snapshot();
    let config = ReplayConfig { functions_max: 9, call_ms_max: 1000, seed: 7 };
    let replay = Replay::of("toy", &snapshot, &mut Only, config);
    let told: Vec<_> = replay.forbidden.iter().map(|f| (f.line, f.name.as_str())).collect();
    assert_eq!(told, [(2, "wrong"), (4, "wrongly")]);
    assert_eq!((replay.asked, replay.closed), (4, 4), "{replay:?}");
    assert_eq!(replay.functions_forbidden, 1);
    assert_eq!(replay.forbidden[0].before, "y = x.right.");
}

#[test]
fn the_speed_of_analysis_counts_what_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/inventory");
    let speed = IndexSpeed::measure("inventory", &root, 1).expect("a project");
    assert!(speed.files >= 10 && speed.lines >= 400 && speed.bytes > speed.lines, "{speed:?}");
    assert_eq!(speed.change_ms.len(), speed.files.min(40));
    assert_eq!(IndexSpeed::to_csv(&[speed]).lines().count(), 2);
}
