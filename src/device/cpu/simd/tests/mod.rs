//! The SIMD backend against the reference backend, and against itself on other shapes of the same work.
//!
//! # Place
//! Tests of `device::cpu::simd`. This file makes the fixtures: a random number generator, random blocks
//! of every type, and every way to run the backend on this machine.

mod attention;
mod low_rank;
mod matmul;
mod vector;

use std::num::NonZeroUsize;

use half::{bf16, f16};

use super::{CpuBackend, Isa};
use crate::base::DType;
use crate::device::{Backend, BufferId, MatrixSource};

const ALL_TYPES: [DType; 11] = [
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::Q8_0,
    DType::Q4_0,
    DType::Q4_1,
    DType::Q5_0,
    DType::Q5_1,
    DType::Q4K,
    DType::Q5K,
    DType::Q6K,
];

/// xorshift64*: the same numbers on every machine.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// −1.0 to 1.0.
    fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.unit()).collect()
    }

    /// Rows as a model has them: mostly small, some outliers 20 times as large, a zero block, denormals.
    fn hostile(&mut self, n: usize) -> Vec<f32> {
        let mut x = self.floats(n);
        for i in (0..n).step_by(77) {
            x[i] *= 20.0;
        }
        if n >= 96 {
            x[32..64].fill(0.0);
            x[64..96].fill(1e-40);
        }
        x
    }

    /// `rows × cols` random weights in the blocks of `dtype`.
    fn weights(&mut self, dtype: DType, rows: usize, cols: usize) -> Vec<u8> {
        if dtype.block_len() == 1 {
            let values = self.floats(rows * cols);
            let bytes = |v: f32| match dtype {
                DType::F32 => v.to_le_bytes().to_vec(),
                DType::F16 => f16::from_f32(v).to_le_bytes().to_vec(),
                _ => bf16::from_f32(v).to_le_bytes().to_vec(),
            };
            return values.into_iter().flat_map(bytes).collect();
        }
        let n_blocks = rows * cols / dtype.block_len();
        let mut out = Vec::new();
        for _ in 0..n_blocks {
            let mut block: Vec<u8> = (0..dtype.block_bytes()).map(|_| self.bits() as u8).collect();
            let mut put = |at: usize, v: f32| {
                block[at..at + 2].copy_from_slice(&f16::from_f32(v).to_le_bytes());
            };
            match dtype {
                DType::Q6K => put(208, 1e-4 + self.unit() * 5e-5),
                DType::Q4K | DType::Q5K => {
                    put(0, 2e-3 + self.unit() * 1e-3);
                    put(2, 2e-3 + self.unit() * 1e-3);
                }
                DType::Q8_0 => put(0, 5e-3 + self.unit() * 2e-3),
                DType::Q4_1 | DType::Q5_1 => {
                    put(0, 5e-2 + self.unit() * 2e-2);
                    put(2, self.unit());
                }
                _ => put(0, self.unit() * 5e-2),
            }
            out.extend(block);
        }
        out
    }
}

fn source(dtype: DType, rows: usize, cols: usize, data: &[u8]) -> MatrixSource<'_> {
    MatrixSource { dtype, rows, cols, data }
}

/// Every instruction set of this machine, with one to three threads.
fn every_backend() -> Vec<(String, CpuBackend)> {
    let mut all = Vec::new();
    for isa in Isa::ALL {
        if !isa.is_available() {
            println!("skipped: this machine has no {}", isa.name());
            continue;
        }
        let threads: &[usize] = match isa {
            Isa::Scalar => &[2],
            Isa::Avx2 => &[3],
            Isa::Avx2Vnni => &[1],
            Isa::Avx512 => &[1, 2, 3],
        };
        for &threads in threads {
            let name = format!("{} with {threads} threads", isa.name());
            let backend = CpuBackend::with_isa(NonZeroUsize::new(threads), isa).unwrap();
            all.push((name, backend));
        }
    }
    all
}

fn buffer_of(backend: &mut dyn Backend, values: &[f32]) -> BufferId {
    let id = backend.buffer(values.len()).unwrap();
    backend.write(id, 0, values).unwrap();
    id
}

fn read(backend: &mut dyn Backend, id: BufferId, n: usize) -> Vec<f32> {
    let mut out = vec![0.0; n];
    backend.read(id, 0, &mut out).unwrap();
    out
}

#[track_caller]
fn assert_same_bits(what: &str, a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len(), "{what}");
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert_eq!(a.to_bits(), b.to_bits(), "{what}: element {i}, {a} and {b}");
    }
}

#[track_caller]
fn assert_close(what: &str, got: &[f32], want: &[f32], tolerance: impl Fn(usize) -> f32) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let allowed = tolerance(i);
        assert!(
            (got - want).abs() <= allowed,
            "{what}: element {i} is {got} instead of {want}, more than {allowed} away"
        );
    }
}
