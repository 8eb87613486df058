//! What happens to the sums of a product: bias, sum with what is there, or gate; and storing them.
//!
//! # Place
//! Part of `device::cpu::simd`: the last step of `matmul`.
#![allow(unsafe_code)] // threads write disjoint parts of one buffer

use super::lanes::{Kernel, LANES, Lanes};
use crate::device::Activation;

/// What happens to the sums.
#[derive(Clone, Copy)]
pub(super) enum Finish<'a> {
    Set(Option<&'a [f32]>),
    Add(Option<&'a [f32]>),
    Gated(Activation),
}

/// Sums of a group with a tile, to be stored as outputs.
pub(super) struct FinishTile<'a> {
    pub(super) finish: Finish<'a>,
    /// `[T, out_cols]`
    pub(super) out: *mut f32,
    pub(super) out_cols: usize,
    /// First row and rows of the tile.
    pub(super) first: usize,
    pub(super) m: usize,
    /// First column and columns of the group.
    pub(super) col: usize,
    pub(super) n: usize,
    /// `[m, 16]`
    pub(super) sums: *const f32,
    /// The other half of a gated pair. `[m, 16]`
    pub(super) second: *const f32,
}

/// `act(x)`.
#[inline(always)]
fn activate<S: Lanes>(s: S, x: S::F, act: Activation) -> S::F {
    let one = s.splat(1.0);
    let neg = |x| s.sub(s.splat(0.0), x);
    match act {
        Activation::Silu => s.div(x, s.add(one, s.exp(neg(x)))),
        Activation::GeluTanh => {
            // x/2 · (1 + tanh u) = x · sigmoid(2u), u = √(2/π) · (x + 0.044715 x³).
            let cubic = s.mul(s.mul(x, x), s.mul(x, s.splat(0.044_715)));
            let two_u = s.mul(s.add(x, cubic), s.splat(1.595_769));
            s.div(x, s.add(one, s.exp(neg(two_u))))
        }
    }
}

impl Kernel for FinishTile<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let (bias, add) = match self.finish {
            Finish::Set(bias) => (bias, false),
            Finish::Add(bias) => (bias, true),
            Finish::Gated(_) => (None, false),
        };
        let mut bias_lanes = [0.0f32; LANES];
        if let Some(bias) = bias {
            bias_lanes[..self.n].copy_from_slice(&bias[self.col..self.col + self.n]);
        }
        for r in 0..self.m {
            // SAFETY: this thread owns these sums, and these outputs: rows `first..first + m`, columns
            // `col..col + n`. A group cut short goes through a padded copy.
            unsafe {
                let mut v = s.load(self.sums.add(r * LANES));
                let out = self.out.add((self.first + r) * self.out_cols + self.col);
                if let Finish::Gated(act) = self.finish {
                    let up = s.load(self.second.add(r * LANES));
                    v = s.mul(activate(s, v, act), up);
                }
                if bias.is_some() {
                    v = s.add(v, s.load(bias_lanes.as_ptr()));
                }
                if self.n == LANES {
                    if add {
                        v = s.add(s.load(out), v);
                    }
                    s.store(out, v);
                } else {
                    let mut lanes = [0.0f32; LANES];
                    s.store(lanes.as_mut_ptr(), v);
                    for (i, lane) in lanes.iter().take(self.n).enumerate() {
                        *out.add(i) = if add { *out.add(i) + lane } else { *lane };
                    }
                }
            }
        }
    }
}
