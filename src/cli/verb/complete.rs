//! `tether complete`: a function body, or what goes on at a position, guided by the repository.
//!
//! # Place
//! Part of `cli`.

use crate::base::{LineIndex, TokenId};
use crate::cli::Outcome;
use crate::cli::env::Environment;
use crate::cli::guide_args::GuideArgs;
use crate::cli::model_args::ModelArgs;
use crate::cli::output::{message, output_summary, print, print_json, table, timings_json};
use crate::cli::repo_args::RepoArgs;
use crate::cli::sampling_args::SamplingArgs;
use crate::constrain::GuideEvent;
use crate::runtime::{
    CompleteConfig, Completion, Model, PromptStyle, Syntax, Target, check_syntax,
};
use anyhow::Context;
use serde_json::{Value, json};
use std::path::Path;

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("place").required(true).args(["symbol", "at"])))]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    repo: RepoArgs,
    /// The function whose body is written; its docstring stays.
    #[arg(long, value_name = "PKG.MOD:CLASS.METHOD")]
    symbol: Option<String>,
    /// Go on at a position, to the end of the block around it.
    #[arg(long, value_name = "FILE:LINE:COL")]
    at: Option<String>,
    #[command(flatten)]
    guide: GuideArgs,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
    /// Most tokens to write.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 256)]
    max_tokens: usize,
    /// Most tokens of the file that the model is shown; its top is left out beyond them.
    #[arg(long, value_name = "N", default_value_t = 2048)]
    prompt_tokens_max: usize,
    /// How the model is asked; what the adapter's manifest says, or auto.
    #[arg(long, value_enum)]
    prompt_style: Option<Style>,
    /// List every place where the tool was asked, and what came of it.
    #[arg(long)]
    explain: bool,
    /// Print the change as a unified diff instead of the text.
    #[arg(long)]
    diff: bool,
    /// Write the change into the file.
    #[arg(long)]
    write: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Style {
    /// As an assistant when the model has a chat template, else the file alone.
    Auto,
    Plain,
    Chat,
    /// The function's header and documentation alone, as adapters are trained by `tether augment`.
    Toolgen,
}

pub(in crate::cli) fn run(args: &Args, env: &Environment) -> anyhow::Result<Outcome> {
    let params = args.sampling.params(Some(args.max_tokens));
    params.validate()?;
    let mut repository = args.repo.open(env)?;
    let snapshot = repository.project.snapshot();
    let (name, target) = match (&args.symbol, &args.at) {
        (Some(symbol), _) => {
            let function = snapshot.find_symbol(symbol)?;
            let text = snapshot.text(&function.path).context("the file was analysed")?;
            (function.symbol.clone(), Target::body(&function, &text))
        }
        (None, at) => {
            let at = at.as_deref().unwrap_or_default();
            let (path, text, offset) = args.repo.position(&snapshot, at)?;
            (at.to_owned(), Target::position(path, &text, offset))
        }
    };
    let room = args.prompt_tokens_max.saturating_add(args.max_tokens).saturating_add(256);
    let mut model = args.model.load_for(env, room)?;
    let config = CompleteConfig {
        style: style(args.prompt_style, &model),
        selection: args.guide.selection(),
        explain: args.explain || args.json,
        times: args.guide.times(),
        prompt_tokens_max: args.prompt_tokens_max,
        ..CompleteConfig::new(args.guide.mode(&model)?, params)
    };
    let done = model.complete(&target, &config, repository.tool.as_mut())?;
    let python = repository.report.environment.executable.as_deref();
    let syntax = check_syntax(&done.file, python);
    if args.write {
        write_back(&target, &done.file)?;
    }
    if args.json {
        print_json(&as_json(&name, &done, &syntax, &model))?;
        return Ok(outcome(&syntax));
    }
    if args.diff {
        print(&unified_diff(&target, &done, repository.project.root()))?;
    } else {
        print(&done.body)?;
        if !done.body.ends_with('\n') {
            print("\n")?;
        }
    }
    if args.explain {
        print(&explain(&done, &model))?;
    }
    let stats = done.output.guide.stats;
    message(&output_summary(&done.output));
    message(&format!(
        "asked {} times: {} closed, {} open, {} unknown, {} timed out; {} changed what was written",
        stats.asked, stats.closed, stats.open, stats.unknown, stats.timed_out, stats.changed
    ));
    if let Syntax::Invalid { line, problem } = &syntax {
        message(&format!("the file does not parse with this text: line {line}: {problem}"));
    }
    Ok(outcome(&syntax))
}

/// What was asked for, or what an adapter was trained with.
fn style(asked: Option<Style>, model: &Model) -> PromptStyle {
    match asked {
        Some(Style::Auto) => PromptStyle::Auto,
        Some(Style::Plain) => PromptStyle::Plain,
        Some(Style::Chat) => PromptStyle::Chat,
        Some(Style::Toolgen) => PromptStyle::ToolGen,
        None => model.adapters().find_map(|a| a.prompt_style()).unwrap_or(PromptStyle::Auto),
    }
}

fn outcome(syntax: &Syntax) -> Outcome {
    if syntax.is_valid() == Some(false) { Outcome::Negative } else { Outcome::Fine }
}

/// Replace the file, unless it changed or is stored in a way that would be lost.
fn write_back(target: &Target, file: &str) -> anyhow::Result<()> {
    let path = &target.path;
    let stored = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    const MARK: &[u8] = b"\xef\xbb\xbf";
    let (mark, text) = match stored.strip_prefix(MARK) {
        Some(rest) if !target.text.starts_with('\u{feff}') => (MARK, rest),
        _ => (&[][..], &stored[..]),
    };
    anyhow::ensure!(
        text == target.text.as_bytes(),
        "{} is not stored as UTF-8 with plain line ends, or has changed since it was read; \
         use --diff and apply the change by hand",
        path.display()
    );
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut new = tempfile::NamedTempFile::new_in(folder)
        .with_context(|| format!("cannot write into {}", folder.display()))?;
    std::io::Write::write_all(&mut new, &[mark, file.as_bytes()].concat())
        .with_context(|| format!("cannot write {}", path.display()))?;
    let permissions = std::fs::metadata(path)?.permissions();
    new.as_file().set_permissions(permissions)?;
    new.persist(path).with_context(|| format!("cannot replace {}", path.display()))?;
    Ok(())
}

fn unified_diff(target: &Target, done: &Completion, root: &Path) -> String {
    let name = target.path.strip_prefix(root).unwrap_or(&target.path).display().to_string();
    similar::TextDiff::from_lines(target.text.as_str(), done.file.as_str())
        .unified_diff()
        .header(&format!("a/{name}"), &format!("b/{name}"))
        .to_string()
}

fn as_json(name: &str, done: &Completion, syntax: &Syntax, model: &Model) -> Value {
    let stats = done.output.guide.stats;
    let events: Vec<Value> = events(done, model)
        .map(|(event, at, wanted)| {
            json!({
                "line": at.line,
                "col": at.col,
                "kind": event.kind.as_str(),
                "answer": event.answer.as_str(),
                "names": event.n_names,
                "dropped": event.n_dropped,
                "typed": String::from_utf8_lossy(&event.typed),
                "name": event.name.as_deref().map(String::from_utf8_lossy),
                "wanted": wanted,
                "changed": event.changed(),
                "logprob": event.chance.map(|c| c.log_prob),
                "logprob_allowed": event.chance.map(|c| c.log_prob_allowed),
                "reason": event.reason.as_deref(),
                "ms": event.took.as_secs_f64() * 1e3,
            })
        })
        .collect();
    json!({
        "symbol": name,
        "body": done.body,
        "finish_reason": done.output.reason.as_str(),
        "parses": syntax.is_valid(),
        "guide": {
            "asked": stats.asked,
            "closed": stats.closed,
            "open": stats.open,
            "unknown": stats.unknown,
            "timed_out": stats.timed_out,
            "changed": stats.changed,
        },
        "events": events,
        "prompt_tokens": done.output.n_prompt,
        "prompt_is_cut": done.is_cut,
        "tokens": done.output.ids.len(),
        "timings": timings_json(&done.output.timings),
    })
}

/// Every place asked at, with its position in the new file and what the model would have written.
fn events<'a>(
    done: &'a Completion,
    model: &'a Model,
) -> impl Iterator<Item = (&'a GuideEvent, crate::base::LineCol, Option<String>)> {
    let index = LineIndex::new(&done.file);
    done.output.guide.events.iter().map(move |event| {
        let wanted = event.wanted.map(|id: TokenId| {
            String::from_utf8_lossy(model.tokenizer().token_bytes(id)).into_owned()
        });
        (&**event, index.position(&done.file, event.offset), wanted)
    })
}

fn explain(done: &Completion, model: &Model) -> String {
    let rows: Vec<Vec<String>> = events(done, model)
        .map(|(event, at, wanted)| {
            let name = event.name.as_deref().map(String::from_utf8_lossy);
            vec![
                format!("{}:{}", at.line, at.col),
                event.kind.as_str().to_owned(),
                event.answer.as_str().to_owned(),
                event.n_names.to_string(),
                wanted.map_or_else(|| "=".to_owned(), |w| format!("{w:?}")),
                name.map_or_else(|| "–".to_owned(), |n| n.into_owned()),
                percent(event.chance.map(|c| c.log_prob)),
                percent(event.chance.map(|c| c.log_prob_allowed)),
                format!("{:.2}", event.took.as_secs_f64() * 1e3),
                event.reason.as_deref().unwrap_or_default().to_owned(),
            ]
        })
        .collect();
    let header = [
        "at",
        "place",
        "answer",
        "names",
        "model wanted",
        "written",
        "p",
        "p held",
        "ms",
        "reason",
    ];
    format!("\n{}", table(&header, &rows, &[3, 6, 7, 8]))
}

/// A log-probability as a share of a hundred.
fn percent(log_prob: Option<f64>) -> String {
    log_prob.map_or_else(|| "–".to_owned(), |p| format!("{:.3}%", 100.0 * p.exp()))
}
