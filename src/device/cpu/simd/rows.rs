//! Activation rows as the matrix kernels want them: normed, quantised, and interleaved in tiles.
//!
//! # Place
//! Part of `device::cpu::simd`. Written per step, read by `matmul`.
//! # Invariants
//! What is stored for a row depends on that row alone; the tile it lies in only changes where.
//! # Shapes and units
//! A tile holds `M` rows. Quantised: per 32 columns [`BLOCK_WORDS`]` · M` words of 4 bytes, each item for
//! all rows in turn: 8 × four codes, the scale `dx`, `dx · Σ codes`, and as integers `−Σ codes` of all 32, of the
//! first 16 and of the last 16 columns. Plain: per column `M` f32.
#![allow(unsafe_code)] // tiles are written by several threads through raw pointers

use super::lanes::{LANES, Lanes};

/// Words that a row takes per block of 32 columns.
pub(super) const BLOCK_WORDS: usize = 13;

/// Word indices within a block, to be multiplied by the rows of the tile.
pub(super) const SCALE: usize = 8;
pub(super) const SCALED_SUM: usize = 9;
pub(super) const NEG_SUM: usize = 10;

/// The tiles of `n_rows` rows: first row and rows of each, largest first.
pub(super) fn tiles(n_rows: usize, tile_rows: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut first = 0;
    std::iter::from_fn(move || {
        let left = n_rows - first;
        let rows = [12, 8, 4, 2, 1].into_iter().find(|&m| m <= left.min(tile_rows))?;
        first += rows;
        Some((first - rows, rows))
    })
}

/// How a row is prepared before it meets a matrix.
#[derive(Clone, Copy)]
pub(super) struct Prepare<'a> {
    /// Weights and epsilon of an RMS norm, or the row as it is.
    pub(super) norm: Option<(&'a [f32], f32)>,
    pub(super) n_cols: usize,
    /// Whether sums of 16 columns are needed too (Q6_K).
    pub(super) halves: bool,
}

/// `x[c] · norm` of up to sixteen columns from `c`; zeros past the row.
#[inline(always)]
fn normed<S: Lanes>(s: S, x: &[f32], prepare: &Prepare<'_>, scale: S::F, c: usize) -> S::F {
    let v = load(s, x, c);
    match prepare.norm {
        Some((weights, _)) => s.mul(s.mul(v, scale), load(s, weights, c)),
        None => v,
    }
}

#[inline(always)]
fn load<S: Lanes>(s: S, x: &[f32], c: usize) -> S::F {
    if c + LANES <= x.len() {
        // SAFETY: sixteen elements from `c` are inside.
        return unsafe { s.load(x.as_ptr().add(c)) };
    }
    let mut padded = [0.0; LANES];
    for (p, v) in padded.iter_mut().zip(x.iter().skip(c)) {
        *p = *v;
    }
    // SAFETY: sixteen elements.
    unsafe { s.load(padded.as_ptr()) }
}

/// `1 / sqrt(mean(x²) + eps)`.
#[inline(always)]
pub(super) fn inverse_rms<S: Lanes>(s: S, x: &[f32], eps: f32) -> f32 {
    // Four sums hide the latency of the addition; the order is fixed by the length.
    let mut sums = [s.splat(0.0); 4];
    let mut c = 0;
    while c + 4 * LANES <= x.len() {
        for (i, sum) in sums.iter_mut().enumerate() {
            let v = load(s, x, c + i * LANES);
            *sum = s.fma(v, v, *sum);
        }
        c += 4 * LANES;
    }
    while c < x.len() {
        let v = load(s, x, c);
        sums[0] = s.fma(v, v, sums[0]);
        c += LANES;
    }
    let total = s.sum(s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3])));
    1.0 / (total / x.len() as f32 + eps).sqrt()
}

#[inline(always)]
fn row_scale<S: Lanes>(s: S, x: &[f32], prepare: &Prepare<'_>) -> S::F {
    s.splat(prepare.norm.map_or(1.0, |(_, eps)| inverse_rms(s, x, eps)))
}

/// Quantise row `x` into lane `lane` of a tile of `m` rows.
///
/// # Safety
/// `tile` has room for `m` rows, and this row is written by this thread alone.
#[inline(always)]
pub(super) unsafe fn quantise_row<S: Lanes>(
    s: S,
    x: &[f32],
    prepare: &Prepare<'_>,
    tile: *mut f32,
    m: usize,
    lane: usize,
) {
    let scale = row_scale(s, x, prepare);
    for b in 0..prepare.n_cols.div_ceil(32) {
        let low = normed(s, x, prepare, scale, b * 32);
        let high = normed(s, x, prepare, scale, b * 32 + LANES);
        let largest = s.largest(s.max(s.abs(low), s.abs(high)));
        // A block so small that 127 / largest overflows is a block of zeros; an infinite one is NaN.
        let inverse = if largest > 1e-35 { 127.0 / largest } else { 0.0 };
        let d = if inverse == 0.0 { largest * 0.0 } else { largest / 127.0 };
        let inverse = s.splat(inverse);
        let low = s.round(s.mul(low, inverse));
        let high = s.round(s.mul(high, inverse));
        // Small integers: f32 sums are exact.
        let (low_f, high_f) = (s.to_f(low), s.to_f(high));
        let sum = s.sum(s.add(low_f, high_f));
        let mut codes = [0i8; 32];
        // SAFETY: 32 codes; the tile has 13 words per row and block.
        unsafe {
            s.store_i8(codes.as_mut_ptr(), low);
            s.store_i8(codes.as_mut_ptr().add(LANES), high);
            let block = tile.add(b * BLOCK_WORDS * m + lane);
            for i in 0..8 {
                let four = codes.as_ptr().add(i * 4).cast::<u32>().read_unaligned();
                block.add(i * m).cast::<u32>().write(four);
            }
            block.add(SCALE * m).write(d);
            block.add(SCALED_SUM * m).write(d * sum);
            block.add(NEG_SUM * m).cast::<i32>().write(-sum as i32);
            if prepare.halves {
                let sum_low = s.sum(low_f);
                let halves = [-sum_low as i32, (sum_low - sum) as i32];
                block.add((NEG_SUM + 1) * m).cast::<i32>().write(halves[0]);
                block.add((NEG_SUM + 2) * m).cast::<i32>().write(halves[1]);
            }
        }
    }
}

/// Write row `x` as f32, one after the other; whole vectors, so up to fifteen zeros come after it.
///
/// # Safety
/// `out` has room for the row's length rounded up to sixteen, and is written by this thread alone.
#[inline(always)]
pub(super) unsafe fn contiguous_row<S: Lanes>(
    s: S,
    x: &[f32],
    prepare: &Prepare<'_>,
    out: *mut f32,
) {
    let scale = row_scale(s, x, prepare);
    for c in (0..prepare.n_cols).step_by(LANES) {
        // SAFETY: whole vectors up to the rounded length.
        unsafe { s.store(out.add(c), normed(s, x, prepare, scale, c)) };
    }
}

/// Write row `x` as f32 into lane `lane` of a tile of `m` rows.
///
/// # Safety
/// `tile` has room for `m` rows, and this row is written by this thread alone.
#[inline(always)]
pub(super) unsafe fn plain_row<S: Lanes>(
    s: S,
    x: &[f32],
    prepare: &Prepare<'_>,
    tile: *mut f32,
    m: usize,
    lane: usize,
) {
    let scale = row_scale(s, x, prepare);
    for c in (0..prepare.n_cols).step_by(LANES) {
        let mut values = [0.0; LANES];
        // SAFETY: sixteen elements.
        unsafe { s.store(values.as_mut_ptr(), normed(s, x, prepare, scale, c)) };
        for (i, &v) in values.iter().take(prepare.n_cols - c).enumerate() {
            // SAFETY: the tile has `m` elements per column.
            unsafe { tile.add((c + i) * m + lane).write(v) };
        }
    }
}
