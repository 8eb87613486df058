//! The LSP client against servers that misbehave, and real ones where they are named.
//!
//! # Place
//! Tests of `complete::lsp`. The misbehaving server does what the text of the document tells it to.

use super::*;
use crate::base::CandidateKind;

/// Completes the words of a line `names: a b c` of the document; a line `HANG`, `DIE`, … says how to misbehave.
/// Arguments: the position encoding to choose (or `-`), then ways to start.
const FAKE: &str = r#"
import json, sys, time
i, o = sys.stdin.buffer, sys.stdout.buffer
ways = sys.argv[1:]
def read():
    n = None
    while True:
        line = i.readline()
        if not line: sys.exit(0)
        if line == b'\r\n': break
        if line.lower().startswith(b'content-length:'): n = int(line.split(b':')[1])
    return json.loads(i.read(n))
def write(v):
    v['jsonrpc'] = '2.0'
    d = json.dumps(v).encode()
    o.write(b'Content-Length: %d\r\n\r\n' % len(d) + d)
    o.flush()
def ask(method, params):
    write({'id': 'ask-' + method, 'method': method, 'params': params})
    while True:
        m = read()
        if m.get('id') == 'ask-' + method: return m
        later.append(m)
later, texts, log = [], {}, []
while True:
    m = later.pop(0) if later else read()
    method, p = m.get('method'), m.get('params')
    if method == 'initialize':
        if 'slow' in ways: time.sleep(0.4)
        if 'mute' in ways: time.sleep(1000)
        if 'refuse' in ways:
            write({'id': m['id'], 'error': {'code': -32002, 'message': 'no licence'}})
            continue
        assert 'utf-16' in p['capabilities']['general']['positionEncodings']
        c = {'completionProvider': {}}
        if 'incapable' in ways: c = {}
        if ways[0] != '-': c['positionEncoding'] = ways[0]
        write({'id': m['id'], 'result': {'capabilities': c, 'serverInfo': {'name': 'fake', 'version': '9'}}})
    elif method == 'initialized':
        write({'method': 'window/logMessage', 'params': {'type': 3, 'message': 'hello'}})
        if 'asks' in ways:
            got = ask('workspace/configuration', {'items': [{'section': 'python.pythonPath'}]})
            log.append('config' + got['result'][0].replace('/', '_'))
            got = ask('client/registerCapability', {'registrations': []})
            log.append('registered_%s' % got['result'])
            got = ask('surprise/me', {})
            log.append('surprise_%d' % -got['error']['code'])
    elif method == 'textDocument/didOpen':
        assert p['textDocument']['languageId'] == 'python', p
        texts[p['textDocument']['uri']] = p['textDocument']['text']
    elif method == 'textDocument/didChange':
        texts[p['textDocument']['uri']] = p['contentChanges'][-1]['text']
    elif method == 'textDocument/didClose':
        del texts[p['textDocument']['uri']]
    elif method == '$/cancelRequest':
        log.append('cancelled_%d' % p['id'])
    elif method == 'shutdown':
        write({'id': m['id'], 'result': None})
    elif method == 'exit':
        sys.exit(0)
    elif method == 'textDocument/completion':
        text = texts[p['textDocument']['uri']]
        words = text.split()
        if 'HANG' in words: time.sleep(1000)
        if 'LATE' in words: time.sleep(0.3)
        if 'DIE' in words:
            sys.stderr.write('panicked at boom\n')
            sys.exit(7)
        if 'GARBAGE' in words:
            o.write(b'INFO: starting up\n'); o.flush(); time.sleep(1000)
        if 'NOTJSON' in words:
            o.write(b'Content-Length: 3\r\n\r\n{x}'); o.flush(); time.sleep(1000)
        if 'HUGE' in words:
            o.write(b'Content-Length: 99999999999\r\n\r\n'); o.flush(); time.sleep(1000)
        if 'FLOOD' in words:
            while True: write({'method': 'window/logMessage', 'params': {'message': 'x' * 1000}})
        if 'ANSWERS' in words:
            while True: write({'id': 0, 'result': [{'label': 'flood'}] * 1000})
        if 'AGAIN' in words and 'again' not in log:
            log.append('again')
            write({'id': m['id'], 'error': {'code': -32801, 'message': 'content modified'}})
            continue
        if 'FAIL' in words:
            write({'id': m['id'], 'error': {'code': -32603, 'message': 'internal boom'}})
            continue
        if 'SHAPE' in words:
            write({'id': m['id'], 'result': {'items': 7}})
            continue
        names = [w for l in text.splitlines() if l.startswith('names:') for w in l.split()[1:]]
        if 'LOG' in words: names = log
        if 'WHERE' in words: names = ['at_%d_%d' % (p['position']['line'], p['position']['character'])]
        items = [{'label': n, 'kind': 2} for n in names]
        write({'id': m['id'], 'result': {'isIncomplete': 'PART' in words, 'items': items} if names else None})
"#;

fn config(command: &str, root: &Path) -> LspConfig {
    LspConfig {
        command: command.to_owned(),
        root: root.to_owned(),
        settings: LspConfig::usual_settings(Some(Path::new("/env/python"))),
        initialization_options: Value::Null,
        start_ms_max: 20_000,
        hang_ms_max: 300,
        waits_for_restart: false,
    }
}

struct Fake {
    lsp: Lsp,
    _dir: tempfile::TempDir,
}

/// Start the fake server, or say what kept it from starting. `None` when there is no Python here.
fn try_fake(ways: &str, start_ms_max: u64) -> Option<Result<Fake, CompleteError>> {
    let found = Command::new("python3").args(["-c", "pass"]).output();
    if !found.is_ok_and(|o| o.status.success()) {
        eprintln!("skipped: no python3");
        return None;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let script = dir.path().join("fake server.py");
    std::fs::write(&script, FAKE).expect("written");
    let mut config = config(&format!("python3 '{}' {ways}", script.display()), dir.path());
    config.start_ms_max = start_ms_max;
    Some(Lsp::start(config).map(|lsp| Fake { lsp, _dir: dir }))
}

fn fake(ways: &str) -> Option<Fake> {
    Some(try_fake(ways, 20_000)?.expect("the fake server starts"))
}

/// Ask at the end of `text`. Panics when the call outlives its deadline by far.
#[track_caller]
fn ask(fake: &mut Fake, text: &str, within_ms: u64) -> Candidates {
    let deadline = Instant::now() + Duration::from_millis(within_ms);
    let candidates = fake.lsp.candidates(&Query {
        path: Path::new("/project/ma in.py"),
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

#[track_caller]
fn recovers(fake: &mut Fake) {
    for _ in 0..100 {
        if ask(fake, "names: ok\nx.", 2000).answer == Answer::Open {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the tool did not come back: {:?}", fake.lsp.counters());
}

#[test]
fn a_server_that_never_says_it_is_ready_is_asked_anyway() {
    let Some(mut fake) = fake("-") else { return };
    let candidates = ask(&mut fake, "names: beta alpha beta\nx.", 5000);
    assert_eq!(candidates.answer, Answer::Open);
    assert_eq!(names(&candidates), ["alpha", "beta"]);
    assert_eq!(candidates.names[0].kind, CandidateKind::Method);
    assert_eq!((fake.lsp.name(), fake.lsp.version()), ("lsp:python3", "fake 9"));
}

#[test]
fn no_names_is_unknown_and_a_part_of_the_names_says_so() {
    let Some(mut fake) = fake("-") else { return };
    assert_eq!(ask(&mut fake, "x.", 5000).answer, Answer::Unknown);
    let part = ask(&mut fake, "names: a\n# PART\nx.", 5000);
    assert_eq!(part.answer, Answer::Open);
    assert!(part.reason.expect("a reason").contains("part of"));
}

#[test]
fn the_text_of_the_question_is_what_the_server_answers_about() {
    let Some(mut fake) = fake("-") else { return };
    assert_eq!(names(&ask(&mut fake, "names: old\nx.", 5000)), ["old"]);
    assert_eq!(names(&ask(&mut fake, "names: new\nx.", 5000)), ["new"]);
    assert_eq!(names(&ask(&mut fake, "names: new\nx.", 5000)), ["new"]);
}

#[test]
fn columns_are_counted_in_the_unit_the_server_chose() {
    for (unit, column) in [("utf-8", 18), ("utf-16", 14), ("utf-32", 13), ("-", 14), ("utf-7", 14)]
    {
        let Some(mut fake) = fake(unit) else { return };
        let text = "# WHERE\r\ns = 'é🦀'; zé.";
        let got = ask(&mut fake, text, 5000);
        assert_eq!(names(&got), [format!("at_1_{column}")], "{unit}");
        // A byte order mark is no column.
        let got = ask(&mut fake, "\u{feff}WHERE.", 5000);
        assert_eq!(names(&got), Vec::<&str>::new());
        let got = ask(&mut fake, "\u{feff}0; WHERE ; x.", 5000);
        assert_eq!(names(&got), ["at_0_13"], "{unit}");
    }
}

#[test]
fn a_server_that_asks_first_gets_its_answers() {
    let Some(mut fake) = fake("utf-16 asks") else {
        return;
    };
    let got = ask(&mut fake, "# LOG\nx.", 5000);
    assert_eq!(names(&got), ["config_env_python", "registered_None", "surprise_32601"]);
}

#[test]
fn a_late_answer_is_cancelled_and_not_taken_for_the_next_question() {
    let Some(mut fake) = fake("-") else { return };
    let late = ask(&mut fake, "names: old\n# LATE\nx.", 100);
    assert_eq!(late.answer, Answer::TimedOut);
    assert_eq!(names(&ask(&mut fake, "names: new\nx.", 5000)), ["new"]);
    assert_eq!(names(&ask(&mut fake, "# LOG\nx.", 5000)), ["cancelled_2"]);
    let counters = fake.lsp.counters();
    assert_eq!((counters.timed_out, counters.late, counters.restarts), (1, 1, 0));
}

#[test]
fn a_hung_server_is_killed_and_comes_back() {
    let Some(mut fake) = fake("-") else { return };
    assert_eq!(ask(&mut fake, "# HANG\nx.", 100).answer, Answer::TimedOut);
    std::thread::sleep(Duration::from_millis(500));
    let after = ask(&mut fake, "names: ok\nx.", 1000);
    let reason = after.reason.expect("a reason");
    assert!(reason.contains("stopped answering"), "{reason}");
    recovers(&mut fake);
    let counters = fake.lsp.counters();
    assert_eq!((counters.hangs, counters.crashes, counters.restarts), (1, 0, 1));
}

#[test]
fn a_crash_garbage_or_an_absurd_length_is_counted_explained_and_survived() {
    let Some(mut fake) = fake("-") else { return };
    for (how, told) in [
        ("DIE", "boom"),
        ("GARBAGE", "starting up"),
        ("NOTJSON", "no JSON-RPC message"),
        ("HUGE", "99999999999 bytes"),
    ] {
        let candidates = ask(&mut fake, &format!("# {how}\nx."), 5000);
        assert_eq!(candidates.answer, Answer::Unknown, "{how}");
        let reason = candidates.reason.expect("a reason");
        assert!(reason.contains(told), "{how}: {reason}");
        recovers(&mut fake);
    }
    let counters = fake.lsp.counters();
    assert_eq!((counters.crashes, counters.restarts), (4, 4));
}

#[test]
fn a_flood_ends_at_the_deadline_and_is_cut_off() {
    for how in ["FLOOD", "ANSWERS"] {
        let Some(mut fake) = fake("-") else { return };
        let flood = ask(&mut fake, &format!("# {how}\nx."), 200);
        assert_eq!(flood.answer, Answer::TimedOut, "{how}");
        recovers(&mut fake);
        assert_eq!(fake.lsp.counters().hangs, 1, "{how}");
    }
}

#[test]
fn an_error_of_one_call_is_that_call_only_and_a_modified_document_is_asked_again() {
    let Some(mut fake) = fake("-") else { return };
    for (how, told) in [("FAIL", "internal boom"), ("SHAPE", "no completion")] {
        let failed = ask(&mut fake, &format!("# {how}\nx."), 5000);
        assert_eq!(failed.answer, Answer::Unknown);
        assert!(failed.reason.expect("a reason").contains(told));
    }
    let again = ask(&mut fake, "names: ok\n# AGAIN\nx.", 5000);
    assert_eq!(names(&again), ["ok"]);
    let counters = fake.lsp.counters();
    assert_eq!((counters.errors, counters.restarts), (2, 0));
}

#[test]
fn a_restart_that_takes_longer_than_a_call_is_waited_for() {
    let Some(mut fake) = fake("- slow") else {
        return;
    };
    assert_eq!(ask(&mut fake, "# DIE\nx.", 5000).answer, Answer::Unknown);
    std::thread::sleep(Duration::from_millis(150));
    let n_late = (0..200)
        .take_while(|_| ask(&mut fake, "names: ok\nx.", 50).answer == Answer::TimedOut)
        .count();
    assert!((2..200).contains(&n_late), "{n_late} calls were late");
    assert_eq!(fake.lsp.counters().restarts, 1);
}

#[test]
fn work_that_nobody_waits_for_waits_for_a_server_that_crashed() {
    let Some(mut fake) = fake("- slow") else {
        return;
    };
    fake.lsp.config.waits_for_restart = true;
    for n_restarts in 0..3 {
        assert_eq!(fake.lsp.counters().restarts, n_restarts);
        assert_eq!(ask(&mut fake, "# DIE\nx.", 5000).answer, Answer::Unknown);
        assert_eq!(names(&ask(&mut fake, "names: ok\nx.", 5000)), ["ok"]);
    }
}

#[test]
fn starting_says_what_is_wrong() {
    let told = |ways: &str, ms| {
        let started = try_fake(ways, ms)?;
        Some(started.err().map_or("started".to_owned(), |e| e.to_string()))
    };
    let Some(refused) = told("- refuse", 20_000) else {
        return;
    };
    assert!(refused.contains("no licence"), "{refused}");
    let incapable = told("- incapable", 20_000).expect("python");
    assert!(incapable.contains("offers no completion"), "{incapable}");
    let mute = told("- mute", 300).expect("python");
    assert!(mute.contains("300 ms"), "{mute}");
    let start = |command| Lsp::start(config(command, Path::new("/"))).err().expect("no server");
    let missing = start("/nonexistent/server --stdio").to_string();
    assert!(missing.contains("/nonexistent/server") && missing.contains("install"), "{missing}");
    let silent = start("true").to_string();
    assert!(silent.contains("failed while starting"), "{silent}");
}

#[test]
fn comments_strings_and_numbers_are_not_asked_about_in_python_only() {
    let Some(mut fake) = fake("-") else { return };
    let n_asked = fake.lsp.next_id;
    for text in ["names: a\n# see os.", "names: a\nx = 3.", "names: a\nx = 'os."] {
        assert_eq!(ask(&mut fake, text, 5000).answer, Answer::Unknown, "{text}");
    }
    assert_eq!(fake.lsp.next_id, n_asked);
}

/// A real server, named by an environment variable: asked again until it has read the project.
#[track_caller]
fn check_real(
    variable: &str,
    files: &[(&str, &str)],
    marked: (&str, &str),
    want: &[&str],
    ban: &[&str],
) {
    let Some(command) = std::env::var_os(variable) else {
        eprintln!("skipped: {variable} names no language server");
        return;
    };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let root = dir.path().canonicalize().expect("a real path");
    for (name, text) in files {
        std::fs::write(root.join(name), text).expect("written");
    }
    let command = command.to_string_lossy();
    if let Some((modules, _)) = command.split_once("/.bin/") {
        // A TypeScript server wants the compiler among the project's modules.
        std::os::unix::fs::symlink(modules, root.join("node_modules")).expect("linked");
    }
    let mut config = config(&command, &root);
    config.settings = LspConfig::usual_settings(None);
    config.initialization_options = LspConfig::usual_initialization_options(None);
    config.hang_ms_max = 60_000;
    let mut lsp = Lsp::start(config).expect("the server starts");
    let (file, marked) = marked;
    let offset = marked.find('|').expect("a cursor");
    let text = marked.replacen('|', "", 1);
    std::fs::write(root.join(file), &text).expect("written");
    let mut last = None;
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        let candidates = lsp.candidates(&Query {
            path: &root.join(file),
            text: &text,
            offset,
            deadline: Instant::now() + Duration::from_secs(5),
        });
        let offered = names(&candidates);
        if want.iter().all(|name| offered.contains(name)) {
            for name in ban {
                assert!(!offered.contains(name), "{name} is in {offered:?}");
            }
            return;
        }
        last = Some(candidates);
        std::thread::sleep(Duration::from_millis(200));
    }
    panic!("{} never offered {want:?}: {last:?}", lsp.version());
}

#[test]
fn real_python_servers_complete_members_after_non_ascii_text() {
    for variable in ["TETHER_LSP_JEDI", "TETHER_LSP_PYRIGHT", "TETHER_LSP_TY"] {
        let lib = ("lib.py", "class Zoo:\n    def feed(self, amount): ...\n    fees = 1\n");
        let text = "from lib import Zoo\nz = Zoo()\ns = '🦀é'; z.fe|\n";
        check_real(variable, &[lib], ("main.py", text), &["feed", "fees"], &["__init__"]);
    }
}

#[test]
fn a_real_typescript_server_completes_members() {
    let lib = ("lib.ts", "export class Zoo { feed(amount: number) {} fees = 1; }\n");
    let text = "import { Zoo } from './lib';\nconst z = new Zoo(); const s = '🦀'; z.|\n";
    check_real("TETHER_LSP_TYPESCRIPT", &[lib], ("main.ts", text), &["feed", "fees"], &["while"]);
}
