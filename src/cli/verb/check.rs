//! `tether check`: errors that the checker (or pylint) is sure of.
//!
//! # Place
//! Part of `cli`.

use crate::base::limit::PYLINT_S_MAX;
use crate::cli::Outcome;
use crate::cli::env::Environment;
use crate::cli::output::{message, print, print_json};
use crate::cli::repo_args::{SourceArgs, not_a_file};
use crate::repo::{
    CheckConfig, CheckReport, Finding, Heed, IndexReport, MessageSet, Project, Snapshot, check,
    to_sarif,
};
use crate::runtime::{PylintConfig, run_pylint};
use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Most bytes that are read from standard input.
const STDIN_BYTES_MAX: u64 = crate::base::limit::PYTHON_FILE_BYTES_MAX;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Files or folders of the repository; all of it when none is given. `-` checks standard input in
    /// place of the file that --stdin-path names.
    files: Vec<PathBuf>,
    /// The root of the Python project.
    #[arg(long, value_name = "DIR", default_value = ".")]
    repo: PathBuf,
    #[command(flatten)]
    sources: SourceArgs,
    /// The file that standard input takes the place of.
    #[arg(long, value_name = "FILE")]
    stdin_path: Option<PathBuf>,
    /// Who checks.
    #[arg(long, value_enum, default_value_t = Tool::Native)]
    tool: Tool,
    /// How findings are printed.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The same as --format json.
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Only these messages: ids or symbols, separated by commas.
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    enable: Vec<String>,
    /// All but these messages.
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    disable: Vec<String>,
    /// Also report what `# pylint: disable` comments silence.
    #[arg(long)]
    ignore_comments: bool,
    /// Files checked at once; one for each processor unless given.
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// How long pylint may take, in seconds.
    #[arg(long, value_name = "S", default_value_t = PYLINT_S_MAX)]
    timeout: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Tool {
    /// Our own checker: fast, and silent when it is not sure.
    Native,
    /// The pylint of --python.
    Pylint,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
    Sarif,
}

pub(in crate::cli) fn run(args: &Args, env: &Environment) -> anyhow::Result<Outcome> {
    let started = Instant::now();
    let messages = messages(args)?;
    let (project, index) = args.sources.open(&args.repo, env)?;
    let stdin = stdin(args, &project)?;
    let snapshot = project.snapshot();
    let files = match &stdin {
        Some((path, _)) => vec![path.clone()],
        None => files(args, &project, &index, &snapshot)?,
    };
    let report = match args.tool {
        Tool::Native => check(&snapshot, &files, &config(args, messages))?,
        Tool::Pylint => pylint(args, messages, &project, &index, &files, stdin.as_ref())?,
    };
    let format = if args.json { Format::Json } else { args.format };
    match format {
        Format::Text => print_text(&report, started)?,
        Format::Json => print_json(&report_json(&report, args.tool))?,
        Format::Sarif => {
            let name = if args.tool == Tool::Native { "tether" } else { "pylint" };
            let version = env!("CARGO_PKG_VERSION");
            print_json(&to_sarif(&report.findings, project.root(), name, version))?;
        }
    }
    Ok(if report.findings.is_empty() { Outcome::Fine } else { Outcome::Negative })
}

fn config(args: &Args, messages: MessageSet) -> CheckConfig {
    let n_cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    CheckConfig {
        messages,
        n_threads: args.threads.map_or(n_cores, NonZeroUsize::get),
        heed_comments: if args.ignore_comments { Heed::Nothing } else { Heed::Comments },
    }
}

fn messages(args: &Args) -> anyhow::Result<MessageSet> {
    let read = |list: &[String]| -> anyhow::Result<MessageSet> {
        let mut set = MessageSet::EMPTY;
        for name in list.iter().map(|n| n.trim()) {
            let named = MessageSet::named(name);
            if named == MessageSet::EMPTY {
                let ids: Vec<&str> = MessageSet::all().iter().map(|m| m.id()).collect();
                bail!("'{name}' is no message of this checker; it has {}", ids.join(", "));
            }
            named.iter().for_each(|m| set.insert(m));
        }
        Ok(set)
    };
    let mut set = if args.enable.is_empty() { MessageSet::all() } else { read(&args.enable)? };
    read(&args.disable)?.iter().for_each(|m| set.remove(m));
    Ok(set)
}

/// The text on standard input, put in the place of its file.
fn stdin(args: &Args, project: &Project) -> anyhow::Result<Option<(PathBuf, String)>> {
    let is_stdin = |f: &PathBuf| f.as_os_str() == "-";
    if !args.files.iter().any(is_stdin) {
        ensure!(args.stdin_path.is_none(), "--stdin-path needs - as the file");
        return Ok(None);
    }
    ensure!(args.files.len() == 1, "- cannot be checked together with other files");
    let path = args
        .stdin_path
        .as_ref()
        .context("- needs --stdin-path FILE: the file that the text takes the place of")?;
    let mut text = String::new();
    let n = std::io::stdin()
        .take(STDIN_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .context("standard input is not UTF-8 text")?;
    ensure!(n as u64 <= STDIN_BYTES_MAX, "standard input has more than {STDIN_BYTES_MAX} bytes");
    let path =
        if path.is_absolute() || path.exists() { path.clone() } else { args.repo.join(path) };
    project.update(&path, Some(text.clone()))?;
    Ok(Some((path, text)))
}

/// The files that the arguments name; none named means all.
fn files(
    args: &Args,
    project: &Project,
    index: &IndexReport,
    snapshot: &Snapshot,
) -> anyhow::Result<Vec<PathBuf>> {
    let mut out = Vec::new();
    for given in &args.files {
        let tried = [given.clone(), args.repo.join(given)];
        let Some(path) = tried.iter().find_map(|p| p.canonicalize().ok()) else {
            bail!("there is no file {}", given.display());
        };
        ensure!(
            path.starts_with(project.root()),
            "{} lies outside the repository {}; give its root with --repo",
            given.display(),
            project.root().display()
        );
        if path.is_dir() {
            let inside: Vec<PathBuf> =
                snapshot.paths().filter(|p| p.starts_with(&path)).map(Path::to_path_buf).collect();
            ensure!(!inside.is_empty(), "no Python file below {}", given.display());
            out.extend(inside);
        } else if snapshot.text(&path).is_some() {
            out.push(path);
        } else if let Some(skipped) = index.skipped.iter().find(|s| s.path == path) {
            bail!("{} cannot be checked: {}", given.display(), skipped.reason);
        } else {
            bail!("{}", not_a_file(snapshot, given));
        }
    }
    out.sort();
    out.dedup();
    Ok(out)
}

fn pylint(
    args: &Args,
    messages: MessageSet,
    project: &Project,
    index: &IndexReport,
    files: &[PathBuf],
    stdin: Option<&(PathBuf, String)>,
) -> anyhow::Result<CheckReport> {
    let started = Instant::now();
    let snapshot = project.snapshot();
    let all: Vec<PathBuf> = snapshot.paths().map(Path::to_path_buf).collect();
    let files = if files.is_empty() { &all } else { files };
    let config = PylintConfig {
        // The executable as it was named: a link into a virtual environment is the point of it.
        python: args
            .sources
            .python
            .clone()
            .or_else(|| index.environment.executable.clone())
            .unwrap_or_else(|| PathBuf::from("python3")),
        source_roots: project.source_roots().to_vec(),
        messages,
        timeout: Duration::from_secs(args.timeout),
    };
    let stdin = stdin.map(|(path, text)| (path.as_path(), text.as_str()));
    let findings = run_pylint(files, stdin, &config)?;
    let n_lines = |p: &PathBuf| snapshot.text(p).map_or(0, |t| t.matches('\n').count());
    Ok(CheckReport {
        findings,
        n_files: files.len(),
        n_lines: files.iter().map(n_lines).sum(),
        n_silenced: 0,
        elapsed_ms: started.elapsed().as_secs_f64() * 1e3,
    })
}

fn print_text(report: &CheckReport, started: Instant) -> anyhow::Result<()> {
    let mut text = String::new();
    for finding in &report.findings {
        text.push_str(&finding.to_string());
        text.push('\n');
    }
    print(&text)?;
    message(&format!(
        "{} findings in {} files ({} lines) after {:.0} ms",
        report.findings.len(),
        report.n_files,
        report.n_lines,
        started.elapsed().as_secs_f64() * 1e3
    ));
    Ok(())
}

fn report_json(report: &CheckReport, tool: Tool) -> Value {
    json!({
        "tool": if tool == Tool::Native { "native" } else { "pylint" },
        "n_files": report.n_files,
        "n_lines": report.n_lines,
        "n_silenced": report.n_silenced,
        "ms": report.elapsed_ms,
        "findings": report.findings.iter().map(finding_json).collect::<Vec<_>>(),
    })
}

fn finding_json(f: &Finding) -> Value {
    json!({
        "id": f.message.id(),
        "symbol": f.message.symbol(),
        "path": f.path.display().to_string(),
        "line": f.start.line,
        "col": f.start.col,
        "end_line": f.end.line,
        "end_col": f.end.col,
        "module": f.module,
        "object": f.object,
        "message": f.text,
        "names": f.names,
    })
}
