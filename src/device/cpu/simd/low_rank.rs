//! Low-rank terms of products: `b (a x)` added to the sums of the rows that have some.
//!
//! # Place
//! Part of `device::cpu::simd`, called by `matmul` inside the regions that a product has anyway. The inner
//! products `a x` are shared out first; whoever then reaches the sums of a row waits until all are there, which
//! the sums have usually taken longer than.
//! # Invariants
//! Each inner product is one sum over the columns, each term one sum over the ranks, both in a fixed order.
//! # Shapes and units
//! `a` of all parts of a matrix `[ranks / 8, K / 16, 8, 16]`, so that whoever takes eight of its rows reads one
//! stretch of memory; what is missing to eight rows or sixteen columns is zero. `b` per part and group of sixteen
//! outputs `[r, 16]`. Both are f16, scaled by powers of two so that the largest value is near 1, which the inner
//! products undo.
#![allow(unsafe_code)] // threads write disjoint parts of one buffer

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use half::f16;

use super::lanes::{Isa, Kernel, LANES, Lanes, ask_for, dispatch};
use super::matmul::{DIRECT_ROWS, Own, Product, Scratch};
use super::memory::Arena;
use super::rows;
use crate::device::cpu::pool::{Alone, Pieces};
use crate::device::{DeviceError, LowRankSource};

/// Rows of `a` that one thread takes at a time.
const INNER_ROWS: usize = 8;
/// How many columns ahead of their use eight rows of `a` are asked for: the processor's own prefetching hardly gets
/// going in stretches this short.
const AHEAD_COLUMNS: usize = 8 * LANES;
/// Rows of a step whose terms are added together, so that `b` is widened once for them.
const OUTER_ROWS: usize = 4;
/// Groups of outputs whose terms are added together for a single row.
const OUTER_GROUPS: usize = 4;
/// Looks at the counter before a thread that waits lets others run.
const SPINS_BEFORE_YIELD: u32 = 2_000;

/// Rows of a step with terms, by index.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) first_row: usize,
    pub(super) n_rows: usize,
    pub(super) terms: usize,
}

/// The terms of one matrix.
pub(super) struct Terms {
    /// Which matrix, by index.
    pub(super) matrix: usize,
    n_cols: usize, // K, padded
    a: *const u16, // [ranks / 8, K / 16, 8, 16]
    ranks: usize,
    /// What the inner products are multiplied with. `[ranks]`, padded to eight
    scales: Vec<f32>,
    parts: Vec<Option<Outer>>,
}

// SAFETY: `a` and `b` point into the backend's arena and are only read after they were filled.
unsafe impl Send for Terms {}
// SAFETY: as above.
unsafe impl Sync for Terms {}

/// The outer half of a part's terms.
#[derive(Clone, Copy)]
pub(super) struct Outer {
    b: *const u16, // [groups, r, 16]
    rank: usize,
    /// Its first inner product among those of a row.
    first: usize,
}

/// The power of two that brings the largest of `values` between 1 and 2.
fn scale_of(values: &[f32]) -> f32 {
    let largest = values.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    if largest > 0.0 && largest.is_finite() {
        (-largest.log2().floor()).clamp(-120.0, 120.0).exp2()
    } else {
        1.0
    }
}

impl Terms {
    /// Lay out the terms of a matrix whose parts have `part_rows` rows of `n_cols` columns.
    pub(super) fn new(
        arena: &mut Arena,
        matrix: usize,
        n_cols: usize,
        part_rows: &[usize],
        parts: &[Option<LowRankSource<'_>>],
    ) -> Result<Self, DeviceError> {
        const WHAT: &str = "low-rank terms";
        let padded = n_cols.next_multiple_of(LANES);
        let ranks: usize = parts.iter().flatten().map(|p| p.rank).sum();
        let n_values = ranks.next_multiple_of(INNER_ROWS) * padded;
        // Zeroed, which is what the padding needs.
        let a = arena.take(n_values * 2, WHAT)?.as_ptr().cast::<u16>();
        let (mut scales, mut outers) = (Vec::with_capacity(ranks), Vec::new());
        for (part, &n_rows) in parts.iter().zip(part_rows) {
            let Some(LowRankSource { rank, a: inner, b: outer }) = *part else {
                outers.push(None);
                continue;
            };
            let (scale_a, scale_b) = (scale_of(inner), scale_of(outer));
            let b = arena.take(n_rows.div_ceil(LANES) * rank * LANES * 2, WHAT)?;
            let b = b.as_ptr().cast::<u16>();
            let first = scales.len();
            // SAFETY: both blocks were just taken with room for every element written.
            unsafe {
                for (j, row) in inner.chunks(n_cols).enumerate() {
                    let (chunk, lane) = ((first + j) / INNER_ROWS, (first + j) % INNER_ROWS);
                    for (c, &v) in row.iter().enumerate() {
                        let column = c / LANES * INNER_ROWS * LANES + lane * LANES + c % LANES;
                        let at = chunk * INNER_ROWS * padded + column;
                        a.add(at).write(f16::from_f32(v * scale_a).to_bits());
                    }
                }
                for (i, row) in outer.chunks(rank).enumerate() {
                    for (j, &v) in row.iter().enumerate() {
                        let at = (i / LANES * rank + j) * LANES + i % LANES;
                        b.add(at).write(f16::from_f32(v * scale_b).to_bits());
                    }
                }
            }
            scales.extend(std::iter::repeat_n(1.0 / scale_a / scale_b, rank));
            outers.push(Some(Outer { b, rank, first }));
        }
        scales.resize(ranks.next_multiple_of(INNER_ROWS), 0.0);
        Ok(Self { matrix, n_cols: padded, a, ranks, scales, parts: outers })
    }

    /// Ranks of all parts together.
    pub(super) fn ranks(&self) -> usize {
        self.ranks
    }

    /// Rows `INNER_ROWS * chunk` and the seven after it.
    fn chunk(&self, chunk: usize) -> *const u16 {
        self.a.wrapping_add(chunk * INNER_ROWS * self.n_cols)
    }

    /// The outer half of part `p`.
    pub(super) fn outer(&self, p: usize) -> Option<Outer> {
        self.parts[p]
    }
}

/// The inner products of a product's rows, while its region runs.
pub(super) struct Inner {
    /// One item for each row and [`INNER_ROWS`] rows of its `a`.
    pieces: Pieces,
    n_items: usize,
    n_done: Alone<AtomicUsize>,
    out: *mut f32, // [T, stride]
    pub(super) stride: usize,
}

// SAFETY: `out` is scratch of the backend whose elements are claimed through `pieces`.
unsafe impl Sync for Inner {}

/// Counts items as done even when their thread panics, so that nobody waits for ever.
struct Done<'a>(&'a AtomicUsize, usize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(self.1, Ordering::Release);
    }
}

impl Inner {
    pub(super) fn new(product: &Product<'_>, scratch: &Scratch, n_threads: usize) -> Self {
        let items = |run: &Run| run.n_rows * chunks(&product.terms[run.terms]);
        let n_items: usize = product.low_rank.iter().map(items).sum();
        let (out, stride) = scratch.inner();
        // Those of few rows are so short that a claim costs as much: one a thread, and whoever comes late finds them
        // done.
        let size_min = if product.n_rows <= DIRECT_ROWS { n_items.div_ceil(n_threads) } else { 1 };
        let pieces = Pieces::new(n_items, n_threads, size_min);
        Self { pieces, n_items, n_done: Alone(AtomicUsize::new(0)), out, stride }
    }

    pub(super) fn of_row(&self, t: usize) -> *mut f32 {
        self.out.wrapping_add(t * self.stride)
    }

    /// Ask for the values that [`Inner::compute`] will read first.
    pub(super) fn ask_for(&self, product: &Product<'_>) {
        let item = self.pieces.peek();
        if item < self.n_items {
            let (_, chunk, terms) = locate(product, item);
            ask_for(product.isa, terms.chunk(chunk).cast(), AHEAD_COLUMNS * INNER_ROWS * 2);
        }
    }

    /// Compute what no other thread has taken.
    pub(super) fn compute(&self, product: &Product<'_>, own: &Own) {
        if self.n_items == 0 {
            return;
        }
        let mut prepared = None;
        while let Some(piece) = self.pieces.claim() {
            let _done = Done(&self.n_done.0, piece.len());
            for item in piece {
                let (t, chunk, terms) = locate(product, item);
                let x = own.normed().ptr();
                if prepared != Some(t) {
                    let n_cols = product.matrix.cols;
                    let row = &product.x[t * n_cols..][..n_cols];
                    dispatch(product.isa, Contiguous { row, prepare: &product.prepare, out: x });
                    prepared = Some(t);
                }
                let out = self.of_row(t).wrapping_add(chunk * INNER_ROWS);
                dispatch(product.isa, InnerRows { terms, chunk, x, out });
            }
        }
    }

    /// Return when every inner product is there.
    pub(super) fn wait(&self) {
        let mut n_spins = 0u32;
        while self.n_done.0.load(Ordering::Acquire) < self.n_items {
            n_spins = n_spins.saturating_add(1);
            if n_spins > SPINS_BEFORE_YIELD {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

fn chunks(terms: &Terms) -> usize {
    terms.ranks().div_ceil(INNER_ROWS)
}

/// The row of an item, its chunk of `a`, and the terms.
fn locate<'a>(product: &Product<'a>, mut item: usize) -> (usize, usize, &'a Terms) {
    for run in product.low_rank {
        let terms = &product.terms[run.terms];
        let n_chunks = chunks(terms);
        if item < run.n_rows * n_chunks {
            return (run.first_row + item / n_chunks, item % n_chunks, terms);
        }
        item -= run.n_rows * n_chunks;
    }
    unreachable!("items are counted from the same runs")
}

impl Outer {
    /// Ask for the values of the first of `n` groups from `g` on.
    pub(super) fn ask_for(&self, isa: Isa, g: usize, n: usize) {
        let group = self.rank * LANES;
        let at = self.b.wrapping_add(g * group).cast();
        ask_for(isa, at, n.min(2 * OUTER_GROUPS) * group * 2);
    }
}

struct Contiguous<'a> {
    row: &'a [f32],
    prepare: &'a rows::Prepare<'a>,
    out: *mut f32,
}

impl Kernel for Contiguous<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        // SAFETY: scratch of this thread, reserved for the widest matrix with terms.
        unsafe { rows::contiguous_row(s, self.row, self.prepare, self.out) }
    }
}

/// Inner products of a chunk's rows of `a`.
struct InnerRows<'a> {
    terms: &'a Terms,
    chunk: usize,
    x: *const f32,
    out: *mut f32,
}

impl Kernel for InnerRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let mut a = self.terms.chunk(self.chunk);
        let mut sums = [s.splat(0.0); INNER_ROWS];
        let scales = &self.terms.scales[self.chunk * INNER_ROWS..][..INNER_ROWS];
        // SAFETY: `a` has these rows, `x` as many elements; `out` is claimed by this thread, and its rows are padded
        // to a multiple of `INNER_ROWS`.
        unsafe {
            for c in (0..self.terms.n_cols).step_by(LANES) {
                if c + AHEAD_COLUMNS < self.terms.n_cols {
                    for line in 0..INNER_ROWS * LANES * 2 / 64 {
                        s.prefetch(a.add(AHEAD_COLUMNS * INNER_ROWS + line * 32).cast());
                    }
                }
                let x = s.load(self.x.add(c));
                for (j, sum) in sums.iter_mut().enumerate() {
                    *sum = s.fma(s.load_f16(a.add(j * LANES)), x, *sum);
                }
                a = a.add(INNER_ROWS * LANES);
            }
            for (j, (&sum, scale)) in sums.iter().zip(scales).enumerate() {
                self.out.add(j).write(s.sum(sum) * scale);
            }
        }
    }
}

/// Add the terms of `n` groups of a part to the sums of some rows of a tile.
pub(super) struct AddOuter {
    pub(super) outer: Outer,
    pub(super) g: usize,
    pub(super) n: usize,
    /// Rows between two groups of `sums`.
    pub(super) m: usize,
    /// Rows of the tile that have these terms.
    pub(super) rows: Range<usize>,
    /// Inner products of the tile's first row.
    pub(super) inner: *const f32,
    pub(super) inner_stride: usize,
    pub(super) sums: *mut f32, // [n, m, 16]
}

impl AddOuter {
    /// The terms of `N` rows from `first` on with `G` groups from `group` on, side by side: a sum waits for its
    /// last addition, so several of them go on together.
    #[inline(always)]
    fn block<S: Lanes, const N: usize, const G: usize>(&self, s: S, group: usize, first: usize) {
        let rank = self.outer.rank;
        let b = self.outer.b.wrapping_add((self.g + group) * rank * LANES);
        let inner = self.inner.wrapping_add(first * self.inner_stride + self.outer.first);
        let sums = self.sums.wrapping_add((group * self.m + first) * LANES);
        // SAFETY: the sums are this thread's; the inner products were waited for; `b` has every group.
        unsafe {
            let mut totals = [[s.splat(0.0); N]; G];
            for j in 0..rank {
                let mut x = [s.splat(0.0); N];
                for (r, x) in x.iter_mut().enumerate() {
                    *x = s.splat(*inner.add(r * self.inner_stride + j));
                }
                for (g, totals) in totals.iter_mut().enumerate() {
                    let b = b.add((g * rank + j) * LANES);
                    // Several rows find `b` in the cache from the second block on. A line holds two of `j`.
                    if N == 1 && j % 2 == 0 {
                        s.prefetch(b.wrapping_add(OUTER_GROUPS * rank * LANES).cast());
                    }
                    let b = s.load_f16(b);
                    for (total, &x) in totals.iter_mut().zip(&x) {
                        *total = s.fma(x, b, *total);
                    }
                }
            }
            for (g, totals) in totals.iter().enumerate() {
                for (r, &total) in totals.iter().enumerate() {
                    let at = sums.add((g * self.m + r) * LANES);
                    s.store(at, s.add(s.load(at), total));
                }
            }
        }
    }

    /// One row with every group.
    #[inline(always)]
    fn row<S: Lanes>(&self, s: S, row: usize) {
        let mut group = 0;
        while group + OUTER_GROUPS <= self.n {
            self.block::<S, 1, OUTER_GROUPS>(s, group, row);
            group += OUTER_GROUPS;
        }
        while group < self.n {
            self.block::<S, 1, 1>(s, group, row);
            group += 1;
        }
    }
}

impl Kernel for AddOuter {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let mut row = self.rows.start;
        while row + OUTER_ROWS <= self.rows.end {
            for group in 0..self.n {
                self.block::<S, OUTER_ROWS, 1>(s, group, row);
            }
            row += OUTER_ROWS;
        }
        (row..self.rows.end).for_each(|row| self.row(s, row));
    }
}
