//! What the backend asks of a machine that runs kernels: memory, copies, launches, recorded launches.
//!
//! # Place
//! Part of `device::cuda`. Implemented over the CUDA driver by [`super::nvidia`] and over host memory by the
//! emulator; everything above is the same code on both.
//! # Invariants
//! - Launches and copies take effect in the order in which they were asked for.
//! - `download` returns only when everything before it has finished: what is read is final.

use bytemuck::{Pod, Zeroable};

use super::kernel::KernelId;
use super::params::Params;
use crate::device::{DeviceError, DeviceMemory};

/// An address on the device; 0 is "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Pod, Zeroable)]
#[repr(transparent)]
pub(in crate::device) struct DevicePtr(pub(in crate::device) u64);

impl DevicePtr {
    pub(in crate::device) const NONE: Self = Self(0);

    /// The address `n_bytes` further on.
    pub(in crate::device) fn at(self, n_bytes: usize) -> Self {
        Self(self.0 + n_bytes as u64)
    }
}

/// Launches that a driver keeps in a form that is quick to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::device) struct GraphId(pub(in crate::device) u32);

/// Longest parameter struct, in 8-byte words.
const PARAM_WORDS: usize = 17;

/// One kernel launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::device) struct Launch {
    pub(in crate::device) kernel: KernelId,
    pub(in crate::device) grid: [u32; 3],
    /// Shared memory of a block, in bytes.
    pub(in crate::device) n_shared: u32,
    n_params: u32,
    params: [u64; PARAM_WORDS],
}

impl Launch {
    pub(in crate::device) fn new<P: Params>(
        kernel: KernelId,
        grid: [usize; 3],
        n_shared: usize,
        params: &P,
    ) -> Self {
        const { assert!(size_of::<P>() <= 8 * PARAM_WORDS) };
        let mut words = [0; PARAM_WORDS];
        bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..size_of::<P>()]
            .copy_from_slice(bytemuck::bytes_of(params));
        let side = |n: usize| u32::try_from(n).expect("grids are small");
        Self {
            kernel,
            grid: grid.map(side),
            n_shared: side(n_shared),
            n_params: size_of::<P>() as u32,
            params: words,
        }
    }

    /// The parameter struct's bytes, aligned to 8.
    pub(in crate::device) fn params(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.params)[..self.n_params as usize]
    }
}

/// When a launch ran, in microseconds since the first one of its list began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::device) struct Span {
    pub(in crate::device) start_us: f64,
    pub(in crate::device) us: f64,
}

/// A machine that runs kernels.
pub(in crate::device) trait Driver: Send {
    /// `cuda` or `emu`.
    fn name(&self) -> &'static str;
    fn description(&self) -> String;
    fn memory(&self) -> Result<DeviceMemory, DeviceError>;

    /// Memory with undefined contents, aligned to 256 bytes.
    ///
    /// # Errors
    /// When it is short; the error says how much is free.
    fn allocate(&mut self, n_bytes: usize, what: &str) -> Result<DevicePtr, DeviceError>;
    fn release(&mut self, at: DevicePtr);
    fn clear(&mut self, at: DevicePtr, n_bytes: usize) -> Result<(), DeviceError>;
    /// `bytes` may be dropped when this returns.
    fn upload(&mut self, to: DevicePtr, bytes: &[u8]) -> Result<(), DeviceError>;
    fn download(&mut self, from: DevicePtr, out: &mut [u8]) -> Result<(), DeviceError>;

    /// Return when everything before has finished.
    fn wait(&mut self) -> Result<(), DeviceError>;

    fn launch(&mut self, launch: &Launch) -> Result<(), DeviceError>;
    /// Run launches one by one and wait for them: when each began and how long it took.
    fn time(&mut self, launches: &[Launch]) -> Result<Vec<Span>, DeviceError>;
    /// Microseconds that the vendor's own library takes for a bf16 product `[T, C] · [R, C]ᵀ`; `None` where there is none.
    fn time_library(&mut self, sizes: (usize, usize, usize)) -> Result<Option<f64>, DeviceError> {
        let _ = sizes;
        Ok(None)
    }
    /// Keep launches for [`Driver::replay`], without running them.
    fn record(&mut self, launches: &[Launch]) -> Result<GraphId, DeviceError>;
    fn replay(&mut self, graph: GraphId) -> Result<(), DeviceError>;
    fn forget(&mut self, graph: GraphId);
}
