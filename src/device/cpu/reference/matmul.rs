//! `y = x @ wᵀ (+ bias)`.
//!
//! # Place
//! Part of `device::cpu::reference`.

use super::Matrix;

/// x `[T, K]`, w `[R, K]`, result `[T, R]`.
pub(super) fn matmul(x: &[f32], w: &Matrix, bias: Option<&[f32]>) -> Vec<f32> {
    let mut y = Vec::with_capacity(x.len() / w.cols * w.rows);
    for x in x.chunks(w.cols) {
        for (r, w) in w.values.chunks(w.cols).enumerate() {
            let products = x.iter().zip(w).map(|(&x, &w)| f64::from(x) * f64::from(w));
            let bias = bias.map_or(0.0, |b| f64::from(b[r]));
            y.push((products.sum::<f64>() + bias) as f32);
        }
    }
    y
}
