//! What stands at the monitor's cursor: nothing watched, a name nobody was asked about, or a name with
//! its answer.
//!
//! # Place
//! Uses `base`, the lexer and the name automata. Part of the monitor, split off by size.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use unicode_normalization::UnicodeNormalization;

use crate::base::{Answer, Candidates, TokenId, limit};

use super::constraint::DeadEnd;
use super::identifier::{OPERAND_WORDS, is_identifier_byte, is_identifier_start, is_keyword};
use super::monitor::MonitorLevels;
use super::{
    Chance, GuideEvent, NameAutomaton, NameSet, NameStart, NameState, NameStep, NameStore,
    PlaceKind, PythonLexer,
};

#[derive(Clone)]
pub(super) struct Cursor {
    pub(super) lexer: PythonLexer,
    pub(super) offset: usize,
    pub(super) place: Place,
}

/// Tokens that a guide can take back.
pub(super) const ROLLBACK_TOKENS_MAX: usize = 64;

/// What stands at the cursor.
#[derive(Clone)]
pub(super) enum Place {
    /// No name that is watched.
    Free,
    /// A name begins or is being written, and the tool was not asked.
    Unasked(Unasked),
    /// The tool was asked.
    Answered(Answered),
    /// After an equals sign that can only be the first half of a comparison.
    Compare,
}

#[derive(Clone)]
pub(super) struct Unasked {
    pub(super) kind: PlaceKind,
    pub(super) offset: usize,
    pub(super) typed: Typed,
    /// White space came after what is typed, at the beginning of an argument.
    pub(super) is_over: bool,
}

pub(super) type Typed = SmallVec<[u8; 24]>;

#[derive(Clone)]
pub(super) struct Answered {
    pub(super) event: Arc<GuideEvent>,
    /// The names and what is typed of them, when the answer constrains.
    pub(super) names: Option<(Arc<NameAutomaton>, NameState)>,
    pub(super) typed: Typed,
    /// Of the token that is about to be checked.
    noted: Option<Chance>,
}

impl Cursor {
    pub(super) fn lex(&mut self, byte: u8) {
        self.lexer.push(byte);
        self.offset += 1;
    }

    /// Take a byte without any answer.
    pub(super) fn follow_unasked(&mut self, byte: u8) {
        let goes_on = match &mut self.place {
            Place::Unasked(unasked) if unasked.names(byte) => {
                if unasked.typed.len() < limit::CANDIDATE_BYTES_MAX {
                    unasked.typed.push(byte);
                }
                true
            }
            Place::Unasked(unasked) if unasked.may_be_named(byte) => {
                unasked.is_over = true;
                true
            }
            _ => false,
        };
        let was_empty = matches!(&self.place, Place::Unasked(u) if u.typed.is_empty());
        self.lex(byte);
        let still_begins = was_empty && is_space(byte) && self.lexer.place().is_some();
        if !goes_on && !still_begins {
            self.place = Place::Free;
        }
    }

    /// Notice that a name begins here.
    pub(super) fn enter(&mut self, levels: MonitorLevels) {
        if let (Place::Free, Some(kind)) = (&self.place, self.lexer.place())
            && levels.includes(kind)
        {
            self.place = Place::Unasked(Unasked::new(kind, self.offset));
        }
    }

    /// Whether a token without bytes may come.
    pub(super) fn may_take_control(&self, is_end: bool) -> bool {
        match &self.place {
            Place::Answered(answered) => answered.may_take_control(is_end),
            Place::Compare => false,
            Place::Free | Place::Unasked(_) => true,
        }
    }

    pub(super) fn holds(&self, is_used: impl Fn(&Arc<GuideEvent>) -> bool) -> bool {
        matches!(&self.place, Place::Answered(a) if is_used(&a.event))
    }
}

impl Unasked {
    pub(super) fn new(kind: PlaceKind, offset: usize) -> Self {
        Self { kind, offset, typed: Typed::new(), is_over: false }
    }

    /// Whether white space may stand between what is typed and an equals sign that names an argument.
    fn may_be_named(&self, byte: u8) -> bool {
        self.kind == PlaceKind::Keyword && !self.typed.is_empty() && is_space(byte)
    }

    /// Whether a byte is part of the name.
    pub(super) fn names(&self, byte: u8) -> bool {
        if self.is_over {
            return false;
        }
        if self.typed.is_empty() { is_identifier_start(byte) } else { is_identifier_byte(byte) }
    }

    /// Whether the answer decides if a byte may come.
    pub(super) fn needs_answer(&self, byte: u8) -> bool {
        match self.kind {
            PlaceKind::Member => true,
            PlaceKind::Keyword => byte == b'=' && !self.typed.is_empty(),
            _ => self.names(byte),
        }
    }
}

pub(super) enum Followed {
    Inside,
    Ended,
    Forbidden,
}

impl Answered {
    /// What a tool's answer means for the place it was asked about.
    pub(super) fn new(
        store: &NameStore,
        place: &Unasked,
        candidates: &Candidates,
        took: Duration,
    ) -> Self {
        let offered = candidates.names.iter().map(|c| &*c.name);
        let names = NameSet::new(offered.clone());
        let n_names = names.len();
        let (answer, reason) = match candidates.answer {
            Answer::Closed if names.is_empty() => {
                (Answer::Unknown, Some("no usable name in the answer".into()))
            }
            Answer::Closed if names.is_cut() => (Answer::Open, Some("too many names".into())),
            answer => (answer, candidates.reason.clone()),
        };
        let event = GuideEvent {
            kind: place.kind,
            offset: place.offset,
            answer,
            n_names,
            n_dropped: names.n_dropped(),
            reason,
            typed: place.typed.to_vec(),
            name: None,
            wanted: None,
            chance: None,
            took,
        };
        let start = match place.kind {
            PlaceKind::Member | PlaceKind::Trigger => NameStart::Required,
            PlaceKind::Module | PlaceKind::ImportedName | PlaceKind::Keyword | PlaceKind::Name => {
                NameStart::Optional
            }
        };
        let names = match place.kind {
            PlaceKind::Name => NameSet::with_words(offered, &OPERAND_WORDS),
            _ => names,
        };
        let constraint = (answer == Answer::Closed).then(|| {
            let names = store.automaton(names, start);
            let state = names.names().start();
            (names, state)
        });
        Self { event: Arc::new(event), names: constraint, typed: Typed::new(), noted: None }
    }

    /// The model preferred a token that the names do not allow.
    pub(super) fn note_wanted(&mut self, token: TokenId) {
        if let Some((names, state)) = &self.names
            && !names.mask(*state).is_allowed(token)
        {
            let event = Arc::make_mut(&mut self.event);
            event.wanted.get_or_insert(token);
        }
    }

    /// Whether a whole name may be written: it is offered, or nobody knows.
    pub(super) fn offers(&self, name: &[u8]) -> bool {
        let text = String::from_utf8_lossy(name);
        let normal: String = text.nfkc().collect();
        let names = self.names.as_ref();
        names.is_none_or(|(names, _)| names.names().fits(names.names().start(), normal.as_bytes()))
    }

    /// How likely the token is that is about to be checked.
    pub(super) fn note_chance(&mut self, chance: Chance) {
        self.noted = self.names.is_some().then_some(chance);
    }

    /// The token is followed: its chance belongs to the event now.
    pub(super) fn take_noted(&mut self) {
        if let Some(noted) = self.noted.take() {
            let sum = Arc::make_mut(&mut self.event).chance.get_or_insert_default();
            sum.log_prob += noted.log_prob;
            sum.log_prob_allowed += noted.log_prob_allowed;
        }
    }

    /// The bytes that must follow.
    pub(super) fn forced(&self) -> &[u8] {
        match &self.names {
            Some((names, state)) if !names.may_end(*state) => names.names().forced(*state),
            _ => &[],
        }
    }

    /// Why no token can follow.
    pub(super) fn no_token(&self) -> DeadEnd {
        DeadEnd::NoTokenForName {
            typed: String::from_utf8_lossy(self.written()).into_owned(),
            n_names: self.event.n_names,
            offset: self.event.offset,
        }
    }

    pub(super) fn follow(&mut self, byte: u8) -> Followed {
        if let Some((names, state)) = &mut self.names {
            if is_space(byte) && state.n_typed() == 0 && names.start_rule() == NameStart::Optional {
                return Followed::Inside; // the name is still to begin
            }
            return match names.step(*state, byte) {
                NameStep::Inside(next) => {
                    *state = next;
                    Followed::Inside
                }
                NameStep::Ended { .. } => Followed::Ended,
                NameStep::Forbidden => Followed::Forbidden,
            };
        }
        if is_identifier_byte(byte) || self.typed.is_empty() && is_space(byte) {
            if !is_space(byte) && self.typed.len() < limit::CANDIDATE_BYTES_MAX {
                self.typed.push(byte);
            }
            Followed::Inside
        } else {
            Followed::Ended
        }
    }

    /// Whether the tokens of the vocabulary can go on from here.
    pub(super) fn is_live(&self) -> bool {
        let constraint = self.names.as_ref();
        constraint.is_none_or(|(names, state)| names.is_live(*state))
    }

    /// What is written of the name.
    pub(super) fn written(&self) -> &[u8] {
        match &self.names {
            Some((names, state)) => names.names().typed(*state),
            None => &self.typed,
        }
    }

    /// The event, with the name as far as it is written.
    pub(super) fn finish(&self) -> Arc<GuideEvent> {
        let written = self.written();
        let mut event = Arc::clone(&self.event);
        if !written.is_empty() && !is_keyword(written) && !written.ends_with(b"'") {
            Arc::make_mut(&mut event).name = Some(written.to_vec());
        }
        event
    }

    /// Apply what stood there before the question. A prefix that no name has was not written under
    /// this constraint, so it lifts it.
    pub(super) fn retype(&mut self, typed: &[u8]) {
        let text = String::from_utf8_lossy(typed);
        let normal: String = text.nfkc().collect();
        if let Some((names, state)) = &mut self.names {
            match names.walk(*state, normal.as_bytes()) {
                NameStep::Inside(next) => *state = next,
                NameStep::Ended { .. } | NameStep::Forbidden => {
                    self.names = None;
                    let event = Arc::make_mut(&mut self.event);
                    event.answer = Answer::Unknown;
                    event.reason = Some("no name begins with what is typed".into());
                }
            }
        }
        if self.names.is_none() {
            self.typed = Typed::from_slice(typed);
        }
    }

    /// The names that still fit, while there is a choice.
    pub(super) fn open_name(&self) -> Option<(Arc<NameAutomaton>, NameState)> {
        let (names, state) = self.names.as_ref()?;
        if self.event.kind == PlaceKind::Name || names.may_end(*state) && state.n_typed() == 0 {
            return None; // keywords and other operands may come too
        }
        (state.n_names() > 1).then(|| (Arc::clone(names), *state))
    }

    /// Leave only one name.
    pub(super) fn narrow(&mut self, store: &NameStore, name: &[u8]) {
        let Some((names, state)) = &mut self.names else {
            return;
        };
        if !names.names().fits(*state, name) {
            return;
        }
        let Ok(text) = std::str::from_utf8(name) else {
            return; // unreachable: names are made from text
        };
        let only = store.automaton(NameSet::new([text]), names.start_rule());
        if let NameStep::Inside(there) = only.walk(only.names().start(), &name[..state.n_typed()]) {
            *state = there;
            *names = only;
        }
    }

    /// Whether a token without bytes may come: one that ends the text where a name may end, any where
    /// nothing is constrained.
    pub(super) fn may_take_control(&self, is_end: bool) -> bool {
        match &self.names {
            Some((names, state)) => is_end && names.may_end(*state),
            None => true,
        }
    }
}

pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\x0c' | b'\n' | b'\r' | b'\\')
}
