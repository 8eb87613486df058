//! From shards to the files that are trained on: splits without duplicates, and what there is to say about them.
//!
//! # Place
//! Part of `augment`.

use super::shard::{Line, read, shards_folder, write_error, write_whole};
use super::split::{Gate, Identity, PARTS, Part, SplitConfig, assign, part_of_function};
use super::tally::{FileCount, RepoCount, Statistics, Tally};
use super::{AugmentConfig, AugmentError, Record};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What a run has left on disk.
#[derive(Clone, Debug)]
pub struct Published {
    pub statistics: Statistics,
    /// The files, in the order they are useful.
    pub files: Vec<PathBuf>,
}

/// Where a record goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Into(Part),
    Refused,
    Duplicate,
}

/// Read the shards and write `train.jsonl`, `valid.jsonl`, `test.jsonl` and `statistics.json` to `dir` (and
/// `rejected.jsonl`, `differences.jsonl` when there is something to put there). The shards are removed.
///
/// # Errors
/// Shards that cannot be read, a disk that fills, no function at all.
pub fn publish(
    config: &AugmentConfig,
    split: &SplitConfig,
    shards: &[PathBuf],
    dir: &Path,
) -> Result<Published, AugmentError> {
    let gathered = Gathered::read(split, shards)?;
    let tally = gathered.tally;
    if tally.functions_found == 0 {
        return Err(AugmentError::NoFunctions { n_repos: gathered.repos.len().max(1) });
    }
    if tally.functions_kept == 0 {
        let (n_found, by_rule) = (tally.functions_found as usize, tally.refused_by_rule());
        return Err(AugmentError::AllRefused { n_found, by_rule });
    }
    let places = assign(&gathered.repos, split);
    let mut duplicates = BTreeMap::new();
    let fates = decide(&gathered.entries, &places, split, &mut duplicates);

    let mut files = Vec::new();
    let mut counts = BTreeMap::new();
    for part in [Part::Train, Part::Valid, Part::Test] {
        let name = format!("{}.jsonl", part.as_str());
        let path = dir.join(&name);
        let count = write_records(&path, shards, &fates, Fate::Into(part))?;
        counts.insert(name, count);
        files.push(path);
    }
    if config.keep_rejected {
        let path = dir.join("rejected.jsonl");
        let count = write_records(&path, shards, &fates, Fate::Refused)?;
        counts.insert("rejected.jsonl".to_owned(), count);
        files.push(path);
    }
    if config.compare.is_some() {
        let path = dir.join("differences.jsonl");
        write_lines(&path, shards, &mut |line| match line {
            Line::Difference(d) => Some(serde_json::to_string(&*d)),
            _ => None,
        })?;
        files.push(path);
    }
    let statistics = Statistics {
        settings: config.clone(),
        split: *split,
        repos: repo_counts(&gathered.repos, &places, split),
        triggers_mean: tally.triggers_mean(),
        agreement: tally.agreement(),
        tally,
        files: counts,
        duplicates,
    };
    let path = dir.join("statistics.json");
    write_json(&path, &statistics)?;
    files.push(path);
    let folder = shards_folder(dir);
    fs::remove_dir_all(&folder).map_err(|e| write_error(&folder, e))?;
    Ok(Published { statistics, files })
}

/// A value as indented JSON.
pub(super) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), AugmentError> {
    write_whole(path, |out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        out.write_all(b"\n")
    })
}

/// What one record brings to the decision.
struct Entry {
    repo: usize,
    /// None: a rule refused it.
    identity: Option<Identity>,
    place: String,
}

/// Everything the first reading of the shards finds.
struct Gathered {
    tally: Tally,
    repos: Vec<(String, u64)>,
    entries: Vec<Entry>,
}

impl Gathered {
    fn read(split: &SplitConfig, shards: &[PathBuf]) -> Result<Self, AugmentError> {
        let mut out = Self { tally: Tally::default(), repos: Vec::new(), entries: Vec::new() };
        for shard in shards {
            for line in read(shard)? {
                match line? {
                    Line::Head { repo, tally, .. } => {
                        if out.repos.last().is_none_or(|(name, _)| *name != repo) {
                            out.repos.push((repo, 0));
                        }
                        if let Some(last) = out.repos.last_mut() {
                            last.1 += tally.functions_kept;
                        }
                        out.tally.add(*tally);
                    }
                    Line::Record(r) => {
                        let identity = r
                            .rejected
                            .is_none()
                            .then(|| Identity::of(split, &r.description, &r.signature, &r.code));
                        let place = format!("{}\0{}\0{}", r.repo, r.file_path, r.line);
                        let repo = out.repos.len().saturating_sub(1);
                        out.entries.push(Entry { repo, identity, place });
                    }
                    Line::Difference(_) => {}
                }
            }
        }
        Ok(out)
    }
}

/// The fate of every record, in order.
fn decide(
    entries: &[Entry],
    places: &[Part],
    split: &SplitConfig,
    duplicates: &mut BTreeMap<String, u64>,
) -> Vec<Fate> {
    let part_of = |entry: &Entry| match split.by_function {
        true => part_of_function(split, &entry.place),
        false => places[entry.repo],
    };
    let mut fates = vec![Fate::Refused; entries.len()];
    let mut gate = Gate::default();
    // Training data first: the others lose what they share with it. Then the last test.
    for part in [Part::Train, Part::Test, Part::Valid] {
        for (entry, fate) in entries.iter().zip(&mut fates) {
            let Some(identity) = entry.identity.as_ref().filter(|_| part_of(entry) == part) else {
                continue;
            };
            *fate = match gate.refuse(identity, split) {
                None => Fate::Into(part),
                Some(why) => {
                    *duplicates.entry(format!("{}: {why}", part.as_str())).or_default() += 1;
                    Fate::Duplicate
                }
            };
        }
        gate.next_split();
    }
    fates
}

fn repo_counts(repos: &[(String, u64)], places: &[Part], split: &SplitConfig) -> Vec<RepoCount> {
    repos
        .iter()
        .zip(places)
        .map(|((repo, functions), part)| RepoCount {
            repo: repo.clone(),
            functions: *functions,
            split: if split.by_function { "by function" } else { PARTS[*part as usize] },
        })
        .collect()
}

/// The records with this fate.
fn write_records(
    path: &Path,
    shards: &[PathBuf],
    fates: &[Fate],
    wanted: Fate,
) -> Result<FileCount, AugmentError> {
    let mut i = 0;
    let (mut functions, mut triggers) = (0, 0);
    let (bytes, sha256) = write_lines(path, shards, &mut |line| {
        let Line::Record(record) = line else {
            return None;
        };
        i += 1;
        if fates[i - 1] != wanted {
            return None;
        }
        functions += 1;
        triggers += record.n_triggers as u64;
        Some(serde_json::to_string::<Record>(&record))
    })?;
    Ok(FileCount { functions, triggers, bytes, sha256 })
}

/// Write what `pick` makes of the shards' lines; the file's length and hash.
fn write_lines(
    path: &Path,
    shards: &[PathBuf],
    pick: &mut dyn FnMut(Line) -> Option<serde_json::Result<String>>,
) -> Result<(u64, String), AugmentError> {
    let mut hash = Sha256::new();
    let mut n_bytes = 0;
    let mut fault = None;
    write_whole(path, |out| {
        for shard in shards {
            let lines = match read(shard) {
                Ok(lines) => lines,
                Err(error) => {
                    fault = Some(error);
                    return Err(io::Error::other("a shard is unreadable"));
                }
            };
            for line in lines {
                let text = match line.map(&mut *pick) {
                    Ok(None) => continue,
                    Ok(Some(text)) => text? + "\n",
                    Err(error) => {
                        fault = Some(error);
                        return Err(io::Error::other("a shard is unreadable"));
                    }
                };
                out.write_all(text.as_bytes())?;
                hash.update(text.as_bytes());
                n_bytes += text.len() as u64;
            }
        }
        Ok(())
    })
    .map_err(|error| fault.take().unwrap_or(error))?;
    Ok((n_bytes, hash.finalize().iter().map(|b| format!("{b:02x}")).collect()))
}
