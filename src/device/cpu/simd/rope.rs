//! Norm and rotation of queries and keys, and storing keys and values in the cache.
//!
//! # Place
//! Part of `device::cpu::simd`. Writes `cache`.
//! # Sources
//! Su et al. 2021, arXiv:2104.09864. The angle is an f32 product of position and frequency, as the
//! models' training code computes it; sine and cosine are computed in f64 once a step, not once a layer.
#![allow(unsafe_code)] // rows are divided between threads as raw pointers

use super::cache::Cache;
use super::lanes::{Isa, Kernel, Lanes, dispatch};
use super::rows;
use crate::device::cpu::pool::{Pieces, Pool, RegionPanicked};
use crate::device::{RopeStore, RopeStyle, StepRows, VectorId};

/// Rows below which one thread is quicker than a meeting of several.
const SERIAL_ROWS: usize = 8;

/// Cosines and sines of the last step, which its later layers use again.
#[derive(Default)]
pub(super) struct Angles {
    inv_freq: Option<VectorId>,
    positions: Vec<u32>,
    /// Per row: cosines of all pairs, then sines.
    cos_sin: Vec<f32>,
}

impl Angles {
    /// Make them those of these positions and frequencies.
    pub(super) fn update(&mut self, id: VectorId, inv_freq: &[f32], positions: &[u32]) {
        if self.inv_freq == Some(id) && self.positions == positions {
            return;
        }
        self.inv_freq = Some(id);
        self.positions.clear();
        self.positions.extend_from_slice(positions);
        self.cos_sin.clear();
        for &position in positions {
            let angles = |freq: &f32| f64::from(position as f32 * freq).sin_cos();
            self.cos_sin.extend(inv_freq.iter().map(|f| angles(f).1 as f32));
            self.cos_sin.extend(inv_freq.iter().map(|f| angles(f).0 as f32));
        }
    }
}

/// One layer of a step.
pub(super) struct Job<'a> {
    pub(super) isa: Isa,
    pub(super) spec: &'a RopeStore,
    pub(super) cache: &'a Cache,
    pub(super) layer: usize,
    pub(super) step: &'a StepRows<'a>,
    /// Present when the layer rotates.
    pub(super) angles: Option<&'a Angles>,
    pub(super) q_norm: Option<&'a [f32]>,
    pub(super) k_norm: Option<&'a [f32]>,
    /// `[T, (H + 2·Hk) · D]`
    pub(super) qkv: *mut f32,
}

// SAFETY: every row of `qkv` and every slot of the cache is written by the one thread that claims the row.
unsafe impl Sync for Job<'_> {}

/// Run `job` on all threads.
pub(super) fn run(pool: &mut Pool, job: &Job<'_>) -> Result<(), RegionPanicked> {
    let n_rows = job.step.n_rows;
    if n_rows <= SERIAL_ROWS {
        for t in 0..n_rows {
            dispatch(job.isa, Row { job, t });
        }
        return Ok(());
    }
    let pieces = Pieces::new(n_rows, pool.n_threads(), 4);
    pool.run(&|_| {
        while let Some(piece) = pieces.claim() {
            for t in piece {
                dispatch(job.isa, Row { job, t });
            }
        }
    })
}

struct Row<'a> {
    job: &'a Job<'a>,
    t: usize,
}

impl Kernel for Row<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let (job, t) = (self.job, self.t);
        let (n_q, n_kv, d) = (job.spec.n_heads, job.spec.n_kv_heads, job.spec.head_dim);
        let width = (n_q + 2 * n_kv) * d;
        // SAFETY: row `t` of the step's buffer, which this thread claimed.
        let row = unsafe { std::slice::from_raw_parts_mut(job.qkv.add(t * width), width) };
        let cos_sin = job.angles.map_or(&[][..], |angles| {
            let n = angles.cos_sin.len() / job.step.n_rows;
            &angles.cos_sin[t * n..(t + 1) * n]
        });
        let (cos, sin) = cos_sin.split_at(cos_sin.len() / 2);
        for (h, head) in row[..(n_q + n_kv) * d].chunks_exact_mut(d).enumerate() {
            if let Some(weights) = if h < n_q { job.q_norm } else { job.k_norm } {
                let scale = rows::inverse_rms(s, head, job.spec.eps);
                for (x, w) in head.iter_mut().zip(weights) {
                    *x = *x * scale * w;
                }
            }
            match job.spec.style {
                RopeStyle::Interleaved => interleaved(head, cos, sin),
                RopeStyle::Halves => halves(head, cos, sin),
            }
        }
        let (keys, values) = row[n_q * d..].split_at(n_kv * d);
        let slot = job.step.slots[t] as usize;
        for h in 0..n_kv {
            let (key, value) = (&keys[h * d..(h + 1) * d], &values[h * d..(h + 1) * d]);
            // SAFETY: rows of a step have different slots.
            unsafe { job.cache.store(s, (job.layer, slot, h), key, value) };
        }
    }
}

#[inline(always)]
fn interleaved(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let pairs = head.as_chunks_mut::<2>().0;
    for ((pair, cos), sin) in pairs.iter_mut().zip(cos).zip(sin) {
        let [x, y] = *pair;
        *pair = [x * cos - y * sin, x * sin + y * cos];
    }
}

#[inline(always)]
fn halves(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (first, second) = head[..2 * cos.len()].split_at_mut(cos.len());
    let pairs = first.iter_mut().zip(second);
    for (((x, y), cos), sin) in pairs.zip(cos).zip(sin) {
        (*x, *y) = (*x * cos - *y * sin, *x * sin + *y * cos);
    }
}
