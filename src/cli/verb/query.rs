//! `tether query`: one SQL statement over a repository's tables.
//!
//! # Place
//! Part of `cli`.

use crate::cli::Outcome;
use crate::cli::bars;
use crate::cli::env::Environment;
use crate::cli::output::{message, print, print_json, table};
use crate::cli::repo_args::SourceArgs;
use crate::repo::{Cell, Database, QueryLimits, References, Rows};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// Longest cell of a table on the terminal, in characters.
const CELL_CHARS_MAX: usize = 100;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// The root of the Python project.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// One statement that reads, in SQLite's SQL. `ARCHITECTURE.md` lists the tables.
    #[arg(value_name = "SQL")]
    sql: String,
    #[command(flatten)]
    sources: SourceArgs,
    /// Keep the tables in this SQLite file; in memory unless given.
    #[arg(long, value_name = "FILE")]
    database: Option<PathBuf>,
    /// Leave the table `refs` empty: it takes most of the time.
    #[arg(long)]
    no_refs: bool,
    /// Most rows that are given.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    rows: usize,
    /// How long the statement may take, in seconds.
    #[arg(long, value_name = "S", default_value_t = 30)]
    timeout: u64,
    /// Print JSON: a list of objects.
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV with a header.
    #[arg(long)]
    csv: bool,
}

pub(in crate::cli) fn run(args: &Args, env: &Environment) -> anyhow::Result<Outcome> {
    let (project, _) = args.sources.open(&args.dir, env)?;
    let bar = bars::items(0, "filling tables");
    let snapshot = project.snapshot();
    let references = if args.no_refs { References::LeftOut } else { References::Resolved };
    let mut each = |done: usize, all: usize| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    };
    let path = args.database.as_deref();
    let mut database = Database::fill(&snapshot, project.root(), path, references, &mut each)?;
    bar.finish_and_clear();
    let limits = QueryLimits { time: Duration::from_secs(args.timeout), rows_max: args.rows };
    let found = database.query(&args.sql, limits)?;
    if args.json {
        print_json(&as_json(&found))?;
    } else if args.csv {
        print(&as_csv(&found))?;
    } else {
        print(&as_table(&found))?;
    }
    if found.is_cut {
        message(&format!("only the first {} rows; raise --rows for more", args.rows));
    }
    Ok(if found.rows.is_empty() { Outcome::Negative } else { Outcome::Fine })
}

fn as_json(found: &Rows) -> Value {
    let value = |cell: &Cell| match cell {
        Cell::Null => Value::Null,
        Cell::Integer(n) => json!(n),
        Cell::Real(x) => json!(x),
        Cell::Text(text) => json!(text),
    };
    let row = |row: &Vec<Cell>| -> Value {
        let pairs = found.columns.iter().zip(row).map(|(name, cell)| (name.clone(), value(cell)));
        Value::Object(pairs.collect())
    };
    found.rows.iter().map(row).collect()
}

fn as_csv(found: &Rows) -> String {
    let field = |text: &str| {
        if text.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            text.to_owned()
        }
    };
    let line = |cells: Vec<String>| format!("{}\r\n", cells.join(","));
    let mut text = line(found.columns.iter().map(|c| field(c)).collect());
    for row in &found.rows {
        text.push_str(&line(row.iter().map(|c| field(&c.to_string())).collect()));
    }
    text
}

fn as_table(found: &Rows) -> String {
    let short = |cell: &Cell| {
        let text = cell.to_string();
        let mut line = text.lines().next().unwrap_or("").to_owned();
        if line.chars().count() > CELL_CHARS_MAX || text.lines().count() > 1 {
            line = line.chars().take(CELL_CHARS_MAX).collect();
            line.push('…');
        }
        line
    };
    let header: Vec<&str> = found.columns.iter().map(String::as_str).collect();
    let rows: Vec<Vec<String>> = found.rows.iter().map(|r| r.iter().map(short).collect()).collect();
    let is_number = |i: &usize| {
        !found.rows.is_empty()
            && found.rows.iter().all(|r| matches!(r[*i], Cell::Integer(_) | Cell::Real(_)))
    };
    let right: Vec<usize> = (0..header.len()).filter(is_number).collect();
    table(&header, &rows, &right)
}
