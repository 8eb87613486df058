//! Reading a model's shape from a Hugging Face `config.json`.
//!
//! # Place
//! Part of `model`; takes parsed JSON, opens nothing.
//! # Sources
//! The configuration classes of transformers (`LlamaConfig`, `MistralConfig`, `Qwen2Config`,
//! `Qwen3Config`, `SmolLM3Config`), versions 4 (`rope_theta`, `rope_scaling`) and 5
//! (`rope_parameters`), read as facts.

use super::config::bad;
use super::{Architecture, ModelConfig, ModelError, RopeConfig, RopeScaling};
use crate::device::{Activation, RopeStyle};
use serde_json::Value;

impl ModelConfig {
    /// From the contents of `config.json`.
    ///
    /// # Errors
    /// Unknown architectures, activations and rope scalings by name; missing and impossible values by key.
    pub fn from_hf(json: &Value) -> Result<Self, ModelError> {
        let name = json
            .get("model_type")
            .and_then(Value::as_str)
            .ok_or_else(|| ModelError::MissingKey { key: "model_type".to_owned() })?;
        let architecture = Architecture::from_name(name)?;
        let n_layers = size(json, "num_hidden_layers")?;
        let hidden = size(json, "hidden_size")?;
        let n_heads = size(json, "num_attention_heads")?;
        let head_dim = match optional_size(json, "head_dim")? {
            Some(d) => d,
            None if n_heads > 0 => hidden / n_heads,
            None => {
                return Err(bad("num_attention_heads", 0, "at least one head was expected"));
            }
        };
        let context = optional_size(json, "max_position_embeddings")?.unwrap_or(2048);
        Self {
            architecture,
            n_layers,
            hidden,
            n_heads,
            n_kv_heads: optional_size(json, "num_key_value_heads")?.unwrap_or(n_heads),
            head_dim,
            ff: size(json, "intermediate_size")?,
            vocab: size(json, "vocab_size")?,
            context,
            norm_eps: number(json, "rms_norm_eps")?.unwrap_or(1e-6) as f32,
            rope: rope(json, architecture, head_dim, context, n_layers)?,
            activation: activation(json)?,
            windows: windows(json, architecture, n_layers)?,
            tied_head: json
                .get("tie_word_embeddings")
                .and_then(Value::as_bool)
                .unwrap_or(matches!(architecture, Architecture::SmolLm3)),
        }
        .validated()
    }
}

fn size(json: &Value, key: &str) -> Result<usize, ModelError> {
    optional_size(json, key)?.ok_or_else(|| ModelError::MissingKey { key: key.to_owned() })
}

fn optional_size(json: &Value, key: &str) -> Result<Option<usize>, ModelError> {
    match json.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(v) => match v.as_u64().and_then(|n| usize::try_from(n).ok()) {
            Some(n) => Ok(Some(n)),
            None => Err(bad(key, v, "a whole number was expected")),
        },
    }
}

fn number(json: &Value, key: &str) -> Result<Option<f64>, ModelError> {
    match json.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(v) => v.as_f64().map(Some).ok_or_else(|| bad(key, v, "a number was expected")),
    }
}

fn activation(json: &Value) -> Result<Activation, ModelError> {
    match json.get("hidden_act").and_then(Value::as_str).unwrap_or("silu") {
        "silu" | "swish" => Ok(Activation::Silu),
        "gelu_pytorch_tanh" | "gelu_new" => Ok(Activation::GeluTanh),
        other => Err(bad("hidden_act", other, "silu and gelu_pytorch_tanh are supported")),
    }
}

fn rope(
    json: &Value,
    architecture: Architecture,
    head_dim: usize,
    context: usize,
    n_layers: usize,
) -> Result<RopeConfig, ModelError> {
    let settings = json
        .get("rope_parameters")
        .filter(|v| v.is_object())
        .or_else(|| json.get("rope_scaling").filter(|v| v.is_object()));
    let from_settings = |key: &str| settings.map_or(Ok(None), |s| number(s, key));
    let theta = match from_settings("rope_theta")? {
        Some(theta) => theta,
        None => number(json, "rope_theta")?.unwrap_or(10_000.0),
    };
    let partial = match from_settings("partial_rotary_factor")? {
        Some(f) => f,
        None => number(json, "partial_rotary_factor")?.unwrap_or(1.0),
    };
    if !(partial > 0.0 && partial <= 1.0) {
        return Err(bad("partial_rotary_factor", partial, "a share between 0 and 1 was expected"));
    }
    let kind = settings
        .and_then(|s| s.get("rope_type").or_else(|| s.get("type")))
        .and_then(Value::as_str)
        .unwrap_or("default");
    let need = |key: &str| -> Result<f64, ModelError> {
        from_settings(key)?
            .ok_or_else(|| ModelError::MissingKey { key: format!("rope_scaling.{key}") })
    };
    let scaling = match kind {
        "default" => RopeScaling::None,
        "linear" => RopeScaling::Linear { factor: positive("factor", need("factor")?)? },
        "llama3" => RopeScaling::Llama3 {
            factor: positive("factor", need("factor")?)?,
            low_freq_factor: positive("low_freq_factor", need("low_freq_factor")?)?,
            high_freq_factor: positive("high_freq_factor", need("high_freq_factor")?)?,
            original_context: from_settings("original_max_position_embeddings")?
                .unwrap_or(context as f64),
        },
        other => {
            return Err(ModelError::UnknownRopeScaling { name: other.to_owned() });
        }
    };
    Ok(RopeConfig {
        theta,
        scaling,
        style: RopeStyle::Halves,
        dims: (head_dim as f64 * partial) as usize,
        skip_interval: skip_interval(json, architecture, n_layers)?,
    })
}

fn positive(key: &str, value: f64) -> Result<f64, ModelError> {
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err(bad(&format!("rope_scaling.{key}"), value, "a positive number was expected"))
    }
}

/// SmolLM3 leaves out rotary embedding in every n-th layer; an explicit list must say the same.
fn skip_interval(
    json: &Value,
    architecture: Architecture,
    n_layers: usize,
) -> Result<Option<usize>, ModelError> {
    if architecture != Architecture::SmolLm3 {
        return Ok(None);
    }
    let interval = optional_size(json, "no_rope_layer_interval")?.unwrap_or(4);
    if let Some(list) = json.get("no_rope_layers").and_then(Value::as_array) {
        let follows = list.len() == n_layers
            && list.iter().enumerate().all(|(i, v)| {
                let rotated = interval == 0 || !(i + 1).is_multiple_of(interval);
                v.as_u64() == Some(u64::from(rotated))
            });
        if !follows && !list.is_empty() {
            return Err(bad(
                "no_rope_layers",
                Value::Array(list.clone()),
                "a list that follows no_rope_layer_interval was expected",
            ));
        }
    }
    Ok(Some(interval))
}

fn windows(
    json: &Value,
    architecture: Architecture,
    n_layers: usize,
) -> Result<Vec<Option<usize>>, ModelError> {
    let window = optional_size(json, "sliding_window")?;
    let used = match architecture {
        Architecture::Mistral => true,
        Architecture::Llama => false,
        Architecture::Qwen2 | Architecture::Qwen3 | Architecture::SmolLm3 => {
            json.get("use_sliding_window").and_then(Value::as_bool).unwrap_or(false)
        }
    };
    let Some(window) = window.filter(|_| used) else {
        return Ok(vec![None; n_layers]);
    };
    if let Some(types) = json.get("layer_types").and_then(Value::as_array) {
        return types
            .iter()
            .map(|t| match t.as_str() {
                Some("full_attention") => Ok(None),
                Some("sliding_attention") => Ok(Some(window)),
                _ => Err(bad("layer_types", t, "full_attention or sliding_attention was expected")),
            })
            .collect();
    }
    let full = optional_size(json, "max_window_layers")?.unwrap_or(0);
    Ok((0..n_layers).map(|i| (i >= full).then_some(window)).collect())
}
