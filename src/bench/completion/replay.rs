//! Teacher forcing: real function bodies written again, byte by byte, through the monitor guide. Would it
//! have let the author write them?
//!
//! # Place
//! Part of `bench::completion`. Drives [`Monitor`] as the engine does, over a vocabulary of single bytes,
//! with the text as it stands so far as the overlay; so the lexer and the places are on trial too.
//! # Invariants
//! After a name that was forbidden the replay goes on behind it with a new monitor.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::report::quantile;
use crate::base::{Answer, CandidateSource, Candidates, Query, TokenId};
use crate::constrain::{
    AskAt, Constraint, Monitor, MonitorLevels, NameStore, Need, TokenTrie, Verdict, Vocabulary,
};
use crate::repo::{FunctionInfo, Snapshot};

/// Promised: at most this share of real names is forbidden.
const FORBIDDEN_RATE_MAX: f64 = 0.003;

/// Of a place where the guide forbade what the author wrote, what is needed to find the fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forbidden {
    pub path: PathBuf,
    pub line: u32,
    pub symbol: String,
    /// The line up to the name, and the name.
    pub before: String,
    pub name: String,
}

/// What became of the functions of one package.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replay {
    pub package: String,
    pub functions: usize,
    /// Places where the guide asked.
    pub asked: usize,
    pub closed: usize,
    pub open: usize,
    pub unknown: usize,
    pub timed_out: usize,
    pub forbidden: Vec<Forbidden>,
    /// Functions in which something was forbidden.
    pub functions_forbidden: usize,
    /// Times of the answers, ascending.
    pub ms: Vec<f64>,
}

/// How functions are replayed.
#[derive(Clone, Copy, Debug)]
pub struct ReplayConfig {
    /// Most functions of a package.
    pub functions_max: usize,
    /// The deadline of one question, in milliseconds.
    pub call_ms_max: u64,
    pub seed: u64,
}

impl Replay {
    /// Replay a sample of a project's functions.
    pub fn of(
        package: &str,
        snapshot: &Snapshot,
        source: &mut dyn CandidateSource,
        config: ReplayConfig,
    ) -> Self {
        let mut replay = Self { package: package.to_owned(), ..Self::default() };
        let store = byte_store();
        for function in sample(snapshot, config) {
            let Some(text) = snapshot.text(&function.path) else {
                continue;
            };
            let before = replay.forbidden.len();
            Author { replay: &mut replay, store: &store, source, function: &function, text: &text }
                .write(config.call_ms_max);
            replay.functions += 1;
            replay.functions_forbidden += usize::from(replay.forbidden.len() > before);
        }
        replay.ms.sort_unstable_by(f64::total_cmp);
        replay
    }

    /// Add another package's counts.
    pub fn add(&mut self, other: &Self) {
        self.functions += other.functions;
        self.asked += other.asked;
        self.closed += other.closed;
        self.open += other.open;
        self.unknown += other.unknown;
        self.timed_out += other.timed_out;
        self.forbidden.extend(other.forbidden.iter().cloned());
        self.functions_forbidden += other.functions_forbidden;
        self.ms.extend(&other.ms);
        self.ms.sort_unstable_by(f64::total_cmp);
    }

    /// The share of the places where what stands there was forbidden.
    pub fn forbidden_rate(&self) -> f64 {
        self.forbidden.len() as f64 / self.asked.max(1) as f64
    }

    /// The promise that was not kept, if so.
    pub fn missed(&self) -> Option<String> {
        let rate = self.forbidden_rate();
        (rate > FORBIDDEN_RATE_MAX).then(|| {
            format!(
                "replay: {rate:.5} of the places forbidden, at most {FORBIDDEN_RATE_MAX} wanted"
            )
        })
    }

    /// One line for each replay, with a head.
    pub fn to_csv(replays: &[Self]) -> String {
        let mut csv =
            "package,functions,asked,closed,open,unknown,timed_out,forbidden,forbidden_rate,\
                       functions_forbidden,ms_p50,ms_p95,ms_max\n"
                .to_owned();
        for r in replays {
            let ms = |percent| quantile(&r.ms, percent);
            csv.push_str(&format!(
                "{},{},{},{},{},{},{},{},{:.5},{},{:.3},{:.3},{:.3}\n",
                r.package,
                r.functions,
                r.asked,
                r.closed,
                r.open,
                r.unknown,
                r.timed_out,
                r.forbidden.len(),
                r.forbidden_rate(),
                r.functions_forbidden,
                ms(50),
                ms(95),
                ms(100),
            ));
        }
        csv
    }

    fn count(&mut self, answer: Answer, took: Duration) {
        self.asked += 1;
        self.ms.push(took.as_secs_f64() * 1e3);
        *match answer {
            Answer::Closed => &mut self.closed,
            Answer::Open => &mut self.open,
            Answer::Unknown => &mut self.unknown,
            Answer::TimedOut => &mut self.timed_out,
        } += 1;
    }
}

/// The outermost functions with a body, in an order that the seed decides.
fn sample(snapshot: &Snapshot, config: ReplayConfig) -> Vec<FunctionInfo> {
    let mut all: Vec<FunctionInfo> = Vec::new();
    for function in snapshot.functions() {
        let is_inside = all
            .last()
            .is_some_and(|o| o.path == function.path && o.whole.end >= function.whole.end);
        if !function.body.is_empty() && !is_inside {
            all.push(function);
        }
    }
    let mut state = config.seed;
    let mut chosen = Vec::new();
    while !all.is_empty() && chosen.len() < config.functions_max {
        // Knuth's linear congruential generator: the order matters, its quality does not.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = (state >> 33) as usize % all.len();
        chosen.push(all.swap_remove(at));
    }
    chosen
}

/// A vocabulary in which token `b` is the byte `b`, and token 256 ends the text.
fn byte_store() -> Arc<NameStore> {
    let bytes: Vec<[u8; 1]> = (0..=255).map(|b| [b]).collect();
    let tokens = bytes.iter().map(|b| &b[..]).chain([&b""[..]]);
    let vocabulary =
        Vocabulary::new(tokens, &[TokenId(256)]).expect("a small vocabulary with its end inside");
    Arc::new(NameStore::new(Arc::new(TokenTrie::new(vocabulary))))
}

/// One function being written again.
struct Author<'a> {
    replay: &'a mut Replay,
    store: &'a Arc<NameStore>,
    source: &'a mut dyn CandidateSource,
    function: &'a FunctionInfo,
    text: &'a str,
}

impl Author<'_> {
    fn write(&mut self, call_ms_max: u64) {
        let mut at = self.function.body.start;
        let mut monitor = self.monitor(at);
        while at < self.function.body.end {
            let byte = self.text.as_bytes()[at];
            let is_forbidden = loop {
                match monitor.next() {
                    Need::Ask(ask) => {
                        let (found, took) = self.ask(&ask, call_ms_max);
                        monitor.supply(&found, took);
                    }
                    Need::Free => break false,
                    Need::Mask(mask) => break !mask.is_allowed(TokenId(u32::from(byte))),
                    Need::DeadEnd(_) => break true,
                }
            };
            let token = TokenId(u32::from(byte));
            if is_forbidden
                || monitor.check(token) != Verdict::Accept
                || monitor.accept(token).is_err()
            {
                at = self.note_forbidden(at);
                monitor = self.monitor(at);
                continue;
            }
            at += 1;
        }
    }

    fn monitor(&self, at: usize) -> Monitor {
        let levels = MonitorLevels { imports: true, ..MonitorLevels::MEMBERS };
        Monitor::new(Arc::clone(self.store), levels, &self.text.as_bytes()[..at])
    }

    fn ask(&mut self, ask: &AskAt, call_ms_max: u64) -> (Candidates, Duration) {
        let asked = Instant::now();
        let overlay =
            format!("{}{}", &self.text[..ask.offset], &self.text[self.function.body.end..]);
        let found = self.source.candidates(&Query {
            path: &self.function.path,
            text: &overlay,
            offset: ask.offset,
            deadline: asked + Duration::from_millis(call_ms_max),
        });
        let took = asked.elapsed();
        // Behind a forbidden name the same place is asked about again, with the name typed.
        if ask.typed.is_empty() {
            self.replay.count(found.answer, took);
        }
        (found, took)
    }

    /// Note the name around `at`; gives the place behind it.
    fn note_forbidden(&mut self, at: usize) -> usize {
        let is_name = |c: char| c == '_' || c.is_alphanumeric();
        let head = &self.text[..at];
        let start = head.trim_end_matches(is_name).len();
        let end = at + self.text[at..].find(|c| !is_name(c)).unwrap_or(self.text.len() - at);
        let line_start = self.text[..start].rfind(['\n', '\r']).map_or(0, |n| n + 1);
        self.replay.forbidden.push(Forbidden {
            path: self.function.path.to_path_buf(),
            line: self.text[..start].bytes().filter(|b| *b == b'\n').count() as u32 + 1,
            symbol: self.function.symbol.clone(),
            before: self.text[line_start..start].trim_start().to_owned(),
            name: self.text[start..end].to_owned(),
        });
        let next = end.max(at + 1);
        (next..=self.text.len()).find(|i| self.text.is_char_boundary(*i)).unwrap_or(next)
    }
}
