//! A [`Driver`] over NVIDIA's driver library.
//!
//! # Place
//! Part of `device::cuda`, with `probe` and `compile` the only code that calls the library.
//! # Invariants
//! - Every method first makes its context current: a backend may be made on one thread and used on another.
//! - Work goes to one stream, in order. Nothing here waits but `download` and what needs pinned memory again.
#![allow(unsafe_code)] // calls into the driver's library

use std::ffi::c_void;
use std::path::Path;

use cudarc::driver::{result, sys};
use result::DriverError;

use super::compile;
use super::driver::{DevicePtr, Driver, GraphId, Launch, Span};
use super::kernel::KERNELS;
use super::library::{self, Arrays};
use super::nvtx::Nvtx;
use super::probe::{self, Gpu, name_of, unavailable};
use crate::device::{DeviceError, DeviceMemory};

/// Uploads of at least this go through pinned memory, which the device reads at full speed.
const PINNED_MIN_BYTES: usize = 1 << 20;
const PINNED_BYTES: usize = 16 << 20;

/// Two halves of pinned memory: one is filled while the other is read.
struct Pinned {
    halves: [*mut u8; 2],
    next: usize,
}

/// Events of one list of launches.
struct Events(Vec<sys::CUevent>);

impl Drop for Events {
    fn drop(&mut self) {
        for &event in &self.0 {
            // SAFETY: made by the list's owner and destroyed once.
            let _ = unsafe { result::event::destroy(event) };
        }
    }
}

/// One GPU.
pub(super) struct NvidiaDriver {
    gpu: Gpu,
    device: sys::CUdevice,
    context: sys::CUcontext,
    stream: sys::CUstream,
    modules: Vec<sys::CUmodule>,
    functions: Vec<sys::CUfunction>,
    graphs: Vec<Option<sys::CUgraphExec>>,
    pinned: Option<Pinned>,
    how: String,
    nvtx: Nvtx,
}

// SAFETY: handles of the driver may be used from any thread whose current context is theirs, which `bind` sees to.
unsafe impl Send for NvidiaDriver {}

fn lost(error: DriverError) -> DeviceError {
    DeviceError::Lost { device: "cuda", problem: name_of(&error) }
}

impl NvidiaDriver {
    /// The first GPU that the kernels can run on. `cache`: where NVRTC's results are kept.
    ///
    /// # Errors
    /// No driver, no GPU, none that is new enough, or kernels that it does not take: each says which.
    pub(super) fn open(cache: Option<&Path>) -> Result<Self, DeviceError> {
        let gpus = probe::gpus()?;
        let problems: Vec<String> = gpus.iter().filter_map(Gpu::problem).collect();
        let Some(gpu) = gpus.into_iter().find(|gpu| gpu.problem().is_none()) else {
            return Err(unavailable(problems.join("; ")));
        };
        let start = |e: DriverError| unavailable(format!("{}: {}", gpu.name, name_of(&e)));
        let device = result::device::get(gpu.ordinal).map_err(start)?;
        // SAFETY: the device was just given; the context is released when this is dropped.
        let context = unsafe { result::primary_ctx::retain(device) }.map_err(start)?;
        let mut driver = Self {
            device,
            context,
            stream: std::ptr::null_mut(),
            modules: Vec::new(),
            functions: Vec::new(),
            graphs: Vec::new(),
            pinned: None,
            how: String::new(),
            nvtx: Nvtx::look(),
            gpu,
        };
        driver.bind().map_err(lost)?;
        driver.stream =
            result::stream::create(result::stream::StreamKind::NonBlocking).map_err(lost)?;
        driver.load(cache)?;
        Ok(driver)
    }

    fn load(&mut self, cache: Option<&Path>) -> Result<(), DeviceError> {
        let optin = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        // SAFETY: the device is this driver's.
        let shared_max =
            unsafe { result::device::get_attribute(self.device, optin) }.map_err(lost)?;
        let loaded = compile::load(&self.gpu, cache)?;
        self.modules = loaded.modules;
        self.how = loaded.how;
        for kernel in KERNELS {
            // SAFETY: a module of this context, loaded above.
            let function = unsafe {
                result::module::get_function(self.modules[kernel.module], kernel.entry.to_owned())
            }
            .map_err(lost)?;
            let size =
                sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: a function of this context.
            unsafe { result::function::set_function_attribute(function, size, shared_max) }
                .map_err(lost)?;
            self.functions.push(function);
        }
        Ok(())
    }

    fn bind(&self) -> Result<(), DriverError> {
        // SAFETY: the context is retained until this is dropped.
        unsafe { result::ctx::set_current(self.context) }
    }

    fn synchronise(&self) -> Result<(), DriverError> {
        // SAFETY: the stream is this driver's.
        unsafe { result::stream::synchronize(self.stream) }
    }

    fn start(&self, launch: &Launch) -> Result<(), DriverError> {
        let mut params = launch.params().as_ptr().cast_mut().cast::<c_void>();
        let [x, y, z] = launch.grid;
        let kernel = launch.kernel.kernel();
        // SAFETY: the function takes one struct, whose layout both compilers checked; it is copied before the call
        // returns. Its pointers are to memory that the backend keeps until the driver is idle.
        unsafe {
            sys::cuLaunchKernel(
                self.functions[launch.kernel as usize],
                x,
                y,
                z,
                kernel.n_threads,
                1,
                1,
                launch.n_shared,
                self.stream,
                &raw mut params,
                std::ptr::null_mut(),
            )
        }
        .result()
    }

    fn start_named(&self, launch: &Launch) -> Result<(), DeviceError> {
        self.start(launch).map_err(|e| DeviceError::Lost {
            device: "cuda",
            problem: format!("{} in {}", name_of(&e), launch.kernel.kernel().name),
        })
    }

    fn capture(&self, launches: &[Launch]) -> Result<sys::CUgraphExec, DeviceError> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is this driver's; a capture that began is ended below in any case.
        unsafe { result::stream::begin_capture(self.stream, mode) }.map_err(lost)?;
        let started = launches.iter().try_for_each(|launch| self.start_named(launch));
        // SAFETY: as above.
        let captured = unsafe { result::stream::end_capture(self.stream) };
        let exec = match (started, captured) {
            (Err(error), _) => Err(error),
            (Ok(()), Err(error)) => Err(lost(error)),
            (Ok(()), Ok(graph)) => {
                let flags = sys::CUgraphInstantiate_flags(0);
                // SAFETY: the graph was just made.
                unsafe { result::graph::instantiate(graph, flags) }.map_err(lost)
            }
        };
        if let Ok(graph) = captured {
            // SAFETY: as above; destroyed once.
            let _ = unsafe { result::graph::destroy(graph) };
        }
        exec
    }

    /// Run launches with an event before, between and after them.
    fn between_events(&self, launches: &[Launch]) -> Result<Vec<Span>, DriverError> {
        let mut events = Events(Vec::with_capacity(launches.len() + 1));
        for _ in 0..=launches.len() {
            events.0.push(result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT)?);
        }
        // SAFETY: the events were just made and live until the end of this function; the stream is this driver's.
        unsafe {
            result::event::record(events.0[0], self.stream)?;
            for (launch, event) in launches.iter().zip(&events.0[1..]) {
                self.start(launch)?;
                result::event::record(*event, self.stream)?;
            }
        }
        self.synchronise()?;
        // SAFETY: as above, and all of them have happened.
        let ms = |i: usize, j: usize| unsafe { result::event::elapsed(events.0[i], events.0[j]) };
        let span = |i| {
            Ok(Span { start_us: f64::from(ms(0, i)?) * 1e3, us: f64::from(ms(i, i + 1)?) * 1e3 })
        };
        (0..launches.len()).map(span).collect()
    }

    /// Copy a large array through pinned memory, half by half.
    fn upload_pinned(&mut self, to: DevicePtr, bytes: &[u8]) -> Result<(), DriverError> {
        if self.pinned.is_none() {
            // SAFETY: page-locked memory of this context, freed when this is dropped.
            let half = || unsafe { result::malloc_host(PINNED_BYTES, 0) };
            self.pinned = Some(Pinned { halves: [half()?.cast(), half()?.cast()], next: 0 });
        }
        for (i, chunk) in bytes.chunks(PINNED_BYTES).enumerate() {
            if i % 2 == 0 {
                self.synchronise()?; // both halves have been read
            }
            let pinned = self.pinned.as_mut().expect("made above");
            let half = pinned.halves[pinned.next];
            pinned.next = 1 - pinned.next;
            // SAFETY: the half is at least as long as the chunk and nobody reads it now.
            let staged = unsafe {
                half.copy_from_nonoverlapping(chunk.as_ptr(), chunk.len());
                std::slice::from_raw_parts(half, chunk.len())
            };
            // SAFETY: the destination is the backend's; the source stays until the next wait.
            unsafe { result::memcpy_htod_async(to.at(i * PINNED_BYTES).0, staged, self.stream) }?;
        }
        self.synchronise()
    }
}

impl Drop for NvidiaDriver {
    fn drop(&mut self) {
        // A lost device fails every call here; there is nothing left to do about it then.
        let _ = self.bind();
        let _ = self.synchronise();
        // SAFETY: each handle is this driver's and destroyed once. The memory goes with the context's last user or was
        // freed by the backend.
        unsafe {
            for graph in self.graphs.iter().flatten() {
                let _ = result::graph::exec_destroy(*graph);
            }
            for module in &self.modules {
                let _ = result::module::unload(*module);
            }
            if let Some(pinned) = &self.pinned {
                for half in pinned.halves {
                    let _ = result::free_host(half.cast());
                }
            }
            let _ = result::stream::destroy(self.stream);
            let _ = result::primary_ctx::release(self.device);
        }
    }
}

impl Driver for NvidiaDriver {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn description(&self) -> String {
        let Gpu { name, capability, memory_bytes, driver, .. } = &self.gpu;
        format!(
            "{name}, capability {}.{}, {:.1} GiB, driver for CUDA {}.{}, kernels by {}",
            capability.0,
            capability.1,
            *memory_bytes as f64 / f64::from(1 << 30),
            driver.0,
            driver.1,
            self.how
        )
    }

    fn memory(&self) -> Result<DeviceMemory, DeviceError> {
        self.bind().map_err(lost)?;
        let (free, total) = result::mem_get_info().map_err(lost)?;
        Ok(DeviceMemory { free: free as u64, total: total as u64 })
    }

    fn allocate(&mut self, n_bytes: usize, what: &str) -> Result<DevicePtr, DeviceError> {
        self.bind().map_err(lost)?;
        // SAFETY: the memory is undefined until it is written, which the contract says.
        match unsafe { result::malloc_sync(n_bytes.max(1)) } {
            Ok(at) => Ok(DevicePtr(at)),
            Err(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => {
                Err(DeviceError::OutOfMemory {
                    device: "cuda",
                    what: what.to_owned(),
                    need_bytes: n_bytes as u64,
                    free_bytes: self.memory()?.free,
                })
            }
            Err(error) => Err(lost(error)),
        }
    }

    fn release(&mut self, at: DevicePtr) {
        let _ = self.bind();
        let _ = self.synchronise();
        // SAFETY: allocated above, released once, and nothing runs any more.
        let _ = unsafe { result::free_sync(at.0) };
    }

    fn clear(&mut self, at: DevicePtr, n_bytes: usize) -> Result<(), DeviceError> {
        self.bind().map_err(lost)?;
        // SAFETY: memory of the backend.
        unsafe { result::memset_d8_async(at.0, 0, n_bytes, self.stream) }.map_err(lost)
    }

    fn upload(&mut self, to: DevicePtr, bytes: &[u8]) -> Result<(), DeviceError> {
        self.bind().map_err(lost)?;
        if bytes.len() >= PINNED_MIN_BYTES {
            return self.upload_pinned(to, bytes).map_err(lost);
        }
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: memory of the backend. The call returns when pageable memory has been read.
        unsafe { result::memcpy_htod_async(to.0, bytes, self.stream) }.map_err(lost)
    }

    fn download(&mut self, from: DevicePtr, out: &mut [u8]) -> Result<(), DeviceError> {
        self.bind().map_err(lost)?;
        let _range = self.nvtx.range(c"tether wait and read");
        if !out.is_empty() {
            // SAFETY: memory of the backend; `out` is not touched before the wait below.
            unsafe { result::memcpy_dtoh_async(out, from.0, self.stream) }.map_err(lost)?;
        }
        self.synchronise().map_err(lost)
    }

    fn wait(&mut self) -> Result<(), DeviceError> {
        self.bind().and_then(|()| self.synchronise()).map_err(lost)
    }

    fn launch(&mut self, launch: &Launch) -> Result<(), DeviceError> {
        self.bind().map_err(lost)?;
        let _range = self.nvtx.range(launch.kernel.kernel().entry);
        self.start_named(launch)
    }

    fn time(&mut self, launches: &[Launch]) -> Result<Vec<Span>, DeviceError> {
        probe::check_timing()?;
        self.bind().map_err(lost)?;
        self.between_events(launches).map_err(lost)
    }

    fn time_library(&mut self, sizes: (usize, usize, usize)) -> Result<Option<f64>, DeviceError> {
        if !library::is_there() || probe::check_timing().is_err() {
            return Ok(None);
        }
        let (n_rows, n_cols, n_outputs) = sizes;
        let what = "a product of the library";
        let (x_bytes, w_bytes) = (2 * n_rows * n_cols, 2 * n_outputs * n_cols);
        let arrays = Arrays {
            xs: self.allocate(x_bytes, what)?,
            w: self.allocate(w_bytes, what)?,
            out: self.allocate(4 * n_rows * n_outputs, what)?,
            workspace: self.allocate(library::WORKSPACE_BYTES, what)?,
        };
        self.clear(arrays.xs, x_bytes)?;
        self.clear(arrays.w, w_bytes)?;
        // SAFETY: arrays of these sizes; `clear` made the context current.
        let us = unsafe { library::time(self.stream, &arrays, sizes) };
        for at in [arrays.xs, arrays.w, arrays.out, arrays.workspace] {
            self.release(at);
        }
        match us {
            Ok(us) => Ok(Some(us)),
            Err(library::Failure::Library) => Ok(None),
            Err(library::Failure::Device(error)) => Err(lost(error)),
        }
    }

    fn record(&mut self, launches: &[Launch]) -> Result<GraphId, DeviceError> {
        self.bind().map_err(lost)?;
        let _range = self.nvtx.range(c"tether record");
        let exec = self.capture(launches)?;
        let free = self.graphs.iter().position(Option::is_none);
        let i = free.unwrap_or_else(|| {
            self.graphs.push(None);
            self.graphs.len() - 1
        });
        self.graphs[i] = Some(exec);
        Ok(GraphId(i as u32))
    }

    fn replay(&mut self, graph: GraphId) -> Result<(), DeviceError> {
        self.bind().map_err(lost)?;
        let _range = self.nvtx.range(c"tether replay");
        let exec = self.graphs[graph.0 as usize].expect("a graph that is kept");
        // SAFETY: the graph's memory is the backend's, as for single launches.
        unsafe { result::graph::launch(exec, self.stream) }.map_err(lost)
    }

    fn forget(&mut self, graph: GraphId) {
        let _ = self.bind();
        let _ = self.synchronise();
        if let Some(exec) = self.graphs[graph.0 as usize].take() {
            // SAFETY: taken out of the list, so destroyed once.
            let _ = unsafe { result::graph::exec_destroy(exec) };
        }
    }
}
