//! Low-rank terms of matrices: how they get to the device, and the two launches that add them to a product.
//!
//! # Place
//! Part of `device::cuda`, a piece of [`CudaBackend`].
//! # Invariants
//! - Sets are numbered within their matrix in the order in which they were made. Adapters that change the same matrices
//!   therefore have the same numbers everywhere, and one array says for all products of a step which rows have which.

use super::backend::CudaBackend;
use super::driver::{DevicePtr, Launch};
use super::kernel;
use super::params::{ExpandParams, LowRankPart, LowRankView, ShrinkParams};
use super::product::Product;
use super::queue::Cost;
use super::staging::Section;
use crate::base::limit;
use crate::device::cpu::source;
use crate::device::{DeviceError, LowRankId, LowRankRun, LowRankSource, MatrixId};

const NO_TERMS: u32 = u32::MAX;
/// Rows that a warp takes together; see `kernels/common/low_rank.cuh`.
const TOKENS: usize = 8;
const SECTIONS: [Section; 4] = [Section::Terms0, Section::Terms1, Section::Terms2, Section::Terms3];

/// A set of terms: whose it is, and its number there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    matrix: MatrixId,
    number: u32,
    /// Bytes of its arrays.
    n_bytes: usize,
}

/// All sets of a matrix, as the kernels look them up.
#[derive(Debug, Default)]
pub(super) struct TermTable {
    views: Vec<LowRankView>,
    at: DevicePtr,
    /// Ranks of the largest set.
    ranks_max: usize,
}

impl CudaBackend {
    /// Put a set of terms on the device.
    ///
    /// # Errors
    /// Shapes that do not fit the matrix; no memory.
    pub(super) fn load_terms(
        &mut self,
        w: MatrixId,
        parts: &[Option<LowRankSource<'_>>],
    ) -> Result<LowRankId, DeviceError> {
        let matrix = &self.matrices[w.0 as usize];
        let (cols, rows, gated) = (matrix.cols, matrix.source_rows.clone(), matrix.gated);
        let out_cols = matrix.out_cols();
        source::check_low_rank(self.queue.driver().name(), cols, &rows, parts)?;
        let (mut a, mut b, mut views) = (Vec::new(), Vec::new(), Vec::new());
        let mut first_row = 0;
        for (part, &n_rows) in parts.iter().zip(&rows) {
            if let Some(LowRankSource { rank, a: a_part, b: b_part }) = *part {
                let padded = rank.next_multiple_of(4);
                let view = LowRankPart {
                    b: DevicePtr(4 * b.len() as u64), // from the start of all
                    first_row: first_row as u32,
                    n_rows: n_rows as u32,
                    rank: padded as u32,
                    first_rank: (a.len() / cols) as u32,
                };
                views.push(view);
                a.extend_from_slice(a_part);
                a.resize(a.len() + (padded - rank) * cols, 0.0);
                for row in b_part.chunks(rank) {
                    b.extend_from_slice(row);
                    b.resize(b.len() + padded - rank, 0.0);
                }
            }
            first_row += n_rows;
        }
        let n_ranks = a.len() / cols;
        let a_at = self.upload_terms(bytemuck::cast_slice(&a))?;
        let b_at = self.upload_terms(bytemuck::cast_slice(&b))?;
        views.iter_mut().for_each(|view| view.b = b_at.at(view.b.0 as usize));
        let parts_at = self.upload_terms(bytemuck::cast_slice(&views))?;
        let (n_parts, n_ranks_u32) = (views.len() as u32, n_ranks as u32);
        let view = LowRankView { a: a_at, parts: parts_at, n_ranks: n_ranks_u32, n_parts };
        self.add_view(w, view)?;
        // Everything that a step needs is there before the first one.
        self.reserve(|s| &mut s.inner, limit::STEP_ROWS_MAX * n_ranks)?;
        if gated {
            self.reserve(|s| &mut s.pairs, limit::STEP_ROWS_MAX * 2 * out_cols)?;
        }
        let number = self.matrices[w.0 as usize].terms.views.len() as u32 - 1;
        self.terms.push(Terms { matrix: w, number, n_bytes: 4 * (a.len() + b.len()) });
        Ok(LowRankId(self.terms.len() as u32 - 1))
    }

    fn upload_terms(&mut self, bytes: &[u8]) -> Result<DevicePtr, DeviceError> {
        let array = self.allocate(bytes.len().div_ceil(4).max(1), "low-rank terms")?;
        self.queue.idle_driver()?.upload(array.at, bytes)?;
        Ok(array.at)
    }

    /// A longer table in place of the old one. Launches recorded with that never come again.
    fn add_view(&mut self, w: MatrixId, view: LowRankView) -> Result<(), DeviceError> {
        let mut views = self.matrices[w.0 as usize].terms.views.clone();
        views.push(view);
        let at = self.upload_terms(bytemuck::cast_slice(&views))?;
        let ranks_max = views.iter().map(|v| v.n_ranks as usize).max().unwrap_or(0);
        let table = &mut self.matrices[w.0 as usize].terms;
        let old = std::mem::replace(table, TermTable { views, at, ranks_max });
        if old.at != DevicePtr::NONE {
            self.bytes_used -= (old.views.len() * size_of::<LowRankView>()) as u64;
            self.queue.idle_driver()?.release(old.at);
        }
        Ok(())
    }

    /// The set of every row, on the device.
    fn put_sets(
        &mut self,
        w: MatrixId,
        low_rank: &[LowRankRun],
        n_rows: usize,
    ) -> Result<DevicePtr, DeviceError> {
        let mut sets = vec![NO_TERMS; n_rows];
        for run in low_rank {
            let terms = self.terms[run.terms.0 as usize];
            assert_eq!(terms.matrix, w, "terms belong to the matrix they were made for");
            sets[run.first_row..run.first_row + run.n_rows].fill(terms.number);
        }
        self.queue.put_any(&SECTIONS, bytemuck::cast_slice(&sets))
    }

    /// Bytes of the sets that rows ask for, each counted once for every eight rows that have it, and those rows.
    fn sets_load(&self, low_rank: &[LowRankRun]) -> (usize, usize) {
        let of = |run: &LowRankRun| {
            let terms = self.terms[run.terms.0 as usize];
            (run.n_rows.div_ceil(TOKENS) * terms.n_bytes, run.n_rows)
        };
        low_rank.iter().map(of).fold((0, 0), |(b, n), (bytes, rows)| (b + bytes, n + rows))
    }

    /// Rows times the `a` of their terms.
    pub(super) fn shrink(
        &mut self,
        p: &Product,
        low_rank: &[LowRankRun],
    ) -> Result<(), DeviceError> {
        let sets = self.put_sets(p.w, low_rank, p.n_rows)?;
        let matrix = &self.matrices[p.w.0 as usize];
        let (cols, ranks, views) = (matrix.cols, matrix.terms.ranks_max, matrix.terms.at);
        let h = self.reserve(|s| &mut s.inner, p.n_rows * ranks)?;
        let params = ShrinkParams {
            x: self.buffer_at(p.x, p.n_rows * cols),
            norm: self.vector_at(p.norm.map(|(id, _)| id)),
            views,
            sets,
            h,
            n_rows: p.n_rows as u32,
            n_cols: cols as u32,
            h_stride: ranks as u32,
            eps: p.norm.map_or(0.0, |(_, eps)| eps),
        };
        let (bytes, n_rows) = self.sets_load(low_rank);
        let cost = Cost {
            bytes: (bytes / 2 + 4 * n_rows * cols) as u64,
            ops: (2 * n_rows * ranks * cols) as u64,
        };
        let grid = [ranks.div_ceil(8), p.n_rows.div_ceil(TOKENS), 1];
        self.queue.push(Launch::new(kernel::SHRINK, grid, 0, &params), cost);
        Ok(())
    }

    /// What [`CudaBackend::shrink`] left, times the `b` of the rows' terms, added to the sums at `out`.
    pub(super) fn expand(
        &mut self,
        p: &Product,
        low_rank: &[LowRankRun],
        out: DevicePtr,
    ) -> Result<(), DeviceError> {
        let sets = self.put_sets(p.w, low_rank, p.n_rows)?;
        let matrix = &self.matrices[p.w.0 as usize];
        let (rows, ranks, views) = (matrix.rows, matrix.terms.ranks_max, matrix.terms.at);
        let params = ExpandParams {
            views,
            sets,
            h: self.reserve(|s| &mut s.inner, p.n_rows * ranks)?,
            out,
            n_rows: p.n_rows as u32,
            h_stride: ranks as u32,
            n_outputs: rows as u32,
            out_stride: rows as u32, // a pair's two sums stand side by side
        };
        let (bytes, n_rows) = self.sets_load(low_rank);
        let cost = Cost {
            bytes: (bytes / 2 + 8 * n_rows * rows) as u64,
            ops: (2 * n_rows * ranks * rows) as u64,
        };
        let grid = [rows.div_ceil(256), p.n_rows.div_ceil(TOKENS), 1];
        self.queue.push(Launch::new(kernel::EXPAND, grid, 0, &params), cost);
        Ok(())
    }
}
