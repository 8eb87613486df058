//! Arg-max among the allowed ids.
//!
//! # Place
//! Part of `device::cpu::reference`.

/// Lowest id with the highest value among the ids whose bit is set. NaN ranks below everything.
pub(super) fn argmax(values: &[f32], mask: Option<&[u32]>) -> Option<u32> {
    let allowed = |i: usize| mask.is_none_or(|m| m[i / 32] >> (i % 32) & 1 == 1);
    let mut best: Option<usize> = None;
    for i in (0..values.len()).filter(|&i| allowed(i)) {
        let better = best
            .is_none_or(|b| values[i] > values[b] || (values[b].is_nan() && !values[i].is_nan()));
        if better {
            best = Some(i);
        }
    }
    best.map(|i| i as u32)
}
