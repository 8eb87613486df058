//! Running requests to their end: steps the engine, decodes text, and answers questions from a tool.
//!
//! # Place
//! Part of `runtime`; the only place where the engine and a completion tool meet.

use super::RuntimeError;
use crate::base::{Answer, CandidateSource, Candidates, Query, SeqId, limit};
use crate::constrain::{AskAt, GuideReport};
use crate::engine::{Engine, Event, FinishReason, Progress, Request};
use crate::tokenizer::{StreamDecoder, Tokenizer};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The file around the text being written: what a completion tool sees.
#[derive(Clone, Debug)]
pub struct Surroundings {
    pub path: PathBuf,
    /// The file up to where the generated text begins.
    pub before: String,
    /// The file after it.
    pub after: String,
}

/// A request and what its questions are about.
pub(super) struct Work {
    pub(super) request: Request,
    pub(super) surroundings: Option<Surroundings>,
}

/// Times of one request, from its submission.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timings {
    /// Until the first token was chosen.
    pub first_token_ms: f64,
    pub total_ms: f64,
    /// Waiting for the completion tool.
    pub tool_ms: f64,
    /// Prompt tokens until the first token; absent for a prompt of one token.
    pub prefill_tokens_per_s: Option<f64>,
    /// Tokens after the first; absent for fewer than two.
    pub decode_tokens_per_s: Option<f64>,
}

/// What became of one request.
#[derive(Clone, Debug)]
pub struct Output {
    pub text: String,
    pub ids: Vec<u32>,
    pub n_prompt: usize,
    pub reason: FinishReason,
    pub guide: GuideReport,
    pub timings: Timings,
}

struct Running {
    seq: SeqId,
    surroundings: Option<Surroundings>,
    decoder: StreamDecoder,
    text: String,
    ids: Vec<u32>,
    started: Instant,
    first_token: Option<Duration>,
    tool: Duration,
    output: Option<Output>,
}

/// Run all requests; outputs in their order. `on_text` is told (request, new text) as it is certain.
pub(super) fn drive(
    engine: &mut Engine,
    tokenizer: &Tokenizer,
    works: Vec<Work>,
    mut tool: Option<&mut (dyn CandidateSource + '_)>,
    on_text: &mut dyn FnMut(usize, &str),
) -> Result<Vec<Output>, RuntimeError> {
    let mut running = Vec::with_capacity(works.len());
    let mut events = Vec::new();
    for Work { request, surroundings } in works {
        let started = Instant::now();
        let seq = match engine.submit(request) {
            Ok(seq) => seq,
            Err(error) => {
                for r in &running {
                    let r: &Running = r;
                    engine.cancel(r.seq, &mut events);
                }
                return Err(error.into());
            }
        };
        running.push(Running {
            seq,
            surroundings,
            decoder: tokenizer.stream(),
            text: String::new(),
            ids: Vec::new(),
            started,
            first_token: None,
            tool: Duration::ZERO,
            output: None,
        });
    }
    while engine.step(&mut events)? == Progress::Ran {
        for event in events.drain(..) {
            match event {
                Event::Token { seq, id, bytes } => {
                    let (i, r) = find(&mut running, seq);
                    r.first_token.get_or_insert_with(|| r.started.elapsed());
                    r.ids.push(id.0);
                    let text = r.decoder.push_bytes(&bytes);
                    if !text.is_empty() {
                        on_text(i, &text);
                        r.text.push_str(&text);
                    }
                }
                Event::Ask { seq, at, written } => {
                    let (_, r) = find(&mut running, seq);
                    let asked = Instant::now();
                    let answer = answer(&mut tool, r.surroundings.as_ref(), &at, &written);
                    let took = asked.elapsed();
                    r.tool += took;
                    engine.supply(seq, &answer, took);
                }
                Event::Finished { seq, reason, rest, n_prompt, constraint, .. } => {
                    let (i, r) = find(&mut running, seq);
                    let mut text = r.decoder.push_bytes(&rest);
                    text.push_str(&r.decoder.finish());
                    if !text.is_empty() {
                        on_text(i, &text);
                        r.text.push_str(&text);
                    }
                    let guide = constraint.map(|c| c.report()).unwrap_or_default();
                    r.output = Some(r.finished(reason, n_prompt, guide));
                }
            }
        }
    }
    running.into_iter().map(|r| r.output.ok_or(RuntimeError::Stalled)).collect()
}

impl Running {
    fn finished(&mut self, reason: FinishReason, n_prompt: usize, guide: GuideReport) -> Output {
        let total = self.started.elapsed();
        let first = self.first_token.unwrap_or(total);
        let rate = |n: usize, d: Duration| {
            (n > 0 && d > Duration::ZERO).then(|| n as f64 / d.as_secs_f64())
        };
        Output {
            text: std::mem::take(&mut self.text),
            n_prompt,
            reason,
            guide,
            timings: Timings {
                first_token_ms: first.as_secs_f64() * 1e3,
                total_ms: total.as_secs_f64() * 1e3,
                tool_ms: self.tool.as_secs_f64() * 1e3,
                prefill_tokens_per_s: rate(if n_prompt > 1 { n_prompt } else { 0 }, first),
                decode_tokens_per_s: rate(self.ids.len().saturating_sub(1), total - first),
            },
            ids: std::mem::take(&mut self.ids),
        }
    }
}

fn find(running: &mut [Running], seq: SeqId) -> (usize, &mut Running) {
    let i = running.iter().position(|r| r.seq == seq).expect("events are about submitted requests");
    (i, &mut running[i])
}

/// Ask the tool at the cursor of a question; no tool and no file mean no knowledge.
fn answer(
    tool: &mut Option<&mut (dyn CandidateSource + '_)>,
    surroundings: Option<&Surroundings>,
    at: &AskAt,
    written: &[u8],
) -> Candidates {
    let (Some(tool), Some(file)) = (tool, surroundings) else {
        return Candidates::unknown(at.offset, "no completion tool");
    };
    let mut bytes = [file.before.as_bytes(), written].concat();
    bytes.truncate(at.offset);
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    let offset = text.len();
    text.push_str(&file.after);
    let deadline = Instant::now() + Duration::from_millis(limit::TOOL_CALL_MS_MAX);
    let query = Query { path: &file.path, text: &text, offset, deadline };
    let mut candidates = tool.candidates(&query);
    if candidates.answer == Answer::Closed && Instant::now() > deadline {
        candidates = Candidates::timed_out(offset);
    }
    candidates
}
