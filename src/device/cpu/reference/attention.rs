//! Softmax attention over the cache, with a causal, sliding-window or tree mask.
//!
//! # Place
//! Part of `device::cpu::reference`.

use super::KvStore;
use crate::device::{Attention, SeqRows, StepRows};

/// Does row `row` of `seq` see the key at cached index `key`? Cached tokens stand at the position of
/// their index; new ones at the position the step says (in a tree, their depth).
fn sees(
    seq: &SeqRows<'_>,
    positions: &[u32],
    row: usize,
    key: usize,
    window: Option<usize>,
) -> bool {
    let own = key.checked_sub(seq.past);
    let visible = match (own, seq.tree) {
        (None, _) => true,
        (Some(j), None) => j <= row,
        (Some(j), Some(tree)) => tree[row * seq.n_rows.div_ceil(64) + j / 64] >> (j % 64) & 1 == 1,
    };
    let position_of = |own: usize| positions[seq.first_row + own] as usize;
    let key_position = own.map_or(key, position_of);
    visible && window.is_none_or(|window| position_of(row) < key_position + window)
}

/// qkv `[T, (H + 2·Hk) · D]`, result `[T, H · D]`.
pub(super) fn attention(
    qkv: &[f32],
    spec: &Attention,
    store: &KvStore,
    layer: usize,
    step: &StepRows<'_>,
) -> Vec<f32> {
    let (n_heads, d) = (spec.n_heads, spec.head_dim);
    let width = (n_heads + 2 * spec.n_kv_heads) * d;
    let mut out = vec![0.0; step.n_rows * n_heads * d];
    for seq in step.seqs {
        for row in 0..seq.n_rows {
            let t = seq.first_row + row;
            let keys: Vec<usize> = (0..seq.past + seq.n_rows)
                .filter(|&key| sees(seq, step.positions, row, key, spec.window))
                .collect();
            for head in 0..n_heads {
                let kv_head = head / (n_heads / spec.n_kv_heads);
                let query = &qkv[t * width + head * d..][..d];
                let at = |key: usize| {
                    let block = seq.blocks[key / store.shape.block_tokens] as usize;
                    let slot = block * store.shape.block_tokens + key % store.shape.block_tokens;
                    store.at(layer, slot) + kv_head * d
                };
                let out = &mut out[(t * n_heads + head) * d..][..d];
                weighted_sum(query, spec.scale, &keys, store, at, out);
            }
        }
    }
    out
}

fn weighted_sum(
    query: &[f32],
    scale: f32,
    keys: &[usize],
    store: &KvStore,
    at: impl Fn(usize) -> usize,
    out: &mut [f32],
) {
    let scores: Vec<f64> = keys
        .iter()
        .map(|&key| {
            let key = &store.keys[at(key)..][..query.len()];
            let products = query.iter().zip(key).map(|(&q, &k)| f64::from(q) * f64::from(k));
            products.sum::<f64>() * f64::from(scale)
        })
        .collect();
    let largest = scores.iter().fold(f64::NEG_INFINITY, |a, &s| a.max(s));
    let weights: Vec<f64> = scores.iter().map(|s| (s - largest).exp()).collect();
    let total: f64 = weights.iter().sum();
    for (i, o) in out.iter_mut().enumerate() {
        let sum: f64 = keys
            .iter()
            .zip(&weights)
            .map(|(&key, w)| w * f64::from(store.values[at(key) + i]))
            .sum();
        *o = if keys.is_empty() { 0.0 } else { (sum / total) as f32 };
    }
}
