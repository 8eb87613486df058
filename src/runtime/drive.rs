//! Running requests to their end: steps the engine, decodes text, and answers questions from a tool.
//!
//! # Place
//! Part of `runtime`; the only place where the engine and a completion tool meet.

use super::RuntimeError;
use super::ask::{Asker, ToolTimes, with_asker};
use crate::base::{CandidateSource, SeqId};
use crate::constrain::GuideReport;
use crate::engine::{Engine, Event, FinishReason, Progress, Request, TokenLogprobs};
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
    pub(super) times: ToolTimes,
}

impl Work {
    /// Text that no tool is asked about.
    pub(super) fn plain(request: Request) -> Self {
        Self { request, surroundings: None, times: ToolTimes::default() }
    }
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
    /// One for each token, when the request asked for them.
    pub logprobs: Vec<TokenLogprobs>,
    pub timings: Timings,
}

struct Running {
    seq: SeqId,
    surroundings: Option<Surroundings>,
    times: ToolTimes,
    decoder: StreamDecoder,
    text: String,
    ids: Vec<u32>,
    logprobs: Vec<TokenLogprobs>,
    started: Instant,
    first_token: Option<Duration>,
    tool: Duration,
    output: Option<Output>,
}

/// Run all requests; outputs in their order, the samples of one beside each other. `on_text` is told
/// (output, new text) as it is certain.
pub(super) fn drive(
    engine: &mut Engine,
    tokenizer: &Tokenizer,
    works: Vec<Work>,
    tool: Option<&mut (dyn CandidateSource + '_)>,
    on_text: &mut dyn FnMut(usize, &str),
) -> Result<Vec<Output>, RuntimeError> {
    let mut running = submit(engine, tokenizer, works)?;
    with_asker(tool, running.len(), |asker| run(engine, &mut running, asker, on_text))?;
    running.into_iter().map(|r| r.output.ok_or(RuntimeError::Stalled)).collect()
}

/// Hand all requests to the engine, or none.
fn submit(
    engine: &mut Engine,
    tokenizer: &Tokenizer,
    works: Vec<Work>,
) -> Result<Vec<Running>, RuntimeError> {
    let mut running: Vec<Running> = Vec::with_capacity(works.len());
    for Work { request, surroundings, times } in works {
        let started = Instant::now();
        let n = request.params.n as u64;
        let first = match engine.submit(request) {
            Ok(seq) => seq,
            Err(error) => {
                let mut events = Vec::new();
                for r in &running {
                    engine.cancel(r.seq, &mut events);
                }
                return Err(error.into());
            }
        };
        running.extend((0..n).map(|k| Running {
            seq: SeqId(first.0 + k),
            surroundings: surroundings.clone(),
            times,
            decoder: tokenizer.stream(),
            text: String::new(),
            ids: Vec::new(),
            logprobs: Vec::new(),
            started,
            first_token: None,
            tool: Duration::ZERO,
            output: None,
        }));
    }
    Ok(running)
}

fn run(
    engine: &mut Engine,
    running: &mut [Running],
    asker: &mut Asker<'_>,
    on_text: &mut dyn FnMut(usize, &str),
) -> Result<(), RuntimeError> {
    let mut events = Vec::new();
    loop {
        let progress = engine.step(&mut events)?;
        for event in events.drain(..) {
            take(event, running, asker, on_text);
        }
        let answers = asker.answers(progress == Progress::Waiting);
        if progress != Progress::Ran && answers.is_empty() {
            return Ok(()); // idle; a sequence that waits for nothing is reported as stalled
        }
        for answered in answers {
            let (_, r) = find(running, answered.seq);
            r.tool += answered.took;
            engine.supply(answered.seq, &answered.candidates, answered.took);
        }
    }
}

fn take(
    event: Event,
    running: &mut [Running],
    asker: &mut Asker<'_>,
    on_text: &mut dyn FnMut(usize, &str),
) {
    match event {
        Event::Token { seq, id, bytes, logprobs } => {
            let (i, r) = find(running, seq);
            r.first_token.get_or_insert_with(|| r.started.elapsed());
            r.ids.push(id.0);
            r.logprobs.extend(logprobs.map(|l| *l));
            let text = r.decoder.push_bytes(&bytes);
            if !text.is_empty() {
                on_text(i, &text);
                r.text.push_str(&text);
            }
        }
        Event::Ask { seq, at, written } => {
            let (_, r) = find(running, seq);
            asker.ask(seq, r.surroundings.as_ref(), &at, &written, r.times, r.tool);
        }
        Event::Finished { seq, reason, rest, n_prompt, constraint, .. } => {
            let (i, r) = find(running, seq);
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
            logprobs: std::mem::take(&mut self.logprobs),
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
