//! How a text must begin: given bytes, then something that is not white space.
//!
//! # Place
//! Uses the constraint seam and the vocabulary. A body's first indentation is given this way: left to
//! the prompt, it would end in white space that the tokenizer would have merged with what follows
//! ("token healing"), and the model could end the text before it began.

use std::sync::Arc;
use std::time::Duration;

use crate::base::{Candidates, TokenId};

use super::constraint::{Constraint, DeadEnd, GuideReport, Need, Verdict};
use super::{ConstraintError, TokenMask, Vocabulary};

/// Requires `lead` and one more byte that begins code; free after that.
#[derive(Clone)]
pub struct Lead {
    vocabulary: Arc<Vocabulary>,
    lead: Vec<u8>,
    /// Stands for code that begins: a trigger, which has no text.
    trigger: Option<TokenId>,
    /// Bytes written after each token so far, as far as they matter.
    written: Vec<usize>,
    mask: Option<TokenMask>,
}

impl Lead {
    /// For a text that must begin with `lead`.
    pub fn new(vocabulary: Arc<Vocabulary>, lead: impl Into<Vec<u8>>) -> Self {
        Self { vocabulary, lead: lead.into(), trigger: None, written: vec![0], mask: None }
    }

    /// Let the text also begin with this token behind the lead.
    pub fn or_trigger(self, trigger: TokenId) -> Self {
        Self { trigger: Some(trigger), ..self }
    }

    fn allows_token(&self, token: TokenId) -> bool {
        let begins = self.n_written() == self.lead.len() && self.trigger == Some(token);
        begins || (self.trigger != Some(token) && self.allows(self.vocabulary.token_bytes(token)))
    }

    fn n_written(&self) -> usize {
        self.written.last().copied().unwrap_or(0)
    }

    fn is_done(&self) -> bool {
        self.n_written() > self.lead.len()
    }

    fn allows(&self, bytes: &[u8]) -> bool {
        let rest = &self.lead[self.n_written()..];
        match bytes.get(rest.len()) {
            Some(first) => {
                bytes.starts_with(rest) && !first.is_ascii_whitespace() && *first != b'`'
            }
            None => !bytes.is_empty() && rest.starts_with(bytes),
        }
    }
}

impl Constraint for Lead {
    fn next(&mut self) -> Need<'_> {
        if self.is_done() {
            return Need::Free;
        }
        if self.mask.is_none() {
            let mut mask = TokenMask::none(self.vocabulary.len());
            for id in (0..self.vocabulary.len() as u32).map(TokenId) {
                if self.allows_token(id) {
                    mask.allow(id);
                }
            }
            self.mask = Some(mask);
        }
        match &self.mask {
            Some(mask) if !mask.is_empty() => Need::Mask(mask),
            _ => Need::DeadEnd(DeadEnd::AllRejected { offset: self.n_written() }),
        }
    }

    fn check(&mut self, token: TokenId) -> Verdict {
        let allowed = self.is_done() || self.allows_token(token);
        if allowed { Verdict::Accept } else { Verdict::Reject }
    }

    fn accept(&mut self, token: TokenId) -> Result<(), ConstraintError> {
        if !self.is_done() && !self.allows_token(token) {
            return Err(ConstraintError::Forbidden { token: token.0, offset: self.n_written() });
        }
        let n = match self.trigger == Some(token) {
            true => 1,
            false => self.vocabulary.token_bytes(token).len(),
        };
        self.written.push((self.n_written() + n).min(self.lead.len() + 1));
        self.mask = None;
        Ok(())
    }

    fn supply(&mut self, _: &Candidates, _: Duration) {}

    fn note_wanted(&mut self, _: TokenId) {}

    fn rollback(&mut self, n_tokens: usize) -> Result<(), ConstraintError> {
        let n_left = self.written.len().checked_sub(n_tokens).filter(|&n| n > 0);
        let n_left = n_left
            .ok_or(ConstraintError::RollbackTooFar { n_tokens, kept: self.written.len() - 1 })?;
        self.written.truncate(n_left);
        self.mask = None;
        Ok(())
    }

    fn rollback_max(&self) -> usize {
        self.written.len() - 1
    }

    fn inside_name(&self) -> bool {
        false
    }

    fn forced(&mut self) -> Vec<u8> {
        self.lead.get(self.n_written()..).unwrap_or_default().to_vec()
    }

    fn report(&self) -> GuideReport {
        GuideReport::default()
    }

    fn clone_box(&self) -> Box<dyn Constraint> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: [&[u8]; 9] = [b"", b" ", b"  ", b" a", b"  a", b"a", b"\n", b" \n", b" ```"];

    fn allowed(lead: &[u8], accepted: &[u32]) -> Option<Vec<u32>> {
        let vocabulary = Vocabulary::new(TOKENS, &[TokenId(0)]).expect("a vocabulary");
        let mut constraint = Lead::new(Arc::new(vocabulary), lead);
        for &id in accepted {
            constraint.accept(TokenId(id)).expect("allowed");
        }
        match constraint.next() {
            Need::Mask(mask) => Some((0..9).filter(|&i| mask.is_allowed(TokenId(i))).collect()),
            Need::Free => None,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_text_begins_with_its_lead_and_then_with_code() {
        assert_eq!(allowed(b" ", &[]), Some(vec![1, 3]));
        assert_eq!(allowed(b" ", &[1]), Some(vec![5]));
        assert_eq!(allowed(b"  ", &[]), Some(vec![1, 2, 4]));
        assert_eq!(allowed(b"", &[]), Some(vec![5]));
        assert_eq!(allowed(b" ", &[3]), None, "free once code has begun");
    }

    #[test]
    fn forbidden_tokens_are_refused_and_tokens_can_be_taken_back() {
        let vocabulary = Vocabulary::new(TOKENS, &[]).expect("a vocabulary");
        let mut constraint = Lead::new(Arc::new(vocabulary), *b" ");
        assert_eq!(constraint.check(TokenId(6)), Verdict::Reject);
        assert!(constraint.accept(TokenId(6)).is_err());
        constraint.accept(TokenId(3)).expect("allowed");
        assert_eq!(constraint.check(TokenId(6)), Verdict::Accept);
        constraint.rollback(1).expect("one token");
        assert_eq!(constraint.check(TokenId(6)), Verdict::Reject);
        assert!(constraint.rollback(1).is_err());
    }
}
