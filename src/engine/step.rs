//! The step loop: admit, lay out rows, run the decoder, choose a token for every sequence that has logits.
//!
//! # Place
//! Part of `engine`.

use super::EngineError;
use super::sampler::Sampler;
use super::sequence::{FinishReason, Request, Sequence, State};
use super::stop::StopScan;
use crate::base::{Candidates, SeqId, TokenId, limit};
use crate::constrain::{AskAt, Constraint, Need, TokenMask, Verdict, Vocabulary};
use crate::device::{Backend, SeqRows, StepRows};
use crate::kv::{BlockPool, BlockTable};
use crate::model::{Decoder, StepInput};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

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
    Token { seq: SeqId, id: TokenId, bytes: Vec<u8> },
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
    pub model: Duration,
    pub sample: Duration,
    /// Inside constraints: masks, checks and bookkeeping.
    pub constraint: Duration,
}

/// A model with the sequences that run on it.
pub struct Engine {
    pub(super) backend: Box<dyn Backend>,
    pub(super) decoder: Decoder,
    vocabulary: Arc<Vocabulary>,
    config: EngineConfig,
    pub(super) pool: BlockPool,
    /// Blocks promised to admitted sequences beyond those they hold.
    n_promised: usize,
    seqs: Vec<Sequence>,
    next_id: u64,
    times: StepTimes,
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
            n_promised: 0,
            seqs: Vec::new(),
            next_id: 0,
            times: StepTimes::default(),
        }
    }

    pub fn backend(&self) -> &dyn Backend {
        self.backend.as_ref()
    }

    pub fn decoder(&self) -> &Decoder {
        &self.decoder
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

    /// Queue a request.
    ///
    /// # Errors
    /// Empty prompts, parameters out of range, prompts that do not fit the context (with both numbers)
    /// or that the cache can never hold.
    pub fn submit(&mut self, request: Request) -> Result<SeqId, EngineError> {
        let Request { prompt, params, constraint, stop_rule } = request;
        params.validate()?;
        if prompt.is_empty() {
            return Err(EngineError::EmptyPrompt);
        }
        let config = self.decoder.config();
        if let Some(&token) = prompt.iter().find(|&&t| t as usize >= config.vocab) {
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
        let id = SeqId(self.next_id);
        self.next_id += 1;
        let seed = params.seed.unwrap_or_else(fresh_seed);
        self.seqs.push(Sequence {
            id,
            n_prompt: prompt.len(),
            tokens: prompt,
            n_tokens_max,
            table: BlockTable::new(),
            state: State::Waiting,
            sampler: Sampler::new(seed),
            scan: StopScan::new(&params.stop, stop_rule),
            params,
            constraint,
            pending: None,
            asked: false,
        });
        Ok(id)
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
            let choice = self.choose(i, Logits::Host(&mut logits), events)?;
            i += usize::from(self.apply(i, choice, Some(logits), events));
        }
        Ok(any)
    }

    /// Let waiting sequences in, first come first served, while the blocks they may need are free.
    fn admit(&mut self) {
        let mut n_in = self.seqs.iter().filter(|s| !matches!(s.state, State::Waiting)).count();
        for seq in &mut self.seqs {
            if !matches!(seq.state, State::Waiting) {
                continue;
            }
            let need = self.pool.blocks_for(seq.n_tokens_max - 1);
            if n_in == self.config.seqs_max || need + self.n_promised > self.pool.n_free() {
                break;
            }
            self.n_promised += need;
            seq.state = State::Running;
            n_in += 1;
        }
    }

    /// Feed tokens of running sequences: one each for those that generate, then chunks of prompts.
    fn run_rows(&mut self, events: &mut Vec<Event>) -> Result<bool, EngineError> {
        let rows_max = self.decoder.limits().rows_max;
        let mut picked: Vec<(usize, usize)> = Vec::new(); // (sequence, rows)
        let mut n_rows = 0;
        let mut prefill_left = self.config.prefill_rows_max;
        let running = |s: &Sequence| matches!(s.state, State::Running) && s.n_to_feed() > 0;
        for decode in [true, false] {
            for (i, seq) in self.seqs.iter().enumerate() {
                if !running(seq) || (seq.n_to_feed() == 1) != decode {
                    continue;
                }
                let room = rows_max - n_rows;
                let n =
                    if decode { 1.min(room) } else { seq.n_to_feed().min(room).min(prefill_left) };
                if n == 0 {
                    continue;
                }
                if !decode {
                    prefill_left -= n;
                }
                picked.push((i, n));
                n_rows += n;
            }
        }
        if picked.is_empty() {
            return Ok(false);
        }
        picked.sort_unstable();
        let with_logits = self.forward(&picked, n_rows)?;

        // A sequence that ends leaves the list, so go from the back.
        for &(i, row) in with_logits.iter().rev() {
            let choice = self.choose(i, Logits::Device { row }, events)?;
            let host = match choice {
                Choice::Wait => Some(self.host_logits(row)?),
                _ => None,
            };
            self.apply(i, choice, host, events);
        }
        Ok(true)
    }

    /// One decoder step; returns (sequence, logits row) for the sequences that are fully fed.
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
            let n_before = seq.table.blocks().len();
            seq.table.reserve(&mut self.pool, n)?;
            self.n_promised -= seq.table.blocks().len() - n_before;
            let past = seq.table.n_tokens();
            for p in past..past + n {
                ids.push(seq.tokens[p]);
                positions.push(p as u32);
                slots.push(seq.table.slot(&self.pool, p));
            }
            if past + n == seq.tokens.len() {
                with_logits.push((i, logit_rows.len()));
                logit_rows.push(ids.len() as u32 - 1);
            }
        }
        let mut first_row = 0;
        let seqs: Vec<SeqRows<'_>> = picked
            .iter()
            .map(|&(i, n)| {
                let table = &self.seqs[i].table;
                let rows = SeqRows {
                    first_row,
                    n_rows: n,
                    past: table.n_tokens(),
                    blocks: table.blocks(),
                    tree: None,
                };
                first_row += n;
                rows
            })
            .collect();
        let rows = StepRows { n_rows, positions: &positions, slots: &slots, seqs: &seqs };
        let input = StepInput { ids: &ids, rows, logit_rows: &logit_rows };
        self.decoder.step(self.backend.as_mut(), &input)?;
        for &(i, n) in picked {
            self.seqs[i].table.commit(&self.pool, n);
        }
        self.times.n_steps += 1;
        self.times.n_rows += n_rows as u64;
        self.times.model += started.elapsed();
        Ok(with_logits)
    }

    fn host_logits(&mut self, row: usize) -> Result<Vec<f32>, EngineError> {
        let v = self.decoder.config().vocab;
        let mut out = vec![0.0; v];
        self.backend.read(self.decoder.logits(), row * v, &mut out)?;
        Ok(out)
    }

    /// Choose a token for a sequence that has logits.
    fn choose(
        &mut self,
        i: usize,
        mut logits: Logits<'_>,
        events: &mut Vec<Event>,
    ) -> Result<Choice, EngineError> {
        let started = Instant::now();
        let spent_before = self.times.constraint;
        let outcome = loop {
            // A token sampled earlier whose answer has come is checked again first.
            let token = match self.seqs[i].pending.take() {
                Some(token) => token,
                None => match self.draw(i, &mut logits, events)? {
                    Ok(token) => token,
                    Err(choice) => break choice,
                },
            };
            let seq = &mut self.seqs[i];
            let Some(constraint) = seq.constraint.as_mut() else {
                break Choice::Token(token);
            };
            let checking = Instant::now();
            let verdict = guarded(|| constraint.check(TokenId(token)));
            self.times.constraint += checking.elapsed();
            match verdict {
                Err(problem) => break Choice::Finish(FinishReason::Failed { problem }),
                Ok(Verdict::Accept) => break Choice::Token(token),
                // The next mask leaves the token out.
                Ok(Verdict::Reject) => {}
                Ok(Verdict::Ask(at)) => {
                    seq.pending = Some(token);
                    seq.ask(at, events);
                    break Choice::Wait;
                }
            }
        };
        let constraint = self.times.constraint - spent_before;
        self.times.sample += started.elapsed().saturating_sub(constraint);
        Ok(outcome)
    }

    /// Sample one token under the constraint's mask.
    fn draw(
        &mut self,
        i: usize,
        logits: &mut Logits<'_>,
        events: &mut Vec<Event>,
    ) -> Result<Result<u32, Choice>, EngineError> {
        let Sequence { constraint, params, sampler, tokens, .. } = &mut self.seqs[i];
        let n_valid = self.vocabulary.len().min(self.decoder.config().vocab);
        let asking = Instant::now();
        let need = match constraint.as_mut() {
            None => Ok(Need::Free),
            Some(c) => guarded(|| c.next()),
        };
        self.times.constraint += asking.elapsed();
        let mask = match need {
            Err(problem) => return Ok(Err(Choice::Finish(FinishReason::Failed { problem }))),
            Ok(Need::Free) => None,
            Ok(Need::Mask(mask)) => Some(mask),
            Ok(Need::Ask(at)) => {
                self.seqs[i].ask(at, events);
                return Ok(Err(Choice::Wait));
            }
            Ok(Need::DeadEnd(end)) => {
                let reason = end.to_string();
                return Ok(Err(Choice::Finish(FinishReason::DeadEnd { reason })));
            }
        };
        let words = mask.map(TokenMask::words);
        let (v, buffer) = (self.decoder.config().vocab, self.decoder.logits());
        let greedy = params.is_greedy() && params.repetition_penalty == 1.0;
        let backend = self.backend.as_mut();
        let mut best = |words: Option<&[u32]>| -> Result<Option<u32>, EngineError> {
            match logits {
                Logits::Device { row } => Ok(backend.argmax(buffer, v, *row, n_valid, words)?),
                Logits::Host(values) => Ok(host_argmax(&values[..n_valid], words)),
            }
        };
        // What an unguided model would write here, for the record.
        let barred = match mask {
            None => None,
            Some(mask) => best(None)?.map(TokenId).filter(|&id| !mask.is_allowed(id)),
        };
        let token = if greedy {
            best(words)?
        } else {
            let mut values = match logits {
                Logits::Host(values) => values.to_vec(),
                Logits::Device { row } => {
                    let mut out = vec![0.0; v];
                    backend.read(buffer, *row * v, &mut out)?;
                    out
                }
            };
            values.truncate(n_valid);
            sampler.sample(&mut values, params, tokens, words)
        };
        if let (Some(id), Some(c)) = (barred, constraint.as_mut()) {
            c.note_wanted(id);
        }
        Ok(token.ok_or_else(|| {
            let reason = "no token with a usable probability is allowed here".to_owned();
            Choice::Finish(FinishReason::DeadEnd { reason })
        }))
    }

    /// Carry out a choice. True when the sequence is still in the list.
    fn apply(
        &mut self,
        i: usize,
        choice: Choice,
        host_logits: Option<Vec<f32>>,
        events: &mut Vec<Event>,
    ) -> bool {
        match choice {
            Choice::Wait => {
                let logits = host_logits.expect("whoever waits brings its logits");
                self.seqs[i].state = State::Parked { logits };
                true
            }
            Choice::Finish(reason) => {
                self.finish(i, reason, events);
                false
            }
            Choice::Token(token) => match self.take_token(i, token, events) {
                None => true,
                Some(reason) => {
                    self.finish(i, reason, events);
                    false
                }
            },
        }
    }

    /// Append a token to a sequence; says why the sequence ends, if it does.
    fn take_token(
        &mut self,
        i: usize,
        token: u32,
        events: &mut Vec<Event>,
    ) -> Option<FinishReason> {
        let vocabulary = Arc::clone(&self.vocabulary);
        let id = TokenId(token);
        let context = self.decoder.config().context;
        let seq = &mut self.seqs[i];
        if let Some(constraint) = seq.constraint.as_mut() {
            let accepting = Instant::now();
            let outcome = guarded(|| constraint.accept(id));
            self.times.constraint += accepting.elapsed();
            let outcome = outcome.and_then(|r| r.map_err(|e| e.to_string()));
            if let Err(problem) = outcome {
                return Some(FinishReason::Failed { problem });
            }
        }
        let ends = vocabulary.is_eos(id) && !seq.params.ignore_eos;
        seq.tokens.push(token);
        let stopped = !ends && seq.scan.push(vocabulary.token_bytes(id));
        let bytes = if ends || stopped { Vec::new() } else { seq.scan.release().to_vec() };
        events.push(Event::Token { seq: seq.id, id, bytes });
        if ends || stopped {
            return Some(FinishReason::Stop);
        }
        if seq.params.max_tokens.is_some_and(|n| seq.n_generated() >= n) {
            return Some(FinishReason::Length);
        }
        if seq.tokens.len() > context {
            return Some(FinishReason::Context);
        }
        if seq.tokens.len() >= seq.n_tokens_max {
            return Some(FinishReason::Length);
        }
        // Ask early: the forward pass of this token runs while the tool works.
        let asking = Instant::now();
        let need = seq.constraint.as_mut().map(|c| guarded(|| c.next()));
        if let Some(Ok(Need::Ask(at))) = need {
            seq.ask(at, events);
        }
        self.times.constraint += asking.elapsed();
        None
    }

    fn finish(&mut self, i: usize, reason: FinishReason, events: &mut Vec<Event>) {
        let mut seq = self.seqs.remove(i);
        if !matches!(seq.state, State::Waiting) {
            let promised = self.pool.blocks_for(seq.n_tokens_max - 1);
            self.n_promised -= promised - seq.table.blocks().len();
        }
        seq.table.clear(&mut self.pool);
        events.push(Event::Finished {
            seq: seq.id,
            rest: seq.scan.release_all().to_vec(),
            n_prompt: seq.n_prompt,
            n_generated: seq.n_generated(),
            reason,
            constraint: seq.constraint,
        });
    }
}

/// Where a sequence's logits are.
enum Logits<'a> {
    Device { row: usize },
    Host(&'a mut Vec<f32>),
}

enum Choice {
    Token(u32),
    /// The constraint needs an answer first.
    Wait,
    Finish(FinishReason),
}

fn host_argmax(logits: &[f32], mask: Option<&[u32]>) -> Option<u32> {
    let mut best: Option<(u32, f32)> = None;
    for (id, &value) in (0u32..).zip(logits) {
        let allowed = mask.is_none_or(|m| m[id as usize / 32] >> (id % 32) & 1 == 1);
        if allowed && !value.is_nan() && best.is_none_or(|(_, b)| value > b) {
            best = Some((id, value));
        }
    }
    best.map(|(id, _)| id)
}

/// A panic inside one request's constraint ends that request, not its neighbours.
fn guarded<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .map(|s| (*s).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned());
        format!("the constraint failed: {}", text.unwrap_or_else(|| "unknown panic".to_owned()))
    })
}

/// A seed that differs from call to call.
fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}
