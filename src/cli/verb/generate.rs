//! `tether generate`: text after a prompt.
//!
//! # Place
//! Part of `cli`.

use crate::base::TokenId;
use crate::cli::Outcome;
use crate::cli::env::Environment;
use crate::cli::grammar_args::GrammarArgs;
use crate::cli::model_args::ModelArgs;
use crate::cli::output::{message, output_summary, print, print_json, timings_json};
use crate::cli::sampling_args::SamplingArgs;
use crate::constrain::Constraint;
use crate::engine::{FinishReason, TokenLogprobs};
use crate::runtime::{Model, Output, Prompt};
use crate::tokenizer::Message;
use anyhow::Context;
use serde_json::{Value, json};
use std::io::Read;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// The text to go on from; `-` reads standard input.
    #[arg(long, short, value_name = "TEXT", required_unless_present = "prompt_file")]
    prompt: Option<String>,
    /// Read the prompt from a file.
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    prompt_file: Option<PathBuf>,
    /// Treat the prompt as a message to an assistant, with the model's chat template.
    #[arg(long)]
    chat: bool,
    /// A system message before the prompt.
    #[arg(long, value_name = "TEXT", requires = "chat")]
    system: Option<String>,
    /// Most tokens to write; the default is what the context leaves.
    #[arg(long, short = 'n', value_name = "N")]
    max_tokens: Option<usize>,
    /// Go on past the model's end-of-text tokens.
    #[arg(long, conflicts_with = "form")]
    ignore_eos: bool,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    grammar: GrammarArgs,
    /// Texts to write; they share the prompt. Needs a temperature to differ.
    #[arg(long, value_name = "N", default_value_t = 1)]
    samples: usize,
    /// Record the log-probability of every token, and of the N likeliest; printed with --json.
    #[arg(long, value_name = "N", requires = "json")]
    logprobs: Option<usize>,
    /// Print one JSON object when finished instead of text as it comes.
    #[arg(long)]
    json: bool,
}

pub(in crate::cli) fn run(args: &Args, env: &Environment) -> anyhow::Result<Outcome> {
    let reads_twice = args.grammar.reads_stdin() && args.prompt.as_deref() == Some("-");
    anyhow::ensure!(!reads_twice, "standard input can be the prompt or the grammar, not both");
    let source = args.grammar.source()?;
    let text = read_prompt(args)?;
    anyhow::ensure!(!text.is_empty(), "the prompt is empty; give some text to go on from");
    let prompt = if args.chat {
        let system = args.system.iter().map(|s| Message::new("system", s));
        Prompt::Chat(system.chain([Message::new("user", text)]).collect())
    } else {
        Prompt::Text(text)
    };
    let mut params = args.sampling.params(args.max_tokens);
    params.ignore_eos = args.ignore_eos;
    params.n = args.samples;
    params.logprobs = args.logprobs;
    params.validate()?;
    let mut model = args.model.load_samples(env, args.samples)?;
    let grammar = source.map(|source| model.grammars().compile(&source)).transpose()?;
    let must_finish = grammar.is_some();
    let grammar = grammar.map(|g| Box::new(g) as Box<dyn Constraint>);
    let streams = !args.json && args.samples == 1;
    let mut printed = Ok(());
    let outputs = model.generate_samples(&prompt, params, grammar, &mut |_, text| {
        if streams && printed.is_ok() {
            printed = print(text);
        }
    })?;
    printed?;
    if args.json {
        print_json(&as_json(&outputs, &model))?;
    }
    let mut outcome = Outcome::Fine;
    for (k, output) in outputs.iter().enumerate() {
        if args.samples > 1 && !args.json {
            message(&format!("sample {} of {}", k + 1, args.samples));
            print(&output.text)?;
        }
        if !args.json {
            print("\n")?;
            message(&output_summary(output));
        }
        if let Some(problem) = problem(output) {
            message(&format!("the text is not finished: {problem}"));
            outcome = Outcome::Negative;
        } else if must_finish && output.reason != FinishReason::Stop {
            message("the text was cut before it was complete; allow more with --max-tokens");
            outcome = Outcome::Negative;
        }
    }
    Ok(outcome)
}

/// One text as an object; several under `samples`.
fn as_json(outputs: &[Output], model: &Model) -> Value {
    let one = |output: &Output| {
        let mut object = json!({
            "text": output.text,
            "prompt_tokens": output.n_prompt,
            "tokens": output.ids.len(),
            "finish_reason": output.reason.as_str(),
            "problem": problem(output),
            "timings": timings_json(&output.timings),
        });
        if !output.logprobs.is_empty() {
            let records = output.ids.iter().zip(&output.logprobs);
            let records = records.map(|(&id, record)| token_json(TokenId(id), record, model));
            object["logprobs"] = records.collect();
        }
        object
    };
    match outputs {
        [output] => one(output),
        _ => json!({ "samples": outputs.iter().map(one).collect::<Vec<_>>() }),
    }
}

/// A token with its log-probabilities; one that is impossible has `null`.
fn token_json(id: TokenId, record: &TokenLogprobs, model: &Model) -> Value {
    let spelled = |id: TokenId, log_prob: f64, allowed: Option<f64>| {
        let bytes = model.tokenizer().token_bytes(id);
        json!({
            "id": id.0,
            "text": String::from_utf8_lossy(bytes),
            "bytes": bytes,
            "logprob": log_prob,
            "logprob_allowed": allowed,
        })
    };
    let mut object = spelled(id, record.log_prob, Some(record.log_prob_allowed));
    let top = record.top.iter().map(|t| spelled(t.id, t.log_prob, t.log_prob_allowed));
    object["top"] = top.collect();
    object
}

/// What went wrong inside a request that ran.
fn problem(output: &Output) -> Option<&str> {
    match &output.reason {
        FinishReason::DeadEnd { reason } => Some(reason),
        FinishReason::Failed { problem } => Some(problem),
        _ => None,
    }
}

fn read_prompt(args: &Args) -> anyhow::Result<String> {
    if let Some(path) = &args.prompt_file {
        return std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the prompt from {}", path.display()));
    }
    match args.prompt.as_deref() {
        Some("-") => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .context("cannot read the prompt from standard input as UTF-8 text")?;
            Ok(text)
        }
        other => Ok(other.unwrap_or_default().to_owned()),
    }
}
