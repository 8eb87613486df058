//! Two constraints at once: a grammar and a guide, say.
//!
//! # Place
//! Uses the constraint seam only. A text must satisfy both parts; each keeps its own state and questions.

use std::sync::Arc;
use std::time::Duration;

use crate::base::{Candidates, TokenId};

use super::constraint::{AskAt, Constraint, DeadEnd, GuideReport, Need, Verdict};
use super::{ConstraintError, GuideStats, NameAutomaton, NameState, TokenMask};

/// The intersection of two constraints.
pub struct Both {
    first: Box<dyn Constraint>,
    second: Box<dyn Constraint>,
    asked: Part,
    offset: usize,
    mask: Option<TokenMask>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    First,
    Second,
}

/// What one part needs, without its borrow.
enum Want {
    Free,
    Mask(TokenMask),
    Ask(AskAt),
    DeadEnd(DeadEnd),
}

impl Both {
    /// Require both.
    pub fn new(first: Box<dyn Constraint>, second: Box<dyn Constraint>) -> Self {
        Self { first, second, asked: Part::First, offset: 0, mask: None }
    }

    fn part(&mut self, part: Part) -> &mut dyn Constraint {
        match part {
            Part::First => self.first.as_mut(),
            Part::Second => self.second.as_mut(),
        }
    }

    fn want(&mut self, part: Part) -> Want {
        match self.part(part).next() {
            Need::Free => Want::Free,
            Need::Mask(mask) => Want::Mask(mask.clone()),
            Need::Ask(ask) => Want::Ask(ask),
            Need::DeadEnd(reason) => Want::DeadEnd(reason),
        }
    }
}

impl Constraint for Both {
    fn next(&mut self) -> Need<'_> {
        self.mask = None;
        for part in [Part::First, Part::Second] {
            match self.want(part) {
                Want::Free => {}
                Want::Mask(mask) => match &mut self.mask {
                    Some(both) => both.intersect(&mask),
                    None => self.mask = Some(mask),
                },
                Want::Ask(ask) => {
                    self.asked = part;
                    self.offset = ask.offset;
                    return Need::Ask(ask);
                }
                Want::DeadEnd(reason) => return Need::DeadEnd(reason),
            }
        }
        match &self.mask {
            None => Need::Free,
            Some(mask) if mask.is_empty() => {
                Need::DeadEnd(DeadEnd::Disjoint { offset: self.offset })
            }
            Some(mask) => Need::Mask(mask),
        }
    }

    fn check(&mut self, token: TokenId) -> Verdict {
        for part in [Part::First, Part::Second] {
            match self.part(part).check(token) {
                Verdict::Accept => {}
                Verdict::Reject => return Verdict::Reject,
                Verdict::Ask(ask) => {
                    self.asked = part;
                    self.offset = ask.offset;
                    return Verdict::Ask(ask);
                }
            }
        }
        Verdict::Accept
    }

    fn accept(&mut self, token: TokenId) -> Result<(), ConstraintError> {
        self.first.accept(token)?;
        if let Err(error) = self.second.accept(token) {
            self.first.rollback(1)?;
            return Err(error);
        }
        Ok(())
    }

    fn supply(&mut self, candidates: &Candidates, took: Duration) {
        self.part(self.asked).supply(candidates, took);
    }

    fn note_wanted(&mut self, token: TokenId) {
        self.first.note_wanted(token);
        self.second.note_wanted(token);
    }

    fn rollback(&mut self, n_tokens: usize) -> Result<(), ConstraintError> {
        let kept = self.rollback_max();
        if n_tokens > kept {
            return Err(ConstraintError::RollbackTooFar { n_tokens, kept });
        }
        self.first.rollback(n_tokens)?;
        self.second.rollback(n_tokens)
    }

    fn rollback_max(&self) -> usize {
        self.first.rollback_max().min(self.second.rollback_max())
    }

    fn inside_name(&self) -> bool {
        self.first.inside_name() || self.second.inside_name()
    }

    fn forced(&mut self) -> Vec<u8> {
        let (first, second) = (self.first.forced(), self.second.forced());
        let n = first.iter().zip(&second).take_while(|(a, b)| a == b).count();
        if n == second.len() {
            first
        } else if n == first.len() {
            second
        } else {
            first[..n].to_vec() // after it nothing is left, and `next` says so
        }
    }

    fn hides(&self, token: TokenId) -> bool {
        self.first.hides(token) || self.second.hides(token)
    }

    fn open_name(&self) -> Option<(Arc<NameAutomaton>, NameState)> {
        self.first.open_name().or_else(|| self.second.open_name())
    }

    fn narrow(&mut self, name: &[u8]) {
        self.first.narrow(name);
        self.second.narrow(name);
    }

    fn decides(&self) -> bool {
        self.first.decides() || self.second.decides()
    }

    fn choose(&mut self, logits: &[f32]) -> Option<TokenId> {
        match (self.first.decides(), self.second.decides()) {
            (true, _) => self.first.choose(logits),
            (false, true) => self.second.choose(logits),
            (false, false) => None,
        }
    }

    fn note_probability(&mut self, log_prob: f64, log_prob_allowed: f64) {
        self.first.note_probability(log_prob, log_prob_allowed);
        self.second.note_probability(log_prob, log_prob_allowed);
    }

    fn report(&self) -> GuideReport {
        let mut events = self.first.report().events;
        events.extend(self.second.report().events);
        events.sort_by_key(|e| e.offset);
        let stats = GuideStats::of(events.iter().map(|e| &**e));
        GuideReport { events, stats }
    }

    fn clone_box(&self) -> Box<dyn Constraint> {
        Box::new(Self {
            first: self.first.clone_box(),
            second: self.second.clone_box(),
            asked: self.asked,
            offset: self.offset,
            mask: self.mask.clone(),
        })
    }
}
