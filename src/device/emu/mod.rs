//! The CUDA kernels, run on the host for tests.
//!
//! # Place
//! Part of `device`, with the feature `emu` only. `EmuDriver` is a `Driver` as the CUDA one is; the backend above it
//! does not know which it has.
//! # Invariants
//! - Every access of a kernel to memory is checked; a wrong one ends the launch with an error that names the thread.
//! - Fresh memory holds 0xff bytes, NaN as a float: what nobody wrote does not pass for zero.

mod driver;
mod sys;

use crate::device::{CudaBackend, DeviceError};
use driver::EmuDriver;
pub use driver::Order;

/// Whether this build has the emulator.
pub const IS_BUILT_IN: bool = true;

/// Memory that the emulated device is said to have unless a test says otherwise, in bytes.
const MEMORY_BYTES: u64 = 16 << 30;

/// The CUDA backend on emulated kernels.
///
/// # Errors
/// When memory is short.
pub fn open() -> Result<CudaBackend, DeviceError> {
    backend(Order::Ascending, MEMORY_BYTES)
}

/// The CUDA backend on emulated kernels, on a device that is said to have `total_bytes` of memory.
///
/// # Errors
/// When that is too little even for an empty backend.
pub fn backend(order: Order, total_bytes: u64) -> Result<CudaBackend, DeviceError> {
    CudaBackend::on(Box::new(EmuDriver::new(order, total_bytes)))
}

#[cfg(test)]
mod test;
