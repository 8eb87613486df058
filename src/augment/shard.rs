//! The work of a run: repositories one after the other, their files in shards, shards on several threads.
//!
//! # Place
//! Part of `augment`.
//! # Invariants
//! - A shard is written whole or not at all, and names what it was made from; one that was made from the
//!   same is not made again.

use super::function::{Around, CountTokens, Tools, example};
use super::source::{Source, found, refuse_file, sources, with_line_feeds};
use super::tally::{Difference, Tally};
use super::{AugmentConfig, AugmentError, Record};
use crate::base::{CandidateSource, LineIndex};
use crate::repo::{IndexReport, Project, ProjectConfig, Snapshot};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A shard ends with the file that brings it to this many functions.
const SHARD_FUNCTIONS: usize = 128;
/// Stack of a working thread: analysis nests deeply.
const STACK_BYTES: usize = 64 << 20;
const SHARDS: &str = "shards";

/// Starts a tool, by name, for a project.
pub type OpenTool<'a> = &'a (
        dyn Fn(&str, &Arc<Project>, &IndexReport) -> Result<Box<dyn CandidateSource>, String> + Sync
    );

/// Who is told how far a run is.
pub struct Progress<'a> {
    /// A repository was analysed: its name, number and how many there are.
    pub repo: &'a (dyn Fn(&str, usize, usize, &IndexReport) + Sync),
    /// So many functions of it are done, of so many.
    pub functions: &'a (dyn Fn(usize, usize) + Sync),
}

/// A line of a shard.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    Head { key: String, repo: String, tally: Box<Tally> },
    Record(Box<Record>),
    Difference(Box<Difference>),
}

/// The functions that one worker takes at once.
struct Shard {
    path: PathBuf,
    sources: Vec<Source>,
    n_functions: usize,
}

/// Make the shards of all repositories under `dir`. They are returned in order.
///
/// # Errors
/// Repositories that cannot be read, tools that do not start, a disk that fills.
pub fn augment(
    config: &AugmentConfig,
    repos: &[ProjectConfig],
    dir: &Path,
    n_threads: usize,
    open: OpenTool<'_>,
    count: CountTokens<'_>,
    progress: &Progress<'_>,
) -> Result<Vec<PathBuf>, AugmentError> {
    let folder = dir.join(SHARDS);
    fs::create_dir_all(&folder).map_err(|e| write_error(&folder, e))?;
    let names = repo_names(repos);
    let mut paths = Vec::new();
    for (i, (repo, name)) in repos.iter().zip(&names).enumerate() {
        let (project, report) = Project::open(repo.clone()).map_err(|e| {
            AugmentError::Repository { path: repo.root.clone(), reason: e.to_string() }
        })?;
        (progress.repo)(name, i + 1, repos.len(), &report);
        let run = RepoRun {
            config,
            name,
            project: Arc::new(project),
            report,
            open,
            count,
            told: progress.functions,
        };
        paths.extend(run.run(&folder.join(format!("{i:05}")), n_threads)?);
    }
    Ok(paths)
}

/// The folder shards are in.
pub(super) fn shards_folder(dir: &Path) -> PathBuf {
    dir.join(SHARDS)
}

pub(super) fn write_error(path: &Path, source: io::Error) -> AugmentError {
    AugmentError::Write { path: path.to_owned(), source }
}

/// The last part of each path, `owner#name` read as `owner/name`; longer where two are the same.
fn repo_names(repos: &[ProjectConfig]) -> Vec<String> {
    let tail = |path: &Path, n: usize| {
        let full = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let parts: Vec<String> =
            full.iter().map(|p| p.to_string_lossy().replace('#', "/")).collect();
        parts[parts.len().saturating_sub(n)..].join("/")
    };
    let short: Vec<String> = repos.iter().map(|r| tail(&r.root, 1)).collect();
    repos
        .iter()
        .zip(&short)
        .map(|(repo, name)| {
            let is_alone = short.iter().filter(|n| *n == name).count() == 1;
            if is_alone { name.clone() } else { tail(&repo.root, usize::MAX) }
        })
        .collect()
}

/// One repository on its way.
struct RepoRun<'a> {
    config: &'a AugmentConfig,
    name: &'a str,
    project: Arc<Project>,
    report: IndexReport,
    open: OpenTool<'a>,
    count: CountTokens<'a>,
    told: &'a (dyn Fn(usize, usize) + Sync),
}

impl RepoRun<'_> {
    fn run(&self, stem: &Path, n_threads: usize) -> Result<Vec<PathBuf>, AugmentError> {
        let snapshot = self.project.snapshot();
        let key = self.key(&snapshot);
        let shards = self.shards(&snapshot, stem);
        let n_functions: usize = shards.iter().map(|s| s.n_functions).sum();
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let fault = Mutex::new(None);
        let work = || -> Result<(), AugmentError> {
            let mut tools = None;
            loop {
                let Some(shard) = shards.get(next.fetch_add(1, Ordering::Relaxed)) else {
                    return Ok(());
                };
                if !is_made(&shard.path, &key) {
                    let tools = match &mut tools {
                        Some(tools) => tools,
                        none => none.insert(self.start_tools()?),
                    };
                    self.make(shard, &key, &snapshot, tools)?;
                }
                let n = done.fetch_add(shard.n_functions, Ordering::Relaxed) + shard.n_functions;
                (self.told)(n, n_functions);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..n_threads.clamp(1, shards.len().max(1)) {
                let body = || {
                    if let Err(error) = work() {
                        next.store(usize::MAX / 2, Ordering::Relaxed); // the others stop too
                        fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    }
                };
                let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
                if builder.spawn_scoped(scope, body).is_err() {
                    work().err().into_iter().for_each(|error| {
                        fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    });
                }
            }
        });
        match fault.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(shards.into_iter().map(|s| s.path).collect()),
        }
    }

    fn start_tools(&self) -> Result<Tools, AugmentError> {
        let start = |name: &str| {
            (self.open)(name, &self.project, &self.report).map_err(|reason| AugmentError::Tool {
                path: self.project.root().to_owned(),
                reason,
            })
        };
        let second = self.config.compare.as_deref().map(start).transpose()?;
        Ok(Tools { first: start(&self.config.tool)?, second })
    }

    /// Everything that a shard's content depends on: the settings and the whole repository, because a name
    /// may come from any of its files.
    fn key(&self, snapshot: &Snapshot) -> String {
        let mut hash = Sha256::new();
        let settings = serde_json::to_string(self.config).expect("settings are plain data");
        hash.update(env!("CARGO_PKG_VERSION"));
        hash.update(settings);
        hash.update(self.name);
        let mut paths: Vec<&Path> = snapshot.paths().collect();
        paths.sort_unstable();
        for path in paths {
            hash.update(path.to_string_lossy().as_bytes());
            if let Some(text) = snapshot.text(path) {
                hash.update((text.len() as u64).to_le_bytes());
                hash.update(text.as_bytes());
            }
        }
        hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
    }

    /// The repository's files in shards.
    fn shards(&self, snapshot: &Snapshot, stem: &Path) -> Vec<Shard> {
        let mut all = sources(snapshot);
        if let Some(max) = self.config.functions_max {
            draw(&mut all, max, self.config.seed);
        }
        let mut shards: Vec<Shard> = Vec::new();
        for source in all {
            let n = source.infos.len();
            match shards.last_mut() {
                Some(last) if last.n_functions < SHARD_FUNCTIONS => {
                    last.n_functions += n;
                    last.sources.push(source);
                }
                _ => {
                    let number = shards.len();
                    let path = PathBuf::from(format!("{}-{number:05}.jsonl", stem.display()));
                    shards.push(Shard { path, sources: vec![source], n_functions: n });
                }
            }
        }
        shards
    }

    fn make(
        &self,
        shard: &Shard,
        key: &str,
        snapshot: &Snapshot,
        tools: &mut Tools,
    ) -> Result<(), AugmentError> {
        let mut tally = Tally::default();
        let mut records = Vec::new();
        let is_too_large = self.config.files_max.is_some_and(|max| self.report.n_files > max);
        if is_too_large {
            tally.repos_refused.insert(format!("too_many_files: {}", self.name), 1);
        } else {
            for source in &shard.sources {
                self.file(source, snapshot, tools, &mut tally, &mut records);
            }
        }
        let differences = std::mem::take(&mut tally.differences);
        let tally = Box::new(tally);
        let head = Line::Head { key: key.to_owned(), repo: self.name.to_owned(), tally };
        let lines = std::iter::once(head)
            .chain(records.into_iter().map(|r| Line::Record(Box::new(r))))
            .chain(differences.into_iter().map(|d| Line::Difference(Box::new(d))));
        write_whole(&shard.path, |out| {
            for line in lines {
                serde_json::to_writer(&mut *out, &line)?;
                out.write_all(b"\n")?;
            }
            Ok(())
        })
    }

    fn file(
        &self,
        source: &Source,
        snapshot: &Snapshot,
        tools: &mut Tools,
        tally: &mut Tally,
        records: &mut Vec<Record>,
    ) {
        let Some(original) = snapshot.text(&source.path) else {
            return;
        };
        let text = with_line_feeds(&original);
        tally.files += 1;
        if let Some(rule) = refuse_file(&text, self.config.file_lines_max) {
            *tally.files_refused.entry(rule.to_owned()).or_default() += 1;
            return;
        }
        let index = LineIndex::new(&text);
        let inner = source.path.strip_prefix(self.project.root()).unwrap_or(&source.path);
        let file_path = inner.to_string_lossy().replace('\\', "/");
        let around =
            Around { repo: self.name, path: &source.path, file_path: &file_path, text: &text };
        for info in &source.infos {
            let found = found(info, &original, &text, &index);
            records.extend(example(self.config, &around, &found, tools, self.count, tally));
        }
    }
}

/// Keep `max` functions, those with the smallest keys.
fn draw(all: &mut Vec<Source>, max: usize, seed: u64) {
    let key = |symbol: &str, line: u32| {
        super::similar::hash_bytes(format!("{seed}\0{symbol}\0{line}").as_bytes())
    };
    let mut keys: Vec<u64> =
        all.iter().flat_map(|s| s.infos.iter().map(|i| key(&i.symbol, i.line))).collect();
    keys.sort_unstable();
    let Some(&last) = keys.get(max.saturating_sub(1)).filter(|_| keys.len() > max) else {
        return;
    };
    for source in all.iter_mut() {
        source.infos.retain(|i| max > 0 && key(&i.symbol, i.line) <= last);
    }
    all.retain(|s| !s.infos.is_empty());
}

/// Does the shard exist, made from the same?
fn is_made(path: &Path, key: &str) -> bool {
    let Ok(file) = fs::File::open(path) else {
        return false;
    };
    let mut line = String::new();
    let is_read = BufReader::new(file).read_line(&mut line).is_ok();
    let head = serde_json::from_str(&line);
    is_read && matches!(head, Ok(Line::Head { key: of, .. }) if of == key)
}

/// Write a file beside its place and rename it there. What could not be finished is removed.
pub(super) fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<fs::File>) -> io::Result<()>,
) -> Result<(), AugmentError> {
    let part = path.with_extension("part");
    let attempt = || -> io::Result<()> {
        let mut out = BufWriter::new(fs::File::create(&part)?);
        write(&mut out)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&part, path)
    };
    attempt().map_err(|error| {
        let _ = fs::remove_file(&part); // the error that matters is the first one
        write_error(path, error)
    })
}

/// The lines of a shard.
pub(super) fn read(
    path: &Path,
) -> Result<impl Iterator<Item = Result<Line, AugmentError>>, AugmentError> {
    let bad = |reason: String| AugmentError::Shard { path: path.to_owned(), reason };
    let file = fs::File::open(path).map_err(|e| bad(e.to_string()))?;
    let path = path.to_owned();
    Ok(BufReader::new(file).lines().map(move |line| {
        let bad = |reason: String| AugmentError::Shard { path: path.clone(), reason };
        let line = line.map_err(|e| bad(e.to_string()))?;
        serde_json::from_str(&line).map_err(|e| bad(e.to_string()))
    }))
}
