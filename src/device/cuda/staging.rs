//! The small arrays that change with every step: written on the host, uploaded in one copy.
//!
//! # Place
//! Part of `device::cuda`. Each array has a fixed address, so that the launches of two steps of one shape are equal
//! and a recorded graph serves both.

use super::driver::{DevicePtr, Driver};
use crate::device::DeviceError;

/// The arrays, small ones first: an upload ends with the last one that a step wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Ids,
    Positions,
    Slots,
    RowSeqs,
    GatherRows,
    Seqs,
    /// Work of attention without and with a window, in splits and by rows.
    SplitItems,
    RowItems,
    WindowSplitItems,
    WindowRowItems,
    Blocks,
    Tree,
    /// Which low-rank terms the rows have; products whose matrices count their sets differently, and those of the last
    /// layer's rows, differ.
    Terms0,
    Terms1,
    Terms2,
    Terms3,
    SlotPairs,
    Mask,
}

const N_SECTIONS: usize = Section::Mask as usize + 1;

/// First sizes in bytes: enough for a full step of the default limits. An array that grows past it is moved.
const FIRST_BYTES: [usize; N_SECTIONS] = [
    2 << 10,
    2 << 10,
    2 << 10,
    2 << 10,
    2 << 10,
    2 << 10,
    4 << 10,
    8 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    8 << 10,
    2 << 10,
    2 << 10,
    2 << 10,
    2 << 10,
    8 << 10,
    24 << 10,
];

/// Host and device copies of the arrays.
#[derive(Debug)]
pub(super) struct Staging {
    sizes: [usize; N_SECTIONS],
    /// Bytes written since the last upload, of each array.
    dirty: [usize; N_SECTIONS],
    host: Vec<u8>,
    device: DevicePtr,
}

/// What became of an array that was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    Done(DevicePtr),
    /// Launches that wait still need the old contents: run them, then put again.
    InUse,
    /// It does not fit: run what waits, grow, then put again.
    TooSmall,
}

impl Staging {
    pub(super) fn new(driver: &mut dyn Driver) -> Result<Self, DeviceError> {
        Self::with_sizes(driver, FIRST_BYTES)
    }

    fn with_sizes(
        driver: &mut dyn Driver,
        sizes: [usize; N_SECTIONS],
    ) -> Result<Self, DeviceError> {
        let n_bytes = sizes.iter().sum();
        let device = driver.allocate(n_bytes, "the arrays of a step")?;
        driver.clear(device, n_bytes)?;
        Ok(Self { sizes, dirty: [0; N_SECTIONS], host: vec![0; n_bytes], device })
    }

    pub(super) fn n_bytes(&self) -> usize {
        self.host.len()
    }

    /// Whether an array was put since the last upload.
    pub(super) fn is_dirty(&self, section: Section) -> bool {
        self.dirty[section as usize] > 0
    }

    /// Whether an array begins with `bytes`.
    pub(super) fn holds(&self, section: Section, bytes: &[u8]) -> bool {
        let i = section as usize;
        let start: usize = self.sizes[..i].iter().sum();
        bytes.len() <= self.sizes[i] && &self.host[start..start + bytes.len()] == bytes
    }

    /// Replace an array's contents.
    pub(super) fn put(&mut self, section: Section, bytes: &[u8]) -> Put {
        let i = section as usize;
        if bytes.len() > self.sizes[i] {
            return Put::TooSmall;
        }
        let start: usize = self.sizes[..i].iter().sum();
        let old = &mut self.host[start..start + bytes.len()];
        if old != bytes {
            if self.dirty[i] > 0 {
                return Put::InUse;
            }
            old.copy_from_slice(bytes);
        }
        self.dirty[i] = self.dirty[i].max(bytes.len());
        Put::Done(self.device.at(start))
    }

    /// Move everything to make room for `n_bytes` in an array. Nothing may wait for the old addresses.
    pub(super) fn grow(
        &mut self,
        driver: &mut dyn Driver,
        section: Section,
        n_bytes: usize,
    ) -> Result<(), DeviceError> {
        let mut sizes = self.sizes;
        sizes[section as usize] = n_bytes.next_power_of_two();
        let old = std::mem::replace(self, Self::with_sizes(driver, sizes)?);
        driver.release(old.device);
        Ok(())
    }

    /// Bring the device's copy up to date: one copy, from the first array to the end of the last one written.
    pub(super) fn upload(&mut self, driver: &mut dyn Driver) -> Result<(), DeviceError> {
        let Some(last) = (0..N_SECTIONS).rev().find(|&i| self.dirty[i] > 0) else {
            return Ok(());
        };
        let end = self.sizes[..last].iter().sum::<usize>() + self.dirty[last];
        self.dirty = [0; N_SECTIONS];
        driver.upload(self.device, &self.host[..end])
    }
}
