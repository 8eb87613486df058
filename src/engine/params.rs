//! How one request samples, and when it ends.
//!
//! # Place
//! Part of `engine`.

use super::EngineError;
use crate::base::limit;

/// Sampling settings of one request. `temperature` 0 and `top_k` 1 both mean greedy.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingParams {
    /// Divides the logits; 0 takes the most likely token.
    pub temperature: f32,
    /// Keep the `k` most likely tokens; 0 keeps all.
    pub top_k: usize,
    /// Keep the most likely tokens whose probabilities reach `p` together; 1 keeps all.
    pub top_p: f32,
    /// Keep tokens at least `p` times as likely as the most likely one; 0 keeps all.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of every token already in the sequence
    /// (Keskar et al. 2019, arXiv:1909.05858); 1 changes nothing.
    pub repetition_penalty: f32,
    /// The same seed gives the same text; `None` draws a fresh one.
    pub seed: Option<u64>,
    /// Most tokens to generate; `None` uses the room that the context leaves.
    pub max_tokens: Option<usize>,
    /// Generation ends before any of these; they are not part of the text.
    pub stop: Vec<String>,
    /// Go on past end-of-sequence tokens (they are never part of the text).
    pub ignore_eos: bool,
    /// Texts to write; the samples share the prompt's cache. Sample `k` uses `seed + k`.
    pub n: usize,
    /// Report the log-probability of every token, and of this many of the likeliest.
    pub logprobs: Option<usize>,
    /// Feed likely next tokens before they are chosen. The text stays the same.
    pub speculate: bool,
}

impl SamplingParams {
    /// The most likely token every time, to the end of the context.
    pub fn greedy() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            seed: None,
            max_tokens: None,
            stop: Vec::new(),
            ignore_eos: false,
            n: 1,
            logprobs: None,
            speculate: false,
        }
    }

    pub(super) fn is_greedy(&self) -> bool {
        self.temperature == 0.0 || self.top_k == 1
    }

    /// Check every field against its range.
    ///
    /// # Errors
    /// Names the field, its value and the range.
    pub fn validate(&self) -> Result<(), EngineError> {
        let in_range = |name: &'static str, value: f32, ok: bool, expected: &'static str| {
            if ok && value.is_finite() {
                Ok(())
            } else {
                Err(EngineError::BadParameter { name, value: value.to_string(), expected })
            }
        };
        let t = self.temperature;
        in_range("temperature", t, (0.0..=100.0).contains(&t), "a number from 0 to 100")?;
        let p = self.top_p;
        in_range("top_p", p, (0.0..=1.0).contains(&p), "a number from 0 to 1")?;
        let p = self.min_p;
        in_range("min_p", p, (0.0..=1.0).contains(&p), "a number from 0 to 1")?;
        let r = self.repetition_penalty;
        in_range("repetition_penalty", r, r > 0.0 && r <= 100.0, "a number above 0, up to 100")?;
        let in_count = |name: &'static str, value: usize, ok: bool, expected: &'static str| {
            let error = || EngineError::BadParameter { name, value: value.to_string(), expected };
            ok.then_some(()).ok_or_else(error)
        };
        let (n, top) = (self.n, self.logprobs.unwrap_or(0));
        in_count("n", n, (1..=limit::SAMPLES_MAX).contains(&n), "a number from 1 to 64")?;
        in_count("logprobs", top, top <= limit::LOGPROBS_MAX, "a number from 0 to 100")?;
        if self.stop.iter().any(String::is_empty) {
            return Err(EngineError::BadParameter {
                name: "stop",
                value: "an empty string".to_owned(),
                expected: "stop strings of at least one character",
            });
        }
        Ok(())
    }
}
