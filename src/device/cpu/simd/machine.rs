//! What the processor says about itself: its name, and how many threads share a core.
//!
//! # Place
//! Part of `device::cpu::simd`. Asks the processor, not the operating system's files.
//! # Sources
//! AMD64 Architecture Programmer's Manual volume 3, appendix E (functions 0x8000_0002 and 0x0B).

use std::num::NonZeroUsize;

/// One thread per core that this process may use: hyper-threads of one core share its vector units.
pub(super) fn default_threads() -> NonZeroUsize {
    let all = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    NonZeroUsize::new(all.get() / threads_per_core()).unwrap_or(NonZeroUsize::MIN)
}

#[cfg(target_arch = "x86_64")]
fn threads_per_core() -> usize {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    if __cpuid(0).eax < 0x0B {
        return 1;
    }
    // Bits 15..0 of EBX at the first level: logical processors of one core, 0 when not told.
    ((__cpuid_count(0x0B, 0).ebx & 0xFFFF) as usize).max(1)
}

#[cfg(not(target_arch = "x86_64"))]
fn threads_per_core() -> usize {
    1
}

/// The processor's name, or the architecture where it does not tell.
#[cfg(target_arch = "x86_64")]
pub(super) fn name() -> String {
    use std::arch::x86_64::__cpuid;
    if __cpuid(0x8000_0000).eax < 0x8000_0004 {
        return std::env::consts::ARCH.to_owned();
    }
    let bytes: Vec<u8> = (0x8000_0002..=0x8000_0004)
        .map(__cpuid)
        .flat_map(|r| [r.eax, r.ebx, r.ecx, r.edx])
        .flat_map(u32::to_le_bytes)
        .take_while(|&b| b != 0)
        .collect();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn name() -> String {
    std::env::consts::ARCH.to_owned()
}
