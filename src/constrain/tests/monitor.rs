//! The monitor on random Python whose attribute dots are known by construction, cut into random tokens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use crate::base::{Answer, Candidate, CandidateKind, Candidates, Origin, TokenId};
use crate::constrain::{
    Constraint, GuideReport, Monitor, MonitorLevels, NameStore, Need, TokenTrie, Verdict,
    Vocabulary,
};

/// Stands behind every dot at which the monitor must ask; removed before the text is used.
const MARK: char = '▪';

fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "x",
        "self",
        "π",
        "None",
        "a.▪b",
        "3.",
        "1.e5",
        ".5",
        "0x1f",
        "1_0.j",
        "1 ",
        "...",
        "'a.b'",
        "\"it's.\"",
        "'''a.\n'b.'''",
        "\"\"\"d.\"\"\"",
        "r'\\.'",
        "b'\\'.'",
        "''",
        "f''",
        "f'a.{{b.}}'",
        "rb\"\"\"\\\".\"\"\"",
        "f'\\N{FULL STOP}.'",
        "'a\\\n.'",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(4, 24, 3, |inner| {
        let pair = (inner.clone(), inner.clone());
        prop_oneof![
            inner.clone().prop_map(|e| format!("{e}.▪name")),
            inner.clone().prop_map(|e| format!("{e} .▪f1")),
            inner.clone().prop_map(|e| format!("({e}\n.▪class_)")),
            inner.clone().prop_map(|e| format!("{e}\\\n.▪y")),
            inner.clone().prop_map(|e| format!("(not {e})")),
            pair.clone().prop_map(|(a, b)| format!("{a}({b}, k={b})")),
            pair.clone().prop_map(|(a, b)| format!("{a}[{b}:...]")),
            pair.clone().prop_map(|(a, b)| format!("({a} if {b} else lambda q: {b})")),
            pair.clone().prop_map(|(a, b)| format!("[{a}, # no.\n {b}]")),
            pair.clone().prop_map(|(a, b)| format!("f'{{{a}}}. {{{b}!r:>.{{{a}}}}}.'")),
            pair.clone().prop_map(|(a, b)| format!("rf\"\"\"\\{{{a}:%H.}}\n'{{{b}=}}\"\"\"")),
            pair.prop_map(|(a, b)| format!("({{{a}: {b}.▪items()}})")),
        ]
    })
}

fn statement() -> impl Strategy<Value = String> {
    let fixed = prop::sample::select(vec![
        "import os.path as p, sys.x\n",
        "from .a.b import (c,\n  d as e)\n",
        "from . import x; x.▪y\n",
        "from ... import x\r\n",
        "# a comment. 'x.\n",
        "def f(self) -> a.▪T: ...\n",
        "@a.▪b\nclass C(m.▪D): '''Doc. string.'''\n",
        "if x: import a.b; a.▪b\n",
        "s = 'never closed.\n",
        "yield from a.▪b\n",
        "raise E from e.▪cause\n",
        "x: a.▪T = ...\n",
        "async def g(): await a.▪b\n",
        "\n",
    ])
    .prop_map(str::to_owned);
    prop_oneof![
        1 => fixed,
        1 => expression().prop_map(|e| format!("    return {e}\n")),
        1 => expression().prop_map(|e| format!("y = {e}\n")),
        1 => expression().prop_map(|e| format!("print({e}); {e}.▪z += 1\n")),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(statement(), 1..6).prop_map(|s| s.concat())
}

/// The text without marks, and the byte offsets where they stood.
fn unmark(marked: &str) -> (String, Vec<usize>) {
    let mut text = String::new();
    let mut offsets = Vec::new();
    for c in marked.chars() {
        if c == MARK {
            offsets.push(text.len());
        } else {
            text.push(c);
        }
    }
    (text, offsets)
}

/// A monitor over a vocabulary of all single bytes and the pieces a text is cut into.
struct Run {
    monitor: Monitor,
    tokens: Vec<TokenId>,
    answer: Candidates,
}

impl Run {
    fn new(text: &str, n_prefix: usize, cuts: &[usize], answer: Candidates) -> Self {
        let (prefix, mut rest) = text.as_bytes().split_at(n_prefix);
        let single: Vec<[u8; 1]> = (0..=255).map(|b| [b]).collect();
        let mut ids: BTreeMap<&[u8], TokenId> =
            (0..).zip(&single).map(|(id, b)| (&b[..], TokenId(id))).collect();
        let mut tokens = Vec::new();
        for n in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (token, after) = rest.split_at((*n).min(rest.len()));
            let id = TokenId(ids.len() as u32);
            tokens.push(*ids.entry(token).or_insert(id));
            rest = after;
        }
        let mut by_id: Vec<&[u8]> = vec![&[]; ids.len()];
        for (bytes, id) in ids {
            by_id[id.index()] = bytes;
        }
        let vocabulary = Vocabulary::new(by_id, &[]).expect("a small vocabulary");
        let levels = MonitorLevels::MEMBERS;
        let store = Arc::new(NameStore::new(Arc::new(TokenTrie::new(vocabulary))));
        Self { monitor: Monitor::new(store, levels, prefix), tokens, answer }
    }

    fn settle(&mut self) {
        if let Need::Ask(_) = self.monitor.next() {
            self.monitor.supply(&self.answer, Duration::ZERO);
        }
    }

    fn push(&mut self, token: TokenId) -> Result<(), TestCaseError> {
        self.settle();
        loop {
            match self.monitor.check(token) {
                Verdict::Ask(_) => self.monitor.supply(&self.answer, Duration::ZERO),
                Verdict::Reject => return Err(TestCaseError::fail("a token was rejected")),
                Verdict::Accept => break,
            }
        }
        self.monitor.accept(token).map_err(|e| TestCaseError::fail(e.to_string()))
    }
}

fn unknown() -> Candidates {
    Candidates::unknown(0, "a test")
}

fn offsets(report: &GuideReport) -> Vec<usize> {
    report.events.iter().map(|e| e.offset).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_monitor_asks_at_every_attribute_dot_however_the_text_is_cut(
        marked in text(),
        cuts in prop::collection::vec(1usize..7, 1..20),
    ) {
        let (text, expected) = unmark(&marked);
        let mut run = Run::new(&text, 0, &cuts, unknown());
        for token in run.tokens.clone() {
            run.push(token)?;
        }
        run.settle();
        let report = run.monitor.report();
        prop_assert_eq!(offsets(&report), expected, "{}", text);
        prop_assert_eq!(report.stats.unknown, report.stats.asked);
        for event in &report.events {
            let rest = &text[event.offset..];
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            let name = &rest[..end.unwrap_or(rest.len())];
            prop_assert_eq!(event.name.as_deref(), Some(name.as_bytes()), "{}", text);
        }
    }

    #[test]
    fn a_prompt_read_at_once_leaves_the_monitor_where_tokens_would(
        marked in text(),
        at in any::<prop::sample::Index>(),
        cuts in prop::collection::vec(1usize..7, 1..20),
    ) {
        let (text, expected) = unmark(&marked);
        let n_prefix = at.index(text.len() + 1);
        let mut run = Run::new(&text, n_prefix, &cuts, unknown());
        for token in run.tokens.clone() {
            run.push(token)?;
        }
        run.settle();
        // A name that the prompt had begun is asked about, one that it had finished is not.
        let is_name = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c >= 0x80;
        let is_open = |&o: &usize| o >= n_prefix || text.as_bytes()[o..n_prefix].iter().all(|&c| is_name(c));
        let expected: Vec<usize> = expected.into_iter().filter(is_open).collect();
        prop_assert_eq!(offsets(&run.monitor.report()), expected, "{} | {}", &text, n_prefix);
    }

    #[test]
    fn text_made_of_offered_names_passes_closed_answers(
        marked in text(),
        cuts in prop::collection::vec(1usize..7, 1..20),
    ) {
        let (text, expected) = unmark(&marked);
        let names = ["T", "b", "cause", "class_", "D", "f1", "items", "name", "y", "z"];
        let candidates = names
            .map(|n| Candidate::new(n, CandidateKind::Attribute, Origin::Project));
        let answer = Candidates {
            answer: Answer::Closed,
            names: candidates.to_vec(),
            start_byte: 0,
            reason: None,
        };
        let mut run = Run::new(&text, 0, &cuts, answer);
        for token in run.tokens.clone() {
            run.push(token)?;
        }
        run.settle();
        prop_assert_eq!(offsets(&run.monitor.report()), expected);
    }

    #[test]
    fn taking_tokens_back_restores_everything(
        marked in text(),
        cuts in prop::collection::vec(1usize..7, 1..20),
        at in any::<prop::sample::Index>(),
        n_back in 1usize..20,
    ) {
        let (text, expected) = unmark(&marked);
        let mut run = Run::new(&text, 0, &cuts, unknown());
        let tokens = run.tokens.clone();
        let keep = at.index(tokens.len());
        let again = (keep + n_back).min(tokens.len());
        for &token in &tokens[..keep] {
            run.push(token)?;
        }
        let before = run.monitor.report();
        let fork = run.monitor.clone_box();
        for &token in &tokens[keep..again] {
            run.push(token)?;
        }
        prop_assert_eq!(&fork.report(), &before, "a fork does not see what the original does");
        run.monitor.rollback(again - keep).map_err(|e| TestCaseError::fail(e.to_string()))?;
        // Questions about the token that was taken back are still answered; nothing is forgotten.
        let after = offsets(&run.monitor.report());
        prop_assert!(after.starts_with(&offsets(&before)), "{:?}", after);
        for &token in &tokens[keep..] {
            run.push(token)?;
        }
        run.settle();
        prop_assert_eq!(offsets(&run.monitor.report()), expected);
    }
}
