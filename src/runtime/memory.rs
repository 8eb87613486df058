//! How a device's memory will be used, worked out before anything is loaded.
//!
//! # Place
//! Part of `runtime`. Only for devices with memory of their own.

use super::RuntimeError;
use crate::base::limit;
use crate::device::DeviceMemory;
use crate::format::Tensors;
use crate::model::{DecoderLimits, ModelConfig};

/// What a model needs, and what there is. All sizes in bytes unless named otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    pub weights: u64,
    /// Adapters that are applied per request; merged ones are weights.
    pub adapters: u64,
    /// Activations and scratch.
    pub workspace: u64,
    /// Keys and values.
    pub cache: u64,
    pub cache_tokens: usize,
    pub free: u64,
    pub total: u64,
}

/// A size for people.
fn gib(bytes: u64) -> String {
    format!("{:.2} GiB", bytes as f64 / f64::from(1 << 30))
}

impl std::fmt::Display for MemoryPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "memory: weights {}, ", gib(self.weights))?;
        if self.adapters > 0 {
            write!(f, "adapters {}, ", gib(self.adapters))?;
        }
        write!(
            f,
            "cache {} ({} tokens), workspace {}; {} of {} free",
            gib(self.cache),
            self.cache_tokens,
            gib(self.workspace),
            gib(self.free),
            gib(self.total)
        )
    }
}

/// Fit the cache into what the weights, adapters of `n_beside` parameters beside them and the workspace leave of
/// `fraction` of the free memory. Without a wish it gets `limits.kv_blocks`, or as much as fits.
///
/// # Errors
/// The weights, or the cache asked for, do not fit; the error names what would.
pub(super) fn plan(
    config: &ModelConfig,
    tensors: &dyn Tensors,
    n_beside: u64,
    limits: &DecoderLimits,
    memory: DeviceMemory,
    fraction: f32,
    is_wish: bool,
) -> Result<MemoryPlan, RuntimeError> {
    let data = tensors.names().into_iter().filter_map(|name| tensors.tensor(name));
    // Scales of the K types grow from six bits to eight: a thirty-second covers it.
    let weights = data.map(|t| t.data.len() as u64).sum::<u64>() / 32 * 33;
    let workspace = workspace_bytes(config, limits);
    let head = limits.kv_type.head_bytes(config.head_dim);
    let token = 2 * config.n_layers * config.n_kv_heads * head;
    let usable = (memory.free as f64 * f64::from(fraction)) as u64;
    let block = limits.kv_block_tokens;
    // Their terms are computed in f32.
    let adapters = 4 * n_beside;
    let fixed = adapters + workspace;
    let left = usable.saturating_sub(weights + fixed);
    let tokens_fit = (left / token as u64) as usize / block * block;
    let asked = limits.kv_blocks * block;
    if tokens_fit < block {
        return Err(RuntimeError::ModelTooLarge {
            need: gib(weights + fixed + (token * block) as u64),
            usable: gib(usable),
            free: gib(memory.free),
            fit: gib(usable.saturating_sub(fixed + (token * block) as u64)),
        });
    }
    if is_wish && asked > tokens_fit {
        return Err(RuntimeError::CacheTooLarge {
            asked_tokens: asked,
            need: gib((asked * token) as u64),
            left: gib(left),
            fit_tokens: tokens_fit,
        });
    }
    let cache_tokens = asked.min(tokens_fit);
    Ok(MemoryPlan {
        weights,
        adapters,
        workspace,
        cache: (cache_tokens * token) as u64,
        cache_tokens,
        free: memory.free,
        total: memory.total,
    })
}

/// Activations of the largest step, their copy in bf16, and the partial results of attention.
fn workspace_bytes(c: &ModelConfig, limits: &DecoderLimits) -> u64 {
    let attended = c.n_heads * c.head_dim;
    let row = 4 * (c.hidden + c.qkv_width() + attended + c.ff);
    let rounded = 2 * c.ff.max(c.hidden).max(attended);
    let logit_row = 4 * (c.hidden + attended + c.vocab);
    let partials = limit::ATTENTION_PARTIALS_MAX * c.n_heads * (c.head_dim + 2) * 4;
    (limits.rows_max * (row + rounded) + limits.logit_rows_max * logit_row + partials) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::KvType;
    use crate::format::Safetensors;
    use std::path::Path;

    fn planned(free: u64, kv_tokens: usize, is_wish: bool) -> Result<MemoryPlan, RuntimeError> {
        planned_with(0, free, kv_tokens, is_wish)
    }

    fn planned_with(
        n_beside: u64,
        free: u64,
        kv_tokens: usize,
        is_wish: bool,
    ) -> Result<MemoryPlan, RuntimeError> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/models/llama");
        let json = std::fs::read(folder.join("config.json")).unwrap();
        let config = ModelConfig::from_hf(&serde_json::from_slice(&json).unwrap()).unwrap();
        let tensors = Safetensors::open(&folder).unwrap();
        let limits = DecoderLimits {
            rows_max: 512,
            logit_rows_max: 8,
            kv_blocks: kv_tokens / 32,
            kv_block_tokens: 32,
            kv_type: KvType::F16,
        };
        let memory = DeviceMemory { free, total: 1 << 30 };
        plan(&config, &tensors, n_beside, &limits, memory, 0.5, is_wish)
    }

    #[test]
    fn a_cache_gets_what_it_asks_for_or_what_fits() {
        let roomy = planned(1 << 30, 128, false).unwrap();
        // Two layers of two heads of eight: 128 bytes a token.
        assert_eq!((roomy.cache_tokens, roomy.cache), (128, 128 * 128));
        let need = roomy.weights + roomy.workspace;
        let tight = planned(2 * (need + 70 * 128), 128, false).unwrap();
        assert_eq!(tight.cache_tokens, 64, "whole blocks of half of the memory");
    }

    #[test]
    fn adapters_beside_the_weights_leave_less_for_the_cache() {
        let roomy = planned(1 << 30, 128, false).unwrap();
        let free = 2 * (roomy.weights + roomy.workspace + 70 * 128);
        let beside = planned_with(32 * 32, free, 128, false).unwrap();
        assert_eq!((beside.cache_tokens, beside.adapters), (32, 32 * 128));
        assert!(beside.to_string().contains("adapters") && !roomy.to_string().contains("adapters"));
    }

    #[test]
    fn what_does_not_fit_names_what_would() {
        let roomy = planned(1 << 30, 128, false).unwrap();
        let need = roomy.weights + roomy.workspace;
        let text = planned(2 * (need + 70 * 128), 128, true).unwrap_err().to_string();
        assert!(text.contains("128 tokens") && text.contains("--kv-tokens 64"), "{text}");
        let text = planned(need, 128, false).unwrap_err().to_string();
        assert!(text.contains("weights of up to") && text.contains("--device cpu"), "{text}");
    }
}
