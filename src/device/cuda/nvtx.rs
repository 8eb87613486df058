//! Named ranges on the host's side, for NVIDIA's profilers: where their library is installed, nothing elsewhere.
//!
//! # Place
//! Part of `device::cuda`, used by `nvidia`.
#![allow(unsafe_code)] // calls into the profiler's library

use std::ffi::CStr;

use cudarc::nvtx::sys;

/// The library, if it is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nvtx {
    is_there: bool,
}

impl Nvtx {
    pub(super) fn look() -> Self {
        let names: [&[u8]; 2] = [b"nvtxRangePushA\0", b"nvtxRangePop\0"];
        // SAFETY: tries to open a library by name; the binding panics without it, so it is not asked before.
        let is_present = unsafe { sys::is_culib_present() };
        let has = |name: &&[u8]| {
            // SAFETY: the library is there; the symbol's address is not used.
            unsafe { sys::culib().get::<unsafe extern "C" fn()>(*name).is_ok() }
        };
        Self { is_there: is_present && names.iter().all(has) }
    }

    /// A range that ends when the value is dropped.
    pub(super) fn range(self, name: &CStr) -> Range {
        if self.is_there {
            // SAFETY: the function is there, and the text lives until the call returns.
            unsafe { sys::nvtxRangePushA(name.as_ptr()) };
        }
        Range { is_open: self.is_there }
    }
}

pub(super) struct Range {
    is_open: bool,
}

impl Drop for Range {
    fn drop(&mut self) {
        if self.is_open {
            // SAFETY: the function is there; a range was opened on this thread.
            unsafe { sys::nvtxRangePop() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_nothing_where_the_library_is_not_installed() {
        let nvtx = Nvtx::look();
        let outer = nvtx.range(c"outer");
        let inner = nvtx.range(c"inner");
        assert_eq!((outer.is_open, inner.is_open), (nvtx.is_there, nvtx.is_there));
    }
}
