//! Products of every weight format, few rows and many, set, added and gated.
//!
//! # Place
//! Tests of `kernels/matvec.cuh`, `product.cuh`, `prepare.cuh`, `precise.cuh` and `embed.cuh`.

use super::*;
use crate::device::{Activation, LowRankRun, MatrixId, ReferenceBackend, Stacking, VectorId};

const TYPES: [DType; 8] = [
    DType::F32,
    DType::BF16,
    DType::F16,
    DType::Q8_0,
    DType::Q4_0,
    DType::Q4_1,
    DType::Q4K,
    DType::Q6K,
];

/// What is done with the product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Use {
    SetNormed,
    AddBiased,
    Gated(Activation),
}

/// Adds to the sums of a row: its number, what they were computed from, the sums.
pub(super) type AddTerms<'a> = dyn Fn(usize, &[f32], &mut [f32]) + 'a;

pub(super) struct Case {
    pub(super) parts: Vec<Weights>,
    pub(super) x: Vec<f32>,
    norm: Vec<f32>,
    bias: Vec<f32>,
    out: Vec<f32>,
    pub(super) n_rows: usize,
    pub(super) how: Use,
}

const EPS: f32 = 1e-5;

impl Case {
    pub(super) fn new(parts: Vec<Weights>, n_rows: usize, how: Use, numbers: &mut Numbers) -> Self {
        let (rows, cols) = (parts.iter().map(|p| p.rows).sum(), parts[0].cols);
        Self {
            x: numbers.many(n_rows * cols),
            norm: numbers.many(cols),
            bias: numbers.many(rows),
            out: numbers.many(n_rows * rows),
            parts,
            n_rows,
            how,
        }
    }

    fn cols(&self) -> usize {
        self.parts[0].cols
    }

    pub(super) fn out_cols(&self) -> usize {
        let rows: usize = self.parts.iter().map(|p| p.rows).sum();
        if matches!(self.how, Use::Gated(_)) { rows / 2 } else { rows }
    }

    pub(super) fn load(&self, backend: &mut dyn Backend) -> (MatrixId, VectorId, VectorId) {
        let sources: Vec<_> = self.parts.iter().map(Weights::source).collect();
        let gated = matches!(self.how, Use::Gated(_));
        let stacking = if gated { Stacking::GatedPair } else { Stacking::Rows };
        let w = backend.matrix(&sources, stacking).unwrap();
        (w, backend.vector(&self.norm).unwrap(), backend.vector(&self.bias).unwrap())
    }

    /// The operation on rows `first .. first + n` of x.
    pub(super) fn run_rows(
        &self,
        backend: &mut dyn Backend,
        (w, norm, bias): (MatrixId, VectorId, VectorId),
        first: usize,
        n: usize,
        low_rank: &[LowRankRun],
    ) -> Vec<f32> {
        let (cols, out_cols) = (self.cols(), self.out_cols());
        let x = write(backend, &self.x[first * cols..(first + n) * cols]);
        let out = write(backend, &self.out[first * out_cols..(first + n) * out_cols]);
        match self.how {
            Use::SetNormed => backend.norm_matmul(x, norm, EPS, w, None, out, n, low_rank).unwrap(),
            Use::AddBiased => backend.matmul_add(x, w, Some(bias), out, n, low_rank).unwrap(),
            Use::Gated(act) => backend.norm_gated(x, norm, EPS, w, act, out, n, low_rank).unwrap(),
        }
        read(backend, out, n * out_cols)
    }

    fn run(&self, backend: &mut dyn Backend) -> Vec<f32> {
        let loaded = self.load(backend);
        self.run_rows(backend, loaded, 0, self.n_rows, &[])
    }

    /// The same with rows and weights rounded to bf16 and f32 sums, one after the other.
    /// `add` adds to the sums of a row, given what they were computed from before it was rounded.
    pub(super) fn plain(&self, add: &AddTerms<'_>) -> Vec<f32> {
        let (cols, is_precise) = (self.cols(), self.parts.iter().all(|p| p.dtype == DType::F32));
        let round = |v: f32| if is_precise { v } else { to_bf16(v) };
        // f16 weights lose nothing: the kernels take them as the sum of two bf16.
        let of = |p: &Weights| {
            let is_whole = p.dtype == DType::F16;
            p.values().into_iter().map(move |v| if is_whole { v } else { round(v) })
        };
        let weights: Vec<f32> = self.parts.iter().flat_map(of).collect();
        let mut out = Vec::new();
        for (t, x) in self.x.chunks(cols).enumerate() {
            let squares: f32 = x.iter().map(|v| v * v).sum();
            let factor = 1.0 / (squares / cols as f32 + EPS).sqrt();
            let whole: Vec<f32> = match self.how {
                Use::AddBiased => x.to_vec(),
                _ => x.iter().zip(&self.norm).map(|(&v, n)| v * factor * n).collect(),
            };
            let x: Vec<f32> = whole.iter().map(|&v| round(v)).collect();
            let mut y: Vec<f32> =
                weights.chunks(cols).map(|w| w.iter().zip(&x).map(|(w, x)| w * x).sum()).collect();
            add(t, &whole, &mut y);
            match self.how {
                Use::SetNormed => out.extend(y),
                Use::AddBiased => {
                    let before = &self.out[t * y.len()..];
                    out.extend(y.iter().zip(before).zip(&self.bias).map(|((y, o), b)| y + o + b));
                }
                Use::Gated(act) => {
                    let (gate, up) = y.split_at(y.len() / 2);
                    let activate = |v: f32| match act {
                        Activation::Silu => v / (1.0 + (-v).exp()),
                        Activation::GeluTanh => {
                            0.5 * v * (1.0 + (0.797_884_6 * (v + 0.044715 * v * v * v)).tanh())
                        }
                    };
                    out.extend(gate.iter().zip(up).map(|(&g, u)| activate(g) * u));
                }
            }
        }
        out
    }

    #[track_caller]
    fn check(&self, orders: &[Order]) {
        let want = self.run(&mut ReferenceBackend::new());
        let plain = self.plain(&|_, _, _| {});
        let mut first: Option<Vec<f32>> = None;
        for &order in orders {
            let got = self.run(&mut emulated(order));
            let types: Vec<DType> = self.parts.iter().map(|p| p.dtype).collect();
            let what = format!("{types:?} {:?} {} rows, {order:?}", self.how, self.n_rows);
            check(&what, &got, &want, &plain);
            assert!(
                first.get_or_insert_with(|| got.clone()) == &got,
                "{what}: another order, other bits"
            );
        }
    }
}

/// Columns that are a whole number of the type's blocks, and where they can be, not of a tile.
fn cols(dtype: DType) -> usize {
    match dtype.block_len() {
        1 => 104,
        32 => 96,
        _ => 512,
    }
}

fn matrices(dtype: DType, rows: &[usize], numbers: &mut Numbers) -> Vec<Weights> {
    rows.iter().map(|&r| Weights::random(dtype, r, cols(dtype), numbers)).collect()
}

#[test]
fn few_rows_times_every_format_are_as_exact_as_plain_bf16() {
    let mut numbers = Numbers::new(1);
    for dtype in TYPES {
        for n_rows in [1, 7, 8, 9, 16] {
            let parts = matrices(dtype, &[37], &mut numbers);
            Case::new(parts, n_rows, Use::SetNormed, &mut numbers).check(&[Order::Ascending]);
        }
    }
}

#[test]
fn many_rows_times_every_format_are_as_exact_as_plain_bf16() {
    let mut numbers = Numbers::new(2);
    for dtype in TYPES {
        let parts = matrices(dtype, &[141], &mut numbers);
        Case::new(parts, 67, Use::AddBiased, &mut numbers).check(&[Order::Ascending]);
    }
}

#[test]
fn no_order_of_lanes_and_warps_changes_a_bit_of_a_product() {
    let mut numbers = Numbers::new(3);
    for dtype in TYPES {
        for n_rows in [3, 12, 18] {
            let parts = matrices(dtype, &[24, 24], &mut numbers);
            let how = Use::Gated(Activation::Silu);
            Case::new(parts, n_rows, how, &mut numbers).check(&Order::ALL);
        }
    }
}

#[test]
fn gates_and_biases_and_stacked_types_are_right() {
    let mut numbers = Numbers::new(4);
    for n_rows in [2, 20] {
        let gelu = Use::Gated(Activation::GeluTanh);
        let parts = matrices(DType::Q8_0, &[40, 40], &mut numbers);
        Case::new(parts, n_rows, gelu, &mut numbers).check(&[Order::Shuffled]);
        let stacked: Vec<Weights> =
            [(DType::Q4K, 32), (DType::Q6K, 17), (DType::F32, 9), (DType::BF16, 16)]
                .map(|(dtype, rows)| Weights::random(dtype, rows, 256, &mut numbers))
                .into();
        Case::new(stacked, n_rows, Use::AddBiased, &mut numbers).check(&[Order::Shuffled]);
        // A gate and an up matrix of two types are multiplied one after the other.
        for types in [[DType::Q4K, DType::Q6K], [DType::F32, DType::F16]] {
            for act in [Activation::Silu, Activation::GeluTanh] {
                let pair: Vec<Weights> =
                    types.map(|dtype| Weights::random(dtype, 24, 256, &mut numbers)).into();
                let case = Case::new(pair, n_rows, Use::Gated(act), &mut numbers);
                case.check(&[Order::Shuffled]);
            }
        }
    }
}

#[test]
fn a_row_has_the_same_bits_alone_and_among_any_number_of_others() {
    let mut numbers = Numbers::new(5);
    for dtype in TYPES {
        for how in [Use::SetNormed, Use::AddBiased, Use::Gated(Activation::Silu)] {
            let parts = matrices(dtype, &[48, 48], &mut numbers);
            let case = Case::new(parts, 70, how, &mut numbers);
            let mut backend = emulated(Order::Ascending);
            let loaded = case.load(&mut backend);
            let all = case.run_rows(&mut backend, loaded, 0, 70, &[]);
            let width = case.out_cols();
            for (first, n) in [(0, 1), (33, 8), (60, 10), (2, 16), (5, 17), (69, 1)] {
                let some = case.run_rows(&mut backend, loaded, first, n, &[]);
                assert!(
                    some == all[first * width..(first + n) * width],
                    "{dtype} {how:?} {first} {n}"
                );
            }
        }
    }
}

#[test]
fn embedding_rows_are_exact() {
    let mut numbers = Numbers::new(6);
    for dtype in TYPES {
        let tables = matrices(dtype, &[21, 18], &mut numbers);
        let sources: Vec<_> = tables.iter().map(Weights::source).collect();
        let ids = [0, 38, 20, 21, 7, 15, 16, 8];
        let mut rows = Vec::new();
        for backend in
            [&mut ReferenceBackend::new() as &mut dyn Backend, &mut emulated(Order::Shuffled)]
        {
            let table = backend.matrix(&sources, Stacking::Rows).unwrap();
            let out = backend.buffer(ids.len() * cols(dtype)).unwrap();
            backend.embed(table, &ids, out).unwrap();
            rows.push(read(backend, out, ids.len() * cols(dtype)));
        }
        for (a, b) in rows[0].iter().zip(&rows[1]) {
            // K types: the reference rounds a product and a sum, the kernel only their sum.
            assert!((a - b).abs() <= 1e-6 * (1.0 + a.abs()), "{dtype}: {a} and {b}");
        }
    }
}

#[test]
fn types_and_widths_that_no_kernel_reads_are_refused_by_name() {
    let mut backend = emulated(Order::Ascending);
    let refuse = |backend: &mut CudaBackend, dtype, cols: usize| {
        let data = vec![0; cols / dtype_len(dtype) * dtype_bytes(dtype) * 16];
        let source = MatrixSource { dtype, rows: 16, cols, data: &data };
        backend.matrix(&[source], Stacking::Rows).unwrap_err().to_string()
    };
    let text = refuse(&mut backend, DType::Q5K, 256);
    assert!(text.contains("Q5_K") && text.contains("--device cpu"), "{text}");
    let text = refuse(&mut backend, DType::BF16, 20);
    assert!(text.contains("16 × 20") && text.contains("multiple of 8"), "{text}");
}

fn dtype_len(dtype: DType) -> usize {
    dtype.block_len()
}

fn dtype_bytes(dtype: DType) -> usize {
    dtype.block_bytes()
}
