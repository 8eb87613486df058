//! Weights as the kernels read them: tiles of 16 rows × 32 columns in lane order.
//!
//! # Place
//! Part of `device::cuda`. Writes the layout that `kernels/common/weight.cuh` describes; runs once, while loading.
//! # Shapes and units
//! A panel is one row tile with all its columns: `[column tile][bytes]` in each of three arrays.

use super::kernel::WeightAxis;
use crate::base::DType;
use crate::device::cpu::quant;

pub(super) const TILE_ROWS: usize = 16;
pub(super) const TILE_COLS: usize = 32;
/// Column tiles that share an entry of the third array.
const SUPER_TILES: usize = 8;

/// Bytes of one tile in the arrays of codes and scales, and of eight tiles in the third.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TileBytes {
    pub(super) codes: usize,
    pub(super) scales: usize,
    pub(super) supers: usize,
}

impl WeightAxis {
    /// The format that keeps weights of this type, if one does.
    pub(super) fn of(dtype: DType) -> Option<Self> {
        match dtype {
            DType::BF16 => Some(Self::Bf16),
            DType::F16 => Some(Self::F16),
            DType::Q8_0 => Some(Self::Q80),
            DType::Q4_0 => Some(Self::Q40),
            DType::Q4_1 => Some(Self::Q41),
            DType::Q4K => Some(Self::Q4K),
            DType::Q6K => Some(Self::Q6K),
            DType::F32 | DType::Q5_0 | DType::Q5_1 | DType::Q5K => None,
        }
    }

    pub(super) const fn tile_bytes(self) -> TileBytes {
        let (codes, scales, supers) = match self {
            Self::Bf16 | Self::F16 => (1024, 0, 0),
            Self::Q80 => (512, 32, 0),
            Self::Q40 => (256, 32, 0),
            Self::Q41 => (256, 64, 0),
            Self::Q4K => (256, 32, 64),
            Self::Q6K => (384, 32, 32),
        };
        TileBytes { codes, scales, supers }
    }
}

/// Bytes of a panel in the three arrays.
pub(super) fn panel_bytes(format: WeightAxis, n_cols: usize) -> TileBytes {
    let n_tiles = n_cols.div_ceil(TILE_COLS);
    let tile = format.tile_bytes();
    TileBytes {
        codes: n_tiles * tile.codes,
        scales: n_tiles * tile.scales,
        supers: n_tiles / SUPER_TILES * tile.supers,
    }
}

/// The arrays of a panel, filled with zeros.
#[derive(Debug)]
pub(super) struct Panel<'a> {
    pub(super) codes: &'a mut [u8],
    pub(super) scales: &'a mut [u8],
    pub(super) supers: &'a mut [u8],
}

impl Panel<'_> {
    /// Put a row of the file's `dtype` at row `r` of the panel.
    pub(super) fn put_row(&mut self, dtype: DType, r: usize, row: &[u8], n_cols: usize) {
        match dtype {
            DType::BF16 | DType::F16 => self.put_halves(r, row),
            _ => (0..n_cols / TILE_COLS).for_each(|tile| self.put_block(dtype, r, row, tile)),
        }
    }

    /// Eight columns are 16 bytes of a lane; rows 8 to 15 lie in the second half of a tile.
    fn put_halves(&mut self, r: usize, row: &[u8]) {
        for (chunk, bytes) in row.chunks(16).enumerate() {
            let at = chunk / 4 * 1024 + r / 8 * 512 + (r % 8 * 4 + chunk % 4) * 16;
            self.codes[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }

    fn put_block(&mut self, dtype: DType, r: usize, row: &[u8], tile: usize) {
        let columns = quant::unpack32(dtype, row, tile);
        let in_block = dtype.block_len() / TILE_COLS;
        let block = &row[tile / in_block * dtype.block_bytes()..][..dtype.block_bytes()];
        let (g, half) = (r % 8, r / 8);
        let sub = tile % in_block;
        let super_tile = tile / SUPER_TILES;
        let mut scale = |n: usize, bytes: &[u8]| {
            let at = tile * n * TILE_ROWS + r * n;
            self.scales[at..at + n].copy_from_slice(bytes);
        };
        match dtype {
            DType::Q8_0 | DType::Q4_0 => scale(2, &block[..2]),
            DType::Q4_1 => scale(4, &block[..4]),
            DType::Q4K => {
                let (s, m) = quant::scale_min_k(&block[4..16], sub);
                scale(2, &[s, m]);
                self.supers[super_tile * 64 + r * 4..][..4].copy_from_slice(&block[..4]);
            }
            DType::Q6K => {
                scale(2, &block[192 + sub * 2..][..2]);
                self.supers[super_tile * 32 + r * 2..][..2].copy_from_slice(&block[208..210]);
            }
            _ => unreachable!("only the types of WeightAxis are packed"),
        }
        for t in 0..4 {
            let codes = &columns.codes[8 * t..8 * t + 8];
            let lane = g * 4 + t;
            match dtype {
                DType::Q8_0 => {
                    let at = tile * 512 + lane * 16 + half * 8;
                    for (to, code) in self.codes[at..at + 8].iter_mut().zip(codes) {
                        *to = code ^ 0x80;
                    }
                }
                DType::Q6K => {
                    self.put_nibbles(tile * 384 + lane * 8 + half * 4, codes);
                    let high = codes.chunks(4).map(|c| {
                        c.iter()
                            .enumerate()
                            .fold(0, |byte, (i, code)| byte | (code >> 4) << (2 * i))
                    });
                    let at = tile * 384 + 256 + lane * 4 + half * 2;
                    self.codes[at..at + 2].iter_mut().zip(high).for_each(|(to, byte)| *to = byte);
                }
                _ => self.put_nibbles(tile * 256 + lane * 8 + half * 4, codes),
            }
        }
    }

    /// The low four bits of eight codes as a little-endian word.
    fn put_nibbles(&mut self, at: usize, codes: &[u8]) {
        for (to, pair) in self.codes[at..at + 4].iter_mut().zip(codes.chunks(2)) {
            *to = pair[0] & 15 | (pair[1] & 15) << 4;
        }
    }
}
