//! One request while it runs.
//!
//! # Place
//! Part of `engine`.

use super::sampler::Sampler;
use super::stop::StopScan;
use super::{Event, SamplingParams, StopRule};
use crate::base::SeqId;
use crate::constrain::{AskAt, Constraint};
use crate::kv::BlockTable;

/// What a caller asks the engine to write.
pub struct Request {
    pub prompt: Vec<u32>,
    pub params: SamplingParams,
    /// Restricts what may be written.
    pub constraint: Option<Box<dyn Constraint>>,
    /// Ends the text by looking at it.
    pub stop_rule: Option<Box<dyn StopRule>>,
}

impl Request {
    /// Plain text after `prompt`.
    pub fn new(prompt: Vec<u32>, params: SamplingParams) -> Self {
        Self { prompt, params, constraint: None, stop_rule: None }
    }
}

/// Why a sequence ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FinishReason {
    /// The model wrote an end-of-sequence token, a stop string came, or a stop rule was met.
    Stop,
    /// `max_tokens` were written.
    Length,
    /// The context is full.
    Context,
    /// The constraint allows no token here.
    DeadEnd {
        reason: String,
    },
    Cancelled,
    /// Something went wrong inside this request.
    Failed {
        problem: String,
    },
}

impl FinishReason {
    /// The spelling used in JSON.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Context => "context",
            Self::DeadEnd { .. } => "constraint_dead_end",
            Self::Cancelled => "cancelled",
            Self::Failed { .. } => "failed",
        }
    }
}

/// Where a sequence stands.
#[derive(Debug)]
pub(super) enum State {
    /// Not admitted yet: no cache is reserved for it.
    Waiting,
    /// Has tokens to feed: the rest of its prompt, or the token chosen last.
    Running,
    /// Its logits are there but the constraint needs an answer before a token can be chosen. The
    /// logits are copied, since the device's buffer belongs to the next step.
    Parked { logits: Vec<f32> },
}

pub(super) struct Sequence {
    pub(super) id: SeqId,
    /// Prompt and generated tokens; the first `table.n_tokens()` are cached.
    pub(super) tokens: Vec<u32>,
    pub(super) n_prompt: usize,
    /// Most tokens the sequence can come to hold; its blocks are promised at admission.
    pub(super) n_tokens_max: usize,
    pub(super) table: BlockTable,
    pub(super) state: State,
    pub(super) params: SamplingParams,
    pub(super) sampler: Sampler,
    pub(super) constraint: Option<Box<dyn Constraint>>,
    pub(super) scan: StopScan,
    /// The sampled token that waits for an answer.
    pub(super) pending: Option<u32>,
    /// An answer was asked for and has not come.
    pub(super) asked: bool,
}

impl Sequence {
    pub(super) fn n_generated(&self) -> usize {
        self.tokens.len() - self.n_prompt
    }

    /// Pass a question of the constraint on, once.
    pub(super) fn ask(&mut self, at: AskAt, events: &mut Vec<Event>) {
        if !std::mem::replace(&mut self.asked, true) {
            let mut written = self.scan.text().to_vec();
            written.extend_from_slice(&at.pending);
            events.push(Event::Ask { seq: self.id, at, written });
        }
    }

    /// Tokens not cached yet.
    pub(super) fn n_to_feed(&self) -> usize {
        self.tokens.len() - self.table.n_tokens()
    }
}
