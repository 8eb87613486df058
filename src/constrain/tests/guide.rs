//! The guides beside the monitor: the trigger, ToolGen's rule against its golden, and two constraints at
//! once.

use std::sync::Arc;
use std::time::Duration;

use expect_test::{Expect, expect};
use serde_json::Value;

use crate::base::{Answer, Candidate, CandidateKind, Candidates, Origin, TokenId};
use crate::constrain::{
    Both, Constraint, DeadEnd, GrammarCompiler, GrammarSource, Monitor, MonitorLevels, NameStore,
    Need, PaperCache, PaperConfig, PaperGuide, TokenTrie, TriggerGuide, Verdict, Vocabulary,
};

fn closed(names: &[&str]) -> Candidates {
    let names = names.iter().map(|n| Candidate::new(*n, CandidateKind::Method, Origin::Project));
    Candidates { answer: Answer::Closed, names: names.collect(), start_byte: 0, reason: None }
}

const TRIGGER: TokenId = TokenId(1);
const PIECES: [&str; 12] = ["<end>", "<C>", "a", "b", "ab", "c", "(", "<", "'", " ", "a(", "\n"];

/// Feed pieces to a trigger guide after a prompt; what happened, then what is allowed.
#[track_caller]
fn check(prompt: &str, pieces: &str, names: &[&str], expect: Expect) {
    let vocabulary = Vocabulary::new(PIECES.iter().map(|p| p.as_bytes()), &[TokenId(0)]);
    let trie = TokenTrie::new(vocabulary.expect("a small vocabulary"));
    let store = Arc::new(NameStore::new(Arc::new(trie)));
    let mut guide = TriggerGuide::new(store, TRIGGER, prompt.as_bytes());
    let mut log = String::new();
    let settle = |guide: &mut TriggerGuide, log: &mut String| {
        if let Need::Ask(ask) = guide.next() {
            let typed = String::from_utf8_lossy(&ask.typed);
            log.push_str(&format!("ask at {} typed `{typed}`; ", ask.offset));
            guide.supply(&closed(names), Duration::ZERO);
        }
    };
    for piece in pieces.split('|').filter(|p| !p.is_empty()) {
        let id = PIECES.iter().position(|p| *p == piece).expect("a piece") as u32;
        settle(&mut guide, &mut log);
        match guide.check(TokenId(id)) {
            Verdict::Accept => guide.accept(TokenId(id)).expect("checked"),
            _ => log.push_str(&format!("{piece} rejected; ")),
        }
    }
    settle(&mut guide, &mut log);
    log.push_str(&match guide.next() {
        Need::Free => "free".to_owned(),
        Need::Mask(mask) => {
            mask.ids().map(|id| shown(PIECES[id.index()])).collect::<Vec<_>>().join(" ")
        }
        Need::DeadEnd(reason) => reason.to_string(),
        Need::Ask(_) => "ask".to_owned(),
    });
    let stats = guide.report().stats;
    log.push_str(&format!("; asked {}", stats.asked));
    expect.assert_eq(&log);
}

fn shown(piece: &str) -> &str {
    match piece {
        " " => "·",
        "\n" => "⏎",
        other => other,
    }
}

#[test]
fn after_a_trigger_only_names_follow_and_no_second_trigger() {
    check("x = ", "<C>", &["ab", "c"], expect!["ask at 4 typed ``; a ab c; asked 1"]);
    check(
        "x = ",
        "<C>|<C>",
        &["ab", "c"],
        expect!["ask at 4 typed ``; <C> rejected; a ab c; asked 1"],
    );
    check("x = ", "<C>|ab", &["ab", "c"], expect!["ask at 4 typed ``; <end> ( < ' · ⏎; asked 1"]);
    check(
        "x = ",
        "<C>|ab|(|<C>|c|\n",
        &["ab", "c"],
        expect!["ask at 4 typed ``; ask at 7 typed ``; free; asked 2"],
    );
}

#[test]
fn a_trigger_stands_before_no_word_that_training_data_never_marks() {
    check("x = ", "<C>", &["abs", "c"], expect!["ask at 4 typed ``; c; asked 1"]);
    check(
        "x = ",
        "<C>",
        &["abs"],
        expect![
            "ask at 4 typed ``; no token of the vocabulary continues `` to one of the 1 names that exist at byte 4; asked 1"
        ],
    );
}

#[test]
fn a_trigger_in_a_string_or_comment_is_ignored_but_not_repeated() {
    check("x = 'a", "<C>", &["ab"], expect!["<end> a b ab c ( < ' · a( ⏎; asked 0"]);
    check("# a", "<C>|a", &["ab"], expect!["free; asked 0"]);
}

#[test]
fn a_trigger_without_names_costs_a_counter() {
    check("x = ", "<C>", &[], expect!["ask at 4 typed ``; <end> a b ab c ( < ' · a( ⏎; asked 1"]);
    check("x = ", "<C>|c", &[], expect!["ask at 4 typed ``; free; asked 1"]);
}

#[test]
fn what_is_half_written_belongs_to_the_question_and_a_number_takes_no_name() {
    check(
        "x = a",
        "<C>",
        &["ab", "a", "c"],
        expect!["ask at 4 typed `a`; <end> b ( < ' · ⏎; asked 1"],
    );
    check(
        "x = cab",
        "<C>",
        &["cabal", "a", "c"],
        expect![
            "ask at 4 typed `cab`; no token of the vocabulary continues `cab` to one of the 3 names that exist at byte 4; asked 1"
        ],
    );
    check("x = 1.", "<C>", &["ab"], expect!["<end> a b ab c ( < ' · a( ⏎; asked 0"]);
    check("x = 1", "<C>|<C>|a", &["ab"], expect!["<C> rejected; free; asked 0"]);
    check(
        "return",
        "<C>",
        &["ab"],
        expect!["ask at 0 typed `return`; <end> a b ab c ( < ' · a( ⏎; asked 1"],
    );
    check("x = 1", "<C>", &["ab"], expect!["<end> a b ab c ( < ' · a( ⏎; asked 0"]);
}

#[test]
fn the_paper_policy_repeats_the_golden_decisions() {
    let golden = include_str!("../../../tests/data/paper_policy.json");
    let golden: Value = serde_json::from_str(golden).expect("the golden is JSON");
    let pieces: Vec<String> = strings(&golden["pieces"]);
    let vocabulary = Vocabulary::new(pieces.iter().map(|p| p.as_bytes()), &[TokenId(0)]);
    let vocabulary = Arc::new(vocabulary.expect("a small vocabulary"));
    let encode = {
        let pieces = pieces.clone();
        Arc::new(move |text: &str| {
            let (mut ids, mut rest) = (Vec::new(), text);
            while !rest.is_empty() {
                let fits = pieces.iter().enumerate().skip(1).filter(|(_, p)| rest.starts_with(*p));
                let (id, piece) = fits.max_by_key(|(_, p)| p.len()).expect("a piece fits");
                ids.push(TokenId(id as u32));
                rest = &rest[piece.len()..];
            }
            ids
        })
    };
    let cases = golden["cases"].as_array().expect("cases");
    let mut n_asked = 0;
    for case in cases {
        let config = PaperConfig {
            vocabulary: Arc::clone(&vocabulary),
            trigger: TRIGGER,
            trigger_text: "<C>".into(),
            confidence: case["confidence"].as_f64().expect("a number"),
            encode: encode.clone(),
            cache: PaperCache::default(),
        };
        let mut guide = PaperGuide::new(config, 0);
        let answers = case["answers"].as_array().expect("answers");
        let (mut ids, mut asked) = (Vec::new(), Vec::new());
        for (step, row) in case["logits_times_64"].as_array().expect("rows").iter().enumerate() {
            if let Need::Ask(_) = guide.next() {
                let names = strings(&answers[asked.len() % answers.len()]);
                asked.push(step as u64);
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                guide.supply(&closed(&names), Duration::ZERO);
            }
            let row = row.as_array().expect("a row").iter();
            let row: Vec<f32> = row.map(|x| x.as_f64().expect("a number") as f32 / 64.0).collect();
            // Speculation may look ahead and come back.
            let mut ahead = guide.clone();
            let token = guide.choose(&row).expect("the rule always chooses");
            ahead.choose(&row);
            ahead.accept(token).expect("nothing is forbidden");
            ahead.rollback(1).expect("one token");
            guide = ahead;
            assert_eq!(guide.choose(&row), Some(token));
            guide.accept(token).expect("nothing is forbidden");
            ids.push(u64::from(token.0));
            if token.0 == 0 {
                break;
            }
        }
        let numbers = |v: &Value| -> Vec<u64> {
            v.as_array().expect("a list").iter().map(|x| x.as_u64().expect("an id")).collect()
        };
        assert_eq!(asked, numbers(&case["asked_at"]), "{case}");
        assert_eq!(ids, numbers(&case["ids"]), "{case}");
        assert_eq!(guide.report().stats.asked, asked.len());
        n_asked += asked.len();
    }
    assert!(cases.len() >= 100 && n_asked >= 200, "the golden is not trivial");
}

fn strings(list: &Value) -> Vec<String> {
    let items = list.as_array().expect("a list").iter();
    items.map(|s| s.as_str().expect("text").to_owned()).collect()
}

/// A grammar of calls and a monitor that knows the members.
fn grammar_and_monitor(regex: &str) -> Both {
    let single: Vec<[u8; 1]> = (0..128u8).map(|b| [b]).collect();
    let eos = TokenId(128);
    let tokens = single.iter().map(|b| &b[..]).chain([&b""[..], b".app", b".pop"]);
    let vocabulary = Vocabulary::new(tokens, &[eos]).expect("a small vocabulary");
    let store = Arc::new(NameStore::new(Arc::new(TokenTrie::new(vocabulary.clone()))));
    let compiler = GrammarCompiler::new(Arc::new(vocabulary)).expect("a vocabulary with an end");
    let grammar = compiler.compile(&GrammarSource::Regex(regex.into())).expect("a grammar");
    let levels = MonitorLevels::MEMBERS;
    let monitor = Monitor::new(store, levels, b"");
    Both::new(Box::new(grammar), Box::new(monitor))
}

fn push(both: &mut dyn Constraint, token: u32, names: &[&str]) -> bool {
    if let Need::Ask(_) = both.next() {
        both.supply(&closed(names), Duration::ZERO);
    }
    loop {
        match both.check(TokenId(token)) {
            Verdict::Ask(_) => both.supply(&closed(names), Duration::ZERO),
            Verdict::Reject => return false,
            Verdict::Accept => break,
        }
    }
    both.accept(TokenId(token)).expect("checked");
    true
}

#[test]
fn a_grammar_and_a_guide_hold_together() {
    let names = ["append", "copy"];
    let mut both = grammar_and_monitor("x\\.[a-z]+\\(\\)");
    assert!(push(&mut both, u32::from(b'x'), &names));
    let fork = both.clone_box();
    assert!(!push(&mut both, 130, &names), "`.pop` is no member");
    assert!(push(&mut both, 129, &names), "`.app` begins one");
    for byte in b"end" {
        assert!(!push(&mut both, u32::from(b'q'), &names), "no member has it");
        assert!(push(&mut both, u32::from(*byte), &names));
    }
    assert!(!push(&mut both, u32::from(b'.'), &names), "the grammar wants a call");
    assert_eq!(both.forced(), b"", "neither part alone knows that a bracket comes");
    assert!(push(&mut both, u32::from(b'('), &names));
    assert_eq!(both.forced(), b")");
    both.rollback(5).expect("five tokens");
    assert_eq!(both.forced(), fork.clone_box().forced());
    assert!(push(&mut both, u32::from(b'.'), &names));
    assert!(push(&mut both, u32::from(b'c'), &names));
    assert_eq!(both.forced(), b"opy");
    assert_eq!(both.report().stats.asked, 1);
}

#[test]
fn parts_that_allow_nothing_together_are_a_dead_end() {
    let mut both = grammar_and_monitor("x\\.z+");
    for byte in b"x." {
        assert!(push(&mut both, u32::from(*byte), &["append"]));
    }
    if let Need::Ask(_) = both.next() {
        both.supply(&closed(&["append"]), Duration::ZERO);
    }
    assert!(matches!(both.next(), Need::DeadEnd(DeadEnd::Disjoint { offset: 2 })));
}

#[test]
fn narrowing_leaves_one_name_in_any_tokenisation() {
    let mut both = grammar_and_monitor("x\\.[a-z]+");
    for byte in b"x." {
        assert!(push(&mut both, u32::from(*byte), &["append", "apple"]));
    }
    if let Need::Ask(_) = both.next() {
        both.supply(&closed(&["append", "apple"]), Duration::ZERO);
    }
    let (names, state) = both.open_name().expect("two names fit");
    assert_eq!(names.names().fitting(state).count(), 2);
    both.narrow(b"no such name");
    assert!(both.open_name().is_some());
    both.narrow(b"apple");
    assert!(both.open_name().is_none(), "nothing is left to choose");
    assert_eq!(both.forced(), b"apple");
    assert!(push(&mut both, u32::from(b'a'), &[]));
    let event = both.report().events[0].clone();
    assert_eq!(event.n_names, 2);
}
