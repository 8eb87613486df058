//! Printing: data to standard output, messages to standard error.
//!
//! # Place
//! Part of `cli`, the only folder that prints.
#![allow(clippy::print_stderr)] // this is where messages are printed

use crate::runtime::{Output, Timings};
use std::io::{self, Write};

/// Write to standard output. A reader that went away is no failure.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(BrokenPipe.into()),
        other => Ok(other?),
    }
}

/// A value as indented JSON, with a newline.
pub(super) fn print_json(value: &serde_json::Value) -> anyhow::Result<()> {
    print(&format!("{value:#}\n"))
}

/// A line for the person at the terminal.
pub(super) fn message(text: &str) {
    eprintln!("{text}");
}

/// Standard output is closed: stop, successfully.
#[derive(Debug, thiserror::Error)]
#[error("standard output is closed")]
pub(super) struct BrokenPipe;

/// Rows as a table with columns as wide as their widest cell; numbers (columns named in `right`) to
/// the right.
pub(super) fn table(header: &[&str], rows: &[Vec<String>], right: &[usize]) -> String {
    let mut widths: Vec<usize> = header.iter().map(|h| h.chars().count()).collect();
    for row in rows {
        for (w, cell) in widths.iter_mut().zip(row) {
            *w = (*w).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut row = String::new();
        for (i, cell) in cells.enumerate() {
            let pad = " ".repeat(widths[i].saturating_sub(cell.chars().count()));
            if right.contains(&i) {
                row.push_str(&format!("{pad}{cell}  "));
            } else {
                row.push_str(&format!("{cell}{pad}  "));
            }
        }
        text.push_str(row.trim_end());
        text.push('\n');
    };
    line(&mut header.iter().copied());
    for row in rows {
        line(&mut row.iter().map(String::as_str));
    }
    text
}

/// Times of a request as JSON.
pub(super) fn timings_json(t: &Timings) -> serde_json::Value {
    serde_json::json!({
        "first_token_ms": t.first_token_ms,
        "decode_ms": (t.total_ms - t.first_token_ms).max(0.0),
        "tool_ms": t.tool_ms,
        "total_ms": t.total_ms,
        "prefill_tokens_per_s": t.prefill_tokens_per_s,
        "decode_tokens_per_s": t.decode_tokens_per_s,
    })
}

/// One line about a finished text.
pub(super) fn output_summary(output: &Output) -> String {
    let rate = |r: Option<f64>| r.map_or_else(|| "–".to_owned(), |r| format!("{r:.0}"));
    format!(
        "{} prompt tokens at {}/s, {} tokens at {}/s, first after {:.0} ms ({})",
        output.n_prompt,
        rate(output.timings.prefill_tokens_per_s),
        output.ids.len(),
        rate(output.timings.decode_tokens_per_s),
        output.timings.first_token_ms,
        output.reason.as_str(),
    )
}
