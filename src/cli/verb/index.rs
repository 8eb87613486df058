//! `tether index`: analyse a repository and say what is in it.
//!
//! # Place
//! Part of `cli`.

use crate::cli::Outcome;
use crate::cli::bars;
use crate::cli::env::Environment;
use crate::cli::output::{print, print_json};
use crate::cli::repo_args::{SourceArgs, name_skipped};
use crate::repo::{Database, IndexReport, Project, References};
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// The root of the Python project.
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    #[command(flatten)]
    sources: SourceArgs,
    /// Keep the tables of `tether query` in this SQLite file.
    #[arg(long, value_name = "FILE")]
    database: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(in crate::cli) fn run(args: &Args, env: &Environment) -> anyhow::Result<Outcome> {
    let bar = bars::items(0, "reading");
    let config = args.sources.config(&args.dir, env);
    let (project, report) = Project::open_with(config, &|done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    })?;
    bar.finish_and_clear();
    name_skipped(&report);
    let started = Instant::now();
    if let Some(path) = &args.database {
        let bar = bars::items(0, "writing tables");
        let snapshot = project.snapshot();
        let mut each = |done: usize, all: usize| {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
        };
        let root = project.root();
        Database::fill(&snapshot, root, Some(path), References::Resolved, &mut each)?;
        bar.finish_and_clear();
    }
    let tables_ms = args.database.as_ref().map(|_| started.elapsed().as_secs_f64() * 1e3);
    if args.json {
        print_json(&as_json(&report, tables_ms))?;
    } else {
        print(&as_text(&report, tables_ms))?;
    }
    Ok(Outcome::Fine)
}

fn lines_per_s(report: &IndexReport) -> f64 {
    report.n_lines as f64 / (report.elapsed_ms / 1e3).max(1e-9)
}

fn as_text(r: &IndexReport, tables_ms: Option<f64>) -> String {
    let roots: Vec<String> = r.source_roots.iter().map(|p| p.display().to_string()).collect();
    let python = match (&r.environment.executable, &r.environment.fault) {
        (Some(path), _) => path.display().to_string(),
        (None, fault) => format!("none ({})", fault.as_deref().unwrap_or("not asked for")),
    };
    let typeshed = r.typeshed.as_ref().map_or_else(
        || "none; built-in types from tether's own table".to_owned(),
        |p| p.display().to_string(),
    );
    let per_line = r.memory_bytes as f64 / r.n_lines.max(1) as f64;
    let mut text = format!(
        "root          {}\nsource roots  {}\nPython        {python}\nstubs         {typeshed}\n\
         files         {} ({} with syntax errors, {} skipped)\nlines         {}\n\
         definitions   {} functions, {} classes\n\
         time          {:.0} ms, {:.0} lines/s\nmemory        {:.1} MB, {per_line:.0} bytes a line\n",
        r.root.display(),
        roots.join(", "),
        r.n_files,
        r.n_files_with_errors,
        r.skipped.len(),
        r.n_lines,
        r.n_functions,
        r.n_classes,
        r.elapsed_ms,
        lines_per_s(r),
        r.memory_bytes as f64 / 1e6,
    );
    if let Some(ms) = tables_ms {
        text.push_str(&format!("tables        {ms:.0} ms\n"));
    }
    text
}

fn as_json(r: &IndexReport, tables_ms: Option<f64>) -> serde_json::Value {
    let skipped: Vec<_> = r
        .skipped
        .iter()
        .map(|s| json!({ "path": s.path.display().to_string(), "reason": s.reason.to_string() }))
        .collect();
    json!({
        "root": r.root.display().to_string(),
        "source_roots": r.source_roots.iter().map(|p| p.display().to_string()).collect::<Vec<_>>(),
        "python": r.environment.executable.as_ref().map(|p| p.display().to_string()),
        "typeshed": r.typeshed.as_ref().map(|p| p.display().to_string()),
        "n_files": r.n_files,
        "n_files_with_errors": r.n_files_with_errors,
        "n_lines": r.n_lines,
        "n_bytes": r.n_bytes,
        "n_functions": r.n_functions,
        "n_classes": r.n_classes,
        "skipped": skipped,
        "ms": r.elapsed_ms,
        "lines_per_s": lines_per_s(r),
        "memory_bytes": r.memory_bytes,
        "tables_ms": tables_ms,
    })
}
