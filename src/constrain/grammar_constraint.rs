//! One sequence's position in a compiled grammar.
//!
//! # Place
//! Uses `base`, the vocabulary and `llguidance`. Made by the grammar compiler, driven by `engine` through
//! [`Constraint`].

use std::sync::Arc;
use std::time::Duration;

use llguidance::Matcher;

use crate::base::{Candidates, TokenId};

use super::constraint::{Constraint, DeadEnd, GuideReport, Need, Verdict};
use super::{ConstraintError, TokenMask, Vocabulary};

/// The state of a grammar for one sequence.
#[derive(Clone)]
pub struct GrammarConstraint {
    matcher: Matcher,
    vocabulary: Arc<Vocabulary>,
    offset: usize,
    /// Bytes of the accepted tokens that the matcher took, so that taking them back can move the
    /// offset.
    lengths: Vec<u32>,
    mask: Option<TokenMask>,
    /// An end token came, and nothing may follow. The matcher never sees it.
    is_ended: bool,
}

impl GrammarConstraint {
    pub(super) fn new(matcher: Matcher, vocabulary: Arc<Vocabulary>) -> Result<Self, String> {
        let mut constraint = Self {
            matcher,
            vocabulary,
            offset: 0,
            lengths: Vec::new(),
            mask: None,
            is_ended: false,
        };
        // Some mistakes only show when the first mask is computed.
        match constraint.compute() {
            Err(DeadEnd::Grammar { problem, .. }) => Err(problem),
            Ok(mask) if mask.is_empty() => Err("no token can begin a text that it matches".into()),
            Ok(mask) => {
                constraint.mask = Some(mask);
                Ok(constraint)
            }
            Err(other) => Err(other.to_string()),
        }
    }

    /// Whether the text so far is complete: an end token may follow.
    pub fn is_complete(&mut self) -> bool {
        self.matcher.is_accepting().unwrap_or(false)
    }

    fn compute(&mut self) -> Result<TokenMask, DeadEnd> {
        let offset = self.offset;
        match self.matcher.compute_mask_or_eos() {
            Ok(mask) => Ok(TokenMask::from_words(mask.as_slice(), self.vocabulary.len())),
            Err(e) => Err(DeadEnd::Grammar {
                offset,
                problem: e.to_string().lines().next().unwrap_or_default().to_owned(),
            }),
        }
    }
}

impl Constraint for GrammarConstraint {
    fn next(&mut self) -> Need<'_> {
        if self.is_ended {
            return Need::DeadEnd(DeadEnd::Ended { offset: self.offset });
        }
        if self.mask.is_none() {
            match self.compute() {
                Ok(mask) => self.mask = Some(mask),
                Err(reason) => return Need::DeadEnd(reason),
            }
        }
        match &self.mask {
            Some(mask) if !mask.is_empty() => Need::Mask(mask),
            _ => Need::DeadEnd(DeadEnd::Grammar {
                offset: self.offset,
                problem: "no token of the vocabulary goes on".into(),
            }),
        }
    }

    fn check(&mut self, token: TokenId) -> Verdict {
        match self.next() {
            Need::Mask(mask) if mask.is_allowed(token) => Verdict::Accept,
            _ => Verdict::Reject,
        }
    }

    fn accept(&mut self, token: TokenId) -> Result<(), ConstraintError> {
        let forbidden = ConstraintError::Forbidden { token: token.0, offset: self.offset };
        if self.check(token) != Verdict::Accept {
            return Err(forbidden);
        }
        if self.vocabulary.is_eos(token) {
            self.is_ended = true;
            return Ok(());
        }
        self.matcher.consume_token(token.0).map_err(|_| forbidden)?;
        let n_bytes = self.vocabulary.token_bytes(token).len();
        self.offset += n_bytes;
        self.lengths.push(n_bytes as u32);
        self.mask = None;
        Ok(())
    }

    fn supply(&mut self, _candidates: &Candidates, _took: Duration) {}

    fn note_wanted(&mut self, _token: TokenId) {}

    fn rollback(&mut self, n_tokens: usize) -> Result<(), ConstraintError> {
        let kept = self.lengths.len() + usize::from(self.is_ended);
        let too_far = ConstraintError::RollbackTooFar { n_tokens, kept };
        if n_tokens == 0 {
            return Ok(());
        }
        let Some(keep) = kept.checked_sub(n_tokens) else {
            return Err(too_far);
        };
        let n_taken = self.lengths.len() - keep;
        if n_taken > 0 {
            self.matcher.rollback(n_taken).map_err(|_| too_far)?;
        }
        let n_bytes: u32 = self.lengths.drain(keep..).sum();
        self.offset -= n_bytes as usize;
        self.is_ended = false;
        self.mask = None;
        Ok(())
    }

    fn rollback_max(&self) -> usize {
        self.lengths.len() + usize::from(self.is_ended)
    }

    fn inside_name(&self) -> bool {
        false
    }

    fn forced(&mut self) -> Vec<u8> {
        if self.is_ended {
            return Vec::new();
        }
        self.matcher.compute_ff_bytes()
    }

    fn report(&self) -> GuideReport {
        GuideReport::default()
    }

    fn clone_box(&self) -> Box<dyn Constraint> {
        Box::new(self.clone())
    }
}
