//! The seam between decoding and whatever restricts it: what to sample from, and what a token would do.
//!
//! # Place
//! Uses `base`. Implemented by guides and grammars, driven by `engine`. No implementation does I/O: a
//! question to a tool goes out as [`Need::Ask`] or [`Verdict::Ask`] and its answer comes in through
//! [`Constraint::supply`].
//! # Invariants
//! - One constraint belongs to one sequence; a fork gets its own clone.
//! - The order of calls for one token: `next` until it does not ask; sample; `check` until it does not ask
//!   (supplying in between); on `Reject` start over with `next`, whose mask now excludes the token; on
//!   `Accept` call `accept` once.
//! - Only an answer that is `Closed` forbids anything.

use std::sync::Arc;
use std::time::Duration;

use crate::base::{Candidates, TokenId};

use super::{
    ConstraintError, GuideEvent, GuideStats, NameAutomaton, NameState, PlaceKind, TokenMask,
};

/// What the constraint needs before the next token is sampled.
#[derive(Debug)]
pub enum Need<'a> {
    /// Any token may be sampled, control tokens included.
    Free,
    /// Sample among these; at least one is allowed.
    Mask(&'a TokenMask),
    /// Ask the tool first, then call `next` again.
    Ask(AskAt),
    /// No token can follow: end the request with this reason and its text so far.
    DeadEnd(DeadEnd),
}

/// Whether a sampled token may be appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Accept,
    /// Sample again: the next mask leaves this token out.
    Reject,
    /// The token runs over the beginning of a name: ask the tool, then check again.
    Ask(AskAt),
}

/// Where a tool is to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskAt {
    pub kind: PlaceKind,
    /// Byte offset of the cursor in the whole text (prompt and continuation): right where the name
    /// begins. What is already typed after it is in `typed`.
    pub offset: usize,
    /// Bytes of the token being checked that belong before the cursor: append them to the accepted
    /// text to get the text up to `offset`.
    pub pending: Vec<u8>,
    /// The part of the name that is already there.
    pub typed: Vec<u8>,
}

/// Why nothing can follow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeadEnd {
    #[error(
        "no token of the vocabulary continues `{typed}` to one of the {n_names} names that exist at byte {offset}"
    )]
    NoTokenForName { typed: String, n_names: usize, offset: usize },
    #[error("every token at byte {offset} was sampled and rejected")]
    AllRejected { offset: usize },
    #[error("the grammar cannot go on at byte {offset}: {problem}")]
    Grammar { offset: usize, problem: String },
    #[error("the text ended at byte {offset}")]
    Ended { offset: usize },
    #[error("no token at byte {offset} is allowed by both the grammar and the guide")]
    Disjoint { offset: usize },
    #[error("a token that the constraint forbids was accepted at byte {offset}")]
    Violated { offset: usize },
}

/// A restriction on what one sequence may go on with.
pub trait Constraint: Send {
    /// What is needed to sample the next token.
    fn next(&mut self) -> Need<'_>;

    /// Whether a sampled token may be appended.
    fn check(&mut self, token: TokenId) -> Verdict;

    /// Append a token.
    ///
    /// # Errors
    /// When the token is forbidden; the constraint is then at a dead end until it is rolled back.
    fn accept(&mut self, token: TokenId) -> Result<(), ConstraintError>;

    /// The answer to the last question, and how long it took.
    fn supply(&mut self, candidates: &Candidates, took: Duration);

    /// The token with the highest probability was not allowed here: remember it for the records.
    fn note_wanted(&mut self, token: TokenId);

    /// Take back the last `n_tokens` accepted tokens.
    ///
    /// # Errors
    /// When fewer are remembered.
    fn rollback(&mut self, n_tokens: usize) -> Result<(), ConstraintError>;

    /// Most tokens that [`Constraint::rollback`] can take back now.
    fn rollback_max(&self) -> usize {
        usize::MAX
    }

    /// Whether the cursor is inside something that must be finished (a constrained name): a stop string
    /// or a length limit that falls here cuts it.
    fn inside_name(&self) -> bool;

    /// Bytes that must come next because nothing else is allowed; empty at a branch. Their
    /// tokenisation is the caller's choice, and the last token may run on past them.
    fn forced(&mut self) -> Vec<u8>;

    /// Whether a token is never shown: it steers the guide and is no part of the text.
    fn hides(&self, _token: TokenId) -> bool {
        false
    }

    /// The name being chosen at the cursor, for policies that look at whole names: they evaluate the
    /// candidates and call [`Constraint::narrow`]. `None` outside constrained names and after the
    /// choice.
    fn open_name(&self) -> Option<(Arc<NameAutomaton>, NameState)> {
        None
    }

    /// Only this name may be written at the open name from here on. Ignored when it is not one of the
    /// names that still fit.
    fn narrow(&mut self, _name: &[u8]) {}

    /// Whether tokens are chosen by [`Constraint::choose`].
    fn decides(&self) -> bool {
        false
    }

    /// The next token, for guides that decide by probability instead of by mask; `logits` are those
    /// of the whole vocabulary. Called after `next` returned [`Need::Free`]; `None`: sample as usual.
    fn choose(&mut self, _logits: &[f32]) -> Option<TokenId> {
        None
    }

    /// The token that is about to be checked has these log-probabilities without and with the mask, for
    /// the records. Only told where `next` gave a mask and records are wanted.
    fn note_probability(&mut self, _log_prob: f64, _log_prob_allowed: f64) {}

    /// What happened so far, in order of offset.
    fn report(&self) -> GuideReport;

    /// An independent copy, for forks and speculation.
    fn clone_box(&self) -> Box<dyn Constraint>;
}

/// The events of a guide and their sums.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GuideReport {
    pub events: Vec<Arc<GuideEvent>>,
    pub stats: GuideStats,
}
