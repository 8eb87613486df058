//! What a device can do at best: bytes copied and products made in a second, measured now.
//!
//! # Place
//! Part of `runtime`. Rates of a model mean something only beside these.

use super::RuntimeError;
use super::device::{self, DeviceChoice};
use crate::base::DType;
use crate::base::limit::STEP_ROWS_MAX;
use crate::device::cpu::quant::{RandomBits, random_weights};
use crate::device::{Backend, BufferId, DeviceError, MatrixSource, Stacking};
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Instant;

/// Measured ceilings of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceilings {
    /// Bytes read and written by a copy.
    pub copy_bytes_per_s: f64,
    /// Operations (two a multiplication) of a bf16 product of many rows.
    pub product_ops_per_s: f64,
    /// The same by the library of the device's vendor, where one is installed.
    pub library_ops_per_s: Option<f64>,
}

impl Ceilings {
    /// Operations in a second that a product could do at best, as far as anybody showed here.
    pub fn best_product(&self) -> f64 {
        self.library_ops_per_s.map_or(self.product_ops_per_s, |ops| ops.max(self.product_ops_per_s))
    }
}

/// A measurement grows until one run takes this long: short ones measure the launch.
const RUN_MS_MIN: f64 = 20.0;
const REPS: usize = 3;
/// Rows of a copy are the second axis of a grid, which ends at 65,535.
const COPY_ROWS_MAX: usize = 65_535;
const COPY_COLS: usize = 2048;
const PRODUCT_SIDE_MAX: usize = 8192;

/// Measure a device. `home`: where kernels that are compiled now are kept, as in `LoadConfig`.
///
/// # Errors
/// The device is not there, or is lost.
pub fn ceilings(
    choice: DeviceChoice,
    threads: NonZeroUsize,
    home: Option<&Path>,
) -> Result<Ceilings, RuntimeError> {
    let mut backend = device::open(choice, threads, home)?.backend;
    let copy_bytes_per_s = copy_rate(backend.as_mut())?;
    let (product_ops_per_s, side) = product_rate(backend.as_mut())?;
    let us = backend.library_product_us(STEP_ROWS_MAX, side, side)?;
    let library_ops_per_s = us.map(|us| product_ops(side) / (us * 1e-6));
    Ok(Ceilings { copy_bytes_per_s, product_ops_per_s, library_ops_per_s })
}

/// The best of a few runs, each waited for: reading an element is what waits.
fn best_ms(
    backend: &mut dyn Backend,
    out: BufferId,
    run: &mut dyn FnMut(&mut dyn Backend) -> Result<(), DeviceError>,
) -> Result<f64, DeviceError> {
    let mut best = f64::INFINITY;
    // The first run is the warm-up.
    for rep in 0..=REPS {
        let started = Instant::now();
        run(backend)?;
        backend.read(out, 0, &mut [0.0])?;
        if rep > 0 {
            best = best.min(started.elapsed().as_secs_f64() * 1e3);
        }
    }
    Ok(best)
}

fn copy_rate(backend: &mut dyn Backend) -> Result<f64, RuntimeError> {
    let mut n_rows = 64;
    loop {
        let from = backend.buffer(n_rows * COPY_COLS)?;
        let to = backend.buffer(n_rows * COPY_COLS)?;
        let rows: Vec<u32> = (0..n_rows as u32).collect();
        let ms = best_ms(backend, to, &mut |b| b.gather(from, COPY_COLS, &rows, to))?;
        if ms >= RUN_MS_MIN || n_rows == COPY_ROWS_MAX {
            return Ok(2.0 * 4.0 * (n_rows * COPY_COLS) as f64 / (ms / 1e3));
        }
        n_rows = (4 * n_rows).min(COPY_ROWS_MAX);
    }
}

/// Operations of a product of a full step with a square matrix.
fn product_ops(side: usize) -> f64 {
    2.0 * (STEP_ROWS_MAX * side * side) as f64
}

/// The rate, and the side of the matrix that it was measured with.
fn product_rate(backend: &mut dyn Backend) -> Result<(f64, usize), RuntimeError> {
    let mut side = 128;
    let mut random = RandomBits::new(1);
    loop {
        let mut data = Vec::new();
        random_weights(DType::BF16, side * side, 1.0, &mut random, &mut data);
        let source = MatrixSource { dtype: DType::BF16, rows: side, cols: side, data: &data };
        let w = backend.matrix(&[source], Stacking::Rows)?;
        let x = backend.buffer(STEP_ROWS_MAX * side)?;
        let out = backend.buffer(STEP_ROWS_MAX * side)?;
        let ms = best_ms(backend, out, &mut |b| b.matmul_add(x, w, None, out, STEP_ROWS_MAX, &[]))?;
        if ms >= RUN_MS_MIN || side == PRODUCT_SIDE_MAX {
            return Ok((product_ops(side) / (ms / 1e3), side));
        }
        side *= 2;
    }
}
