//! The measurement itself: one request at a time, a prompt and then tokens that ignore every end.
//!
//! # Place
//! Part of `profile`.

use super::Samples;
use crate::engine::{Engine, EngineError, Event, Progress, Request, SamplingParams};
use std::time::Instant;

/// What to measure.
#[derive(Clone, Debug)]
pub struct ProfileConfig {
    /// Tokens of the prompt; the whole prompt is one prefill.
    pub prompt: Vec<u32>,
    pub gen_tokens: usize,
    /// Counted repetitions, after one warm-up.
    pub reps: usize,
}

/// Where the time of the counted repetitions went, in milliseconds per generated token.
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

/// The outcome of a profile.
#[derive(Clone, Debug, Default)]
pub struct ProfileReport {
    pub prompt_tokens: usize,
    pub gen_tokens: usize,
    pub prefill_tokens_per_s: Samples,
    pub decode_tokens_per_s: Samples,
    pub first_token_ms: Samples,
    /// Time between consecutive tokens of all repetitions.
    pub token_ms: Samples,
    /// First token of the warm-up: page faults, cold caches and all.
    pub cold_first_token_ms: f64,
    pub split: TimeSplit,
}

/// Measure a loaded engine.
///
/// # Errors
/// As [`Engine::submit`] and [`Engine::step`].
pub fn profile(engine: &mut Engine, config: &ProfileConfig) -> Result<ProfileReport, EngineError> {
    let mut report = ProfileReport {
        prompt_tokens: config.prompt.len(),
        gen_tokens: config.gen_tokens,
        ..ProfileReport::default()
    };
    let warm_up = repetition(engine, config)?;
    report.cold_first_token_ms = warm_up.first_token_ms;
    let mut split = TimeSplit::default();
    for _ in 0..config.reps {
        let rep = repetition(engine, config)?;
        report.first_token_ms.0.push(rep.first_token_ms);
        let prefill_s = rep.first_token_ms / 1e3;
        if config.prompt.len() > 1 && prefill_s > 0.0 {
            report.prefill_tokens_per_s.0.push(config.prompt.len() as f64 / prefill_s);
        }
        let decode_s = rep.token_ms.iter().sum::<f64>() / 1e3;
        if !rep.token_ms.is_empty() && decode_s > 0.0 {
            report.decode_tokens_per_s.0.push(rep.token_ms.len() as f64 / decode_s);
        }
        report.token_ms.0.extend(&rep.token_ms);
        split.model_ms += rep.split.model_ms;
        split.sample_ms += rep.split.sample_ms;
        split.mask_ms += rep.split.mask_ms;
    }
    let n_tokens = report.token_ms.0.len().max(1) as f64;
    report.split = TimeSplit {
        model_ms: split.model_ms / n_tokens,
        sample_ms: split.sample_ms / n_tokens,
        mask_ms: split.mask_ms / n_tokens,
        tool_ms: 0.0,
    };
    Ok(report)
}

struct Repetition {
    first_token_ms: f64,
    token_ms: Vec<f64>,
    /// Sums, not per token.
    split: TimeSplit,
}

fn repetition(engine: &mut Engine, config: &ProfileConfig) -> Result<Repetition, EngineError> {
    let params = SamplingParams {
        max_tokens: Some(config.gen_tokens.max(1)),
        ignore_eos: true,
        ..SamplingParams::greedy()
    };
    let started = Instant::now();
    engine.submit(Request::new(config.prompt.clone(), params))?;
    let mut rep = Repetition {
        first_token_ms: 0.0,
        token_ms: Vec::with_capacity(config.gen_tokens),
        split: TimeSplit::default(),
    };
    let mut last: Option<Instant> = None;
    let mut events = Vec::new();
    while engine.step(&mut events)? == Progress::Ran {
        for event in events.drain(..) {
            if !matches!(event, Event::Token { .. }) {
                continue;
            }
            let now = Instant::now();
            match last.replace(now) {
                None => {
                    rep.first_token_ms = ms(now - started);
                    engine.reset_times();
                }
                Some(before) => rep.token_ms.push(ms(now - before)),
            }
        }
    }
    let times = engine.times();
    rep.split.model_ms = ms(times.model);
    rep.split.sample_ms = ms(times.sample);
    rep.split.mask_ms = ms(times.constraint);
    Ok(rep)
}

fn ms(d: std::time::Duration) -> f64 {
    d.as_secs_f64() * 1e3
}
