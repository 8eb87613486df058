//! `tether profile`: how fast a model runs here, and where the time goes.
//!
//! # Place
//! Part of `cli`.

use crate::cli::Outcome;
use crate::cli::env::Environment;
use crate::cli::model_args::ModelArgs;
use crate::cli::output::{print, print_json, table};
use crate::profile::{ProfileConfig, ProfileReport, Samples, profile};
use crate::runtime::Model;
use serde_json::{Value, json};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// Tokens of the prompt, run as one prefill.
    #[arg(long, value_name = "N", default_value_t = 512)]
    prompt_tokens: usize,
    /// Tokens to generate after it.
    #[arg(long, value_name = "N", default_value_t = 128)]
    gen_tokens: usize,
    /// Counted repetitions, after one warm-up.
    #[arg(long, value_name = "N", default_value_t = 5)]
    reps: usize,
    /// Print JSON with every sample.
    #[arg(long)]
    json: bool,
}

pub(in crate::cli) fn run(args: &Args, env: &Environment) -> anyhow::Result<Outcome> {
    anyhow::ensure!(args.prompt_tokens > 0, "--prompt-tokens is 0; at least 1 is needed");
    anyhow::ensure!(args.gen_tokens > 0, "--gen-tokens is 0; at least 1 is needed");
    anyhow::ensure!(args.reps > 0, "--reps is 0; at least 1 is needed");
    let mut model = args.model.load_for(env, args.prompt_tokens.saturating_add(args.gen_tokens))?;
    let vocab = model.tokenizer().len().min(30_000);
    let config = ProfileConfig {
        prompt: prompt_ids(args.prompt_tokens, vocab),
        gen_tokens: args.gen_tokens,
        reps: args.reps,
    };
    let report = profile(model.engine_mut(), &config)?;
    if args.json {
        print_json(&as_json(&report, &model))?;
    } else {
        print(&as_table(&report, &model))?;
    }
    Ok(Outcome::Fine)
}

/// Any ordinary ids: the time of a dense model does not depend on them.
fn prompt_ids(n: usize, vocab: usize) -> Vec<u32> {
    let first = vocab / 30;
    let span = (vocab - first).max(1);
    (0..n).map(|i| (first + 37 * i % span) as u32).collect()
}

fn as_json(report: &ProfileReport, model: &Model) -> Value {
    let samples = |s: &Samples| json!({ "median": s.median(), "samples": s.0 });
    let percentiles = |s: &Samples| {
        json!({
            "p50": s.percentile(50.0),
            "p90": s.percentile(90.0),
            "p99": s.percentile(99.0),
            "max": s.percentile(100.0),
        })
    };
    json!({
        "model": model.files().path().display().to_string(),
        "device": model.engine().backend().name(),
        "device_description": model.engine().backend().description(),
        "threads": model.threads(),
        "prompt_tokens": report.prompt_tokens,
        "gen_tokens": report.gen_tokens,
        "prefill_tokens_per_s": samples(&report.prefill_tokens_per_s),
        "decode_tokens_per_s": samples(&report.decode_tokens_per_s),
        "first_token_ms": samples(&report.first_token_ms),
        "cold_first_token_ms": report.cold_first_token_ms,
        "token_ms": percentiles(&report.token_ms),
        "split_ms_per_token": {
            "model": report.split.model_ms,
            "sample": report.split.sample_ms,
            "mask": report.split.mask_ms,
            "tool": report.split.tool_ms,
        },
    })
}

fn as_table(report: &ProfileReport, model: &Model) -> String {
    let number = |v: Option<f64>, digits: usize| {
        v.map_or_else(|| "–".to_owned(), |v| format!("{v:.digits$}"))
    };
    let row = |what: &str, s: &Samples, digits: usize| {
        vec![
            what.to_owned(),
            number(s.median(), digits),
            number(s.percentile(0.0), digits),
            number(s.percentile(100.0), digits),
        ]
    };
    let rates = table(
        &["", "median", "min", "max"],
        &[
            row("prefill, tokens/s", &report.prefill_tokens_per_s, 0),
            row("decode, tokens/s", &report.decode_tokens_per_s, 0),
            row("first token, ms", &report.first_token_ms, 1),
            row("token, ms", &report.token_ms, 2),
        ],
        &[1, 2, 3],
    );
    let split = &report.split;
    format!(
        "{}\n{}\n{} prompt tokens, {} generated, {} repetitions\n\n{rates}\ntoken, ms: 90 % {}, 99 % {}\n\
         where a token's time goes, ms: model {:.3}, sampling {:.3}, masks {:.3}, tool {:.3}\n\
         cold first token: {:.1} ms\n",
        model.files().path().display(),
        model.engine().backend().description(),
        report.prompt_tokens,
        report.gen_tokens,
        report.first_token_ms.0.len(),
        number(report.token_ms.percentile(90.0), 2),
        number(report.token_ms.percentile(99.0), 2),
        split.model_ms,
        split.sample_ms,
        split.mask_ms,
        split.tool_ms,
        report.cold_first_token_ms,
    )
}
