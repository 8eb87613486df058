//! Low-rank terms: against the reference, row by row and all together, beside rows without any.
//!
//! # Place
//! Tests of `device::cpu::simd`.

use super::*;
use crate::device::cpu::ReferenceBackend;
use crate::device::{Activation, LowRankRun, LowRankSource, MatrixId, Stacking};

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    NormSet,
    Add,
    Gated,
}

/// Rank, a and b of a part that has terms.
type Term = Option<(usize, Vec<f32>, Vec<f32>)>;

/// A matrix of parts in f32, two sets of terms for it, and rows.
struct Fixture {
    how: How,
    cols: usize,
    part_rows: Vec<usize>,
    weights: Vec<Vec<u8>>,
    /// For each set, one entry for each part.
    terms: [Vec<Term>; 2],
    norm: Vec<f32>,
    x: Vec<f32>,
    n_rows: usize,
    scale: f32,
}

impl Fixture {
    fn new(how: How, part_rows: &[usize], cols: usize, n_rows: usize, scale: f32) -> Self {
        let mut random = Random::new((cols * 31 + n_rows) as u64);
        let weights = part_rows.iter().map(|&r| random.weights(DType::F32, r, cols)).collect();
        let mut set = |ranks: &[usize]| {
            let ranks = part_rows.iter().zip(ranks.iter().cycle());
            ranks
                .map(|(&rows, &rank)| {
                    let mut floats =
                        |n: usize| random.floats(n).iter().map(|v| v * scale).collect();
                    (rank > 0).then(|| (rank, floats(rank * cols), floats(rows * rank)))
                })
                .collect()
        };
        let terms = [set(&[3, 16, 0]), set(&[0, 9])];
        let (norm, x) = (random.floats(cols), random.floats(n_rows * cols));
        Self { how, cols, part_rows: part_rows.to_vec(), weights, terms, norm, x, n_rows, scale }
    }

    fn out_cols(&self) -> usize {
        if self.how == How::Gated { self.part_rows[0] } else { self.part_rows.iter().sum() }
    }

    /// The product of some of the rows; `sets` says for each row of the fixture which terms it has.
    fn run(
        &self,
        backend: &mut dyn Backend,
        rows: std::ops::Range<usize>,
        sets: &[Option<usize>],
    ) -> Vec<f32> {
        let (cols, n) = (self.cols, rows.len());
        let stacking = if self.how == How::Gated { Stacking::GatedPair } else { Stacking::Rows };
        let sources: Vec<_> = (self.weights.iter().zip(&self.part_rows))
            .map(|(data, &rows)| source(DType::F32, rows, cols, data))
            .collect();
        let w: MatrixId = backend.matrix(&sources, stacking).unwrap();
        let ids = self.terms.each_ref().map(|parts| {
            let parts: Vec<_> = parts
                .iter()
                .map(|p| p.as_ref().map(|(rank, a, b)| LowRankSource { rank: *rank, a, b }))
                .collect();
            backend.low_rank(w, &parts).unwrap()
        });
        let runs: Vec<LowRankRun> = (rows.clone().enumerate())
            .filter_map(|(first_row, t)| {
                Some(LowRankRun { first_row, n_rows: 1, terms: ids[sets[t]?] })
            })
            .collect();
        let norm = backend.vector(&self.norm).unwrap();
        let x = buffer_of(backend, &self.x[rows.start * cols..rows.end * cols]);
        let out = backend.buffer(n * self.out_cols()).unwrap();
        match self.how {
            How::NormSet => backend.norm_matmul(x, norm, 1e-5, w, None, out, n, &runs),
            How::Add => backend.matmul_add(x, w, None, out, n, &runs),
            How::Gated => backend.norm_gated(x, norm, 1e-5, w, Activation::Silu, out, n, &runs),
        }
        .unwrap();
        read(backend, out, n * self.out_cols())
    }
}

#[track_caller]
fn check(fixture: &Fixture) {
    let n = fixture.n_rows;
    let width = fixture.out_cols();
    let sets: Vec<Option<usize>> = (0..n).map(|t| [Some(0), None, Some(1)][t % 3]).collect();
    let want = fixture.run(&mut ReferenceBackend::new(), 0..n, &sets);
    let plain = fixture.run(&mut ReferenceBackend::new(), 0..n, &vec![None; n]);
    let size = want.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    if n > 0 && fixture.scale >= 0.1 {
        let moved = want.iter().zip(&plain).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(moved > 0.01 * size, "the terms matter in this fixture");
    }
    let mut first: Option<Vec<f32>> = None;
    for (name, mut backend) in every_backend() {
        let what = format!(
            "{:?} {:?} × {}, {n} rows, {name}",
            fixture.how, fixture.part_rows, fixture.cols
        );
        let got = fixture.run(&mut backend, 0..n, &sets);
        assert_close(&what, &got, &want, |_| 5e-4 * size);
        assert_same_bits(&what, &got, first.get_or_insert_with(|| got.clone()));
        let untouched = fixture.run(&mut backend, 0..n, &vec![None; n]);
        for t in 0..n {
            let row = &got[t * width..(t + 1) * width];
            let alone = fixture.run(&mut backend, t..t + 1, &sets);
            assert_same_bits(&what, &alone, row);
            if sets[t].is_none() {
                assert_same_bits(&what, row, &untouched[t * width..(t + 1) * width]);
            }
        }
    }
}

#[test]
fn rows_with_terms_agree_with_the_reference_alone_and_together() {
    for n_rows in [1, 2, 3, 4, 5, 13, 29] {
        check(&Fixture::new(How::NormSet, &[33, 16, 17], 70, n_rows, 0.6));
        check(&Fixture::new(How::Add, &[40], 48, n_rows, 0.6));
        check(&Fixture::new(How::Gated, &[37, 37], 64, n_rows, 0.6));
    }
}

#[test]
fn terms_far_outside_the_range_of_16_bits_keep_their_precision() {
    check(&Fixture::new(How::Add, &[33], 64, 3, 1e-6));
    check(&Fixture::new(How::Add, &[33], 64, 3, 1e5));
}

#[test]
fn terms_that_do_not_fit_their_matrix_are_refused() {
    for (_, mut backend) in every_backend() {
        let data = Random::new(1).weights(DType::F32, 8, 16);
        let w = backend.matrix(&[source(DType::F32, 8, 16, &data)], Stacking::Rows).unwrap();
        let values = vec![0.0; 8 * 16 * 4];
        let mut refusal = |rank: usize, n_a: usize, n_b: usize| {
            let term = LowRankSource { rank, a: &values[..n_a], b: &values[..n_b] };
            backend.low_rank(w, &[Some(term)]).err().map(|e| e.to_string())
        };
        assert_eq!(refusal(2, 32, 16), None);
        assert!(refusal(0, 0, 0).unwrap().contains("rank is 0"));
        assert!(refusal(2, 31, 16).unwrap().contains("2 × 16"));
        assert!(refusal(2, 32, 17).unwrap().contains("8 × 2"));
        assert!(backend.low_rank(w, &[]).is_err());
    }
}
