//! Whole tiny models against logits computed by transformers, on every backend and in every split.

use super::{Decoder, DecoderLimits, ModelConfig, ModelError, StepInput};
use crate::device::{Backend, CpuBackend, KvType, ReferenceBackend, SeqRows, StepRows, emu};
use crate::format::{GgufFile, Safetensors, Tensors};
use std::path::{Path, PathBuf};

pub(super) fn data(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/models").join(path)
}

pub(super) fn read_json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(path).expect("committed")).expect("JSON")
}

pub(super) fn backend(name: &str) -> Box<dyn Backend> {
    match name {
        "reference" => Box::new(ReferenceBackend::new()),
        "emu" => Box::new(emu::open().expect("asked for where it is built in")),
        _ => Box::new(CpuBackend::new(std::num::NonZeroUsize::new(2)).expect("threads start")),
    }
}

pub(super) struct Golden {
    pub(super) ids: Vec<u32>,
    pub(super) logits: Vec<f32>, // [T, V]
}

fn golden(name: &str) -> Golden {
    golden_at(&data(name).join("golden.safetensors"))
}

pub(super) fn golden_at(path: &Path) -> Golden {
    let bytes = std::fs::read(path).expect("committed");
    let file = safetensors::SafeTensors::deserialize(&bytes).expect("a golden");
    let words = |tensor: &str| -> Vec<[u8; 4]> {
        let view = file.tensor(tensor).expect("in the golden");
        view.data().chunks_exact(4).map(|b| [b[0], b[1], b[2], b[3]]).collect()
    };
    Golden {
        ids: words("input_ids").into_iter().map(u32::from_le_bytes).collect(),
        logits: words("logits").into_iter().map(f32::from_le_bytes).collect(),
    }
}

struct Model {
    backend: Box<dyn Backend>,
    decoder: Decoder,
}

impl Model {
    fn load(config: ModelConfig, tensors: &dyn Tensors, device: &str) -> Result<Self, ModelError> {
        Self::with_cache(config, tensors, device, KvType::F32)
    }

    fn with_cache(
        config: ModelConfig,
        tensors: &dyn Tensors,
        device: &str,
        kv_type: KvType,
    ) -> Result<Self, ModelError> {
        let mut backend = backend(device);
        let limits = DecoderLimits {
            rows_max: 64,
            logit_rows_max: 64,
            kv_blocks: 8,
            kv_block_tokens: 16,
            kv_type,
        };
        let decoder = Decoder::load(config, tensors, backend.as_mut(), limits, &mut |_, _| {})?;
        Ok(Self { backend, decoder })
    }

    fn hf(name: &str, device: &str) -> Self {
        let config =
            ModelConfig::from_hf(&read_json(&data(name).join("config.json"))).expect("config");
        let tensors = Safetensors::open(&data(name)).expect("weights");
        Self::load(config, &tensors, device).expect("loads")
    }

    fn hf_with_cache(name: &str, device: &str, kv_type: KvType) -> Self {
        let config =
            ModelConfig::from_hf(&read_json(&data(name).join("config.json"))).expect("config");
        let tensors = Safetensors::open(&data(name)).expect("weights");
        Self::with_cache(config, &tensors, device, kv_type).expect("loads")
    }

    /// Logits of every position, fed in chunks of `chunk` tokens through scattered cache blocks.
    fn logits(&mut self, ids: &[u32], chunk: usize) -> Vec<f32> {
        const BLOCKS: [u32; 8] = [5, 2, 7, 0, 1, 6, 3, 4];
        let v = self.decoder.config().vocab;
        let mut all = Vec::new();
        let mut past = 0;
        for part in ids.chunks(chunk) {
            let n = part.len();
            let positions: Vec<u32> = (past as u32..(past + n) as u32).collect();
            let slots: Vec<u32> =
                positions.iter().map(|&p| BLOCKS[p as usize / 16] * 16 + p % 16).collect();
            let seqs = [SeqRows { first_row: 0, n_rows: n, past, blocks: &BLOCKS, tree: None }];
            let rows = StepRows { n_rows: n, positions: &positions, slots: &slots, seqs: &seqs };
            let logit_rows: Vec<u32> = (0..n as u32).collect();
            let input = StepInput { ids: part, rows, logit_rows: &logit_rows, adapters: &[] };
            self.decoder.step(self.backend.as_mut(), &input).expect("the host is never lost");
            let mut out = vec![0.0; n * v];
            self.backend.read(self.decoder.logits(), 0, &mut out).expect("read");
            all.extend(out);
            past += n;
        }
        all
    }
}

/// Largest difference as a share of the largest logit.
pub(super) fn relative_error(got: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(got.len(), expected.len());
    let scale = expected.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    got.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) / scale
}

#[track_caller]
fn check(name: &str) {
    let golden = golden(name);
    for device in ["reference", "cpu"] {
        let mut model = Model::hf(name, device);
        let whole = model.logits(&golden.ids, 64);
        let error = relative_error(&whole, &golden.logits);
        assert!(error < 1e-4, "{name} on {device}: relative error {error}");
        for chunk in [1, 7] {
            let parts = model.logits(&golden.ids, chunk);
            assert!(parts == whole, "{name} on {device}: chunks of {chunk} changed the logits");
        }
    }
}

#[test]
fn llama_agrees_with_transformers() {
    check("llama");
}

#[test]
fn linear_rope_scaling_agrees_with_transformers() {
    check("llama-rope-linear");
}

#[test]
fn llama3_rope_scaling_agrees_with_transformers() {
    check("llama-rope-llama3");
}

#[test]
fn a_tied_head_in_bf16_shards_agrees_with_transformers() {
    check("llama-tied");
}

#[test]
fn attention_biases_in_f16_agree_with_transformers() {
    check("llama-bias");
}

#[test]
fn a_sliding_window_agrees_with_transformers() {
    check("mistral");
}

#[test]
fn qwen2_agrees_with_transformers() {
    check("qwen2");
}

#[test]
fn qwen3_agrees_with_transformers() {
    check("qwen3");
}

#[test]
fn smollm3_without_rotation_in_some_layers_agrees_with_transformers() {
    check("smollm3");
}

/// The whole CUDA path on emulated kernels. Weights and caches in f32 stay exact; whatever is narrower costs a
/// rounding to bf16 in each product. Pieces of a text never change a bit.
#[test]
fn tiny_models_on_emulated_kernels_agree_with_transformers_in_any_pieces() {
    if !emu::IS_BUILT_IN {
        println!("skipped: built without the feature `emu`");
        return;
    }
    let all = ["llama", "llama-tied", "llama-bias", "mistral", "qwen2", "qwen3", "smollm3"];
    for name in all {
        let golden = golden(name);
        let is_exact = !matches!(name, "llama-tied" | "llama-bias");
        // One family with a narrow cache of each type, all of them with an f32 one.
        let narrow = match name {
            "llama-tied" => Some(KvType::BF16),
            "mistral" => Some(KvType::F16),
            _ => None,
        };
        for kv_type in [KvType::F32].into_iter().chain(narrow) {
            let mut model = Model::hf_with_cache(name, "emu", kv_type);
            let whole = model.logits(&golden.ids, 64);
            let tolerance = if is_exact && kv_type == KvType::F32 { 1e-4 } else { 2e-2 };
            let error = relative_error(&whole, &golden.logits);
            assert!(error < tolerance, "{name} with a {kv_type:?} cache: relative error {error}");
            let chunk = if kv_type == KvType::F32 { 7 } else { 1 };
            let parts = model.logits(&golden.ids, chunk);
            assert!(parts == whole, "{name}, {kv_type:?}: chunks of {chunk} changed the logits");
        }
    }
}

#[test]
fn an_eight_bit_cache_moves_logits_by_little_on_every_device() {
    let emulated = emu::IS_BUILT_IN.then_some("emu");
    for name in ["llama", "qwen3", "mistral"] {
        let golden = golden(name);
        for device in ["reference", "cpu"].into_iter().chain(emulated) {
            let mut model = Model::hf_with_cache(name, device, KvType::Q8);
            let whole = model.logits(&golden.ids, 64);
            let error = relative_error(&whole, &golden.logits);
            assert!(error < 5e-2, "{name} on {device}: relative error {error}");
            let parts = model.logits(&golden.ids, 5);
            assert!(parts == whole, "{name} on {device}: chunks changed the logits");
        }
    }
}

#[test]
fn gguf_files_with_permuted_heads_agree_with_the_safetensors_they_were_made_from() {
    let mut seen = 0;
    for entry in std::fs::read_dir(data("gguf")).expect("committed") {
        let path = entry.expect("entry").path();
        let name = path.file_name().expect("name").to_string_lossy().into_owned();
        let Some((model, dtype)) = name.strip_suffix(".gguf").and_then(|n| n.rsplit_once('-'))
        else {
            continue;
        };
        seen += 1;
        // Types that round the weights have logits of their own, computed from the rounded ones.
        let own = path.with_extension("golden.safetensors");
        let golden = if own.exists() { golden_at(&own) } else { golden(model) };
        let file = GgufFile::open(&path).expect("opens");
        let rows = file.tensor("token_embd.weight").expect("embedding").shape[0];
        let config = ModelConfig::from_gguf(file.metadata(), rows).expect("config");
        let emulated = emu::IS_BUILT_IN.then_some("emu");
        for device in ["reference", "cpu"].into_iter().chain(emulated) {
            // The fast backend rounds activations to eight bits when weights are quantised, the
            // CUDA kernels to bf16 unless weights are f32.
            let is_rounded = device == "cpu" && dtype.starts_with('q') && dtype.contains('_');
            let tolerance = match device {
                "cpu" if is_rounded => 4e-2,
                "emu" if dtype != "f32" => 2e-2,
                _ => 1e-4,
            };
            let mut model = Model::load(config.clone(), &file, device).expect("loads");
            let error = relative_error(&model.logits(&golden.ids, 64), &golden.logits);
            assert!(error < tolerance, "{name} on {device}: relative error {error}");
        }
    }
    assert!(seen >= 3, "the GGUF files of the tiny llama are committed");
}

fn refusal(change: impl FnOnce(&mut serde_json::Value)) -> String {
    let mut json = read_json(&data("llama/config.json"));
    change(&mut json);
    match ModelConfig::from_hf(&json) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("the configuration was accepted"),
    }
}

#[test]
fn unknown_architectures_and_rope_scalings_are_refused_by_name() {
    let text = refusal(|j| j["model_type"] = "mamba".into());
    assert!(text.contains("mamba") && text.contains("qwen2"), "{text}");
    let text = refusal(|j| j["rope_scaling"] = serde_json::json!({"type": "yarn", "factor": 4.0}));
    assert!(text.contains("yarn"), "{text}");
    let text = refusal(|j| j["rope_scaling"] = serde_json::json!({"rope_type": "linear"}));
    assert!(text.contains("factor"), "{text}");
    let text =
        refusal(|j| j["rope_scaling"] = serde_json::json!({"type": "linear", "factor": 0.0}));
    assert!(text.contains("factor"), "{text}");
    let text = refusal(|j| j["hidden_act"] = "relu".into());
    assert!(text.contains("relu"), "{text}");
    let text = refusal(|j| j["num_key_value_heads"] = 3.into());
    assert!(text.contains("key-value heads"), "{text}");
    let text = refusal(|j| j["num_hidden_layers"] = "two".into());
    assert!(text.contains("num_hidden_layers"), "{text}");
}

/// The weights of a model, with some tensors hidden.
struct Without<'a>(&'a dyn Tensors, &'a [&'a str]);

impl Tensors for Without<'_> {
    fn tensor(&self, name: &str) -> Option<crate::format::TensorView<'_>> {
        self.0.tensor(name).filter(|_| !self.1.contains(&name))
    }

    fn names(&self) -> Vec<&str> {
        self.0.names().into_iter().filter(|n| !self.1.contains(n)).collect()
    }
}

#[test]
fn every_missing_tensor_is_listed() {
    let json = read_json(&data("llama/config.json"));
    let config = ModelConfig::from_hf(&json).expect("config");
    let tensors = Safetensors::open(&data("llama")).expect("weights");
    let hidden = ["model.layers.0.mlp.up_proj.weight", "model.layers.1.self_attn.k_proj.weight"];
    let error = Model::load(config, &Without(&tensors, &hidden), "cpu").err().expect("refused");
    for name in hidden {
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn a_layer_tensor_that_nothing_uses_is_an_error() {
    let mut json = read_json(&data("llama/config.json"));
    json["num_hidden_layers"] = 1.into();
    let config = ModelConfig::from_hf(&json).expect("config");
    let tensors = Safetensors::open(&data("llama")).expect("weights");
    let error = Model::load(config, &tensors, "cpu").err().expect("refused");
    assert!(error.to_string().contains("model.layers.1."), "{error}");
}

#[test]
fn a_tensor_of_another_shape_is_named_with_both_shapes() {
    let mut json = read_json(&data("llama/config.json"));
    json["intermediate_size"] = 65.into();
    let config = ModelConfig::from_hf(&json).expect("config");
    let tensors = Safetensors::open(&data("llama")).expect("weights");
    let error = Model::load(config, &tensors, "cpu").err().expect("refused").to_string();
    assert!(error.contains("65") && error.contains("64"), "{error}");
}
