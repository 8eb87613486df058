//! What every constraint owes its callers, whatever it restricts: masks, checks and acceptance agree, taking
//! back undoes, copies are independent.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use crate::base::{Answer, Candidate, CandidateKind, Candidates, Origin, TokenId};
use crate::constrain::{
    Both, Constraint, GrammarCompiler, GrammarSource, Lead, Monitor, MonitorLevels, NameStore,
    Need, PaperCache, PaperConfig, PaperGuide, TokenTrie, TriggerGuide, Verdict, Vocabulary,
};

const TOKENS: [&str; 36] = [
    "<end>", "<C>", "a", "b", "ab", "x", ".", ".a", ".ab", ").", "(", ")", "=", "==", " ", "\n",
    "x.", "(a=", "return", " return", " x", " +", "f'", "'", "{", "}", "import", " import", ",",
    ":", "1", "#", "\"", "é", "lambda", "in",
];
const END: TokenId = TokenId(0);
const TRIGGER: TokenId = TokenId(1);

fn vocabulary() -> Vocabulary {
    let bytes = TOKENS.iter().enumerate().map(|(i, t)| if i < 2 { &b""[..] } else { t.as_bytes() });
    Vocabulary::new(bytes, &[END]).expect("a small vocabulary")
}

fn paper(vocabulary: &Arc<Vocabulary>) -> PaperGuide {
    let config = PaperConfig {
        vocabulary: Arc::clone(vocabulary),
        trigger: TRIGGER,
        trigger_text: "<C>".into(),
        confidence: 0.0,
        encode: Arc::new(|text: &str| {
            text.chars().map(|c| TokenId(if c == 'a' { 2 } else { 3 })).collect()
        }),
        cache: PaperCache::default(),
    };
    PaperGuide::new(config, 0)
}

/// One of each, and the combinations that are made.
fn constraint(kind: usize) -> Box<dyn Constraint> {
    let plain = Arc::new(vocabulary());
    let store = Arc::new(NameStore::new(Arc::new(TokenTrie::new(vocabulary()))));
    let levels = MonitorLevels { members: true, imports: true, calls: true, names: true };
    let monitor = || Box::new(Monitor::new(Arc::clone(&store), levels, b"def f(x):\n "));
    let grammar = || {
        let compiler = GrammarCompiler::new(Arc::clone(&plain)).expect("an end");
        let source = GrammarSource::Regex("[a-z.()= ]*(ab|x)\n?".into());
        Box::new(compiler.compile(&source).expect("a grammar"))
    };
    let trigger = || Box::new(TriggerGuide::new(Arc::clone(&store), TRIGGER, b"x = "));
    let lead = || Box::new(Lead::new(Arc::clone(&plain), *b" "));
    match kind {
        0 => monitor(),
        1 => trigger(),
        2 => Box::new(paper(&plain)),
        3 => grammar(),
        4 => lead(),
        5 => Box::new(Both::new(grammar(), monitor())),
        6 => Box::new(Both::new(lead(), trigger())),
        7 => Box::new(Both::new(lead(), Box::new(paper(&plain)))),
        _ => Box::new(Both::new(Box::new(Both::new(lead(), monitor())), grammar())),
    }
}

/// A tool that answers by the offset: closed, open, unknown, or nothing usable.
fn answer(offset: usize) -> Candidates {
    let names: &[&str] = match offset % 5 {
        0 | 1 => &["a", "ab", "aba"],
        2 => &["x", "ab"],
        3 => &["", "a b", "class", "ab", "ab", "é"],
        _ => &[],
    };
    let names = names.iter().map(|n| Candidate::new(*n, CandidateKind::Unknown, Origin::Unknown));
    let answer = match offset % 7 {
        5 => Answer::Open,
        6 => Answer::TimedOut,
        _ => Answer::Closed,
    };
    Candidates { answer, names: names.collect(), start_byte: offset, reason: None }
}

/// What may be sampled, questions answered; `None` for a dead end.
fn allowed(constraint: &mut dyn Constraint) -> Option<Vec<bool>> {
    for _ in 0..4 {
        match constraint.next() {
            Need::Free => return Some(vec![true; TOKENS.len()]),
            Need::Mask(mask) => {
                let all = (0..TOKENS.len() as u32).map(|id| mask.is_allowed(TokenId(id)));
                return Some(all.collect());
            }
            Need::DeadEnd(_) => return None,
            Need::Ask(at) => constraint.supply(&answer(at.offset), Duration::ZERO),
        }
    }
    panic!("it asks for ever");
}

/// Check a token, questions answered.
fn check(constraint: &mut dyn Constraint, token: TokenId) -> bool {
    for _ in 0..8 {
        match constraint.check(token) {
            Verdict::Accept => return true,
            Verdict::Reject => return false,
            Verdict::Ask(at) => constraint.supply(&answer(at.offset), Duration::ZERO),
        }
    }
    panic!("it asks for ever about one token");
}

/// What can be seen of a constraint at a cursor: the tokens that pass mask and check.
fn seen(constraint: &dyn Constraint) -> Option<Vec<bool>> {
    let mut here = constraint.clone_box();
    let masked = allowed(here.as_mut())?;
    let passes = (0..TOKENS.len() as u32).map(|id| {
        let mut fork = here.clone_box();
        masked[id as usize] && check(fork.as_mut(), TokenId(id))
    });
    Some(passes.collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn masks_checks_and_acceptance_agree(
        kind in 0usize..9,
        choices in prop::collection::vec(any::<prop::sample::Index>(), 1..14),
    ) {
        let mut constraint = constraint(kind);
        for choice in choices {
            let Some(masked) = allowed(constraint.as_mut()) else { break };
            let mut passing = Vec::new();
            for id in 0..TOKENS.len() as u32 {
                let mut fork = constraint.clone_box();
                let passes = check(fork.as_mut(), TokenId(id));
                prop_assert!(masked[id as usize] || !passes, "{}: {} passes a mask that forbids it",
                    kind, TOKENS[id as usize]);
                if passes {
                    prop_assert!(fork.accept(TokenId(id)).is_ok());
                    passing.push(TokenId(id));
                } else {
                    // Rejected once, it is out of the next mask, and of the check.
                    let again = allowed(fork.as_mut());
                    prop_assert!(again.is_none_or(|mask| !mask[id as usize]), "{} {}", kind,
                        TOKENS[id as usize]);
                    prop_assert!(!check(fork.as_mut(), TokenId(id)));
                }
            }
            if passing.is_empty() {
                break;
            }
            let token = *choice.get(&passing);
            prop_assert!(check(constraint.as_mut(), token));
            constraint.accept(token).expect("checked");
            if token == END {
                break;
            }
        }
        let report = constraint.report();
        prop_assert!(report.events.is_sorted_by_key(|e| e.offset));
        prop_assert_eq!(report.stats.asked, report.events.len());
    }

    #[test]
    fn what_is_taken_back_was_never_there(
        kind in 0usize..9,
        before in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        after in prop::collection::vec(any::<prop::sample::Index>(), 1..8),
    ) {
        let mut constraint = constraint(kind);
        let go = |constraint: &mut dyn Constraint, choices: &[prop::sample::Index]| {
            let mut n = 0;
            for choice in choices {
                let Some(passing) = seen(constraint) else { break };
                let ids: Vec<u32> =
                    (0..TOKENS.len() as u32).filter(|id| passing[*id as usize] && *id != 0).collect();
                if ids.is_empty() {
                    break;
                }
                let token = TokenId(*choice.get(&ids));
                allowed(constraint);
                assert!(check(constraint, token), "seen to pass");
                constraint.accept(token).expect("checked");
                n += 1;
            }
            n
        };
        let n_before = go(constraint.as_mut(), &before);
        allowed(constraint.as_mut()); // an answer is not taken back
        let here = seen(constraint.as_ref());
        let forced = constraint.forced();
        let fork = constraint.clone_box();
        let n_after = go(constraint.as_mut(), &after);
        prop_assert_eq!(seen(fork.as_ref()), here.clone(), "a copy sees nothing of the original");
        constraint.rollback(n_after).expect("few tokens");
        prop_assert_eq!(seen(constraint.as_ref()), here);
        prop_assert_eq!(constraint.forced(), forced);
        prop_assert!(constraint.rollback_max() >= n_before);
        let error = constraint.rollback(n_before + 1);
        prop_assert!(error.is_err(), "{} tokens were never written", n_before + 1);
    }

    #[test]
    fn forced_bytes_are_the_only_way_on(
        kind in 0usize..9,
        choices in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
    ) {
        let mut constraint = constraint(kind);
        for choice in choices {
            let Some(passing) = seen(constraint.as_ref()) else { break };
            allowed(constraint.as_mut());
            let forced = constraint.forced();
            let ids: Vec<u32> =
                (0..TOKENS.len() as u32).filter(|id| passing[*id as usize]).collect();
            let vocabulary = vocabulary();
            for &id in &ids {
                let bytes = vocabulary.token_bytes(TokenId(id));
                let n = bytes.len().min(forced.len());
                prop_assert_eq!(&bytes[..n], &forced[..n], "{} {}", kind, TOKENS[id as usize]);
                prop_assert!(forced.is_empty() || !bytes.is_empty(), "{} {}", kind, id);
            }
            if ids.is_empty() {
                break;
            }
            let token = TokenId(*choice.get(&ids));
            assert!(check(constraint.as_mut(), token));
            constraint.accept(token).expect("checked");
        }
    }
}

#[test]
fn a_constraint_remembers_at_least_as_many_tokens_as_a_draft_has() {
    for kind in 0..9 {
        let mut constraint = constraint(kind);
        for _ in 0..100 {
            let Some(passing) = seen(constraint.as_ref()) else { break };
            let ids = (1..TOKENS.len() as u32).rev().find(|id| passing[*id as usize]);
            let Some(id) = ids else { break };
            allowed(constraint.as_mut());
            assert!(check(constraint.as_mut(), TokenId(id)));
            constraint.accept(TokenId(id)).expect("checked");
        }
        let n = constraint.rollback_max();
        assert!(constraint.rollback(n.min(32)).is_ok(), "{kind}: {n}");
        assert!(seen(constraint.as_ref()).is_some(), "{kind}");
    }
}
