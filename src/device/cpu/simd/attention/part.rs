//! The keys of one part, chunk by chunk: scores, weights, weighted values.
//!
//! # Place
//! Part of `device::cpu::simd::attention`: between the division of work and the arithmetic of `kernel`.
#![allow(unsafe_code)] // scratch of one thread as raw pointers

use std::marker::PhantomData;

use super::super::dot::{Brain, Eighth, Element, Half, Single};
use super::super::lanes::{Isa, LANES, dispatch};
use super::kernel::{CHUNK, Multiply, Scale, Softmax, Sums, Total, Widen};
use super::{Item, Job, Own, SPLIT_CHUNKS, TILE_ROWS, WIDEN_ROWS};
use crate::device::{KvType, SeqRows};

/// The keys and values of a chunk.
#[derive(Clone, Copy)]
struct Place {
    keys: *const u8,
    values: *const u8,
    /// Scales of the keys and of the values, where they are codes.
    scales: Option<(*const f32, *const f32)>,
    /// Vectors of keys.
    n_lanes: usize,
}

impl Job<'_> {
    /// Sums over the keys of one part, into `sums`.
    pub(super) fn part(&self, item: &Item<'_>, split: usize, own: &Own, sums: Sums) {
        match self.cache.shape.dtype {
            KvType::F32 => self.part_of::<Single>(item, split, own, sums),
            KvType::F16 => self.part_of::<Half>(item, split, own, sums),
            KvType::BF16 => self.part_of::<Brain>(item, split, own, sums),
            KvType::Q8 => self.part_of::<Eighth>(item, split, own, sums),
        }
    }

    fn part_of<E: Element>(&self, item: &Item<'_>, split: usize, own: &Own, sums: Sums) {
        let m = item.n_rows * self.group();
        let value_stride = self.cache.value_stride();
        // SAFETY: this thread's scratch, and a part that belongs to this thread.
        unsafe {
            for r in 0..m {
                *own.running.largest.add(r) = f32::NEG_INFINITY;
            }
            std::ptr::write_bytes(own.running.lanes, 0, m * LANES);
            std::ptr::write_bytes(sums.values, 0, m * value_stride);
        }
        let (from, to) = self.key_range(item);
        let per_block = self.chunks_per_block();
        let first = (split * SPLIT_CHUNKS).max(self.chunk_of(from));
        let last = ((split + 1) * SPLIT_CHUNKS).min(self.chunk_of(to - 1) + 1);
        for chunk in first..last {
            let offset = chunk % per_block * CHUNK;
            let n_tokens = self.cache.shape.block_tokens;
            let key = chunk / per_block * n_tokens + offset;
            let n_keys = (n_tokens - offset).min(CHUNK).min(to.saturating_sub(key));
            if n_keys > 0 {
                let here = self.place::<E>(item, chunk, item.kv_head);
                let next = if chunk < self.chunk_of(to - 1) {
                    self.place::<E>(item, chunk + 1, item.kv_head)
                } else {
                    let next_head = (item.kv_head + 1) % self.spec.n_kv_heads;
                    self.place::<E>(item, self.chunk_of(from), next_head)
                };
                self.chunk::<E>(item, key, n_keys, here, next, own, sums);
            }
        }
        // SAFETY: this thread's scratch, and a part that belongs to this thread.
        unsafe { std::ptr::copy_nonoverlapping(own.running.largest, sums.largest, m) };
        let total = Total { n_rows: m, lanes: own.running.lanes, total: sums.total };
        dispatch(self.isa, total);
    }

    /// Where a chunk lies in the cache.
    fn place<E: Element>(&self, item: &Item<'_>, chunk: usize, kv_head: usize) -> Place {
        let per_block = self.chunks_per_block();
        let block = item.seq.blocks[chunk / per_block] as usize;
        let offset = chunk % per_block * CHUNK;
        let keys = self.cache.keys(self.layer, block, kv_head);
        let values = self.cache.values(self.layer, block, kv_head);
        let scales = (self.cache.shape.dtype == KvType::Q8).then(|| {
            let keys = self.cache.scales(self.layer, block, kv_head).wrapping_add(offset);
            (keys.cast_const(), keys.wrapping_add(self.cache.key_stride()).cast_const())
        });
        Place {
            scales,
            keys: keys.wrapping_add(offset * E::BYTES),
            values: values.wrapping_add(offset * self.cache.value_stride() * E::BYTES),
            n_lanes: (self.cache.key_stride() - offset).min(CHUNK) / LANES,
        }
    }

    fn chunk<E: Element>(
        &self,
        item: &Item<'_>,
        key: usize,
        n_keys: usize,
        here: Place,
        next: Place,
        own: &Own,
        sums: Sums,
    ) {
        let group = self.group();
        let m = item.n_rows * group;
        let mut visible = [0u32; TILE_ROWS];
        let visible = &mut visible[..item.n_rows];
        for (r, visible) in visible.iter_mut().enumerate() {
            *visible = self.visible(item.seq, item.first + r, key, n_keys);
        }
        if m > WIDEN_ROWS && E::BYTES < 4 {
            let wide = self.widen::<E>(n_keys, here, next, own);
            self.scores::<Single>(m, wide, wide, CHUNK, own);
            self.soften(visible, here, own);
            self.weigh::<Single>(m, n_keys, wide, wide, own, sums);
        } else {
            self.scores::<E>(m, here, next, self.cache.key_stride(), own);
            self.soften(visible, here, own);
            self.weigh::<E>(m, n_keys, here, next, own, sums);
        }
    }

    /// Make a chunk f32.
    fn widen<E: Element>(&self, n_keys: usize, here: Place, next: Place, own: &Own) -> Place {
        let (key_stride, value_stride) = (self.cache.key_stride(), self.cache.value_stride());
        let keys = Widen {
            element: PhantomData::<E>,
            n_rows: self.spec.head_dim,
            n_vectors: here.n_lanes,
            from: here.keys,
            from_stride: key_stride,
            next: next.keys,
            to: own.keys,
            to_stride: CHUNK,
        };
        dispatch(self.isa, keys);
        let values = Widen {
            element: PhantomData::<E>,
            n_rows: n_keys,
            n_vectors: value_stride / LANES,
            from: here.values,
            from_stride: value_stride,
            next: next.values,
            to: own.values,
            to_stride: value_stride,
        };
        dispatch(self.isa, values);
        Place {
            keys: own.keys.cast_const().cast(),
            values: own.values.cast_const().cast(),
            scales: here.scales,
            n_lanes: here.n_lanes,
        }
    }

    /// Bit `i`: row `row` sees key `key + i`.
    fn visible(&self, seq: &SeqRows<'_>, row: usize, key: usize, n_keys: usize) -> u32 {
        let below = |n: usize| ((1u64 << n.min(CHUNK)) - 1) as u32;
        let from = self.first_key(seq, row).saturating_sub(key);
        let Some(tree) = seq.tree else {
            let to = (seq.past + row + 1).saturating_sub(key).min(n_keys);
            return below(to) & !below(from);
        };
        let mut bits = below(seq.past.saturating_sub(key).min(n_keys)) & !below(from);
        let positions = &self.step.positions[seq.first_row..][..seq.n_rows];
        let words = seq.n_rows.div_ceil(64);
        for i in seq.past.saturating_sub(key).min(n_keys)..n_keys {
            let own = key + i - seq.past;
            let near = self
                .spec
                .window
                .is_none_or(|w| (positions[row] as usize) < positions[own] as usize + w);
            if near && tree[row * words + own / 64] >> (own % 64) & 1 == 1 {
                bits |= 1 << i;
            }
        }
        bits
    }

    fn scores<E: Element>(&self, m: usize, here: Place, next: Place, b_stride: usize, own: &Own) {
        let d = self.spec.head_dim;
        macro_rules! multiply {
            ($v:literal) => {
                Multiply::<E, $v> {
                    element: PhantomData,
                    n_rows: m,
                    n_k: d,
                    a: own.queries,
                    a_stride: d,
                    b: here.keys,
                    b_stride,
                    next_b: next.keys,
                    c: own.scores,
                    c_stride: CHUNK,
                    alpha: None,
                }
            };
        }
        if here.n_lanes == 2 {
            dispatch(self.isa, multiply!(2));
        } else {
            dispatch(self.isa, multiply!(1));
        }
    }

    /// Scores into weights. Codes were multiplied as they are: their scales come in here.
    fn soften(&self, visible: &[u32], here: Place, own: &Own) {
        let n_rows = visible.len() * self.group();
        let scale = |by| Scale { scores: own.scores, n_rows, n_vectors: here.n_lanes, by };
        if let Some((keys, _)) = here.scales {
            dispatch(self.isa, scale(keys));
        }
        let softmax =
            Softmax { scores: own.scores, visible, group: self.group(), running: own.running };
        dispatch(self.isa, softmax);
        if let Some((_, values)) = here.scales {
            dispatch(self.isa, scale(values));
        }
    }

    fn weigh<E: Element>(
        &self,
        m: usize,
        n_keys: usize,
        here: Place,
        next: Place,
        own: &Own,
        sums: Sums,
    ) {
        let stride = self.cache.value_stride();
        let mut first = 0;
        while first < stride {
            macro_rules! multiply {
                ($v:literal) => {
                    Multiply::<E, $v> {
                        element: PhantomData,
                        n_rows: m,
                        n_k: n_keys,
                        a: own.scores,
                        a_stride: CHUNK,
                        b: here.values.wrapping_add(first * E::BYTES),
                        b_stride: stride,
                        next_b: next.values.wrapping_add(first * E::BYTES),
                        c: sums.values.wrapping_add(first),
                        c_stride: stride,
                        alpha: Some(own.running.alpha),
                    }
                };
            }
            // Few rows need many columns at once to keep the multipliers busy.
            let left = (stride - first) / LANES;
            if left >= 4 && m <= 4 && self.isa == Isa::Avx512 {
                dispatch(self.isa, multiply!(4));
                first += 4 * LANES;
            } else if left >= 2 {
                dispatch(self.isa, multiply!(2));
                first += 2 * LANES;
            } else {
                dispatch(self.isa, multiply!(1));
                first += LANES;
            }
        }
    }
}
