//! Stands in for the emulator in a build without the feature `emu`.
//!
//! # Place
//! Part of `device`.

use super::{CudaBackend, DeviceError};

/// Whether this build has the emulator.
pub const IS_BUILT_IN: bool = false;

/// # Errors
/// Always: it says how to build with the emulator.
pub fn open() -> Result<CudaBackend, DeviceError> {
    Err(DeviceError::Unavailable {
        device: "emu",
        problem:
            "this program was built without it; build with `cargo build --release --features emu`"
                .to_owned(),
    })
}
