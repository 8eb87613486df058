//! Gathering, arg-max, moving cached tokens, and the queue that launches wait in.
//!
//! # Place
//! Tests of `kernels/gather.cuh`, `argmax.cuh`, `move_slots.cuh` and of `device::cuda`'s queue.

use super::*;
use crate::device::{
    KvId, KvShape, KvType, ReferenceBackend, RopeStore, RopeStyle, SeqRows, Stacking, StepRows,
    TopRow,
};

#[test]
fn gathered_rows_are_those_asked_for() {
    let mut numbers = Numbers::new(21);
    let values = numbers.many(7 * 520);
    for order in Order::ALL {
        let mut backend = emulated(order);
        let (x, out) = (write(&mut backend, &values), backend.buffer(3 * 520).unwrap());
        backend.gather(x, 520, &[6, 0, 6], out).unwrap();
        let row = |i: usize| &values[i * 520..(i + 1) * 520];
        assert_eq!(read(&mut backend, out, 3 * 520), [row(6), row(0), row(6)].concat());
    }
}

#[test]
fn argmax_obeys_mask_ties_tail_and_nan_as_the_reference_does() {
    let mut numbers = Numbers::new(22);
    let n = 1000;
    let mut logits: Vec<f32> = numbers.many(2 * n).iter().map(|v| (v * 20.0).round()).collect();
    logits[17] = f32::NAN;
    logits[n..].fill(f32::NAN);
    let words = n.div_ceil(32);
    let odd = vec![0xaaaa_aaaa; words];
    let none = vec![0; words];
    let mut one = none.clone();
    one[17 / 32] |= 1 << 17;
    let masks: [Option<&[u32]>; 4] = [None, Some(&odd), Some(&none), Some(&one)];
    for order in Order::ALL {
        let mut backends: [Box<dyn Backend>; 2] =
            [Box::new(ReferenceBackend::new()), Box::new(emulated(order))];
        for row in 0..2 {
            for n_valid in [1, 31, 999, 1000] {
                for mask in masks {
                    let best: Vec<Option<u32>> = backends
                        .iter_mut()
                        .map(|backend| {
                            let id = write(backend.as_mut(), &logits);
                            backend.argmax(id, n, row, n_valid, mask).unwrap()
                        })
                        .collect();
                    assert_eq!(best[0], best[1], "row {row}, {n_valid} ids");
                }
            }
        }
    }
}

/// The likeliest ids and the sums of a row, in f64 on the host.
fn top_of(values: &[f32], mask: Option<&[u32]>, k: usize) -> TopRow {
    let allows = |id: usize| mask.is_none_or(|m| m[id / 32] >> (id % 32) & 1 == 1);
    let mut order: Vec<usize> = (0..values.len()).filter(|&i| !values[i].is_nan()).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]).then(a.cmp(&b)));
    let sum = |ids: &mut dyn Iterator<Item = usize>| {
        ids.map(|i| f64::from(values[i]).exp()).sum::<f64>().ln()
    };
    let entry = |&i: &usize| (i as u32, values[i]);
    TopRow {
        best: order.iter().find(|&&i| allows(i)).map(entry),
        likeliest: order.iter().take(k).map(entry).collect(),
        log_sum: sum(&mut order.iter().copied()),
        log_sum_allowed: sum(&mut order.iter().copied().filter(|&i| allows(i))),
    }
}

#[test]
fn the_likeliest_ids_are_those_of_the_host_with_ties_masks_nan_and_short_rows() {
    let mut numbers = Numbers::new(24);
    let n = 5000;
    // Rounded, so that there are ties within parts and between them.
    let mut logits: Vec<f32> =
        numbers.many(2 * n).iter().map(|v| (v * 40.0).round() / 4.0).collect();
    logits[17] = f32::NAN;
    logits[n + 3] = f32::NEG_INFINITY;
    let words = n.div_ceil(32);
    let odd = vec![0xaaaa_aaaa; words];
    let mut one = vec![0; words];
    one[4090 / 32] |= 1 << (4090 % 32);
    let masks: [Option<&[u32]>; 4] = [None, Some(&odd), Some(&one), Some(&vec![0; words])];
    for order in Order::ALL {
        let mut backend = emulated(order);
        let id = write(&mut backend, &logits);
        for (row, n_valid, k) in [(0, 5000, 7), (1, 4099, 20), (1, 2048, 1), (0, 3, 5)] {
            for mask in masks {
                let want = top_of(&logits[row * n..][..n_valid], mask, k);
                let got = backend.top(id, n, row, n_valid, mask, k).unwrap().unwrap();
                assert_eq!(
                    (got.best, &got.likeliest),
                    (want.best, &want.likeliest),
                    "{n_valid} {k}"
                );
                for (a, b) in
                    [(got.log_sum, want.log_sum), (got.log_sum_allowed, want.log_sum_allowed)]
                {
                    assert!(a == b || (a - b).abs() < 1e-5, "{a} and {b}");
                }
                let best = backend.argmax(id, n, row, n_valid, mask).unwrap();
                assert_eq!(best, got.best.map(|(id, _)| id));
            }
        }
    }
}

/// Four blocks of two tokens; the value of slot s is s everywhere.
fn filled(backend: &mut dyn Backend, dtype: KvType) -> KvId {
    let shape =
        KvShape { n_layers: 2, n_blocks: 4, block_tokens: 2, n_kv_heads: 2, head_dim: 8, dtype };
    let kv = backend.kv_store(shape).unwrap();
    let rope = RopeStore {
        n_heads: 2,
        n_kv_heads: 2,
        head_dim: 8,
        style: RopeStyle::Halves,
        inv_freq: None,
        q_norm: None,
        k_norm: None,
        eps: 0.0,
    };
    let rows: Vec<f32> = (0..8).flat_map(|s| [s as f32; 48]).collect();
    let qkv = write(backend, &rows);
    let all: Vec<u32> = (0..8).collect();
    let seqs = [SeqRows { first_row: 0, n_rows: 8, past: 0, blocks: &[0, 1, 2, 3], tree: None }];
    let step = StepRows { n_rows: 8, positions: &all, slots: &all, seqs: &seqs };
    for layer in 0..2 {
        backend.rope_store(qkv, &rope, kv, layer, &step).unwrap();
    }
    kv
}

/// What a slot holds: attention of a row that sees this slot alone.
fn values(backend: &mut dyn Backend, kv: KvId) -> Vec<f32> {
    let qkv = write(backend, &[0.0; 48]);
    let out = backend.buffer(16).unwrap();
    let mut found = Vec::new();
    for layer in 0..2 {
        for slot in 0..8u32 {
            let blocks = [slot / 2];
            let past = (slot % 2) as usize;
            let seqs = [SeqRows { first_row: 0, n_rows: 1, past, blocks: &blocks, tree: None }];
            let step = StepRows { n_rows: 1, positions: &[slot % 2], slots: &[slot], seqs: &seqs };
            let spec = crate::device::Attention {
                n_heads: 2,
                n_kv_heads: 2,
                head_dim: 8,
                scale: 1.0,
                window: Some(1),
            };
            backend.attention(qkv, &spec, kv, layer, &step, out).unwrap();
            found.extend(read(backend, out, 16));
        }
    }
    found
}

#[test]
fn moved_and_copied_tokens_are_what_the_reference_moves() {
    for dtype in [KvType::BF16, KvType::F16, KvType::F32, KvType::Q8] {
        let mut results = Vec::new();
        for backend in
            [&mut ReferenceBackend::new() as &mut dyn Backend, &mut emulated(Order::Shuffled)]
        {
            let kv = filled(backend, dtype);
            backend.move_slots(kv, &[(1, 0), (2, 1), (7, 2), (0, 3)]).unwrap();
            backend.copy_blocks(kv, &[(1, 3), (3, 2)]).unwrap();
            results.push(values(backend, kv));
        }
        assert_eq!(results[0], results[1], "{dtype:?}");
    }
}

#[test]
fn a_step_that_comes_again_is_replayed_with_its_new_tokens() {
    let mut numbers = Numbers::new(23);
    let table = Weights::random(DType::BF16, 32, 32, &mut numbers);
    let values = table.values();
    let mut backend = emulated(Order::Ascending);
    let w = backend.matrix(&[table.source()], Stacking::Rows).unwrap();
    let (x, out) = (backend.buffer(64).unwrap(), backend.buffer(64).unwrap());
    for (i, ids) in [[3, 4], [5, 6], [31, 0], [3, 4]].iter().enumerate() {
        backend.write(out, 0, &[0.0; 64]).unwrap();
        backend.embed(w, ids, x).unwrap();
        for _ in 0..8 {
            backend.matmul_add(x, w, None, out, 2, &[]).unwrap();
        }
        let got = read(&mut backend, out, 64);
        let want: Vec<f32> = ids
            .iter()
            .flat_map(|&id| {
                let row = &values[id as usize * 32..][..32];
                values
                    .chunks(32)
                    .map(|w| 8.0 * w.iter().zip(row).map(|(a, b)| a * b).sum::<f32>())
                    .collect::<Vec<_>>()
            })
            .collect();
        assert!(error(&got, &want) < 1e-4, "step {i}");
        assert_eq!(backend.n_graphs(), usize::from(i > 0), "recorded when it comes again");
    }
}
