//! Arg-max of a row of logits among the allowed ids.
//!
//! # Place
//! Part of `device::cpu::simd`.
#![allow(unsafe_code)] // raw vector loads

use super::lanes::{Isa, Kernel, LANES, Lanes, dispatch};

/// Ids of one word of the mask.
const WORD: usize = 32;
/// Ids whose largest value is found before the next ones are looked at.
const PART: usize = 32 * WORD;

/// Lowest id with the highest value among the ids whose bit is set. NaN ranks below everything.
pub(super) fn argmax(isa: Isa, values: &[f32], mask: Option<&[u32]>) -> Option<u32> {
    let mut best = f32::NEG_INFINITY;
    let mut best_part = None;
    for (p, values) in values.chunks(PART).enumerate() {
        let mask = mask.map(|m| &m[p * (PART / WORD)..]);
        let here = dispatch(isa, Largest { values, mask });
        if here > best {
            best = here;
            best_part = Some(p);
        }
    }
    let allowed = |&i: &usize| mask.is_none_or(|m| m[i / WORD] >> (i % WORD) & 1 == 1);
    match best_part {
        Some(p) => (p * PART..values.len()).filter(allowed).find(|&i| values[i] == best),
        // Nothing is above minus infinity: the first that is minus infinity, or the first NaN.
        None => (0..values.len())
            .filter(allowed)
            .find(|&i| values[i] == best)
            .or_else(|| (0..values.len()).find(allowed)),
    }
    .map(|i| i as u32)
}

/// Largest allowed value, minus infinity when there is none.
struct Largest<'a> {
    values: &'a [f32],
    mask: Option<&'a [u32]>,
}

impl Kernel for Largest<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) -> f32 {
        let minus_inf = s.splat(f32::NEG_INFINITY);
        let (words, rest) = self.values.as_chunks::<WORD>();
        let mut best = [minus_inf; 2];
        for (w, word) in words.iter().enumerate() {
            // SAFETY: 32 elements.
            let mut both = unsafe { [s.load(word.as_ptr()), s.load(word.as_ptr().add(LANES))] };
            if let Some(mask) = self.mask {
                both[0] = s.select(mask[w] as u16, both[0], minus_inf);
                both[1] = s.select((mask[w] >> 16) as u16, both[1], minus_inf);
            }
            best = [s.max(both[0], best[0]), s.max(both[1], best[1])];
        }
        let mut best = s.largest(s.max(best[0], best[1]));
        for (i, &v) in rest.iter().enumerate() {
            if v > best && self.mask.is_none_or(|m| m[words.len()] >> i & 1 == 1) {
                best = v;
            }
        }
        best
    }
}
