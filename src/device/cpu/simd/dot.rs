//! Dot products of groups of sixteen weight rows with tiles of activation rows.
//!
//! # Place
//! Part of `device::cpu::simd`: the arithmetic of `matmul`, without its loops over a matrix.
//! # Invariants
//! The sum of one (weight row, activation row) runs over blocks (plain types: columns) in order, in one
//! accumulator, with fused multiply-adds: the same bits in every tile, format of group and instruction set.
#![allow(unsafe_code)] // raw loads from groups and tiles

use super::codes::{Codes, Panel, Q4One, Q4Zero, Q5One, Q5Zero, Q6K, Q8Zero, QK, Runs};
use super::lanes::{self, Isa, Kernel, LANES, Lanes, dispatch};
use super::rows::{BLOCK_WORDS, NEG_SUM, SCALE, SCALED_SUM};
use super::weight::{GroupLayout, Part};
use crate::base::DType;

/// `n` products in a row: of neighbouring groups with one tile, or of one group with neighbouring tiles.
#[derive(Clone, Copy)]
pub(super) struct Series {
    pub(super) n: usize,
    /// Bytes from one group to the next; 0 when the tile changes.
    pub(super) group_stride: usize,
    pub(super) tile: *const f32,
    /// Elements from one tile to the next; 0 when the group changes.
    pub(super) tile_stride: usize,
    /// Rows of every tile.
    pub(super) m: usize,
    /// `[n, m, 16]`
    pub(super) out: *mut f32,
}

/// How far ahead of their use weights are asked for: the processor's own prefetching does not look past
/// the instructions that a block takes.
const AHEAD_BYTES: usize = 4096;

struct Dot<C, const M: usize> {
    codes: C,
    runs: Runs,
    n_blocks: usize,
    series: Series,
}

impl<C: Codes, const M: usize> Kernel for Dot<C, M> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let Self { codes, mut runs, n_blocks, series } = self;
        let mut tile = series.tile;
        for i in 0..series.n {
            // SAFETY: the maker of the series vouches for groups, tiles and output.
            unsafe {
                let sums = sums::<S, C, M>(s, codes, runs, n_blocks, tile);
                for r in 0..M {
                    s.store(series.out.add((i * M + r) * LANES), sums[r]);
                }
                tile = tile.wrapping_add(series.tile_stride);
                runs.codes = runs.codes.wrapping_add(series.group_stride);
                runs.scales = runs.scales.wrapping_add(series.group_stride);
                runs.supers = runs.supers.wrapping_add(series.group_stride);
            }
        }
    }
}

/// What the integer sum of a block starts with: the zero point of the codes is taken off in integers,
/// where it is exact.
#[inline(always)]
fn start<S: Lanes, C: Codes>(s: S, codes: C, neg_sum: i32) -> S::I {
    match codes.zero_shift() {
        Some(n) => s.ishl_by(s.isplat(neg_sum), n),
        None => s.isplat(0),
    }
}

/// The sums of one group with one tile.
///
/// # Safety
/// `runs` is a group of this format and `tile` a quantised tile of `M` rows, both of `n_blocks` blocks.
#[inline(always)]
unsafe fn sums<S: Lanes, C: Codes, const M: usize>(
    s: S,
    codes: C,
    runs: Runs,
    n_blocks: usize,
    tile: *const f32,
) -> [S::F; M] {
    let mut sums = [s.splat(0.0); M];
    for b in 0..n_blocks {
        if C::STREAMED_BYTES > 0 {
            // The group, its scales, and the next group are one stream: read on steadily, ahead of use.
            let ahead = runs.codes.wrapping_add(AHEAD_BYTES + b * C::STREAMED_BYTES);
            for line in 0..C::STREAMED_BYTES.div_ceil(64) {
                s.prefetch(ahead.wrapping_add(line * 64));
            }
        }
        // SAFETY: block `b` of the tile.
        let block = unsafe { tile.add(b * BLOCK_WORDS * M) };
        // SAFETY: items of a block, each for `M` rows.
        let word = |item: usize, r: usize| unsafe { *block.add(item * M + r).cast::<i32>() };
        // SAFETY: as above.
        let float = |item: usize, r: usize| unsafe { *block.add(item * M + r) };
        let mut ints = [s.isplat(0); M];
        for r in 0..M {
            let item = if C::HALVES { NEG_SUM + 1 } else { NEG_SUM };
            ints[r] = start(s, codes, word(item, r));
        }
        // SAFETY: block `b` of the group.
        let d = unsafe { codes.scale(s, runs, b) };
        for j in 0..4 {
            // SAFETY: block `b` of the group.
            let (low, high) = unsafe { codes.pair(s, runs, b, j) };
            for r in 0..M {
                ints[r] = s.dot(codes.wide(), ints[r], low, s.isplat(word(j, r)));
            }
            if !C::HALVES {
                for r in 0..M {
                    ints[r] = s.dot(codes.wide(), ints[r], high, s.isplat(word(4 + j, r)));
                }
            }
        }
        for r in 0..M {
            let scale = s.mul(d, s.splat(float(SCALE, r)));
            sums[r] = s.fma(s.to_f(ints[r]), scale, sums[r]);
        }
        if C::MINS {
            // SAFETY: block `b` of the group.
            let min = unsafe { codes.second(s, runs, b) };
            for r in 0..M {
                sums[r] = s.fma(min, s.splat(float(SCALED_SUM, r)), sums[r]);
            }
        }
        if C::HALVES {
            // SAFETY: block `b` of the group.
            let d = unsafe { codes.second(s, runs, b) };
            for r in 0..M {
                ints[r] = start(s, codes, word(NEG_SUM + 2, r));
            }
            for j in 0..4 {
                // SAFETY: block `b` of the group.
                let (_, high) = unsafe { codes.pair(s, runs, b, j) };
                for r in 0..M {
                    ints[r] = s.dot(codes.wide(), ints[r], high, s.isplat(word(4 + j, r)));
                }
            }
            for r in 0..M {
                let scale = s.mul(d, s.splat(float(SCALE, r)));
                sums[r] = s.fma(s.to_f(ints[r]), scale, sums[r]);
            }
        }
    }
    sums
}

/// Plain weights: column after column, sixteen elements each.
pub(super) trait Element: Copy {
    const BYTES: usize;
    /// # Safety
    /// Sixteen elements at `p`.
    unsafe fn load<S: Lanes>(s: S, p: *const u8) -> S::F;
}

#[derive(Clone, Copy)]
pub(super) struct Single;
#[derive(Clone, Copy)]
pub(super) struct Half;
#[derive(Clone, Copy)]
pub(super) struct Brain;
/// Codes without their scale.
#[derive(Clone, Copy)]
pub(super) struct Eighth;

impl Element for Single {
    const BYTES: usize = 4;
    #[inline(always)]
    unsafe fn load<S: Lanes>(s: S, p: *const u8) -> S::F {
        // SAFETY: as the trait says.
        unsafe { s.load(p.cast()) }
    }
}

impl Element for Half {
    const BYTES: usize = 2;
    #[inline(always)]
    unsafe fn load<S: Lanes>(s: S, p: *const u8) -> S::F {
        // SAFETY: as the trait says.
        unsafe { s.load_f16(p.cast()) }
    }
}

impl Element for Brain {
    const BYTES: usize = 2;
    #[inline(always)]
    unsafe fn load<S: Lanes>(s: S, p: *const u8) -> S::F {
        // SAFETY: as the trait says.
        unsafe { s.load_bf16(p.cast()) }
    }
}

impl Element for Eighth {
    const BYTES: usize = 1;
    #[inline(always)]
    unsafe fn load<S: Lanes>(s: S, p: *const u8) -> S::F {
        // SAFETY: as the trait says.
        unsafe { s.load_i8(p.cast()) }
    }
}

struct PlainDot<E, const M: usize> {
    element: std::marker::PhantomData<E>,
    group: *const u8,
    n_cols: usize,
    series: Series,
}

impl<E: Element, const M: usize> Kernel for PlainDot<E, M> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let (mut group, mut tile) = (self.group, self.series.tile);
        for i in 0..self.series.n {
            let mut sums = [s.splat(0.0); M];
            // SAFETY: the maker of the series vouches for groups, tiles and output.
            unsafe {
                for c in 0..self.n_cols {
                    let w = E::load(s, group.add(c * LANES * E::BYTES));
                    for r in 0..M {
                        sums[r] = s.fma(w, s.splat(*tile.add(c * M + r)), sums[r]);
                    }
                }
                for r in 0..M {
                    s.store(self.series.out.add((i * M + r) * LANES), sums[r]);
                }
            }
            tile = tile.wrapping_add(self.series.tile_stride);
            group = group.wrapping_add(self.series.group_stride);
        }
    }
}

/// A group widened once for many tiles.
#[derive(Clone, Copy)]
pub(super) struct Widened {
    dtype: DType,
    runs: Runs,
}

struct Widen<C> {
    codes: C,
    runs: Runs,
    n_blocks: usize,
    to: (*mut u8, *mut f32, *mut f32),
}

impl<C: Codes> Kernel for Widen<C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let (codes_to, scales_to, seconds_to) = self.to;
        for b in 0..self.n_blocks {
            // SAFETY: `widen` checked the sizes of the panel; block `b` of the group.
            unsafe {
                for j in 0..4 {
                    let (low, high) = self.codes.pair(s, self.runs, b, j);
                    s.istore(codes_to.add(b * 512 + j * 64), low);
                    s.istore(codes_to.add(b * 512 + (4 + j) * 64), high);
                }
                s.store(scales_to.add(b * LANES), self.codes.scale(s, self.runs, b));
                if C::MINS || C::HALVES {
                    s.store(seconds_to.add(b * LANES), self.codes.second(s, self.runs, b));
                }
            }
        }
    }
}

/// Evaluate `$e` with `$c` bound to the [`Codes`] of a block format.
macro_rules! with_codes {
    ($dtype:expr, $c:ident => $e:expr) => {
        match $dtype {
            DType::Q8_0 => {
                let $c = Q8Zero;
                $e
            }
            DType::Q4_0 => {
                let $c = Q4Zero;
                $e
            }
            DType::Q4_1 => {
                let $c = Q4One;
                $e
            }
            DType::Q5_0 => {
                let $c = Q5Zero;
                $e
            }
            DType::Q5_1 => {
                let $c = Q5One;
                $e
            }
            DType::Q4K => {
                let $c = QK::<false>;
                $e
            }
            DType::Q5K => {
                let $c = QK::<true>;
                $e
            }
            DType::Q6K => {
                let $c = Q6K;
                $e
            }
            DType::F32 | DType::F16 | DType::BF16 => unreachable!("plain types have no codes"),
        }
    };
}

/// Evaluate `$e` with the constant `$m` equal to the rows of a tile.
macro_rules! with_rows {
    ($rows:expr, [$($n:literal)+], $m:ident => $e:expr) => {
        match $rows {
            $($n => {
                const $m: usize = $n;
                $e
            })+
            rows => unreachable!("tiles of {rows} rows are not made"),
        }
    };
}

/// The three runs of a group.
fn runs_of(part: &Part, g: usize) -> Runs {
    let (scales, supers, _) = GroupLayout::of(part.dtype).offsets(part.n_blocks());
    let codes = part.group(g);
    Runs { codes, scales: codes.wrapping_add(scales), supers: codes.wrapping_add(supers) }
}

/// Ask for the start of group `g`, whose use begins soon.
pub(super) fn ask_for(isa: Isa, part: &Part, g: usize) {
    lanes::ask_for(isa, part.group(g), AHEAD_BYTES);
}

/// f32 elements that a panel of `n_blocks` blocks needs.
pub(super) const fn panel_len(n_blocks: usize) -> usize {
    n_blocks * (512 / 4 + 2 * LANES)
}

/// Widen group `g` into `panel`.
///
/// # Safety
/// `panel` has [`panel_len`] elements that nobody else uses.
pub(super) unsafe fn widen(isa: Isa, part: &Part, g: usize, panel: *mut f32) -> Widened {
    let n_blocks = part.n_blocks();
    let scales = panel.wrapping_add(n_blocks * 128);
    let seconds = scales.wrapping_add(n_blocks * LANES);
    let to = (panel.cast::<u8>(), scales, seconds);
    let runs = runs_of(part, g);
    with_codes!(part.dtype, codes => dispatch(isa, Widen { codes, runs, n_blocks, to }));
    Widened {
        dtype: part.dtype,
        runs: Runs {
            codes: panel.cast_const().cast(),
            scales: scales.cast_const().cast(),
            supers: seconds.cast_const().cast(),
        },
    }
}

/// Products of a widened group with many tiles.
///
/// # Safety
/// The series' tiles are quantised tiles of the part's columns, and its output has room.
pub(super) unsafe fn dot_widened(isa: Isa, group: Widened, n_blocks: usize, series: Series) {
    let runs = group.runs;
    match group.dtype {
        DType::Q6K => with_rows!(series.m, [1 2 4 8 12], M => {
            let codes = Panel::<true, false> { zero_shift: Some(5) };
            dispatch(isa, Dot::<_, M> { codes, runs, n_blocks, series });
        }),
        DType::Q8_0 | DType::Q4_0 | DType::Q5_0 => with_rows!(series.m, [1 2 4 8 12], M => {
            let zero_shift = with_codes!(group.dtype, codes => codes.zero_shift());
            let codes = Panel::<false, false> { zero_shift };
            dispatch(isa, Dot::<_, M> { codes, runs, n_blocks, series });
        }),
        _ => with_rows!(series.m, [1 2 4 8 12], M => {
            let codes = Panel::<false, true> { zero_shift: None };
            dispatch(isa, Dot::<_, M> { codes, runs, n_blocks, series });
        }),
    }
}

/// Products of the groups from `g` with a tile of at most four quantised rows.
///
/// # Safety
/// As for [`dot_widened`], and the series' groups are in the part.
pub(super) unsafe fn dot_direct(isa: Isa, part: &Part, g: usize, series: Series) {
    let (runs, n_blocks) = (runs_of(part, g), part.n_blocks());
    with_codes!(part.dtype, codes => with_rows!(series.m, [1 2 4], M => {
        dispatch(isa, Dot::<_, M> { codes, runs, n_blocks, series });
    }));
}

/// Products of plain groups from `g` with plain tiles.
///
/// # Safety
/// The series' tiles are plain tiles of the part's columns, its groups are in the part, and its output
/// has room.
pub(super) unsafe fn dot_plain(isa: Isa, part: &Part, g: usize, series: Series) {
    fn go<E: Element>(isa: Isa, part: &Part, g: usize, series: Series) {
        let element = std::marker::PhantomData::<E>;
        let (group, n_cols) = (part.group(g), part.cols);
        with_rows!(series.m, [1 2 4 8 12], M => {
            dispatch(isa, PlainDot::<E, M> { element, group, n_cols, series });
        });
    }
    match part.dtype {
        DType::F16 => go::<Half>(isa, part, g, series),
        DType::BF16 => go::<Brain>(isa, part, g, series),
        _ => go::<Single>(isa, part, g, series),
    }
}
