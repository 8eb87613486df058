//! What `make bench` asks of the library beyond the program's verbs; also an example of its use.
//!
//! ```text
//! measure score MODEL.gguf WINDOWS.json [reference | cpu | cuda | emu]
//!     what the model says at every position of given tokens, on the best device or a given one
//! measure index FOLDER
//!     how fast a folder of Python is indexed, on one core
//! ```
//!
//! `WINDOWS.json` is what `scripts/peers/llama_cpp_eval.py` writes; the answer has its shape.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tether::repo::{Project, ProjectConfig};
use tether::runtime::{DeviceChoice, LoadConfig, Model, ModelFiles};

const INDEX_REPS: usize = 5;
/// Longer than any window of the peer.
const KV_TOKENS: usize = 4096;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let answer = match args.as_slice() {
        ["score", model, windows] => score(model, windows, DeviceChoice::Auto)?,
        ["score", model, windows, device] => score(model, windows, device_named(device)?)?,
        ["index", folder] => index(folder)?,
        _ => {
            bail!("usage: measure score MODEL.gguf WINDOWS.json [DEVICE] | measure index FOLDER")
        }
    };
    serde_json::to_writer(std::io::stdout().lock(), &answer)?;
    Ok(())
}

fn device_named(name: &str) -> Result<DeviceChoice> {
    Ok(match name {
        "reference" => DeviceChoice::Reference,
        "cpu" => DeviceChoice::Cpu,
        "cuda" => DeviceChoice::Cuda,
        "emu" => DeviceChoice::Emu,
        other => bail!("no device {other}: reference, cpu, cuda or emu"),
    })
}

/// Score the token ids of every window; the last position of a window has no next token.
fn score(model: &str, windows: &str, device: DeviceChoice) -> Result<Value> {
    let text =
        std::fs::read_to_string(windows).with_context(|| format!("cannot read {windows}"))?;
    let given: Value = serde_json::from_str(&text)?;
    let given = given["windows"].as_array().context("no `windows` in the file")?;
    let files = ModelFiles::Gguf(model.into());
    let config = LoadConfig { device, kv_tokens: Some(KV_TOKENS), ..LoadConfig::single() };
    let mut model = Model::load(&files, &config, &mut |_, _| {})?;
    let mut windows = Vec::new();
    for window in given {
        let ids: Vec<u32> = serde_json::from_value(window["ids"].clone())?;
        let positions = model.engine_mut().score(&ids)?;
        let (_, inner) = positions.split_last().context("a window is empty")?;
        let best: Vec<u32> = inner.iter().map(|p| p.best).collect();
        let nll: Vec<Option<f64>> = inner.iter().map(|p| p.nll).collect();
        windows.push(json!({ "argmax": best, "nll": nll }));
    }
    Ok(json!({ "windows": windows }))
}

fn index(folder: &str) -> Result<Value> {
    let config = ProjectConfig { n_threads: 1, ..ProjectConfig::new(folder) };
    let mut seconds = Vec::new();
    let mut counts = (0, 0);
    // The first run fills the page cache.
    for rep in 0..=INDEX_REPS {
        let (_, report) = Project::open(config.clone())?;
        counts = (report.n_files, report.n_lines);
        if rep > 0 {
            seconds.push(report.elapsed_ms / 1e3);
        }
    }
    Ok(json!({ "n_files": counts.0, "n_lines": counts.1, "seconds": seconds }))
}
