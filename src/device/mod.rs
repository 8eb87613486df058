//! The device seam: buffers, weights and about a dozen fused operations, implemented once per device.
//!
//! # Place
//! Uses `base`. Used by `kv` and `model`, which call operations and never know which device runs
//! them. Does not know layers' order, tokens' text or requests.
//! # Invariants
//! - A row's result depends on that row alone: never on the other rows of the step, on the number of
//!   threads, or on the tile a kernel happens to use. Every sum has an order fixed by the row.
//! - No operation allocates; buffers and weights are made while a model loads.
//! - Ties of arg-max go to the lowest id.
//! # Shapes and units
//! One letter table for the whole crate: `B` requests, `T` new tokens (rows) in a step, `S` cached
//! length, `L` layers, `H`/`Hk` query and key-value heads, `D` head size, `C` hidden, `F`
//! feed-forward, `V` vocabulary. Activations are f32, row-major, one buffer per use.

pub mod cpu;
pub mod cuda;
#[cfg(feature = "emu")]
pub mod emu;
#[cfg(not(feature = "emu"))]
#[path = "emu/absent.rs"]
pub mod emu;
mod error;

use crate::base::DType;
pub use cpu::{CpuBackend, Isa, ReferenceBackend};
pub use cuda::CudaBackend;
pub use error::DeviceError;

/// A weight matrix on the device, laid out as that device likes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixId(pub u32);
/// A small f32 vector on the device (norm weights, biases, rope frequencies).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VectorId(pub u32);
/// Low-rank terms of a weight matrix on the device ([`Backend::low_rank`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LowRankId(pub u32);
/// An activation buffer on the device, f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferId(pub u32);
/// A paged key/value store on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KvId(pub u32);

/// A matrix as a file stores it: `rows` outputs × `cols` inputs, row-major, `cols` a multiple of the
/// type's block length.
#[derive(Clone, Copy, Debug)]
pub struct MatrixSource<'a> {
    pub dtype: DType,
    pub rows: usize,
    pub cols: usize,
    pub data: &'a [u8],
}

/// How the rows of several stacked matrices are ordered on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stacking {
    /// One after the other (`q | k | v`).
    Rows,
    /// Two matrices of one shape whose products are combined pairwise (`gate`, `up`); the backend
    /// interleaves them as suits [`Backend::norm_gated`].
    GatedPair,
}

/// A low-rank term of a matrix: with `x` the matrix also gives `b·(a·x)`. A factor on it is part of `b`.
#[derive(Clone, Copy, Debug)]
pub struct LowRankSource<'a> {
    pub rank: usize,  // r
    pub a: &'a [f32], // [r, K]
    pub b: &'a [f32], // [R, r], R rows of the matrix or of the part it belongs to
}

/// Neighbouring rows of a step whose products have the same low-rank terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LowRankRun {
    pub first_row: usize,
    pub n_rows: usize,
    pub terms: LowRankId,
}

/// Gate activation of the feed-forward layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// x·sigmoid(x)
    Silu,
    /// tanh approximation of GELU
    GeluTanh,
}

/// How keys and values are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvType {
    F32,
    F16,
    BF16,
    /// Eight-bit codes and an f32 scale for each head of a token.
    Q8,
}

impl KvType {
    /// Bytes of one element.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::Q8 => 1,
        }
    }

    /// Bytes of a head of one token, scale included.
    pub const fn head_bytes(self, head_dim: usize) -> usize {
        head_dim * self.bytes() + if matches!(self, Self::Q8) { 4 } else { 0 }
    }
}

/// Shape of a paged key/value store. A slot is `block · block_tokens + offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvShape {
    pub n_layers: usize, // L
    pub n_blocks: usize,
    pub block_tokens: usize,
    pub n_kv_heads: usize, // Hk
    pub head_dim: usize,   // D
    pub dtype: KvType,
}

/// Which dimensions rotary embedding pairs up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeStyle {
    /// (0,1), (2,3), …: GGUF files of the llama architecture, whose q and k rows are permuted for it.
    Interleaved,
    /// (0, D/2), (1, D/2+1), …: Hugging Face weights, GGUF files of qwen2 and qwen3.
    Halves,
}

/// What [`Backend::rope_store`] does to the projected rows of one layer.
#[derive(Clone, Copy, Debug)]
pub struct RopeStore {
    pub n_heads: usize,    // H
    pub n_kv_heads: usize, // Hk
    pub head_dim: usize,   // D
    pub style: RopeStyle,
    /// Inverse frequencies, one per rotated pair (`rotated/2` entries); the dimensions after them
    /// pass unrotated. `None`: the layer has no positional encoding (SmolLM3's NoPE layers).
    pub inv_freq: Option<VectorId>,
    /// RMS norm over each query and key head before rotation (Qwen3): weights `[D]`.
    pub q_norm: Option<VectorId>,
    pub k_norm: Option<VectorId>,
    pub eps: f32,
}

/// The rows of one sequence in a step.
#[derive(Clone, Copy, Debug)]
pub struct SeqRows<'a> {
    /// First row of this sequence in the step's buffers.
    pub first_row: usize,
    pub n_rows: usize,
    /// Tokens already cached before this step; the rows' keys are cached at `past .. past + n_rows`.
    pub past: usize, // S
    /// Physical block of every `block_tokens` cached positions, long enough for `past + n_rows`.
    pub blocks: &'a [u32],
    /// `None`: causal. Otherwise which of the sequence's own new rows each row sees (bit `j` of row
    /// `i` at `tree[i * words + j / 64]`, `words = n_rows.div_ceil(64)`); a row sees every cached token.
    pub tree: Option<&'a [u64]>,
}

/// Everything a step's operations need to know about its rows.
#[derive(Clone, Copy, Debug)]
pub struct StepRows<'a> {
    /// Number of rows, `T`.
    pub n_rows: usize,
    /// Position of every row, for rotary embedding. `[T]`
    pub positions: &'a [u32],
    /// Cache slot that every row's key and value go to. `[T]`
    pub slots: &'a [u32],
    /// In order of `first_row`, covering all rows.
    pub seqs: &'a [SeqRows<'a>],
}

/// Attention over the cache for the rows of one layer.
#[derive(Clone, Copy, Debug)]
pub struct Attention {
    pub n_heads: usize,    // H
    pub n_kv_heads: usize, // Hk
    pub head_dim: usize,   // D
    /// Multiplies the scores, usually `1/sqrt(D)`.
    pub scale: f32,
    /// A row at position `p` sees positions `p - window < j <= p`. `None`: all.
    pub window: Option<usize>,
}

/// Memory of a device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMemory {
    pub free: u64,
    pub total: u64,
}

/// What a row of logits says about its likeliest ids. Logits that are not numbers count as impossible.
#[derive(Clone, Debug, PartialEq)]
pub struct TopRow {
    /// The best allowed id and its logit.
    pub best: Option<(u32, f32)>,
    /// Ids with their logits, best first, whether allowed or not; equals by id.
    pub likeliest: Vec<(u32, f32)>,
    /// `ln Σ exp(logit)` over all ids, and over the allowed ones.
    pub log_sum: f64,
    pub log_sum_allowed: f64,
}

/// A kernel that ran once, timed by the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelRun {
    pub name: &'static str,
    /// Microseconds since timing began.
    pub start_us: f64,
    pub us: f64,
    /// Bytes it had to move and operations it had to do at least, by its cost model.
    pub bytes: u64,
    pub ops: u64,
}

/// A device that can run a decoder. Rows of buffers are contiguous; `x: [T, C]` means that the first
/// `T · C` elements are used.
///
/// # Errors
/// Loading and allocation fail when memory is short or a shape is not supported; the operations
/// themselves fail only when the device is lost. Shapes are the caller's duty and are asserted.
pub trait Backend: Send {
    /// `cpu`, `cuda`, `emu`, `reference`.
    fn name(&self) -> &'static str;
    /// What `tether devices` and profiles show: processor, instruction set, threads, memory.
    fn description(&self) -> String;

    /// Memory of the device; `None` when it uses the machine's own.
    fn memory(&self) -> Option<DeviceMemory> {
        None
    }

    /// Take a weight matrix made of `parts` (same `cols`; types may differ). The data is copied into
    /// the device's own layout and may be dropped afterwards.
    fn matrix(
        &mut self,
        parts: &[MatrixSource<'_>],
        stacking: Stacking,
    ) -> Result<MatrixId, DeviceError>;
    /// Take low-rank terms for the parts of `w`, one entry for each part that it was made of. Products with
    /// `w` add them to the rows that ask for them, before a bias is added or a gate is applied, in the
    /// precision of f32 sums (the terms themselves may be kept in 16 bits).
    fn low_rank(
        &mut self,
        w: MatrixId,
        parts: &[Option<LowRankSource<'_>>],
    ) -> Result<LowRankId, DeviceError> {
        let _ = (w, parts);
        Err(DeviceError::NoLowRank { device: self.name() })
    }

    fn vector(&mut self, values: &[f32]) -> Result<VectorId, DeviceError>;
    fn buffer(&mut self, n_elems: usize) -> Result<BufferId, DeviceError>;
    fn kv_store(&mut self, shape: KvShape) -> Result<KvId, DeviceError>;
    /// Bytes held for weights, buffers and caches.
    fn bytes_used(&self) -> u64;

    fn write(&mut self, to: BufferId, offset: usize, values: &[f32]) -> Result<(), DeviceError>;
    fn read(&mut self, from: BufferId, offset: usize, out: &mut [f32]) -> Result<(), DeviceError>;

    /// Return when everything asked for has been done, for a device that works on its own.
    fn wait(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Time every kernel from now on, waiting for each step, or stop that. False: the device has no kernels of its own.
    fn time_kernels(&mut self, is_on: bool) -> Result<bool, DeviceError> {
        let _ = is_on;
        Ok(false)
    }

    /// The kernels that ran since timing began or since the last call, in order.
    fn kernel_runs(&mut self) -> Vec<KernelRun> {
        Vec::new()
    }

    /// Microseconds that the best program of the device's vendor takes for `[T, C] · [R, C]ᵀ` in bf16, where one is
    /// installed: what this backend's products are measured against.
    fn library_product_us(
        &mut self,
        n_rows: usize,
        n_cols: usize,
        n_outputs: usize,
    ) -> Result<Option<f64>, DeviceError> {
        let _ = (n_rows, n_cols, n_outputs);
        Ok(None)
    }

    /// Make room, while a model loads, for attention of this shape and for choosing among `vocab` ids.
    fn make_room(&mut self, spec: &Attention, vocab: usize) -> Result<(), DeviceError> {
        let _ = (spec, vocab);
        Ok(())
    }

    /// `out[t, :] = table[ids[t], :]`. table `[V, C]`, out `[T, C]`.
    fn embed(&mut self, table: MatrixId, ids: &[u32], out: BufferId) -> Result<(), DeviceError>;

    /// `out = rms_norm(x) · norm @ wᵀ (+ bias)`. x `[T, C]`, w `[R, C]`, out `[T, R]`. In this product and the
    /// two after it, the rows of `low_rank` (ascending, apart, made for `w`; usually none) also get their terms.
    fn norm_matmul(
        &mut self,
        x: BufferId,
        norm: VectorId,
        eps: f32,
        w: MatrixId,
        bias: Option<VectorId>,
        out: BufferId,
        n_rows: usize,
        low_rank: &[LowRankRun],
    ) -> Result<(), DeviceError>;

    /// `act(gate) · up` of the normed rows. x `[T, C]`, w a [`Stacking::GatedPair`] of `[F, C]`,
    /// out `[T, F]`.
    fn norm_gated(
        &mut self,
        x: BufferId,
        norm: VectorId,
        eps: f32,
        w: MatrixId,
        act: Activation,
        out: BufferId,
        n_rows: usize,
        low_rank: &[LowRankRun],
    ) -> Result<(), DeviceError>;

    /// `out += x @ wᵀ (+ bias)`. x `[T, K]`, w `[R, K]`, out `[T, R]`.
    fn matmul_add(
        &mut self,
        x: BufferId,
        w: MatrixId,
        bias: Option<VectorId>,
        out: BufferId,
        n_rows: usize,
        low_rank: &[LowRankRun],
    ) -> Result<(), DeviceError>;

    /// Norm (optional) and rotate queries in place, norm and rotate keys, and store keys and values
    /// in their slots. qkv `[T, (H + 2·Hk) · D]`.
    fn rope_store(
        &mut self,
        qkv: BufferId,
        spec: &RopeStore,
        kv: KvId,
        layer: usize,
        step: &StepRows<'_>,
    ) -> Result<(), DeviceError>;

    /// Attention of the queries in `qkv` over the cache, own keys included. out `[T, H · D]`.
    fn attention(
        &mut self,
        qkv: BufferId,
        spec: &Attention,
        kv: KvId,
        layer: usize,
        step: &StepRows<'_>,
        out: BufferId,
    ) -> Result<(), DeviceError>;

    /// `out[i, :] = x[rows[i], :]`, rows of `n_cols` elements.
    fn gather(
        &mut self,
        x: BufferId,
        n_cols: usize,
        rows: &[u32],
        out: BufferId,
    ) -> Result<(), DeviceError>;

    /// Lowest id with the highest value in row `row` of `logits` `[_, n_cols]`, among the ids below
    /// `n_valid` whose bit is set in `mask` (all when `None`). `None` when no id is allowed.
    fn argmax(
        &mut self,
        logits: BufferId,
        n_cols: usize,
        row: usize,
        n_valid: usize,
        mask: Option<&[u32]>,
    ) -> Result<Option<u32>, DeviceError>;

    /// The `k` likeliest ids of a row, as [`Backend::argmax`] sees it, and the best that `mask` allows. `None`: the device
    /// has no quicker way than reading the row.
    fn top(
        &mut self,
        logits: BufferId,
        n_cols: usize,
        row: usize,
        n_valid: usize,
        mask: Option<&[u32]>,
        k: usize,
    ) -> Result<Option<TopRow>, DeviceError> {
        let _ = (logits, n_cols, row, n_valid, mask, k);
        Ok(None)
    }

    /// Copy the contents of cache blocks (`from`, `to`) in every layer, for copy-on-write forks.
    fn copy_blocks(&mut self, kv: KvId, pairs: &[(u32, u32)]) -> Result<(), DeviceError>;
    /// Move single cached tokens (`from` slot, `to` slot) in every layer, after a tree was verified.
    fn move_slots(&mut self, kv: KvId, pairs: &[(u32, u32)]) -> Result<(), DeviceError>;
}
