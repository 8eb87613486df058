//! Reading blocks: codes, scales and minima of 32 columns, and whole rows as f32.
//!
//! # Place
//! Part of `device::cpu::quant`.

use half::{bf16, f16};

use crate::base::DType;

/// 32 neighbouring weights of one row: `w[c] = d[c / 16] · (codes[c] − zero) + m[c / 16]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns32 {
    pub codes: [u8; 32],
    pub zero: u8,
    pub d: [f32; 2],
    pub m: [f32; 2],
}

impl Columns32 {
    /// Codes and scales that stand for 32 zeros.
    pub const ZERO: Self = Self { codes: [0; 32], zero: 0, d: [0.0; 2], m: [0.0; 2] };

    /// The weight of column `c`.
    pub fn weight(&self, c: usize) -> f32 {
        let q = f32::from(i16::from(self.codes[c]) - i16::from(self.zero));
        self.d[c / 16] * q + self.m[c / 16]
    }
}

/// The `b`-th 32 columns of a row stored as one of the block formats.
///
/// # Panics
/// For the plain types, and when `row` is shorter than the block asked for: both are the caller's
/// mistakes, the row length was checked when the matrix was taken.
pub fn unpack32(dtype: DType, row: &[u8], b: usize) -> Columns32 {
    let n_sub = dtype.block_len() / 32;
    let block = &row[b / n_sub.max(1) * dtype.block_bytes()..][..dtype.block_bytes()];
    match dtype {
        DType::Q8_0 => q8_0(block),
        DType::Q4_0 => q4(block, false),
        DType::Q4_1 => q4(block, true),
        DType::Q5_0 => q5(block, false),
        DType::Q5_1 => q5(block, true),
        DType::Q4K => q45_k(block, b % 8, None),
        DType::Q5K => q45_k(block, b % 8, Some(&block[16..48])),
        DType::Q6K => q6_k(block, b % 8),
        DType::F32 | DType::F16 | DType::BF16 => panic!("{dtype} has no blocks"),
    }
}

/// One row of `out.len()` weights of any type as f32.
///
/// # Panics
/// When `row` is shorter than the row it should hold (the caller checked the matrix's size).
pub fn dequantise_row(dtype: DType, row: &[u8], out: &mut [f32]) {
    match dtype {
        DType::F32 => {
            for (o, b) in out.iter_mut().zip(row.as_chunks::<4>().0) {
                *o = f32::from_le_bytes(*b);
            }
        }
        DType::F16 => {
            for (o, b) in out.iter_mut().zip(row.as_chunks::<2>().0) {
                *o = f16::from_le_bytes(*b).to_f32();
            }
        }
        DType::BF16 => {
            for (o, b) in out.iter_mut().zip(row.as_chunks::<2>().0) {
                *o = bf16::from_le_bytes(*b).to_f32();
            }
        }
        _ => {
            for (b, o) in out.chunks_mut(32).enumerate() {
                let columns = unpack32(dtype, row, b);
                for (c, v) in o.iter_mut().enumerate() {
                    *v = columns.weight(c);
                }
            }
        }
    }
}

/// A whole number of blocks as f32.
pub fn dequantise(dtype: DType, data: &[u8]) -> Vec<f32> {
    let n = data.len() / dtype.block_bytes() * dtype.block_len();
    let mut out = vec![0.0; n];
    dequantise_row(dtype, data, &mut out);
    out
}

fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

fn q8_0(block: &[u8]) -> Columns32 {
    let mut codes = [0; 32];
    for (code, &q) in codes.iter_mut().zip(&block[2..]) {
        *code = q ^ 0x80;
    }
    Columns32 { codes, zero: 128, d: [half_at(block, 0); 2], m: [0.0; 2] }
}

/// Nibbles of a 32-column block: the low ones are columns 0 to 15, the high ones 16 to 31.
fn nibbles(bytes: &[u8]) -> [u8; 32] {
    let mut codes = [0; 32];
    for (i, &byte) in bytes[..16].iter().enumerate() {
        codes[i] = byte & 15;
        codes[i + 16] = byte >> 4;
    }
    codes
}

fn q4(block: &[u8], has_min: bool) -> Columns32 {
    Columns32 {
        codes: nibbles(&block[if has_min { 4 } else { 2 }..]),
        zero: if has_min { 0 } else { 8 },
        d: [half_at(block, 0); 2],
        m: [if has_min { half_at(block, 2) } else { 0.0 }; 2],
    }
}

fn q5(block: &[u8], has_min: bool) -> Columns32 {
    let at = if has_min { 4 } else { 2 };
    let high = u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
    let mut codes = nibbles(&block[at + 4..]);
    for (c, code) in codes.iter_mut().enumerate() {
        *code |= ((high >> c & 1) as u8) << 4;
    }
    Columns32 {
        codes,
        zero: if has_min { 0 } else { 16 },
        d: [half_at(block, 0); 2],
        m: [if has_min { half_at(block, 2) } else { 0.0 }; 2],
    }
}

/// The 6-bit scale and minimum of sub-block `s` of a Q4_K or Q5_K block.
pub(in crate::device) fn scale_min_k(scales: &[u8], s: usize) -> (u8, u8) {
    if s < 4 {
        (scales[s] & 63, scales[s + 4] & 63)
    } else {
        (scales[s + 4] & 15 | scales[s - 4] >> 6 << 4, scales[s + 4] >> 4 | scales[s] >> 6 << 4)
    }
}

fn q45_k(block: &[u8], s: usize, high: Option<&[u8]>) -> Columns32 {
    let (scale, min) = scale_min_k(&block[4..16], s);
    let low = &block[if high.is_some() { 48 } else { 16 }..][s / 2 * 32..][..32];
    let mut codes = [0; 32];
    for c in 0..32 {
        codes[c] = low[c] >> (s % 2 * 4) & 15;
        if let Some(high) = high {
            codes[c] |= (high[c] >> s & 1) << 4;
        }
    }
    Columns32 {
        codes,
        zero: 0,
        d: [half_at(block, 0) * f32::from(scale); 2],
        m: [-(half_at(block, 2) * f32::from(min)); 2],
    }
}

fn q6_k(block: &[u8], s: usize) -> Columns32 {
    let (half, quarter) = (s / 4, s % 4);
    let low = &block[half * 64 + quarter % 2 * 32..][..32];
    let high = &block[128 + half * 32..][..32];
    let d = half_at(block, 208);
    let scale = |i: usize| d * f32::from(block[192 + s * 2 + i] as i8);
    let mut codes = [0; 32];
    for c in 0..32 {
        codes[c] = low[c] >> (quarter / 2 * 4) & 15 | (high[c] >> (quarter * 2) & 3) << 4;
    }
    Columns32 { codes, zero: 32, d: [scale(0), scale(1)], m: [0.0; 2] }
}
