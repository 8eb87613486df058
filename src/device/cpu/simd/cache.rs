//! The paged key/value cache in memory.
//!
//! # Place
//! Part of `device::cpu::simd`. Written by `rope`, read by `attention`.
//! # Shapes and units
//! Per layer, block and key-value head: keys `[D, block_tokens↑16]`, so that lanes are tokens when scores are
//! computed, then values `[block_tokens, D↑16]`, so that lanes are dimensions when they are summed (`↑16`:
//! rounded up to whole vectors; the padding stays zero), then for codes the f32 scales of the keys and of the
//! values, `[block_tokens↑16]` each.
#![allow(unsafe_code)] // rows are written through raw pointers

use half::bf16;

use super::lanes::{LANES, Lanes};
use super::memory::{Block, Pages};
use crate::device::cpu::quant;
use crate::device::{DeviceError, KvShape, KvType};

/// Larger heads are quantised in memory of their own.
const HEAD_CODES: usize = 256;

/// One store.
pub(super) struct Cache {
    pub(super) shape: KvShape,
    memory: Block,
}

impl Cache {
    pub(super) fn new(shape: KvShape) -> Result<Self, DeviceError> {
        let n = shape.n_layers * shape.n_blocks * Self::block_bytes_of(&shape);
        let memory = Block::new(n, Pages::Small, "the key/value cache")?;
        Ok(Self { shape, memory })
    }

    pub(super) fn n_bytes(&self) -> u64 {
        self.memory.n_bytes() as u64
    }

    /// Elements between the keys of two dimensions.
    pub(super) fn key_stride(&self) -> usize {
        self.shape.block_tokens.next_multiple_of(LANES)
    }

    /// Elements between the values of two tokens.
    pub(super) fn value_stride(&self) -> usize {
        self.shape.head_dim.next_multiple_of(LANES)
    }

    fn head_bytes_of(shape: &KvShape) -> usize {
        let keys = shape.head_dim * shape.block_tokens.next_multiple_of(LANES);
        let values = shape.block_tokens * shape.head_dim.next_multiple_of(LANES);
        let scales = 2 * shape.block_tokens.next_multiple_of(LANES);
        let n_scales = if shape.dtype == KvType::Q8 { scales } else { 0 };
        ((keys + values) * shape.dtype.bytes() + 4 * n_scales).next_multiple_of(64)
    }

    fn block_bytes_of(shape: &KvShape) -> usize {
        Self::head_bytes_of(shape) * shape.n_kv_heads
    }

    fn block(&self, layer: usize, block: usize) -> *mut u8 {
        assert!(layer < self.shape.n_layers && block < self.shape.n_blocks);
        let idx = layer * self.shape.n_blocks + block;
        self.memory.ptr().wrapping_add(idx * Self::block_bytes_of(&self.shape))
    }

    /// The keys of one head in one block.
    pub(super) fn keys(&self, layer: usize, block: usize, kv_head: usize) -> *mut u8 {
        debug_assert!(kv_head < self.shape.n_kv_heads);
        let head = kv_head * Self::head_bytes_of(&self.shape);
        self.block(layer, block).wrapping_add(head)
    }

    /// The values of one head in one block.
    pub(super) fn values(&self, layer: usize, block: usize, kv_head: usize) -> *mut u8 {
        let keys = self.shape.head_dim * self.key_stride() * self.shape.dtype.bytes();
        self.keys(layer, block, kv_head).wrapping_add(keys)
    }

    /// Scales of one head's keys in one block, then of its values: codes only.
    pub(super) fn scales(&self, layer: usize, block: usize, kv_head: usize) -> *mut f32 {
        let values = self.shape.block_tokens * self.value_stride();
        // Both arrays of codes are whole vectors of 16 bytes.
        self.values(layer, block, kv_head).wrapping_add(values).cast()
    }

    /// Store the key and value of one head of the token in `slot`.
    ///
    /// # Safety
    /// No other thread uses this head of this slot.
    #[inline(always)]
    pub(super) unsafe fn store<S: Lanes>(
        &self,
        s: S,
        (layer, slot, kv_head): (usize, usize, usize),
        key: &[f32],
        value: &[f32],
    ) {
        let (block, offset) = (slot / self.shape.block_tokens, slot % self.shape.block_tokens);
        let keys = self.keys(layer, block, kv_head);
        let values = self.values(layer, block, kv_head);
        let (key_stride, value_at) = (self.key_stride(), offset * self.value_stride());
        // SAFETY: `slot` and `kv_head` are inside the store, and this thread's alone.
        unsafe {
            if self.shape.dtype == KvType::F32 {
                put(keys.cast::<f32>().add(offset), key_stride, key);
                put(values.cast::<f32>().add(value_at), 1, value);
            } else if self.shape.dtype == KvType::Q8 {
                let scales = self.scales(layer, block, kv_head).add(offset);
                scales.write(put_codes(keys.cast::<i8>().add(offset), key_stride, key));
                let values = values.cast::<i8>().add(value_at);
                scales.add(key_stride).write(put_codes(values, 1, value));
            } else {
                let keys = keys.cast::<u16>().add(offset);
                let values = values.cast::<u16>().add(value_at);
                let whole = key.len() / LANES * LANES;
                for d in (0..whole).step_by(LANES) {
                    let bits = self.narrow(s, &key[d..d + LANES]);
                    put(keys.add(d * key_stride), key_stride, &bits);
                    let bits = self.narrow(s, &value[d..d + LANES]);
                    put(values.add(d), 1, &bits);
                }
                for d in (whole..key.len()).step_by(LANES) {
                    let n = (key.len() - d).min(LANES);
                    let bits = self.narrow(s, &key[d..d + n]);
                    put(keys.add(d * key_stride), key_stride, &bits[..n]);
                    let bits = self.narrow(s, &value[d..d + n]);
                    put(values.add(d), 1, &bits[..n]);
                }
            }
        }
    }

    /// Up to sixteen elements in the store's 16-bit type, rounded to nearest even.
    #[inline(always)]
    fn narrow<S: Lanes>(&self, s: S, values: &[f32]) -> [u16; LANES] {
        let mut padded = [0.0; LANES];
        // Whole vectors, the usual case, are copied without a loop.
        match values.first_chunk::<LANES>() {
            Some(all) => padded = *all,
            None => padded[..values.len()].copy_from_slice(values),
        }
        let mut bits = [0; LANES];
        if self.shape.dtype == KvType::F16 {
            // SAFETY: sixteen elements each.
            unsafe { s.store_f16(bits.as_mut_ptr(), s.load(padded.as_ptr())) };
        } else {
            bits = padded.map(|x| bf16::from_f32(x).to_bits());
        }
        bits
    }

    /// Copy whole blocks in every layer.
    pub(super) fn copy_blocks(&mut self, pairs: &[(u32, u32)]) {
        for layer in 0..self.shape.n_layers {
            for &(from, to) in pairs {
                let (from, to) = (self.block(layer, from as usize), self.block(layer, to as usize));
                // SAFETY: two blocks of this store (or the same one).
                unsafe { std::ptr::copy(from, to, Self::block_bytes_of(&self.shape)) };
            }
        }
    }

    /// Copy single tokens in every layer, one pair after the other.
    pub(super) fn move_slots(&mut self, pairs: &[(u32, u32)]) {
        let size = self.shape.dtype.bytes();
        let n = self.shape.block_tokens;
        for layer in 0..self.shape.n_layers {
            for &(from, to) in pairs {
                let (from, to) = (from as usize, to as usize);
                for head in 0..self.shape.n_kv_heads {
                    let keys = |slot: usize| {
                        self.keys(layer, slot / n, head).wrapping_add(slot % n * size)
                    };
                    let values = |slot: usize| {
                        let at = slot % n * self.value_stride() * size;
                        self.values(layer, slot / n, head).wrapping_add(at)
                    };
                    let stride = self.key_stride() * size;
                    for d in 0..self.shape.head_dim {
                        let (from, to) = (keys(from), keys(to));
                        // SAFETY: one element of a key of each slot.
                        unsafe { std::ptr::copy(from.add(d * stride), to.add(d * stride), size) };
                    }
                    if self.shape.dtype == KvType::Q8 {
                        let scales =
                            |slot: usize| self.scales(layer, slot / n, head).wrapping_add(slot % n);
                        let (from, to) = (scales(from), scales(to));
                        let stride = self.key_stride();
                        // SAFETY: the two scales of each slot.
                        unsafe {
                            std::ptr::copy(from, to, 1);
                            std::ptr::copy(from.add(stride), to.add(stride), 1);
                        }
                    }
                    let (from, to) = (values(from), values(to));
                    // SAFETY: the value rows of each slot.
                    unsafe { std::ptr::copy(from, to, self.shape.head_dim * size) };
                }
            }
        }
    }
}

/// Store a head as codes; returns its scale.
///
/// # Safety
/// As [`put`].
unsafe fn put_codes(to: *mut i8, stride: usize, values: &[f32]) -> f32 {
    let mut codes = [0; HEAD_CODES];
    if let Some(codes) = codes.get_mut(..values.len()) {
        let scale = quant::quantise_head(values, codes);
        // SAFETY: as the caller says.
        unsafe { put(to, stride, codes) };
        return scale;
    }
    let mut codes = vec![0; values.len()];
    let scale = quant::quantise_head(values, &mut codes);
    // SAFETY: as the caller says.
    unsafe { put(to, stride, &codes) };
    scale
}

/// # Safety
/// `to` has an element at every multiple of `stride` for every value.
#[inline(always)]
unsafe fn put<T: Copy>(to: *mut T, stride: usize, values: &[T]) {
    for (i, &v) in values.iter().enumerate() {
        // SAFETY: as above.
        unsafe { to.add(i * stride).write(v) };
    }
}
