//! Logits of tiny models with adapters, as peft computes them.
//!
//! # Place
//! Tests of `model::adapter`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::device::{Backend, KvType, SeqRows, StepRows, emu};
use crate::format::{GgufFile, Safetensors, Tensors};
use crate::model::adapter::{Adapter, Merged};
use crate::model::tests::{Golden, backend, data, golden_at, read_json, relative_error};
use crate::model::{
    AdapterId, AdapterRows, Decoder, DecoderLimits, ModelConfig, ModelError, StepInput,
};

pub(super) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/adapters").join(name)
}

fn golden(name: &str) -> Golden {
    golden_at(&folder(name).join("golden.safetensors"))
}

pub(super) fn adapter(name: &str) -> Adapter {
    let json = read_json(&folder(name).join("adapter_config.json"));
    let tensors = Safetensors::open(&folder(name).join("adapter_model.safetensors"));
    Adapter::from_peft(name, &json, Arc::new(tensors.expect("opens"))).expect("is read")
}

fn gguf_adapter(name: &str) -> Adapter {
    let file = GgufFile::open(&folder(&format!("{name}.gguf"))).expect("opens");
    Adapter::from_gguf(name, Arc::new(file)).expect("is read")
}

/// A tiny model's shape and weights.
pub(super) struct Base {
    pub(super) config: ModelConfig,
    pub(super) tensors: Box<dyn Tensors>,
}

impl Base {
    pub(super) fn hf(name: &str) -> Self {
        let config = ModelConfig::from_hf(&read_json(&data(name).join("config.json")));
        let tensors = Safetensors::open(&data(name)).expect("weights");
        Self { config: config.expect("config"), tensors: Box::new(tensors) }
    }

    fn gguf(name: &str) -> Self {
        let file = GgufFile::open(&data(&format!("gguf/{name}.gguf"))).expect("opens");
        let rows = file.tensor("token_embd.weight").expect("embedding").shape[0];
        let config = ModelConfig::from_gguf(file.metadata(), rows).expect("config");
        Self { config, tensors: Box::new(file) }
    }
}

/// A model with adapters merged or beside it.
struct Adapted {
    backend: Box<dyn Backend>,
    decoder: Decoder,
    ids: Vec<AdapterId>,
}

impl Adapted {
    fn load(
        base: &Base,
        merged: &[&Adapter],
        beside: &[&Adapter],
        device: &str,
    ) -> Result<Self, ModelError> {
        let mut backend = backend(device);
        let limits = DecoderLimits {
            rows_max: 96,
            logit_rows_max: 96,
            kv_blocks: 32,
            kv_block_tokens: 16,
            kv_type: KvType::F32,
        };
        let (tensors, config) = Merged::new(base.tensors.as_ref(), &base.config, merged, beside)?;
        let mut decoder =
            Decoder::load(config, &tensors, backend.as_mut(), limits, &mut |_, _| {})?;
        let ids = (beside.iter())
            .map(|a| decoder.add_adapter(backend.as_mut(), a, base.config.vocab))
            .collect::<Result<_, _>>()?;
        Ok(Self { backend, decoder, ids })
    }

    /// Logits of several texts in one step, each with one of the adapters or none. `[texts][T, V]`
    fn logits(&mut self, texts: &[(&[u32], Option<usize>)]) -> Vec<Vec<f32>> {
        const BLOCKS: usize = 4; // for each text
        let blocks: Vec<Vec<u32>> =
            (0..texts.len()).map(|i| (0..BLOCKS).map(|b| (b * 7 + i) as u32).collect()).collect();
        let (mut ids, mut positions, mut slots) = (Vec::new(), Vec::new(), Vec::new());
        let (mut seqs, mut adapters) = (Vec::new(), Vec::new());
        for (i, (text, adapter)) in texts.iter().enumerate() {
            let (first_row, n_rows) = (ids.len(), text.len());
            ids.extend(*text);
            positions.extend(0..n_rows as u32);
            slots.extend((0..n_rows).map(|p| blocks[i][p / 16] * 16 + p as u32 % 16));
            seqs.push(SeqRows { first_row, n_rows, past: 0, blocks: &blocks[i], tree: None });
            let adapter = adapter.map(|a| self.ids[a]);
            adapters.extend(adapter.map(|adapter| AdapterRows { first_row, n_rows, adapter }));
        }
        let n_rows = ids.len();
        let rows = StepRows { n_rows, positions: &positions, slots: &slots, seqs: &seqs };
        let logit_rows: Vec<u32> = (0..n_rows as u32).collect();
        let input = StepInput { ids: &ids, rows, logit_rows: &logit_rows, adapters: &adapters };
        self.decoder.step(self.backend.as_mut(), &input).expect("the host is never lost");
        let v = self.decoder.config().vocab;
        let read = |rows: &SeqRows<'_>| {
            let mut out = vec![0.0; rows.n_rows * v];
            self.backend.read(self.decoder.logits(), rows.first_row * v, &mut out).expect("read");
            out
        };
        seqs.iter().map(read).collect()
    }

    fn one(&mut self, text: &[u32]) -> Vec<f32> {
        let adapter = (!self.ids.is_empty()).then_some(0);
        self.logits(&[(text, adapter)]).remove(0)
    }
}

/// The emulated kernels too, where they are built in: that is the whole CUDA path.
fn devices() -> impl Iterator<Item = &'static str> {
    ["reference", "cpu"].into_iter().chain(emu::IS_BUILT_IN.then_some("emu"))
}

/// Per request and merged, the logits are peft's, and close to each other.
#[track_caller]
fn check(name: &str, base: &Base, adapter: &Adapter) {
    let golden = golden(name);
    for device in devices() {
        // The fast backend keeps terms in 16 bits.
        let tolerance = if device == "reference" { 1e-4 } else { 1e-3 };
        let mut merged = Adapted::load(base, &[adapter], &[], device).expect("merges");
        let merged = merged.one(&golden.ids);
        let error = relative_error(&merged, &golden.logits);
        assert!(error < 1e-4, "{name} merged on {device}: relative error {error}");
        let mut beside = Adapted::load(base, &[], &[adapter], device).expect("loads");
        let beside = beside.one(&golden.ids);
        let error = relative_error(&beside, &golden.logits);
        assert!(error < tolerance, "{name} per request on {device}: relative error {error}");
        let error = relative_error(&beside, &merged);
        assert!(error < 1e-3, "{name} on {device}: {error} between per request and merged");
    }
}

#[test]
fn every_committed_adapter_agrees_with_peft_merged_and_per_request() {
    let cases = read_json(&folder("ADAPTERS.json"));
    let cases = cases.as_object().expect("cases by name");
    assert!(cases.len() >= 12, "the cases are committed");
    for (name, case) in cases {
        if name == "llama-norms" {
            continue; // below
        }
        check(name, &Base::hf(case["model"].as_str().expect("a model")), &adapter(name));
    }
}

#[test]
fn adapters_in_either_format_fit_models_in_either_format() {
    for (name, model) in [("llama-all", "llama"), ("qwen2-all", "qwen2")] {
        let (hf, gguf) = (Base::hf(model), Base::gguf(&format!("{model}-f32")));
        check(name, &gguf, &adapter(name));
        check(name, &hf, &gguf_adapter(name));
        check(name, &gguf, &gguf_adapter(name));
    }
    check("llama-rslora", &Base::gguf("llama-f32"), &adapter("llama-rslora"));
}

#[test]
fn norms_that_were_trained_are_merged_and_refused_per_request() {
    let (base, adapter) = (Base::hf("llama"), adapter("llama-norms"));
    let golden = golden("llama-norms");
    let mut merged = Adapted::load(&base, &[&adapter], &[], "reference").expect("merges");
    let error = relative_error(&merged.one(&golden.ids), &golden.logits);
    assert!(error < 1e-4, "relative error {error}");
    let error = Adapted::load(&base, &[], &[&adapter], "reference").err().expect("refused");
    assert!(error.to_string().contains("--merge"), "{error}");
}

#[test]
fn two_adapters_and_none_in_one_batch_equal_each_alone_bit_for_bit() {
    let base = Base::hf("llama");
    let (first, second, third) =
        (adapter("llama-all"), adapter("llama-other"), adapter("llama-resized"));
    let text = golden("llama-all").ids;
    let new = golden("llama-resized").ids;
    for device in devices() {
        let all = [&first, &second, &third];
        let mut model = Adapted::load(&base, &[], &all, device).expect("loads");
        let batch: Vec<(&[u32], Option<usize>)> =
            vec![(&text, Some(0)), (&text, None), (&text[3..], Some(1)), (&new, Some(2))];
        let together = model.logits(&batch);
        for (one, together) in batch.iter().zip(&together) {
            let alone = model.logits(&[*one]).remove(0);
            let same = alone.iter().zip(together).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{device}: {:?} alone and together", one.1);
        }
        // A token that one of them brings does not exist for the others.
        let v = model.decoder.config().vocab;
        assert_eq!(v, base.config.vocab + 1);
        let last = |text: usize| together[text][v - 1];
        assert!([0, 1, 2].into_iter().all(|t| last(t) == f32::NEG_INFINITY));
        assert!(last(3).is_finite());
        assert!(!model.decoder.reads(None, v as u32 - 1));
        assert!(!model.decoder.reads(Some(model.ids[0]), v as u32 - 1));
        assert!(model.decoder.reads(Some(model.ids[2]), v as u32 - 1));
        // The row without an adapter is what the model alone computes.
        let mut plain = Adapted::load(&base, &[], &[], device).expect("loads");
        let plain = plain.logits(&[(&text, None)]).remove(0);
        for (got, want) in together[1].chunks(v).zip(plain.chunks(v - 1)) {
            assert_eq!(got[..v - 1], *want, "{device}");
        }
    }
}

#[test]
fn a_scale_multiplies_the_terms_and_none_of_it_is_the_model() {
    let base = Base::hf("llama");
    let text = golden("llama-all").ids;
    let run = |scale: f32| {
        let adapter = adapter("llama-all").scaled(scale).expect("a number");
        Adapted::load(&base, &[], &[&adapter], "reference").expect("loads").one(&text)
    };
    let plain = Adapted::load(&base, &[], &[], "reference").expect("loads").one(&text);
    assert_eq!(run(0.0), plain);
    assert!(relative_error(&run(1.0), &golden("llama-all").logits) < 1e-4);
    assert!(relative_error(&run(0.5), &plain) > 1e-2);
    assert!(relative_error(&run(0.5), &run(1.0)) > 1e-2);
    assert!(adapter("llama-all").scaled(f32::NAN).is_err());
}

#[test]
fn merging_into_quantised_weights_costs_no_more_than_16_bits() {
    let text = golden("llama-all").ids;
    let adapter = adapter("llama-all");
    for name in ["llama-q8_0", "llama-q4_0", "llama-f16"] {
        let base = Base::gguf(name);
        let mut merged = Adapted::load(&base, &[&adapter], &[], "reference").expect("merges");
        let mut beside = Adapted::load(&base, &[], &[&adapter], "reference").expect("loads");
        let error = relative_error(&merged.one(&text), &beside.one(&text));
        // What rounding the weights of this model to 16 bits costs; see `merge`.
        assert!(error < 3e-3, "{name}: {error} between per request and merged");
    }
}
