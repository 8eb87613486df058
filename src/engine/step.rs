//! The step loop: admit, lay out rows, run the decoder, choose tokens for every sequence that has logits.
//!
//! # Place
//! Part of `engine`.

use super::EngineError;
use super::choose::{Choice, Logits};
use super::draft::Drafter;
use super::logprobs::TokenLogprobs;
use super::sampler::Sampler;
use super::sequence::{FinishReason, Request, Sequence, State};
use super::stop::StopScan;
use crate::base::{Candidates, SeqId, TokenId, limit};
use crate::constrain::{AskAt, Constraint, Vocabulary};
use crate::device::{Backend, SeqRows, StepRows};
use crate::kv::{BlockPool, BlockTable};
use crate::model::{Adapter, AdapterId, AdapterRows, Decoder, ModelError, StepInput};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The tokens a model would write for some bytes; they spell exactly those bytes, or there are none.
pub type Encode = Arc<Encoder>;
pub(super) type Encoder = dyn Fn(&[u8]) -> Vec<TokenId> + Send + Sync;

/// What an engine needs to know beyond its model.
#[derive(Clone, Copy, Debug)]
pub struct EngineConfig {
    /// Most sequences in one step; at most the decoder's `logit_rows_max`.
    pub seqs_max: usize,
    /// Rows of one step that prompts may take. Results do not depend on it.
    pub prefill_rows_max: usize,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self { seqs_max: limit::STEP_SEQS_MAX, prefill_rows_max: limit::STEP_ROWS_MAX }
    }
}

/// What happened to a sequence.
#[non_exhaustive]
pub enum Event {
    /// A token was chosen; `bytes` can no longer be taken back by a stop string (often empty).
    Token { seq: SeqId, id: TokenId, bytes: Vec<u8>, logprobs: Option<Box<TokenLogprobs>> },
    /// The constraint wants names. Answer with [`Engine::supply`]; the forward pass goes on meanwhile.
    /// `written` is the generated text and whatever of the token being checked comes before the cursor.
    Ask { seq: SeqId, at: AskAt, written: Vec<u8> },
    /// The sequence is gone. `rest` is the text that was held back.
    Finished {
        seq: SeqId,
        reason: FinishReason,
        rest: Vec<u8>,
        n_prompt: usize,
        n_generated: usize,
        constraint: Option<Box<dyn Constraint>>,
    },
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Rows were run, or a token was chosen.
    Ran,
    /// Every sequence waits for an answer.
    Waiting,
    /// There are no sequences.
    Idle,
}

/// Where the time of all steps went.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepTimes {
    pub n_steps: u64,
    pub n_rows: u64,
    /// Tokens chosen.
    pub n_tokens: u64,
    /// Tokens that were fed before they were chosen, and how many of them were chosen then.
    pub n_drafted: u64,
    pub n_draft_taken: u64,
    pub model: Duration,
    pub sample: Duration,
    /// Inside constraints: masks, checks and bookkeeping.
    pub constraint: Duration,
}

/// A model with the sequences that run on it.
pub struct Engine {
    pub(super) backend: Box<dyn Backend>,
    pub(super) decoder: Decoder,
    pub(super) vocabulary: Arc<Vocabulary>,
    config: EngineConfig,
    pub(super) pool: BlockPool,
    pub(super) encode: Option<Encode>,
    pub(super) seqs: Vec<Sequence>,
    next_id: u64,
    pub(super) times: StepTimes,
}

impl Engine {
    /// An engine over a loaded decoder. `vocabulary` gives the bytes of every token and the ids that
    /// end a text.
    pub fn new(
        backend: Box<dyn Backend>,
        decoder: Decoder,
        vocabulary: Arc<Vocabulary>,
        config: EngineConfig,
    ) -> Self {
        let limits = *decoder.limits();
        assert!(config.seqs_max > 0 && config.seqs_max <= limits.logit_rows_max);
        assert!(config.prefill_rows_max > 0 && config.prefill_rows_max <= limits.rows_max);
        Self {
            backend,
            decoder,
            vocabulary,
            config,
            pool: BlockPool::new(limits.kv_blocks, limits.kv_block_tokens),
            encode: None,
            seqs: Vec::new(),
            next_id: 0,
            times: StepTimes::default(),
        }
    }

    /// How names are cut into tokens, for drafts and for policies that look at whole names. Without it
    /// names are neither drafted nor scored.
    pub fn set_encoder(&mut self, encode: Encode) {
        self.encode = Some(encode);
    }

    pub fn backend(&self) -> &dyn Backend {
        self.backend.as_ref()
    }

    pub fn backend_mut(&mut self) -> &mut dyn Backend {
        self.backend.as_mut()
    }

    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Put an adapter beside the weights, for requests that name it; see [`Decoder::add_adapter`].
    ///
    /// # Errors
    /// As [`Decoder::add_adapter`].
    pub fn add_adapter(
        &mut self,
        adapter: &Adapter,
        n_base: usize,
    ) -> Result<AdapterId, ModelError> {
        self.decoder.add_adapter(self.backend.as_mut(), adapter, n_base)
    }

    pub fn times(&self) -> StepTimes {
        self.times
    }

    /// Forget the times so far (after a warm-up).
    pub fn reset_times(&mut self) {
        self.times = StepTimes::default();
    }

    /// Free and existing cache blocks.
    pub fn cache_blocks(&self) -> (usize, usize) {
        (self.pool.n_free(), self.pool.n_blocks())
    }

    /// Queue a request. With `n` samples their ids are consecutive, from the one returned on.
    ///
    /// # Errors
    /// Empty prompts, parameters out of range, prompts that do not fit the context (with both numbers)
    /// or that the cache can never hold.
    pub fn submit(&mut self, request: Request) -> Result<SeqId, EngineError> {
        let Request { prompt, params, constraint, stop_rule, selection, explain, adapter } =
            request;
        params.validate()?;
        let n_tokens_max = self.room_for(&prompt, &params, adapter)?;
        let n_blocks_max = self.pool.blocks_for(n_tokens_max - 1);
        let n_forks = params.n - 1;
        let n_blocks =
            n_blocks_max + n_forks * (n_blocks_max - prompt.len() / self.pool.block_tokens());
        if n_blocks > self.pool.n_blocks() {
            let block = self.pool.block_tokens();
            return Err(EngineError::CacheTooSmall {
                need_tokens: n_blocks * block,
                cache_tokens: self.pool.n_blocks() * block,
            });
        }
        let id = SeqId(self.next_id);
        self.next_id += params.n as u64;
        let seed = params.seed.unwrap_or_else(fresh_seed);
        let spelled = |t: &u32| self.vocabulary.token_bytes(TokenId(*t));
        let drafter = params.speculate.then(|| {
            let text: Vec<u8> = match &constraint {
                Some(_) => prompt.iter().flat_map(spelled).copied().collect(),
                None => Vec::new(), // only constrained names are guessed from words
            };
            Box::new(Drafter::new(&prompt, &text))
        });
        self.seqs.push(Sequence {
            id,
            n_prompt: prompt.len(),
            tokens: prompt,
            n_tokens_max,
            n_blocks_max,
            n_forks,
            seed,
            table: BlockTable::new(),
            state: State::Waiting,
            sampler: Sampler::new(seed),
            scan: StopScan::new(&params.stop, stop_rule),
            params,
            selection,
            explain,
            adapter,
            constraint,
            drafter,
            draft: Vec::new(),
            pending: None,
            asked: false,
            wants_policy: false,
            policy_at: None,
            logprobs: None,
        });
        Ok(id)
    }

    /// Most tokens that a request can come to hold.
    fn room_for(
        &self,
        prompt: &[u32],
        params: &super::SamplingParams,
        adapter: Option<AdapterId>,
    ) -> Result<usize, EngineError> {
        if prompt.is_empty() {
            return Err(EngineError::EmptyPrompt);
        }
        let config = self.decoder.config();
        let n_adapters = self.decoder.n_adapters();
        if adapter.is_some_and(|a| a.0 as usize >= n_adapters) {
            return Err(EngineError::NoSuchAdapter { n_adapters });
        }
        if let Some(&token) = prompt.iter().find(|&&t| !self.decoder.reads(adapter, t)) {
            return Err(EngineError::NoSuchToken { token, vocab: config.vocab });
        }
        let wanted = params.max_tokens.unwrap_or(1);
        // The last generated token is never fed, so it needs no room.
        let n_needed = prompt.len().saturating_add(wanted);
        if n_needed > config.context + 1 || prompt.len() > config.context {
            return Err(EngineError::ContextOverflow {
                prompt_tokens: prompt.len(),
                wanted_tokens: wanted,
                context_tokens: config.context,
            });
        }
        let cache_tokens = self.pool.n_blocks() * self.pool.block_tokens();
        let n_tokens_max = match params.max_tokens {
            Some(_) => n_needed,
            None => (config.context + 1).min(cache_tokens + 1),
        };
        if n_tokens_max - 1 > cache_tokens || prompt.len() > cache_tokens {
            return Err(EngineError::CacheTooSmall { need_tokens: n_tokens_max - 1, cache_tokens });
        }
        Ok(n_tokens_max)
    }

    /// End a sequence now; its cache is free when this returns. Unknown ids are ignored.
    pub fn cancel(&mut self, seq: SeqId, events: &mut Vec<Event>) {
        if let Some(i) = self.seqs.iter().position(|s| s.id == seq) {
            self.finish(i, FinishReason::Cancelled, events);
        }
    }

    /// The answer to an [`Event::Ask`], and how long it took. Unknown ids are ignored.
    pub fn supply(&mut self, seq: SeqId, answer: &Candidates, took: Duration) {
        if let Some(s) = self.seqs.iter_mut().find(|s| s.id == seq)
            && let Some(constraint) = &mut s.constraint
        {
            constraint.supply(answer, took);
            s.asked = false;
        }
    }

    /// Run one step and report what happened.
    ///
    /// # Errors
    /// Only when the device is lost; every sequence is lost with it.
    pub fn step(&mut self, events: &mut Vec<Event>) -> Result<Progress, EngineError> {
        if self.seqs.is_empty() {
            return Ok(Progress::Idle);
        }
        let mut ran = self.resume_parked(events)?;
        self.admit();
        ran |= self.run_rows(events)?;
        Ok(match (ran, self.seqs.is_empty()) {
            (true, _) => Progress::Ran,
            (false, true) => Progress::Idle,
            (false, false) => Progress::Waiting,
        })
    }

    /// Choose tokens for sequences whose answer has come.
    fn resume_parked(&mut self, events: &mut Vec<Event>) -> Result<bool, EngineError> {
        let mut any = false;
        let mut i = 0;
        while i < self.seqs.len() {
            let seq = &mut self.seqs[i];
            if seq.asked || !matches!(seq.state, State::Parked { .. }) {
                i += 1;
                continue;
            }
            any = true;
            let State::Parked { mut logits } = std::mem::replace(&mut seq.state, State::Running)
            else {
                continue;
            };
            let is_there = if std::mem::take(&mut seq.wants_policy) {
                self.run_policy(i, logits, events)?
            } else {
                let choice = self.choose(i, Logits::Host(&mut logits), events)?;
                self.apply(i, choice, Some(logits), events)
            };
            i += usize::from(is_there);
        }
        Ok(any)
    }

    /// Let waiting sequences in, first come first served, while the blocks they may need are free.
    fn admit(&mut self) {
        let is_in = |s: &Sequence| !matches!(s.state, State::Waiting);
        let mut n_in: usize = self.seqs.iter().filter(|s| is_in(s)).map(|s| 1 + s.n_forks).sum();
        let mut n_promised = self.n_promised();
        for seq in &mut self.seqs {
            if is_in(seq) {
                continue;
            }
            let need = seq.n_promised(&self.pool);
            let n_new = 1 + seq.n_forks;
            // More samples than fit beside each other still run: they take turns in the steps.
            let fits = n_in + n_new <= self.config.seqs_max || n_in == 0;
            if !fits || need + n_promised > self.pool.n_free() {
                break;
            }
            n_promised += need;
            seq.state = State::Running;
            n_in += n_new;
        }
    }

    /// Blocks promised to admitted sequences beyond those they hold.
    pub(super) fn n_promised(&self) -> usize {
        let admitted = self.seqs.iter().filter(|s| !matches!(s.state, State::Waiting));
        admitted.map(|s| s.n_promised(&self.pool)).sum()
    }

    /// Feed tokens of running sequences: those that generate first, then chunks of prompts.
    fn run_rows(&mut self, events: &mut Vec<Event>) -> Result<bool, EngineError> {
        let limits = *self.decoder.limits();
        let mut picked: Vec<(usize, usize)> = Vec::new(); // (sequence, rows)
        let (mut n_rows, mut n_logit_rows) = (0, 0);
        let mut prefill_left = self.config.prefill_rows_max;
        let running = |s: &Sequence| matches!(s.state, State::Running) && s.n_to_feed() > 0;
        for decode in [true, false] {
            for (i, seq) in self.seqs.iter().enumerate() {
                if !running(seq) || (seq.n_to_feed() == 1) != decode {
                    continue;
                }
                let room = limits.rows_max - n_rows;
                let n =
                    if decode { 1.min(room) } else { seq.n_to_feed().min(room).min(prefill_left) };
                let ends = usize::from(n == seq.n_to_feed());
                if n == 0 || n_logit_rows + ends > limits.logit_rows_max {
                    continue;
                }
                if !decode {
                    prefill_left -= n;
                }
                picked.push((i, n));
                n_rows += n;
                n_logit_rows += ends;
            }
        }
        if picked.is_empty() {
            return Ok(false);
        }
        picked.sort_unstable();
        n_rows +=
            self.draft(&picked, limits.logit_rows_max - n_logit_rows, limits.rows_max - n_rows);
        let with_logits = self.forward(&picked, n_rows)?;

        // A sequence that ends leaves the list, so go from the back.
        for &(i, row) in with_logits.iter().rev() {
            self.fork(i, row)?;
            self.verify(i, row, events)?;
        }
        Ok(true)
    }

    /// Choose tokens from the rows of a sequence, as long as they are those that were fed already.
    fn verify(
        &mut self,
        i: usize,
        first_row: usize,
        events: &mut Vec<Event>,
    ) -> Result<(), EngineError> {
        let draft = std::mem::take(&mut self.seqs[i].draft);
        let mut n_taken = 0;
        loop {
            let row = first_row + n_taken;
            let choice = self.choose(i, Logits::Device { row }, events)?;
            let host = match choice {
                Choice::Wait => Some(self.host_logits(row)?),
                _ => None,
            };
            let token = choice.token();
            if !self.apply(i, choice, host, events) {
                self.times.n_draft_taken += n_taken as u64;
                return Ok(());
            }
            if token.is_none() || token != draft.get(n_taken).copied() {
                break;
            }
            n_taken += 1;
        }
        self.times.n_draft_taken += n_taken as u64;
        let seq = &mut self.seqs[i];
        seq.table.commit(&self.pool, n_taken);
        if let Some(drafter) = &mut seq.drafter {
            drafter.learn(draft.len(), n_taken);
        }
        Ok(())
    }

    /// One decoder step; returns (sequence, first logits row) for the sequences that are fully fed.
    /// Drafts are fed behind them, one logits row for each, and are not counted as cached.
    fn forward(
        &mut self,
        picked: &[(usize, usize)],
        n_rows: usize,
    ) -> Result<Vec<(usize, usize)>, EngineError> {
        let started = Instant::now();
        let (mut ids, mut positions) = (Vec::with_capacity(n_rows), Vec::with_capacity(n_rows));
        let mut slots = Vec::with_capacity(n_rows);
        let mut logit_rows = Vec::new();
        let mut with_logits = Vec::new();
        for &(i, n) in picked {
            let seq = &mut self.seqs[i];
            let n_fed = n + seq.draft.len();
            seq.table.reserve(&mut self.pool, n_fed)?;
            let past = seq.table.n_tokens();
            let tokens = seq.tokens[past..past + n].iter().chain(&seq.draft);
            for (p, &token) in (past..).zip(tokens) {
                ids.push(token);
                positions.push(p as u32);
                slots.push(seq.table.slot(&self.pool, p));
            }
            if past + n == seq.tokens.len() {
                with_logits.push((i, logit_rows.len()));
                let n_rows = ids.len() as u32;
                logit_rows.extend(n_rows - seq.draft.len() as u32 - 1..n_rows);
            }
            self.times.n_drafted += seq.draft.len() as u64;
        }
        let mut first_row = 0;
        let seqs: Vec<SeqRows<'_>> = picked
            .iter()
            .map(|&(i, n)| {
                let Sequence { table, draft, .. } = &self.seqs[i];
                let rows = SeqRows {
                    first_row,
                    n_rows: n + draft.len(),
                    past: table.n_tokens(),
                    blocks: table.blocks(),
                    tree: None,
                };
                first_row += rows.n_rows;
                rows
            })
            .collect();
        let rows =
            StepRows { n_rows: ids.len(), positions: &positions, slots: &slots, seqs: &seqs };
        let adapters = adapter_rows(&seqs, picked.iter().map(|&(i, _)| self.seqs[i].adapter));
        let input = StepInput { ids: &ids, rows, logit_rows: &logit_rows, adapters: &adapters };
        self.decoder.step(self.backend.as_mut(), &input)?;
        if !logit_rows.is_empty() {
            self.backend.wait()?; // its time is the model's, not that of whoever reads first
        }
        for &(i, n) in picked {
            self.seqs[i].table.commit(&self.pool, n);
        }
        self.times.n_steps += 1;
        self.times.n_rows += ids.len() as u64;
        self.times.model += started.elapsed();
        Ok(with_logits)
    }

    /// Give the samples of a request sequences of their own, once its prompt is cached: they share its
    /// blocks, and choose their first token from the same logits.
    fn fork(&mut self, i: usize, row: usize) -> Result<(), EngineError> {
        let n_forks = std::mem::take(&mut self.seqs[i].n_forks);
        if n_forks == 0 {
            return Ok(());
        }
        let logits = self.host_logits(row)?;
        for k in 1..=n_forks as u64 {
            let mut fork = self.seqs[i].fork(&mut self.pool, k);
            // Its half-full last block is its own from the start, so nothing is ever written to a
            // shared one.
            let pairs = fork.table.make_writable(&mut self.pool)?;
            self.backend.copy_blocks(self.decoder.kv(), &pairs)?;
            fork.state = State::Parked { logits: logits.clone() };
            self.seqs.push(fork);
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, i: usize, reason: FinishReason, events: &mut Vec<Event>) {
        let mut seq = self.seqs.remove(i);
        seq.table.clear(&mut self.pool);
        let (n_prompt, n_forks) = (seq.n_prompt, seq.n_forks);
        events.push(Event::Finished {
            seq: seq.id,
            rest: seq.scan.release_all().to_vec(),
            n_prompt,
            n_generated: seq.n_generated(),
            reason: reason.clone(),
            constraint: seq.constraint,
        });
        // Samples that never began end with it.
        for k in 1..=n_forks as u64 {
            events.push(Event::Finished {
                seq: SeqId(seq.id.0 + k),
                rest: Vec::new(),
                n_prompt,
                n_generated: 0,
                reason: reason.clone(),
                constraint: None,
            });
        }
    }
}

/// Rows with an adapter, those of neighbours with the same one together.
fn adapter_rows(
    seqs: &[SeqRows<'_>],
    adapters: impl Iterator<Item = Option<AdapterId>>,
) -> Vec<AdapterRows> {
    let mut all: Vec<AdapterRows> = Vec::new();
    for (rows, adapter) in seqs.iter().zip(adapters) {
        let Some(adapter) = adapter else { continue };
        let (first_row, n_rows) = (rows.first_row, rows.n_rows);
        match all.last_mut() {
            Some(last) if last.adapter == adapter && last.first_row + last.n_rows == first_row => {
                last.n_rows += n_rows;
            }
            _ => all.push(AdapterRows { first_row, n_rows, adapter }),
        }
    }
    all
}

/// A seed that differs from call to call.
fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}
