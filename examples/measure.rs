//! What `make bench` asks of the library beyond the program's verbs; also an example of its use.
//!
//! ```text
//! measure score MODEL.gguf WINDOWS.json [reference]
//!     what the model says at every position of given tokens, with the fast or the plain backend
//! measure index FOLDER                     how fast a folder of Python is indexed, on one core
//! ```
//!
//! `WINDOWS.json` is what `scripts/peers/llama_cpp_eval.py` writes; the answer has its shape.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tether::runtime::{DeviceChoice, LoadConfig, Model, ModelFiles};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let answer = match args.as_slice() {
        ["score", model, windows] => score(model, windows, DeviceChoice::Auto)?,
        ["score", model, windows, "reference"] => score(model, windows, DeviceChoice::Reference)?,
        _ => bail!("usage: measure score MODEL.gguf WINDOWS.json [reference]"),
    };
    serde_json::to_writer(std::io::stdout().lock(), &answer)?;
    Ok(())
}

fn score(model: &str, windows: &str, device: DeviceChoice) -> Result<Value> {
    let text =
        std::fs::read_to_string(windows).with_context(|| format!("cannot read {windows}"))?;
    let given: Value = serde_json::from_str(&text)?;
    let given = given["windows"]
        .as_array()
        .context("no `windows` in the file")?;
    let files = ModelFiles::Gguf(model.into());
    let config = LoadConfig {
        device,
        ..LoadConfig::single()
    };
    let mut model = Model::load(&files, &config, &mut |_, _| {})?;
    let mut windows = Vec::new();
    for window in given {
        let ids: Vec<u32> = serde_json::from_value(window["ids"].clone())?;
        let scored = model.engine_mut().score(&ids)?;
        // The last position has no next token, and the peer leaves it out.
        let inner = &scored[..scored.len().saturating_sub(1)];
        let best: Vec<u32> = inner.iter().map(|s| s.best).collect();
        let nll: Vec<Option<f64>> = inner.iter().map(|s| s.nll).collect();
        windows.push(json!({ "argmax": best, "nll": nll }));
    }
    Ok(json!({ "windows": windows }))
}
