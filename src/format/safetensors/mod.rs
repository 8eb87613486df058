//! Safetensors: one file, or shards named by an index.
//!
//! # Place
//! Part of `format`.
//! # Sources
//! The format section of the safetensors repository's README (0.8), as facts.

mod header;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};

use super::digest::{Fingerprint, Sha256Hex};
use super::error::{FormatError, FormatProblem};
use super::map::FileMap;
use super::tensor::{Entry, TensorView, Tensors};
use header::{Header, read_header};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// The tensors of one safetensors file or of all shards of a model.
pub struct Safetensors {
    maps: Vec<FileMap>,
    order: Vec<String>,
    /// Which map, and where in it.
    tensors: FxHashMap<String, (usize, Entry)>,
}

impl Safetensors {
    /// Open a file, an index (`*.index.json`), or a folder that holds `model.safetensors`, an index,
    /// or exactly one `.safetensors` file.
    ///
    /// # Errors
    /// When a file cannot be read, a shard is missing, or a header is wrong.
    pub fn open(path: &Path) -> Result<Self, FormatError> {
        let path = if path.is_dir() { find(path)? } else { path.to_owned() };
        if path.extension().is_some_and(|e| e == "json") {
            return Self::open_sharded(&path);
        }
        Self::from_map(&path, FileMap::open(&path)?)
    }

    /// One file whose bytes are mapped or in memory; `path` is for messages.
    ///
    /// # Errors
    /// When the header is wrong.
    pub fn from_map(path: &Path, map: FileMap) -> Result<Self, FormatError> {
        let header = read_header(&map).map_err(|problem| FormatError::new(path, problem))?;
        Ok(Self {
            maps: vec![map],
            order: header.order,
            tensors: header.tensors.into_iter().map(|(n, e)| (n, (0, e))).collect(),
        })
    }

    fn open_sharded(index_path: &Path) -> Result<Self, FormatError> {
        let at_index = |problem| FormatError::new(index_path, problem);
        let index = FileMap::open(index_path)?;
        let weight_map = read_index(&index).map_err(at_index)?;
        let folder = index_path.parent().unwrap_or(Path::new("."));
        let mut shards: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, shard) in &weight_map {
            shards.insert(shard, 0);
        }
        check_shards(folder, shards.keys().copied()).map_err(at_index)?;
        let mut maps = Vec::new();
        let mut headers: Vec<Header> = Vec::new();
        for (shard, map_idx) in &mut shards {
            let path = folder.join(shard);
            let map = FileMap::open(&path)?;
            headers.push(read_header(&map).map_err(|problem| FormatError::new(&path, problem))?);
            *map_idx = maps.len();
            maps.push(map);
        }
        let mut order = Vec::new();
        let mut tensors = FxHashMap::default();
        for (name, shard) in &weight_map {
            let map_idx = shards[shard.as_str()];
            let Some(entry) = headers[map_idx].tensors.remove(name) else {
                return Err(at_index(FormatProblem::NotInShard {
                    tensor: name.clone(),
                    shard: shard.clone(),
                }));
            };
            tensors.insert(name.clone(), (map_idx, entry));
            order.push(name.clone());
        }
        Ok(Self { maps, order, tensors })
    }

    /// What identifies the content, for cache keys: over the fingerprints of all files.
    pub fn fingerprint(&self) -> Fingerprint {
        let mut hash = Sha256::new();
        for map in &self.maps {
            hash.update(map.fingerprint().0);
        }
        Sha256Hex(hash.finalize().into())
    }
}

impl Tensors for Safetensors {
    fn tensor(&self, name: &str) -> Option<TensorView<'_>> {
        let (map_idx, entry) = self.tensors.get(name)?;
        Some(entry.view(&self.maps[*map_idx]))
    }

    fn names(&self) -> Vec<&str> {
        self.order.iter().map(String::as_str).collect()
    }

    fn forget(&self, name: &str) {
        if let Some((map_idx, entry)) = self.tensors.get(name) {
            self.maps[*map_idx].forget(entry.start..entry.end);
        }
    }
}

/// The file of a folder to open.
fn find(folder: &Path) -> Result<PathBuf, FormatError> {
    for name in [SINGLE, INDEX] {
        let path = folder.join(name);
        if path.exists() {
            return Ok(path);
        }
    }
    let at = |problem: FormatProblem| FormatError::new(folder, problem);
    let mut only = None;
    for entry in std::fs::read_dir(folder).map_err(|e| at(e.into()))? {
        let path = entry.map_err(|e| at(e.into()))?.path();
        if path.extension().is_some_and(|e| e == "safetensors") && only.replace(path).is_some() {
            // Several shards and nothing that says which tensor is where.
            return Err(FormatError::new(
                &folder.join(INDEX),
                std::io::Error::from(std::io::ErrorKind::NotFound),
            ));
        }
    }
    only.ok_or_else(|| at(FormatProblem::NoSafetensors))
}

/// `weight_map` of an index: tensor and shard, in the order of the file.
fn read_index(index: &[u8]) -> Result<Vec<(String, String)>, FormatProblem> {
    let bad =
        |problem: String| FormatProblem::BadJson { what: "the shard index".to_owned(), problem };
    let json: serde_json::Value = serde_json::from_slice(index).map_err(|e| bad(e.to_string()))?;
    let weight_map = json
        .get("weight_map")
        .and_then(serde_json::Value::as_object)
        .ok_or_else(|| bad("it has no object \"weight_map\"".to_owned()))?;
    let mut pairs = Vec::new();
    for (name, shard) in weight_map {
        let shard = shard
            .as_str()
            .ok_or_else(|| bad(format!("the shard of tensor {name:?} is not a string")))?;
        pairs.push((name.clone(), shard.to_owned()));
    }
    Ok(pairs)
}

/// Every shard is a file of the index's own folder and is there.
fn check_shards<'a>(
    folder: &Path,
    shards: impl ExactSizeIterator<Item = &'a str>,
) -> Result<(), FormatProblem> {
    let n_shards = shards.len();
    for shard in shards {
        if Path::new(shard).file_name() != Some(shard.as_ref()) {
            return Err(FormatProblem::BadShardName { shard: shard.to_owned() });
        }
        if !folder.join(shard).exists() {
            return Err(FormatProblem::MissingShard { shard: shard.to_owned(), n_shards });
        }
    }
    Ok(())
}
