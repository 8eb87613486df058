//! Which GPUs there are, and why not: looked up so that a missing or old driver is an answer and not a crash.
//!
//! # Place
//! Part of `device::cuda`. The binding panics when the library or a function of it is missing, so both are looked for
//! here before the first call.
#![allow(unsafe_code)] // calls into the driver's library

use cudarc::driver::{result, sys};

use crate::device::DeviceError;

/// Oldest architecture whose matrix units, asynchronous copies and bf16 the kernels use: Ampere.
pub(super) const CAPABILITY_MIN: (i32, i32) = (8, 0);
/// Version of the driver's interface that the compiled kernels need, as `cuDriverGetVersion` counts.
pub(super) const DRIVER_VERSION_MIN: i32 = 13_000;

/// Every function that this folder calls. An old driver, or a stub for linking, may lack the newer ones.
const SYMBOLS: [&str; 36] = [
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuDeviceGet",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDeviceTotalMem_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxSetCurrent",
    "cuMemGetInfo_v2",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemsetD8Async",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuStreamCreate",
    "cuStreamSynchronize",
    "cuStreamDestroy_v2",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuModuleUnload",
    "cuFuncSetAttribute",
    "cuLaunchKernel",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
];

/// Between two events; drivers before 570 lack it, and only measuring needs it.
const ELAPSED: &str = "cuEventElapsedTime_v2";

/// One GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    pub ordinal: i32,
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: (i32, i32),
    pub memory_bytes: u64,
    /// CUDA version that the driver supports, major and minor.
    pub driver: (i32, i32),
}

impl Gpu {
    /// Why the kernels cannot run on it, if they cannot.
    pub fn problem(&self) -> Option<String> {
        let ((major, minor), (least, _)) = (self.capability, CAPABILITY_MIN);
        (self.capability < CAPABILITY_MIN).then(|| {
            format!(
                "{} has compute capability {major}.{minor}, and the kernels need {least}.0 or more; use --device cpu",
                self.name
            )
        })
    }
}

pub(super) fn unavailable(problem: impl Into<String>) -> DeviceError {
    DeviceError::Unavailable { device: "cuda", problem: problem.into() }
}

/// Whether there is a driver at all: where there is not, nobody expects a GPU to be used.
pub fn has_driver() -> bool {
    // SAFETY: tries to open libraries by name and closes them again.
    unsafe { sys::is_culib_present() }
}

/// The GPUs that the driver shows.
///
/// # Errors
/// No driver, one that lacks functions, one that does not start, or no GPU: each says which, and what to do.
pub fn gpus() -> Result<Vec<Gpu>, DeviceError> {
    if !has_driver() {
        return Err(unavailable(
            "no CUDA driver (libcuda) was found; install NVIDIA's driver, or use --device cpu",
        ));
    }
    if let Some(missing) = SYMBOLS.iter().find(|name| !has_symbol(name)) {
        return Err(unavailable(format!(
            "the driver's library has no function {missing}: it is a stub or older than the 580 series; update the driver, or use --device cpu"
        )));
    }
    result::init().map_err(|e| unavailable(start_problem(&e)))?;
    let driver = driver_version()?;
    let count = result::device::get_count().map_err(|e| unavailable(start_problem(&e)))?;
    if count == 0 {
        return Err(unavailable(start_problem(&result::DriverError(
            sys::CUresult::CUDA_ERROR_NO_DEVICE,
        ))));
    }
    (0..count).map(|ordinal| gpu(ordinal, driver)).collect()
}

/// Whether kernels can be timed.
///
/// # Errors
/// A driver that is too old for it.
pub(super) fn check_timing() -> Result<(), DeviceError> {
    if has_symbol(ELAPSED) {
        return Ok(());
    }
    Err(unavailable(format!(
        "the driver's library has no function {ELAPSED}, which timing needs; update it to the 580 series"
    )))
}

fn has_symbol(name: &str) -> bool {
    let name = format!("{name}\0");
    // SAFETY: the library is there; the symbol's address is not used.
    unsafe { sys::culib().get::<unsafe extern "C" fn()>(name.as_bytes()).is_ok() }
}

fn driver_version() -> Result<(i32, i32), DeviceError> {
    let mut version = 0;
    // SAFETY: writes one number.
    let code = unsafe { sys::cuDriverGetVersion(&raw mut version) };
    code.result().map_err(|e| unavailable(start_problem(&e)))?;
    Ok((version / 1000, version % 1000 / 10))
}

fn gpu(ordinal: i32, driver: (i32, i32)) -> Result<Gpu, DeviceError> {
    use sys::CUdevice_attribute as A;
    let lost = |e: result::DriverError| unavailable(start_problem(&e));
    let device = result::device::get(ordinal).map_err(lost)?;
    // SAFETY: the device was just given.
    let attribute = |which| unsafe { result::device::get_attribute(device, which) }.map_err(lost);
    Ok(Gpu {
        ordinal,
        name: result::device::get_name(device).map_err(lost)?,
        capability: (
            attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        // SAFETY: as above.
        memory_bytes: unsafe { result::device::total_mem(device) }.map_err(lost)? as u64,
        driver,
    })
}

/// What an error at the start means for the person at the terminal.
fn start_problem(error: &result::DriverError) -> String {
    use sys::CUresult as R;
    match error.0 {
        R::CUDA_ERROR_NO_DEVICE => {
            "the driver shows no GPU (CUDA_VISIBLE_DEVICES may hide it); use --device cpu".to_owned()
        }
        R::CUDA_ERROR_STUB_LIBRARY => {
            "libcuda is a stub for linking, not a driver; install NVIDIA's driver, or use --device cpu".to_owned()
        }
        R::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => {
            "libcuda and the kernel's driver are of different versions; restart the machine, or use --device cpu".to_owned()
        }
        _ => format!("the driver does not start: {}; use --device cpu", name_of(error)),
    }
}

/// An error by its name, such as `CUDA_ERROR_ILLEGAL_ADDRESS`.
pub(super) fn name_of(error: &result::DriverError) -> String {
    let name = error.error_name().map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|_| format!("{:?}", error.0))
}
