//! Element types of stored tensors, with the sizes of their blocks.
//!
//! # Place
//! Uses nothing. `format` reads these from files, `device` gives them a memory layout.
//! # Sources
//! Block sizes of the quantised types: the GGUF specification and ggml's `block_*` definitions
//! (read as facts: 32 weights a block for the `_0`/`_1` types, 256 for the K types).

/// How the elements of a tensor are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    F32,
    F16,
    BF16,
    /// 32 weights: f16 scale, 32 × i8.
    Q8_0,
    /// 32 weights: f16 scale, 16 bytes of nibbles; value = d·(q − 8).
    Q4_0,
    /// 32 weights: f16 scale, f16 minimum, 16 bytes of nibbles; value = d·q + m.
    Q4_1,
    /// 32 weights: f16 scale, 32 high bits, 16 bytes of nibbles; value = d·(q − 16).
    Q5_0,
    /// 32 weights: f16 scale, f16 minimum, 32 high bits, 16 bytes of nibbles; value = d·q + m.
    Q5_1,
    /// 256 weights: f16 d, f16 dmin, 12 bytes of 6-bit scales and minima, 128 bytes of nibbles.
    Q4K,
    /// 256 weights: as [`DType::Q4K`] with 32 bytes of high bits.
    Q5K,
    /// 256 weights: 128 bytes of low nibbles, 64 of high bit pairs, 16 × i8 scales, f16 d.
    Q6K,
}

impl DType {
    /// Weights in one block; 1 for the plain types.
    pub const fn block_len(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::BF16 => 1,
            Self::Q8_0 | Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 => 32,
            Self::Q4K | Self::Q5K | Self::Q6K => 256,
        }
    }

    /// Bytes of one block.
    pub const fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::Q8_0 => 34,
            Self::Q4_0 => 18,
            Self::Q4_1 => 20,
            Self::Q5_0 => 22,
            Self::Q5_1 => 24,
            Self::Q4K => 144,
            Self::Q5K => 176,
            Self::Q6K => 210,
        }
    }

    /// Bytes of `n` elements, or `None` when `n` is not a whole number of blocks or the size overflows.
    pub const fn bytes_for(self, n: u64) -> Option<u64> {
        let block = self.block_len() as u64;
        if !n.is_multiple_of(block) {
            return None;
        }
        (n / block).checked_mul(self.block_bytes() as u64)
    }

    /// The name used in messages and files (`Q4_1`, `BF16`, …).
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::BF16 => "BF16",
            Self::Q8_0 => "Q8_0",
            Self::Q4_0 => "Q4_0",
            Self::Q4_1 => "Q4_1",
            Self::Q5_0 => "Q5_0",
            Self::Q5_1 => "Q5_1",
            Self::Q4K => "Q4_K",
            Self::Q5K => "Q5_K",
            Self::Q6K => "Q6_K",
        }
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
