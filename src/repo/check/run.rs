//! Checking files: each on its own, several at once, and what comes out in order.
//!
//! # Place
//! The entrance of the checker.

use super::finding::{Finding, quoted};
use super::inspect::{Found, Inspection, Shared};
use super::message::{Message, MessageSet};
use super::name::{builtin_names, writes_globals};
use super::suppress::Suppressions;
use crate::base::LineCol;
use crate::repo::error::RepoError;
use crate::repo::file::File;
use crate::repo::infer::{Known, World};
use crate::repo::locate::STACK_BYTES_MAX;
use crate::repo::name::Name;
use crate::repo::project::{Snapshot, canonical};
use crate::repo::scope::ScopeKind;
use crate::repo::symbol::qualified_name;
use crate::repo::walk::walk;
use rustc_hash::FxHashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Stack of a worker: inference follows chains of definitions.
const STACK_BYTES: usize = 64 << 20;

/// What is checked for, and with how many threads.
#[derive(Clone, Debug)]
pub struct CheckConfig {
    pub messages: MessageSet,
    pub n_threads: usize,
    /// Also give what comments silence.
    pub heed_comments: Heed,
}

/// Do comments in the source silence findings?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heed {
    Comments,
    Nothing,
}

/// What checking found.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Sorted by path and place.
    pub findings: Vec<Finding>,
    pub n_files: usize,
    pub n_lines: usize,
    /// Findings that comments silenced.
    pub n_silenced: usize,
    pub elapsed_ms: f64,
}

/// Check files of a snapshot; all of them when none is named.
///
/// # Errors
/// When a named file is not part of the project.
pub fn check(
    snapshot: &Snapshot,
    paths: &[PathBuf],
    config: &CheckConfig,
) -> Result<CheckReport, RepoError> {
    let started = Instant::now();
    let files: Vec<Arc<File>> = if paths.is_empty() {
        snapshot.files.iter().flatten().cloned().collect()
    } else {
        let find = |path: &PathBuf| {
            let found = snapshot.file_at(path).or_else(|| snapshot.file_at(&canonical(path)));
            found.cloned().ok_or_else(|| RepoError::NoSuchFile {
                path: path.clone(),
                reason: "it was not analysed".to_owned(),
            })
        };
        paths.iter().map(find).collect::<Result<_, _>>()?
    };
    let next = AtomicUsize::new(0);
    let shared = shared(snapshot);
    let work = || worker(snapshot, &files, &next, config, &shared);
    let n_threads = config.n_threads.clamp(1, files.len().max(1));
    let parts: Vec<CheckReport> = std::thread::scope(|scope| {
        let spawn = |_| {
            std::thread::Builder::new()
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, work)
                .expect("a thread for each processor can be started")
        };
        let workers: Vec<_> = (0..n_threads).map(spawn).collect();
        workers
            .into_iter()
            .map(|w| w.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause)))
            .collect()
    });
    let mut report = CheckReport { n_files: files.len(), ..CheckReport::default() };
    for part in parts {
        report.findings.extend(part.findings);
        report.n_silenced += part.n_silenced;
        report.n_lines += part.n_lines;
    }
    report.findings.sort();
    report.findings.dedup();
    report.elapsed_ms = started.elapsed().as_secs_f64() * 1e3;
    Ok(report)
}

fn shared(snapshot: &Snapshot) -> Shared {
    let world = World::new(snapshot, None, None).within_stack(STACK_BYTES_MAX);
    let mut stored: FxHashSet<Name> = FxHashSet::default();
    for file in snapshot.files.iter().flatten() {
        stored.extend(file.scopes.outside_stores().iter().map(|s| s.name));
    }
    Shared { builtins: Arc::new(builtin_names(&world)), stored: Arc::new(stored) }
}

fn worker(
    snapshot: &Snapshot,
    files: &[Arc<File>],
    next: &AtomicUsize,
    config: &CheckConfig,
    shared: &Shared,
) -> CheckReport {
    let mut report = CheckReport::default();
    let mut tiers = Known::default();
    while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
        let world =
            World::new(snapshot, None, None).resume(None, tiers).within_stack(STACK_BYTES / 2);
        let found = inspect(&world, file, shared, config.messages);
        tiers = world.into_known();
        let silent = Suppressions::of(file);
        report.n_lines += file.text.bytes().filter(|&b| b == b'\n').count();
        for found in found {
            let start = file.position(found.span.start);
            let anchor = file.position(found.anchor);
            let silenced = silent.skip_file
                || silent.silences(start.line, found.message)
                || silent.silences(anchor.line, found.message);
            if silenced && config.heed_comments == Heed::Comments {
                report.n_silenced += 1;
                continue;
            }
            report.findings.push(placed(file, found, start));
        }
    }
    report
}

fn inspect(
    world: &World<'_>,
    file: &Arc<File>,
    shared: &Shared,
    messages: MessageSet,
) -> Vec<Found> {
    if let Some(error) = file.ast.errors.iter().min_by_key(|e| e.span.start) {
        if !messages.contains(Message::SyntaxError) {
            return Vec::new();
        }
        return vec![Found {
            message: Message::SyntaxError,
            span: error.span,
            anchor: error.span.start,
            text: format!("syntax error: {}", error.message),
        }];
    }
    let mut messages = messages;
    if writes_globals(file) {
        messages.remove(Message::UndefinedVariable);
    }
    let mut inspection = Inspection::new(world, file.clone(), messages, shared);
    walk(file, &mut inspection);
    inspection.found
}

fn placed(file: &File, found: Found, start: LineCol) -> Finding {
    let mut object = String::new();
    let scope = file.scopes.at(found.span.start);
    match file.scopes.scope(scope).kind {
        ScopeKind::Function(func) => object = qualified_name(file, func),
        ScopeKind::Class(class) => file.ast.class(class).name.as_str().clone_into(&mut object),
        ScopeKind::Module => {}
    }
    Finding {
        path: file.path.to_path_buf(),
        start,
        end: file.position(found.span.end.max(found.span.start)),
        message: found.message,
        module: file.module_name.as_str().to_owned(),
        object,
        names: quoted(&found.text),
        text: found.text,
    }
}
