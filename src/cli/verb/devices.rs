//! `tether devices`: what a model can run on here, and why not on the rest.
//!
//! # Place
//! Part of `cli`.

use crate::cli::Outcome;
use crate::cli::output::{print, print_json, table};
use crate::runtime::devices;
use serde_json::json;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(in crate::cli) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let devices = devices();
    if args.json {
        let rows: Vec<_> = devices
            .iter()
            .map(|d| json!({ "name": d.name, "description": d.description, "problem": d.problem }))
            .collect();
        print_json(&json!({ "devices": rows }))?;
        return Ok(Outcome::Fine);
    }
    let rows: Vec<Vec<String>> = devices
        .into_iter()
        .map(|d| {
            let usable = if d.problem.is_none() { "yes" } else { "no" };
            vec![d.name.to_owned(), usable.to_owned(), d.problem.unwrap_or(d.description)]
        })
        .collect();
    print(&table(&["device", "usable", "what it is, or why not"], &rows, &[]))?;
    Ok(Outcome::Fine)
}
