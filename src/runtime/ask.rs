//! Asking a completion tool while the engine goes on: questions out, answers in, budgets kept.
//!
//! # Place
//! Part of `runtime`. The engine parks a sequence whose answer has not come; this module says who
//! answers, by when, and that the same question is asked once.
//! # Invariants
//! - Every question gets exactly one answer. No tool, no file, no time left are answers too.
//! - A tool that runs in another process, or that several sequences ask, is asked from a thread of its
//!   own: the steps of the others go on. One sequence alone asks our own tool in place, which is
//!   quicker than waking a thread.

use super::drive::Surroundings;
use crate::base::{Answer, CandidateSource, Candidates, NameRole, Query, SeqId, limit};
use crate::constrain::{AskAt, PlaceKind};
use rustc_hash::FxHashMap;
use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Deadlines of a request's questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolTimes {
    /// Of one call.
    pub call: Duration,
    /// Of all calls of one request together.
    pub request: Duration,
}

impl Default for ToolTimes {
    fn default() -> Self {
        Self {
            call: Duration::from_millis(limit::TOOL_CALL_MS_MAX),
            request: Duration::from_millis(limit::TOOL_REQUEST_MS_MAX),
        }
    }
}

/// One question, complete.
struct Question {
    seq: SeqId,
    path: PathBuf,
    text: String,
    offset: usize,
    role: NameRole,
    call: Duration,
}

/// What the tool is to know of a place.
fn role(kind: PlaceKind) -> NameRole {
    match kind {
        PlaceKind::Keyword => NameRole::Argument,
        PlaceKind::Name => NameRole::Read,
        PlaceKind::Member | PlaceKind::Module | PlaceKind::ImportedName | PlaceKind::Trigger => {
            NameRole::Any
        }
    }
}

/// What came of it.
pub(super) struct Answered {
    pub(super) seq: SeqId,
    pub(super) candidates: Candidates,
    pub(super) took: Duration,
}

/// Who answers.
enum Line<'a> {
    Nobody,
    Here(&'a mut (dyn CandidateSource + 'a)),
    Thread { questions: Sender<Question>, answers: Receiver<Answered> },
}

/// The tool of one run, with the answers it gave.
pub(super) struct Asker<'a> {
    line: Line<'a>,
    ready: Vec<Answered>,
    n_waiting: usize,
    /// Answers by the hash of their question, when several sequences may ask the same. The hash is keyed
    /// and the run short: a collision is not to be expected.
    known: Option<FxHashMap<u64, Candidates>>,
    hasher: RandomState,
    keys: FxHashMap<SeqId, u64>,
}

/// Answers remembered in one run: samples of one request ask the same things.
const KNOWN_MAX: usize = 1024;

/// Run `f` with somebody to ask.
pub(super) fn with_asker<T>(
    tool: Option<&mut (dyn CandidateSource + '_)>,
    n_seqs: usize,
    f: impl FnOnce(&mut Asker<'_>) -> T,
) -> T {
    match tool {
        None => f(&mut Asker::new(Line::Nobody, n_seqs)),
        Some(tool) if n_seqs < 2 && !tool.is_process() => {
            f(&mut Asker::new(Line::Here(tool), n_seqs))
        }
        Some(tool) => std::thread::scope(|scope| {
            let (questions, inbox) = channel::<Question>();
            let (outbox, answers) = channel();
            scope.spawn(move || {
                for question in inbox {
                    if outbox.send(answer(tool, &question)).is_err() {
                        break; // nobody listens any more
                    }
                }
            });
            f(&mut Asker::new(Line::Thread { questions, answers }, n_seqs))
        }),
    }
}

impl<'a> Asker<'a> {
    fn new(line: Line<'a>, n_seqs: usize) -> Self {
        Self {
            line,
            ready: Vec::new(),
            n_waiting: 0,
            known: (n_seqs > 1).then(FxHashMap::default),
            hasher: RandomState::new(),
            keys: FxHashMap::default(),
        }
    }

    /// Pass a question on. `spent` is what the request's earlier calls took.
    pub(super) fn ask(
        &mut self,
        seq: SeqId,
        file: Option<&Surroundings>,
        at: &AskAt,
        written: &[u8],
        times: ToolTimes,
        spent: Duration,
    ) {
        let at_once = |candidates| Answered { seq, candidates, took: Duration::ZERO };
        let (Some(file), false) = (file, matches!(self.line, Line::Nobody)) else {
            let candidates = Candidates::unknown(at.offset, "no completion tool");
            self.ready.push(at_once(candidates));
            return;
        };
        let left = times.request.saturating_sub(spent);
        if left.is_zero() {
            let mut candidates = Candidates::timed_out(at.offset);
            candidates.reason = Some("the request's time for the tool is used up".into());
            self.ready.push(at_once(candidates));
            return;
        }
        let mut bytes = [file.before.as_bytes(), written].concat();
        bytes.truncate(at.offset);
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        let offset = text.len();
        text.push_str(&file.after);
        let role = role(at.kind);
        if let Some(known) = &self.known {
            let key = self.hasher.hash_one((&file.path, &text, offset, role));
            if let Some(candidates) = known.get(&key) {
                self.ready.push(at_once(candidates.clone()));
                return;
            }
            self.keys.insert(seq, key);
        }
        let call = times.call.min(left);
        let question = Question { seq, path: file.path.clone(), text, offset, role, call };
        match &mut self.line {
            Line::Nobody => {}
            Line::Here(tool) => {
                let answered = answer(*tool, &question);
                self.take(answered);
            }
            Line::Thread { questions, .. } => match questions.send(question) {
                Ok(()) => self.n_waiting += 1,
                Err(_) => {
                    let candidates = Candidates::unknown(at.offset, "the completion tool is gone");
                    self.ready.push(at_once(candidates));
                }
            },
        }
    }

    /// The answers there are. With `wait` at least one, as long as any is outstanding.
    pub(super) fn answers(&mut self, wait: bool) -> Vec<Answered> {
        if let Line::Thread { answers, .. } = &self.line {
            let mut came: Vec<Answered> = Vec::new();
            if wait && self.ready.is_empty() && self.n_waiting > 0 {
                came.extend(answers.recv().ok());
            }
            came.extend(answers.try_iter());
            self.n_waiting -= came.len();
            for answered in came {
                self.take(answered);
            }
        }
        std::mem::take(&mut self.ready)
    }

    fn take(&mut self, answered: Answered) {
        if let (Some(key), Some(known)) = (self.keys.remove(&answered.seq), &mut self.known)
            && answered.candidates.answer != Answer::TimedOut
            && known.len() < KNOWN_MAX
        {
            known.insert(key, answered.candidates.clone());
        }
        self.ready.push(answered);
    }
}

fn answer(tool: &mut dyn CandidateSource, question: &Question) -> Answered {
    let asked = Instant::now();
    let deadline = asked + question.call;
    let Question { seq, path, text, offset, role, .. } = question;
    let query = Query { path, text, offset: *offset, deadline };
    // A panic in a tool costs an answer, not the run.
    let mut candidates = catch_unwind(AssertUnwindSafe(|| tool.candidates_for(&query, *role)))
        .unwrap_or_else(|_| Candidates::unknown(*offset, "the completion tool failed"));
    if candidates.answer == Answer::Closed && Instant::now() > deadline {
        candidates = Candidates::timed_out(*offset);
    }
    Answered { seq: *seq, candidates, took: asked.elapsed() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constrain::PlaceKind;

    /// Answers `Closed` after a while, or fails; counts its calls.
    struct Told {
        calls: usize,
        after: Duration,
        fails: bool,
        is_process: bool,
    }

    impl Told {
        fn at_once() -> Self {
            Self { calls: 0, after: Duration::ZERO, fails: false, is_process: false }
        }
    }

    impl CandidateSource for Told {
        fn name(&self) -> &str {
            "told"
        }

        fn is_process(&self) -> bool {
            self.is_process
        }

        fn candidates(&mut self, query: &Query<'_>) -> Candidates {
            self.calls += 1;
            assert!(!self.fails, "scripted");
            std::thread::sleep(self.after);
            let mut answer = Candidates::unknown(query.offset, "");
            answer.answer = Answer::Closed;
            answer
        }
    }

    fn file() -> Surroundings {
        let path = PathBuf::from("/tmp/a.py");
        Surroundings { path, before: "x.".to_owned(), after: String::new() }
    }

    fn at(offset: usize) -> AskAt {
        AskAt { kind: PlaceKind::Member, offset, pending: Vec::new(), typed: Vec::new() }
    }

    /// Ask the same at two places by three sequences; answers in the order of the sequences.
    fn ask(tool: &mut Told, n_seqs: usize, times: ToolTimes, spent: Duration) -> Vec<Candidates> {
        with_asker(Some(tool), n_seqs, |asker| {
            let mut all: Vec<Answered> = Vec::new();
            for (seq, written) in [(0, &b""[..]), (1, b""), (2, b"y.")] {
                let at = at(2 + written.len());
                asker.ask(SeqId(seq), Some(&file()), &at, written, times, spent);
                all.extend(asker.answers(true));
            }
            all.sort_by_key(|a| a.seq);
            assert!(asker.answers(true).is_empty(), "one answer for each question");
            all.into_iter().map(|a| a.candidates).collect()
        })
    }

    #[test]
    fn every_question_is_answered_and_the_same_one_is_asked_once() {
        // One sequence asks in place and never the same again; the others go through a thread.
        for (n_seqs, is_process, n_calls) in [(1, false, 3), (3, false, 2), (3, true, 2)] {
            let mut tool = Told { is_process, ..Told::at_once() };
            let answers = ask(&mut tool, n_seqs, ToolTimes::default(), Duration::ZERO);
            assert!(answers.iter().all(|a| a.answer == Answer::Closed) && answers.len() == 3);
            assert_eq!(tool.calls, n_calls);
        }
    }

    #[test]
    fn late_answers_and_requests_without_time_left_constrain_nothing() {
        let mut slow = Told { after: Duration::from_millis(30), ..Told::at_once() };
        let times = ToolTimes { call: Duration::from_millis(1), ..ToolTimes::default() };
        let answers = ask(&mut slow, 3, times, Duration::ZERO);
        assert!(answers.iter().all(|a| a.answer == Answer::TimedOut));
        assert_eq!(slow.calls, 3, "a missed deadline is no answer to remember");
        let mut tool = Told::at_once();
        let answers = ask(&mut tool, 1, ToolTimes::default(), Duration::from_secs(3600));
        assert!(answers.iter().all(|a| a.answer == Answer::TimedOut && a.reason.is_some()));
        assert_eq!(tool.calls, 0);
    }

    #[test]
    fn a_tool_that_fails_and_no_tool_at_all_are_unknown() {
        for is_process in [false, true] {
            let mut tool = Told { fails: true, is_process, ..Told::at_once() };
            let answers = ask(&mut tool, 3, ToolTimes::default(), Duration::ZERO);
            assert!(answers.iter().all(|a| a.answer == Answer::Unknown) && answers.len() == 3);
        }
        with_asker(None, 1, |asker| {
            let times = ToolTimes::default();
            asker.ask(SeqId(0), Some(&file()), &at(2), b"", times, Duration::ZERO);
            assert_eq!(asker.answers(true)[0].candidates.answer, Answer::Unknown);
        });
    }
}
