//! `y = x · w / sqrt(mean(x²) + eps)`.
//!
//! # Place
//! Part of `device::cpu::reference`.
//! # Sources
//! Zhang and Sennrich 2019, arXiv:1910.07467.

pub(super) fn rms_norm(x: &[f32], weights: &[f32], eps: f32) -> Vec<f32> {
    assert_eq!(x.len(), weights.len());
    let squares: f64 = x.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
    let scale = 1.0 / (squares / x.len() as f64 + f64::from(eps)).sqrt();
    x.iter().zip(weights).map(|(&v, &w)| (f64::from(v) * scale * f64::from(w)) as f32).collect()
}
