//! The paged key/value store on the device.
//!
//! # Place
//! Part of `device::cuda`.
//! # Shapes and units
//! Keys `[L][block][Hk][block_tokens][D]`, then values the same: a head's tokens of a block are contiguous. Codes are
//! followed by their scales, `[block_tokens]`, within each block and head.

use super::driver::{DevicePtr, Driver};
use super::params::CacheView;
use crate::device::{DeviceError, KvShape, KvType};

/// Head sizes of the matrix kernels; a smaller head is padded to the next one in shared memory.
const HEADS: [usize; 3] = [16, 64, 128];
const PRECISE_HEAD_MAX: usize = 256;

/// Keys and values of all layers.
#[derive(Debug)]
pub(super) struct Cache {
    pub(super) shape: KvShape,
    start: DevicePtr,
}

impl Cache {
    /// # Errors
    /// Head sizes that the kernels do not support; no memory.
    pub(super) fn new(driver: &mut dyn Driver, shape: KvShape) -> Result<Self, DeviceError> {
        let (d, is_precise) = (shape.head_dim, shape.dtype == KvType::F32);
        let supported = if is_precise {
            d.is_multiple_of(4) && d <= PRECISE_HEAD_MAX
        } else {
            d.is_multiple_of(8) && d <= HEADS[HEADS.len() - 1]
        };
        // Codes are read eight at a time: a block's scales must not leave the next one askew.
        assert!(shape.dtype != KvType::Q8 || shape.block_tokens.is_multiple_of(2));
        if !supported {
            let known =
                if is_precise { "multiples of 4 up to 256" } else { "multiples of 8 up to 128" };
            return Err(DeviceError::UnsupportedShape {
                device: driver.name(),
                what: format!("a cache with heads of {d}"),
                problem: format!("the kernels know {known}; --device cpu runs it"),
            });
        }
        let mut cache = Self { shape, start: DevicePtr::NONE };
        cache.start = driver.allocate(cache.n_bytes(), "the key/value cache")?;
        driver.clear(cache.start, cache.n_bytes())?;
        Ok(cache)
    }

    pub(super) fn n_bytes(&self) -> usize {
        2 * self.shape.n_layers * self.layer_bytes()
    }

    /// Bytes of one layer's keys, or values.
    pub(super) fn layer_bytes(&self) -> usize {
        let KvShape { n_blocks, block_tokens, n_kv_heads, head_dim, dtype, .. } = self.shape;
        n_blocks * block_tokens * n_kv_heads * dtype.head_bytes(head_dim)
    }

    /// Bytes of one token in one layer: keys and values of all heads.
    pub(super) fn token_bytes(&self) -> usize {
        2 * self.layer_bytes() / (self.shape.n_blocks * self.shape.block_tokens).max(1)
    }

    pub(super) fn view(&self, layer: usize) -> CacheView {
        assert!(layer < self.shape.n_layers, "the layer is in the store");
        let keys = self.start.at(layer * self.layer_bytes());
        CacheView {
            keys,
            values: keys.at(self.shape.n_layers * self.layer_bytes()),
            n_kv_heads: self.shape.n_kv_heads as u32,
            head_dim: self.shape.head_dim as u32,
            block_tokens: self.shape.block_tokens as u32,
            kind: match self.shape.dtype {
                KvType::BF16 => 0,
                KvType::F16 => 1,
                KvType::F32 => 2,
                KvType::Q8 => 3,
            },
        }
    }

    /// The instance of a kernel with the axes `number` and `head`, and the size that heads are padded to.
    pub(super) fn instance(&self) -> (usize, usize) {
        let found = HEADS.iter().position(|&h| self.shape.head_dim <= h);
        let i = found.expect("larger heads were refused");
        let number = match self.shape.dtype {
            KvType::BF16 | KvType::F32 => 0,
            KvType::F16 => 1,
            KvType::Q8 => 2,
        };
        (number * HEADS.len() + i, HEADS[i])
    }
}

/// Split a list of moves into runs in which no slot is read after it was written, or written twice: a launch
/// moves the slots of a run in any order.
pub(super) fn independent_runs(pairs: &[(u32, u32)]) -> Vec<&[(u32, u32)]> {
    let mut runs = Vec::new();
    let mut start = 0;
    let (mut read, mut written) =
        (rustc_hash::FxHashSet::default(), rustc_hash::FxHashSet::default());
    for (i, &(from, to)) in pairs.iter().enumerate() {
        if written.contains(&from) || written.contains(&to) || read.contains(&to) {
            runs.push(&pairs[start..i]);
            start = i;
            read.clear();
            written.clear();
        }
        read.insert(from);
        written.insert(to);
    }
    runs.push(&pairs[start..]);
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_that_depend_on_each_other_are_parted() {
        assert_eq!(independent_runs(&[(1, 2), (3, 4)]).len(), 1);
        assert_eq!(independent_runs(&[(1, 2), (2, 3)]).len(), 2, "2 is read after it was written");
        assert_eq!(independent_runs(&[(1, 2), (0, 1)]).len(), 2, "1 is written after it was read");
        assert_eq!(independent_runs(&[(1, 2), (3, 2)]).len(), 2, "2 is written twice");
        assert_eq!(independent_runs(&[(5, 5), (6, 7)]).len(), 1);
    }
}
