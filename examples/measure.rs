//! What `make bench` asks of the library beyond the program's verbs; also an example of its use.
//!
//! ```text
//! measure score MODEL.gguf WINDOWS.json [reference | cpu | cuda | emu]
//!     what the model says at every position of given tokens, on the best device or a given one
//! measure index FOLDER
//!     how fast a folder of Python is indexed, on one core
//! measure adapter MODEL.gguf RANK FIRST_LAYER [REPS [THREADS]]
//!     decoding with a made-up adapter on every module from a layer on, beside decoding without one, in turns
//! ```
//!
//! `WINDOWS.json` is what `scripts/peers/llama_cpp_eval.py` writes; the answer has its shape.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::num::NonZeroUsize;
use tether::engine::SamplingParams;
use tether::format::{GgufFile, Tensors};
use tether::repo::{Project, ProjectConfig};
use tether::runtime::{
    AdapterPlan, DeviceChoice, LoadConfig, Model, ModelFiles, OpenAdapter, Prompt,
};

const INDEX_REPS: usize = 5;
const ADAPTER_REPS: usize = 15;
/// Tokens decoded in a turn.
const TURN_TOKENS: usize = 48;
/// Longer than any window of the peer.
const KV_TOKENS: usize = 4096;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let answer = match args.as_slice() {
        ["score", model, windows] => score(model, windows, DeviceChoice::Auto)?,
        ["score", model, windows, device] => score(model, windows, device_named(device)?)?,
        ["index", folder] => index(folder)?,
        ["adapter", model, rank, first] => adapter(model, rank, first, ADAPTER_REPS, None)?,
        ["adapter", model, rank, first, reps] => adapter(model, rank, first, reps.parse()?, None)?,
        ["adapter", model, rank, first, reps, threads] => {
            adapter(model, rank, first, reps.parse()?, Some(threads.parse()?))?
        }
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

/// An adapter of random numbers, as peft would save it.
fn made_up(folder: &std::path::Path, model: &str, rank: usize, first: usize) -> Result<()> {
    const MODULES: [(&str, &str); 7] = [
        ("attn_q", "self_attn.q_proj"),
        ("attn_k", "self_attn.k_proj"),
        ("attn_v", "self_attn.v_proj"),
        ("attn_output", "self_attn.o_proj"),
        ("ffn_gate", "mlp.gate_proj"),
        ("ffn_up", "mlp.up_proj"),
        ("ffn_down", "mlp.down_proj"),
    ];
    let file = GgufFile::open(model.as_ref())?;
    let mut state = 1u32;
    let mut random = |n: usize, size: f32| -> Vec<u8> {
        let number = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((state >> 8) as f32 / (1 << 23) as f32 - 1.0) * size
        };
        (0..n).map(number).flat_map(f32::to_le_bytes).collect()
    };
    let mut tensors = Vec::new();
    for layer in first.. {
        for (gguf, peft) in MODULES {
            let Some(weight) = file.tensor(&format!("blk.{layer}.{gguf}.weight")) else { break };
            let name = format!("base_model.model.model.layers.{layer}.{peft}");
            let (rows, cols) = (weight.shape[0], weight.shape[1]);
            let a = (vec![rank, cols], random(rank * cols, 0.05));
            let b = (vec![rows, rank], random(rows * rank, 0.005));
            tensors.push((format!("{name}.lora_A.weight"), a));
            tensors.push((format!("{name}.lora_B.weight"), b));
        }
        if file.tensor(&format!("blk.{layer}.attn_q.weight")).is_none() {
            break;
        }
    }
    let views = tensors.iter().map(|(name, (shape, data))| {
        let view =
            safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape.clone(), data);
        Ok((name.as_str(), view?))
    });
    let views: Vec<_> = views.collect::<Result<_>>()?;
    safetensors::serialize_to_file(views, None, &folder.join("adapter_model.safetensors"))?;
    let config = json!({ "peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, "bias": "none" });
    std::fs::write(folder.join("adapter_config.json"), config.to_string())?;
    Ok(())
}

/// Time of this process on all processors, which other programs hardly change; 0 where the system has no
/// `/proc`, which counts in hundredths of a second.
fn processor_ms() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split(' ').collect();
    let ticks = |i: usize| fields.get(i).and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(12) + ticks(13)) * 10.0
}

/// Milliseconds a token, without and with the adapter, in turns.
fn adapter(
    model_path: &str,
    rank: &str,
    first: &str,
    reps: usize,
    threads: Option<NonZeroUsize>,
) -> Result<Value> {
    let folder = tempfile::tempdir()?;
    let (rank, first) = (rank.parse()?, first.parse()?);
    made_up(folder.path(), model_path, rank, first)?;
    let adapters = [OpenAdapter::open("made-up", folder.path())?];
    let plan = AdapterPlan { adapters: &adapters, ..AdapterPlan::NONE };
    let config = LoadConfig {
        device: DeviceChoice::Cpu,
        kv_tokens: Some(KV_TOKENS),
        threads,
        ..LoadConfig::single()
    };
    let files = ModelFiles::Gguf(model_path.into());
    let mut model = Model::load_planned(&files, &config, &plan, &mut |_| {}, &mut |_, _| {})?;
    let id = model.adapter("made-up")?;
    let prompt = Prompt::Text("def count_items(store):".to_owned());
    let params = SamplingParams {
        max_tokens: Some(TURN_TOKENS),
        ignore_eos: true,
        ..SamplingParams::greedy()
    };
    let (mut ms, mut processor) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    // The first turn of each warms up.
    for rep in 0..=reps {
        for with in [false, true] {
            model.use_adapter(with.then_some(id));
            let before = processor_ms();
            let output = model.generate(&prompt, params.clone(), &mut |_| {})?;
            let spent = processor_ms() - before;
            let rate = output.timings.decode_tokens_per_s.context("many tokens were written")?;
            if rep > 0 {
                ms[usize::from(with)].push(1e3 / rate);
                processor[usize::from(with)].push(spent / TURN_TOKENS as f64);
            }
        }
    }
    let median = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    };
    let ratio = |ms: &[Vec<f64>; 2]| {
        let ratios: Vec<f64> = ms[0].iter().zip(&ms[1]).map(|(base, with)| with / base).collect();
        median(&ratios)
    };
    Ok(json!({
        "device": model.engine().backend().description(),
        "model": model.fingerprint().to_string(),
        "rank": rank,
        "first_layer": first,
        "parameters": adapters[0].adapter.n_parameters(),
        "ms_per_token_without": ms[0],
        "ms_per_token_with": ms[1],
        "median_without": median(&ms[0]),
        "median_with": median(&ms[1]),
        "median_ratio_of_pairs": ratio(&ms),
        "processor_ms_per_token_without": processor[0],
        "processor_ms_per_token_with": processor[1],
        "processor_median_ratio_of_pairs": ratio(&processor),
    }))
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
