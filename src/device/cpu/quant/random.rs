//! Weights that mean nothing: random codes under fixed scales, for synthetic models and tests.
//!
//! # Place
//! Part of `device::cpu::quant`.

use half::{bf16, f16};

use crate::base::DType;

/// A small generator whose numbers are the same everywhere.
#[derive(Clone, Debug)]
pub struct RandomBits(u64);

impl RandomBits {
    pub fn new(seed: u64) -> Self {
        // Any odd constant will do: zero is the one state that never changes.
        Self(seed ^ 0x9e37_79b9_7f4a_7c15 | 1 << 63)
    }

    /// Marsaglia's xorshift with a multiplied output (Vigna 2016, arXiv:1402.6246).
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Evenly in −1 to 1.
    pub fn number(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

/// Append `n_elements` weights of about −`size` to `size` in the blocks of `dtype`.
///
/// # Panics
/// When that is not a whole number of blocks: the caller's mistake.
pub fn random_weights(
    dtype: DType,
    n_elements: usize,
    size: f32,
    random: &mut RandomBits,
    out: &mut Vec<u8>,
) {
    assert!(n_elements.is_multiple_of(dtype.block_len()), "whole blocks of {dtype}");
    let (len, n_bytes) = (dtype.block_len(), dtype.block_bytes());
    out.reserve(n_elements / len * n_bytes);
    let half = |v: f32| f16::from_f32(v).to_le_bytes();
    for _ in 0..n_elements / len {
        match dtype {
            DType::F32 => out.extend((random.number() * size).to_le_bytes()),
            DType::F16 => out.extend(half(random.number() * size)),
            DType::BF16 => out.extend(bf16::from_f32(random.number() * size).to_le_bytes()),
            _ => {
                let start = out.len();
                while out.len() < start + n_bytes {
                    let bits = random.bits().to_le_bytes();
                    let n = bits.len().min(start + n_bytes - out.len());
                    out.extend(&bits[..n]);
                }
                put_scales(dtype, size, &mut out[start..]);
            }
        }
    }
}

/// Scales under which every code stays within `size`, or a little beyond where scales are random too.
fn put_scales(dtype: DType, size: f32, block: &mut [u8]) {
    let half = |v: f32| f16::from_f32(v).to_le_bytes();
    let mut put = |at: usize, v: f32| block[at..at + 2].copy_from_slice(&half(v));
    match dtype {
        DType::Q8_0 => put(0, size / 127.0),
        DType::Q4_0 => put(0, -size / 8.0),
        DType::Q5_0 => put(0, -size / 16.0),
        DType::Q4_1 | DType::Q5_1 => {
            put(0, size / if dtype == DType::Q4_1 { 7.5 } else { 15.5 });
            put(2, -size);
        }
        // Six-bit scales of 32 on average: half of the codes' range, less the same on average.
        DType::Q4K | DType::Q5K => {
            put(0, size / if dtype == DType::Q4K { 240.0 } else { 496.0 });
            put(2, size / 32.0);
        }
        DType::Q6K => put(208, size / 4096.0),
        DType::F32 | DType::F16 | DType::BF16 => {}
    }
}
