//! The reference against numbers worked out by hand.
//!
//! # Place
//! Tests of `device::cpu::reference`.

use super::*;
use crate::base::DType;
use crate::device::{RopeStyle, SeqRows};

fn buffer(backend: &mut ReferenceBackend, values: &[f32]) -> BufferId {
    let id = backend.buffer(values.len()).unwrap();
    backend.write(id, 0, values).unwrap();
    id
}

#[track_caller]
fn check(backend: &mut ReferenceBackend, id: BufferId, want: &[f32]) {
    let mut got = vec![0.0; want.len()];
    backend.read(id, 0, &mut got).unwrap();
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() < 1e-6, "{got} instead of {want}");
    }
}

fn matrix(
    backend: &mut ReferenceBackend,
    parts: &[&[f32]],
    cols: usize,
    how: Stacking,
) -> MatrixId {
    let data: Vec<Vec<u8>> =
        parts.iter().map(|p| p.iter().flat_map(|v| v.to_le_bytes()).collect()).collect();
    let sources: Vec<MatrixSource<'_>> = data
        .iter()
        .map(|data| MatrixSource { dtype: DType::F32, rows: data.len() / 4 / cols, cols, data })
        .collect();
    backend.matrix(&sources, how).unwrap()
}

#[test]
fn products_norms_and_gates_are_what_the_formulas_say() {
    let mut backend = ReferenceBackend::new();
    let x = buffer(&mut backend, &[3.0, 4.0]);
    let norm = backend.vector(&[1.0, 2.0]).unwrap();
    let bias = backend.vector(&[0.5, 0.0, -1.0]).unwrap();
    let w = matrix(&mut backend, &[&[1.0, 0.0, 0.0, 1.0], &[1.0, 1.0]], 2, Stacking::Rows);
    let out = buffer(&mut backend, &[10.0, 20.0, 30.0]);
    backend.matmul_add(x, w, Some(bias), out, 1, &[]).unwrap();
    check(&mut backend, out, &[13.5, 24.0, 36.0]);
    // rms = sqrt(12.5 + 12.5) = 5 with eps 12.5.
    backend.norm_matmul(x, norm, 12.5, w, None, out, 1, &[]).unwrap();
    check(&mut backend, out, &[0.6, 1.6, 2.2]);

    let pair = matrix(&mut backend, &[&[1.0, 0.0], &[0.0, 1.0]], 2, Stacking::GatedPair);
    backend.norm_gated(x, norm, 12.5, pair, Activation::Silu, out, 1, &[]).unwrap();
    check(&mut backend, out, &[0.6 / (1.0 + (-0.6f32).exp()) * 1.6]);
    backend.norm_gated(x, norm, 12.5, pair, Activation::GeluTanh, out, 1, &[]).unwrap();
    // gelu_tanh(0.6) = 0.4354 to four places.
    let mut got = [0.0];
    backend.read(out, 0, &mut got).unwrap();
    assert!((got[0] / 1.6 - 0.4354).abs() < 5e-5, "{}", got[0]);
}

/// One head of two dimensions: a quarter turn a position, then attention over two tokens.
#[test]
fn rotation_and_attention_are_what_the_formulas_say() {
    let mut backend = ReferenceBackend::new();
    let kv = backend
        .kv_store(KvShape {
            n_layers: 1,
            n_blocks: 2,
            block_tokens: 2,
            n_kv_heads: 1,
            head_dim: 2,
            dtype: KvType::F32,
        })
        .unwrap();
    let inv_freq = backend.vector(&[std::f32::consts::FRAC_PI_2]).unwrap();
    let rope = RopeStore {
        n_heads: 1,
        n_kv_heads: 1,
        head_dim: 2,
        style: RopeStyle::Interleaved,
        inv_freq: Some(inv_freq),
        q_norm: None,
        k_norm: None,
        eps: 0.0,
    };
    let qkv = buffer(&mut backend, &[1.0, 0.0, 1.0, 0.0, 5.0, 6.0, 1.0, 0.0, 1.0, 0.0, 7.0, 8.0]);
    let seq = SeqRows { first_row: 0, n_rows: 2, past: 0, blocks: &[1], tree: None };
    let step = StepRows { n_rows: 2, positions: &[0, 1], slots: &[2, 3], seqs: &[seq] };
    backend.rope_store(qkv, &rope, kv, 0, &step).unwrap();
    // Position 1 turns (1, 0) into (0, 1).
    check(&mut backend, qkv, &[1.0, 0.0, 1.0, 0.0, 5.0, 6.0, 0.0, 1.0, 0.0, 1.0, 7.0, 8.0]);
    let spec = Attention { n_heads: 1, n_kv_heads: 1, head_dim: 2, scale: 1.0, window: None };
    let out = backend.buffer(4).unwrap();
    backend.attention(qkv, &spec, kv, 0, &step, out).unwrap();
    let e = 1f32.exp();
    let mix = |a: f32, b: f32| (a + e * b) / (1.0 + e);
    check(&mut backend, out, &[5.0, 6.0, mix(5.0, 7.0), mix(6.0, 8.0)]);
    let narrow = Attention { window: Some(1), ..spec };
    backend.attention(qkv, &narrow, kv, 0, &step, out).unwrap();
    check(&mut backend, out, &[5.0, 6.0, 7.0, 8.0]);
}

#[test]
fn argmax_obeys_mask_ties_and_tail() {
    let mut backend = ReferenceBackend::new();
    let logits = buffer(&mut backend, &[1.0, 3.0, 3.0, 9.0]);
    let mut best = |n, mask: Option<&[u32]>| backend.argmax(logits, 4, 0, n, mask).unwrap();
    assert_eq!(best(3, None), Some(1));
    assert_eq!(best(4, None), Some(3));
    assert_eq!(best(4, Some(&[0b0101])), Some(2));
    assert_eq!(best(4, Some(&[0])), None);
}
