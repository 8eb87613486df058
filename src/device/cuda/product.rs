//! Products of rows with weight matrices: which kernel, with what at its end, and what it costs.
//!
//! # Place
//! Part of `device::cuda`, a piece of [`CudaBackend`].
//! # Invariants
//! - Few rows and many rows go through different kernels that give the same bits for a row.

use super::backend::{Array, CudaBackend};
use super::driver::{DevicePtr, Launch};
use super::kernel::{self, WeightAxis};
use super::matrix::{Layout, Part};
use super::params::{ActivateParams, MatvecParams, PrepareParams, ProductParams};
use super::queue::Cost;
use crate::device::{Activation, BufferId, DeviceError, LowRankRun, MatrixId, VectorId};

/// Rows of x up to which a product reads the weights once for each block of rows of w (`matvec`).
const FEW_ROWS: usize = 8;
const FEW_ROWS_MAX: usize = 16;

/// What happens to a finished sum: the values of `mode` in `kernels/common/epilogue.cuh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Mode {
    Set = 0,
    Add = 1,
    Silu = 2,
    GeluTanh = 3,
    /// The activated output times this sum: an up matrix that has no tiles in common with its gate.
    AfterSilu = 4,
    AfterGeluTanh = 5,
    /// Both sums of a gated pair, one after the other.
    Raw = 6,
}

impl Mode {
    pub(super) const fn gated(act: Activation) -> Self {
        match act {
            Activation::Silu => Self::Silu,
            Activation::GeluTanh => Self::GeluTanh,
        }
    }

    const fn is_pair(self) -> bool {
        matches!(self, Self::Silu | Self::GeluTanh | Self::Raw)
    }

    /// The modes of a gate and of an up matrix that are multiplied one after the other.
    const fn apart(self, part: usize) -> Self {
        match (part, self) {
            (0, _) | (_, Self::Raw) => Self::Set,
            (_, Self::Silu) => Self::AfterSilu,
            _ => Self::AfterGeluTanh,
        }
    }
}

/// A product's input and output.
pub(super) struct Product {
    pub(super) x: BufferId,
    pub(super) norm: Option<(VectorId, f32)>,
    pub(super) w: MatrixId,
    pub(super) bias: Option<VectorId>,
    pub(super) out: BufferId,
    pub(super) n_rows: usize,
    pub(super) mode: Mode,
}

impl CudaBackend {
    /// A product with the low-rank terms of the rows that have some.
    pub(super) fn product(
        &mut self,
        p: &Product,
        low_rank: &[LowRankRun],
    ) -> Result<(), DeviceError> {
        let out_cols = self.matrices[p.w.0 as usize].out_cols();
        let out = self.buffer_at(p.out, p.n_rows * out_cols);
        if low_rank.is_empty() {
            return self.multiply(p, p.mode, out);
        }
        self.shrink(p, low_rank)?;
        if !p.mode.is_pair() {
            self.multiply(p, p.mode, out)?;
            return self.expand(p, low_rank, out);
        }
        // The terms come between the sums of a pair and its gate.
        let pairs = self.reserve(|s| &mut s.pairs, p.n_rows * 2 * out_cols)?;
        self.multiply(p, Mode::Raw, pairs)?;
        self.expand(p, low_rank, pairs)?;
        let params = ActivateParams { pairs, out, n_cols: out_cols as u32, mode: p.mode as u32 };
        let grid = [out_cols.div_ceil(4 * 128), p.n_rows, 1];
        let launch = Launch::new(kernel::ACTIVATE_PAIRS, grid, 0, &params);
        self.queue.push(launch, Cost::bytes(12 * p.n_rows * out_cols));
        Ok(())
    }

    /// The sums, and what `mode` says with them, at `out`.
    fn multiply(&mut self, p: &Product, mode: Mode, out: DevicePtr) -> Result<(), DeviceError> {
        let matrix = &self.matrices[p.w.0 as usize];
        let (cols, out_cols) = (matrix.cols, matrix.out_cols());
        let out_stride = if mode == Mode::Raw { 2 * out_cols } else { out_cols };
        assert_eq!(matrix.gated, p.mode.is_pair(), "only pairs are combined");
        assert_ne!(p.x, p.out, "a product cannot write its own input");
        let vector_len = |id: VectorId| self.vectors[id.0 as usize].len;
        assert!(p.norm.is_none_or(|(id, _)| vector_len(id) == cols), "one weight per column");
        assert!(p.bias.is_none_or(|id| vector_len(id) == out_cols), "one bias per row");
        let x = self.buffer_at(p.x, p.n_rows * cols);
        let norm = self.vector_at(p.norm.map(|(id, _)| id));
        let bias = self.vector_at(p.bias);
        let eps = p.norm.map_or(0.0, |(_, eps)| eps);
        let parts = matrix.parts.clone();
        let is_apart = matrix.gated && parts.len() > 1;
        let is_tiles = |part: &Part| matches!(part.layout, Layout::Tiles(_));
        let prepared = (p.n_rows > FEW_ROWS_MAX && parts.iter().any(is_tiles))
            .then(|| self.prepare(x, norm, eps, p.n_rows, cols))
            .transpose()?;
        for (i, part) in parts.iter().enumerate() {
            let bias = if bias == DevicePtr::NONE { bias } else { bias.at(4 * part.first_row) };
            let first_row = if is_apart && mode != Mode::Raw { 0 } else { part.first_row };
            let mode = if is_apart { mode.apart(i) } else { mode };
            let few = MatvecParams {
                x,
                norm,
                w: part.view,
                bias,
                out,
                n_rows: p.n_rows as u32,
                n_cols: cols as u32,
                out_stride: out_stride as u32,
                out_first: first_row as u32,
                mode: mode as u32,
                eps,
                up_first: part.rows as u32 / 2,
                pad: 0,
            };
            let n_outputs = if mode.is_pair() { part.rows / 2 } else { part.rows };
            let launch = match (part.layout, prepared) {
                (Layout::Plain, _) => precise(&few, n_outputs),
                (Layout::Tiles(format), None) => matvec(&few, format, part.rows),
                (Layout::Tiles(format), Some((xs, factors))) => {
                    many(&few, xs, factors, format, part.rows)
                }
            };
            let x_bytes = if prepared.is_some() { 2 } else { 4 };
            let cost = Cost {
                bytes: part.n_bytes + (p.n_rows * (x_bytes * cols + 4 * n_outputs)) as u64,
                ops: 2 * (p.n_rows * part.rows * cols) as u64,
            };
            self.queue.push(launch, cost);
        }
        Ok(())
    }

    /// The rows in bf16 and their factors.
    fn prepare(
        &mut self,
        x: DevicePtr,
        norm: DevicePtr,
        eps: f32,
        n_rows: usize,
        cols: usize,
    ) -> Result<(DevicePtr, DevicePtr), DeviceError> {
        let xs = self.reserve(|s| &mut s.rows, (n_rows * cols).div_ceil(2))?;
        let factors = self.reserve(|s| &mut s.factors, n_rows)?;
        let params = PrepareParams {
            x,
            norm,
            xs,
            factors,
            n_rows: n_rows as u32,
            n_cols: cols as u32,
            eps,
            pad: 0,
        };
        let launch = Launch::new(kernel::PREPARE, [n_rows.div_ceil(4), 1, 1], 4 * 8 * 4, &params);
        let elements = (n_rows * cols) as u64;
        self.queue.push(launch, Cost { bytes: 6 * elements, ops: 3 * elements });
        Ok((xs, factors))
    }

    /// Make room for the rows of a matrix's largest product.
    pub(super) fn reserve_rows(&mut self, cols: usize, rows_max: usize) -> Result<(), DeviceError> {
        self.reserve(|s| &mut s.rows, (rows_max * cols).div_ceil(2))?;
        self.reserve(|s| &mut s.factors, rows_max)?;
        Ok(())
    }
}

/// Memory of products that grows while a model loads.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Rows rounded to bf16, ready for the product of many rows.
    pub(super) rows: Option<Array>,
    /// Their norm factors.
    pub(super) factors: Option<Array>,
    pub(super) partial_sums: Option<Array>,
    pub(super) partial_weights: Option<Array>,
    /// The chosen id, or the list of likely ones; and what parts of a row give towards it.
    pub(super) best: Option<Array>,
    pub(super) parts: Option<Array>,
    /// Sums of a gated pair whose terms are still to come. `[T, 2 F]`
    pub(super) pairs: Option<Array>,
    /// Rows times the `a` of their low-rank terms.
    pub(super) inner: Option<Array>,
}

fn matvec(params: &MatvecParams, format: WeightAxis, rows: usize) -> Launch {
    // Row tiles and token tiles of a warp.
    let (m, n, axis) = if params.n_rows as usize <= FEW_ROWS { (1, 1, 0) } else { (2, 2, 1) };
    let n_shared = (m * n * 128 + 8 * n) * 8 * 4;
    let grid = [rows.div_ceil(16 * m), 1, 1];
    Launch::new(kernel::MATVEC[2 * format as usize + axis], grid, n_shared, params)
}

fn many(
    few: &MatvecParams,
    xs: DevicePtr,
    factors: DevicePtr,
    format: WeightAxis,
    rows: usize,
) -> Launch {
    const STAGES: usize = 4;
    let MatvecParams { w, bias, out, n_rows, n_cols, out_stride, out_first, mode, .. } = *few;
    let params = ProductParams {
        xs,
        factors,
        w,
        bias,
        out,
        n_rows,
        n_cols,
        out_stride,
        out_first,
        mode,
        pad: 0,
    };
    let tile = format.tile_bytes();
    let stage = 16 * (tile.codes + tile.scales) + 8 * tile.supers + 64 * 64 * 2;
    let grid = [(n_rows as usize).div_ceil(64), rows.div_ceil(128), 1];
    Launch::new(kernel::PRODUCT[format as usize], grid, STAGES * stage, &params)
}

fn precise(params: &MatvecParams, n_outputs: usize) -> Launch {
    let grid = [n_outputs.div_ceil(8), (params.n_rows as usize).div_ceil(8), 1];
    Launch::new(kernel::PRECISE, grid, 0, params)
}
