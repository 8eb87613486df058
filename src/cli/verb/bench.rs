//! `tether bench`: measurements of what the program promises.
//!
//! # Place
//! Part of `cli`; the measurements themselves are in `bench`.

use super::bench_guided;
use crate::bench::completion::{
    self, ALL, CacheHead, CacheWriter, Outcome as Answered, Position, Positions, Report, RunConfig,
    Slice, Threshold,
};
use crate::cli::Outcome;
use crate::cli::env::Environment;
use crate::cli::output::{message, print, table};
use crate::repo::{ProjectConfig, PythonChoice};
use crate::runtime::{Repository, RuntimeError, ToolChoice};
use anyhow::Context;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Ask a completion tool at every identifier of a sample of real functions.
    Completion(CompletionArgs),
    /// Write real functions with and without the guide, and predict real member accesses.
    Guided(bench_guided::Args),
}

#[derive(Debug, clap::Args)]
struct CompletionArgs {
    /// The sampled positions (scripts/eval/positions.py writes them).
    #[arg(long, value_name = "FILE", default_value = ".cache/eval/positions.jsonl")]
    positions: PathBuf,
    /// The folder that holds one project for each package.
    #[arg(long, value_name = "DIR", default_value = ".cache/eval/projects")]
    projects: PathBuf,
    /// The interpreter with the packages that the projects need.
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// Who is asked: native, jedi, or lsp:COMMAND.
    #[arg(long, value_name = "TOOL", default_value = "native")]
    tool: ToolChoice,
    /// Only these packages (may be given several times).
    #[arg(long, value_name = "NAME")]
    package: Vec<String>,
    /// The longest wait for one answer.
    #[arg(long, value_name = "MS", default_value_t = 5000)]
    deadline_ms: u64,
    /// Keep each answer in this file; when it is there already, nobody is asked.
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,
    /// Answers of another tool for the same positions, to set ours against.
    #[arg(long, value_name = "FILE")]
    peer: Option<PathBuf>,
    /// Bounds to check; one that is missed makes the exit code 1.
    #[arg(long, value_name = "FILE")]
    thresholds: Option<PathBuf>,
    /// Write the numbers to this file, one row for each package and kind of position.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// List this many positions whose name was not offered, those answered `closed` first.
    #[arg(long, value_name = "N", default_value_t = 0)]
    misses: usize,
}

pub(in crate::cli) fn run(args: &Args, env: &Environment) -> anyhow::Result<Outcome> {
    match &args.what {
        What::Completion(args) => completion(args, env),
        What::Guided(args) => bench_guided::run(args, env),
    }
}

fn completion(args: &CompletionArgs, env: &Environment) -> anyhow::Result<Outcome> {
    let mut positions = Positions::read(&args.positions)?;
    if !args.package.is_empty() {
        positions.positions.retain(|p| args.package.contains(&p.package));
    }
    let outcomes = answers(args, env, &positions)?;
    let report = Report::new(&positions, &outcomes);
    let peer = match &args.peer {
        Some(path) => Some(Report::new(&positions, &completion::read_cache(path, &positions)?.1)),
        None => None,
    };
    print(&report_table(&report, peer.as_ref()))?;
    print(&misses(&positions, &outcomes, args.misses))?;
    if let Some(path) = &args.csv {
        std::fs::write(path, report.to_csv())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mut bounds = Vec::new();
    if let Some(path) = &args.thresholds {
        let csv = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        bounds = Threshold::read_csv(path, &csv)?;
    }
    let missed = Threshold::check(&bounds, &report);
    for missed in &missed {
        message(&missed.0);
    }
    Ok(if missed.is_empty() { Outcome::Fine } else { Outcome::Negative })
}

/// The tool's answers: read from the file that keeps them, or asked for.
fn answers(
    args: &CompletionArgs,
    env: &Environment,
    positions: &Positions,
) -> anyhow::Result<Vec<Answered>> {
    if let Some(path) = args.answers.as_ref().filter(|p| p.is_file()) {
        let (head, outcomes) = completion::read_cache(path, positions)?;
        anyhow::ensure!(
            outcomes.len() == positions.positions.len(),
            "{} holds {} answers of {}; delete it to ask again",
            path.display(),
            outcomes.len(),
            positions.positions.len()
        );
        message(&format!("answers of {} {} from {}", head.tool, head.version, path.display()));
        return Ok(outcomes);
    }
    let mut writer = match &args.answers {
        Some(path) => {
            let head = CacheHead {
                tool: tool_name(&args.tool),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                positions_sha256: positions.sha256.clone(),
            };
            Some(CacheWriter::create(path, &head)?)
        }
        None => None,
    };
    let config = RunConfig { projects: args.projects.clone(), call_ms_max: args.deadline_ms };
    let python = args.python.clone().or_else(|| env.python.clone());
    let mut failed = None;
    let outcomes = completion::run(
        positions,
        &config,
        |project| start(project, python.as_deref(), &args.tool),
        |_, outcome| {
            if let Some(writer) = &mut writer
                && let Err(error) = writer.add(outcome)
            {
                failed.get_or_insert(error);
            }
        },
    )?;
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(outcomes),
    }
}

/// A tool for one project.
fn start(
    project: &Path,
    python: Option<&Path>,
    tool: &ToolChoice,
) -> Result<Box<dyn crate::base::CandidateSource>, RuntimeError> {
    let mut config = ProjectConfig::new(project);
    if let Some(python) = python {
        config.python = PythonChoice::Path(python.to_owned());
    }
    Ok(Repository::open(config, tool)?.tool)
}

fn tool_name(tool: &ToolChoice) -> String {
    match tool {
        ToolChoice::Native => "native".to_owned(),
        ToolChoice::Jedi => "jedi".to_owned(),
        ToolChoice::Lsp(command) => format!("lsp:{command}"),
    }
}

/// The rows over all packages, with those of the peer beside them.
fn report_table(report: &Report, peer: Option<&Report>) -> String {
    let percent = |n: usize, of: usize| format!("{:.2} %", 100.0 * n as f64 / of.max(1) as f64);
    let mut rows = Vec::new();
    for row in &report.rows {
        if row.package != ALL && row.slice != Slice::Every {
            continue;
        }
        let other = peer.and_then(|p| p.row(&row.package, row.slice));
        let of_peer =
            |text: &dyn Fn(&completion::Row) -> String| other.map_or_else(|| "–".to_owned(), text);
        rows.push(vec![
            row.package.clone(),
            row.slice.as_str().to_owned(),
            row.n.to_string(),
            percent(row.offered, row.n),
            of_peer(&|r| percent(r.offered, r.n)),
            percent(row.closed + row.open, row.n),
            of_peer(&|r| percent(r.closed + r.open, r.n)),
            row.closed.to_string(),
            row.false_closed.to_string(),
            format!("{:.2}", row.ms_p50),
            format!("{:.2}", row.ms_p95),
            format!("{:.1}", row.ms_max),
            of_peer(&|r| format!("{:.1}", r.ms_p50)),
        ]);
    }
    let head = [
        "package",
        "positions",
        "n",
        "offered",
        "peer",
        "known",
        "peer",
        "closed",
        "false",
        "p50 ms",
        "p95 ms",
        "max ms",
        "peer p50",
    ];
    table(&head, &rows, &[2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
}

/// Positions whose name was not offered, the wrongly closed first.
fn misses(positions: &Positions, outcomes: &[Answered], n: usize) -> String {
    let mut missed: Vec<(&Position, &Answered)> =
        positions.positions.iter().zip(outcomes).filter(|(_, o)| !o.offered).collect();
    missed.sort_by_key(|(_, o)| o.answer != "closed");
    let line = |(p, o): &(&Position, &Answered)| {
        let reason = o.reason.as_deref().unwrap_or_default();
        format!(
            "{}:{}: {} in {} ({} of {} names; {reason})\n",
            p.file.display(),
            p.offset_byte,
            p.name,
            p.function,
            o.answer,
            o.n_names
        )
    };
    missed.iter().take(n).map(line).collect()
}
