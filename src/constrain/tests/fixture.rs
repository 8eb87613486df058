//! The only test code that knows the API of the constraints: vocabularies, answers and texts in lines.
//!
//! ```text
//! vocab: a an ant <eos> ·b      tokens by id; `·` is a space, `⏎` a newline, `<…>` has no bytes
//! candidates: ant bee           the names of every answer
//! answer: closed                or open, unknown, timed_out; closed when absent
//! levels: members imports       members when absent
//! text: x.$0                    the prompt, up to `$0`
//! tokens: an t                  tokens to check and accept, one after the other
//! ```

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use expect_test::Expect;

use crate::base::{Answer, Candidate, CandidateKind, Candidates, Origin, TokenId};
use crate::constrain::{
    AskAt, Constraint, Monitor, MonitorLevels, NameStore, Need, TokenTrie, Verdict, Vocabulary,
};

#[track_caller]
pub(super) fn check(fixture: &str, expect: Expect) {
    let fixture = Fixture::parse(fixture);
    let mut monitor = fixture.monitor();
    expect.assert_eq(&fixture.run(&mut monitor));
}

/// As [`check`], and then the events of the report, one a line.
#[track_caller]
pub(super) fn check_report(fixture: &str, expect: Expect) {
    let fixture = Fixture::parse(fixture);
    let mut monitor = fixture.monitor();
    let mut text = fixture.run(&mut monitor);
    let report = monitor.report();
    for event in &report.events {
        let name = event.name.as_deref().map(String::from_utf8_lossy);
        let wanted = event.wanted.map(|t| fixture.spelling(t));
        let _ = write!(
            text,
            "\n{} at {}: {} ({} names), wrote {}, wanted {}",
            event.kind.as_str(),
            event.offset,
            event.answer.as_str(),
            event.n_names,
            name.as_deref().unwrap_or("-"),
            wanted.as_deref().unwrap_or("-"),
        );
    }
    expect.assert_eq(&text);
}

pub(super) struct Fixture {
    spellings: Vec<String>,
    candidates: Candidates,
    levels: MonitorLevels,
    text: Vec<u8>,
    tokens: Vec<TokenId>,
}

impl Fixture {
    pub(super) fn parse(fixture: &str) -> Self {
        let field = |name: &str| {
            fixture.lines().find_map(|line| {
                let rest = line.trim_start().strip_prefix(name)?;
                Some(rest.strip_prefix(": ").unwrap_or_else(|| rest.trim_start_matches(':')))
            })
        };
        let words = |name: &str| -> Vec<String> {
            let words = field(name).unwrap_or_default().split(' ');
            words.filter(|w| !w.is_empty()).map(str::to_owned).collect()
        };
        let spellings = words("vocab");
        let answer = match field("answer") {
            None | Some("closed") => Answer::Closed,
            Some("open") => Answer::Open,
            Some("unknown") => Answer::Unknown,
            Some("timed_out") => Answer::TimedOut,
            Some(other) => panic!("no such answer: {other}"),
        };
        let levels = words("levels");
        let has = |level: &str| levels.iter().any(|l| l == level);
        let text = field("text").expect("a fixture has a text");
        let tokens = words("tokens").into_iter().map(|word| {
            let id = spellings.iter().position(|s| *s == word);
            TokenId(id.unwrap_or_else(|| panic!("no token {word}")) as u32)
        });
        Self {
            tokens: tokens.collect(),
            candidates: Candidates {
                answer,
                names: words("candidates")
                    .iter()
                    .map(|n| Candidate::new(unescape(n), CandidateKind::Attribute, Origin::Project))
                    .collect(),
                start_byte: 0,
                reason: None,
            },
            levels: MonitorLevels {
                members: levels.is_empty() || has("members"),
                imports: has("imports"),
                calls: has("calls"),
                names: has("names"),
            },
            text: unescape(text.split("$0").next().unwrap_or_default()).into_bytes(),
            spellings,
        }
    }

    pub(super) fn monitor(&self) -> Monitor {
        Monitor::new(
            Arc::new(NameStore::new(Arc::new(TokenTrie::new(self.vocabulary())))),
            self.levels,
            &self.text,
        )
    }

    fn vocabulary(&self) -> Vocabulary {
        let bytes: Vec<String> = self.spellings.iter().map(|s| unescape(s)).collect();
        let eos: Vec<TokenId> = (0u32..)
            .zip(&self.spellings)
            .filter_map(|(id, s)| (s == "<eos>").then_some(TokenId(id)))
            .collect();
        Vocabulary::new(bytes.iter().map(|b| b.as_bytes()), &eos).expect("a small vocabulary")
    }

    fn spelling(&self, token: TokenId) -> String {
        self.spellings[token.index()].clone()
    }

    /// Feed the tokens; what happened, then what is allowed next.
    fn run(&self, constraint: &mut dyn Constraint) -> String {
        let mut out = String::new();
        self.settle(constraint);
        for &token in &self.tokens {
            let _ = write!(out, "{}: ", self.spelling(token));
            loop {
                match constraint.check(token) {
                    Verdict::Ask(ask) => {
                        let _ = write!(out, "ask {}, ", describe(&ask));
                        constraint.supply(&self.candidates, Duration::ZERO);
                    }
                    Verdict::Reject => {
                        out.push_str("reject; ");
                        break;
                    }
                    Verdict::Accept => {
                        out.push_str("accept; ");
                        constraint.accept(token).expect("checked");
                        break;
                    }
                }
            }
            self.settle(constraint);
        }
        out + &match constraint.next() {
            Need::Free => "free".to_owned(),
            Need::Mask(mask) => {
                let allowed: Vec<_> = mask.ids().map(|id| self.spelling(id)).collect();
                allowed.join(" ")
            }
            Need::DeadEnd(reason) => format!("dead end: {reason}"),
            Need::Ask(ask) => format!("ask {}", describe(&ask)),
        }
    }

    fn settle(&self, constraint: &mut dyn Constraint) {
        if let Need::Ask(_) = constraint.next() {
            constraint.supply(&self.candidates, Duration::ZERO);
        }
    }
}

fn describe(ask: &AskAt) -> String {
    format!(
        "{} at {} after `{}` typed `{}`",
        ask.kind.as_str(),
        ask.offset,
        String::from_utf8_lossy(&ask.pending),
        String::from_utf8_lossy(&ask.typed)
    )
}

fn unescape(text: &str) -> String {
    if text.starts_with('<') && text.ends_with('>') && text.len() > 2 {
        return String::new();
    }
    text.replace('·', " ").replace('⏎', "\n")
}
