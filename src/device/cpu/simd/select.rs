//! Arg-max of a row of logits among the allowed ids.
//!
//! # Place
//! Part of `device::cpu::simd`.
#![allow(unsafe_code)] // raw vector loads

use super::lanes::{Isa, Kernel, LANES, Lanes, dispatch};

/// Ids looked at together: one word of the mask.
const WORD: usize = 32;

/// Lowest id with the highest value among the ids whose bit is set. NaN ranks below everything.
pub(super) fn argmax(isa: Isa, values: &[f32], mask: Option<&[u32]>) -> Option<u32> {
    dispatch(isa, ArgMax { values, mask })
}

struct ArgMax<'a> {
    values: &'a [f32],
    mask: Option<&'a [u32]>,
}

impl Kernel for ArgMax<'_> {
    type Output = Option<u32>;

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) -> Option<u32> {
        let bits_of = |w: usize| self.mask.map_or(u32::MAX, |m| m[w]);
        let minus_inf = s.splat(f32::NEG_INFINITY);
        let (words, rest) = self.values.as_chunks::<WORD>();
        let mut best = minus_inf;
        for (w, word) in words.iter().enumerate() {
            let bits = bits_of(w);
            if bits == 0 {
                continue;
            }
            // SAFETY: 32 elements.
            unsafe {
                let low = s.select(bits as u16, s.load(word.as_ptr()), minus_inf);
                let high = s.load(word.as_ptr().add(LANES));
                let high = s.select((bits >> 16) as u16, high, minus_inf);
                best = s.max(low, s.max(high, best));
            }
        }
        let mut best = s.largest(best);
        let bits = if rest.is_empty() {
            0
        } else {
            bits_of(words.len())
        };
        for (i, &v) in rest.iter().enumerate() {
            if bits >> i & 1 == 1 && v > best {
                best = v;
            }
        }
        // The first allowed id that has it; when nothing is above minus infinity (or all is NaN), the
        // first allowed id that is no NaN, or the first allowed one.
        let mut first = None;
        for (w, word) in self.values.chunks(WORD).enumerate() {
            let bits = bits_of(w);
            if bits == 0 {
                continue;
            }
            for (i, &v) in word.iter().enumerate() {
                if bits >> i & 1 == 1 {
                    let id = (w * WORD + i) as u32;
                    if v == best {
                        return Some(id);
                    }
                    first.get_or_insert(id);
                }
            }
        }
        first
    }
}
