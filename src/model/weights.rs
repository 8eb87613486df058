//! Tensors by name, checked against the configuration and handed to the device.
//!
//! # Place
//! Part of `model`; uses `format` and `device`.
//! # Invariants
//! - Every tensor the configuration asks for is there with the right shape, or loading fails and lists
//!   all that are missing.
//! - Every layer tensor in the file is used; one that is not would mean a wrong result, so it is an error.

use super::part::{Naming, Part};
use super::{ModelConfig, ModelError, rope};
use crate::base::DType;
use crate::device::{Backend, MatrixId, MatrixSource, Stacking, VectorId};
use crate::format::{TensorView, Tensors};
use std::collections::HashSet;

/// One layer's weights on the device.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) attention_norm: VectorId,      // [C]
    pub(super) qkv: MatrixId,                 // [(H + 2·Hk)·D, C]
    pub(super) qkv_bias: Option<VectorId>,    // [(H + 2·Hk)·D]
    pub(super) q_norm: Option<VectorId>,      // [D]
    pub(super) k_norm: Option<VectorId>,      // [D]
    pub(super) output: MatrixId,              // [C, H·D]
    pub(super) output_bias: Option<VectorId>, // [C]
    pub(super) feed_forward_norm: VectorId,   // [C]
    pub(super) gate_up: MatrixId,             // 2 × [F, C]
    pub(super) down: MatrixId,                // [C, F]
    pub(super) down_bias: Option<VectorId>,   // [C]
}

/// All weights on the device.
#[derive(Debug)]
pub(super) struct Weights {
    pub(super) embedding: MatrixId, // [V, C]
    pub(super) head: MatrixId,      // [V, C], the embedding itself when tied
    pub(super) output_norm: VectorId,
    pub(super) inv_freq: VectorId,
    pub(super) layers: Vec<Layer>,
}

/// Copy the weights to the device. `progress` is told (layers done, layers in all).
pub(super) fn load(
    config: &ModelConfig,
    tensors: &dyn Tensors,
    backend: &mut dyn Backend,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Weights, ModelError> {
    let naming = Naming::of(tensors);
    let mut binder = Binder {
        config,
        tensors,
        naming,
        used: HashSet::new(),
        fresh: Vec::new(),
        missing: Vec::new(),
    };
    binder.check_all()?;
    let (c, v) = (config.hidden, config.vocab);

    let embedding_view = binder.matrix(Part::Embedding, None, v, c)?;
    let embedding = backend.matrix(&[source(&embedding_view)], Stacking::Rows)?;
    let head = match binder.optional(Part::Head, None, "weight") {
        Some(view) if !config.tied_head => {
            check_shape(&Part::Head.name(naming, None, "weight"), &view, &[v, c])?;
            backend.matrix(&[source(&view)], Stacking::Rows)?
        }
        // Tied by configuration, or the file has no head of its own (LOD-3).
        _ => embedding,
    };
    binder.forget_used();
    let divisors = match binder.optional(Part::RopeDivisors, None, "weight") {
        Some(view) => {
            check_shape("rope_freqs.weight", &view, &[config.rope.dims / 2])?;
            Some(floats("rope_freqs.weight", &view)?)
        }
        None => None,
    };
    let inv_freq = rope::inverse_frequencies(&config.rope, divisors.as_deref());
    let output_norm = binder.vector(Part::OutputNorm, None, c)?;
    let mut layers = Vec::with_capacity(config.n_layers);
    for i in 0..config.n_layers {
        layers.push(binder.layer(i, backend)?);
        binder.forget_used();
        progress(i + 1, config.n_layers);
    }
    binder.check_leftovers()?;
    Ok(Weights {
        embedding,
        head,
        output_norm: backend.vector(&output_norm)?,
        inv_freq: backend.vector(&inv_freq)?,
        layers,
    })
}

struct Binder<'a> {
    config: &'a ModelConfig,
    tensors: &'a dyn Tensors,
    naming: Naming,
    used: HashSet<String>,
    /// Names used since the file was last told to forget them.
    fresh: Vec<String>,
    missing: Vec<String>,
}

impl<'a> Binder<'a> {
    /// List everything that is missing before anything is copied.
    fn check_all(&mut self) -> Result<(), ModelError> {
        const LAYER_PARTS: [Part; 9] = [
            Part::AttentionNorm,
            Part::Query,
            Part::Key,
            Part::Value,
            Part::Output,
            Part::FeedForwardNorm,
            Part::Gate,
            Part::Up,
            Part::Down,
        ];
        let mut names = vec![
            Part::Embedding.name(self.naming, None, "weight"),
            Part::OutputNorm.name(self.naming, None, "weight"),
        ];
        for layer in 0..self.config.n_layers {
            names.extend(LAYER_PARTS.map(|p| p.name(self.naming, Some(layer), "weight")));
            if self.config.architecture == super::Architecture::Qwen3 {
                names.push(Part::QueryNorm.name(self.naming, Some(layer), "weight"));
                names.push(Part::KeyNorm.name(self.naming, Some(layer), "weight"));
            }
        }
        self.missing.extend(names.into_iter().filter(|n| self.tensors.tensor(n).is_none()));
        if self.missing.is_empty() {
            Ok(())
        } else {
            Err(ModelError::MissingTensors { names: std::mem::take(&mut self.missing) })
        }
    }

    /// A layer tensor that nothing used would be a silently wrong model.
    fn check_leftovers(&self) -> Result<(), ModelError> {
        let ignorable = |name: &str| name.ends_with("rotary_emb.inv_freq");
        let mut names: Vec<String> = self
            .tensors
            .names()
            .into_iter()
            .filter(|n| n.starts_with("blk.") || n.starts_with("model.layers."))
            .filter(|n| !self.used.contains(*n) && !ignorable(n))
            .map(str::to_owned)
            .collect();
        if names.is_empty() {
            return Ok(());
        }
        names.sort();
        Err(ModelError::UnusedTensors { names })
    }

    fn optional(
        &mut self,
        part: Part,
        layer: Option<usize>,
        suffix: &str,
    ) -> Option<TensorView<'a>> {
        let name = part.name(self.naming, layer, suffix);
        let view = self.tensors.tensor(&name);
        if view.is_some() {
            self.fresh.push(name.clone());
            self.used.insert(name);
        }
        view
    }

    /// The device has its own copy: the file's pages would only double the memory.
    fn forget_used(&mut self) {
        for name in self.fresh.drain(..) {
            self.tensors.forget(&name);
        }
    }

    fn required(&mut self, part: Part, layer: Option<usize>) -> Result<TensorView<'a>, ModelError> {
        self.optional(part, layer, "weight").ok_or_else(|| ModelError::MissingTensors {
            names: vec![part.name(self.naming, layer, "weight")],
        })
    }

    fn matrix(
        &mut self,
        part: Part,
        layer: Option<usize>,
        rows: usize,
        cols: usize,
    ) -> Result<TensorView<'a>, ModelError> {
        let view = self.required(part, layer)?;
        check_shape(&part.name(self.naming, layer, "weight"), &view, &[rows, cols])?;
        Ok(view)
    }

    fn vector(
        &mut self,
        part: Part,
        layer: Option<usize>,
        n: usize,
    ) -> Result<Vec<f32>, ModelError> {
        let name = part.name(self.naming, layer, "weight");
        let view = self.required(part, layer)?;
        check_shape(&name, &view, &[n])?;
        floats(&name, &view)
    }

    fn optional_vector(
        &mut self,
        part: Part,
        layer: usize,
        suffix: &str,
        n: usize,
    ) -> Result<Option<Vec<f32>>, ModelError> {
        let name = part.name(self.naming, Some(layer), suffix);
        match self.optional(part, Some(layer), suffix) {
            None => Ok(None),
            Some(view) => {
                check_shape(&name, &view, &[n])?;
                floats(&name, &view).map(Some)
            }
        }
    }

    fn layer(&mut self, i: usize, backend: &mut dyn Backend) -> Result<Layer, ModelError> {
        let ModelConfig { hidden: c, n_heads, n_kv_heads, head_dim, ff, .. } = *self.config;
        let (q_rows, kv_rows) = (n_heads * head_dim, n_kv_heads * head_dim);
        let at = Some(i);

        let q = self.matrix(Part::Query, at, q_rows, c)?;
        let k = self.matrix(Part::Key, at, kv_rows, c)?;
        let v = self.matrix(Part::Value, at, kv_rows, c)?;
        let qkv = backend.matrix(&[source(&q), source(&k), source(&v)], Stacking::Rows)?;
        let q_bias = self.optional_vector(Part::Query, i, "bias", q_rows)?;
        let k_bias = self.optional_vector(Part::Key, i, "bias", kv_rows)?;
        let v_bias = self.optional_vector(Part::Value, i, "bias", kv_rows)?;
        let qkv_bias = if q_bias.is_some() || k_bias.is_some() || v_bias.is_some() {
            let mut bias = q_bias.unwrap_or_else(|| vec![0.0; q_rows]);
            bias.extend(k_bias.unwrap_or_else(|| vec![0.0; kv_rows]));
            bias.extend(v_bias.unwrap_or_else(|| vec![0.0; kv_rows]));
            Some(backend.vector(&bias)?)
        } else {
            None
        };
        let q_norm = self.optional_vector(Part::QueryNorm, i, "weight", head_dim)?;
        let k_norm = self.optional_vector(Part::KeyNorm, i, "weight", head_dim)?;

        let output = self.matrix(Part::Output, at, c, q_rows)?;
        let output = backend.matrix(&[source(&output)], Stacking::Rows)?;
        let output_bias = self.optional_vector(Part::Output, i, "bias", c)?;

        let gate = self.matrix(Part::Gate, at, ff, c)?;
        let up = self.matrix(Part::Up, at, ff, c)?;
        let gate_up = backend.matrix(&[source(&gate), source(&up)], Stacking::GatedPair)?;
        let down = self.matrix(Part::Down, at, c, ff)?;
        let down = backend.matrix(&[source(&down)], Stacking::Rows)?;
        let down_bias = self.optional_vector(Part::Down, i, "bias", c)?;

        let mut optional =
            |values: Option<Vec<f32>>| values.map(|v| backend.vector(&v)).transpose();
        Ok(Layer {
            qkv,
            qkv_bias,
            q_norm: optional(q_norm)?,
            k_norm: optional(k_norm)?,
            output,
            output_bias: optional(output_bias)?,
            gate_up,
            down,
            down_bias: optional(down_bias)?,
            attention_norm: backend.vector(&self.vector(Part::AttentionNorm, at, c)?)?,
            feed_forward_norm: backend.vector(&self.vector(Part::FeedForwardNorm, at, c)?)?,
        })
    }
}

fn source<'a>(view: &TensorView<'a>) -> MatrixSource<'a> {
    MatrixSource { dtype: view.dtype, rows: view.shape[0], cols: view.shape[1], data: view.data }
}

fn check_shape(name: &str, view: &TensorView<'_>, expected: &[usize]) -> Result<(), ModelError> {
    if view.shape == expected {
        return Ok(());
    }
    Err(ModelError::WrongShape {
        name: name.to_owned(),
        expected: expected.to_vec(),
        got: view.shape.to_vec(),
    })
}

/// A small tensor as f32.
fn floats(name: &str, view: &TensorView<'_>) -> Result<Vec<f32>, ModelError> {
    let pairs = |f: fn(u16) -> f32| -> Vec<f32> {
        view.data.chunks_exact(2).map(|b| f(u16::from_le_bytes([b[0], b[1]]))).collect()
    };
    match view.dtype {
        DType::F32 => Ok(view
            .data
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect()),
        DType::F16 => Ok(pairs(|bits| half::f16::from_bits(bits).to_f32())),
        DType::BF16 => Ok(pairs(|bits| half::bf16::from_bits(bits).to_f32())),
        other => Err(ModelError::BadValue {
            key: format!("type of {name}"),
            value: other.to_string(),
            expected: "F32, F16 or BF16 was expected for a vector".to_owned(),
        }),
    }
}
