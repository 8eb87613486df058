//! Parameter structs of the kernels, as `kernels/*.cuh` declare them.
//!
//! # Place
//! Part of `device::cuda`. Sizes and offsets are in `kernels/manifest.toml`; both compilers check them.

use bytemuck::{Pod, Zeroable};

use super::driver::DevicePtr;

/// A parameter struct: plain bytes without padding.
pub(in crate::device) trait Params: Pod {}

macro_rules! params {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $ty:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Zeroable, Pod)]
        #[repr(C)]
        pub(in crate::device) struct $name { $(pub(in crate::device) $field: $ty,)* }
        impl Params for $name {}
    )*};
}

params! {
    /// The three arrays of a matrix of tiles.
    WeightView { codes: DevicePtr, scales: DevicePtr, supers: DevicePtr, n_k_tiles: u32, n_rows: u32, }
    EmbedParams { table: WeightView, ids: DevicePtr, out: DevicePtr, n_cols: u32, first_row: u32, }
    PrepareParams {
        x: DevicePtr, norm: DevicePtr, xs: DevicePtr, factors: DevicePtr,
        n_rows: u32, n_cols: u32, eps: f32, pad: u32,
    }
    MatvecParams {
        x: DevicePtr, norm: DevicePtr, w: WeightView, bias: DevicePtr, out: DevicePtr,
        n_rows: u32, n_cols: u32, out_stride: u32, out_first: u32,
        mode: u32, eps: f32, up_first: u32, pad: u32,
    }
    ProductParams {
        xs: DevicePtr, factors: DevicePtr, w: WeightView, bias: DevicePtr, out: DevicePtr,
        n_rows: u32, n_cols: u32, out_stride: u32, out_first: u32, mode: u32, pad: u32,
    }
    /// Low-rank terms of one part of a matrix.
    LowRankPart { b: DevicePtr, first_row: u32, n_rows: u32, rank: u32, first_rank: u32, }
    LowRankView { a: DevicePtr, parts: DevicePtr, n_ranks: u32, n_parts: u32, }
    ShrinkParams {
        x: DevicePtr, norm: DevicePtr, views: DevicePtr, sets: DevicePtr, h: DevicePtr,
        n_rows: u32, n_cols: u32, h_stride: u32, eps: f32,
    }
    ExpandParams {
        views: DevicePtr, sets: DevicePtr, h: DevicePtr, out: DevicePtr,
        n_rows: u32, h_stride: u32, n_outputs: u32, out_stride: u32,
    }
    ActivateParams { pairs: DevicePtr, out: DevicePtr, n_cols: u32, mode: u32, }
    /// One layer's keys and values.
    CacheView {
        keys: DevicePtr, values: DevicePtr, n_kv_heads: u32, head_dim: u32, block_tokens: u32, kind: u32,
    }
    /// The rows of one sequence in a step.
    SeqView {
        first_row: u32, n_rows: u32, past: u32, first_block: u32, first_word: u32,
        first_partial: u32, n_splits: u32, pad: u32,
    }
    /// One block's share of attention.
    AttendItem { seq: u32, first_pair: u32, first_split: u32, end_split: u32, }
    /// Arrays that a step uploads.
    StepView {
        positions: DevicePtr, slots: DevicePtr, seqs: DevicePtr, blocks: DevicePtr, tree: DevicePtr,
    }
    RopeStoreParams {
        qkv: DevicePtr, cache: CacheView, positions: DevicePtr, slots: DevicePtr,
        inv_freq: DevicePtr, q_norm: DevicePtr, k_norm: DevicePtr,
        n_heads: u32, n_pairs: u32, style: u32, eps: f32,
    }
    AttendParams {
        qkv: DevicePtr, cache: CacheView, step: StepView, items: DevicePtr,
        partial_sums: DevicePtr, partial_weights: DevicePtr, out: DevicePtr,
        n_heads: u32, window: u32, scale: f32, n_rows: u32, row_seqs: DevicePtr,
    }
    GatherParams { x: DevicePtr, rows: DevicePtr, out: DevicePtr, n_cols: u32, pad: u32, }
    ArgmaxParams { logits: DevicePtr, mask: DevicePtr, best: DevicePtr, n_valid: u32, pad: u32, }
    TopParams {
        logits: DevicePtr, mask: DevicePtr, parts: DevicePtr, out: DevicePtr,
        n_valid: u32, k: u32, n_parts: u32, pad: u32,
    }
    MoveSlotsParams { cache: CacheView, pairs: DevicePtr, layer_bytes: u64, }
}

include!(concat!(env!("OUT_DIR"), "/layout.rs"));
