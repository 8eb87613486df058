//! Products of activation rows with a weight matrix, with norm before and bias, sum or gate after.
//!
//! # Place
//! Part of `device::cpu::simd`. Divides the work between threads and calls `rows` and `dot`.
//! Up to [`DIRECT_ROWS`] rows (decoding) are prepared by every thread for itself, because that is cheaper
//! than a second meeting of the threads, and weights are used as they lie. More rows (prefill) are
//! prepared together, and each group of weights is widened once for all rows of a chunk.
//! # Invariants
//! Who takes which piece, and how rows fall into tiles and chunks, changes no bit of the result.
#![allow(unsafe_code)] // threads write disjoint parts of one buffer

use std::ops::Range;

use super::dot::{self, Series};
use super::finish::{Finish, FinishTile};
use super::lanes::{Isa, Kernel, LANES, Lanes, dispatch};
use super::low_rank::{AddOuter, Inner, Run, Terms};
use super::memory::Floats;
use super::rows::{self, BLOCK_WORDS, Prepare};
use super::weight::Part;
use crate::base::DType;
use crate::device::DeviceError;
use crate::device::cpu::pool::{Pieces, Pool, RegionPanicked};
use crate::device::cpu::source::is_blocks;

/// Most rows that use the weights as they lie.
pub(super) const DIRECT_ROWS: usize = 4;
/// Prepared rows of a chunk should stay in the second-level cache beside a panel.
const CHUNK_BYTES: usize = 384 << 10;
/// Groups that a thread computes before it finishes them, so that sums stay in the first-level cache.
const SERIES_GROUPS: usize = 32;

/// A weight matrix in the layout of `weight`.
pub(super) struct Matrix {
    pub(super) parts: Vec<Part>,
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) gated: bool,
}

impl Matrix {
    fn has_blocks(&self) -> bool {
        self.parts.iter().any(|p| is_blocks(p.dtype))
    }

    /// Whether scales change every 16 columns.
    pub(super) fn has_halves(&self) -> bool {
        self.parts.iter().any(|p| p.dtype == DType::Q6K)
    }

    fn has_plain(&self) -> bool {
        self.parts.iter().any(|p| !is_blocks(p.dtype))
    }

    /// Units of work: groups, or pairs of groups when gated.
    fn n_units(&self) -> usize {
        if self.gated {
            self.parts[0].n_groups()
        } else {
            self.parts.iter().map(Part::n_groups).sum()
        }
    }

    /// The part of unit `u`, its group there, and how many more units of this part follow.
    fn locate(&self, mut u: usize) -> (&Part, usize, usize) {
        for part in &self.parts {
            if u < part.n_groups() {
                return (part, u, part.n_groups() - u);
            }
            u -= part.n_groups();
        }
        unreachable!("units are below n_units")
    }
}

/// One product. x `[T, K]`, out `[T, R]`.
#[derive(Clone, Copy)]
pub(super) struct Product<'a> {
    pub(super) isa: Isa,
    pub(super) matrix: &'a Matrix,
    pub(super) x: &'a [f32],
    pub(super) prepare: Prepare<'a>,
    pub(super) n_rows: usize,
    pub(super) out: *mut f32,
    pub(super) out_cols: usize,
    pub(super) finish: Finish<'a>,
    /// Rows with low-rank terms, ascending.
    pub(super) low_rank: &'a [Run],
    /// The terms by id.
    pub(super) terms: &'a [Terms],
}

// SAFETY: `out` is a buffer of the backend that `run` divides among its threads.
unsafe impl Sync for Product<'_> {}

/// Scratch of one thread.
pub(super) struct Own {
    rows: Floats,
    plain: Floats,
    sums: Floats,
    panels: Floats,
    /// One row as low-rank terms want it.
    normed: Floats,
}

impl Own {
    /// Where a row is prepared for low-rank terms.
    pub(super) fn normed(&self) -> &Floats {
        &self.normed
    }

    pub(super) fn new() -> Result<Self, DeviceError> {
        let what = "scratch of a thread";
        Ok(Self {
            rows: Floats::new(0, what)?,
            plain: Floats::new(0, what)?,
            sums: Floats::new(0, what)?,
            panels: Floats::new(0, what)?,
            normed: Floats::new(0, what)?,
        })
    }
}

/// Scratch of all products: sized while loading for the largest matrix, so that steps do not allocate.
pub(super) struct Scratch {
    own: Vec<Own>,
    rows: Floats,
    plain: Floats,
    tiles: Vec<(usize, usize)>,
    /// Inner products of low-rank terms. `[T, ranks_max]`
    inner: Floats,
    ranks_max: usize,
}

impl Scratch {
    pub(super) fn new(n_threads: usize) -> Result<Self, DeviceError> {
        Ok(Self {
            own: (0..n_threads).map(|_| Own::new()).collect::<Result<_, _>>()?,
            rows: Floats::new(0, "prepared rows")?,
            plain: Floats::new(0, "prepared rows")?,
            tiles: Vec::new(),
            inner: Floats::new(0, "inner products")?,
            ranks_max: 0,
        })
    }

    /// Make room for the terms of `n_rows` rows whose ranks add up to `ranks`.
    pub(super) fn reserve_low_rank(
        &mut self,
        n_cols: usize,
        n_rows: usize,
        ranks: usize,
    ) -> Result<(), DeviceError> {
        self.ranks_max = self.ranks_max.max(ranks.next_multiple_of(LANES));
        self.inner.reserve(n_rows * self.ranks_max, "inner products")?;
        for own in &mut self.own {
            own.normed.reserve(n_cols.next_multiple_of(LANES), "a prepared row")?;
        }
        Ok(())
    }

    /// Make room for products of `n_rows` rows with matrices of `n_cols` columns.
    pub(super) fn reserve(&mut self, n_cols: usize, n_rows: usize) -> Result<(), DeviceError> {
        let n_blocks = n_cols.div_ceil(32);
        let what = "prepared rows";
        self.rows.reserve(n_rows * n_blocks * BLOCK_WORDS, what)?;
        self.plain.reserve(n_rows * n_cols, what)?;
        self.tiles.reserve(n_rows);
        for own in &mut self.own {
            own.rows.reserve(DIRECT_ROWS * n_blocks * BLOCK_WORDS, what)?;
            own.plain.reserve(DIRECT_ROWS * n_cols, what)?;
            let n_sums = (SERIES_GROUPS * DIRECT_ROWS).max(n_rows) * LANES;
            own.sums.reserve(2 * n_sums, what)?;
            own.panels.reserve(2 * dot::panel_len(n_blocks), what)?;
        }
        Ok(())
    }

    /// Where inner products of low-rank terms go, and how far apart those of two rows are.
    pub(super) fn inner(&self) -> (*mut f32, usize) {
        (self.inner.ptr(), self.ranks_max)
    }

    pub(super) fn n_bytes(&self) -> u64 {
        let own = self.own.iter().flat_map(|o| [&o.rows, &o.plain, &o.sums, &o.panels, &o.normed]);
        let all = own.chain([&self.rows, &self.plain, &self.inner]);
        all.map(|floats| floats.len() as u64 * 4).sum()
    }
}

/// Compute `product` on all threads.
pub(super) fn run(
    pool: &mut Pool,
    scratch: &mut Scratch,
    product: &Product<'_>,
) -> Result<(), RegionPanicked> {
    if product.n_rows == 0 {
        return Ok(());
    }
    let n_threads = pool.n_threads();
    let n_units = product.matrix.n_units();
    if product.n_rows <= DIRECT_ROWS {
        let pieces = Pieces::new(n_units, n_threads, 1);
        let inner = Inner::new(product, scratch, n_threads);
        let scratch = &*scratch;
        return pool.run(&|thread| product.direct(&pieces, &inner, &scratch.own[thread]));
    }
    let mut tiles = std::mem::take(&mut scratch.tiles);
    tiles.clear();
    tiles.extend(rows::tiles(product.n_rows, tile_rows(product.isa)));
    let result = run_tiles(pool, scratch, product, &tiles);
    scratch.tiles = tiles;
    result
}

fn run_tiles(
    pool: &mut Pool,
    scratch: &Scratch,
    product: &Product<'_>,
    tiles: &[(usize, usize)],
) -> Result<(), RegionPanicked> {
    let (n_threads, n_units) = (pool.n_threads(), product.matrix.n_units());
    let prepare = Pieces::new(tiles.len(), n_threads * 4, 1);
    let inner = Inner::new(product, scratch, n_threads);
    pool.run(&|thread| {
        while let Some(piece) = prepare.claim() {
            for &tile in &tiles[piece] {
                product.prepare_tile(tile, scratch.rows.ptr(), scratch.plain.ptr());
            }
        }
        inner.compute(product, &scratch.own[thread]);
    })?;
    let row_bytes = product.matrix.cols.div_ceil(32) * BLOCK_WORDS * 4;
    let n_chunks = (product.n_rows * row_bytes).div_ceil(CHUNK_BYTES).max(1);
    let chunk_tiles = tiles.len().div_ceil(n_chunks);
    let n_chunks = tiles.len().div_ceil(chunk_tiles);
    let pieces = Pieces::new(n_chunks * n_units, n_threads * 4, 1);
    pool.run(&|thread| {
        while let Some(piece) = pieces.claim() {
            for i in piece {
                let first = i / n_units * chunk_tiles;
                let chunk = &tiles[first..(first + chunk_tiles).min(tiles.len())];
                product.unit(chunk, i % n_units, &inner, scratch, thread);
            }
        }
    })
}

/// Rows of the largest tile on this instruction set.
fn tile_rows(isa: Isa) -> usize {
    struct Ask;
    impl Kernel for Ask {
        type Output = usize;
        #[inline(always)]
        fn run<S: Lanes>(self, _: S) -> usize {
            S::TILE_ROWS
        }
    }
    dispatch(isa, Ask)
}

impl Product<'_> {
    /// Prepare the rows of a tile; the tiles before it hold `first` rows.
    fn prepare_tile(&self, (first, m): (usize, usize), quantised: *mut f32, plain: *mut f32) {
        let n_cols = self.matrix.cols;
        let n_words = n_cols.div_ceil(32) * BLOCK_WORDS;
        for lane in 0..m {
            let x = &self.x[(first + lane) * n_cols..][..n_cols];
            let prepare = &self.prepare;
            if self.matrix.has_blocks() {
                let tile = quantised.wrapping_add(first * n_words);
                dispatch(self.isa, PrepareRow { x, prepare, tile, m, lane, quantise: true });
            }
            if self.matrix.has_plain() {
                let tile = plain.wrapping_add(first * n_cols);
                dispatch(self.isa, PrepareRow { x, prepare, tile, m, lane, quantise: false });
            }
        }
    }

    fn direct(&self, pieces: &Pieces, inner: &Inner, own: &Own) {
        let Some(mut piece) = pieces.claim() else {
            return;
        };
        // The first weights come in while the rows are prepared.
        let (part, g, _) = self.matrix.locate(piece.start);
        dot::ask_for(self.isa, part, g);
        inner.ask_for(self);
        let tiles = || rows::tiles(self.n_rows, DIRECT_ROWS);
        for tile in tiles() {
            self.prepare_tile(tile, own.rows.ptr(), own.plain.ptr());
        }
        inner.compute(self, own);
        loop {
            let mut u = piece.start;
            while u < piece.end {
                let (part, g, left) = self.matrix.locate(u);
                let n = left.min(piece.end - u).min(SERIES_GROUPS);
                self.ask_for_terms(part, g, n);
                for (first, m) in tiles() {
                    let sums = own.sums.ptr();
                    let second = sums.wrapping_add(own.sums.len() / 2);
                    self.direct_series(part, g, n, (first, m), own, sums);
                    if self.matrix.gated {
                        self.direct_series(&self.matrix.parts[1], g, n, (first, m), own, second);
                    }
                    self.add_terms(inner, part, (g, n), (first, m), [sums, second]);
                    for i in 0..n {
                        let at = i * m * LANES;
                        self.finish(
                            part,
                            g + i,
                            (first, m),
                            sums.wrapping_add(at),
                            second.wrapping_add(at),
                        );
                    }
                }
                u += n;
            }
            match pieces.claim() {
                Some(next) => piece = next,
                None => return,
            }
        }
    }

    fn direct_series(
        &self,
        part: &Part,
        g: usize,
        n: usize,
        (first, m): (usize, usize),
        own: &Own,
        out: *mut f32,
    ) {
        let mut series = Series {
            n,
            group_stride: part.group_bytes(),
            tile: own.rows.ptr().wrapping_add(first * part.n_blocks() * BLOCK_WORDS),
            tile_stride: 0,
            m,
            out,
        };
        // SAFETY: the rows were prepared by this thread; `sums` was reserved for `SERIES_GROUPS` groups.
        unsafe {
            if is_blocks(part.dtype) {
                dot::dot_direct(self.isa, part, g, series);
            } else {
                series.tile = own.plain.ptr().wrapping_add(first * part.cols);
                dot::dot_plain(self.isa, part, g, series);
            }
        }
    }

    /// Unit `u` with all tiles of a chunk.
    fn unit(
        &self,
        tiles: &[(usize, usize)],
        u: usize,
        inner: &Inner,
        scratch: &Scratch,
        thread: usize,
    ) {
        let own = &scratch.own[thread];
        let (part, g, _) = self.matrix.locate(u);
        let sums = own.sums.ptr();
        let second = sums.wrapping_add(own.sums.len() / 2);
        let half = own.panels.len() / 2;
        self.chunk_sums(part, g, tiles, scratch, own.panels.ptr(), sums);
        if self.matrix.gated {
            let panel = own.panels.ptr().wrapping_add(half);
            self.chunk_sums(&self.matrix.parts[1], g, tiles, scratch, panel, second);
        }
        let start = tiles[0].0;
        let n_rows = tiles.iter().map(|(_, m)| m).sum();
        self.add_terms(inner, part, (g, 1), (start, n_rows), [sums, second]);
        for &(first, m) in tiles {
            let at = (first - start) * LANES;
            self.finish(part, g, (first, m), sums.wrapping_add(at), second.wrapping_add(at));
        }
    }

    fn chunk_sums(
        &self,
        part: &Part,
        g: usize,
        tiles: &[(usize, usize)],
        scratch: &Scratch,
        panel: *mut f32,
        out: *mut f32,
    ) {
        let blocks = is_blocks(part.dtype);
        // SAFETY: panels were reserved for the longest rows, one for each gated part.
        let widened = blocks.then(|| unsafe { dot::widen(self.isa, part, g, panel) });
        let row_words = if blocks { part.n_blocks() * BLOCK_WORDS } else { part.cols };
        let rows = if blocks { scratch.rows.ptr() } else { scratch.plain.ptr() };
        let start = tiles[0].0;
        for same in tiles.chunk_by(|a, b| a.1 == b.1) {
            let (first, m) = same[0];
            let series = Series {
                n: same.len(),
                group_stride: 0,
                tile: rows.wrapping_add(first * row_words),
                tile_stride: m * row_words,
                m,
                out: out.wrapping_add((first - start) * LANES),
            };
            // SAFETY: the tiles were prepared in the region before; `sums` has room for every row.
            unsafe {
                match widened {
                    Some(group) => dot::dot_widened(self.isa, group, part.n_blocks(), series),
                    None => dot::dot_plain(self.isa, part, g, series),
                }
            }
        }
    }

    /// Ask for the terms that will be added to the sums of `n` groups of a part from `g` on.
    fn ask_for_terms(&self, part: &Part, g: usize, n: usize) {
        for run in self.low_rank {
            let parts = self.outer_parts(part);
            parts
                .filter_map(|p| self.terms[run.terms].outer(p))
                .for_each(|o| o.ask_for(self.isa, g, n));
        }
    }

    /// The part, by its index, and after it the other half of a gated pair.
    fn outer_parts(&self, part: &Part) -> Range<usize> {
        let first = self.matrix.parts.iter().position(|p| p.first_row == part.first_row);
        let first = first.expect("the part is one of the matrix");
        first..first + 1 + usize::from(self.matrix.gated)
    }

    /// Add low-rank terms to the sums `[n, m, 16]` of `n` groups of a part from `g` on (and of the other
    /// half of a gated pair) with the rows `first..first + m`.
    fn add_terms(
        &self,
        inner: &Inner,
        part: &Part,
        (g, n): (usize, usize),
        (first, m): (usize, usize),
        sums: [*mut f32; 2],
    ) {
        if self.low_rank.is_empty() {
            return;
        }
        inner.wait();
        let parts = self.outer_parts(part);
        for run in self.low_rank {
            let rows = run.first_row.max(first)..(run.first_row + run.n_rows).min(first + m);
            if rows.is_empty() {
                continue;
            }
            let terms = &self.terms[run.terms];
            for (p, sums) in parts.clone().zip(sums) {
                let Some(outer) = terms.outer(p) else { continue };
                let kernel = AddOuter {
                    outer,
                    g,
                    n,
                    m,
                    rows: rows.start - first..rows.end - first,
                    inner: inner.of_row(first).cast_const(),
                    inner_stride: inner.stride,
                    sums,
                };
                dispatch(self.isa, kernel);
            }
        }
    }

    /// Turn sums `[m, 16]` of group `g` into outputs.
    fn finish(
        &self,
        part: &Part,
        g: usize,
        (first, m): (usize, usize),
        sums: *mut f32,
        second: *mut f32,
    ) {
        let col = part.first_row + g * LANES;
        let n = (part.rows - g * LANES).min(LANES);
        let kernel = FinishTile {
            finish: self.finish,
            out: self.out,
            out_cols: self.out_cols,
            first,
            m,
            col,
            n,
            sums,
            second,
        };
        dispatch(self.isa, kernel);
    }
}

struct PrepareRow<'a> {
    x: &'a [f32],
    prepare: &'a Prepare<'a>,
    tile: *mut f32,
    m: usize,
    lane: usize,
    quantise: bool,
}

impl Kernel for PrepareRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        // SAFETY: the tile was reserved for `m` rows, and one thread prepares a tile.
        unsafe {
            if self.quantise {
                rows::quantise_row(s, self.x, self.prepare, self.tile, self.m, self.lane);
            } else {
                rows::plain_row(s, self.x, self.prepare, self.tile, self.m, self.lane);
            }
        }
    }
}
