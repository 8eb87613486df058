//! Reading a model's shape from GGUF metadata.
//!
//! # Place
//! Part of `model`; uses `format`.
//! # Sources
//! The GGUF specification's list of standard keys (`[arch].…`).

use super::config::bad;
use super::{Architecture, ModelConfig, ModelError, RopeConfig, RopeScaling};
use crate::device::Activation;
use crate::format::Metadata;

impl ModelConfig {
    /// From a GGUF file's metadata. `embedding_rows` is the number of rows of `token_embd.weight`.
    ///
    /// # Errors
    /// As [`ModelConfig::from_hf`].
    pub fn from_gguf(meta: &Metadata, embedding_rows: usize) -> Result<Self, ModelError> {
        let name = meta
            .str("general.architecture")?
            .ok_or_else(|| ModelError::MissingKey { key: "general.architecture".to_owned() })?;
        let architecture = Architecture::from_name(name)?;
        let keys = Keys { meta, arch: name };
        let n_layers = keys.size("block_count")?;
        let hidden = keys.size("embedding_length")?;
        let n_heads = keys.size("attention.head_count")?;
        if n_heads == 0 {
            return Err(bad("attention.head_count", 0, "at least one head was expected"));
        }
        let head_dim = keys.optional_size("attention.key_length")?.unwrap_or(hidden / n_heads);
        let value_dim = keys.optional_size("attention.value_length")?.unwrap_or(head_dim);
        if value_dim != head_dim {
            return Err(bad("attention.value_length", value_dim, "the key length was expected"));
        }
        let window = keys.optional_size("attention.sliding_window")?.filter(|&w| w > 0);
        Self {
            architecture,
            n_layers,
            hidden,
            n_heads,
            n_kv_heads: keys.optional_size("attention.head_count_kv")?.unwrap_or(n_heads),
            head_dim,
            ff: keys.size("feed_forward_length")?,
            vocab: embedding_rows,
            context: keys.size("context_length")?,
            norm_eps: keys.number("attention.layer_norm_rms_epsilon")?.unwrap_or(1e-5) as f32,
            rope: rope(&keys, architecture, head_dim)?,
            activation: Activation::Silu,
            windows: vec![window; n_layers.min(1 << 20)],
            tied_head: false,
        }
        .validated()
    }
}

struct Keys<'a> {
    meta: &'a Metadata,
    arch: &'a str,
}

impl Keys<'_> {
    fn full(&self, key: &str) -> String {
        format!("{}.{key}", self.arch)
    }

    fn optional_size(&self, key: &str) -> Result<Option<usize>, ModelError> {
        let key = self.full(key);
        match self.meta.u64(&key)? {
            None => Ok(None),
            Some(n) => usize::try_from(n)
                .map(Some)
                .map_err(|_| bad(&key, n, "a size that fits this machine was expected")),
        }
    }

    fn size(&self, key: &str) -> Result<usize, ModelError> {
        self.optional_size(key)?.ok_or_else(|| ModelError::MissingKey { key: self.full(key) })
    }

    fn number(&self, key: &str) -> Result<Option<f64>, ModelError> {
        Ok(self.meta.f32(&self.full(key))?.map(f64::from))
    }
}

fn rope(
    keys: &Keys<'_>,
    architecture: Architecture,
    head_dim: usize,
) -> Result<RopeConfig, ModelError> {
    let factor = keys.number("rope.scaling.factor")?;
    let scaling = match keys.meta.str(&keys.full("rope.scaling.type"))? {
        None => match keys.number("rope.scale_linear")? {
            Some(f) if f > 0.0 && f != 1.0 => RopeScaling::Linear { factor: f },
            _ => RopeScaling::None,
        },
        Some("none") => RopeScaling::None,
        Some("linear") => match factor {
            Some(factor) if factor.is_finite() && factor > 0.0 => RopeScaling::Linear { factor },
            Some(factor) => {
                return Err(bad("rope.scaling.factor", factor, "a positive number was expected"));
            }
            None => {
                return Err(ModelError::MissingKey { key: keys.full("rope.scaling.factor") });
            }
        },
        Some(other) => {
            return Err(ModelError::UnknownRopeScaling { name: other.to_owned() });
        }
    };
    Ok(RopeConfig {
        theta: keys.number("rope.freq_base")?.unwrap_or(10_000.0),
        scaling,
        style: architecture.gguf_rope_style(),
        dims: keys.optional_size("rope.dimension_count")?.unwrap_or(head_dim),
        skip_interval: (architecture == Architecture::SmolLm3).then_some(4),
    })
}
