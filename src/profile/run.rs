//! The measurement itself: prompts side by side, and then tokens that ignore every end.
//!
//! # Place
//! Part of `profile`.

use super::Samples;
use crate::base::limit;
use crate::device::KernelRun;
use crate::engine::{Engine, EngineError, Event, Progress, Request, SamplingParams};
use crate::model::AdapterId;
use std::time::{Duration, Instant};

/// What to measure.
#[derive(Clone, Debug)]
pub struct ProfileConfig {
    /// Tokens of each sequence's prompt, all of one length.
    pub prompts: Vec<Vec<u32>>,
    pub gen_tokens: usize,
    /// Counted repetitions, after one warm-up.
    pub reps: usize,
    /// Whether one more repetition is run with every kernel timed.
    pub is_timed: bool,
    /// What every sequence runs with.
    pub adapter: Option<AdapterId>,
}

impl ProfileConfig {
    /// Most tokens that a sequence writes: those that come first go on while the others read their prompts.
    fn tokens_max(n_seqs: usize, prompt_tokens: usize, gen_tokens: usize) -> usize {
        let n_steps = (n_seqs * prompt_tokens).div_ceil(limit::STEP_ROWS_MAX) + n_seqs;
        gen_tokens.max(1) + if n_seqs > 1 { n_steps } else { 0 }
    }

    /// Tokens of cache that `n_seqs` sequences need together.
    pub fn cache_tokens(n_seqs: usize, prompt_tokens: usize, gen_tokens: usize) -> usize {
        let each = prompt_tokens + Self::tokens_max(n_seqs, prompt_tokens, gen_tokens);
        n_seqs.saturating_mul(each.next_multiple_of(limit::KV_BLOCK_TOKENS))
    }
}

/// Where the time of the counted repetitions went, in milliseconds per step after the prompts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TimeSplit {
    /// Decoder steps after the first token.
    pub model_ms: f64,
    /// Choosing tokens.
    pub sample_ms: f64,
    /// Masks and checks of constraints.
    pub mask_ms: f64,
    /// Waiting for a completion tool.
    pub tool_ms: f64,
}

/// One engine step on a timeline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepSpan {
    /// `prefill` or `decode`.
    pub name: &'static str,
    pub start_us: f64,
    pub us: f64,
    pub n_rows: u64,
}

/// One repetition with every kernel timed: kernels wait for each other there, so its rates mean nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    pub steps: Vec<StepSpan>,
    /// Empty on devices without kernels of their own.
    pub kernels: Vec<KernelRun>,
}

impl Timeline {
    /// Kernels that ran in the steps of a name.
    pub fn kernels_of(&self, name: &str) -> Vec<KernelRun> {
        let of = |run: &&KernelRun| {
            let middle = run.start_us + run.us / 2.0;
            let step = self.steps.iter().rfind(|step| step.start_us <= middle);
            step.is_some_and(|step| step.name == name)
        };
        self.kernels.iter().filter(of).copied().collect()
    }
}

/// The outcome of a profile.
#[derive(Clone, Debug, Default)]
pub struct ProfileReport {
    pub batch: usize,
    pub prompt_tokens: usize,
    pub gen_tokens: usize,
    /// Over all sequences.
    pub prefill_tokens_per_s: Samples,
    pub decode_tokens_per_s: Samples,
    /// Until every sequence has its first token.
    pub first_token_ms: Samples,
    /// Time between consecutive tokens of all repetitions; each is a token of every sequence.
    pub token_ms: Samples,
    /// First token of the warm-up: page faults, cold caches and all.
    pub cold_first_token_ms: f64,
    pub split: TimeSplit,
    pub timeline: Option<Timeline>,
}

/// Measure a loaded engine.
///
/// # Errors
/// As [`Engine::submit`] and [`Engine::step`].
pub fn profile(engine: &mut Engine, config: &ProfileConfig) -> Result<ProfileReport, EngineError> {
    let batch = config.prompts.len();
    let mut report = ProfileReport {
        batch,
        prompt_tokens: config.prompts.first().map_or(0, Vec::len),
        gen_tokens: config.gen_tokens,
        ..ProfileReport::default()
    };
    let warm_up = repetition(engine, config)?;
    report.cold_first_token_ms = warm_up.first_token_ms;
    let mut split = TimeSplit::default();
    for _ in 0..config.reps {
        let rep = repetition(engine, config)?;
        report.first_token_ms.0.push(rep.first_token_ms);
        let (prefill_s, n_prompt) = (rep.first_token_ms / 1e3, batch * report.prompt_tokens);
        if n_prompt > 1 && prefill_s > 0.0 {
            report.prefill_tokens_per_s.0.push(n_prompt as f64 / prefill_s);
        }
        let decode_s = rep.token_ms.iter().sum::<f64>() / 1e3;
        if !rep.token_ms.is_empty() && decode_s > 0.0 {
            let n_tokens = batch * rep.token_ms.len();
            report.decode_tokens_per_s.0.push(n_tokens as f64 / decode_s);
        }
        report.token_ms.0.extend(&rep.token_ms);
        split.model_ms += rep.split.model_ms;
        split.sample_ms += rep.split.sample_ms;
        split.mask_ms += rep.split.mask_ms;
    }
    let n_steps = report.token_ms.0.len().max(1) as f64;
    report.split = TimeSplit {
        model_ms: split.model_ms / n_steps,
        sample_ms: split.sample_ms / n_steps,
        mask_ms: split.mask_ms / n_steps,
        tool_ms: 0.0,
    };
    if config.is_timed {
        engine.backend_mut().time_kernels(true)?;
        let rep = repetition(engine, config);
        let kernels = engine.backend_mut().kernel_runs();
        engine.backend_mut().time_kernels(false)?;
        report.timeline = Some(Timeline { steps: rep?.steps, kernels });
    }
    Ok(report)
}

struct Repetition {
    first_token_ms: f64,
    token_ms: Vec<f64>,
    /// Sums, not per token.
    split: TimeSplit,
    steps: Vec<StepSpan>,
}

/// All prompts until each has its first token, then steps in which every sequence gets one.
fn repetition(engine: &mut Engine, config: &ProfileConfig) -> Result<Repetition, EngineError> {
    let n_seqs = config.prompts.len();
    let prompt_tokens = config.prompts.first().map_or(0, Vec::len);
    let tokens_max = ProfileConfig::tokens_max(n_seqs, prompt_tokens, config.gen_tokens);
    let started = Instant::now();
    let mut ids = Vec::with_capacity(n_seqs);
    for prompt in &config.prompts {
        let params = SamplingParams {
            max_tokens: Some(tokens_max),
            ignore_eos: true,
            ..SamplingParams::greedy()
        };
        let request = Request { adapter: config.adapter, ..Request::new(prompt.clone(), params) };
        ids.push(engine.submit(request)?);
    }
    let mut rep = Repetition {
        first_token_ms: 0.0,
        token_ms: Vec::with_capacity(config.gen_tokens),
        split: TimeSplit::default(),
        steps: Vec::new(),
    };
    let mut waiting = ids.clone();
    let mut events = Vec::new();
    let mut last = started;
    while !waiting.is_empty() || rep.token_ms.len() + 1 < config.gen_tokens {
        let n_rows = engine.times().n_rows;
        let name = if waiting.is_empty() { "decode" } else { "prefill" };
        if engine.step(&mut events)? != Progress::Ran {
            break;
        }
        let now = Instant::now();
        rep.steps.push(StepSpan {
            name,
            start_us: us(last - started),
            us: us(now - last),
            n_rows: engine.times().n_rows - n_rows,
        });
        if waiting.is_empty() {
            rep.token_ms.push(ms(now - last));
        }
        for event in events.drain(..) {
            if let Event::Token { seq, .. } = event {
                waiting.retain(|&id| id != seq);
            }
        }
        if name == "prefill" && waiting.is_empty() {
            rep.first_token_ms = ms(now - started);
            engine.reset_times();
        }
        last = now;
    }
    let times = engine.times();
    ids.into_iter().for_each(|id| engine.cancel(id, &mut events));
    rep.split.model_ms = ms(times.model);
    rep.split.sample_ms = ms(times.sample);
    rep.split.mask_ms = ms(times.constraint);
    Ok(rep)
}

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}

fn us(d: Duration) -> f64 {
    d.as_secs_f64() * 1e6
}
