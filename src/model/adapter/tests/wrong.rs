//! Adapters that are broken, or made for something else.
//!
//! # Place
//! Tests of `model::adapter`.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::golden::{Base, adapter, folder};
use crate::format::{FileMap, Safetensors, TensorView, Tensors};
use crate::model::adapter::{Adapter, PeftConfig};
use crate::model::tests::read_json;

fn config() -> Value {
    json!({
        "peft_type": "LORA", "r": 4, "lora_alpha": 8, "bias": "none",
        "target_modules": ["q_proj", "down_proj"],
    })
}

fn changed(change: impl FnOnce(&mut Value)) -> String {
    let mut json = config();
    change(&mut json);
    PeftConfig::new(&json).expect_err("refused").to_string()
}

#[test]
fn a_configuration_that_cannot_be_followed_is_refused_by_name() {
    assert!(PeftConfig::new(&config()).is_ok());
    let check = |change: fn(&mut Value), words: &[&str]| {
        let text = changed(change);
        assert!(words.iter().all(|w| text.contains(w)), "{text}");
    };
    check(|j| j["peft_type"] = "IA3".into(), &["IA3", "LoRA"]);
    check(|j| j["use_dora"] = true.into(), &["DoRA"]);
    check(|j| j["bias"] = "all".into(), &["bias", "all"]);
    check(|j| j["lora_bias"] = true.into(), &["lora_bias"]);
    check(|j| j["layer_replication"] = json!([[0, 2]]), &["layer replication"]);
    check(|j| j["r"] = 0.into(), &["r = 0", "1 to 1024"]);
    check(|j| j["r"] = 100_000.into(), &["r = 100000"]);
    check(|j| j["r"] = "four".into(), &["four"]);
    check(|j| j["rank_pattern"] = json!({"q_proj": 0}), &["rank_pattern"]);
    check(|j| j["rank_pattern"] = json!({"(": 2}), &["rank_pattern", "("]);
    check(|j| j["target_modules"] = "(".into(), &["target_modules"]);
    check(|j| j["target_modules"] = json!([1]), &["target_modules"]);
    check(|j| j["lora_alpha"] = Value::Null, &["lora_alpha"]);
    check(|j| j["trainable_token_indices"] = json!([1, 1]), &["each id once"]);
    check(|j| j["layers_to_transform"] = json!(["one"]), &["layers_to_transform"]);
    check(|j| *j = json!([]), &["object"]);
    let lacking = changed(|j| {
        j.as_object_mut().expect("an object").remove("r");
    });
    assert!(lacking.contains("'r'"), "{lacking}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever stands in a field, reading ends in a configuration or an error.
    #[test]
    fn a_configuration_of_any_values_is_read_or_refused(
        fields in prop::collection::vec((0usize..14, any_json()), 0..4),
        module in "[a-z._0-9]{0,40}",
    ) {
        const KEYS: [&str; 14] = [
            "peft_type", "r", "lora_alpha", "bias", "target_modules", "rank_pattern",
            "alpha_pattern", "use_rslora", "layers_to_transform", "modules_to_save",
            "trainable_token_indices", "exclude_modules", "use_dora", "layer_replication",
        ];
        let mut json = config();
        for (key, value) in fields {
            json[KEYS[key]] = value;
        }
        if let Ok(config) = PeftConfig::new(&json) {
            if let Ok((rank, scale)) = config.rank_and_scale(&module) {
                prop_assert!(rank >= 1 && scale.is_finite());
            }
            let _ = config.is_target(&module, Some(3));
        }
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        "[a-z.*+?()|\\[\\]^$\\\\]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-z_.*()]{0,8}", inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

#[test]
fn a_pattern_that_would_search_for_ever_is_given_up() {
    let mut json = config();
    json["target_modules"] = r"(a+)+\1b".into();
    let config = PeftConfig::new(&json).expect("it compiles");
    let error = config.is_target(&"a".repeat(60), None).expect_err("given up");
    assert!(error.to_string().contains("target_modules"), "{error}");
}

/// Tensors with some of them changed.
struct Changed {
    base: Safetensors,
    hidden: Vec<String>,
    renamed: Vec<(String, String)>,
    reshaped: Vec<(String, Vec<usize>)>,
    data: Vec<(String, Vec<u8>)>,
}

impl Changed {
    fn new(name: &str) -> Self {
        let base = Safetensors::open(&folder(name).join("adapter_model.safetensors"));
        let base = base.expect("committed");
        let (hidden, renamed, reshaped, data) = Default::default();
        Self { base, hidden, renamed, reshaped, data }
    }

    fn read(self, name: &str) -> Result<Adapter, String> {
        let json = read_json(&folder(name).join("adapter_config.json"));
        Adapter::from_peft(name, &json, Arc::new(self)).map_err(|e| e.to_string())
    }
}

impl Tensors for Changed {
    fn tensor(&self, name: &str) -> Option<TensorView<'_>> {
        let old = self.renamed.iter().find(|(_, new)| new == name).map(|(old, _)| old.as_str());
        let name = old.unwrap_or(name);
        let mut view = self.base.tensor(name).filter(|_| !self.hidden.iter().any(|h| h == name))?;
        if let Some((_, shape)) = self.reshaped.iter().find(|(n, _)| n == name) {
            view.shape = shape;
        }
        if let Some((_, data)) = self.data.iter().find(|(n, _)| n == name) {
            view.data = data;
        }
        Some(view)
    }

    fn names(&self) -> Vec<&str> {
        let name = |old| {
            let new = self.renamed.iter().find(|(from, _)| from == old);
            new.map_or(old, |(_, to)| to.as_str())
        };
        let kept = |n: &&str| !self.hidden.iter().any(|h| h == n);
        self.base.names().into_iter().filter(kept).map(name).collect()
    }
}

const A: &str = "base_model.model.model.layers.0.mlp.down_proj.lora_A.weight";
const B: &str = "base_model.model.model.layers.0.mlp.down_proj.lora_B.weight";

fn fit(adapter: &Adapter, model: &str) -> String {
    adapter.check_fits(&Base::hf(model).config).expect_err("refused").to_string()
}

#[test]
fn an_adapter_of_another_base_counts_what_matches() {
    let mut config = Base::hf("llama").config;
    assert_eq!(adapter("llama-all").check_fits(&config).expect("fits"), 28);
    config.ff = 80;
    let text = adapter("llama-all").check_fits(&config).expect_err("refused").to_string();
    assert!(text.contains("22 of 28 tensors match"), "{text}");
    assert!(text.contains("[4, 64], expected shape [4, 80]"), "{text}");
    let mut config = Base::hf("llama").config;
    config.n_layers = 1;
    let text = adapter("llama-all").check_fits(&config).expect_err("refused").to_string();
    assert!(text.contains("14 of 28 tensors match") && text.contains("layers.1."), "{text}");
    let mut config = Base::hf("llama").config;
    (config.hidden, config.n_heads, config.ff) = (48, 6, 80);
    let text = adapter("llama-saved").check_fits(&config).expect_err("refused").to_string();
    assert!(text.contains("2 of 6 tensors match"), "{text}");
}

#[test]
fn names_that_no_model_has_are_named() {
    let mut tensors = Changed::new("llama-all");
    tensors.renamed.push((A.to_owned(), A.replace("mlp.down_proj", "mlp.c_proj")));
    tensors.renamed.push((B.to_owned(), B.replace("mlp.down_proj", "mlp.c_proj")));
    let text = fit(&tensors.read("llama-all").expect("is read"), "llama");
    assert!(text.contains("26 of 28 tensors match") && text.contains("c_proj"), "{text}");
    let mut tensors = Changed::new("llama-all");
    tensors.renamed.push((A.to_owned(), "something.else".to_owned()));
    tensors.hidden.push(B.to_owned());
    let text = fit(&tensors.read("llama-all").expect("is read"), "llama");
    assert!(text.contains("something.else"), "{text}");
}

#[test]
fn half_a_pair_and_a_missing_pair_are_told_apart() {
    let mut tensors = Changed::new("llama-all");
    tensors.hidden.push(B.to_owned());
    let text = tensors.read("llama-all").err().expect("refused");
    assert!(text.contains("no counterpart") && text.contains(B), "{text}");
    let mut tensors = Changed::new("llama-all");
    tensors.hidden.extend([A.to_owned(), B.to_owned()]);
    let text = fit(&tensors.read("llama-all").expect("is read"), "llama");
    assert!(text.contains("14 modules") && text.contains("13 are there"), "{text}");
    assert!(text.contains("layers.0.mlp.down_proj"), "{text}");
}

#[test]
fn shapes_and_ranks_that_contradict_each_other_are_refused() {
    let mut tensors = Changed::new("llama-all");
    tensors.reshaped.push((B.to_owned(), vec![16, 8]));
    let text = tensors.read("llama-all").err().expect("refused");
    assert!(text.contains("[16, 8]") && text.contains("[outputs, 4]"), "{text}");
    let mut tensors = Changed::new("llama-all");
    tensors.reshaped.push((A.to_owned(), vec![2, 128]));
    tensors.reshaped.push((B.to_owned(), vec![64, 2]));
    let text = tensors.read("llama-all").err().expect("refused");
    assert!(text.contains("rank 2") && text.contains("says 4"), "{text}");
    let mut tensors = Changed::new("llama-all");
    tensors.reshaped.push((A.to_owned(), vec![0, 64]));
    assert!(tensors.read("llama-all").err().expect("refused").contains("rank"));
    let mut tensors = Changed::new("llama-all");
    tensors.reshaped.push((A.to_owned(), vec![256]));
    assert!(tensors.read("llama-all").err().expect("refused").contains("two dimensions"));
    let mut tensors = Changed::new("llama-rows");
    let rows = "base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta";
    tensors.reshaped.push((rows.to_owned(), vec![1, 64]));
    assert!(tensors.read("llama-rows").err().expect("refused").contains("2 tokens"));
}

#[test]
fn values_that_are_not_numbers_are_found_before_anything_runs() {
    use crate::model::adapter::Merged;
    let base = Base::hf("llama");
    for bad in [f32::NAN, f32::INFINITY] {
        let mut tensors = Changed::new("llama-all");
        let mut data = tensors.base.tensor(B).expect("there").data.to_vec();
        data[40..44].copy_from_slice(&bad.to_le_bytes());
        tensors.data.push((B.to_owned(), data));
        let adapter = tensors.read("llama-all").expect("is read");
        let merged = Merged::new(base.tensors.as_ref(), &base.config, &[&adapter], &[]);
        let text = merged.err().expect("refused").to_string();
        assert!(text.contains(B) && text.contains("element 10"), "{text}");
    }
}

#[test]
fn an_unknown_target_module_is_refused_with_those_that_are_known() {
    let mut json = read_json(&folder("llama-other").join("adapter_config.json"));
    json["target_modules"] = json!(["q_proj", "down_proj", "c_attn"]);
    let tensors = Safetensors::open(&folder("llama-other").join("adapter_model.safetensors"));
    let tensors = Arc::new(tensors.expect("committed"));
    let adapter = Adapter::from_peft("x", &json, tensors).expect("is read");
    let text = fit(&adapter, "llama");
    assert!(text.contains("c_attn") && text.contains("gate_proj"), "{text}");
}

#[test]
fn a_file_that_is_cut_anywhere_is_an_error() {
    let path = folder("llama-other").join("adapter_model.safetensors");
    let bytes = std::fs::read(&path).expect("committed");
    for n in (0..bytes.len()).step_by(97) {
        let cut = FileMap::from_vec(bytes[..n].to_vec());
        assert!(Safetensors::from_map(Path::new("cut"), cut).is_err(), "{n} bytes");
    }
}
