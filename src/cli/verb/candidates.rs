//! `tether candidates`: what a completion tool offers at a position.
//!
//! # Place
//! Part of `cli`.

use crate::base::{Answer, Candidate, LineIndex, Query, limit};
use crate::cli::Outcome;
use crate::cli::env::Environment;
use crate::cli::output::{print, print_json, table};
use crate::cli::repo_args::RepoArgs;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    repo: RepoArgs,
    /// Where: lines and columns count from 1, columns in characters.
    #[arg(long, value_name = "FILE:LINE:COL")]
    at: String,
    /// Also list names that begin and end with two underscores.
    #[arg(long)]
    dunder: bool,
    /// How long the tool may take, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = limit::TOOL_CALL_MS_MAX)]
    deadline_ms: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(in crate::cli) fn run(args: &Args, env: &Environment) -> anyhow::Result<Outcome> {
    let mut repository = args.repo.open(env)?;
    let snapshot = repository.project.snapshot();
    let (path, text, offset) = args.repo.position(&snapshot, &args.at)?;
    let started = Instant::now();
    let deadline = started + Duration::from_millis(args.deadline_ms);
    let answer = repository.tool.candidates(&Query { path: &path, text: &text, offset, deadline });
    let took = started.elapsed();
    let is_typed = |c: &&Candidate| {
        args.dunder
            || !(c.name.starts_with("__") && c.name.ends_with("__"))
            || text[answer.start_byte..offset].starts_with("__")
    };
    let shown: Vec<&Candidate> = answer.names.iter().filter(is_typed).collect();
    if args.json {
        let start = LineIndex::new(&text).position(&text, answer.start_byte);
        print_json(&json!({
            "answer": answer.answer.as_str(),
            "names": shown.iter().map(|c| name_json(c)).collect::<Vec<_>>(),
            "n_hidden": answer.names.len() - shown.len(),
            "reason": answer.reason.as_deref(),
            "start": { "line": start.line, "col": start.col },
            "ms": took.as_secs_f64() * 1e3,
        }))?;
    } else {
        let rows: Vec<Vec<String>> = shown
            .iter()
            .map(|c| {
                vec![
                    c.name.to_string(),
                    c.kind.as_str().to_owned(),
                    c.origin.as_str().to_owned(),
                    c.signature.as_deref().or(c.ty.as_deref()).unwrap_or_default().to_owned(),
                    place(c, repository.project.root()),
                ]
            })
            .collect();
        if !rows.is_empty() {
            let header = ["name", "kind", "origin", "what it is", "defined at"];
            print(&table(&header, &rows, &[]))?;
        }
        let reason = answer.reason.as_deref().map(|r| format!(" ({r})")).unwrap_or_default();
        print(&format!("{}{reason}: {} names\n", answer.answer.as_str(), shown.len()))?;
    }
    let is_known = matches!(answer.answer, Answer::Closed | Answer::Open);
    Ok(if is_known { Outcome::Fine } else { Outcome::Negative })
}

/// `path:line` of the definition, from the root when it is the project's.
fn place(c: &Candidate, root: &Path) -> String {
    c.defined_at.as_ref().map_or_else(String::new, |at| {
        let path = at.path.strip_prefix(root).unwrap_or(&at.path);
        format!("{}:{}", path.display(), at.line)
    })
}

fn name_json(c: &Candidate) -> Value {
    let defined_at = c
        .defined_at
        .as_ref()
        .map(|d| json!({ "path": d.path.display().to_string(), "line": d.line, "col": d.col }));
    json!({
        "name": &*c.name,
        "kind": c.kind.as_str(),
        "origin": c.origin.as_str(),
        "defined_at": defined_at,
        "signature": c.signature.as_deref(),
        "type": c.ty.as_deref(),
    })
}
