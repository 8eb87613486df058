//! Why a model is not there.
//!
//! # Place
//! Part of the model store.

use std::io;
use std::path::{Path, PathBuf};

use crate::format::{FormatError, Sha256Hex};

/// A model could not be found or fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error(
        "there is no model {spec:?}: neither a name ({known}), nor a .gguf file, nor a model folder, nor hf:OWNER/NAME"
    )]
    NoSuchModel { spec: String, known: String },
    #[error("{spec:?} is not hf:OWNER/NAME or hf:OWNER/NAME@REVISION")]
    BadHubSpec { spec: String },
    #[error("{} is a folder without config.json, and has {n_gguf} .gguf files; name one file", path.display())]
    NoModelInFolder { path: PathBuf, n_gguf: usize },
    #[error("the model {name:?} is not here yet ({bytes} bytes); run `tether pull {name}`")]
    NotPulled { name: String, bytes: u64 },
    #[error("the model {name:?} is not here yet; run `tether pull {name}`")]
    NotInHubCache { name: String },
    #[error(
        "{} has {got} bytes, expected {need}; run `tether pull {name}` to fetch it again", path.display()
    )]
    Broken { name: String, path: PathBuf, got: u64, need: u64 },
    #[error("the platform names no cache folder; set TETHER_HOME")]
    NoCacheFolder,
    #[error("cannot {doing} {}: {source}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "no space left for {what} in {}: {need_bytes} bytes are needed; free some or set TETHER_HOME to another disk", path.display()
    )]
    NoSpace { what: String, path: PathBuf, need_bytes: u64 },
    #[error("{} cannot be run: {source}; install Python 3, or name one with --python or TETHER_PYTHON", python.display())]
    NoPython { python: PathBuf, source: io::Error },
    #[error(
        "{} has no pip; install it (python3 -m ensurepip, or the system package python3-pip), or name another Python with --python or TETHER_PYTHON", python.display()
    )]
    NoPip { python: PathBuf },
    #[error("pip could not download {package} {version}: {problem}")]
    Pip { package: String, version: String, problem: String },
    #[error("{} is not a whole wheel: {problem}; run the command again", path.display())]
    BadWheel { path: PathBuf, problem: String },
    #[error("{package} {version} holds no {member:?}")]
    NoMember { package: String, version: String, member: String },
    #[error("{what} has {got} bytes, expected {need}; it was not used")]
    WrongSize { what: String, got: u64, need: u64 },
    #[error(
        "{what} has the SHA-256 {got}, expected {need}; it was not used. A mirror may serve another file under this name"
    )]
    WrongHash { what: String, got: Sha256Hex, need: String },
    #[error(
        "the hub at {endpoint} cannot be reached: {problem}; check the network or HF_ENDPOINT, or download the model elsewhere and pass its folder"
    )]
    HubUnreachable { endpoint: String, problem: String },
    #[error(
        "the hub at {endpoint} does not have {repo} at revision {revision}, or does not show it without a token (HF_TOKEN)"
    )]
    NotOnHub { endpoint: String, repo: String, revision: String },
    #[error("{repo} has no safetensors weights with tokenizer.json and config.json{hint}")]
    NotUsable { repo: String, hint: String },
}

impl StoreError {
    /// An error of the operating system, told apart by whether the disk is full.
    pub(super) fn io(
        doing: &'static str,
        path: &Path,
        what: &str,
        need_bytes: u64,
        source: io::Error,
    ) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::NoSpace { what: what.to_owned(), path: path.to_owned(), need_bytes }
            }
            _ => Self::Io { doing, path: path.to_owned(), source },
        }
    }
}
