//! Rotary position embedding of one head.
//!
//! # Place
//! Part of `device::cpu::reference`.
//! # Sources
//! Su et al. 2021, arXiv:2104.09864. The angle is an f32 product of position and frequency, as the
//! models' training code computes it.

use crate::device::RopeStyle;

/// Rotate the first `2 · inv_freq.len()` dimensions; the rest pass.
pub(super) fn rotate(head: &mut [f32], inv_freq: &[f32], position: u32, style: RopeStyle) {
    for (i, &freq) in inv_freq.iter().enumerate() {
        let (sin, cos) = f64::from(position as f32 * freq).sin_cos();
        let (a, b) = match style {
            RopeStyle::Interleaved => (2 * i, 2 * i + 1),
            RopeStyle::Halves => (i, i + inv_freq.len()),
        };
        let (x, y) = (f64::from(head[a]), f64::from(head[b]));
        head[a] = (x * cos - y * sin) as f32;
        head[b] = (x * sin + y * cos) as f32;
    }
}
