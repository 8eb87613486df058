//! Adapters on this machine: finding them by name, opening their files, and loading them with a model.
//!
//! # Place
//! Part of `runtime`. What an adapter is, and whether it fits, is known to `model`; this file knows paths, our
//! manifest, and how new tokens are spelled.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::model::ModelFiles;
use super::{PromptStyle, RuntimeError};
use crate::base::{TokenId, limit};
use crate::format::{Fingerprint, GgufFile, Safetensors, Sha256Hex, sha256_file};
use crate::model::{Adapter, AdapterId};

/// The manifest that training with our scripts leaves beside an adapter.
const MANIFEST: &str = "tether.json";
const CONFIG: &str = "adapter_config.json";
const TENSORS: &str = "adapter_model.safetensors";

/// How adapters are put to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdapterUse {
    /// Merged into the weights while loading: no cost afterwards, for every request.
    Merged,
    /// Beside the weights, for the requests that name one.
    PerRequest,
}

/// The adapters to load with a model.
#[derive(Clone, Copy, Debug)]
pub struct AdapterPlan<'a> {
    pub adapters: &'a [OpenAdapter],
    pub usage: AdapterUse,
    /// Take an adapter whose manifest names other weights.
    pub is_forced: bool,
}

impl AdapterPlan<'_> {
    /// No adapters.
    pub const NONE: AdapterPlan<'static> =
        AdapterPlan { adapters: &[], usage: AdapterUse::PerRequest, is_forced: false };
}

/// The weights that an adapter was trained on.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct AdapterBase {
    pub name: Option<String>,
    /// SHA-256 of the model file, 64 hexadecimal digits.
    pub sha256: Option<String>,
}

/// The token that an adapter asks for candidates with.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct AdapterTrigger {
    pub text: String,
    pub id: u32,
}

/// What `tether.json` says; fields that are not known are ignored.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AdapterManifest {
    pub base: AdapterBase,
    pub trigger: Option<AdapterTrigger>,
    pub prompt_style: Option<String>,
    pub description: Option<String>,
    pub license: Option<String>,
}

/// An adapter whose files were read.
#[derive(Clone)]
pub struct OpenAdapter {
    pub adapter: Adapter,
    pub path: PathBuf,
    pub manifest: Option<AdapterManifest>,
    /// Spellings of tokens that its files name.
    pub spellings: BTreeMap<u32, String>,
    /// Size of its tensors' file.
    pub bytes: u64,
    content: Fingerprint,
}

impl std::fmt::Debug for OpenAdapter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenAdapter")
            .field("name", &self.adapter.name())
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl OpenAdapter {
    /// Read a folder as peft saves it, or a GGUF file.
    ///
    /// # Errors
    /// Files that are missing, broken or not an adapter's.
    pub fn open(name: &str, path: &Path) -> Result<Self, RuntimeError> {
        if path.is_dir() { Self::open_folder(name, path) } else { Self::open_gguf(name, path) }
    }

    fn open_gguf(name: &str, path: &Path) -> Result<Self, RuntimeError> {
        let file = GgufFile::open(path)?;
        let content = file.fingerprint();
        Ok(Self {
            adapter: Adapter::from_gguf(name, Arc::new(file))
                .map_err(crate::model::ModelError::from)?,
            path: path.to_owned(),
            manifest: None,
            spellings: BTreeMap::new(),
            bytes: size_of(path),
            content,
        })
    }

    fn open_folder(name: &str, folder: &Path) -> Result<Self, RuntimeError> {
        let config = folder.join(CONFIG);
        if !config.is_file() {
            let (name, path) = (name.to_owned(), folder.to_owned());
            return Err(RuntimeError::NoAdapterConfig { name, path });
        }
        let json = read_small_json(&config)?;
        let tensors = folder.join(TENSORS);
        if !tensors.is_file() {
            let problem = match folder.join("adapter_model.bin").is_file() {
                true => {
                    "is missing, and adapter_model.bin runs code when it is read; save the adapter as safetensors"
                }
                false => "is missing; copy the whole folder that peft saved",
            };
            return Err(bad(&tensors, problem));
        }
        let file = Safetensors::open(&tensors)?;
        let mut hash = Sha256::new();
        hash.update(file.fingerprint().0);
        hash.update(json.to_string());
        let adapter = Adapter::from_peft(name, &json, Arc::new(file))
            .map_err(crate::model::ModelError::from)?;
        let manifest = match folder.join(MANIFEST) {
            path if path.is_file() => {
                let json = read_small_json(&path)?;
                let read = serde_json::from_value::<AdapterManifest>(json);
                Some(read.map_err(|e| bad(&path, &format!("is not what it should be: {e}")))?)
            }
            _ => None,
        };
        let mut spellings = spellings(folder)?;
        if let Some(trigger) = manifest.as_ref().and_then(|m| m.trigger.as_ref()) {
            spellings.insert(trigger.id, trigger.text.clone());
        }
        Ok(Self {
            adapter,
            path: folder.to_owned(),
            manifest,
            spellings,
            bytes: size_of(&tensors),
            content: Sha256Hex(hash.finalize().into()),
        })
    }

    /// The same with its terms multiplied.
    ///
    /// # Errors
    /// When the scale is not a usable number.
    pub fn scaled(mut self, scale: f32) -> Result<Self, RuntimeError> {
        self.adapter = self.adapter.scaled(scale).map_err(crate::model::ModelError::from)?;
        Ok(self)
    }

    pub fn name(&self) -> &str {
        self.adapter.name()
    }

    /// The token that it asks for candidates with.
    pub fn trigger(&self) -> Option<&AdapterTrigger> {
        self.manifest.as_ref()?.trigger.as_ref()
    }

    /// How it was trained to be asked, when its manifest names a style that is known.
    pub fn prompt_style(&self) -> Option<PromptStyle> {
        PromptStyle::by_name(self.manifest.as_ref()?.prompt_style.as_deref()?)
    }

    /// Identifies what it does to results: its content and its scale.
    pub fn key(&self) -> Fingerprint {
        let mut hash = Sha256::new();
        hash.update(self.content.0);
        hash.update(self.adapter.scale().to_bits().to_le_bytes());
        Sha256Hex(hash.finalize().into())
    }

    /// That its manifest, if it says so, means these weights.
    ///
    /// # Errors
    /// With both hashes.
    pub fn check_base(&self, files: &ModelFiles) -> Result<(), RuntimeError> {
        let base = self.manifest.as_ref().map(|m| &m.base);
        let Some(expected) = base.and_then(|b| b.sha256.as_deref()) else { return Ok(()) };
        let file = match files {
            ModelFiles::Gguf(path) => path.clone(),
            // Shards have no hash in common.
            ModelFiles::Folder(folder) => folder.join("model.safetensors"),
        };
        if !file.is_file() {
            return Ok(());
        }
        let got = sha256_file(&file, &mut |_| {})?.to_string();
        if got.eq_ignore_ascii_case(expected) {
            return Ok(());
        }
        Err(RuntimeError::OtherBase {
            name: self.name().to_owned(),
            base: base.and_then(|b| b.name.clone()).unwrap_or_else(|| "another model".to_owned()),
            expected: expected.to_owned(),
            path: file,
            got,
        })
    }
}

/// That an adapter fits a model and was made for it; the number of its tensors.
///
/// # Errors
/// As [`super::Model::load_planned`].
pub fn check_adapter(adapter: &OpenAdapter, files: &ModelFiles) -> Result<usize, RuntimeError> {
    adapter.check_base(files)?;
    let shape = super::model::shape_of(files)?;
    Ok(adapter.adapter.check_fits(&shape).map_err(crate::model::ModelError::from)?)
}

/// A loaded adapter.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    pub(super) open: OpenAdapter,
    /// Among those beside the weights; `None`: merged.
    pub(super) id: Option<AdapterId>,
}

/// No name twice, not too many, and made for these weights.
pub(super) fn check(plan: &AdapterPlan<'_>, files: &ModelFiles) -> Result<(), RuntimeError> {
    let n = plan.adapters.len();
    if n > limit::ADAPTERS_MAX {
        return Err(RuntimeError::TooManyAdapters { n, max: limit::ADAPTERS_MAX });
    }
    for (i, adapter) in plan.adapters.iter().enumerate() {
        if let Some(first) = plan.adapters[..i].iter().find(|a| a.name() == adapter.name()) {
            return Err(RuntimeError::SameName {
                name: adapter.name().to_owned(),
                first: first.path.clone(),
                second: adapter.path.clone(),
            });
        }
        if !plan.is_forced {
            adapter.check_base(files)?;
        }
    }
    Ok(())
}

/// How the tokens are spelled that adapters bring or name; one spelling for each. `n_base`: tokens that the
/// tokenizer has, `n_all`: rows of the embedding in the end.
pub(super) fn new_tokens(
    adapters: &[OpenAdapter],
    n_base: usize,
    n_all: usize,
) -> Result<Vec<(String, TokenId)>, RuntimeError> {
    let mut all: BTreeMap<u32, (String, &str)> = BTreeMap::new();
    for adapter in adapters {
        let trigger = adapter.trigger().map(|t| t.id);
        let wanted = adapter.spellings.iter().filter(|(id, _)| {
            (**id as usize) < n_all && ((**id as usize) >= n_base || trigger == Some(**id))
        });
        for (&id, text) in wanted {
            match all.get(&id) {
                Some((other, _)) if other == text => {}
                Some((other, name)) => {
                    return Err(RuntimeError::TwoSpellings {
                        token: id,
                        first: (*name).to_owned(),
                        first_text: other.clone(),
                        second: adapter.name().to_owned(),
                        second_text: text.clone(),
                    });
                }
                None => {
                    all.insert(id, (text.clone(), adapter.name()));
                }
            }
        }
    }
    Ok(all.into_iter().map(|(id, (text, _))| (text, TokenId(id))).collect())
}

/// Tokens that `tokenizer.json` or `added_tokens.json` beside an adapter add.
fn spellings(folder: &Path) -> Result<BTreeMap<u32, String>, RuntimeError> {
    let mut found = BTreeMap::new();
    let path = folder.join("added_tokens.json");
    if path.is_file() {
        let json = read_small_json(&path)?;
        for (text, id) in json.as_object().into_iter().flatten() {
            if let Some(id) = id.as_u64().and_then(|id| u32::try_from(id).ok()) {
                found.insert(id, text.clone());
            }
        }
    }
    let path = folder.join("tokenizer.json");
    if path.is_file() {
        let text = std::fs::read(&path).map_err(|e| bad(&path, &format!("cannot be read: {e}")))?;
        let tokenizer: AddedTokens = serde_json::from_slice(&text)
            .map_err(|e| bad(&path, &format!("is not what it should be: {e}")))?;
        found.extend(tokenizer.added_tokens.into_iter().map(|t| (t.id, t.content)));
    }
    Ok(found)
}

#[derive(Deserialize)]
struct AddedTokens {
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
}

#[derive(Deserialize)]
struct AddedToken {
    id: u32,
    content: String,
}

fn bad(path: &Path, problem: &str) -> RuntimeError {
    RuntimeError::BadFile { path: path.to_owned(), problem: problem.to_owned() }
}

fn size_of(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |m| m.len())
}

/// A file of a few kilobytes, as JSON.
fn read_small_json(path: &Path) -> Result<serde_json::Value, RuntimeError> {
    if size_of(path) > limit::ADAPTER_CONFIG_BYTES_MAX {
        let problem = format!("is larger than {} bytes", limit::ADAPTER_CONFIG_BYTES_MAX);
        return Err(bad(path, &problem));
    }
    let text = std::fs::read(path).map_err(|e| bad(path, &format!("cannot be read: {e}")))?;
    serde_json::from_slice(&text).map_err(|e| bad(path, &format!("is not JSON: {e}")))
}

/// Where adapters are looked for by name.
#[derive(Clone, Debug, Default)]
pub struct AdapterShelf {
    /// Folders whose entries are adapters, the first that has a name wins.
    pub folders: Vec<PathBuf>,
}

impl AdapterShelf {
    /// An adapter by its name on a shelf, or by a path to its folder or GGUF file.
    ///
    /// # Errors
    /// When there is none, with the folders that were looked in.
    pub fn find(&self, spec: &str) -> Result<(String, PathBuf), RuntimeError> {
        let is_name =
            !spec.is_empty() && !spec.contains(['/', '\\']) && spec != "." && spec != "..";
        if is_name {
            let entries = |f: &PathBuf| [f.join(spec), f.join(format!("{spec}.gguf"))];
            let mut candidates = self.folders.iter().flat_map(entries);
            if let Some(path) = candidates.find(|p| is_adapter(p)) {
                return Ok((spec.to_owned(), path));
            }
        }
        let path = PathBuf::from(spec);
        if !path.exists() {
            let folders: Vec<String> =
                self.folders.iter().map(|f| f.display().to_string()).collect();
            let (spec, looked_in) = (spec.to_owned(), folders.join(", "));
            return Err(RuntimeError::NoSuchAdapter { spec, looked_in });
        }
        let name = path.file_stem().map_or(spec.to_owned(), |n| n.to_string_lossy().into_owned());
        Ok((name, path))
    }

    /// Every adapter by name, those that a name finds.
    pub fn list(&self) -> Vec<(String, PathBuf)> {
        let mut found: BTreeMap<String, PathBuf> = BTreeMap::new();
        for folder in &self.folders {
            let Ok(entries) = std::fs::read_dir(folder) else { continue };
            for path in entries.flatten().map(|entry| entry.path()).filter(|p| is_adapter(p)) {
                if let Some(name) = path.file_stem().and_then(|n| n.to_str()) {
                    found.entry(name.to_owned()).or_insert(path);
                }
            }
        }
        found.into_iter().collect()
    }
}

/// Whether there is an adapter, or at least something that means to be one.
fn is_adapter(path: &Path) -> bool {
    let is_gguf = path.extension().is_some_and(|e| e == "gguf") && path.is_file();
    is_gguf || path.join(CONFIG).is_file() || path.join(TENSORS).is_file()
}
