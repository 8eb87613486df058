//! The monitor guide: watches the bytes of any model, asks where a name begins, and holds the model to
//! the answer when it is complete.
//!
//! # Place
//! Uses `base`, the lexer and the name automata. Driven by `engine` through [`Constraint`].
//! # Invariants
//! - Where a name begins depends on the bytes alone, never on how they are cut into tokens.
//! - Every place asked at ends up in the report exactly once.
//! - Accepting, checking and taking back cost O(bytes of the token).
//! # Sources
//! Monitor-guided decoding: Agrawal et al. 2023, arXiv:2306.10763; the differences (exact end of a name,
//! tokens that run over the next dot, end of text) are the point of this module.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::base::{Candidates, TokenId};

use super::constraint::{AskAt, Constraint, DeadEnd, GuideReport, Need, Verdict};
use super::identifier::is_identifier_byte;
use super::place::{Answered, Cursor, Followed, Place, ROLLBACK_TOKENS_MAX, Unasked, is_space};
use super::{
    Chance, ConstraintError, GuideEvent, GuideStats, NameAutomaton, NameState, NameStore,
    PlaceKind, PythonLexer, TokenMask,
};

/// At which places the monitor asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MonitorLevels {
    /// After a dot on a value.
    pub members: bool,
    /// Modules and names of import statements.
    pub imports: bool,
    /// The names of keyword arguments: where `name=` is written as an argument, the name is one that the
    /// call takes. Other arguments are free.
    pub calls: bool,
    /// Variables, where a name is surely read.
    pub names: bool,
}

impl MonitorLevels {
    /// After dots only.
    pub const MEMBERS: Self = Self { members: true, imports: false, calls: false, names: false };

    pub(super) fn includes(self, kind: PlaceKind) -> bool {
        match kind {
            PlaceKind::Member => self.members,
            PlaceKind::Module | PlaceKind::ImportedName => self.imports,
            PlaceKind::Keyword => self.calls,
            PlaceKind::Name => self.names,
            PlaceKind::Trigger => false,
        }
    }
}

/// The monitor of one sequence.
#[derive(Clone)]
pub struct Monitor {
    store: Arc<NameStore>,
    levels: MonitorLevels,
    state: State,
    /// The states before the last tokens, oldest first, with the number of events then.
    history: VecDeque<(State, usize)>,
    events: Vec<Arc<GuideEvent>>,
    /// The question that the next answer belongs to.
    asked: Option<AskAt>,
    mask: Option<Arc<TokenMask>>,
    comparison: Arc<Comparison>,
}

/// How the vocabulary writes `==`.
struct Comparison {
    /// The tokens that begin with an equals sign.
    mask: Arc<TokenMask>,
    /// Whether some token begins with both, so that one that ends after the first means something else.
    is_token: bool,
}

#[derive(Clone)]
struct State {
    cursor: Cursor,
    /// What was learnt while sampling the next token; mostly nothing.
    attempt: Option<Box<Attempt>>,
    is_violated: bool,
}

/// Tokens tried at one cursor.
#[derive(Clone, Default)]
struct Attempt {
    supplied: Vec<Supplied>,
    rejected: Vec<TokenId>,
    /// What is left to sample from.
    mask: Option<TokenMask>,
}

/// An answer for a place inside a token that begins with `pending`.
#[derive(Clone)]
struct Supplied {
    pending: Vec<u8>,
    answered: Answered,
    /// The tokens that begin with `pending` and cannot follow are already left out.
    is_applied: bool,
}

impl Supplied {
    fn is_for(&self, unasked: &Unasked) -> bool {
        let event = &self.answered.event;
        (event.offset, event.kind) == (unasked.offset, unasked.kind)
    }
}

/// What following some bytes led to.
enum Outcome {
    Moved {
        cursor: Cursor,
        finished: Vec<Arc<GuideEvent>>,
    },
    Ask(AskAt),
    /// Forbidden by the place at the cursor, or by the supplied answer of this index.
    Forbidden {
        supplied: Option<usize>,
    },
}

impl Monitor {
    /// A monitor for a text that begins with `prefix` (the prompt's Python, from the start of the
    /// file).
    pub fn new(store: Arc<NameStore>, levels: MonitorLevels, prefix: &[u8]) -> Self {
        let mut cursor = Cursor { lexer: PythonLexer::new(), offset: 0, place: Place::Free };
        for &byte in prefix {
            cursor.follow_unasked(byte);
            cursor.enter(levels);
        }
        let trie = store.trie();
        let mut mask = TokenMask::none(trie.vocabulary().len());
        let first = trie.find(b"=").filter(|_| levels.calls);
        for &id in first.map_or(&[][..], |node| trie.below(node)) {
            mask.allow(id);
        }
        let is_token = trie.find(b"==").is_some();
        Self {
            comparison: Arc::new(Comparison { mask: Arc::new(mask), is_token }),
            store,
            levels,
            state: State { cursor, attempt: None, is_violated: false },
            history: VecDeque::new(),
            events: Vec::new(),
            asked: None,
            mask: None,
        }
    }

    /// Bytes of the text so far, the prefix included.
    pub fn offset(&self) -> usize {
        self.state.cursor.offset
    }

    fn bytes(&self, token: TokenId) -> &[u8] {
        self.store.trie().vocabulary().token_bytes(token)
    }

    /// Follow a token's bytes from the cursor. With `must_know` a place inside the token that nobody
    /// asked about stops the walk; otherwise it stays unwatched.
    fn follow(&self, bytes: &[u8], must_know: bool) -> Outcome {
        let supplied = self.state.attempt.as_ref().map_or(&[][..], |a| &a.supplied);
        let mut cursor = self.state.cursor.clone();
        if let Place::Answered(answered) = &mut cursor.place {
            answered.take_noted();
        }
        let mut finished = Vec::new();
        let mut current = None;
        for (i, &byte) in bytes.iter().enumerate() {
            if matches!(cursor.place, Place::Compare) && byte != b'=' {
                return Outcome::Forbidden { supplied: None };
            }
            if let Place::Unasked(unasked) = &cursor.place
                && unasked.needs_answer(byte)
                && unasked.kind == PlaceKind::Keyword
            {
                match self.argument(unasked, &bytes[..i], bytes.get(i + 1), must_know) {
                    Ok((place, event)) => {
                        finished.extend(event);
                        cursor.lex(byte);
                        cursor.place = place;
                        cursor.enter(self.levels);
                        continue;
                    }
                    Err(outcome) => return *outcome,
                }
            }
            if let Place::Unasked(unasked) = &cursor.place
                && unasked.needs_answer(byte)
            {
                let is_here = |s: &Supplied| s.pending == bytes[..i] && s.is_for(unasked);
                let known = supplied.iter().position(is_here);
                if let Some(idx) = known {
                    current = Some(idx);
                    cursor.place = Place::Answered(supplied[idx].answered.clone());
                } else if must_know {
                    let rest = &bytes[i..];
                    let n = rest.iter().take_while(|b| is_identifier_byte(**b)).count();
                    return Outcome::Ask(AskAt {
                        kind: unasked.kind,
                        offset: unasked.offset,
                        pending: bytes[..i].to_vec(),
                        typed: rest[..n].to_vec(),
                    });
                }
            }
            if let Place::Answered(answered) = &mut cursor.place {
                match answered.follow(byte) {
                    Followed::Inside => {}
                    Followed::Forbidden => return Outcome::Forbidden { supplied: current },
                    Followed::Ended => {
                        finished.push(answered.finish());
                        cursor.place = Place::Free;
                        current = None;
                    }
                }
                cursor.lex(byte);
                if let Place::Answered(answered) = &cursor.place
                    && is_space(byte)
                    && cursor.lexer.place().is_none()
                {
                    finished.push(answered.finish()); // the line ended before a name came
                    cursor.place = Place::Free;
                }
            } else {
                cursor.follow_unasked(byte);
            }
            cursor.enter(self.levels);
        }
        if let Place::Unasked(unasked) = &cursor.place
            && unasked.kind != PlaceKind::Keyword
            && let Some(known) = supplied.iter().find(|s| s.pending == bytes && s.is_for(unasked))
        {
            cursor.place = Place::Answered(known.answered.clone());
        }
        match &cursor.place {
            Place::Answered(answered) if !answered.is_live() => {
                Outcome::Forbidden { supplied: current }
            }
            _ => Outcome::Moved { cursor, finished },
        }
    }

    /// What an equals sign after the first word of an argument means, and the event that it finishes.
    /// `before` are the bytes of the token before the sign, `after` the one behind it.
    fn argument(
        &self,
        unasked: &Unasked,
        before: &[u8],
        after: Option<&u8>,
        must_know: bool,
    ) -> Result<(Place, Option<Arc<GuideEvent>>), Box<Outcome>> {
        if after == Some(&b'=') {
            return Ok((Place::Free, None)); // a comparison
        }
        let supplied = self.state.attempt.as_ref().map_or(&[][..], |a| &a.supplied);
        let Some(idx) = supplied.iter().position(|s| s.is_for(unasked)) else {
            if !must_know {
                return Ok((Place::Free, None));
            }
            let n_before = unasked.offset.saturating_sub(self.state.cursor.offset);
            return Err(Box::new(Outcome::Ask(AskAt {
                kind: unasked.kind,
                offset: unasked.offset,
                pending: before[..n_before].to_vec(),
                typed: unasked.typed.to_vec(),
            })));
        };
        let answered = &supplied[idx].answered;
        let can_compare = !self.comparison.is_token && !self.comparison.mask.is_empty();
        if answered.offers(&unasked.typed) {
            let mut event = Arc::clone(&answered.event);
            Arc::make_mut(&mut event).name = Some(unasked.typed.to_vec());
            Ok((Place::Free, Some(event)))
        } else if after.is_none() && can_compare {
            Ok((Place::Compare, None))
        } else {
            Err(Box::new(Outcome::Forbidden { supplied: Some(idx) }))
        }
    }

    /// What may be sampled at the cursor before anything was tried.
    fn base_mask(&self) -> Option<Arc<TokenMask>> {
        match &self.state.cursor.place {
            Place::Compare => Some(Arc::clone(&self.comparison.mask)),
            Place::Answered(Answered { names: Some((names, state)), .. }) => {
                Some(names.mask(*state))
            }
            _ => None,
        }
    }

    fn reject(&mut self, token: TokenId, supplied: Option<usize>) {
        let base = self.base_mask();
        let trie = Arc::clone(self.store.trie());
        let attempt = self.state.attempt.get_or_insert_default();
        let mask = attempt.mask.get_or_insert_with(|| match base {
            Some(mask) => (*mask).clone(),
            None => TokenMask::all(trie.vocabulary().len()),
        });
        attempt.rejected.push(token);
        if let Some(entry) = supplied.map(|idx| &mut attempt.supplied[idx]) {
            let event = Arc::make_mut(&mut entry.answered.event);
            event.wanted.get_or_insert(token);
            let is_known = entry.is_applied || event.kind == PlaceKind::Keyword;
            if let (false, Some((names, state)), Some(node)) =
                (is_known, &entry.answered.names, trie.find(&entry.pending))
            {
                names.restrict_below(node, *state, mask);
                entry.is_applied = true;
            }
        }
        for &token in &attempt.rejected {
            mask.forbid(token);
        }
    }

    /// Answers for tokens that were not taken in the end: they still hold when the text goes the same
    /// way in smaller steps; otherwise their places were asked at for nothing, which is recorded.
    fn keep_answers(&mut self, known: &[Supplied], token: TokenId, used: &[Arc<GuideEvent>]) {
        let mut kept = Vec::new();
        for supplied in known {
            let is_used = |event: &Arc<GuideEvent>| event.is_at(&supplied.answered.event);
            if used.iter().any(is_used) || self.state.cursor.holds(is_used) {
                continue;
            }
            if let Place::Unasked(unasked) = &self.state.cursor.place
                && unasked.kind == PlaceKind::Keyword
                && supplied.is_for(unasked)
            {
                kept.push(Supplied { pending: Vec::new(), ..supplied.clone() });
                continue; // the argument goes on, and may still be named
            }
            match supplied.pending.strip_prefix(self.bytes(token)) {
                Some(pending) if !pending.is_empty() => kept.push(Supplied {
                    pending: pending.to_vec(),
                    answered: supplied.answered.clone(),
                    is_applied: false,
                }),
                _ => self.events.push(Arc::clone(&supplied.answered.event)),
            }
        }
        if !kept.is_empty() {
            self.state.attempt.get_or_insert_default().supplied = kept;
        }
    }
}

impl Constraint for Monitor {
    fn next(&mut self) -> Need<'_> {
        let offset = self.state.cursor.offset;
        if self.state.is_violated {
            return Need::DeadEnd(DeadEnd::Violated { offset });
        }
        if let Place::Unasked(unasked) = &self.state.cursor.place
            && unasked.kind != PlaceKind::Keyword
        {
            let ask = AskAt {
                kind: unasked.kind,
                offset: unasked.offset,
                pending: Vec::new(),
                typed: unasked.typed.to_vec(),
            };
            self.asked = Some(ask.clone());
            return Need::Ask(ask);
        }
        if self.state.attempt.as_ref().is_some_and(|a| a.mask.is_some()) {
            let mask = self.state.attempt.as_ref().and_then(|a| a.mask.as_ref());
            return match mask {
                Some(mask) if !mask.is_empty() => Need::Mask(mask),
                _ => Need::DeadEnd(DeadEnd::AllRejected { offset }),
            };
        }
        self.mask = self.base_mask();
        match (&self.mask, &self.state.cursor.place) {
            (Some(mask), Place::Answered(answered)) if mask.is_empty() => {
                Need::DeadEnd(answered.no_token())
            }
            (Some(mask), _) => Need::Mask(mask),
            (None, _) => Need::Free,
        }
    }

    fn check(&mut self, token: TokenId) -> Verdict {
        let rejected = self.state.attempt.as_ref().map(|a| &a.rejected);
        if rejected.is_some_and(|r| r.contains(&token)) {
            return Verdict::Reject;
        }
        let bytes = self.bytes(token);
        if bytes.is_empty() {
            let is_end = self.store.trie().vocabulary().is_eos(token);
            if self.state.cursor.may_take_control(is_end) {
                return Verdict::Accept;
            }
            self.reject(token, None);
            return Verdict::Reject;
        }
        match self.follow(bytes, true) {
            Outcome::Moved { .. } => Verdict::Accept,
            Outcome::Ask(ask) => {
                self.asked = Some(ask.clone());
                Verdict::Ask(ask)
            }
            Outcome::Forbidden { supplied } => {
                self.reject(token, supplied);
                Verdict::Reject
            }
        }
    }

    fn accept(&mut self, token: TokenId) -> Result<(), ConstraintError> {
        let n_tokens = self.store.trie().vocabulary().len();
        if token.index() >= n_tokens {
            return Err(ConstraintError::NoSuchToken { token: token.0, n_tokens });
        }
        let forbidden =
            ConstraintError::Forbidden { token: token.0, offset: self.state.cursor.offset };
        let (cursor, finished) = if self.bytes(token).is_empty() {
            let is_end = self.store.trie().vocabulary().is_eos(token);
            if !self.state.cursor.may_take_control(is_end) {
                self.state.is_violated = true;
                return Err(forbidden);
            }
            (self.state.cursor.clone(), Vec::new())
        } else {
            match self.follow(self.bytes(token), false) {
                Outcome::Moved { cursor, finished } => (cursor, finished),
                Outcome::Ask(_) | Outcome::Forbidden { .. } => {
                    self.state.is_violated = true;
                    return Err(forbidden);
                }
            }
        };
        let before = State {
            cursor: std::mem::replace(&mut self.state.cursor, cursor),
            attempt: self.state.attempt.take(),
            is_violated: false,
        };
        let n_events = self.events.len();
        if let Some(attempt) = &before.attempt {
            self.keep_answers(&attempt.supplied, token, &finished);
        }
        self.events.extend(finished);
        if self.history.len() == ROLLBACK_TOKENS_MAX {
            self.history.pop_front();
        }
        self.history.push_back((before, n_events));
        self.asked = None;
        Ok(())
    }

    fn supply(&mut self, candidates: &Candidates, took: Duration) {
        let Some(ask) = self.asked.take() else {
            return; // an answer nobody waits for any more
        };
        let here = match &self.state.cursor.place {
            Place::Unasked(_) if ask.kind == PlaceKind::Keyword => None,
            Place::Unasked(u) if ask.pending.is_empty() && u.offset == ask.offset => Some(&u.typed),
            _ => None,
        };
        if let Some(typed) = here {
            let place = Unasked { typed: typed.clone(), ..Unasked::new(ask.kind, ask.offset) };
            let mut answered = Answered::new(&self.store, &place, candidates, took);
            answered.retype(&place.typed);
            self.state.cursor.place = Place::Answered(answered);
        } else {
            let place = Unasked::new(ask.kind, ask.offset);
            let answered = Answered::new(&self.store, &place, candidates, took);
            self.state.attempt.get_or_insert_default().supplied.push(Supplied {
                pending: ask.pending,
                answered,
                is_applied: false,
            });
        }
    }

    fn note_wanted(&mut self, token: TokenId) {
        if let Place::Answered(answered) = &mut self.state.cursor.place {
            answered.note_wanted(token);
        }
    }

    fn note_probability(&mut self, log_prob: f64, log_prob_allowed: f64) {
        if let Place::Answered(answered) = &mut self.state.cursor.place {
            answered.note_chance(Chance { log_prob, log_prob_allowed });
        }
    }

    fn rollback(&mut self, n_tokens: usize) -> Result<(), ConstraintError> {
        let Some(keep) = self.history.len().checked_sub(n_tokens) else {
            return Err(ConstraintError::RollbackTooFar { n_tokens, kept: self.history.len() });
        };
        if let Some((state, n_events)) = self.history.drain(keep..).next() {
            self.state = state;
            self.events.truncate(n_events);
        }
        self.state.is_violated = false;
        self.asked = None;
        Ok(())
    }

    fn rollback_max(&self) -> usize {
        self.history.len()
    }

    fn inside_name(&self) -> bool {
        match &self.state.cursor.place {
            Place::Answered(Answered { names: Some((names, state)), .. }) => !names.may_end(*state),
            Place::Unasked(unasked) => unasked.kind == PlaceKind::Member,
            Place::Compare => true,
            _ => false,
        }
    }

    fn forced(&mut self) -> Vec<u8> {
        match &self.state.cursor.place {
            Place::Answered(answered) => answered.forced().to_vec(),
            _ => Vec::new(),
        }
    }

    fn open_name(&self) -> Option<(Arc<NameAutomaton>, NameState)> {
        match &self.state.cursor.place {
            Place::Answered(answered) => answered.open_name(),
            _ => None,
        }
    }

    fn narrow(&mut self, name: &[u8]) {
        if let Place::Answered(answered) = &mut self.state.cursor.place {
            answered.narrow(&self.store, name);
        }
    }

    fn report(&self) -> GuideReport {
        let mut events = self.events.clone();
        if let Place::Answered(answered) = &self.state.cursor.place {
            events.push(answered.finish());
        }
        if let Some(attempt) = &self.state.attempt {
            events.extend(attempt.supplied.iter().map(|s| Arc::clone(&s.answered.event)));
        }
        events.sort_by_key(|e| e.offset);
        let stats = GuideStats::of(events.iter().map(|e| &**e));
        GuideReport { events, stats }
    }

    fn clone_box(&self) -> Box<dyn Constraint> {
        Box::new(self.clone())
    }
}
