//! Products: every type, odd shapes, every tile, bit-equal for any batch and number of threads.
//!
//! # Place
//! Tests of `device::cpu::simd`.

use super::*;
use crate::device::cpu::{ReferenceBackend, quant};
use crate::device::{Activation, Stacking};

/// What rounding to 8 bits per 32 columns makes of a row, as `rows` does it.
fn rounded(x: &[f32]) -> Vec<f32> {
    x.chunks(32)
        .flat_map(|block| {
            let largest = block.iter().fold(0.0f32, |a, v| a.max(v.abs()));
            let d = largest / 127.0;
            let inverse = if largest > 1e-35 { 127.0 / largest } else { 0.0 };
            block.iter().map(
                move |v| {
                    if inverse == 0.0 { 0.0 } else { (v * inverse).round_ties_even() * d }
                },
            )
        })
        .collect()
}

/// Per output: Σ |w · x|, the size of the rounding errors of f32 sums.
fn magnitudes(x: &[f32], w: &[f32], cols: usize) -> Vec<f32> {
    let mut out = Vec::new();
    for x in x.chunks(cols) {
        for w in w.chunks(cols) {
            out.push(x.iter().zip(w).map(|(x, w)| (x * w).abs()).sum());
        }
    }
    out
}

/// `out += x @ wᵀ + bias` of every backend is the reference's product of the rounded rows, up to f32 sums,
/// and has the same bits everywhere, row by row and all together.
#[track_caller]
fn check_product(dtype: DType, rows: usize, cols: usize, n_rows: usize) {
    let mut random = Random::new((rows * 31 + cols * 7 + n_rows) as u64);
    let data = random.weights(dtype, rows, cols);
    let x = random.hostile(n_rows * cols);
    let bias = random.floats(rows);
    let start = random.floats(n_rows * rows);
    let seen = if dtype.block_len() > 1 { rounded_rows(&x, cols) } else { x.clone() };

    let mut reference = ReferenceBackend::new();
    let w = reference.matrix(&[source(dtype, rows, cols, &data)], Stacking::Rows).unwrap();
    let b = reference.vector(&bias).unwrap();
    let (xb, out) = (buffer_of(&mut reference, &seen), buffer_of(&mut reference, &start));
    reference.matmul_add(xb, w, Some(b), out, n_rows, &[]).unwrap();
    let want = read(&mut reference, out, n_rows * rows);
    let mut values = vec![0.0; rows * cols];
    for (row, out) in data.chunks(data.len() / rows).zip(values.chunks_mut(cols)) {
        quant::dequantise_row(dtype, row, out);
    }
    // Formats with minima sum `d·q` and `m` apart, which are larger than the weights they make.
    let sizes = magnitudes(&seen, &values, cols);
    let extra: Vec<f32> = seen.chunks(cols).map(|x| x.iter().map(|v| v.abs()).sum()).collect();

    let mut first: Option<Vec<f32>> = None;
    for (name, mut backend) in every_backend() {
        let what = format!("{dtype} {rows} × {cols}, {n_rows} rows, {name}");
        let w = backend.matrix(&[source(dtype, rows, cols, &data)], Stacking::Rows).unwrap();
        let b = backend.vector(&bias).unwrap();
        let (xb, out) = (buffer_of(&mut backend, &x), buffer_of(&mut backend, &start));
        backend.matmul_add(xb, w, Some(b), out, n_rows, &[]).unwrap();
        let got = read(&mut backend, out, n_rows * rows);
        assert_close(&what, &got, &want, |i| 2e-6 * (sizes[i] + 2.0 * extra[i / rows]) + 1e-6);
        assert_same_bits(&what, &got, first.get_or_insert_with(|| got.clone()));
        for t in [0, n_rows / 2, n_rows - 1] {
            let xb = buffer_of(&mut backend, &x[t * cols..(t + 1) * cols]);
            let out = buffer_of(&mut backend, &start[t * rows..(t + 1) * rows]);
            backend.matmul_add(xb, w, Some(b), out, 1, &[]).unwrap();
            let alone = read(&mut backend, out, rows);
            assert_same_bits(&what, &alone, &got[t * rows..(t + 1) * rows]);
        }
    }
}

fn rounded_rows(x: &[f32], cols: usize) -> Vec<f32> {
    x.chunks(cols).flat_map(rounded).collect()
}

#[test]
fn every_type_multiplies_like_the_reference_in_every_shape() {
    for dtype in ALL_TYPES {
        let cols = dtype.block_len().max(3);
        for rows in [1, 15, 16, 17, 31, 32, 33] {
            check_product(dtype, rows, cols * 3, 1);
        }
        for n_rows in [2, 3, 4, 5, 11, 13, 23, 40] {
            check_product(dtype, 33, cols * 2, n_rows);
        }
    }
}

#[test]
fn a_product_of_many_chunks_has_the_bits_of_single_rows() {
    check_product(DType::Q4_1, 48, 4096, 70);
    check_product(DType::Q8_0, 19, 4096, 70);
}

#[test]
fn rounding_activations_costs_no_more_than_half_a_step_of_each_block() {
    let (rows, cols) = (32, 576);
    for dtype in [DType::Q8_0, DType::Q4_0, DType::Q4_1] {
        let mut random = Random::new(5);
        let values = random.floats(rows * cols);
        let data = quant::quantise(dtype, &values).unwrap();
        let values = quant::dequantise(dtype, &data);
        let (x, norm) = (random.hostile(cols), random.floats(cols));

        let run = |backend: &mut dyn Backend| {
            let w = backend.matrix(&[source(dtype, rows, cols, &data)], Stacking::Rows).unwrap();
            let norm = backend.vector(&norm).unwrap();
            let (x, out) = (buffer_of(backend, &x), backend.buffer(rows).unwrap());
            backend.norm_matmul(x, norm, 1e-5, w, None, out, 1, &[]).unwrap();
            read(backend, out, rows)
        };
        let want = run(&mut ReferenceBackend::new());
        let rms = (x.iter().map(|v| v * v).sum::<f32>() / cols as f32 + 1e-5).sqrt();
        let normed: Vec<f32> = x.iter().zip(&norm).map(|(x, n)| x / rms * n).collect();
        let steps: Vec<f32> = normed
            .chunks(32)
            .map(|b| b.iter().fold(0.0f32, |a, v| a.max(v.abs())) / 127.0)
            .collect();
        for (name, mut backend) in every_backend() {
            let got = run(&mut backend);
            assert_close(&format!("{dtype}, {name}"), &got, &want, |r| {
                let row = &values[r * cols..(r + 1) * cols];
                // Rounding errors are independent and uniform in half a step: five standard deviations.
                let variance: f32 =
                    row.iter().enumerate().map(|(c, w)| (w * steps[c / 32]).powi(2) / 12.0).sum();
                5.0 * variance.sqrt() + 1e-5
            });
        }
    }
}

#[test]
fn stacked_parts_of_different_types_and_odd_heights_keep_their_rows() {
    let cols = 256;
    let mut random = Random::new(11);
    let shapes = [(DType::Q4K, 40), (DType::F16, 7), (DType::Q6K, 17)];
    let data: Vec<Vec<u8>> = shapes.iter().map(|&(t, r)| random.weights(t, r, cols)).collect();
    let total = 64;
    for n_rows in [1, 6, 30] {
        let x = rounded(&random.floats(n_rows * cols));
        let run = |backend: &mut dyn Backend| {
            let parts: Vec<MatrixSource<'_>> =
                shapes.iter().zip(&data).map(|(&(t, r), d)| source(t, r, cols, d)).collect();
            let w = backend.matrix(&parts, Stacking::Rows).unwrap();
            let (x, out) = (buffer_of(backend, &x), backend.buffer(n_rows * total).unwrap());
            backend.matmul_add(x, w, None, out, n_rows, &[]).unwrap();
            read(backend, out, n_rows * total)
        };
        let want = run(&mut ReferenceBackend::new());
        for (name, mut backend) in every_backend() {
            assert_close(&name, &run(&mut backend), &want, |_| 2e-3);
        }
    }
}

#[test]
fn gated_pairs_combine_like_the_reference() {
    let (f, cols) = (37, 96);
    let mut random = Random::new(3);
    for dtype in [DType::F32, DType::Q4_1, DType::Q8_0] {
        let gate = random.weights(dtype, f, cols);
        let up = random.weights(dtype, f, cols);
        let norm = vec![1.0; cols];
        for act in [Activation::Silu, Activation::GeluTanh] {
            for n_rows in [1, 3, 21] {
                // Whole numbers with a 127 in every block: 8 bits hold them exactly, normed or not.
                let mut x: Vec<f32> =
                    random.floats(n_rows * cols).iter().map(|v| (v * 127.0).round()).collect();
                x.iter_mut().step_by(32).for_each(|v| *v = 127.0);
                let run = |backend: &mut dyn Backend| {
                    let parts = [source(dtype, f, cols, &gate), source(dtype, f, cols, &up)];
                    let w = backend.matrix(&parts, Stacking::GatedPair).unwrap();
                    let norm = backend.vector(&norm).unwrap();
                    let (x, out) = (buffer_of(backend, &x), backend.buffer(n_rows * f).unwrap());
                    backend.norm_gated(x, norm, 1e-5, w, act, out, n_rows, &[]).unwrap();
                    read(backend, out, n_rows * f)
                };
                let want = run(&mut ReferenceBackend::new());
                let mut first: Option<Vec<f32>> = None;
                for (name, mut backend) in every_backend() {
                    let got = run(&mut backend);
                    let what = format!("{dtype} {act:?} {n_rows} rows, {name}");
                    assert_close(&what, &got, &want, |i| 1e-4 * want[i].abs() + 1e-4);
                    assert_same_bits(&what, &got, first.get_or_insert(got.clone()));
                }
            }
        }
    }
}

#[test]
fn an_embedding_row_is_read_out_of_the_interleaved_layout_exactly() {
    for dtype in ALL_TYPES {
        let (rows, cols) = (35, dtype.block_len().max(5) * 2);
        let data = Random::new(9).weights(dtype, rows, cols);
        let ids = [34, 0, 15, 16, 16, 33];
        let run = |backend: &mut dyn Backend| {
            let table =
                backend.matrix(&[source(dtype, rows, cols, &data)], Stacking::Rows).unwrap();
            let out = backend.buffer(ids.len() * cols).unwrap();
            backend.embed(table, &ids, out).unwrap();
            read(backend, out, ids.len() * cols)
        };
        let want = run(&mut ReferenceBackend::new());
        for (name, mut backend) in every_backend() {
            assert_eq!(run(&mut backend), want, "{dtype}, {name}");
        }
    }
}

#[test]
fn weights_take_the_size_they_have_in_the_file() {
    for dtype in ALL_TYPES {
        let (rows, cols) = (64, 4096);
        let data = Random::new(2).weights(dtype, rows, cols);
        let mut backend = CpuBackend::new(NonZeroUsize::new(1)).unwrap();
        let empty = backend.bytes_used();
        backend.matrix(&[source(dtype, rows, cols, &data)], Stacking::Rows).unwrap();
        let scratch = backend.products_bytes();
        let held = (backend.bytes_used() - empty - scratch) as f64 / data.len() as f64;
        let most = if matches!(dtype, DType::Q4K | DType::Q5K) { 1.03 } else { 1.0 };
        assert!((1.0..=most).contains(&held), "{dtype} takes {held} of its file size");
    }
}

#[test]
fn wrong_shapes_are_refused_by_name() {
    let mut backend = CpuBackend::new(None).unwrap();
    let mut refused = |parts: &[MatrixSource<'_>], stacking, word: &str| {
        let error = backend.matrix(parts, stacking).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    };
    let data = [0u8; 40];
    refused(&[], Stacking::Rows, "no parts");
    refused(&[source(DType::Q4_1, 2, 33, &data)], Stacking::Rows, "whole blocks");
    refused(&[source(DType::Q4_1, 3, 32, &data)], Stacking::Rows, "60 bytes");
    refused(&[source(DType::F32, usize::MAX, 1, &data)], Stacking::Rows, "each side");
    refused(&[source(DType::Q4_1, 2, 32, &data)], Stacking::GatedPair, "two parts");
    let pair = [source(DType::F32, 5, 2, &data), source(DType::F32, 2, 5, &data)];
    refused(&pair, Stacking::Rows, "2 columns");
}
