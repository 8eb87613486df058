//! A [`Driver`] over host memory and the emulated kernels.
//!
//! # Place
//! Part of `device::emu`.
#![allow(unsafe_code)] // buffers are raw memory that kernels write

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::time::Instant;

use super::sys::{self, EmuBuffer};
use crate::device::cuda::{DevicePtr, Driver, GraphId, Launch, Span};
use crate::device::{DeviceError, DeviceMemory};

/// In which order a block's warps and a warp's lanes run. A kernel without a missing barrier does not notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Order {
    Ascending = 0,
    Descending = 1,
    Shuffled = 2,
}

impl Order {
    pub const ALL: [Self; 3] = [Self::Ascending, Self::Descending, Self::Shuffled];
}

const ALIGNMENT: usize = 256;

/// Memory that the emulated device is said to have.
#[derive(Clone, Copy, Debug)]
struct Capacity {
    total: u64,
    used: u64,
}

/// Kernels on the host.
pub(in crate::device) struct EmuDriver {
    order: Order,
    capacity: Capacity,
    /// Start → length.
    buffers: BTreeMap<usize, usize>,
    /// The same for the emulator; rebuilt when it is out of date.
    list: Vec<EmuBuffer>,
    graphs: Vec<Option<Vec<Launch>>>,
}

// SAFETY: the pointers in `list` are to memory that this driver alone owns.
unsafe impl Send for EmuDriver {}

impl EmuDriver {
    pub(in crate::device) fn new(order: Order, total_bytes: u64) -> Self {
        Self {
            order,
            capacity: Capacity { total: total_bytes, used: 0 },
            buffers: BTreeMap::new(),
            list: Vec::new(),
            graphs: Vec::new(),
        }
    }

    /// The buffer that holds all of these bytes.
    fn check(&self, at: DevicePtr, n_bytes: usize) -> *mut u8 {
        let start = at.0 as usize;
        let inside = self
            .buffers
            .range(..=start)
            .next_back()
            .is_some_and(|(&first, &n)| start - first <= n && n_bytes <= n - (start - first));
        assert!(inside, "{n_bytes} bytes at {start:#x} lie in no buffer");
        start as *mut u8
    }
}

impl Drop for EmuDriver {
    fn drop(&mut self) {
        let starts: Vec<usize> = self.buffers.keys().copied().collect();
        starts.into_iter().for_each(|start| self.release(DevicePtr(start as u64)));
    }
}

fn layout(n_bytes: usize) -> Layout {
    Layout::from_size_align(n_bytes, ALIGNMENT).expect("sizes were checked against the capacity")
}

impl Driver for EmuDriver {
    fn name(&self) -> &'static str {
        "emu"
    }

    fn description(&self) -> String {
        "CUDA kernels compiled for the host, for tests".to_owned()
    }

    fn memory(&self) -> Result<DeviceMemory, DeviceError> {
        let Capacity { total, used } = self.capacity;
        Ok(DeviceMemory { free: total - used, total })
    }

    fn allocate(&mut self, n_bytes: usize, what: &str) -> Result<DevicePtr, DeviceError> {
        let n_bytes = n_bytes.max(1);
        let free_bytes = self.capacity.total - self.capacity.used;
        let short = || DeviceError::OutOfMemory {
            device: "emu",
            what: what.to_owned(),
            need_bytes: n_bytes as u64,
            free_bytes,
        };
        if n_bytes as u64 > free_bytes {
            return Err(short());
        }
        // SAFETY: the size is not zero.
        let start = unsafe { alloc(layout(n_bytes)) };
        if start.is_null() {
            return Err(short());
        }
        // SAFETY: fresh memory of this size.
        unsafe { start.write_bytes(0xff, n_bytes) };
        self.capacity.used += n_bytes as u64;
        self.buffers.insert(start as usize, n_bytes);
        self.list.clear();
        Ok(DevicePtr(start as u64))
    }

    fn release(&mut self, at: DevicePtr) {
        let n_bytes = self.buffers.remove(&(at.0 as usize)).expect("a buffer is released once");
        self.capacity.used -= n_bytes as u64;
        self.list.clear();
        // SAFETY: allocated above with this layout, and no longer listed.
        unsafe { dealloc(at.0 as *mut u8, layout(n_bytes)) };
    }

    fn clear(&mut self, at: DevicePtr, n_bytes: usize) -> Result<(), DeviceError> {
        let start = self.check(at, n_bytes);
        // SAFETY: the bytes lie in a buffer.
        unsafe { start.write_bytes(0, n_bytes) };
        Ok(())
    }

    fn upload(&mut self, to: DevicePtr, bytes: &[u8]) -> Result<(), DeviceError> {
        let start = self.check(to, bytes.len());
        // SAFETY: the bytes lie in a buffer, which no Rust slice overlaps.
        unsafe { start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    fn download(&mut self, from: DevicePtr, out: &mut [u8]) -> Result<(), DeviceError> {
        let start = self.check(from, out.len());
        // SAFETY: as above.
        unsafe { start.copy_to_nonoverlapping(out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    fn wait(&mut self) -> Result<(), DeviceError> {
        Ok(()) // launches end before they return
    }

    fn launch(&mut self, launch: &Launch) -> Result<(), DeviceError> {
        if self.list.is_empty() {
            self.list = self
                .buffers
                .iter()
                .map(|(&start, &n_bytes)| EmuBuffer { start: start as *mut u8, n_bytes })
                .collect();
        }
        let Launch { kernel, grid, n_shared, .. } = *launch;
        // SAFETY: the map keeps the buffers in order; no references into them exist.
        let done = unsafe {
            sys::launch(
                kernel as u32,
                grid,
                n_shared,
                self.order as u32,
                launch.params(),
                &self.list,
            )
        };
        done.map_err(|problem| DeviceError::Lost { device: "emu", problem })
    }

    fn time(&mut self, launches: &[Launch]) -> Result<Vec<Span>, DeviceError> {
        let first = Instant::now();
        let us = |since: Instant| since.elapsed().as_secs_f64() * 1e6;
        let mut spans = Vec::with_capacity(launches.len());
        for launch in launches {
            let start_us = us(first);
            self.launch(launch)?;
            spans.push(Span { start_us, us: us(first) - start_us });
        }
        Ok(spans)
    }

    fn record(&mut self, launches: &[Launch]) -> Result<GraphId, DeviceError> {
        self.graphs.push(Some(launches.to_vec()));
        Ok(GraphId(self.graphs.len() as u32 - 1))
    }

    fn replay(&mut self, graph: GraphId) -> Result<(), DeviceError> {
        let launches = self.graphs[graph.0 as usize].take().expect("a graph that is kept");
        let done = launches.iter().try_for_each(|launch| self.launch(launch));
        self.graphs[graph.0 as usize] = Some(launches);
        done
    }

    fn forget(&mut self, graph: GraphId) {
        self.graphs[graph.0 as usize] = None;
    }
}
