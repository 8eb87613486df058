//! Kernels against the f64 reference, under every order of lanes and warps.
//!
//! # Place
//! Tests of `device::cuda` and `device::emu`. A kernel passes when its error is at most twice the error of the same
//! operation done plainly in the low precision.

mod attention;
mod fault;
mod product;
mod small;

use super::{Order, backend};
use crate::base::DType;
use crate::device::{Backend, BufferId, CudaBackend, MatrixSource};
use half::{bf16, f16};

const MEMORY_BYTES: u64 = 1 << 30;

fn emulated(order: Order) -> CudaBackend {
    backend(order, MEMORY_BYTES).expect("an empty backend fits")
}

/// Reproducible numbers in -1 .. 1.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 40) as f32 / (1u64 << 23) as f32) - 1.0
    }

    fn many(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.next()).collect()
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| (self.next() * 128.0 + 128.0).clamp(0.0, 255.0) as u8).collect()
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
    /// Random codes with scales that keep weights below about one.
    fn random(dtype: DType, rows: usize, cols: usize, numbers: &mut Numbers) -> Self {
        let n_blocks = rows * cols / dtype.block_len();
        let half = |v: f32| f16::from_f32(v).to_le_bytes();
        let mut data = Vec::new();
        for _ in 0..n_blocks {
            let size = 0.5 + 0.5 * numbers.next().abs();
            match dtype {
                DType::F32 => data.extend(numbers.next().to_le_bytes()),
                DType::F16 => data.extend(half(numbers.next())),
                DType::BF16 => data.extend(bf16::from_f32(numbers.next()).to_le_bytes()),
                _ => {
                    let mut block = numbers.bytes(dtype.block_bytes());
                    match dtype {
                        DType::Q8_0 => block[..2].copy_from_slice(&half(size / 128.0)),
                        DType::Q4_0 => block[..2].copy_from_slice(&half(-size / 8.0)),
                        DType::Q4_1 => {
                            block[..2].copy_from_slice(&half(size / 8.0));
                            block[2..4].copy_from_slice(&half(-size));
                        }
                        DType::Q4K => {
                            block[..2].copy_from_slice(&half(size / 500.0));
                            block[2..4].copy_from_slice(&half(size / 60.0));
                        }
                        DType::Q6K => block[208..].copy_from_slice(&half(size / 4000.0)),
                        other => panic!("{other} is not packed"),
                    }
                    data.extend(block);
                }
            }
        }
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
