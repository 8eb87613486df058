//! What the emulator must catch: a wrong kernel may not pass.
//!
//! # Place
//! Tests of `kernels/emu` and of memory limits, through launches that are wrong on purpose.
#![allow(unsafe_code)] // launches the emulator directly

use super::super::driver::EmuDriver;
use super::super::sys::{self, EmuBuffer};
use super::*;
use crate::device::DeviceError;
use crate::device::cuda::{Driver, Launch};
use crate::device::cuda::{FAULTS, GatherParams, kernel_named};

const PARAMS_ROWS: usize = 2;

/// A gather of two rows of eight columns whose output holds `out_bytes`.
fn gather(out_bytes: usize, rows: [u32; PARAMS_ROWS], skew: usize) -> Result<(), DeviceError> {
    let mut driver = EmuDriver::new(Order::Ascending, 1 << 20);
    let x = driver.allocate(64, "x").unwrap();
    let at = driver.allocate(8, "rows").unwrap();
    driver.upload(at, bytemuck::cast_slice(&rows)).unwrap();
    let out = driver.allocate(out_bytes, "out").unwrap().at(skew);
    let params = GatherParams { x, rows: at, out, n_cols: 8, pad: 0 };
    driver.launch(&Launch::new(kernel_named("gather"), [1, 2, 1], 0, &params))
}

#[test]
fn accesses_outside_of_buffers_and_misaligned_ones_name_the_thread() {
    gather(64, [0, 1], 0).unwrap();
    let text = gather(48, [0, 1], 0).unwrap_err().to_string();
    assert!(text.contains("gather, block (0, 1, 0), thread 1: write of 16 bytes"), "{text}");
    assert!(text.contains("at byte 48 of a buffer of 48 bytes"), "{text}");
    let text = gather(64, [0, 2], 0).unwrap_err().to_string();
    assert!(text.contains("read of 16 bytes"), "{text}");
    let text = gather(80, [0, 1], 4).unwrap_err().to_string();
    assert!(text.contains("not a multiple of 16"), "{text}");
}

#[test]
fn memory_that_is_short_is_an_error_with_both_numbers() {
    let mut backend = backend(Order::Ascending, 300 << 10).unwrap();
    let text = backend.buffer(1 << 20).unwrap_err().to_string();
    assert!(text.contains("4194304 bytes needed") && text.contains("free"), "{text}");
}

#[test]
fn fresh_memory_is_not_zero() {
    let mut driver = EmuDriver::new(Order::Ascending, 1 << 20);
    let at = driver.allocate(16, "x").unwrap();
    let mut bytes = [0; 16];
    driver.download(at, &mut bytes).unwrap();
    assert_eq!(bytes, [0xff; 16]);
}

/// Run a kernel that is wrong on purpose: 64 threads, an output of 64 numbers, room for `n_shared` bytes.
fn run_fault(name: &str, order: Order, n_shared: u32) -> Result<Vec<f32>, String> {
    let (_, id) = *FAULTS.iter().find(|(n, _)| *n == name).expect("a fault of the manifest");
    let mut out = vec![Floats4([0.0; 4]); 16];
    let start = out.as_mut_ptr().cast::<u8>();
    let mut params = [start as u64, u64::from(n_shared / 4)];
    let buffers = [EmuBuffer { start, n_bytes: 256 }];
    let params: &mut [u8] = bytemuck::cast_slice_mut(&mut params);
    // SAFETY: one buffer, which nothing else touches while the kernel runs.
    unsafe { sys::launch(id, [1, 1, 1], n_shared, order as u32, params, &buffers) }?;
    Ok(out.iter().flat_map(|v| v.0).collect())
}

/// Aligned as the kernels want their vectors.
#[derive(Clone, Copy)]
#[repr(align(16))]
struct Floats4([f32; 4]);

#[test]
fn a_missing_barrier_changes_the_result_in_some_order_and_a_barrier_does_not() {
    let want: Vec<f32> = (0..64).map(|i| ((i + 32) % 64) as f32).collect();
    for order in Order::ALL {
        assert_eq!(run_fault("fault_none", order, 1024).unwrap(), want);
    }
    let wrong = Order::ALL.map(|order| run_fault("fault_no_barrier", order, 1024).unwrap());
    assert!(wrong.iter().any(|out| out.iter().any(|v| v.is_nan())), "a value nobody wrote is NaN");
    assert!(wrong[0].iter().map(|v| v.is_nan()).ne(wrong[1].iter().map(|v| v.is_nan())));
}

#[test]
fn collectives_that_some_lanes_miss_and_copies_that_are_not_waited_for_are_noticed() {
    for order in Order::ALL {
        let text = run_fault("fault_half_warp", order, 0).unwrap_err();
        assert!(text.contains("16 of 32 lanes"), "{text}");
        let text = run_fault("fault_half_block", order, 0).unwrap_err();
        assert!(
            text.contains("32 threads wait at a barrier that 32 threads have passed"),
            "{text}"
        );
        let early = run_fault("fault_early_read", order, 1024).unwrap();
        assert!(early.iter().all(|v| v.is_nan()), "a copy arrives when it is waited for");
        let text = run_fault("fault_no_wait", order, 1024).unwrap_err();
        assert!(text.contains("not waited for"), "{text}");
        let text = run_fault("fault_past_shared", order, 256).unwrap_err();
        assert!(
            text.contains("thread 63: write of 4 bytes at byte 256 of 256 bytes of shared"),
            "{text}"
        );
    }
}
