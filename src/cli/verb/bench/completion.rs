//! `tether bench completion`: a completion tool at real identifiers, what the guide would have forbidden, and
//! how fast projects are analysed.
//!
//! # Place
//! Part of `cli`.

use super::SampleArgs;
use crate::bench::completion::{
    self, ALL, CacheHead, CacheWriter, IndexSpeed, Outcome as Answered, Position, Positions,
    Replay, ReplayConfig, Report, RunConfig, Slice, Threshold,
};
use crate::cli::Outcome;
use crate::cli::env::Environment;
use crate::cli::output::{message, print, table};
use crate::runtime::ToolChoice;
use anyhow::Context;
use std::path::PathBuf;

/// How far below what was reached a ratchet lies.
const RATCHET_SLACK: f64 = 0.01;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    sample: SampleArgs,
    /// Who is asked: native, jedi, or lsp:COMMAND.
    #[arg(long, value_name = "TOOL", default_value = "native")]
    tool: ToolChoice,
    /// Only these packages (may be given several times).
    #[arg(long, value_name = "NAME", conflicts_with_all = ["answers", "peer"])]
    package: Vec<String>,
    /// The longest wait for one answer.
    #[arg(long, value_name = "MS", default_value_t = 5000)]
    deadline_ms: u64,
    /// Use these answers, kept by an earlier run, instead of asking.
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,
    /// Answers of another tool for the same positions, to set ours against.
    #[arg(long, value_name = "FILE")]
    peer: Option<PathBuf>,
    /// Bounds to check; one that is missed makes the exit code 1 (may be given several times).
    #[arg(long, value_name = "FILE")]
    thresholds: Vec<PathBuf>,
    /// Write bounds that hold what was reached, package by package, one per cent below it.
    #[arg(long, value_name = "FILE")]
    ratchet: Option<PathBuf>,
    /// Write so many functions of each package again, as a decoder would, and count forbidden names.
    #[arg(long, value_name = "N", default_value_t = 0)]
    replay: usize,
    /// Also measure how fast projects are analysed, up to a million lines.
    #[arg(long)]
    index: bool,
    /// List this many positions whose name was not offered, those answered `closed` first.
    #[arg(long, value_name = "N", default_value_t = 0)]
    misses: usize,
}

pub(super) fn run(args: &Args, env: &Environment) -> anyhow::Result<Outcome> {
    let mut positions = args.sample.read()?;
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
    args.sample.write("completion.csv", &report.to_csv())?;
    args.sample.write("run.json", &format!("{:#}\n", evidence(args, &positions)))?;
    let mut bounds = Vec::new();
    for path in &args.thresholds {
        let csv = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        bounds.extend(Threshold::read_csv(path, &csv)?);
    }
    if let Some(path) = &args.ratchet {
        std::fs::write(path, Threshold::to_csv(&Threshold::ratchet(&report, RATCHET_SLACK)))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mut missed: Vec<String> =
        Threshold::check(&bounds, &report).into_iter().map(|m| m.0).collect();
    if args.replay > 0 {
        missed.extend(replay(args, env, &positions)?);
    }
    if args.index {
        missed.extend(index(args, &positions)?);
    }
    for missed in &missed {
        message(missed);
    }
    Ok(if missed.is_empty() { Outcome::Fine } else { Outcome::Negative })
}

/// Replay functions of every package; gives the promise that was not kept.
fn replay(args: &Args, env: &Environment, positions: &Positions) -> anyhow::Result<Option<String>> {
    let config =
        ReplayConfig { functions_max: args.replay, call_ms_max: args.deadline_ms, seed: 1 };
    let projects = &args.sample.projects;
    let mut all = Replay { package: ALL.to_owned(), ..Replay::default() };
    let mut replays = Vec::new();
    for package in positions.packages() {
        let mut repository = args.sample.open(env, &projects.join(package), &args.tool)?;
        let snapshot = repository.project.snapshot();
        let replay = Replay::of(package, &snapshot, repository.tool.as_mut(), config);
        all.add(&replay);
        replays.push(replay);
    }
    replays.insert(0, all);
    print("\nreal functions written again through the guide:\n")?;
    print(&csv_table(&Replay::to_csv(&replays)))?;
    for f in &replays[0].forbidden {
        let path = f.path.strip_prefix(projects).unwrap_or(&f.path);
        print(&format!(
            "{}:{}: {}[{}] in {}\n",
            path.display(),
            f.line,
            f.before,
            f.name,
            f.symbol
        ))?;
    }
    args.sample.write("replay.csv", &Replay::to_csv(&replays))?;
    Ok(replays[0].missed())
}

/// Measure the analysis of projects; gives the promises that were not kept.
fn index(args: &Args, positions: &Positions) -> anyhow::Result<Vec<String>> {
    let speeds = IndexSpeed::measure_all(&positions.packages(), &args.sample.projects)?;
    print("\nanalysis from nothing, one thread:\n")?;
    print(&csv_table(&IndexSpeed::to_csv(&speeds)))?;
    args.sample.write("index.csv", &IndexSpeed::to_csv(&speeds))?;
    Ok(speeds.iter().flat_map(IndexSpeed::missed).collect())
}

/// CSV as a table, numbers to the right.
fn csv_table(csv: &str) -> String {
    let mut lines = csv.lines().map(|l| l.split(',').map(str::to_owned).collect::<Vec<_>>());
    let head = lines.next().unwrap_or_default();
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let right: Vec<usize> = (1..head.len()).collect();
    table(&head, &lines.collect::<Vec<_>>(), &right)
}

/// What was run, on what.
fn evidence(args: &Args, positions: &Positions) -> serde_json::Value {
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = processor.lines().find_map(|l| l.strip_prefix("model name")?.split_once(": "));
    serde_json::json!({
        "tether": env!("CARGO_PKG_VERSION"),
        "tool": tool_name(&args.tool),
        "positions": positions.positions.len(),
        "positions_sha256": positions.sha256,
        "replayed_functions_per_package": args.replay,
        "deadline_ms": args.deadline_ms,
        "processor": processor.map(|(_, name)| name),
        "threads": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
    })
}

/// The tool's answers: read from the file that keeps them, or asked for.
fn answers(args: &Args, env: &Environment, positions: &Positions) -> anyhow::Result<Vec<Answered>> {
    if let Some(path) = &args.answers {
        let (head, outcomes) = completion::read_cache(path, positions)?;
        anyhow::ensure!(
            outcomes.len() == positions.positions.len(),
            "{} holds {} answers of {}: its run did not come to an end",
            path.display(),
            outcomes.len(),
            positions.positions.len()
        );
        message(&format!("answers of {} {} from {}", head.tool, head.version, path.display()));
        return Ok(outcomes);
    }
    let mut writer = match args.sample.folder()? {
        Some(folder) => {
            let head = CacheHead {
                tool: tool_name(&args.tool),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                positions_sha256: positions.sha256.clone(),
            };
            Some(CacheWriter::create(&folder.join("answers.jsonl"), &head)?)
        }
        None => None,
    };
    let config =
        RunConfig { projects: args.sample.projects.clone(), call_ms_max: args.deadline_ms };
    let mut failed = None;
    let outcomes = completion::run(
        positions,
        &config,
        |project| Ok(args.sample.open(env, project, &args.tool)?.tool),
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
