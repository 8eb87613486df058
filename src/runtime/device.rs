//! Which devices there are, and the one that a model runs on.
//!
//! # Place
//! Part of `runtime`.

use super::RuntimeError;
use crate::device::{Backend, CpuBackend, ReferenceBackend, cuda, emu};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// Which device runs the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// A GPU where one can be used, else the processor.
    Auto,
    Cuda,
    Cpu,
    /// The CUDA kernels on the host, for tests; in builds with the feature `emu`.
    Emu,
    /// The plain implementation that the others are tested against; slow.
    Reference,
}

/// A device, and whether a model can run on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceReport {
    /// What `--device` calls it.
    pub name: &'static str,
    pub description: String,
    /// Why it cannot be used.
    pub problem: Option<String>,
}

/// A backend, and what the person should know about how it was chosen.
pub(super) struct Opened {
    pub(super) backend: Box<dyn Backend>,
    pub(super) note: Option<String>,
}

/// Open a device. `home`: the folder of `TETHER_HOME`; the platform's cache folder without it.
///
/// # Errors
/// The device asked for is not there, and why.
pub(super) fn open(
    choice: DeviceChoice,
    threads: NonZeroUsize,
    home: Option<&Path>,
) -> Result<Opened, RuntimeError> {
    let cpu = || CpuBackend::new(Some(threads));
    let home = home.map(Path::to_owned).or_else(cache_folder);
    let kernels = home.as_ref().map(|home| home.join("kernels"));
    let mut note = None;
    let backend: Box<dyn Backend> = match choice {
        DeviceChoice::Cpu => Box::new(cpu()?),
        DeviceChoice::Reference => Box::new(ReferenceBackend::new()),
        DeviceChoice::Emu => Box::new(emu::open()?),
        DeviceChoice::Cuda => Box::new(cuda::open(kernels.as_deref())?),
        // Without a driver nobody expects a GPU; with one that does not work, they should hear why.
        DeviceChoice::Auto if !cuda::has_driver() => Box::new(cpu()?),
        DeviceChoice::Auto => match cuda::open(kernels.as_deref()) {
            Ok(backend) => Box::new(backend),
            Err(error) => {
                note = first_time(home.as_deref(), &error.to_string()).then(|| {
                    format!("{error}; running on the processor (said once; `tether devices` says it again)")
                });
                Box::new(cpu()?)
            }
        },
    };
    Ok(Opened { backend, note })
}

/// Every device that this program knows, usable or not.
pub fn devices() -> Vec<DeviceReport> {
    let mut reports = Vec::new();
    match cuda::gpus() {
        Err(error) => reports.push(DeviceReport {
            name: "cuda",
            description: "an NVIDIA GPU".to_owned(),
            problem: Some(error.to_string()),
        }),
        Ok(gpus) => reports.extend(gpus.iter().map(|gpu| DeviceReport {
            name: "cuda",
            description: format!(
                "{}, capability {}.{}, {:.1} GiB, driver for CUDA {}.{}",
                gpu.name,
                gpu.capability.0,
                gpu.capability.1,
                gpu.memory_bytes as f64 / f64::from(1 << 30),
                gpu.driver.0,
                gpu.driver.1
            ),
            problem: gpu.problem(),
        })),
    }
    let described = |name, opened: Result<String, String>| match opened {
        Ok(description) => DeviceReport { name, description, problem: None },
        Err(problem) => DeviceReport { name, description: String::new(), problem: Some(problem) },
    };
    let cpu = CpuBackend::new(None).map(|b| b.description()).map_err(|e| e.to_string());
    reports.push(described("cpu", cpu));
    if emu::IS_BUILT_IN {
        let emu = emu::open().map(|b| b.description()).map_err(|e| e.to_string());
        reports.push(described("emu", emu));
    }
    reports.push(described("reference", Ok(ReferenceBackend::new().description())));
    reports
}

/// The platform's cache folder for this program.
fn cache_folder() -> Option<PathBuf> {
    let folders = directories::ProjectDirs::from("", "", "tether")?;
    Some(folders.cache_dir().to_owned())
}

/// Whether a reason why the GPU is not used is news on this machine. Where nothing can be remembered, everything is.
fn first_time(home: Option<&Path>, reason: &str) -> bool {
    let Some(path) = home.map(|home| home.join("gpu-not-used.txt")) else { return true };
    if std::fs::read_to_string(&path).is_ok_and(|said| said == reason) {
        return false;
    }
    if let Some(folder) = path.parent() {
        let _ = std::fs::create_dir_all(folder);
    }
    let _ = std::fs::write(&path, reason);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_news_once_and_another_one_again() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let said = |reason| first_time(Some(&home), reason);
        assert!(said("too old"));
        assert!(!said("too old"));
        assert!(said("no memory"));
        assert!(said("too old"), "what holds now is told again when it changed in between");
        assert!(first_time(None, "too old") && first_time(None, "too old"));
    }
}
