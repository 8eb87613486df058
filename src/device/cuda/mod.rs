//! The decoder on CUDA kernels (`kernels/`), with everything above the launch itself the same on a GPU and on the
//! emulator.
//!
//! # Place
//! Part of `device`. [`CudaBackend`] implements `Backend` over a `Driver`: memory, copies and launches. Does not know
//! models, tokens or requests.
//! # Invariants
//! - One binary starts everywhere: the CUDA driver's library is looked for and opened at run time.
//! - A row's result has the same bits whichever kernel computed it and whatever else was in the step.

mod attend;
mod backend;
mod cache;
mod choose;
mod compile;
mod driver;
mod kernel;
mod library;
mod low_rank;
mod matrix;
mod nvidia;
mod nvtx;
mod pack;
mod params;
mod probe;
mod product;
mod queue;
mod staging;

use crate::device::DeviceError;
pub use backend::CudaBackend;
#[cfg(feature = "emu")]
pub(super) use driver::{DevicePtr, Driver, GraphId, Launch, Span};
pub use probe::{Gpu, gpus, has_driver};
use std::path::Path;

/// A backend on the first GPU that can run the kernels. `cache`: a folder for what NVRTC compiles.
///
/// # Errors
/// Why there is none, and what to do about it.
pub fn open(cache: Option<&Path>) -> Result<CudaBackend, DeviceError> {
    CudaBackend::on(Box::new(nvidia::NvidiaDriver::open(cache)?))
}

/// A kernel by the name that the manifest gives it, for tests of drivers.
#[cfg(all(test, feature = "emu"))]
pub(super) fn kernel_named(name: &str) -> kernel::KernelId {
    kernel::KERNELS.iter().find(|k| k.name == name).expect("a kernel of the manifest").id
}
#[cfg(all(test, feature = "emu"))]
pub(super) use kernel::FAULTS;
#[cfg(all(test, feature = "emu"))]
pub(super) use params::GatherParams;
