//! Measurements that need the library itself: `bench/run.py` runs this and compares with a peer.
//!
//!     measure score MODEL.gguf WINDOWS.json     best tokens and log-probabilities of given texts
//!     measure index DIRECTORY                   lines a second through the project database
//!
//! Both print one JSON object.
#![allow(clippy::print_stdout)] // a program of its own

use anyhow::Context;
use serde_json::{Value, json};
use std::path::Path;
use tether::runtime::{LoadConfig, Model, ModelFiles};

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["score", model, windows] => score(Path::new(model), Path::new(windows))?,
        _ => anyhow::bail!("usage: measure score MODEL.gguf WINDOWS.json | measure index DIRECTORY"),
    };
    println!("{result}");
    Ok(())
}

/// Score the token ids of every window; the last position of a window has no next token.
fn score(model: &Path, windows: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read(windows).with_context(|| windows.display().to_string())?;
    let input: Value = serde_json::from_slice(&text)?;
    let files = ModelFiles::Gguf(model.to_owned());
    let config = LoadConfig { kv_tokens: Some(4096), ..LoadConfig::single() };
    let mut model = Model::load(&files, &config, &mut |_, _| {})?;
    let mut scored = Vec::new();
    for window in input["windows"].as_array().context("the file has no windows")? {
        let ids: Vec<u32> = serde_json::from_value(window["ids"].clone())?;
        let positions = model.engine_mut().score(&ids)?;
        let (_, all) = positions.split_last().context("a window is empty")?;
        scored.push(json!({
            "argmax": all.iter().map(|p| p.best).collect::<Vec<_>>(),
            "nll": all.iter().filter_map(|p| p.nll).collect::<Vec<_>>(),
        }));
    }
    Ok(json!({ "windows": scored }))
}

