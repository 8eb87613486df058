//! The trigger guide: a fine-tuned model emits a token where it wants names, and is then held to them.
//!
//! # Place
//! Uses `base`, the lexer and the monitor's places. Driven by `engine` through [`Constraint`].
//! # Invariants
//! - The trigger is known by its id alone, is no part of the text, and never comes twice in a row.
//! - A trigger inside a string, comment or number, or without names, changes nothing but the records.
//! - Words that fine-tuning data never marks are not offered, unless nothing else is.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::base::{Candidate, Candidates, TokenId, limit};

use super::constraint::{AskAt, Constraint, DeadEnd, GuideReport, Need, Verdict};
use super::identifier::{is_identifier_byte, is_identifier_start};
use super::place::{Answered, Followed, Place, ROLLBACK_TOKENS_MAX, Typed, Unasked};
use super::{
    Chance, ConstraintError, GuideEvent, GuideStats, NameAutomaton, NameState, NameStore,
    PlaceKind, PythonLexer, TokenMask, is_skipped,
};

/// The trigger guide of one sequence.
#[derive(Clone)]
pub struct TriggerGuide {
    store: Arc<NameStore>,
    trigger: TokenId,
    state: State,
    history: VecDeque<(State, usize)>,
    events: Vec<Arc<GuideEvent>>,
    mask: TokenMask,
}

#[derive(Clone)]
struct State {
    lexer: PythonLexer,
    offset: usize,
    place: Place,
    /// Identifier bytes right before the cursor.
    word: Typed,
    /// The last token was the trigger.
    is_after_trigger: bool,
    rejected: Vec<TokenId>,
    is_violated: bool,
}

impl TriggerGuide {
    /// A guide for a text that begins with `prefix` (the prompt's Python, from the start of the file).
    pub fn new(store: Arc<NameStore>, trigger: TokenId, prefix: &[u8]) -> Self {
        let mut state = State {
            lexer: PythonLexer::new(),
            offset: 0,
            place: Place::Free,
            word: Typed::new(),
            is_after_trigger: false,
            rejected: Vec::new(),
            is_violated: false,
        };
        for &byte in prefix {
            state.push(byte);
        }
        let mask = TokenMask::none(store.trie().vocabulary().len());
        Self { store, trigger, state, history: VecDeque::new(), events: Vec::new(), mask }
    }

    /// The state after a token, and the events it finished; `None` when it is forbidden.
    fn after(&self, token: TokenId) -> Option<(State, Vec<Arc<GuideEvent>>)> {
        let mut state = self.state.clone();
        let mut finished = Vec::new();
        state.rejected.clear();
        if let Place::Answered(answered) = &mut state.place {
            answered.take_noted();
        }
        state.is_after_trigger = token == self.trigger;
        if token == self.trigger {
            if self.state.is_after_trigger || self.state.is_constrained() {
                return None;
            }
            if let Place::Answered(answered) = &state.place {
                finished.push(answered.finish());
                state.place = Place::Free;
            }
            if let Some(unasked) = state.unasked() {
                state.place = Place::Unasked(unasked);
            }
            return Some((state, finished));
        }
        let vocabulary = self.store.trie().vocabulary();
        let bytes = vocabulary.token_bytes(token);
        if bytes.is_empty() {
            let is_end = vocabulary.is_eos(token);
            return match &state.place {
                Place::Answered(answered) if !answered.may_take_control(is_end) => None,
                _ => Some((state, finished)),
            };
        }
        for &byte in bytes {
            if let Place::Answered(answered) = &mut state.place {
                match answered.follow(byte) {
                    Followed::Inside => {}
                    Followed::Forbidden => return None,
                    Followed::Ended => {
                        finished.push(answered.finish());
                        state.place = Place::Free;
                    }
                }
            } else {
                state.place = Place::Free; // a trigger nobody answered
            }
            state.push(byte);
        }
        match &state.place {
            Place::Answered(answered) if !answered.is_live() => None,
            _ => Some((state, finished)),
        }
    }
}

impl Constraint for TriggerGuide {
    fn next(&mut self) -> Need<'_> {
        let offset = self.state.offset;
        if self.state.is_violated {
            return Need::DeadEnd(DeadEnd::Violated { offset });
        }
        match &self.state.place {
            Place::Unasked(unasked) => {
                return Need::Ask(AskAt {
                    kind: unasked.kind,
                    offset: unasked.offset,
                    pending: Vec::new(),
                    typed: unasked.typed.to_vec(),
                });
            }
            Place::Answered(Answered { names: Some((names, state)), .. }) => {
                self.mask.clone_from(&names.mask(*state))
            }
            _ if !self.state.is_after_trigger && self.state.rejected.is_empty() => {
                return Need::Free;
            }
            _ => self.mask = TokenMask::all(self.store.trie().vocabulary().len()),
        }
        if self.state.is_after_trigger || self.state.is_constrained() {
            self.mask.forbid(self.trigger);
        }
        for &token in &self.state.rejected {
            self.mask.forbid(token);
        }
        if self.mask.is_empty() {
            return Need::DeadEnd(match self.state.rejected.is_empty() {
                true => self.state.no_token(),
                false => DeadEnd::AllRejected { offset },
            });
        }
        Need::Mask(&self.mask)
    }

    fn check(&mut self, token: TokenId) -> Verdict {
        if !self.state.rejected.contains(&token) && self.after(token).is_some() {
            return Verdict::Accept;
        }
        self.state.rejected.push(token);
        Verdict::Reject
    }

    fn accept(&mut self, token: TokenId) -> Result<(), ConstraintError> {
        let Some((state, finished)) = self.after(token) else {
            self.state.is_violated = true;
            return Err(ConstraintError::Forbidden { token: token.0, offset: self.state.offset });
        };
        if self.history.len() == ROLLBACK_TOKENS_MAX {
            self.history.pop_front();
        }
        let before = std::mem::replace(&mut self.state, state);
        self.history.push_back((before, self.events.len()));
        self.events.extend(finished);
        Ok(())
    }

    fn supply(&mut self, candidates: &Candidates, took: Duration) {
        let Place::Unasked(unasked) = &self.state.place else {
            return; // an answer nobody waits for any more
        };
        let candidates = worth_a_trigger(candidates);
        let mut answered = Answered::new(&self.store, unasked, &candidates, took);
        answered.retype(&unasked.typed);
        self.state.place = Place::Answered(answered);
    }

    fn note_wanted(&mut self, token: TokenId) {
        if let Place::Answered(answered) = &mut self.state.place {
            answered.note_wanted(token);
        }
    }

    fn note_probability(&mut self, log_prob: f64, log_prob_allowed: f64) {
        if let Place::Answered(answered) = &mut self.state.place {
            answered.note_chance(Chance { log_prob, log_prob_allowed });
        }
    }

    fn rollback(&mut self, n_tokens: usize) -> Result<(), ConstraintError> {
        let kept = self.history.len();
        let Some(keep) = kept.checked_sub(n_tokens) else {
            return Err(ConstraintError::RollbackTooFar { n_tokens, kept });
        };
        if let Some((state, n_events)) = self.history.drain(keep..).next() {
            self.state = state;
            self.events.truncate(n_events);
        }
        self.state.is_violated = false;
        Ok(())
    }

    fn rollback_max(&self) -> usize {
        self.history.len()
    }

    fn inside_name(&self) -> bool {
        match &self.state.place {
            Place::Answered(Answered { names: Some((names, state)), .. }) => !names.may_end(*state),
            _ => false,
        }
    }

    fn forced(&mut self) -> Vec<u8> {
        match &self.state.place {
            Place::Answered(answered) => answered.forced().to_vec(),
            _ => Vec::new(),
        }
    }

    fn hides(&self, token: TokenId) -> bool {
        token == self.trigger
    }

    fn open_name(&self) -> Option<(Arc<NameAutomaton>, NameState)> {
        match &self.state.place {
            Place::Answered(answered) => answered.open_name(),
            _ => None,
        }
    }

    fn narrow(&mut self, name: &[u8]) {
        if let Place::Answered(answered) = &mut self.state.place {
            answered.narrow(&self.store, name);
        }
    }

    fn report(&self) -> GuideReport {
        let mut events = self.events.clone();
        if let Place::Answered(answered) = &self.state.place {
            events.push(answered.finish());
        }
        let stats = GuideStats::of(events.iter().map(|e| &**e));
        GuideReport { events, stats }
    }

    fn clone_box(&self) -> Box<dyn Constraint> {
        Box::new(self.clone())
    }
}

impl State {
    fn push(&mut self, byte: u8) {
        self.lexer.push(byte);
        self.offset += 1;
        if !is_identifier_byte(byte) {
            self.word.clear();
        } else if self.word.len() <= limit::CANDIDATE_BYTES_MAX {
            self.word.push(byte); // a longer word matches no name anyway
        }
    }

    /// The question a trigger at the cursor asks: a word that is half written belongs to it, a keyword
    /// too, since it may become a name. No name can go on in text, comments and numbers.
    fn unasked(&self) -> Option<Unasked> {
        let begins_name = self.word.first().is_some_and(|b| is_identifier_start(*b));
        if self.lexer.in_text_or_comment() || self.lexer.in_word() && !begins_name {
            return None;
        }
        let typed = if self.lexer.in_word() { self.word.clone() } else { Typed::new() };
        Some(Unasked {
            typed: typed.clone(),
            ..Unasked::new(PlaceKind::Trigger, self.offset - typed.len())
        })
    }

    fn is_constrained(&self) -> bool {
        matches!(&self.place, Place::Answered(answered) if answered.names.is_some())
    }

    fn no_token(&self) -> DeadEnd {
        match &self.place {
            Place::Answered(answered) => answered.no_token(),
            _ => DeadEnd::AllRejected { offset: self.offset },
        }
    }
}
/// The names that a trigger may stand before: fine-tuning data has none before builtins and what every
/// object has, so a model that emits one means another name. An answer of such names alone stays.
fn worth_a_trigger(candidates: &Candidates) -> Cow<'_, Candidates> {
    let is_worth = |c: &&Candidate| !is_skipped(&c.name);
    let n = candidates.names.iter().filter(is_worth).count();
    if n == 0 || n == candidates.names.len() {
        return Cow::Borrowed(candidates);
    }
    let names = candidates.names.iter().filter(is_worth).cloned().collect();
    Cow::Owned(Candidates { names, ..candidates.clone() })
}
