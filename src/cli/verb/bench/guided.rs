//! `tether bench guided`: what the guide costs, what it gains, and that it never invents a name.
//!
//! # Place
//! Part of `cli`.

use super::SampleArgs;
use crate::bench::guided::{GuidedRun, Plan};
use crate::cli::Outcome;
use crate::cli::bars;
use crate::cli::env::Environment;
use crate::cli::model_args::ModelArgs;
use crate::cli::output::{message, print, table};
use crate::runtime::{Model, ToolChoice};
use serde::Serialize;
use serde_json::{Value, json};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    sample: SampleArgs,
    /// Functions to write.
    #[arg(long, value_name = "N", default_value_t = 300)]
    functions: usize,
    /// Member accesses to predict, as far as the sample has them.
    #[arg(long, value_name = "N", default_value_t = 600)]
    members: usize,
    /// Most tokens of one body.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 96)]
    max_tokens: usize,
    /// Most tokens of the file that the model is shown.
    #[arg(long, value_name = "N", default_value_t = 512)]
    prompt_tokens_max: usize,
}

/// Tokens that the cache holds, and texts that run beside each other.
const KV_TOKENS: usize = 16384;
const SEQS: usize = 8;

pub(super) fn run(args: &Args, env: &Environment) -> anyhow::Result<Outcome> {
    let positions = args.sample.read()?;
    let mut model = args.model.load_batch(env, KV_TOKENS, SEQS)?;
    let plan = Plan {
        projects: args.sample.projects.clone(),
        functions: args.functions,
        members: args.members,
        max_tokens: args.max_tokens,
        prompt_tokens_max: args.prompt_tokens_max,
    };
    let bar = bars::items((args.functions + args.members) as u64, "measuring");
    let mut open = |package: &str| {
        let project = args.sample.projects.join(package);
        Ok(args.sample.open(env, &project, &ToolChoice::Native)?)
    };
    let run = GuidedRun::measure(&mut model, &positions, &plan, &mut open, &mut || bar.inc(1))?;
    bar.finish_and_clear();
    args.sample.write("functions.jsonl", &lines(&run.samples)?)?;
    args.sample.write("members.jsonl", &lines(&run.accesses)?)?;
    args.sample.write("prompts.jsonl", &lines(&run.tasks)?)?;
    args.sample.write("guided.json", &format!("{:#}\n", summary(&run, &model)))?;
    args.sample.write("guided.md", &text(&run))?;
    print(&text(&run))?;
    for name in run.missing.iter().take(10) {
        message(&format!("written at a constrained place and not listed there: {name}"));
    }
    Ok(if run.is_kept() { Outcome::Fine } else { Outcome::Negative })
}

/// One JSON object a line.
fn lines<T: Serialize>(values: &[T]) -> anyhow::Result<String> {
    let mut text = String::new();
    for value in values {
        text.push_str(&serde_json::to_string(value)?);
        text.push('\n');
    }
    Ok(text)
}

fn summary(run: &GuidedRun, model: &Model) -> Value {
    json!({
        "model": model.fingerprint().to_string(),
        "model_path": model.files().path(),
        "device": model.engine().backend().description(),
        "threads": model.threads(),
        "writing": run.writing(),
        "members": run.members(),
        "constrained_names_checked": run.n_checked,
        "constrained_names_missing": run.missing.len(),
        "bodies_different_among_others": run.n_differ,
        "bodies_different_with_speculation": run.n_speculation_differ,
    })
}

fn text(run: &GuidedRun) -> String {
    let number = |x: Option<f64>| x.map_or_else(|| "–".to_owned(), |x| format!("{x:.3}"));
    let rows: Vec<Vec<String>> = run
        .writing()
        .into_iter()
        .map(|row| {
            vec![
                row.setting.to_owned(),
                row.functions.to_string(),
                number(row.ms_per_token_median),
                number(row.ratio_to_unguided_median),
                number(row.ratio_to_unguided_sums),
                number(Some(row.tokens_per_pass)),
                number(row.wall_ms_median),
            ]
        })
        .collect();
    let header = [
        "setting",
        "functions",
        "ms/token",
        "median ratio",
        "ratio of sums",
        "tokens/pass",
        "ms/function",
    ];
    let mut text = table(&header, &rows, &[1, 2, 3, 4, 5, 6]);
    let rows: Vec<Vec<String>> = run
        .members()
        .into_iter()
        .map(|row| {
            vec![
                row.setting.to_owned(),
                row.n.to_string(),
                format!("{:.1}", row.percent),
                number(row.ms_median),
            ]
        })
        .collect();
    text.push('\n');
    text.push_str(&table(&["member names", "positions", "right %", "ms"], &rows, &[1, 2, 3]));
    text.push_str(&format!(
        "\nnames at constrained places: {} checked, {} that do not exist\n\
         bodies that differ among seven others: {}; with speculation: {}\n",
        run.n_checked,
        run.missing.len(),
        run.n_differ,
        run.n_speculation_differ
    ));
    text
}
