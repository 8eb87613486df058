//! The emulator's C++ side, as `kernels/emu/emu.hpp` declares it.
//!
//! # Place
//! Part of `device::emu`.
#![allow(unsafe_code)] // a foreign function that runs kernels over host memory

use std::ffi::{CStr, c_char, c_int, c_void};

/// A buffer that kernels may touch.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct EmuBuffer {
    pub(super) start: *mut u8,
    pub(super) n_bytes: usize,
}

#[repr(C)]
struct EmuLaunch {
    kernel: u32,
    grid: [u32; 3],
    n_shared: u32,
    order: u32,
    params: *const c_void,
    n_params: usize,
    buffers: *const EmuBuffer,
    n_buffers: usize,
}

unsafe extern "C" {
    fn tether_emu_launch(launch: *const EmuLaunch, message: *mut c_char, n_message: usize)
    -> c_int;
}

/// Run one launch to its end.
///
/// # Errors
/// What a thread did wrong.
/// # Safety
/// `buffers` are in ascending order, do not overlap, and no Rust reference into them is alive.
pub(super) unsafe fn launch(
    kernel: u32,
    grid: [u32; 3],
    n_shared: u32,
    order: u32,
    params: &[u8],
    buffers: &[EmuBuffer],
) -> Result<(), String> {
    let launch = EmuLaunch {
        kernel,
        grid,
        n_shared,
        order,
        params: params.as_ptr().cast(),
        n_params: params.len(),
        buffers: buffers.as_ptr(),
        n_buffers: buffers.len(),
    };
    let mut message = [0 as c_char; 512];
    // SAFETY: the struct and what it points to live until the call returns; the emulator checks every access of the
    // kernel against `buffers`; it writes at most `message.len()` bytes, ending in zero.
    let code = unsafe { tether_emu_launch(&raw const launch, message.as_mut_ptr(), message.len()) };
    if code == 0 {
        return Ok(());
    }
    // SAFETY: as above.
    let text = unsafe { CStr::from_ptr(message.as_ptr()) };
    Err(text.to_string_lossy().into_owned())
}
