//! One request while it runs.
//!
//! # Place
//! Part of `engine`.

use super::draft::Drafter;
use super::logprobs::TokenLogprobs;
use super::sampler::Sampler;
use super::stop::StopScan;
use super::{Event, SamplingParams, Selection, StopRule};
use crate::base::SeqId;
use crate::constrain::{AskAt, Constraint};
use crate::kv::{BlockPool, BlockTable};
use crate::model::AdapterId;

/// What a caller asks the engine to write.
pub struct Request {
    pub prompt: Vec<u32>,
    pub params: SamplingParams,
    /// Restricts what may be written.
    pub constraint: Option<Box<dyn Constraint>>,
    /// Ends the text by looking at it.
    pub stop_rule: Option<Box<dyn StopRule>>,
    /// How a constrained name is chosen.
    pub selection: Selection,
    /// Tell the constraint how likely its names were, for its records. Costs a softmax for every
    /// token of a constrained name.
    pub explain: bool,
    /// The adapter that it runs with, of those that the decoder has.
    pub adapter: Option<AdapterId>,
}

impl Request {
    /// Plain text after `prompt`.
    pub fn new(prompt: Vec<u32>, params: SamplingParams) -> Self {
        Self {
            prompt,
            params,
            constraint: None,
            stop_rule: None,
            selection: Selection::Greedy,
            explain: false,
            adapter: None,
        }
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
    /// Blocks for all of them.
    pub(super) n_blocks_max: usize,
    /// Samples that are still to be forked off when the prompt is cached.
    pub(super) n_forks: usize,
    pub(super) seed: u64,
    pub(super) table: BlockTable,
    pub(super) state: State,
    pub(super) params: SamplingParams,
    pub(super) sampler: Sampler,
    pub(super) constraint: Option<Box<dyn Constraint>>,
    pub(super) selection: Selection,
    pub(super) explain: bool,
    pub(super) adapter: Option<AdapterId>,
    pub(super) scan: StopScan,
    /// Guesses what comes next; `None` without speculation.
    pub(super) drafter: Option<Box<Drafter>>,
    /// Tokens fed in this step before they were chosen.
    pub(super) draft: Vec<u32>,
    /// The sampled token that waits for an answer.
    pub(super) pending: Option<u32>,
    /// An answer was asked for and has not come.
    pub(super) asked: bool,
    /// Parked until a policy has looked at whole names.
    pub(super) wants_policy: bool,
    /// Number of tokens when a policy last looked.
    pub(super) policy_at: Option<usize>,
    /// Of the token chosen last, when asked for.
    pub(super) logprobs: Option<Box<TokenLogprobs>>,
}

impl Sequence {
    /// Sample `k` of the same request. The caller gives it a state and blocks of its own.
    pub(super) fn fork(&self, pool: &mut BlockPool, k: u64) -> Self {
        let seed = self.seed.wrapping_add(k);
        Self {
            id: SeqId(self.id.0 + k),
            tokens: self.tokens.clone(),
            n_prompt: self.n_prompt,
            n_tokens_max: self.n_tokens_max,
            n_blocks_max: self.n_blocks_max,
            n_forks: 0,
            seed,
            table: self.table.fork(pool),
            state: State::Waiting,
            params: self.params.clone(),
            sampler: Sampler::new(seed),
            constraint: self.constraint.as_ref().map(|c| c.clone_box()),
            selection: self.selection,
            explain: self.explain,
            adapter: self.adapter,
            scan: self.scan.fork(),
            drafter: self.drafter.clone(),
            draft: Vec::new(),
            pending: None,
            asked: false,
            wants_policy: false,
            policy_at: None,
            logprobs: None,
        }
    }

    /// Blocks that it, or samples of it that have not begun, may still take.
    pub(super) fn n_promised(&self, pool: &BlockPool) -> usize {
        let shared = self.n_prompt / pool.block_tokens();
        self.n_blocks_max.saturating_sub(self.table.blocks().len())
            + self.n_forks * (self.n_blocks_max - shared)
    }

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
