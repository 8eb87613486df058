//! Selection, copies of rows, and the lanes themselves.
//!
//! # Place
//! Tests of `device::cpu::simd`.

use proptest::prelude::*;

use super::*;
use crate::device::cpu::ReferenceBackend;

#[track_caller]
fn check_argmax(values: &[f32], n_valid: usize, mask: Option<&[u32]>) {
    let run = |backend: &mut dyn Backend| {
        let logits = buffer_of(backend, &[values, values].concat());
        backend.argmax(logits, values.len(), 1, n_valid, mask).unwrap()
    };
    let want = run(&mut ReferenceBackend::new());
    for (name, mut backend) in every_backend() {
        assert_eq!(run(&mut backend), want, "{name}");
    }
}

#[test]
fn argmax_takes_the_lowest_of_equals_and_ignores_the_tail_and_nan() {
    let mut values = vec![0.5; 100];
    check_argmax(&values, 100, None);
    values[99] = 9.0;
    values[40] = 2.0;
    values[70] = 2.0;
    values[3] = f32::NAN;
    check_argmax(&values, 99, None);
    check_argmax(&values, 100, None);
    check_argmax(&values, 100, Some(&[!0, !256, !0, 7]));
    check_argmax(&values, 100, Some(&[0, 0, 0, 0]));
    check_argmax(&values, 0, None);
    check_argmax(&[f32::NEG_INFINITY; 40], 40, Some(&[0, 6]));
    check_argmax(&[-0.0, 0.0, 0.0], 3, None);
    check_argmax(&[f32::INFINITY; 33], 33, Some(&[0, 1]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn argmax_is_the_references_for_any_mask(
        values in prop::collection::vec(-3i8..3, 1..200),
        mask in prop::collection::vec(any::<u32>(), 7),
        cut in 0usize..200,
    ) {
        let values: Vec<f32> = values.into_iter().map(f32::from).collect();
        check_argmax(&values, cut.min(values.len()), Some(&mask));
    }
}

#[test]
fn gathered_rows_are_copies() {
    let mut backend = CpuBackend::new(None).unwrap();
    let x = buffer_of(&mut backend, &(0..20).map(|i| i as f32).collect::<Vec<_>>());
    let out = backend.buffer(15).unwrap();
    backend.gather(x, 5, &[3, 0, 3], out).unwrap();
    let want: Vec<f32> =
        [15, 16, 17, 18, 19, 0, 1, 2, 3, 4, 15, 16, 17, 18, 19].map(|i| i as f32).into();
    assert_eq!(read(&mut backend, out, 15), want);
}

#[test]
fn a_token_outside_the_embedding_is_an_assertion_and_no_wild_read() {
    let result = std::panic::catch_unwind(|| {
        let mut backend = CpuBackend::new(None).unwrap();
        let data = [0u8; 64];
        let table = backend
            .matrix(&[source(DType::F32, 4, 4, &data)], crate::device::Stacking::Rows)
            .unwrap();
        let out = backend.buffer(4).unwrap();
        backend.embed(table, &[4], out)
    });
    assert!(result.is_err());
}
