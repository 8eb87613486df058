//! Weight matrices as the kernels want them: rows in groups of sixteen, one lane a row.
//!
//! # Place
//! Part of `device::cpu::simd`. Laid out once while loading; `matmul` reads groups, `embed` single
//! rows. Does not know activations.
//! # Shapes and units
//! A group of 16 rows with `n_blocks` blocks of 32 columns is three runs, each starting on a cache
//! line: codes, then what scales 32 columns, then what scales 256 (K types only).
//! - codes of a block, nibbles: vector `j` of four, byte `4·row + k`: column `4j + k` low, `16 + 4j + k`
//!   high. Bytes (Q8_0): vector `v` of eight, byte `4·row + k`: column `4v + k`, with the sign bit flipped
//!   so that codes are unsigned. Then the high bits: one bit (5-bit types) of column `4v + k` in bit `v` of byte
//!   `4·row + k`; two bits (Q6_K) of column `4v + k` in bits `2·(v % 4)` of byte `4·row + k` of vector `v / 4`.
//! - scales of a block: 16 × f16 `d`, then 16 × f16 `m` for the `_1` types; 16 × u8 scale and 16 × u8 minimum
//!   (Q4_K, Q5_K); 16 × i8 for each half (Q6_K).
//! - per 256 columns: 16 × f16 `d`, and 16 × f16 `dmin` (Q4_K, Q5_K).
//!
//! Plain types: column after column, 16 elements each. Rows past the last and columns past the last
//! block are zeros. Apart from that padding a matrix takes what it takes in the file (Q4_K, Q5_K: 6-bit
//! scales are stored as bytes, 148 and 180 bytes instead of 144 and 176).
#![allow(unsafe_code)] // groups are written by several threads through raw pointers

use half::{bf16, f16};

use super::lanes::LANES;
use crate::base::DType;
use crate::device::MatrixSource;
use crate::device::cpu::quant::{self, Columns32};
use crate::device::cpu::source::is_blocks;

/// Sizes of the three runs of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupLayout {
    pub(super) code_bytes: usize,
    pub(super) scale_bytes: usize,
    pub(super) super_bytes: usize,
}

impl GroupLayout {
    /// Bytes per block of 32 columns (codes, scales) and per 256 (supers) of 16 rows.
    pub(super) const fn of(dtype: DType) -> Self {
        let (code_bytes, scale_bytes, super_bytes) = match dtype {
            DType::Q8_0 => (512, 32, 0),
            DType::Q4_0 => (256, 32, 0),
            DType::Q4_1 => (256, 64, 0),
            DType::Q5_0 => (320, 32, 0),
            DType::Q5_1 => (320, 64, 0),
            DType::Q4K => (256, 32, 64),
            DType::Q5K => (320, 32, 64),
            DType::Q6K => (384, 32, 32),
            DType::F32 => (64 * 32, 0, 0),
            DType::F16 | DType::BF16 => (32 * 32, 0, 0),
        };
        Self { code_bytes, scale_bytes, super_bytes }
    }

    /// Bytes of a group per block.
    pub(super) const fn block_bytes(self) -> usize {
        self.code_bytes + self.scale_bytes + self.super_bytes.div_ceil(8)
    }

    /// Offset of the scales, of the supers, and the whole size of a group.
    pub(super) const fn offsets(self, n_blocks: usize) -> (usize, usize, usize) {
        let scales = n_blocks * self.code_bytes;
        let supers = scales + (n_blocks * self.scale_bytes).next_multiple_of(64);
        let end = supers + (n_blocks.div_ceil(8) * self.super_bytes).next_multiple_of(64);
        (scales, supers, end)
    }
}

/// One stacked part of a matrix.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) dtype: DType,
    /// First output row of this part in the stack.
    pub(super) first_row: usize,
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) start: *mut u8,
}

// SAFETY: points into the backend's arena; written while loading by threads that own different groups,
// only read afterwards.
unsafe impl Send for Part {}
// SAFETY: as above.
unsafe impl Sync for Part {}

impl Part {
    pub(super) fn n_blocks(&self) -> usize {
        self.cols.div_ceil(32)
    }

    pub(super) fn n_groups(&self) -> usize {
        self.rows.div_ceil(LANES)
    }

    pub(super) fn group_bytes(&self) -> usize {
        GroupLayout::of(self.dtype).offsets(self.n_blocks()).2
    }

    pub(super) fn group(&self, g: usize) -> *const u8 {
        debug_assert!(g < self.n_groups());
        // SAFETY: the part holds `n_groups` groups.
        unsafe { self.start.add(g * self.group_bytes()) }
    }

    /// Lay out group `g` of `source`.
    ///
    /// # Safety
    /// `start` has room for every group, and no other thread writes or reads this one.
    pub(super) unsafe fn fill(&self, source: &MatrixSource<'_>, g: usize) {
        let n_bytes = self.group_bytes();
        // SAFETY: the caller gives this group to this thread alone.
        let group = unsafe { std::slice::from_raw_parts_mut(self.start.add(g * n_bytes), n_bytes) };
        let row_bytes = source.data.len() / source.rows;
        let rows = (self.rows - g * LANES).min(LANES);
        let row = |r: usize| &source.data[(g * LANES + r) * row_bytes..][..row_bytes];
        if is_blocks(self.dtype) {
            self.fill_blocks(rows, row, group);
        } else {
            let size = self.dtype.block_bytes();
            for r in 0..rows {
                for (c, element) in row(r).chunks(size).enumerate() {
                    group[(c * LANES + r) * size..][..size].copy_from_slice(element);
                }
            }
        }
    }

    fn fill_blocks<'a>(&self, rows: usize, row: impl Fn(usize) -> &'a [u8], group: &mut [u8]) {
        let layout = GroupLayout::of(self.dtype);
        let (scales_at, supers_at, _) = layout.offsets(self.n_blocks());
        for r in 0..rows {
            let row = row(r);
            for b in 0..self.n_blocks() {
                let block_len = self.dtype.block_len();
                let block = &row[b * 32 / block_len * self.dtype.block_bytes()..];
                let codes = &mut group[b * layout.code_bytes..][..layout.code_bytes];
                match self.dtype {
                    DType::Q8_0 => put_bytes(&block[2..34], r, codes),
                    DType::Q4_0 => put_nibbles(&block[2..18], r, codes),
                    DType::Q4_1 => put_nibbles(&block[4..20], r, codes),
                    _ => put_codes(&quant::unpack32(self.dtype, row, b).codes, r, codes),
                }
                let scales = &mut group[scales_at + b * layout.scale_bytes..][..layout.scale_bytes];
                put_scales(self.dtype, block, b % 8, r, scales);
                if layout.super_bytes > 0 && b % 8 == 0 {
                    let supers = &mut group[supers_at + b / 8 * layout.super_bytes..];
                    if self.dtype == DType::Q6K {
                        supers[2 * r..2 * r + 2].copy_from_slice(&block[208..210]);
                    } else {
                        supers[2 * r..2 * r + 2].copy_from_slice(&block[..2]);
                        supers[32 + 2 * r..34 + 2 * r].copy_from_slice(&block[2..4]);
                    }
                }
            }
        }
    }

    /// Row `row` of this part as f32.
    pub(super) fn read_row(&self, row: usize, out: &mut [f32]) {
        let (g, r) = (row / LANES, row % LANES);
        // SAFETY: the group was filled while loading and is only read since.
        let group = unsafe { std::slice::from_raw_parts(self.group(g), self.group_bytes()) };
        match self.dtype {
            DType::F32 => {
                for (c, o) in out.iter_mut().enumerate() {
                    *o = f32::from_le_bytes(array_at(group, (c * LANES + r) * 4));
                }
            }
            DType::F16 => {
                for (c, o) in out.iter_mut().enumerate() {
                    *o = f16::from_le_bytes(array_at(group, (c * LANES + r) * 2)).to_f32();
                }
            }
            DType::BF16 => {
                for (c, o) in out.iter_mut().enumerate() {
                    *o = bf16::from_le_bytes(array_at(group, (c * LANES + r) * 2)).to_f32();
                }
            }
            _ => {
                for (b, out) in out.chunks_mut(32).enumerate() {
                    let columns = self.columns(group, b, r);
                    for (c, o) in out.iter_mut().enumerate() {
                        *o = columns.weight(c);
                    }
                }
            }
        }
    }

    /// The inverse of [`Part::fill`] for one block of one row.
    fn columns(&self, group: &[u8], b: usize, r: usize) -> Columns32 {
        let layout = GroupLayout::of(self.dtype);
        let (scales_at, supers_at, _) = layout.offsets(self.n_blocks());
        let codes = &group[b * layout.code_bytes..][..layout.code_bytes];
        let scales = &group[scales_at + b * layout.scale_bytes..][..layout.scale_bytes];
        let half = |bytes: &[u8], at: usize| f16::from_le_bytes(array_at(bytes, at)).to_f32();
        let supers = &group[supers_at + b / 8 * layout.super_bytes..];
        let (zero, d, m) = match self.dtype {
            DType::Q8_0 => (128, [half(scales, 2 * r); 2], 0.0),
            DType::Q4_0 => (8, [half(scales, 2 * r); 2], 0.0),
            DType::Q5_0 => (16, [half(scales, 2 * r); 2], 0.0),
            DType::Q4_1 | DType::Q5_1 => (0, [half(scales, 2 * r); 2], half(scales, 32 + 2 * r)),
            DType::Q6K => {
                let d = half(supers, 2 * r);
                let scale = |i: usize| d * f32::from(scales[i * 16 + r] as i8);
                (32, [scale(0), scale(1)], 0.0)
            }
            _ => {
                let d = half(supers, 2 * r) * f32::from(scales[r]);
                (0, [d; 2], -(half(supers, 32 + 2 * r) * f32::from(scales[16 + r])))
            }
        };
        Columns32 { codes: take_codes(codes, r), zero, d, m: [m; 2] }
    }
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[at + i])
}

/// Four bytes of lane `r` in vector `v`.
fn lane(v: usize, r: usize) -> std::ops::Range<usize> {
    let at = v * 64 + r * 4;
    at..at + 4
}

fn put_nibbles(nibbles: &[u8], r: usize, codes: &mut [u8]) {
    for (j, four) in nibbles.as_chunks::<4>().0.iter().enumerate() {
        codes[lane(j, r)].copy_from_slice(four);
    }
}

fn put_bytes(bytes: &[u8], r: usize, codes: &mut [u8]) {
    for (v, four) in bytes.as_chunks::<4>().0.iter().enumerate() {
        codes[lane(v, r)].copy_from_slice(&four.map(|b| b ^ 0x80));
    }
}

/// Codes of 4, 5 or 6 bits; which, the size of the block tells.
fn put_codes(all: &[u8; 32], r: usize, codes: &mut [u8]) {
    for c in 0..32 {
        let (v, k) = (c / 4, c % 4);
        codes[v % 4 * 64 + r * 4 + k] |= (all[c] & 15) << (v / 4 * 4);
        let high = all[c] >> 4;
        match codes.len() {
            320 => codes[256 + r * 4 + k] |= high << v,
            384 => codes[256 + v / 4 * 64 + r * 4 + k] |= high << (v % 4 * 2),
            _ => {}
        }
    }
}

fn take_codes(codes: &[u8], r: usize) -> [u8; 32] {
    std::array::from_fn(|c| {
        let (v, k) = (c / 4, c % 4);
        if codes.len() == 512 {
            return codes[v * 64 + r * 4 + k];
        }
        let low = codes[v % 4 * 64 + r * 4 + k] >> (v / 4 * 4) & 15;
        let high = match codes.len() {
            320 => codes[256 + r * 4 + k] >> v & 1,
            384 => codes[256 + v / 4 * 64 + r * 4 + k] >> (v % 4 * 2) & 3,
            _ => 0,
        };
        low | high << 4
    })
}

/// Scales of sub-block `s` of `block` for lane `r`.
fn put_scales(dtype: DType, block: &[u8], s: usize, r: usize, scales: &mut [u8]) {
    match dtype {
        DType::Q8_0 | DType::Q4_0 | DType::Q5_0 => {
            scales[2 * r..2 * r + 2].copy_from_slice(&block[..2]);
        }
        DType::Q4_1 | DType::Q5_1 => {
            scales[2 * r..2 * r + 2].copy_from_slice(&block[..2]);
            scales[32 + 2 * r..34 + 2 * r].copy_from_slice(&block[2..4]);
        }
        DType::Q6K => {
            scales[r] = block[192 + 2 * s];
            scales[16 + r] = block[193 + 2 * s];
        }
        _ => {
            let (scale, min) = quant::scale_min_k(&block[4..16], s);
            scales[r] = scale;
            scales[16 + r] = min;
        }
    }
}
