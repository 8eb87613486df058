//! One step of the decoder: rows of several sequences through every layer, logits for some of them.
//!
//! # Place
//! Part of `model`. `engine` says which rows and where their keys go; the decoder says which
//! operations run in which order.
//! # Shapes and units
//! `x [T, C]` the residual stream, `qkv [T, (H + 2·Hk)·D]`, `attended [T, H·D]`, `gated [T, F]`,
//! `picked [R, C]` the rows that need logits, `logits [R, V]`.

use super::adapter::BoundAdapter;
use super::beside::{Beside, Rows};
use super::weights::{self, Weights};
use super::{Adapter, ModelConfig, ModelError};
use crate::device::{
    Attention, Backend, BufferId, DeviceError, KvId, KvShape, KvType, RopeStore, StepRows,
};
use crate::format::Tensors;

/// Sizes of the workspace and the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecoderLimits {
    /// Most rows of one step, `T`.
    pub rows_max: usize,
    /// Most rows of one step that need logits, `R`.
    pub logit_rows_max: usize,
    pub kv_blocks: usize,
    pub kv_block_tokens: usize,
    pub kv_type: KvType,
}

/// An adapter that was put beside the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AdapterId(pub u32);

/// Neighbouring rows of a step that run with an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdapterRows {
    pub first_row: usize,
    pub n_rows: usize,
    pub adapter: AdapterId,
}

/// What one step runs.
#[derive(Clone, Copy, Debug)]
pub struct StepInput<'a> {
    /// Token of every row. `[T]`
    pub ids: &'a [u32],
    pub rows: StepRows<'a>,
    /// Rows whose logits are wanted, ascending. `[R]`
    pub logit_rows: &'a [u32],
    /// Rows with an adapter, ascending and apart; the others run on the weights alone.
    pub adapters: &'a [AdapterRows],
}

/// A model on a device, with its cache and workspace.
#[derive(Debug)]
pub struct Decoder {
    config: ModelConfig,
    limits: DecoderLimits,
    weights: Weights,
    kv: KvId,
    x: BufferId,
    qkv: BufferId,
    attended: BufferId,
    gated: BufferId,
    picked: BufferId,
    picked_attended: BufferId,
    logits: BufferId,
    beside: Beside,
}

impl Decoder {
    /// Put the weights on the device and allocate everything a step needs.
    ///
    /// # Errors
    /// Missing or misshapen tensors; types or sizes that the device does not support; no memory.
    pub fn load(
        config: ModelConfig,
        tensors: &dyn Tensors,
        backend: &mut dyn Backend,
        limits: DecoderLimits,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, ModelError> {
        assert!(limits.logit_rows_max <= limits.rows_max, "logits are wanted for rows of the step");
        let (t, r) = (limits.rows_max, limits.logit_rows_max);
        // Before the weights: a head size that the device does not know is refused at once.
        let kv = backend.kv_store(KvShape {
            n_layers: config.n_layers,
            n_blocks: limits.kv_blocks,
            block_tokens: limits.kv_block_tokens,
            n_kv_heads: config.n_kv_heads,
            head_dim: config.head_dim,
            dtype: limits.kv_type,
        })?;
        for i in 0..config.n_layers {
            backend.make_room(&attention(&config, i), config.vocab)?;
        }
        let weights = weights::load(&config, tensors, backend, progress)?;
        let attended_width = config.n_heads * config.head_dim;
        Ok(Self {
            weights,
            limits,
            kv,
            x: backend.buffer(t * config.hidden)?,
            qkv: backend.buffer(t * config.qkv_width())?,
            attended: backend.buffer(t * attended_width)?,
            gated: backend.buffer(t * config.ff)?,
            picked: backend.buffer(r * config.hidden)?,
            picked_attended: backend.buffer(r * attended_width)?,
            logits: backend.buffer(r * config.vocab)?,
            beside: Beside::new(&config, r),
            config,
        })
    }

    /// Put an adapter beside the weights, for rows that name it. The vocabulary was grown for its new
    /// tokens while loading ([`super::Merged`]); `n_base` are the tokens of the model itself.
    ///
    /// # Errors
    /// Values that are not numbers, modules that cannot be replaced for single rows, no memory, a device
    /// without low-rank terms.
    pub fn add_adapter(
        &mut self,
        backend: &mut dyn Backend,
        adapter: &Adapter,
        n_base: usize,
    ) -> Result<AdapterId, ModelError> {
        let bound = BoundAdapter::new(adapter, &self.config, &self.weights, n_base, backend)?;
        let n_rows = (self.limits.rows_max, self.limits.logit_rows_max);
        self.beside.add(backend, bound, n_rows, n_base)
    }

    /// Adapters beside the weights.
    pub fn n_adapters(&self) -> usize {
        self.beside.n_adapters()
    }

    /// Whether rows of an adapter (or of none) can read a token.
    pub fn reads(&self, adapter: Option<AdapterId>, id: u32) -> bool {
        (id as usize) < self.config.vocab && self.beside.reads(adapter, id)
    }

    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    pub fn limits(&self) -> &DecoderLimits {
        &self.limits
    }

    /// Where a step's logits are: row `i` belongs to `logit_rows[i]`. `[R, V]`
    pub fn logits(&self) -> BufferId {
        self.logits
    }

    pub fn kv(&self) -> KvId {
        self.kv
    }

    /// Run the rows: their keys and values are cached, and [`Decoder::logits`] holds the logits asked
    /// for until the next step.
    ///
    /// # Errors
    /// Only when the device is lost.
    pub fn step(
        &mut self,
        backend: &mut dyn Backend,
        input: &StepInput<'_>,
    ) -> Result<(), DeviceError> {
        let StepInput { ids, rows, logit_rows, adapters } = *input;
        let (t, r) = (rows.n_rows, logit_rows.len());
        assert_eq!(ids.len(), t, "one token a row");
        assert!(t > 0 && t <= self.limits.rows_max, "a step holds 1 to rows_max rows");
        assert!(r <= self.limits.logit_rows_max, "at most logit_rows_max rows have logits");

        backend.embed(self.weights.embedding, ids, self.x)?;
        self.beside.embed(backend, ids, adapters, self.x)?;
        self.beside.pick(logit_rows, adapters);
        let last = self.weights.layers.len() - 1;
        for i in 0..=last {
            self.project(backend, i, &rows, adapters)?;
            if i < last {
                self.attend(backend, i, &rows)?;
                let at = (self.attended, self.x);
                self.finish_layer(backend, i, at, t, Rows::All(adapters))?;
            } else if r > 0 {
                // After the last layer's keys are cached only the rows with logits matter.
                self.attend(backend, i, &rows)?;
                let width = self.config.n_heads * self.config.head_dim;
                backend.gather(self.attended, width, logit_rows, self.picked_attended)?;
                backend.gather(self.x, self.config.hidden, logit_rows, self.picked)?;
                let at = (self.picked_attended, self.picked);
                self.finish_layer(backend, i, at, r, Rows::Picked)?;
            }
        }
        if r == 0 {
            return Ok(());
        }
        let eps = self.config.norm_eps;
        let (norm, head) = (self.weights.output_norm, self.weights.head);
        let runs = self.beside.runs(Rows::Picked, |a| a.head);
        backend.norm_matmul(self.picked, norm, eps, head, None, self.logits, r, runs)?;
        self.beside.finish_logits(backend, (self.picked, norm, eps), self.logits, r)
    }

    /// Queries, keys and values of a layer; keys and values into the cache.
    fn project(
        &mut self,
        backend: &mut dyn Backend,
        i: usize,
        rows: &StepRows<'_>,
        adapters: &[AdapterRows],
    ) -> Result<(), DeviceError> {
        let (c, layer) = (&self.config, &self.weights.layers[i]);
        let runs = self.beside.runs(Rows::All(adapters), |a| a.layers[i].qkv);
        backend.norm_matmul(
            self.x,
            layer.attention_norm,
            c.norm_eps,
            layer.qkv,
            layer.qkv_bias,
            self.qkv,
            rows.n_rows,
            runs,
        )?;
        let spec = RopeStore {
            n_heads: c.n_heads,
            n_kv_heads: c.n_kv_heads,
            head_dim: c.head_dim,
            style: c.rope.style,
            inv_freq: c.layer_has_rope(i).then_some(self.weights.inv_freq),
            q_norm: layer.q_norm,
            k_norm: layer.k_norm,
            eps: c.norm_eps,
        };
        backend.rope_store(self.qkv, &spec, self.kv, i, rows)
    }

    fn attend(
        &self,
        backend: &mut dyn Backend,
        i: usize,
        rows: &StepRows<'_>,
    ) -> Result<(), DeviceError> {
        let spec = attention(&self.config, i);
        backend.attention(self.qkv, &spec, self.kv, i, rows, self.attended)
    }

    /// Output projection and feed-forward, both added to the residual stream `x`.
    fn finish_layer(
        &mut self,
        backend: &mut dyn Backend,
        i: usize,
        (attended, x): (BufferId, BufferId),
        n_rows: usize,
        rows: Rows<'_>,
    ) -> Result<(), DeviceError> {
        let (c, layer) = (&self.config, &self.weights.layers[i]);
        let runs = self.beside.runs(rows, |a| a.layers[i].output);
        backend.matmul_add(attended, layer.output, layer.output_bias, x, n_rows, runs)?;
        let runs = self.beside.runs(rows, |a| a.layers[i].gate_up);
        backend.norm_gated(
            x,
            layer.feed_forward_norm,
            c.norm_eps,
            layer.gate_up,
            c.activation,
            self.gated,
            n_rows,
            runs,
        )?;
        let runs = self.beside.runs(rows, |a| a.layers[i].down);
        backend.matmul_add(self.gated, layer.down, layer.down_bias, x, n_rows, runs)
    }
}

/// Attention of layer `i`.
fn attention(c: &ModelConfig, i: usize) -> Attention {
    Attention {
        n_heads: c.n_heads,
        n_kv_heads: c.n_kv_heads,
        head_dim: c.head_dim,
        scale: 1.0 / (c.head_dim as f32).sqrt(),
        window: c.windows[i],
    }
}
