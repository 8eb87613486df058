//! Kernels against the f64 reference, under every order of lanes and warps.
//!
//! # Place
//! Tests of `device::cuda` and `device::emu`. A kernel passes when its error is at most twice the error of the same
//! operation done plainly in the low precision.

mod attention;
mod fault;
mod low_rank;
mod product;
mod small;

use super::{Order, backend};
use crate::base::DType;
use crate::device::cpu::quant::{RandomBits, random_weights};
use crate::device::{Backend, BufferId, CudaBackend, MatrixSource};
use half::bf16;

const MEMORY_BYTES: u64 = 1 << 30;

/// The backend under test: emulated, or a GPU where `TETHER_TEST_DEVICE` says `cuda`, which has no order to choose.
fn emulated(order: Order) -> CudaBackend {
    if std::env::var("TETHER_TEST_DEVICE").is_ok_and(|device| device == "cuda") {
        return crate::device::cuda::open(None).expect("a GPU was asked for");
    }
    backend(order, MEMORY_BYTES).expect("an empty backend fits")
}

/// Reproducible numbers in −1 to 1.
struct Numbers(RandomBits);

impl Numbers {
    fn new(seed: u64) -> Self {
        Self(RandomBits::new(seed))
    }

    fn many(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.0.number()).collect()
    }
}

fn write(backend: &mut dyn Backend, values: &[f32]) -> BufferId {
    let id = backend.buffer(values.len()).unwrap();
    backend.write(id, 0, values).unwrap();
    id
}

fn read(backend: &mut dyn Backend, id: BufferId, n: usize) -> Vec<f32> {
    let mut out = vec![0.0; n];
    backend.read(id, 0, &mut out).unwrap();
    out
}

/// A weight matrix in the bytes of a file.
struct Weights {
    dtype: DType,
    rows: usize,
    cols: usize,
    data: Vec<u8>,
}

impl Weights {
    fn random(dtype: DType, rows: usize, cols: usize, numbers: &mut Numbers) -> Self {
        let mut data = Vec::new();
        random_weights(dtype, rows * cols, 1.0, &mut numbers.0, &mut data);
        Self { dtype, rows, cols, data }
    }

    fn source(&self) -> MatrixSource<'_> {
        MatrixSource { dtype: self.dtype, rows: self.rows, cols: self.cols, data: &self.data }
    }

    fn values(&self) -> Vec<f32> {
        crate::device::cpu::quant::dequantise(self.dtype, &self.data)
    }
}

fn to_bf16(v: f32) -> f32 {
    bf16::from_f32(v).to_f32()
}

/// Root of the mean squared difference.
fn error(got: &[f32], want: &[f32]) -> f64 {
    assert_eq!(got.len(), want.len());
    let squares = got.iter().zip(want).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2));
    (squares.sum::<f64>() / got.len() as f64).sqrt()
}

/// The rule of all kernel tests. `floor`: what rounding the result to f32 may cost.
#[track_caller]
fn check(what: &str, got: &[f32], want: &[f32], plain: &[f32]) {
    let scale = want.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    let floor = f64::from(scale) * 2e-6;
    let (ours, theirs) = (error(got, want), error(plain, want));
    assert!(ours <= 2.0 * theirs + floor, "{what}: error {ours:.3e}, plain {theirs:.3e}");
}
