//! How the kernels read 32 columns of sixteen rows: unsigned codes, scales, minima.
//!
//! # Place
//! Part of `device::cpu::simd`. One small type per block format over the layout of `weight`, and
//! [`Panel`]s, which are groups whose codes and scales were already widened. Used by `matmul`.
#![allow(unsafe_code)] // raw loads from weight groups

use super::lanes::{LANES, Lanes};
use super::weight::GroupLayout;
use crate::base::DType;

/// Pointers to the three runs of a group.
#[derive(Clone, Copy)]
pub(super) struct Runs {
    pub(super) codes: *const u8,
    pub(super) scales: *const u8,
    pub(super) supers: *const u8,
}

/// A way of storing codes. `w = d · (q − 2^ZERO_SHIFT) + m`; no shift and no `m` is a plain `d · q`.
///
/// # Safety of the operations
/// `runs` points to a group of this format that has block `b`.
pub(super) trait Codes: Copy {
    /// Each half of 16 columns has its own scale.
    const HALVES: bool;
    /// Bytes of a group per block when groups stream in from memory; 0 when they are in the cache.
    const STREAMED_BYTES: usize;
    /// There are minima.
    const MINS: bool;
    /// Codes above 127 occur. Only Q8_0 has them.
    #[inline(always)]
    fn wide(self) -> bool {
        self.zero_shift() == Some(7)
    }
    /// Panels do not know the zero point of their codes when they are compiled.
    fn zero_shift(self) -> Option<u32>;

    /// Vectors `j` and `4 + j` of block `b`: columns `4j..4j+4` and `16+4j..16+4j+4`.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn pair<S: Lanes>(self, s: S, runs: Runs, b: usize, j: usize) -> (S::I, S::I);
    /// The scales of columns 0 to 15, which are those of all 32 unless `HALVES`.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn scale<S: Lanes>(self, s: S, runs: Runs, b: usize) -> S::F;
    /// The scales of columns 16 to 31 when `HALVES`, the minima when `MINS`.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn second<S: Lanes>(self, s: S, runs: Runs, b: usize) -> S::F;
}

#[inline(always)]
unsafe fn nibbles<S: Lanes>(s: S, p: *const u8) -> (S::I, S::I) {
    // SAFETY: the caller points to 64 bytes of nibbles.
    let both = unsafe { s.iload(p) };
    let low = s.isplat(0x0F0F_0F0F);
    (s.iand(both, low), s.iand(s.ishr::<4>(both), low))
}

/// f16 scales, and f16 minima after them.
#[inline(always)]
unsafe fn half_scales<S: Lanes>(s: S, runs: Runs, stride: usize, b: usize, at: usize) -> S::F {
    // SAFETY: the caller points to a group with block `b`.
    unsafe { s.load_f16(runs.scales.add(b * stride + at).cast()) }
}

macro_rules! simple {
    ($(#[$doc:meta])* $name:ident, $dtype:expr, mins $mins:expr, shift $shift:expr, $pair:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) struct $name;

        impl $name {
            const LAYOUT: GroupLayout = GroupLayout::of($dtype);
        }

        impl Codes for $name {
            const HALVES: bool = false;
            const STREAMED_BYTES: usize = Self::LAYOUT.block_bytes();
            const MINS: bool = $mins;

            #[inline(always)]
            fn zero_shift(self) -> Option<u32> {
                $shift
            }
            #[inline(always)]
            unsafe fn pair<S: Lanes>(self, s: S, runs: Runs, b: usize, j: usize) -> (S::I, S::I) {
                // SAFETY: the caller points to a group with block `b`.
                let block = unsafe { runs.codes.add(b * Self::LAYOUT.code_bytes) };
                // SAFETY: the block has the bytes of its layout.
                unsafe { $pair(s, block, j) }
            }
            #[inline(always)]
            unsafe fn scale<S: Lanes>(self, s: S, runs: Runs, b: usize) -> S::F {
                // SAFETY: the caller points to a group with block `b`.
                unsafe { half_scales(s, runs, Self::LAYOUT.scale_bytes, b, 0) }
            }
            #[inline(always)]
            unsafe fn second<S: Lanes>(self, s: S, runs: Runs, b: usize) -> S::F {
                // SAFETY: asked only of formats with minima, which lie after the scales.
                unsafe { half_scales(s, runs, Self::LAYOUT.scale_bytes, b, 32) }
            }
        }
    };
}

#[inline(always)]
unsafe fn byte_pair<S: Lanes>(s: S, block: *const u8, j: usize) -> (S::I, S::I) {
    // SAFETY: the block has eight vectors.
    unsafe { (s.iload(block.add(j * 64)), s.iload(block.add((4 + j) * 64))) }
}

#[inline(always)]
unsafe fn nibble_pair<S: Lanes>(s: S, block: *const u8, j: usize) -> (S::I, S::I) {
    // SAFETY: the block has four vectors.
    unsafe { nibbles(s, block.add(j * 64)) }
}

#[inline(always)]
unsafe fn five_bit_pair<S: Lanes>(s: S, block: *const u8, j: usize) -> (S::I, S::I) {
    // SAFETY: the block has four vectors of nibbles and one of high bits.
    let ((low, high), bits) = unsafe { (nibbles(s, block.add(j * 64)), s.iload(block.add(256))) };
    let fifth = s.isplat(0x1010_1010);
    // Bits j and 4 + j of every byte, moved to bit 4. Bytes beside do not reach it.
    let (a, b) = match j {
        0 => (s.ishl::<4>(bits), bits),
        1 => (s.ishl::<3>(bits), s.ishr::<1>(bits)),
        2 => (s.ishl::<2>(bits), s.ishr::<2>(bits)),
        _ => (s.ishl::<1>(bits), s.ishr::<3>(bits)),
    };
    (s.ior(low, s.iand(a, fifth)), s.ior(high, s.iand(b, fifth)))
}

simple!(Q8Zero, DType::Q8_0, mins false, shift Some(7), byte_pair);
simple!(Q4Zero, DType::Q4_0, mins false, shift Some(3), nibble_pair);
simple!(Q4One, DType::Q4_1, mins true, shift None, nibble_pair);
simple!(Q5Zero, DType::Q5_0, mins false, shift Some(4), five_bit_pair);
simple!(Q5One, DType::Q5_1, mins true, shift None, five_bit_pair);

/// Q4_K, and Q5_K when `FIVE`.
#[derive(Clone, Copy)]
pub(super) struct QK<const FIVE: bool>;

impl<const FIVE: bool> QK<FIVE> {
    const LAYOUT: GroupLayout = GroupLayout::of(if FIVE { DType::Q5K } else { DType::Q4K });

    #[inline(always)]
    unsafe fn product<S: Lanes>(s: S, runs: Runs, b: usize, second: usize) -> S::F {
        // SAFETY: the caller points to a group with block `b`.
        let (small, d) = unsafe {
            let small = runs.scales.add(b * Self::LAYOUT.scale_bytes + second * LANES);
            let d = runs.supers.add(b / 8 * Self::LAYOUT.super_bytes + second * 32);
            (s.load_u8(small), s.load_f16(d.cast()))
        };
        s.mul(d, small)
    }
}

impl<const FIVE: bool> Codes for QK<FIVE> {
    const HALVES: bool = false;
    const STREAMED_BYTES: usize = Self::LAYOUT.block_bytes();
    const MINS: bool = true;

    #[inline(always)]
    fn zero_shift(self) -> Option<u32> {
        None
    }
    #[inline(always)]
    unsafe fn pair<S: Lanes>(self, s: S, runs: Runs, b: usize, j: usize) -> (S::I, S::I) {
        // SAFETY: the caller points to a group with block `b`.
        unsafe {
            let block = runs.codes.add(b * Self::LAYOUT.code_bytes);
            if FIVE { five_bit_pair(s, block, j) } else { nibble_pair(s, block, j) }
        }
    }
    #[inline(always)]
    unsafe fn scale<S: Lanes>(self, s: S, runs: Runs, b: usize) -> S::F {
        // SAFETY: as the trait says.
        unsafe { Self::product(s, runs, b, 0) }
    }
    #[inline(always)]
    unsafe fn second<S: Lanes>(self, s: S, runs: Runs, b: usize) -> S::F {
        // SAFETY: as the trait says.
        s.sub(s.splat(0.0), unsafe { Self::product(s, runs, b, 1) })
    }
}

/// Q6_K.
#[derive(Clone, Copy)]
pub(super) struct Q6K;

impl Q6K {
    const LAYOUT: GroupLayout = GroupLayout::of(DType::Q6K);

    #[inline(always)]
    unsafe fn product<S: Lanes>(s: S, runs: Runs, b: usize, half: usize) -> S::F {
        // SAFETY: the caller points to a group with block `b`.
        let (small, d) = unsafe {
            let small = runs.scales.add(b * Self::LAYOUT.scale_bytes + half * LANES);
            let d = runs.supers.add(b / 8 * Self::LAYOUT.super_bytes);
            (s.load_i8(small.cast()), s.load_f16(d.cast()))
        };
        s.mul(d, small)
    }
}

impl Codes for Q6K {
    const HALVES: bool = true;
    const STREAMED_BYTES: usize = Self::LAYOUT.block_bytes();
    const MINS: bool = false;

    #[inline(always)]
    fn zero_shift(self) -> Option<u32> {
        Some(5)
    }
    #[inline(always)]
    unsafe fn pair<S: Lanes>(self, s: S, runs: Runs, b: usize, j: usize) -> (S::I, S::I) {
        // SAFETY: the caller points to a group with block `b`: four vectors of nibbles, then two of bit
        // pairs, the first for vectors 0 to 3 and the second for 4 to 7.
        let ((low, high), bits_low, bits_high) = unsafe {
            let block = runs.codes.add(b * Self::LAYOUT.code_bytes);
            (nibbles(s, block.add(j * 64)), s.iload(block.add(256)), s.iload(block.add(320)))
        };
        let top = s.isplat(0x3030_3030);
        let (a, b) = match j {
            0 => (s.ishl::<4>(bits_low), s.ishl::<4>(bits_high)),
            1 => (s.ishl::<2>(bits_low), s.ishl::<2>(bits_high)),
            2 => (bits_low, bits_high),
            _ => (s.ishr::<2>(bits_low), s.ishr::<2>(bits_high)),
        };
        (s.ior(low, s.iand(a, top)), s.ior(high, s.iand(b, top)))
    }
    #[inline(always)]
    unsafe fn scale<S: Lanes>(self, s: S, runs: Runs, b: usize) -> S::F {
        // SAFETY: as the trait says.
        unsafe { Self::product(s, runs, b, 0) }
    }
    #[inline(always)]
    unsafe fn second<S: Lanes>(self, s: S, runs: Runs, b: usize) -> S::F {
        // SAFETY: as the trait says.
        unsafe { Self::product(s, runs, b, 1) }
    }
}

/// A group widened to bytes and f32 scales, for use with many activation rows. `runs.scales` holds the
/// scales of all blocks, `runs.supers` what [`Codes::second`] gives.
#[derive(Clone, Copy)]
pub(super) struct Panel<const HALVES: bool, const MINS: bool> {
    pub(super) zero_shift: Option<u32>,
}

impl<const HALVES: bool, const MINS: bool> Codes for Panel<HALVES, MINS> {
    const HALVES: bool = HALVES;
    const STREAMED_BYTES: usize = 0;
    const MINS: bool = MINS;

    #[inline(always)]
    fn zero_shift(self) -> Option<u32> {
        if MINS { None } else { self.zero_shift }
    }
    #[inline(always)]
    unsafe fn pair<S: Lanes>(self, s: S, runs: Runs, b: usize, j: usize) -> (S::I, S::I) {
        // SAFETY: the panel has block `b`.
        unsafe { byte_pair(s, runs.codes.add(b * 512), j) }
    }
    #[inline(always)]
    unsafe fn scale<S: Lanes>(self, s: S, runs: Runs, b: usize) -> S::F {
        // SAFETY: the panel has block `b`.
        unsafe { s.load(runs.scales.cast::<f32>().add(b * LANES)) }
    }
    #[inline(always)]
    unsafe fn second<S: Lanes>(self, s: S, runs: Runs, b: usize) -> S::F {
        // SAFETY: the panel has block `b`.
        unsafe { s.load(runs.supers.cast::<f32>().add(b * LANES)) }
    }
}
