//! `y += b (a x)` for the parts of a matrix.
//!
//! # Place
//! Part of `device::cpu::reference`.
//! # Sources
//! Hu et al. 2021, arXiv:2106.09685.

use crate::device::{LowRankSource, MatrixId};

/// The terms of one matrix.
pub(super) struct Terms {
    pub(super) matrix: MatrixId,
    parts: Vec<Part>,
}

struct Part {
    first_row: usize,
    a: Vec<f32>, // [r, K]
    b: Vec<f32>, // [R, r]
    rank: usize,
}

impl Terms {
    pub(super) fn new(
        matrix: MatrixId,
        part_rows: &[usize],
        parts: &[Option<LowRankSource<'_>>],
    ) -> Self {
        let mut first_row = 0;
        let mut taken = Vec::new();
        for (part, n_rows) in parts.iter().zip(part_rows) {
            if let Some(LowRankSource { rank, a, b }) = *part {
                taken.push(Part { first_row, a: a.to_vec(), b: b.to_vec(), rank });
            }
            first_row += n_rows;
        }
        Self { matrix, parts: taken }
    }

    pub(super) fn n_elems(&self) -> usize {
        self.parts.iter().map(|p| p.a.len() + p.b.len()).sum()
    }

    /// x `[K]`, y `[R]` of the whole matrix.
    pub(super) fn add(&self, x: &[f32], y: &mut [f32]) {
        let dot = |a: &[f32], b: &[f64]| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * b).sum();
        let x: Vec<f64> = x.iter().map(|&v| f64::from(v)).collect();
        for part in &self.parts {
            let inner: Vec<f64> = part.a.chunks(x.len()).map(|a| dot(a, &x)).collect();
            for (b, y) in part.b.chunks(part.rank).zip(&mut y[part.first_row..]) {
                *y = (f64::from(*y) + dot(b, &inner)) as f32;
            }
        }
    }
}
