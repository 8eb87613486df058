//! `act(gate) · up`.
//!
//! # Place
//! Part of `device::cpu::reference`.
//! # Sources
//! GELU, tanh form: Hendrycks and Gimpel 2016, arXiv:1606.08415.

use crate::device::Activation;

/// `[T, gate F | up F]` to `[T, F]`.
pub(super) fn combine(gate_up: &[f32], n: usize, act: Activation) -> Vec<f32> {
    let activate = |x: f64| match act {
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
            0.5 * x * (1.0 + inner.tanh())
        }
    };
    gate_up
        .chunks(2 * n)
        .flat_map(|row| {
            let (gate, up) = row.split_at(n);
            gate.iter().zip(up).map(|(&g, &u)| (activate(f64::from(g)) * f64::from(u)) as f32)
        })
        .collect()
}
