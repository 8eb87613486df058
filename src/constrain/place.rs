//! What stands at the monitor's cursor: nothing watched, a name nobody was asked about, or a name with
//! its answer.
//!
//! # Place
//! Uses `base`, the lexer and the name automata. Part of the monitor, split off by size.

use std::sync::Arc;

use smallvec::SmallVec;
use unicode_normalization::UnicodeNormalization;

use crate::base::{Answer, limit};

use super::identifier::{is_identifier_byte, is_identifier_start};
use super::monitor::MonitorLevels;
use super::{GuideEvent, NameAutomaton, NameState, NameStep, PlaceKind, PythonLexer};

#[derive(Clone)]
pub(super) struct Cursor {
    pub(super) lexer: PythonLexer,
    pub(super) offset: usize,
    pub(super) place: Place,
}

/// What stands at the cursor.
#[derive(Clone)]
pub(super) enum Place {
    /// No name that is watched.
    Free,
    /// A name begins or is being written, and the tool was not asked.
    Unasked(Unasked),
    /// The tool was asked.
    Answered(Answered),
}

#[derive(Clone)]
pub(super) struct Unasked {
    pub(super) kind: PlaceKind,
    pub(super) offset: usize,
    pub(super) typed: Typed,
}

pub(super) type Typed = SmallVec<[u8; 24]>;

#[derive(Clone)]
pub(super) struct Answered {
    pub(super) event: Arc<GuideEvent>,
    /// The names and what is typed of them, when the answer constrains.
    pub(super) names: Option<(Arc<NameAutomaton>, NameState)>,
    pub(super) typed: Typed,
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
            self.place = Place::Unasked(Unasked {
                kind,
                offset: self.offset,
                typed: Typed::new(),
            });
        }
    }

    pub(super) fn holds(&self, is_used: impl Fn(&Arc<GuideEvent>) -> bool) -> bool {
        matches!(&self.place, Place::Answered(a) if is_used(&a.event))
    }
}

impl Unasked {
    /// Whether a byte is part of the name.
    pub(super) fn names(&self, byte: u8) -> bool {
        if self.typed.is_empty() {
            is_identifier_start(byte)
        } else {
            is_identifier_byte(byte)
        }
    }

    /// Whether the answer decides if a byte may come.
    pub(super) fn needs_answer(&self, byte: u8) -> bool {
        self.kind == PlaceKind::Member || self.names(byte)
    }
}

pub(super) enum Followed {
    Inside,
    Ended,
    Forbidden,
}

impl Answered {
    pub(super) fn follow(&mut self, byte: u8) -> Followed {
        if let Some((names, state)) = &mut self.names {
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
        if !written.is_empty() {
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
