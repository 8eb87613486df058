//! Jedi against servers that misbehave, and, where it is installed, the real one.
//!
//! # Place
//! Tests of `complete::jedi`. The misbehaving server does what the text of the question tells it to.

use super::*;

/// Names come from a line `names: a b c` of the text; a line `HANG`, `DIE`, … says how to misbehave.
const FAKE: &str = r#"
import json, os, struct, sys, time
i, o = sys.stdin.buffer, sys.stdout.buffer
def read():
    head = i.read(4)
    if len(head) < 4: sys.exit(0)
    return json.loads(i.read(struct.unpack('<I', head)[0]))
def write(v):
    d = json.dumps(v).encode()
    o.write(struct.pack('<I', len(d)) + d)
    o.flush()
read()
write({'ready': True, 'jedi': '0', 'python': '3'})
while True:
    q = read()
    words = q['text'].split()
    if 'HANG' in words: time.sleep(1000)
    if 'SPIN' in words:
        while True: pass
    if 'LATE' in words: time.sleep(0.3)
    if 'DIE' in words:
        sys.stderr.write('Fatal Python error: boom\n')
        sys.exit(7)
    if 'GARBAGE' in words:
        o.write(b'Traceback (most recent call last)\n'); o.flush(); time.sleep(1000)
    if 'NOTJSON' in words:
        o.write(struct.pack('<I', 3) + b'{x}'); o.flush(); time.sleep(1000)
    if 'HUGE' in words:
        o.write(struct.pack('<I', 1 << 31)); o.flush(); time.sleep(1000)
    if 'FLOOD' in words:
        while True: write({'id': 0, 'names': [['flood', 'class']] * 1000})
    if 'CHATTY' in words:
        sys.stderr.write('x' * 5_000_000)
    if 'FAIL' in words:
        write({'id': q['id'], 'error': 'RecursionError: deep'})
        continue
    line = [l for l in q['text'].splitlines() if l.startswith('names:')]
    names = line[0].split()[1:] if line else []
    write({'id': q['id'], 'names': [[n, 'function'] for n in names]})
"#;

fn python() -> Option<PathBuf> {
    let python = PathBuf::from("python3");
    let found =
        Command::new(&python).args(["-c", "pass"]).output().is_ok_and(|o| o.status.success());
    if !found {
        eprintln!("skipped: no python3");
    }
    found.then_some(python)
}

fn config(python: PathBuf) -> JediConfig {
    JediConfig {
        python,
        environment: None,
        roots: Vec::new(),
        memory_bytes_max: 0,
        start_ms_max: 20_000,
        hang_ms_max: 300,
        waits_for_restart: false,
    }
}

fn fake(server: &'static str) -> Option<Jedi> {
    Some(Jedi::start_with(config(python()?), server).expect("the fake server starts"))
}

/// Ask at the end of `text`. Panics when the call outlives its deadline by far.
#[track_caller]
fn ask(jedi: &mut Jedi, text: &str, within_ms: u64) -> Candidates {
    let started = Instant::now();
    let deadline = started + Duration::from_millis(within_ms);
    let candidates = jedi.candidates(&Query {
        path: Path::new("/project/main.py"),
        text,
        offset: text.len(),
        deadline,
    });
    let late = Instant::now().saturating_duration_since(deadline);
    assert!(late < Duration::from_millis(400), "{late:?} after the deadline");
    candidates
}

fn names(candidates: &Candidates) -> Vec<&str> {
    candidates.names.iter().map(|c| &*c.name).collect()
}

/// A call that is answered again after trouble: restarts pause, so it may take some tries.
#[track_caller]
fn recovers(jedi: &mut Jedi) {
    for _ in 0..100 {
        if ask(jedi, "names: ok\n", 2000).answer == Answer::Open {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the tool did not come back: {:?}", jedi.counters());
}

#[test]
fn names_are_sorted_unique_and_usable() {
    let Some(mut jedi) = fake(FAKE) else { return };
    let long = "l".repeat(CANDIDATE_BYTES_MAX + 1);
    let text = format!("names: beta alpha beta 1x a-b gamma() {long}\nx.");
    let candidates = ask(&mut jedi, &text, 5000);
    assert_eq!(candidates.answer, Answer::Open);
    assert_eq!(names(&candidates), ["alpha", "beta"]);
    assert_eq!(candidates.start_byte, text.len());
    assert_eq!(jedi.counters().dropped_names, 5);
}

#[test]
fn only_names_that_begin_with_the_typed_prefix_stay() {
    let Some(mut jedi) = fake(FAKE) else { return };
    let text = "names: shard Shade share\nx.sha";
    let candidates = ask(&mut jedi, text, 5000);
    assert_eq!(names(&candidates), ["shard", "share"]);
    assert_eq!(candidates.start_byte, text.len() - 3);
}

#[test]
fn no_names_is_unknown_and_never_closed() {
    let Some(mut jedi) = fake(FAKE) else { return };
    let candidates = ask(&mut jedi, "x.", 5000);
    assert_eq!(candidates.answer, Answer::Unknown);
    assert_eq!(jedi.counters().empty, 1);
}

#[test]
fn a_late_answer_is_not_taken_for_the_next_question() {
    let Some(mut jedi) = fake(FAKE) else { return };
    let late = ask(&mut jedi, "names: old\n# LATE\nx.", 100);
    assert_eq!(late.answer, Answer::TimedOut);
    let next = ask(&mut jedi, "names: new\nx.", 5000);
    assert_eq!(names(&next), ["new"]);
    let counters = jedi.counters();
    assert_eq!((counters.timed_out, counters.late, counters.restarts), (1, 1, 0));
}

#[test]
fn a_server_that_answers_late_is_not_killed_while_nobody_asks() {
    let Some(mut jedi) = fake(FAKE) else { return };
    jedi.config.hang_ms_max = 400;
    let late = ask(&mut jedi, "# LATE\nx.", 100);
    assert_eq!(late.answer, Answer::TimedOut);
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(names(&ask(&mut jedi, "names: ok\nx.", 5000)), ["ok"]);
    assert_eq!(jedi.counters().hangs, 0);
}

#[test]
fn a_hung_server_is_killed_though_nobody_asks_again_and_comes_back() {
    let Some(mut jedi) = fake(FAKE) else { return };
    for how in ["HANG", "SPIN"] {
        let hung = ask(&mut jedi, &format!("# {how}\nx."), 100);
        assert_eq!(hung.answer, Answer::TimedOut, "{how}");
        std::thread::sleep(Duration::from_millis(500));
        let running = jedi.running.as_ref().expect("nobody looked yet");
        assert!(running.process.was_killed_as_hung(), "{how}");
        let after = ask(&mut jedi, "names: ok\nx.", 1000);
        let reason = after.reason.expect("a reason");
        assert!(reason.contains("stopped answering"), "{reason}");
        recovers(&mut jedi);
    }
    let counters = jedi.counters();
    assert_eq!((counters.hangs, counters.crashes, counters.restarts), (2, 0, 2));
}

#[test]
fn a_crash_garbage_or_an_absurd_length_is_counted_explained_and_survived() {
    let Some(mut jedi) = fake(FAKE) else { return };
    for (how, told) in [
        ("DIE", "boom"),
        ("GARBAGE", "announced a message of"),
        ("NOTJSON", "wrote no answer"),
        ("HUGE", "2147483648 bytes"),
    ] {
        let candidates = ask(&mut jedi, &format!("# {how}\nx."), 5000);
        assert_eq!(candidates.answer, Answer::Unknown, "{how}");
        let reason = candidates.reason.expect("a reason");
        assert!(reason.contains(told), "{how}: {reason}");
        recovers(&mut jedi);
    }
    let counters = jedi.counters();
    assert_eq!((counters.crashes, counters.restarts), (4, 4));
}

#[test]
fn a_flood_of_messages_or_of_error_output_ends_at_the_deadline() {
    let Some(mut jedi) = fake(FAKE) else { return };
    let chatty = ask(&mut jedi, "names: ok\n# CHATTY\nx.", 5000);
    assert_eq!(names(&chatty), ["ok"]);
    let flood = ask(&mut jedi, "# FLOOD\nx.", 200);
    assert_eq!(flood.answer, Answer::TimedOut);
    recovers(&mut jedi);
    assert_eq!(jedi.counters().hangs, 1);
}

#[test]
fn an_error_of_one_call_is_that_call_only() {
    let Some(mut jedi) = fake(FAKE) else { return };
    let failed = ask(&mut jedi, "# FAIL\nx.", 5000);
    assert_eq!(failed.answer, Answer::Unknown);
    assert_eq!(jedi.counters().errors, 1);
    assert_eq!(names(&ask(&mut jedi, "names: ok\nx.", 5000)), ["ok"]);
    assert_eq!(jedi.counters().restarts, 0);
}

#[test]
fn a_server_that_does_not_read_never_blocks_a_call() {
    let server = "import time, sys, struct\no = sys.stdout.buffer\nd = b'{\"ready\": true}'\n\
                  o.write(struct.pack('<I', len(d)) + d)\no.flush()\ntime.sleep(1000)\n";
    let Some(mut jedi) = fake(server) else { return };
    let text = format!("# {}\nx.", "y".repeat(4 << 20));
    for _ in 0..3 {
        assert_eq!(ask(&mut jedi, &text, 50).answer, Answer::TimedOut);
    }
}

#[test]
fn a_restart_that_takes_longer_than_a_call_is_waited_for() {
    let slow = Box::leak(format!("import time\ntime.sleep(0.4)\n{FAKE}").into_boxed_str());
    let Some(mut jedi) = fake(slow) else { return };
    assert_eq!(ask(&mut jedi, "# DIE\nx.", 5000).answer, Answer::Unknown);
    std::thread::sleep(Duration::from_millis(150));
    let n_late = (0..200)
        .take_while(|_| ask(&mut jedi, "names: ok\nx.", 50).answer == Answer::TimedOut)
        .count();
    assert!((2..200).contains(&n_late), "{n_late} calls were late");
    assert_eq!(jedi.counters().restarts, 1);
}

#[test]
fn work_that_nobody_waits_for_waits_for_a_tool_that_crashed() {
    let Some(python) = python() else { return };
    let patient = JediConfig { waits_for_restart: true, ..config(python) };
    let slow = Box::leak(format!("import time\ntime.sleep(0.1)\n{FAKE}").into_boxed_str());
    let mut jedi = Jedi::start_with(patient, slow).expect("the fake server starts");
    for n_restarts in 0..3 {
        assert_eq!(jedi.counters().restarts, n_restarts);
        assert_eq!(ask(&mut jedi, "# DIE\nx.", 5000).answer, Answer::Unknown);
        assert_eq!(names(&ask(&mut jedi, "names: ok\nx.", 5000)), ["ok"]);
    }
}

#[test]
fn calls_between_restarts_return_at_once_and_restarts_are_bounded() {
    let Some(mut jedi) = fake(FAKE) else { return };
    let started = Instant::now();
    for _ in 0..200 {
        ask(&mut jedi, "# DIE\nx.", 1000);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(started.elapsed() < Duration::from_secs(20));
    assert!(jedi.counters().restarts <= 6, "{:?}", jedi.counters());
    assert_eq!(jedi.counters().calls, 200);
}

#[test]
fn starting_says_what_is_missing() {
    let missing = Jedi::start(config(PathBuf::from("/nonexistent/python")));
    let text = missing.err().expect("no such program").to_string();
    assert!(text.contains("/nonexistent/python") && text.contains("install"), "{text}");

    let Some(python) = python() else { return };
    let start = |server| match Jedi::start_with(config(python.clone()), server) {
        Ok(_) => "started".to_owned(),
        Err(e) => e.to_string(),
    };
    let hidden = format!("import sys\nsys.modules['jedi'] = None\n{SERVER}");
    let text = start(Box::leak(hidden.into_boxed_str()));
    assert!(text.contains("python3 -m pip install jedi"), "{text}");
    let text = start("import sys; sys.exit('cannot even')");
    assert!(text.contains("cannot even"), "{text}");
    let text = start("print('hello, this is no frame')");
    assert!(text.contains("failed while starting"), "{text}");

    let mut impatient = config(python.clone());
    impatient.start_ms_max = 100;
    let text = Jedi::start_with(impatient, "import time; time.sleep(1000)")
        .err()
        .expect("never ready")
        .to_string();
    assert!(text.contains("100 ms"), "{text}");
}

#[test]
fn a_cursor_where_no_name_can_stand_is_not_even_asked() {
    let Some(mut jedi) = fake(FAKE) else { return };
    for text in ["names: a\n# see os.", "names: a\nx = 3.", "names: a\nx = 'os."] {
        assert_eq!(ask(&mut jedi, text, 5000).answer, Answer::Unknown, "{text}");
    }
    let outside = Query {
        path: Path::new("/project/main.py"),
        text: "é",
        offset: 1,
        deadline: Instant::now() + Duration::from_secs(1),
    };
    assert_eq!(jedi.candidates(&outside).answer, Answer::Unknown);
    assert_eq!(jedi.next_id, 0);
}

/// The real Jedi in a project of the given files; the cursor is `|` in `main.py`.
fn real(files: &[(&str, &str)], marked: &str) -> Option<Candidates> {
    let python = std::env::var_os("TETHER_JEDI_PYTHON").map_or("python3".into(), PathBuf::from);
    let dir = tempfile::tempdir().expect("a temporary folder");
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().expect("inside the folder")).expect("made");
        std::fs::write(path, text).expect("written");
    }
    let mut config = config(python);
    config.roots = vec![dir.path().to_owned()];
    config.hang_ms_max = 60_000;
    config.memory_bytes_max = crate::base::limit::JEDI_MEMORY_BYTES_MAX;
    let mut jedi = match Jedi::start(config) {
        Ok(jedi) => jedi,
        Err(problem) => {
            eprintln!("skipped: {problem}");
            return None;
        }
    };
    let offset = marked.find('|').expect("a cursor");
    let text = marked.replacen('|', "", 1);
    Some(jedi.candidates(&Query {
        path: &dir.path().join("main.py"),
        text: &text,
        offset,
        deadline: Instant::now() + Duration::from_secs(60),
    }))
}

#[track_caller]
fn check(files: &[(&str, &str)], marked: &str, want: &[&str], ban: &[&str]) {
    let Some(candidates) = real(files, marked) else {
        return;
    };
    let offered = names(&candidates);
    for name in want {
        assert!(offered.contains(name), "{name} is not in {candidates:?}");
    }
    for name in ban {
        assert!(!offered.contains(name), "{name} is in {offered:?}");
    }
    let right = if offered.is_empty() { Answer::Unknown } else { Answer::Open };
    assert_eq!(candidates.answer, right);
}

#[test]
fn real_jedi_sees_the_text_being_written_not_the_file_on_disk() {
    let disk = [("main.py", "class A:\n    def old_name(self): ...\nA().\n")];
    check(&disk, "class A:\n    def new_name(self): ...\nA().|\n", &["new_name"], &["old_name"]);
}

#[test]
fn real_jedi_counts_columns_in_characters() {
    check(&[], "class Z:\n    def go(self): ...\nz = Z()\ns = '🦀é'; z.|", &["go"], &[]);
    check(&[], "\u{feff}import os; os.pa|", &["path"], &["sep"]);
    check(&[], "import os\r\nx = 1\ros.|\r\n", &["path"], &[]);
}

#[test]
fn real_jedi_is_exact_in_case_and_gives_no_equals_signs_or_keywords() {
    let text = "def area(width, height): ...\narea(wi|";
    check(&[], text, &["width"], &["width=", "with"]);
    check(&[], "shard = 1\nShade = 2\nsha|", &["shard"], &["Shade"]);
    let Some(candidates) = real(&[], text) else {
        return;
    };
    assert_eq!(candidates.names[0].kind, CandidateKind::Keyword);
}

#[test]
fn real_jedi_normalises_names() {
    check(&[], "class A:\n    \u{fb01}eld = 1\nA.|", &["field"], &["\u{fb01}eld"]);
    check(&[], "class A:\n    field = 1\nA.\u{fb01}|", &["field"], &[]);
}

#[test]
fn real_jedi_looks_only_in_the_roots_and_the_environment() {
    let files = [("pk/__init__.py", ""), ("pk/sub.py", "deep = 1\n")];
    check(&files, "import pk.sub\npk.sub.|", &["deep"], &[]);
    check(&[], "def f(q):\n    q.|", &[], &["real"]);
}

#[test]
fn real_jedi_knows_the_function_s_names_where_a_statement_begins() {
    let text = "def f(amount):\n    if amount:\n        |\n\ndef g():\n    pass\n";
    check(&[], text, &["amount"], &["_"]);
}

#[test]
fn real_jedi_still_narrows_at_a_member() {
    let text =
        "class Z:\n    def zap(self): ...\ndef f(q):\n    if isinstance(q, Z):\n        q.|\n";
    check(&[], text, &["zap"], &[]);
}
