//! Attention, rotation and the cache: against the reference, and bit-equal however rows are grouped.
//!
//! # Place
//! Tests of `device::cpu::simd`.

use super::*;
use crate::device::cpu::ReferenceBackend;
use crate::device::{
    Attention, KvShape, KvType, RopeStore, RopeStyle, SeqRows, StepRows, VectorId,
};

#[derive(Clone, Copy, Debug)]
struct Shape {
    heads: usize,
    kv_heads: usize,
    d: usize,
    block_tokens: usize,
    dtype: KvType,
    window: Option<usize>,
    style: RopeStyle,
    rotated: usize,
    norm: bool,
}

const PLAIN: Shape = Shape {
    heads: 6,
    kv_heads: 2,
    d: 16,
    block_tokens: 32,
    dtype: KvType::F16,
    window: None,
    style: RopeStyle::Interleaved,
    rotated: 16,
    norm: false,
};

impl Shape {
    fn width(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.d
    }
}

/// One sequence of `qkv` rows, run in steps of the given lengths. Outputs of all rows.
fn run(backend: &mut dyn Backend, shape: &Shape, qkv: &[f32], steps: &[usize]) -> Vec<f32> {
    let n = qkv.len() / shape.width();
    let n_blocks = n.div_ceil(shape.block_tokens);
    let kv = backend
        .kv_store(KvShape {
            n_layers: 2,
            n_blocks: n_blocks + 3,
            block_tokens: shape.block_tokens,
            n_kv_heads: shape.kv_heads,
            head_dim: shape.d,
            dtype: shape.dtype,
        })
        .unwrap();
    // Physical blocks in an order of their own.
    let blocks: Vec<u32> = (0..n_blocks as u32).rev().map(|b| b + 2).collect();
    let freq = |i: usize| 10_000f32.powf(-2.0 * i as f32 / shape.rotated as f32);
    let inv_freq: Vec<f32> = (0..shape.rotated / 2).map(freq).collect();
    let inv_freq = (shape.rotated > 0).then(|| backend.vector(&inv_freq).unwrap());
    let weights: Vec<f32> = (0..shape.d).map(|i| 0.5 + i as f32 / shape.d as f32).collect();
    let norm: Option<VectorId> = shape.norm.then(|| backend.vector(&weights).unwrap());
    let rope = RopeStore {
        n_heads: shape.heads,
        n_kv_heads: shape.kv_heads,
        head_dim: shape.d,
        style: shape.style,
        inv_freq,
        q_norm: norm,
        k_norm: norm,
        eps: 1e-6,
    };
    let spec = Attention {
        n_heads: shape.heads,
        n_kv_heads: shape.kv_heads,
        head_dim: shape.d,
        scale: 1.0 / (shape.d as f32).sqrt(),
        window: shape.window,
    };
    let mut outputs = Vec::new();
    let mut past = 0;
    for &len in steps {
        let positions: Vec<u32> = (past..past + len).map(|p| p as u32).collect();
        let slot = |p: usize| {
            blocks[p / shape.block_tokens] * shape.block_tokens as u32
                + (p % shape.block_tokens) as u32
        };
        let slots: Vec<u32> = (past..past + len).map(slot).collect();
        let seq = SeqRows { first_row: 0, n_rows: len, past, blocks: &blocks, tree: None };
        let step = StepRows { n_rows: len, positions: &positions, slots: &slots, seqs: &[seq] };
        let rows = &qkv[past * shape.width()..(past + len) * shape.width()];
        let x = buffer_of(backend, rows);
        let out = backend.buffer(len * shape.heads * shape.d).unwrap();
        backend.rope_store(x, &rope, kv, 1, &step).unwrap();
        backend.attention(x, &spec, kv, 1, &step, out).unwrap();
        outputs.extend(read(backend, out, len * shape.heads * shape.d));
        past += len;
    }
    assert_eq!(past, n);
    outputs
}

fn tolerance(dtype: KvType) -> f32 {
    match dtype {
        KvType::F32 => 2e-6,
        // A key or value near a rounding boundary may land on either side: one step of the type.
        KvType::F16 => 1e-3,
        KvType::BF16 => 8e-3,
        // The same of 127 steps, whose size is that of the head's largest element.
        KvType::Q8 => 2e-2,
    }
}

#[track_caller]
fn check(shape: Shape, n: usize, steps: &[&[usize]]) {
    let qkv: Vec<f32> =
        Random::new(n as u64).floats(n * shape.width()).iter().map(|v| v * 2.0).collect();
    let want = run(&mut ReferenceBackend::new(), &shape, &qkv, &[n]);
    let mut first: Option<Vec<f32>> = None;
    for (name, mut backend) in every_backend() {
        for steps in steps {
            let got = run(&mut backend, &shape, &qkv, steps);
            let what = format!("{shape:?}, {n} tokens in {} steps, {name}", steps.len());
            assert_close(&what, &got, &want, |_| tolerance(shape.dtype));
            // A sum that is zero either way may differ in sign.
            let plain: Vec<f32> = got.iter().map(|v| v + 0.0).collect();
            assert_same_bits(&what, &plain, first.get_or_insert(plain.clone()));
        }
    }
}

#[test]
fn attention_is_the_references_and_has_the_same_bits_in_any_steps() {
    let ones = vec![1; 150];
    for dtype in [KvType::F32, KvType::F16, KvType::BF16, KvType::Q8] {
        let shape = Shape { dtype, ..PLAIN };
        check(shape, 150, &[&[150], &ones, &[100, 1, 1, 48], &[7, 143]]);
    }
    for d in [8, 24, 64, 80] {
        let shape = Shape { d, rotated: 8, ..PLAIN };
        check(shape, 70, &[&[70], &[64, 1, 1, 1, 3]]);
    }
    for block_tokens in [1, 5, 16, 48, 64] {
        let shape = Shape { block_tokens, ..PLAIN };
        check(shape, 70, &[&[70], &[33, 1, 36]]);
    }
}

#[test]
fn heads_may_share_keys_in_any_grouping() {
    for (heads, kv_heads) in [(1, 1), (3, 3), (9, 3), (8, 1), (52, 1)] {
        let shape = Shape { heads, kv_heads, ..PLAIN };
        check(shape, 40, &[&[40], &[39, 1]]);
    }
}

#[test]
fn a_window_hides_old_keys() {
    for window in [1, 31, 32, 33, 500] {
        let shape = Shape { window: Some(window), ..PLAIN };
        check(shape, 200, &[&[200], &[150, 1, 49]]);
    }
}

#[test]
fn both_rotations_partial_rotation_norms_and_none_are_the_references() {
    for style in [RopeStyle::Interleaved, RopeStyle::Halves] {
        for (rotated, norm) in [(16, true), (8, false), (0, true)] {
            let shape = Shape { style, rotated, norm, ..PLAIN };
            check(shape, 20, &[&[20], &[19, 1]]);
        }
    }
}

#[test]
fn long_contexts_are_split_between_threads_without_changing_a_bit() {
    let shape = Shape { d: 64, heads: 9, kv_heads: 3, ..PLAIN };
    check(shape, 300, &[&[300], &[299, 1], &[290, 10]]);
}

/// Two sequences of which one is a tree; checks masks, several sequences in a step, copies and moves.
fn run_tree(backend: &mut dyn Backend, window: Option<usize>, dtype: KvType) -> Vec<f32> {
    let shape = Shape { dtype, ..PLAIN };
    let kv = backend
        .kv_store(KvShape {
            n_layers: 1,
            n_blocks: 8,
            block_tokens: shape.block_tokens,
            n_kv_heads: shape.kv_heads,
            head_dim: shape.d,
            dtype: shape.dtype,
        })
        .unwrap();
    let rope = RopeStore {
        n_heads: shape.heads,
        n_kv_heads: shape.kv_heads,
        head_dim: shape.d,
        style: shape.style,
        inv_freq: None,
        q_norm: None,
        k_norm: None,
        eps: 1e-6,
    };
    let spec = Attention {
        n_heads: shape.heads,
        n_kv_heads: shape.kv_heads,
        head_dim: shape.d,
        scale: 0.25,
        window,
    };
    let mut random = Random::new(4);
    let mut step = |backend: &mut dyn Backend, seqs: &[SeqRows<'_>], depth: &[u32]| {
        let n: usize = seqs.iter().map(|s| s.n_rows).sum();
        let slots: Vec<u32> = seqs
            .iter()
            .flat_map(|s| {
                (s.past..s.past + s.n_rows).map(|p| s.blocks[p / 32] * 32 + p as u32 % 32)
            })
            .collect();
        let positions: Vec<u32> = seqs
            .iter()
            .flat_map(|s| (0..s.n_rows).map(|r| (s.past + r) as u32))
            .zip(depth.iter().chain(std::iter::repeat(&u32::MAX)))
            .map(|(p, &d)| p.min(d))
            .collect();
        let rows = StepRows { n_rows: n, positions: &positions, slots: &slots, seqs };
        let x = buffer_of(backend, &random.floats(n * shape.width()));
        let out = backend.buffer(n * shape.heads * shape.d).unwrap();
        backend.rope_store(x, &rope, kv, 0, &rows).unwrap();
        backend.attention(x, &spec, kv, 0, &rows, out).unwrap();
        read(backend, out, n * shape.heads * shape.d)
    };
    let seq =
        |first_row, n_rows, past, blocks, tree| SeqRows { first_row, n_rows, past, blocks, tree };
    let (a, b): (&[u32], &[u32]) = (&[5, 2, 0], &[1, 3]);
    let mut all = step(backend, &[seq(0, 50, 0, a, None), seq(50, 30, 0, b, None)], &[]);
    // Rows 0..70 of a wide tree: row i sees itself, the root, and the row i / 2.
    let tree: Vec<u64> = (0..70usize)
        .flat_map(|i| {
            let mut words = [0u64; 2];
            for j in [0, i / 2, i] {
                words[j / 64] |= 1 << (j % 64);
            }
            words
        })
        .collect();
    let tree_rows = 35;
    let small: Vec<u64> = tree.chunks(2).take(tree_rows).map(|w| w[0]).collect();
    let depth: Vec<u32> = (0..tree_rows as u32).map(|i| 50 + i.min(2)).collect();
    all.extend(step(backend, &[seq(0, tree_rows, 50, a, Some(&small))], &depth));
    backend.move_slots(kv, &[(2 * 32 + 25, 2 * 32 + 19)]).unwrap();
    all.extend(step(backend, &[seq(0, 1, 52, a, None), seq(1, 2, 30, b, None)], &[]));
    backend.copy_blocks(kv, &[(5, 6), (2, 7)]).unwrap();
    let forked: &[u32] = &[6, 7];
    all.extend(step(backend, &[seq(0, 1, 53, forked, None)], &[]));
    let depth: Vec<u32> = (0..70).map(|i| 20 + i.min(2)).collect();
    let long: &[u32] = &[4, 2, 3];
    all.extend(step(backend, &[seq(0, 70, 20, long, Some(&tree))], &depth));
    all
}

#[test]
fn trees_several_sequences_copies_and_moves_are_the_references() {
    for (window, dtype) in [(None, KvType::F16), (Some(21), KvType::F16), (None, KvType::Q8)] {
        let want = run_tree(&mut ReferenceBackend::new(), window, dtype);
        for (name, mut backend) in every_backend() {
            let got = run_tree(&mut backend, window, dtype);
            assert_close(&name, &got, &want, |_| tolerance(dtype));
        }
    }
}
