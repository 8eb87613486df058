//! Big zeroed blocks of memory, aligned for vectors and advised to use huge pages.
//!
//! # Place
//! Part of `device::cpu::simd`. Weights are carved out of a few large blocks ([`Arena`]) so that a
//! model of many small matrices still lies on huge pages; a cache is one [`Block`].
//! # Invariants
//! - Fresh blocks are zero, and untouched pages cost no memory on unix.
//! - Blocks are shared between threads as raw pointers; who writes which bytes is the caller's duty.
#![allow(unsafe_code)] // raw memory

use std::ptr::NonNull;

use crate::device::DeviceError;

/// Alignment of everything handed out: a cache line and a 512-bit vector.
pub(super) const ALIGN: usize = 64;
/// Blocks of an arena: large enough for huge pages to pay, small enough not to waste memory.
const ARENA_BLOCK_BYTES: usize = 32 << 20;
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Whether a block should lie on huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pages {
    /// Read through at full speed, all of it used.
    Huge,
    /// Used little by little.
    Small,
}

/// One zeroed block.
pub(super) struct Block {
    start: NonNull<u8>,
    map_start: NonNull<u8>,
    map_bytes: usize,
    n_bytes: usize,
}

// SAFETY: a block is plain memory that no thread owns; access goes through raw pointers whose users
// divide it among themselves.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    pub(super) fn new(n_bytes: usize, pages: Pages, what: &str) -> Result<Self, DeviceError> {
        let extra = if pages == Pages::Huge { HUGE_PAGE_BYTES } else { ALIGN };
        let map_bytes = n_bytes.saturating_add(extra);
        let map_start = map(map_bytes).ok_or_else(|| DeviceError::OutOfMemory {
            device: "cpu",
            what: what.to_owned(),
            need_bytes: n_bytes as u64,
            free_bytes: free_bytes(),
        })?;
        let skip = map_start.as_ptr().align_offset(extra);
        // SAFETY: the map is `extra` bytes longer than the block.
        let start = unsafe { map_start.add(skip) };
        if pages == Pages::Huge {
            advise_huge(start, n_bytes);
        }
        Ok(Self { start, map_start, map_bytes, n_bytes })
    }

    pub(super) fn ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(super) fn n_bytes(&self) -> usize {
        self.n_bytes
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        unmap(self.map_start, self.map_bytes);
    }
}

#[cfg(unix)]
fn map(n_bytes: usize) -> Option<NonNull<u8>> {
    // SAFETY: a fresh private anonymous mapping touches no existing memory.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            n_bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return None;
    }
    NonNull::new(start.cast())
}

#[cfg(unix)]
fn unmap(start: NonNull<u8>, n_bytes: usize) {
    // SAFETY: exactly the mapping that `map` made, which nobody uses any more.
    unsafe { libc::munmap(start.as_ptr().cast(), n_bytes) };
}

#[cfg(not(unix))]
fn layout(n_bytes: usize) -> Option<std::alloc::Layout> {
    std::alloc::Layout::from_size_align(n_bytes.max(1), ALIGN).ok()
}

#[cfg(not(unix))]
fn map(n_bytes: usize) -> Option<NonNull<u8>> {
    // SAFETY: the layout's size is not zero.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(layout(n_bytes)?) })
}

#[cfg(not(unix))]
fn unmap(start: NonNull<u8>, n_bytes: usize) {
    if let Some(layout) = layout(n_bytes) {
        // SAFETY: allocated in `map` with this layout.
        unsafe { std::alloc::dealloc(start.as_ptr(), layout) };
    }
}

#[cfg(target_os = "linux")]
fn advise_huge(start: NonNull<u8>, n_bytes: usize) {
    // SAFETY: advice about our own mapping; a refusal only means small pages.
    unsafe { libc::madvise(start.as_ptr().cast(), n_bytes, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn advise_huge(_start: NonNull<u8>, _n_bytes: usize) {}

#[cfg(unix)]
fn free_bytes() -> u64 {
    // SAFETY: reads two system constants.
    let (pages, size) =
        unsafe { (libc::sysconf(libc::_SC_AVPHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    u64::try_from(pages).unwrap_or(0) * u64::try_from(size).unwrap_or(0)
}

#[cfg(not(unix))]
fn free_bytes() -> u64 {
    0
}

/// Memory that is only ever added to.
#[derive(Default)]
pub(super) struct Arena {
    blocks: Vec<Block>,
    used: usize,
    n_bytes: u64,
}

impl Arena {
    /// `n_bytes` zeroed bytes that live as long as the arena.
    pub(super) fn take(&mut self, n_bytes: usize, what: &str) -> Result<NonNull<u8>, DeviceError> {
        let n_bytes = n_bytes.next_multiple_of(ALIGN);
        let free = self.blocks.last().map_or(0, |b| b.n_bytes() - self.used);
        if free < n_bytes {
            let size = n_bytes.max(ARENA_BLOCK_BYTES);
            self.blocks.push(Block::new(size, Pages::Huge, what)?);
            self.used = 0;
        }
        let block = self.blocks.last().expect("a block was just made when none had room");
        // SAFETY: `used + n_bytes` is within the block.
        let start = unsafe { block.start.add(self.used) };
        self.used += n_bytes;
        self.n_bytes += n_bytes as u64;
        Ok(start)
    }

    /// Bytes handed out.
    pub(super) fn n_bytes(&self) -> u64 {
        self.n_bytes
    }
}

/// A growing vector of f32 on cache-line boundaries: activations, and scratch of one thread.
pub(super) struct Floats {
    block: Block,
    len: usize,
}

impl Floats {
    /// `len` zeros.
    pub(super) fn new(len: usize, what: &str) -> Result<Self, DeviceError> {
        let block = Block::new(len.saturating_mul(4), Pages::Small, what)?;
        Ok(Self { block, len })
    }

    /// Make room for `len` elements; contents are lost when it grows.
    pub(super) fn reserve(&mut self, len: usize, what: &str) -> Result<(), DeviceError> {
        if len > self.len {
            *self = Self::new(len.next_multiple_of(1024), what)?;
        }
        Ok(())
    }

    pub(super) fn ptr(&self) -> *mut f32 {
        self.block.ptr().cast()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn as_slice(&self) -> &[f32] {
        // SAFETY: `len` zeroed or written f32; writers hold the backend by `&mut`.
        unsafe { std::slice::from_raw_parts(self.ptr(), self.len) }
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [f32] {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.ptr(), self.len) }
    }
}
