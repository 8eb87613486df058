//! The arithmetic of attention: a small matrix product, the online softmax, and joining two parts.
//!
//! # Place
//! Part of `device::cpu::simd::attention`.
//! # Invariants
//! Every sum runs in the order of its keys or dimensions with fused multiply-adds, whatever tile of rows
//! it is computed in. A row that sees none of a chunk's keys is left exactly as it was.
#![allow(unsafe_code)] // raw loads from the cache and scratch

use std::marker::PhantomData;

use super::super::dot::Element;
use super::super::lanes::{Kernel, LANES, Lanes};

/// Keys of a chunk.
pub(super) const CHUNK: usize = 32;

/// `c[r] = alpha[r] · c[r] + Σ_k a[r, k] · b[k]` for 16 · V columns; without `alpha`, `c` starts at 0.
pub(super) struct Multiply<E, const V: usize> {
    pub(super) element: PhantomData<E>,
    pub(super) n_rows: usize,
    pub(super) n_k: usize,
    pub(super) a: *const f32,
    pub(super) a_stride: usize,
    pub(super) b: *const u8,
    pub(super) b_stride: usize,
    /// Where the `b` of the next chunk lies: asked for while this one is used.
    pub(super) next_b: *const u8,
    pub(super) c: *mut f32,
    pub(super) c_stride: usize,
    pub(super) alpha: Option<*const f32>,
}

impl<E: Element, const V: usize> Multiply<E, V> {
    /// # Safety
    /// All matrices have `R` rows from row `r`.
    #[inline(always)]
    unsafe fn tile<S: Lanes, const R: usize>(&self, s: S, r: usize) {
        let mut sums = [[s.splat(0.0); V]; R];
        // SAFETY: the maker of the kernel vouches for its pointers.
        unsafe {
            let a = self.a.add(r * self.a_stride);
            let c = self.c.add(r * self.c_stride);
            if let Some(alpha) = self.alpha {
                for i in 0..R {
                    let alpha = s.splat(*alpha.add(r + i));
                    for v in 0..V {
                        let old = s.load(c.add(i * self.c_stride + v * LANES));
                        sums[i][v] = s.mul(old, alpha);
                    }
                }
            }
            for k in 0..self.n_k {
                let b = self.b.add(k * self.b_stride * E::BYTES);
                if R <= 4 {
                    s.prefetch(self.next_b.wrapping_add(k * self.b_stride * E::BYTES));
                }
                let mut columns = [s.splat(0.0); V];
                for v in 0..V {
                    columns[v] = E::load(s, b.add(v * LANES * E::BYTES));
                }
                for i in 0..R {
                    let x = s.splat(*a.add(i * self.a_stride + k));
                    for v in 0..V {
                        sums[i][v] = s.fma(x, columns[v], sums[i][v]);
                    }
                }
            }
            for i in 0..R {
                for v in 0..V {
                    s.store(c.add(i * self.c_stride + v * LANES), sums[i][v]);
                }
            }
        }
    }
}

impl<E: Element, const V: usize> Kernel for Multiply<E, V> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let mut r = 0;
        while r < self.n_rows {
            // SAFETY: at least as many rows are left as each tile takes.
            unsafe {
                match (self.n_rows - r).min(S::ATTENTION_ROWS) {
                    8.. => {
                        self.tile::<S, 8>(s, r);
                        r += 8;
                    }
                    4.. => {
                        self.tile::<S, 4>(s, r);
                        r += 4;
                    }
                    3 => {
                        self.tile::<S, 3>(s, r);
                        r += 3;
                    }
                    2 => {
                        self.tile::<S, 2>(s, r);
                        r += 2;
                    }
                    _ => {
                        self.tile::<S, 1>(s, r);
                        r += 1;
                    }
                }
            }
        }
    }
}

/// Widen `n_rows` rows of 16 · `n_vectors` elements to f32.
pub(super) struct Widen<E> {
    pub(super) element: PhantomData<E>,
    pub(super) n_rows: usize,
    pub(super) n_vectors: usize,
    pub(super) from: *const u8,
    pub(super) from_stride: usize,
    pub(super) next: *const u8,
    pub(super) to: *mut f32,
    pub(super) to_stride: usize,
}

impl<E: Element> Kernel for Widen<E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        for k in 0..self.n_rows {
            for v in 0..self.n_vectors {
                // SAFETY: the maker of the kernel vouches for its pointers.
                unsafe {
                    let at = (k * self.from_stride + v * LANES) * E::BYTES;
                    s.prefetch(self.next.wrapping_add(at));
                    let wide = E::load(s, self.from.add(at));
                    s.store(self.to.add(k * self.to_stride + v * LANES), wide);
                }
            }
        }
    }
}

/// The running softmax of some rows.
#[derive(Clone, Copy)]
pub(super) struct Running {
    /// Largest score so far. `[M↑16]`
    pub(super) largest: *mut f32,
    /// Sums of weights by lane. `[M, 16]`
    pub(super) lanes: *mut f32,
    /// What the sums so far must be multiplied with after a chunk. `[M↑16]`
    pub(super) alpha: *mut f32,
}

/// Turn the scores of a chunk into weights.
pub(super) struct Softmax<'a> {
    /// `[M, CHUNK]`
    pub(super) scores: *mut f32,
    /// Which keys each row of the step sees.
    pub(super) visible: &'a [u32],
    /// Heads, and so rows of `scores`, per row of the step.
    pub(super) group: usize,
    pub(super) running: Running,
}

impl Kernel for Softmax<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let minus_inf = s.splat(f32::NEG_INFINITY);
        let Running { largest, lanes, alpha } = self.running;
        // SAFETY: the maker of the kernel vouches for its pointers.
        unsafe {
            let n_rows = self.visible.len() * self.group;
            for r in 0..n_rows {
                let visible = self.visible[r / self.group];
                *alpha.add(r) = 0.0;
                if visible == 0 {
                    continue;
                }
                let row = self.scores.add(r * CHUNK);
                let low = s.select(visible as u16, s.load(row), minus_inf);
                let high = s.select((visible >> 16) as u16, s.load(row.add(LANES)), minus_inf);
                s.store(row, low);
                s.store(row.add(LANES), high);
                let old = *largest.add(r);
                let here = s.largest(s.max(low, high));
                let new = if here > old { here } else { old };
                *largest.add(r) = new;
                if new > old {
                    *alpha.add(r) = old - new;
                }
            }
            for r in (0..n_rows).step_by(LANES) {
                s.store(alpha.add(r), s.exp(s.load(alpha.add(r))));
            }
            for r in 0..n_rows {
                let visible = self.visible[r / self.group];
                let row = self.scores.add(r * CHUNK);
                if visible == 0 {
                    s.store(row, s.splat(0.0));
                    s.store(row.add(LANES), s.splat(0.0));
                    continue;
                }
                let new = s.splat(*largest.add(r));
                let low = s.exp(s.sub(s.load(row), new));
                let high = s.exp(s.sub(s.load(row.add(LANES)), new));
                s.store(row, low);
                s.store(row.add(LANES), high);
                let sums = s.load(lanes.add(r * LANES));
                let sums = s.fma(sums, s.splat(*alpha.add(r)), s.add(low, high));
                s.store(lanes.add(r * LANES), sums);
            }
        }
    }
}

/// Multiply the columns of a chunk's scores with the scales of its keys.
pub(super) struct Scale {
    /// `[n_rows, CHUNK]`
    pub(super) scores: *mut f32,
    pub(super) n_rows: usize,
    pub(super) n_vectors: usize,
    /// `[n_vectors, 16]`
    pub(super) by: *const f32,
}

impl Kernel for Scale {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        for r in 0..self.n_rows {
            for v in 0..self.n_vectors {
                // SAFETY: the maker of the kernel vouches for its pointers.
                unsafe {
                    let at = self.scores.add(r * CHUNK + v * LANES);
                    s.store(at, s.mul(s.load(at), s.load(self.by.add(v * LANES))));
                }
            }
        }
    }
}

/// Weighted sums over some keys: `values · 1/total` is their attention.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    /// `[M, D↑16]`
    pub(super) values: *mut f32,
    /// `[M]`
    pub(super) largest: *mut f32,
    /// `[M]`
    pub(super) total: *mut f32,
}

/// Add the sums over later keys to those over earlier ones.
pub(super) struct Join {
    pub(super) n_rows: usize,
    pub(super) n_vectors: usize,
    pub(super) into: Sums,
    pub(super) later: Sums,
}

impl Kernel for Join {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        for r in 0..self.n_rows {
            // SAFETY: the maker of the kernel vouches for its pointers.
            unsafe {
                let at = r * self.n_vectors * LANES;
                let (into, later) = (self.into.values.add(at), self.later.values.add(at));
                let (total, more) = (self.into.total.add(r), *self.later.total.add(r));
                let (largest, other) = (self.into.largest.add(r), *self.later.largest.add(r));
                if more == 0.0 {
                    continue;
                }
                if *total == 0.0 {
                    for v in 0..self.n_vectors {
                        s.store(into.add(v * LANES), s.load(later.add(v * LANES)));
                    }
                    *total = more;
                    *largest = other;
                    continue;
                }
                let new = if other > *largest { other } else { *largest };
                // Both factors in one vector, so that there is one kind of exponential.
                let mut factors = [0.0f32; LANES];
                factors[0] = *largest - new;
                factors[1] = other - new;
                s.store(factors.as_mut_ptr(), s.exp(s.load(factors.as_ptr())));
                let (a, b) = (s.splat(factors[0]), s.splat(factors[1]));
                for v in 0..self.n_vectors {
                    let old = s.mul(s.load(into.add(v * LANES)), a);
                    let sum = s.fma(s.load(later.add(v * LANES)), b, old);
                    s.store(into.add(v * LANES), sum);
                }
                *total = *total * factors[0] + more * factors[1];
                *largest = new;
            }
        }
    }
}

/// Sum the lanes of a running softmax into totals.
pub(super) struct Total {
    pub(super) n_rows: usize,
    pub(super) lanes: *const f32,
    pub(super) total: *mut f32,
}

impl Kernel for Total {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        for r in 0..self.n_rows {
            // SAFETY: the maker of the kernel vouches for its pointers.
            unsafe { *self.total.add(r) = s.sum(s.load(self.lanes.add(r * LANES))) };
        }
    }
}
