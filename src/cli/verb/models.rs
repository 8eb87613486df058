//! `tether models`: what can be asked for by name.
//!
//! # Place
//! Part of `cli`.

use crate::cli::Outcome;
use crate::cli::env::Environment;
use crate::cli::output::{print, print_json, table};
use serde_json::json;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(in crate::cli) fn run(args: &Args, env: &Environment) -> anyhow::Result<Outcome> {
    let models = env.store(None)?.list();
    if args.json {
        let rows: Vec<_> = models
            .iter()
            .map(|m| {
                let is_here = m.state.as_str() == "present";
                json!({
                    "name": m.manifest.name,
                    "description": m.manifest.description,
                    "license": m.manifest.license,
                    "state": m.state.as_str(),
                    "bytes": m.bytes,
                    "path": m.path.as_ref().filter(|_| is_here).map(|p| p.display().to_string()),
                })
            })
            .collect();
        print_json(&json!({ "models": rows }))?;
        return Ok(Outcome::Fine);
    }
    let rows: Vec<Vec<String>> = models
        .iter()
        .map(|m| {
            vec![
                m.manifest.name.clone(),
                m.state.as_str().to_owned(),
                m.bytes.map_or_else(|| "–".to_owned(), |b| format!("{} MB", b / 1_000_000)),
                m.manifest.license.clone(),
                m.manifest.description.clone(),
            ]
        })
        .collect();
    print(&table(&["name", "state", "size", "licence", "what it is"], &rows, &[2]))?;
    Ok(Outcome::Fine)
}
