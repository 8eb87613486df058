//! What a model is made of, whatever file it came from.
//!
//! # Place
//! Part of `model`. Filled by `config_gguf` and `config_hf`; read by `weights` and `decoder`.

use super::ModelError;
use crate::device::{Activation, RopeStyle};

/// The architectures that the decoder knows. Llama covers Llama 1 to 3, CodeLlama, DeepSeek-Coder and
/// SmolLM2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    Llama,
    Mistral,
    Qwen2,
    Qwen3,
    SmolLm3,
}

impl Architecture {
    /// What is listed when a name is not known.
    pub const SUPPORTED: &'static str =
        "llama (Llama 1 to 3, CodeLlama, DeepSeek-Coder, SmolLM2), mistral, qwen2, qwen3, smollm3";

    /// By the name that GGUF files (`general.architecture`) and `config.json` (`model_type`) use.
    ///
    /// # Errors
    /// When the name is not supported.
    pub fn from_name(name: &str) -> Result<Self, ModelError> {
        match name {
            "llama" => Ok(Self::Llama),
            "mistral" => Ok(Self::Mistral),
            "qwen2" => Ok(Self::Qwen2),
            "qwen3" => Ok(Self::Qwen3),
            "smollm3" => Ok(Self::SmolLm3),
            _ => Err(ModelError::UnknownArchitecture {
                name: name.to_owned(),
                supported: Self::SUPPORTED,
            }),
        }
    }

    /// How GGUF files order the rows of query and key: converters permute those of some architectures so
    /// that neighbours rotate together.
    pub(super) const fn gguf_rope_style(self) -> RopeStyle {
        match self {
            Self::Llama | Self::Mistral | Self::SmolLm3 => RopeStyle::Interleaved,
            Self::Qwen2 | Self::Qwen3 => RopeStyle::Halves,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Mistral => "mistral",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
            Self::SmolLm3 => "smollm3",
        }
    }
}

/// How rotary frequencies are stretched for contexts longer than those trained on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    None,
    /// Every frequency divided by `factor`.
    Linear {
        factor: f64,
    },
    /// Llama 3.1: low frequencies divided by `factor`, high ones kept, a ramp between.
    Llama3 {
        factor: f64,
        low_freq_factor: f64,
        high_freq_factor: f64,
        original_context: f64,
    },
}

/// Rotary embedding of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RopeConfig {
    pub theta: f64,
    pub scaling: RopeScaling,
    pub style: RopeStyle,
    /// Rotated dimensions of a head, at most `head_dim`.
    pub dims: usize,
    /// Layers `i` with `(i + 1) % interval == 0` have no rotary embedding (SmolLM3).
    pub skip_interval: Option<usize>,
}

/// A model's shape and constants. Letters as in [`crate::device`].
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    pub architecture: Architecture,
    pub n_layers: usize,   // L
    pub hidden: usize,     // C
    pub n_heads: usize,    // H
    pub n_kv_heads: usize, // Hk
    pub head_dim: usize,   // D
    pub ff: usize,         // F
    pub vocab: usize,      // V
    /// Positions that the model was made for.
    pub context: usize,
    pub norm_eps: f32,
    pub rope: RopeConfig,
    pub activation: Activation,
    /// For each layer: a row sees only the last so many positions, itself included. `[L]`
    pub windows: Vec<Option<usize>>,
    /// The configuration says that the head is the embedding. A missing head means the same.
    pub tied_head: bool,
}

impl ModelConfig {
    /// Check relations between the fields that every file must satisfy.
    ///
    /// # Errors
    /// Names the field, its value and what was expected.
    pub(super) fn validated(self) -> Result<Self, ModelError> {
        let positive = [
            ("layers", self.n_layers),
            ("hidden size", self.hidden),
            ("attention heads", self.n_heads),
            ("key-value heads", self.n_kv_heads),
            ("head size", self.head_dim),
            ("feed-forward size", self.ff),
            ("vocabulary size", self.vocab),
            ("context length", self.context),
        ];
        for (key, value) in positive {
            if value == 0 || value > 1 << 26 {
                return Err(bad(key, value, "a positive size below 67 million was expected"));
            }
        }
        if self.windows.len() != self.n_layers || self.windows.contains(&Some(0)) {
            return Err(bad(
                "sliding windows",
                self.windows.len(),
                "one positive window for each layer",
            ));
        }
        if !self.n_heads.is_multiple_of(self.n_kv_heads) {
            return Err(bad(
                "key-value heads",
                self.n_kv_heads,
                "it must divide the attention heads",
            ));
        }
        if self.rope.dims == 0
            || !self.rope.dims.is_multiple_of(2)
            || self.rope.dims > self.head_dim
        {
            return Err(bad(
                "rotated dimensions",
                self.rope.dims,
                "an even number up to the head size",
            ));
        }
        if !(self.norm_eps > 0.0 && self.norm_eps < 1.0) {
            return Err(bad("norm epsilon", self.norm_eps, "a small positive number was expected"));
        }
        if !(self.rope.theta.is_finite() && self.rope.theta > 0.0) {
            return Err(bad("rope base", self.rope.theta, "a positive number was expected"));
        }
        Ok(self)
    }

    /// Width of the fused query, key and value rows.
    pub fn qkv_width(&self) -> usize {
        (self.n_heads + 2 * self.n_kv_heads) * self.head_dim
    }

    /// Whether a layer rotates queries and keys.
    pub fn layer_has_rope(&self, layer: usize) -> bool {
        self.rope.skip_interval.is_none_or(|n| n == 0 || !(layer + 1).is_multiple_of(n))
    }
}

pub(super) fn bad(key: &str, value: impl ToString, expected: &str) -> ModelError {
    ModelError::BadValue {
        key: key.to_owned(),
        value: value.to_string(),
        expected: expected.to_owned(),
    }
}
