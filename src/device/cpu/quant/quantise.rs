//! Writing blocks: f32 weights as Q8_0, Q4_0 or Q4_1.
//!
//! # Place
//! Part of `device::cpu::quant`. Enough for tests and for requantising a file to compare formats;
//! the K formats need a search over scales that nothing here asks for.

use half::f16;

use crate::base::DType;

/// `values` in the blocks of `dtype`, each rounded to nearest; `None` when this type is not written
/// here or the values are not a whole number of blocks.
pub fn quantise(dtype: DType, values: &[f32]) -> Option<Vec<u8>> {
    let block: fn(&[f32; 32], &mut Vec<u8>) = match dtype {
        DType::Q8_0 => q8_0,
        DType::Q4_0 => q4_0,
        DType::Q4_1 => q4_1,
        _ => return None,
    };
    let (blocks, rest) = values.as_chunks::<32>();
    if !rest.is_empty() {
        return None;
    }
    let mut out = Vec::with_capacity(blocks.len() * dtype.block_bytes());
    for values in blocks {
        block(values, &mut out);
    }
    Some(out)
}

/// `1 / d`, or 0 for a block of zeros.
fn inverse(d: f32) -> f32 {
    if d == 0.0 { 0.0 } else { 1.0 / d }
}

fn q8_0(values: &[f32; 32], out: &mut Vec<u8>) {
    let largest = values.iter().fold(0.0f32, |a, v| a.max(v.abs()));
    let d = largest / 127.0;
    out.extend_from_slice(&f16::from_f32(d).to_le_bytes());
    let scale = inverse(d);
    out.extend(values.iter().map(|v| (v * scale).round() as i8 as u8));
}

fn q4_0(values: &[f32; 32], out: &mut Vec<u8>) {
    let mut extreme = 0.0f32;
    for &v in values {
        if v.abs() > extreme.abs() {
            extreme = v;
        }
    }
    let d = extreme / -8.0;
    out.extend_from_slice(&f16::from_f32(d).to_le_bytes());
    let scale = inverse(d);
    nibbles(values, |v| v * scale + 8.0, out);
}

fn q4_1(values: &[f32; 32], out: &mut Vec<u8>) {
    let low = values.iter().fold(f32::INFINITY, |a, &v| a.min(v));
    let high = values.iter().fold(f32::NEG_INFINITY, |a, &v| a.max(v));
    let d = (high - low) / 15.0;
    out.extend_from_slice(&f16::from_f32(d).to_le_bytes());
    out.extend_from_slice(&f16::from_f32(low).to_le_bytes());
    let scale = inverse(d);
    nibbles(values, |v| (v - low) * scale, out);
}

fn nibbles(values: &[f32; 32], code: impl Fn(f32) -> f32, out: &mut Vec<u8>) {
    let code = |v: f32| (code(v) + 0.5).clamp(0.0, 15.0) as u8;
    out.extend((0..16).map(|i| code(values[i]) | code(values[i + 16]) << 4));
}
