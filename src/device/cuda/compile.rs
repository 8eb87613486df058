//! Kernels as the driver takes them: the images made at build time, or what NVRTC makes of the sources now.
//!
//! # Place
//! Part of `device::cuda`. What NVRTC made is kept on disk under the hash of the source, the architecture and NVRTC's
//! version.
#![allow(unsafe_code)] // calls into NVRTC and the driver

use std::ffi::CString;
use std::path::{Path, PathBuf};

use cudarc::driver::{result, sys};
use cudarc::nvrtc;

use super::kernel::{COMPILER, MODULES, Module};
use super::probe::{DRIVER_VERSION_MIN, Gpu, name_of, unavailable};
use crate::device::DeviceError;

/// Loaded modules in the order of [`MODULES`], and how they came to be.
pub(super) struct Loaded {
    pub(super) modules: Vec<sys::CUmodule>,
    pub(super) how: String,
}

/// Load every module for a GPU whose context is current.
///
/// # Errors
/// A driver older than the images where NVRTC cannot help, with both versions.
pub(super) fn load(gpu: &Gpu, cache: Option<&Path>) -> Result<Loaded, DeviceError> {
    let (major, minor) = gpu.driver;
    let is_new_enough = 1000 * major + 10 * minor >= DRIVER_VERSION_MIN;
    let has_images = MODULES.iter().all(|m| m.image.is_some());
    if has_images && is_new_enough {
        let modules = MODULES.iter().filter_map(|m| m.image).map(load_image);
        if let Ok(modules) = modules.collect::<Result<Vec<_>, _>>() {
            return Ok(Loaded { modules, how: format!("nvcc ({COMPILER})") });
        }
    }
    // SAFETY: tries to open a library by name.
    if !unsafe { nvrtc::sys::is_culib_present() } {
        let (have, need) = (format!("{major}.{minor}"), DRIVER_VERSION_MIN / 1000);
        let why = if has_images {
            format!(
                "the driver supports CUDA {have} and the kernels in this program need {need}.0; update it to the 580 series"
            )
        } else {
            "this program was built without nvcc, and NVRTC (libnvrtc), which would compile its kernels now, is not there; install the CUDA toolkit's libraries".to_owned()
        };
        return Err(unavailable(format!("{why}, or use --device cpu")));
    }
    let mut modules = Vec::new();
    for module in MODULES {
        let image = image_of(module, gpu, cache)?;
        let loaded = load_image(&image);
        modules.push(loaded.map_err(|e| {
            unavailable(format!(
                "{}: the driver refuses what NVRTC made: {}",
                module.name,
                name_of(&e)
            ))
        })?);
    }
    Ok(Loaded { modules, how: "NVRTC".to_owned() })
}

fn load_image(image: &[u8]) -> Result<sys::CUmodule, result::DriverError> {
    // SAFETY: a fat binary or cubin, whose header says how long it is.
    unsafe { result::module::load_data(image.as_ptr().cast()) }
}

/// From the cache, or compiled and put there. A cache that cannot be written only costs time.
fn image_of(module: &Module, gpu: &Gpu, cache: Option<&Path>) -> Result<Vec<u8>, DeviceError> {
    let arch = architecture(gpu);
    let path = cache.map(|folder| cached_path(folder, module, &arch));
    if let Some(image) = path.as_ref().and_then(|path| std::fs::read(path).ok()) {
        return Ok(image);
    }
    let image = compile(module, &arch)?;
    if let Some(path) = path {
        let new = path.with_extension(format!("{}.new", std::process::id()));
        let folder_is_there = path.parent().is_some_and(|p| std::fs::create_dir_all(p).is_ok());
        if folder_is_there && std::fs::write(&new, &image).is_ok() {
            let _ = std::fs::rename(&new, &path);
        }
    }
    Ok(image)
}

fn cached_path(folder: &Path, module: &Module, arch: &str) -> PathBuf {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: writes two numbers.
    unsafe { nvrtc::sys::nvrtcVersion(&raw mut major, &raw mut minor) };
    folder.join(format!(
        "{}-{}-{arch}-nvrtc{major}.{minor}.cubin",
        module.name,
        &module.source_hash[..16]
    ))
}

/// The architecture by name; 9.0 and 10.0 have an `a` variant whose instructions later ones lack.
fn architecture(gpu: &Gpu) -> String {
    let (major, minor) = gpu.capability;
    let suffix = if (major, minor) == (9, 0) { "a" } else { "" };
    format!("sm_{major}{minor}{suffix}")
}

fn compile(module: &Module, arch: &str) -> Result<Vec<u8>, DeviceError> {
    let bad =
        |problem: String| unavailable(format!("NVRTC cannot compile {}: {problem}", module.name));
    let source = CString::new(module.source).map_err(|e| bad(e.to_string()))?;
    let program = nvrtc::result::create_program(&source, None).map_err(|e| bad(e.to_string()))?;
    let options =
        [format!("--gpu-architecture={arch}"), "-std=c++17".into(), "--fmad=false".into()];
    // SAFETY: the program was just made and is destroyed once, below.
    let compiled = unsafe { nvrtc::result::compile_program(program, &options) };
    let image = match compiled {
        // SAFETY: as above; the program is compiled.
        Ok(()) => unsafe { cubin(program) }.map_err(|e| bad(e.to_string())),
        Err(error) => {
            // SAFETY: as above.
            let log = unsafe { nvrtc::result::get_program_log(program) }.unwrap_or_default();
            let log: Vec<u8> = log.into_iter().map(|c| c as u8).filter(|&c| c != 0).collect();
            Err(bad(format!("{error}: {}", String::from_utf8_lossy(&log).trim())))
        }
    };
    // SAFETY: made above, not used after this.
    let _ = unsafe { nvrtc::result::destroy_program(program) };
    image
}

/// # Safety
/// `program` is compiled for an architecture (`sm_…`) and not destroyed.
unsafe fn cubin(program: nvrtc::sys::nvrtcProgram) -> Result<Vec<u8>, nvrtc::result::NvrtcError> {
    let mut n_bytes = 0;
    // SAFETY: the caller's promise.
    unsafe { nvrtc::sys::nvrtcGetCUBINSize(program, &raw mut n_bytes) }.result()?;
    let mut image = vec![0u8; n_bytes];
    // SAFETY: the buffer has the size that was asked for.
    unsafe { nvrtc::sys::nvrtcGetCUBIN(program, image.as_mut_ptr().cast()) }.result()?;
    Ok(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compiles every module as a machine without nvcc would. NVRTC needs no GPU; where it is not installed there is
    /// nothing to test.
    #[test]
    fn sources_compile_with_nvrtc_where_it_is_installed() {
        // SAFETY: tries to open a library by name.
        if !unsafe { nvrtc::sys::is_culib_present() } {
            println!("skipped: NVRTC is not installed");
            return;
        }
        for arch in ["sm_80", "sm_90a"] {
            for module in MODULES {
                let image = compile(module, arch).unwrap();
                assert!(image.starts_with(b"\x7fELF"), "{} for {arch}", module.name);
            }
        }
    }

    #[test]
    fn sources_are_whole_texts_that_include_nothing() {
        for module in MODULES {
            let includes = module.source.lines().any(|line| line.starts_with("#include"));
            assert!(!includes, "{}", module.name);
            assert_eq!(module.source_hash.len(), 64);
        }
    }
}
