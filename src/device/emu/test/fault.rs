//! What the emulator must catch: a wrong kernel may not pass.
//!
//! # Place
//! Tests of `kernels/emu` and of memory limits, through launches that are wrong on purpose.

use super::super::driver::EmuDriver;
use super::*;
use crate::device::DeviceError;
use crate::device::cuda::{Driver, Launch};
use crate::device::cuda::{GatherParams, kernel_named};

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
