//! `tether profile`: how fast a model runs here, and where the time goes.
//!
//! # Place
//! Part of `cli`.

use crate::base::limit;
use crate::cli::Outcome;
use crate::cli::env::Environment;
use crate::cli::model_args::ModelArgs;
use crate::cli::output::{message, print, print_json, table};
use crate::profile::{
    KernelSum, ProfileConfig, ProfileReport, Samples, Timeline, by_kernel, chrome_trace, profile,
};
use crate::runtime::{Ceilings, Model, RuntimeError, ceilings};
use anyhow::Context;
use serde_json::{Value, json};
use std::path::PathBuf;

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
    /// Sequences that run side by side; rates are of all of them together. Several numbers, with commas between them,
    /// are measured one after the other; those that the device has no memory for are left out.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1")]
    batch: Vec<usize>,
    /// Time every kernel in one more repetition and list them.
    #[arg(long)]
    kernels: bool,
    /// With --kernels: measure what the device can do at best, and set each kernel beside it.
    #[arg(long, requires = "kernels")]
    ceilings: bool,
    /// Write the timeline of one repetition, which Perfetto and chrome://tracing open.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print JSON with every sample.
    #[arg(long)]
    json: bool,
}

pub(in crate::cli) fn run(args: &Args, env: &Environment) -> anyhow::Result<Outcome> {
    anyhow::ensure!(args.prompt_tokens > 0, "--prompt-tokens is 0; at least 1 is needed");
    anyhow::ensure!(args.gen_tokens > 0, "--gen-tokens is 0; at least 1 is needed");
    anyhow::ensure!(args.reps > 0, "--reps is 0; at least 1 is needed");
    let most = limit::STEP_SEQS_MAX;
    if let Some(n) = args.batch.iter().find(|&&n| n == 0 || n > most) {
        anyhow::bail!("--batch is {n}; 1 to {most} was expected");
    }
    let is_timed = args.kernels || args.trace.is_some();
    anyhow::ensure!(
        !is_timed || args.batch.len() == 1,
        "--kernels and --trace show one batch; give --batch one number"
    );
    // Before the model takes the memory.
    let ceilings = if args.ceilings {
        let (device, threads) = args.model.device();
        Some(ceilings(device, threads, env.home.as_deref())?)
    } else {
        None
    };
    let mut model = load(args, env)?;
    let (_, n_blocks) = model.engine().cache_blocks();
    let fit_tokens = n_blocks * limit::KV_BLOCK_TOKENS;
    let mut rows = Vec::with_capacity(args.batch.len());
    for &batch in &args.batch {
        let need = ProfileConfig::cache_tokens(batch, args.prompt_tokens, args.gen_tokens);
        if args.batch.len() > 1 && need > fit_tokens {
            let skipped = format!("{need} tokens of cache are needed and {fit_tokens} fit");
            rows.push(Err((batch, skipped)));
            continue;
        }
        let vocab = model.tokenizer().len().min(30_000);
        let config = ProfileConfig {
            prompts: (0..batch).map(|i| prompt_ids(args.prompt_tokens, vocab, i)).collect(),
            gen_tokens: args.gen_tokens,
            reps: args.reps,
            is_timed,
            adapter: model.current_adapter(),
        };
        rows.push(Ok(profile(model.engine_mut(), &config)?));
    }
    match rows.as_slice() {
        [Ok(report)] => show(args, report, &model, ceilings.as_ref())?,
        _ if args.json => {
            let row = |row: &Row| match row {
                Ok(report) => as_json(report, &model),
                Err((batch, reason)) => json!({ "batch": batch, "skipped": reason }),
            };
            print_json(&json!({ "rows": rows.iter().map(row).collect::<Vec<_>>() }))?;
        }
        _ => print(&batches_table(&rows, &model))?,
    }
    Ok(Outcome::Fine)
}

/// A measured batch, or one that was left out and why.
type Row = Result<ProfileReport, (usize, String)>;

/// A cache for the largest batch; where several are asked for and that is too much, what fits.
fn load(args: &Args, env: &Environment) -> anyhow::Result<Model> {
    let n = args.batch.iter().copied().max().unwrap_or(1);
    let cache = ProfileConfig::cache_tokens(n, args.prompt_tokens, args.gen_tokens);
    let loaded = args.model.load_batch(env, cache, n);
    match loaded.as_ref().map_err(|e| e.downcast_ref::<RuntimeError>()) {
        Err(Some(&RuntimeError::CacheTooLarge { fit_tokens, .. })) if args.batch.len() > 1 => {
            args.model.load_batch(env, fit_tokens, n)
        }
        _ => loaded,
    }
}

/// One batch, with its kernels and timeline where they were asked for.
fn show(
    args: &Args,
    report: &ProfileReport,
    model: &Model,
    ceilings: Option<&Ceilings>,
) -> anyhow::Result<()> {
    let timeline = report.timeline.as_ref();
    if let (Some(path), Some(timeline)) = (&args.trace, timeline) {
        let trace = chrome_trace(timeline, model.engine().backend().name());
        let text = serde_json::to_vec(&trace)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if args.kernels && timeline.is_some_and(|t| t.kernels.is_empty()) {
        let name = model.engine().backend().name();
        message(&format!("{name} has no kernels to time; --trace shows its steps"));
    }
    let kernels = timeline.filter(|_| args.kernels);
    if args.json {
        let mut json = as_json(report, model);
        if let Some(timeline) = kernels {
            json["kernels"] = kernels_json(timeline, ceilings);
        }
        return print_json(&json);
    }
    print(&as_table(report, model))?;
    kernels.map_or(Ok(()), |timeline| print(&kernels_table(timeline, ceilings)))
}

fn batches_table(rows: &[Row], model: &Model) -> String {
    let number = |v: Option<f64>| v.map_or_else(|| "–".to_owned(), |v| format!("{v:.1}"));
    let of = |row: &Row| match row {
        Ok(r) => vec![
            r.batch.to_string(),
            number(r.prefill_tokens_per_s.median()),
            number(r.decode_tokens_per_s.median()),
            number(r.token_ms.median()),
            String::new(),
        ],
        Err((batch, reason)) => {
            let none = || "–".to_owned();
            vec![batch.to_string(), none(), none(), none(), reason.clone()]
        }
    };
    let header = ["batch", "prefill, tokens/s", "decode, tokens/s", "token, ms", ""];
    let rows: Vec<Vec<String>> = rows.iter().map(of).collect();
    let (path, device) = (model.files().path().display(), model.engine().backend().description());
    format!("{path}\n{device}\n\n{}", table(&header, &rows, &[0, 1, 2, 3]))
}

const PHASES: [&str; 2] = ["prefill", "decode"];

/// Kernels of each phase, with their share of what the device can do at best.
fn kernels_json(timeline: &Timeline, ceilings: Option<&Ceilings>) -> Value {
    let of = |phase: &str| -> Vec<Value> {
        let row = |sum: &KernelSum| {
            let share = |rate: Option<f64>, of: fn(&Ceilings) -> f64| {
                rate.zip(ceilings).map(|(rate, ceilings)| rate / of(ceilings))
            };
            json!({
                "name": sum.name,
                "runs": sum.n_runs,
                "us": sum.us,
                "bytes": sum.bytes,
                "ops": sum.ops,
                "bytes_per_s": sum.bytes_per_s(),
                "ops_per_s": sum.ops_per_s(),
                "share_of_copy": share(sum.bytes_per_s(), |c| c.copy_bytes_per_s),
                "share_of_product": share(sum.ops_per_s(), Ceilings::best_product),
            })
        };
        by_kernel(&timeline.kernels_of(phase)).iter().map(row).collect()
    };
    json!({ PHASES[0]: of(PHASES[0]), PHASES[1]: of(PHASES[1]) })
}

fn kernels_table(timeline: &Timeline, ceilings: Option<&Ceilings>) -> String {
    let number =
        |v: Option<f64>, unit: f64| v.map_or("–".to_owned(), |v| format!("{:.2}", v / unit));
    let percent = |rate: Option<f64>, of: Option<f64>| {
        rate.zip(of).map_or("–".to_owned(), |(rate, of)| format!("{:.0} %", 100.0 * rate / of))
    };
    let mut text = String::new();
    for phase in PHASES {
        let sums = by_kernel(&timeline.kernels_of(phase));
        let all: f64 = sums.iter().map(|s| s.us).sum();
        let row = |s: &KernelSum| {
            vec![
                s.name.to_owned(),
                s.n_runs.to_string(),
                format!("{:.3}", s.us / 1e3),
                format!("{:.0} %", 100.0 * s.us / all.max(1e-9)),
                number(s.bytes_per_s(), 1e9),
                percent(s.bytes_per_s(), ceilings.map(|c| c.copy_bytes_per_s)),
                number(s.ops_per_s(), 1e9),
                percent(s.ops_per_s(), ceilings.map(Ceilings::best_product)),
            ]
        };
        let header = [phase, "runs", "ms", "share", "GB/s", "of copy", "Gop/s", "of product"];
        let rows: Vec<Vec<String>> = sums.iter().map(row).collect();
        if !rows.is_empty() {
            text += &format!("\n{}", table(&header, &rows, &[1, 2, 3, 4, 5, 6, 7]));
        }
    }
    text
}

/// Any ordinary ids: the time of a dense model does not depend on them.
fn prompt_ids(n: usize, vocab: usize, seq: usize) -> Vec<u32> {
    let first = vocab / 30;
    let span = (vocab - first).max(1);
    (0..n).map(|i| (first + (37 * i + 101 * seq) % span) as u32).collect()
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
        "adapters": model.adapters().map(|a| a.name()).collect::<Vec<_>>(),
        "batch": report.batch,
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
        "{}\n{}\n{} sequences, {} prompt tokens, {} generated, {} repetitions\n\n{rates}\ntoken, ms: 90 % {}, 99 % {}\n\
         where a token's time goes, ms: model {:.3}, sampling {:.3}, masks {:.3}, tool {:.3}\n\
         cold first token: {:.1} ms\n",
        model.files().path().display(),
        model.engine().backend().description(),
        report.batch,
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
