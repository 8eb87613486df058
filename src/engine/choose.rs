//! Choosing one token for one sequence: mask, sample, check, append.
//!
//! # Place
//! Part of `engine`. Works on a row of logits, on the device or copied to the host.

use super::logprobs::TokenLogprobs;
use super::sequence::{FinishReason, Sequence, State};
use super::{Engine, EngineError, Event};
use crate::base::TokenId;
use crate::constrain::{Constraint, Need, TokenMask, Verdict};
use crate::device::{Backend, BufferId};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

impl Engine {
    pub(super) fn host_logits(&mut self, row: usize) -> Result<Vec<f32>, EngineError> {
        let v = self.decoder.config().vocab;
        let mut out = vec![0.0; v];
        self.backend.read(self.decoder.logits(), row * v, &mut out)?;
        Ok(out)
    }

    /// Choose a token for a sequence that has logits.
    pub(super) fn choose(
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
        if self.wants_policy(i) {
            return Ok(Err(Choice::Wait));
        }
        let n_valid = self.n_valid();
        let Sequence { constraint, params, sampler, tokens, explain, logprobs, .. } =
            &mut self.seqs[i];
        let asking = Instant::now();
        let decides = constraint.as_ref().is_some_and(|c| c.decides());
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
        let (v, buffer) = (self.decoder.config().vocab, self.decoder.logits());
        let greedy = params.is_greedy() && params.repetition_penalty == 1.0;
        let mut row = Row { logits, backend: self.backend.as_mut(), buffer, v, n_valid };
        if let (true, None) = (decides, mask) {
            let decided = constraint.as_mut().map(|c| row.decided(c.as_mut())).transpose()?;
            let (chosen, values) = match decided.unwrap_or(Ok((None, Vec::new()))) {
                Ok(chosen) => chosen,
                Err(problem) => return Ok(Err(Choice::Finish(FinishReason::Failed { problem }))),
            };
            let record = |(top, id)| Box::new(TokenLogprobs::new(&values, None, id, top));
            *logprobs = params.logprobs.zip(chosen).map(record);
            return Ok(chosen.map(|id| id.0).ok_or_else(nothing_allowed));
        }
        let wanted = Wanted { n_top: params.logprobs, is_recorded: *explain && mask.is_some() };
        let mut sample = |values: &[f32]| {
            sampler.sample(&mut values.to_vec(), params, tokens, mask.map(TokenMask::words))
        };
        let drawn = match greedy {
            true => row.best_drawn(mask, wanted)?,
            false => row.drawn(mask, wanted, &mut sample)?,
        };
        if let Some(c) = constraint.as_mut() {
            let record = drawn.record.as_ref().filter(|_| wanted.is_recorded);
            note(c.as_mut(), drawn.barred, record);
        }
        *logprobs = drawn.record.filter(|_| wanted.n_top.is_some()).map(Box::new);
        Ok(drawn.token.ok_or_else(nothing_allowed))
    }

    /// Carry out a choice. True when the sequence is still in the list.
    pub(super) fn apply(
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
        self.times.n_tokens += 1;
        let is_hidden = seq.constraint.as_ref().is_some_and(|c| c.hides(id));
        let shown = if is_hidden { &[][..] } else { vocabulary.token_bytes(id) };
        let stopped = !ends && seq.scan.push(shown);
        let bytes = if ends || stopped { Vec::new() } else { seq.scan.release().to_vec() };
        let logprobs = seq.logprobs.take();
        events.push(Event::Token { seq: seq.id, id, bytes, logprobs });
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
}

/// Where a sequence's logits are.
pub(super) enum Logits<'a> {
    Device { row: usize },
    Host(&'a mut Vec<f32>),
}

pub(super) enum Choice {
    Token(u32),
    /// The constraint needs an answer first.
    Wait,
    Finish(FinishReason),
}

impl Choice {
    /// The token, if one was chosen.
    pub(super) fn token(&self) -> Option<u32> {
        match self {
            Self::Token(token) => Some(*token),
            Self::Wait | Self::Finish(_) => None,
        }
    }
}

/// Tell a constraint what its mask kept out, and how likely the token is that it let through.
fn note(constraint: &mut dyn Constraint, barred: Option<TokenId>, records: Option<&TokenLogprobs>) {
    if let Some(id) = barred {
        constraint.note_wanted(id);
    }
    if let Some(records) = records {
        constraint.note_probability(records.log_prob, records.log_prob_allowed);
    }
}

fn nothing_allowed() -> Choice {
    let reason = "no token with a usable probability is allowed here".to_owned();
    Choice::Finish(FinishReason::DeadEnd { reason })
}

/// What a token's choice must leave behind: a record with the likeliest tokens, and one for the constraint.
#[derive(Clone, Copy)]
struct Wanted {
    n_top: Option<usize>,
    is_recorded: bool,
}

/// The token, what an unguided model would write if the mask forbids that, and the record of the token if one is wanted.
struct Drawn {
    token: Option<u32>,
    barred: Option<TokenId>,
    record: Option<TokenLogprobs>,
}

/// A token chosen by probability and the row that was looked at; the reason when that failed.
type Decided = Result<(Option<TokenId>, Vec<f32>), String>;

/// A sequence's logits and what it takes to look at them.
struct Row<'a, 'l> {
    logits: &'a mut Logits<'l>,
    backend: &'a mut dyn Backend,
    buffer: BufferId,
    v: usize,
    n_valid: usize,
}

impl Row<'_, '_> {
    fn best(&mut self, mask: Option<&[u32]>) -> Result<Option<u32>, EngineError> {
        let Self { buffer, v, n_valid, .. } = *self;
        match self.logits {
            Logits::Device { row } => Ok(self.backend.argmax(buffer, v, *row, n_valid, mask)?),
            Logits::Host(values) => Ok(host_argmax(&values[..n_valid], mask)),
        }
    }

    /// The most likely token. Where the device can tell everything that is wanted, the row stays there.
    fn best_drawn(
        &mut self,
        mask: Option<&TokenMask>,
        wanted: Wanted,
    ) -> Result<Drawn, EngineError> {
        if (mask.is_some() || wanted.n_top.is_some())
            && let Some(drawn) = self.on_device(mask, wanted.n_top.unwrap_or(0))?
        {
            return Ok(drawn);
        }
        let words = mask.map(TokenMask::words);
        if wanted.n_top.is_none() && !wanted.is_recorded {
            let barred = self.barred(mask)?;
            return Ok(Drawn { token: self.best(words)?, barred, record: None });
        }
        let best = self.best(words)?;
        self.drawn(mask, wanted, &mut |_| best)
    }

    /// A token that `choose` takes from the row.
    fn drawn(
        &mut self,
        mask: Option<&TokenMask>,
        wanted: Wanted,
        choose: &mut dyn FnMut(&[f32]) -> Option<u32>,
    ) -> Result<Drawn, EngineError> {
        let barred = self.barred(mask)?;
        let values = self.values()?;
        let token = choose(&values);
        let n_top = wanted.n_top.unwrap_or(0);
        let record = token.map(|id| TokenLogprobs::new(&values, mask, TokenId(id), n_top));
        Ok(Drawn { token, barred, record })
    }

    /// What an unguided model would write here, if the mask forbids it.
    fn barred(&mut self, mask: Option<&TokenMask>) -> Result<Option<TokenId>, EngineError> {
        let Some(mask) = mask else { return Ok(None) };
        Ok(self.best(None)?.map(TokenId).filter(|&id| !mask.is_allowed(id)))
    }

    fn on_device(
        &mut self,
        mask: Option<&TokenMask>,
        n_top: usize,
    ) -> Result<Option<Drawn>, EngineError> {
        let Logits::Device { row } = *self.logits else { return Ok(None) };
        let Self { buffer, v, n_valid, .. } = *self;
        let words = mask.map(TokenMask::words);
        let Some(found) = self.backend.top(buffer, v, row, n_valid, words, n_top.max(1))? else {
            return Ok(None);
        };
        let likeliest = found.likeliest.first().map(|&(id, _)| TokenId(id));
        let barred = likeliest.filter(|&id| mask.is_some_and(|mask| !mask.is_allowed(id)));
        let record = found.best.map(|(_, logit)| TokenLogprobs::of_top(&found, mask, logit, n_top));
        Ok(Some(Drawn { token: found.best.map(|(id, _)| id), barred, record }))
    }

    /// The token that a constraint chooses by probability, and the row it saw; the reason when it fails.
    fn decided(&mut self, constraint: &mut dyn Constraint) -> Result<Decided, EngineError> {
        let values = self.values()?;
        Ok(match guarded(|| constraint.choose(&values)) {
            Err(problem) => Err(problem),
            Ok(Some(id)) => Ok((Some(id), values)),
            Ok(None) => Ok((self.best(None)?.map(TokenId), values)),
        })
    }

    fn values(&mut self) -> Result<Vec<f32>, EngineError> {
        match self.logits {
            Logits::Host(values) => Ok(values[..self.n_valid].to_vec()),
            Logits::Device { row } => {
                let mut out = vec![0.0; self.n_valid];
                self.backend.read(self.buffer, *row * self.v, &mut out)?;
                Ok(out)
            }
        }
    }
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
