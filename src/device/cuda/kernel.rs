//! The kernels by name, as `build.rs` found them in `kernels/manifest.toml`.
//!
//! # Place
//! Part of `device::cuda`. Drivers look entry points up here; the backend picks instances by their axes.

use std::ffi::CStr;

/// An entry point and how it is launched.
#[derive(Debug)]
pub(in crate::device) struct Kernel {
    #[cfg_attr(not(test), allow(dead_code, reason = "tests compare it with its place"))]
    pub(in crate::device) id: KernelId,
    pub(in crate::device) name: &'static str,
    /// Its symbol in the compiled module.
    pub(super) entry: &'static CStr,
    /// Index into [`MODULES`].
    pub(super) module: usize,
    /// Threads of a block.
    pub(in crate::device) n_threads: u32,
    /// Runs once a layer: may not spill registers.
    #[cfg_attr(not(test), allow(dead_code, reason = "read by the test of the compiler's report"))]
    pub(super) is_hot: bool,
}

/// One file of kernels.
#[derive(Debug)]
pub(super) struct Module {
    pub(super) name: &'static str,
    /// The whole source, for NVRTC.
    pub(super) source: &'static str,
    pub(super) source_hash: &'static str,
    /// What nvcc made of it, where there was nvcc.
    pub(super) image: Option<&'static [u8]>,
}

impl KernelId {
    pub(in crate::device) fn kernel(self) -> &'static Kernel {
        &KERNELS[self as usize]
    }
}

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_listed_in_the_order_of_their_ids() {
        for (i, kernel) in KERNELS.iter().enumerate() {
            assert_eq!(kernel.id as usize, i, "{}", kernel.name);
            assert!(kernel.n_threads.is_multiple_of(32), "{}: whole warps", kernel.name);
            assert!(MODULES[kernel.module].source.contains(kernel.entry.to_str().unwrap()));
        }
    }

    /// Stack frames and spills of every entry point in a compiler's report.
    fn wasteful(report: &str) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let mut entry = String::new();
        for line in report.lines() {
            if let Some(name) = line.split("Function properties for ").nth(1) {
                entry = name.trim().to_owned();
            } else if line.contains("bytes stack frame") {
                let all_zero = line.split(',').all(|part| part.trim().starts_with("0 bytes"));
                if !all_zero {
                    found.push((entry.clone(), line.trim().to_owned()));
                }
            }
        }
        found
    }

    #[test]
    fn hot_kernels_spill_no_registers_and_use_no_local_memory() {
        let sample = "ptxas info    : Function properties for tether_x\n    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads";
        assert_eq!(wasteful(sample).len(), 1, "the report's form is known");
        if REPORTS.is_empty() {
            println!("skipped: there was no nvcc when this was built");
            return;
        }
        let mut n_seen = 0;
        for report in REPORTS {
            n_seen += report.matches("Function properties for tether_").count();
            for (entry, line) in wasteful(report) {
                let kernel = KERNELS.iter().find(|k| k.entry.to_str() == Ok(&entry)).unwrap();
                assert!(!kernel.is_hot, "{entry}: {line}");
            }
        }
        // Two architectures at least.
        assert!(n_seen >= 2 * KERNELS.len(), "{n_seen} entries of {} kernels", KERNELS.len());
    }
}
