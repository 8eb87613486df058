//! `tether definition`: where the name at a position is defined.
//!
//! # Place
//! Part of `cli`.

use crate::cli::Outcome;
use crate::cli::env::Environment;
use crate::cli::output::{message, print, print_json};
use crate::cli::repo_args::{SourceArgs, find_position};
use crate::repo::Located;
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// The root of the Python project.
    #[arg(long, value_name = "DIR", default_value = ".")]
    repo: PathBuf,
    #[command(flatten)]
    sources: SourceArgs,
    /// Where: lines and columns count from 1, columns in characters.
    #[arg(long, value_name = "FILE:LINE:COL")]
    at: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(in crate::cli) fn run(args: &Args, env: &Environment) -> anyhow::Result<Outcome> {
    let (project, _) = args.sources.open(&args.repo, env)?;
    let snapshot = project.snapshot();
    let (path, _, offset) = find_position(&snapshot, &args.repo, &args.at)?;
    let found = snapshot.definitions_at(&path, offset)?;
    if args.json {
        print_json(&found.iter().map(located_json).collect::<Value>())?;
    } else {
        let line = |l: &Located| {
            let at = &l.site;
            format!(
                "{}:{}:{}: {} {}\n    {}\n",
                at.path.display(),
                at.line,
                at.col,
                l.kind,
                l.symbol,
                l.text
            )
        };
        print(&found.iter().map(line).collect::<String>())?;
    }
    if found.is_empty() {
        message("nothing is known about this place");
        return Ok(Outcome::Negative);
    }
    Ok(Outcome::Fine)
}

fn located_json(l: &Located) -> Value {
    json!({
        "name": l.name,
        "symbol": l.symbol,
        "kind": l.kind,
        "origin": l.origin.as_str(),
        "path": l.site.path.display().to_string(),
        "line": l.site.line,
        "col": l.site.col,
        "text": l.text,
    })
}
