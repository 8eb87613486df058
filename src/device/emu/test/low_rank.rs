//! Low-rank terms: several sets in one step, rows without any, parts without any, before bias and gate.
//!
//! # Place
//! Tests of `kernels/shrink.cuh`, `expand.cuh`, `activate.cuh` and of `device::cuda::low_rank`.

use super::product::{Case, Use};
use super::*;
use crate::device::{Activation, LowRankRun, LowRankSource, MatrixId, ReferenceBackend};

/// One part's terms: rank, `a`, `b`.
type Part = Option<(usize, Vec<f32>, Vec<f32>)>;

/// A product, two sets of terms for it, and the set of each row.
struct Mixed {
    case: Case,
    terms: [Vec<Part>; 2],
    sets: Vec<Option<usize>>,
}

impl Mixed {
    /// The sets change every few rows, so that some warps meet both and rows without any.
    fn new(dtype: DType, rows: &[usize], how: Use, n_rows: usize) -> Self {
        let mut numbers = Numbers::new(31);
        let cols = if dtype == DType::Q4_0 { 96 } else { 104 };
        let weights = rows.iter().map(|&r| Weights::random(dtype, r, cols, &mut numbers)).collect();
        let mut set = |ranks: &[usize]| -> Vec<Part> {
            let part = |(&rows, &rank): (&usize, &usize)| {
                (rank > 0).then(|| (rank, numbers.many(rank * cols), numbers.many(rows * rank)))
            };
            rows.iter().zip(ranks.iter().cycle()).map(part).collect()
        };
        let terms = [set(&[3, 16, 0]), set(&[0, 9])];
        let case = Case::new(weights, n_rows, how, &mut numbers);
        let sets = (0..n_rows).map(|t| [Some(0), None, Some(1), Some(0), Some(1)][t / 3 % 5]);
        Self { sets: sets.collect(), case, terms }
    }

    fn sources(&self) -> [Vec<Option<LowRankSource<'_>>>; 2] {
        self.terms.each_ref().map(|parts| {
            parts
                .iter()
                .map(|p| p.as_ref().map(|(rank, a, b)| LowRankSource { rank: *rank, a, b }))
                .collect()
        })
    }

    /// The rows `first .. first + n`, with the sets that these rows have.
    fn run(&self, backend: &mut dyn Backend, first: usize, n: usize) -> Vec<f32> {
        let loaded = self.case.load(backend);
        let ids = self.sources().map(|parts| backend.low_rank(loaded.0, &parts).unwrap());
        let mut runs: Vec<LowRankRun> = Vec::new();
        for (row, set) in self.sets[first..first + n].iter().enumerate() {
            let Some(terms) = set.map(|s| ids[s]) else { continue };
            match runs.last_mut() {
                Some(run) if run.terms == terms && run.first_row + run.n_rows == row => {
                    run.n_rows += 1;
                }
                _ => runs.push(LowRankRun { first_row: row, n_rows: 1, terms }),
            }
        }
        self.case.run_rows(backend, loaded, first, n, &runs)
    }

    /// `b (a x)` of a row in f32, for the whole matrix.
    fn added(&self, row: usize, x: &[f32], y: &mut [f32]) {
        let Some(set) = self.sets[row] else { return };
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        let mut first = 0;
        for (part, weights) in self.terms[set].iter().zip(&self.case.parts) {
            if let Some((rank, a, b)) = part {
                let inner: Vec<f32> = a.chunks(x.len()).map(|a| dot(a, x)).collect();
                for (b, y) in b.chunks(*rank).zip(&mut y[first..]) {
                    *y += dot(b, &inner);
                }
            }
            first += weights.rows;
        }
    }

    #[track_caller]
    fn check(&self, orders: &[Order]) {
        let n = self.case.n_rows;
        let want = self.run(&mut ReferenceBackend::new(), 0, n);
        let plain = self.case.plain(&|row, x, y| self.added(row, x, y));
        let mut first: Option<Vec<f32>> = None;
        for &order in orders {
            let got = self.run(&mut emulated(order), 0, n);
            let what = format!("{:?} {n} rows, {order:?}", self.case.how);
            check(&what, &got, &want, &plain);
            assert!(first.get_or_insert_with(|| got.clone()) == &got, "{what}: other bits");
        }
    }
}

const USES: [Use; 3] = [Use::SetNormed, Use::AddBiased, Use::Gated(Activation::Silu)];

#[test]
fn mixed_sets_are_as_exact_as_plain_arithmetic_in_every_order() {
    for dtype in [DType::F32, DType::BF16, DType::Q4_0] {
        for how in USES {
            let rows: &[usize] =
                if matches!(how, Use::Gated(_)) { &[40, 40] } else { &[24, 16, 9] };
            Mixed::new(dtype, rows, how, 21).check(&Order::ALL);
            Mixed::new(dtype, rows, how, 1).check(&[Order::Ascending]);
        }
    }
    Mixed::new(DType::BF16, &[300], Use::AddBiased, 70).check(&[Order::Shuffled]);
}

#[test]
fn a_row_has_the_same_bits_whatever_terms_its_neighbours_have() {
    for how in USES {
        let rows: &[usize] = if matches!(how, Use::Gated(_)) { &[40, 40] } else { &[24, 25] };
        let mixed = Mixed::new(DType::BF16, rows, how, 40);
        let width = mixed.case.out_cols();
        let all = mixed.run(&mut emulated(Order::Ascending), 0, 40);
        for (first, n) in [(0, 1), (3, 3), (4, 1), (7, 12), (20, 20), (39, 1)] {
            let some = mixed.run(&mut emulated(Order::Ascending), first, n);
            assert!(some == all[first * width..(first + n) * width], "{how:?} {first} {n}");
        }
        // A row without terms is what it is when nobody has any.
        let none = Mixed { sets: vec![None; 40], ..Mixed::new(DType::BF16, rows, how, 40) };
        let plain = none.run(&mut emulated(Order::Ascending), 0, 40);
        for row in (0..40).filter(|&row| mixed.sets[row].is_none()) {
            let at = row * width..(row + 1) * width;
            assert!(all[at.clone()] == plain[at], "{how:?} row {row}");
        }
    }
}

#[test]
fn a_step_with_terms_is_recorded_once_whatever_the_sets_are() {
    let mixed = Mixed::new(DType::BF16, &[64], Use::AddBiased, 4);
    let mut backend = emulated(Order::Ascending);
    let (w, _, _) = mixed.case.load(&mut backend);
    let ids = mixed.sources().map(|parts| backend.low_rank(w, &parts).unwrap());
    let (x, out) = (write(&mut backend, &mixed.case.x), backend.buffer(4 * 64).unwrap());
    let run = |backend: &mut CudaBackend, first: usize| {
        backend.write(out, 0, &[0.0; 256]).unwrap();
        let runs =
            [0, 1].map(|i| LowRankRun { first_row: 2 * i, n_rows: 2, terms: ids[(first + i) % 2] });
        for _ in 0..4 {
            backend.matmul_add(x, w, None, out, 4, &runs).unwrap();
        }
        read(backend, out, 256)
    };
    let first = run(&mut backend, 0);
    let other = run(&mut backend, 1);
    assert_ne!(first, other, "the rows changed their sets");
    assert_eq!(run(&mut backend, 0), first);
    assert_eq!(backend.n_graphs(), 1, "one list of launches for both");
}

#[test]
fn terms_that_do_not_fit_are_refused_by_name() {
    let mixed = Mixed::new(DType::BF16, &[24, 16], Use::SetNormed, 1);
    let mut backend = emulated(Order::Ascending);
    let w: MatrixId = mixed.case.load(&mut backend).0;
    let refused = |backend: &mut CudaBackend, parts: &[Option<LowRankSource<'_>>]| {
        backend.low_rank(w, parts).unwrap_err().to_string()
    };
    let text = refused(&mut backend, &[None]);
    assert!(text.contains("emu") && text.contains("2 parts"), "{text}");
    let source = LowRankSource { rank: 2, a: &[0.0; 4], b: &[0.0; 4] };
    let text = refused(&mut backend, &[Some(source), None]);
    assert!(text.contains("2 × 104"), "{text}");
}
