//! The arguments that say how text is sampled.
//!
//! # Place
//! Part of `cli`; shared by the verbs that write text.

use crate::engine::SamplingParams;

/// How to choose tokens.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Sampling")]
pub(super) struct SamplingArgs {
    /// Divides the logits; 0 always takes the most likely token.
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    temperature: f32,
    /// Keep only the K most likely tokens; 0 keeps all.
    #[arg(long, value_name = "K", default_value_t = 0)]
    top_k: usize,
    /// Keep the most likely tokens that reach this probability together.
    #[arg(long, value_name = "P", default_value_t = 1.0, allow_negative_numbers = true)]
    top_p: f32,
    /// Keep tokens at least P times as likely as the best one.
    #[arg(long, value_name = "P", default_value_t = 0.0, allow_negative_numbers = true)]
    min_p: f32,
    /// Make tokens that were already written less likely; 1 changes nothing.
    #[arg(long, value_name = "X", default_value_t = 1.0, allow_negative_numbers = true)]
    repetition_penalty: f32,
    /// Repeat a sampled text; a fresh seed otherwise.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// End before this text (may be given several times).
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Guess what comes next and confirm several tokens in one pass; the text stays the same.
    #[arg(long, value_enum, default_value_t = Speculate::Auto)]
    speculate: Speculate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Speculate {
    /// Whatever is quicker as a rule: on.
    Auto,
    On,
    Off,
}

impl SamplingArgs {
    pub(super) fn params(&self, max_tokens: Option<usize>) -> SamplingParams {
        SamplingParams {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            seed: self.seed,
            max_tokens,
            stop: self.stop.clone(),
            ignore_eos: false,
            speculate: self.speculate != Speculate::Off,
            ..SamplingParams::greedy()
        }
    }
}
