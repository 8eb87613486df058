//! A project and its immutable snapshots.
//!
//! # Place
//! Uses everything below it in `repo`. Handed to completion tools, queries and checks.
//! # Invariants
//! - A snapshot never changes. A changed file makes a new snapshot that shares all other files.
//! - Opening fails only when the root cannot be read; a file that cannot be used is skipped and named.

use super::environment::{self, Environment, PythonChoice};
use super::error::{RepoError, SkipReason, Skipped};
use super::file::{File, FileHead, FileId, Module, ModuleId};
use super::layout;
use super::library::Library;
use super::name::Name;
use super::source;
use crate::base::Origin;
use rustc_hash::{FxHashMap, FxHashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Instant;

/// What a project is opened with.
#[derive(Clone, Debug)]
pub struct ProjectConfig {
    /// The folder that holds the project (or one of its packages).
    pub root: PathBuf,
    /// Folders that modules are named from; found when not given.
    pub source_roots: Option<Vec<PathBuf>>,
    pub python: PythonChoice,
    /// Folder of standard library stubs (the one with `builtins.pyi`); found among the installed
    /// packages when not given.
    pub typeshed: Option<PathBuf>,
    /// Threads that parse while the project is opened.
    pub n_threads: usize,
    /// A folder without Python is no project. Cleared when somebody else lists the names, in whatever
    /// language.
    pub needs_python: bool,
}

impl ProjectConfig {
    /// The defaults for a folder.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            source_roots: None,
            python: PythonChoice::Active,
            typeshed: None,
            n_threads: std::thread::available_parallelism().map_or(1, |n| n.get().min(8)),
            needs_python: true,
        }
    }
}

/// What opening a project found.
#[derive(Clone, Debug, Default)]
pub struct IndexReport {
    pub root: PathBuf,
    pub source_roots: Vec<PathBuf>,
    pub n_files: usize,
    pub n_lines: usize,
    pub n_bytes: usize,
    pub n_functions: usize,
    pub n_classes: usize,
    /// Files with at least one place that does not parse.
    pub n_files_with_errors: usize,
    pub memory_bytes: usize,
    pub skipped: Vec<Skipped>,
    pub environment: Environment,
    pub typeshed: Option<PathBuf>,
    pub elapsed_ms: f64,
}

/// The project at one moment.
pub struct Snapshot {
    pub(crate) files: Vec<Option<Arc<File>>>,
    pub(crate) by_path: Arc<FxHashMap<PathBuf, FileId>>,
    pub(crate) modules: Arc<ModuleTable>,
    pub(crate) library: Arc<Library>,
    imported: OnceLock<FxHashSet<Name>>,
}

/// The project's modules by name.
#[derive(Default, Clone)]
pub(crate) struct ModuleTable {
    pub(crate) entries: Vec<Module>,
    pub(crate) by_name: FxHashMap<Name, ModuleId>,
    /// Direct submodules, short names.
    pub(crate) children: FxHashMap<ModuleId, Vec<Name>>,
    pub(crate) tops: Vec<Name>,
}

impl ModuleTable {
    fn enter(&mut self, name: Name, is_package: bool) -> ModuleId {
        if let Some(&id) = self.by_name.get(&name) {
            self.entries[id.0 as usize].is_package |= is_package;
            return id;
        }
        let id = ModuleId(self.entries.len() as u32);
        self.entries.push(Module {
            name,
            stub: None,
            source: None,
            is_package,
            origin: Origin::Project,
            dirs: Vec::new(),
        });
        self.by_name.insert(name, id);
        match name.as_str().rsplit_once('.') {
            Some((parent, last)) => {
                let parent = self.enter(Name::new(parent), true);
                self.children.entry(parent).or_default().push(Name::new(last));
            }
            None => self.tops.push(name),
        }
        id
    }

    fn add(&mut self, file: &mut File) {
        if file.module_name == Name::EMPTY {
            return;
        }
        let id = self.enter(file.module_name, file.is_package);
        let module = &mut self.entries[id.0 as usize];
        let slot = if file.is_stub { &mut module.stub } else { &mut module.source };
        // A package and a module of the same name: the package wins, as in Python.
        if slot.is_none() || file.is_package {
            *slot = Some(file.id);
        }
        file.module = Some(id);
    }
}

/// A Python project whose files are analysed.
pub struct Project {
    root: PathBuf,
    source_roots: Vec<PathBuf>,
    snapshot: RwLock<Arc<Snapshot>>,
}

impl Project {
    /// Find, read and analyse the files of a project.
    ///
    /// # Errors
    /// When the root cannot be read or holds no Python file.
    pub fn open(config: ProjectConfig) -> Result<(Self, IndexReport), RepoError> {
        Self::open_with(config, &|_, _| {})
    }

    /// The same; `each` is told how many files of how many are analysed.
    ///
    /// # Errors
    /// When the root cannot be read or holds no Python file.
    pub fn open_with(
        config: ProjectConfig,
        each: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<(Self, IndexReport), RepoError> {
        let started = Instant::now();
        let not_a_directory =
            |reason: String| RepoError::NotADirectory { path: config.root.clone(), reason };
        let root = config.root.canonicalize().map_err(|e| not_a_directory(e.to_string()))?;
        if !root.is_dir() {
            return Err(not_a_directory("it is a file".to_owned()));
        }
        let layout = layout::scan(&root, config.source_roots.as_deref());
        if layout.files.is_empty() && config.needs_python {
            return Err(RepoError::NoPython { path: root });
        }
        let environment = environment::discover(&config.python, &root);
        let library = Arc::new(Library::new(&environment, config.typeshed.clone()));
        let mut skipped = layout.skipped;
        let heads: Vec<FileHead> = layout
            .files
            .iter()
            .enumerate()
            .map(|(i, path)| head(FileId(i as u32), path, &layout.roots))
            .collect();
        let (files, faults) = analyse_all(heads, config.n_threads, each);
        skipped.extend(faults);
        let mut table = ModuleTable::default();
        let mut by_path = FxHashMap::default();
        let mut report = IndexReport {
            root: root.clone(),
            source_roots: layout.roots.clone(),
            typeshed: library.typeshed().map(Path::to_path_buf),
            environment,
            ..IndexReport::default()
        };
        let mut shared: Vec<Option<Arc<File>>> = Vec::with_capacity(files.len());
        for file in files {
            let Some(mut file) = file else {
                shared.push(None);
                continue;
            };
            table.add(&mut file);
            by_path.insert(file.path.to_path_buf(), file.id);
            report.n_files += 1;
            report.n_lines += file.text.bytes().filter(|&b| b == b'\n').count();
            report.n_bytes += file.text.len();
            report.n_functions += file.ast.functions.len();
            report.n_classes += file.ast.classes.len();
            report.n_files_with_errors += usize::from(!file.ast.errors.is_empty());
            report.memory_bytes += file.n_bytes();
            shared.push(Some(Arc::new(file)));
        }
        report.skipped = skipped;
        let snapshot = Snapshot {
            files: shared,
            by_path: Arc::new(by_path),
            modules: Arc::new(table),
            library,
            imported: OnceLock::new(),
        };
        report.elapsed_ms = started.elapsed().as_secs_f64() * 1e3;
        let project =
            Self { root, source_roots: layout.roots, snapshot: RwLock::new(Arc::new(snapshot)) };
        Ok((project, report))
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn source_roots(&self) -> &[PathBuf] {
        &self.source_roots
    }

    /// The project as it is now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Take over a file's text: its own when `text` is none (it is read again, or forgotten when it is
    /// gone).
    ///
    /// # Errors
    /// When the file lies outside the project or cannot be used.
    pub fn update(&self, path: &Path, text: Option<String>) -> Result<(), RepoError> {
        let path = canonical(path);
        let no_such = |reason: String| RepoError::NoSuchFile { path: path.clone(), reason };
        if !path.starts_with(&self.root) {
            return Err(no_such(format!("it lies outside {}", self.root.display())));
        }
        let text: Option<Arc<str>> = match text {
            Some(text) => Some(Arc::from(text)),
            None => match source::read(&path) {
                Ok(text) => Some(text),
                Err(SkipReason::Vanished) => None,
                Err(reason) => return Err(no_such(reason.to_string())),
            },
        };
        let mut guard = self.snapshot.write().unwrap_or_else(PoisonError::into_inner);
        let old = &**guard;
        let id = old.by_path.get(&path).copied();
        let next = match (id, text) {
            (Some(id), Some(text)) => self.with_text(old, id, &path, text),
            (None, Some(text)) => self.with_file(old, path, text),
            (Some(id), None) => without_file(old, id, &path),
            (None, None) => return Err(no_such("there is no such file".to_owned())),
        };
        *guard = Arc::new(next);
        Ok(())
    }

    /// The snapshot with another text for a file.
    fn with_text(&self, old: &Snapshot, id: FileId, path: &Path, text: Arc<str>) -> Snapshot {
        let mut files = old.files.clone();
        let head = old.files[id.0 as usize].as_ref().map(|f| f.head());
        let head = head.unwrap_or_else(|| head_for(id, path, &self.source_roots, &old.modules));
        files[id.0 as usize] = Some(Arc::new(File::analyse(head, text, None)));
        Snapshot {
            files,
            by_path: old.by_path.clone(),
            modules: old.modules.clone(),
            library: old.library.clone(),
            imported: OnceLock::new(),
        }
    }

    /// The snapshot with one file more.
    fn with_file(&self, old: &Snapshot, path: PathBuf, text: Arc<str>) -> Snapshot {
        let mut files = old.files.clone();
        let id = FileId(files.len() as u32);
        let mut file = File::analyse(head(id, &path, &self.source_roots), text, None);
        let mut modules = (*old.modules).clone();
        modules.add(&mut file);
        let mut by_path = (*old.by_path).clone();
        by_path.insert(path, id);
        files.push(Some(Arc::new(file)));
        Snapshot {
            files,
            by_path: Arc::new(by_path),
            modules: Arc::new(modules),
            library: old.library.clone(),
            imported: OnceLock::new(),
        }
    }
}

/// The snapshot without a file that is gone.
fn without_file(old: &Snapshot, id: FileId, path: &Path) -> Snapshot {
    let mut files = old.files.clone();
    files[id.0 as usize] = None;
    let mut by_path = (*old.by_path).clone();
    by_path.remove(path);
    let mut modules = ModuleTable::default();
    for slot in &mut files {
        if let Some(file) = slot {
            // Module ids may move: every file learns its own again.
            let mut copy = File::analyse(file.head(), file.text.clone(), None);
            modules.add(&mut copy);
            *slot = Some(Arc::new(copy));
        }
    }
    Snapshot {
        files,
        by_path: Arc::new(by_path),
        modules: Arc::new(modules),
        library: old.library.clone(),
        imported: OnceLock::new(),
    }
}

/// The canonical path, also of a file that does not exist yet.
pub(crate) fn canonical(path: &Path) -> PathBuf {
    if let Ok(found) = path.canonicalize() {
        return found;
    }
    match (path.parent().map(Path::canonicalize), path.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        _ => path.to_path_buf(),
    }
}

pub(crate) fn head(id: FileId, path: &Path, roots: &[PathBuf]) -> FileHead {
    let (name, is_package) = layout::module_name(path, roots)
        .map_or((Name::EMPTY, false), |(name, is_package)| (Name::new(&name), is_package));
    FileHead {
        id,
        path: Arc::from(path),
        module: None,
        module_name: name,
        is_package,
        is_stub: path.extension().is_some_and(|e| e == "pyi"),
        origin: Origin::Project,
    }
}

fn head_for(id: FileId, path: &Path, roots: &[PathBuf], modules: &ModuleTable) -> FileHead {
    let mut head = head(id, path, roots);
    head.module = modules.by_name.get(&head.module_name).copied();
    head
}

/// Read and analyse files on several threads; results keep the order of the heads.
fn analyse_all(
    heads: Vec<FileHead>,
    n_threads: usize,
    each: &(dyn Fn(usize, usize) + Sync),
) -> (Vec<Option<File>>, Vec<Skipped>) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let n_done = std::sync::atomic::AtomicUsize::new(0);
    let n_threads = n_threads.clamp(1, 64).min(heads.len().max(1));
    let work = || {
        let mut done = Vec::new();
        loop {
            let i = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let Some(head) = heads.get(i) else {
                return done;
            };
            let outcome = source::read(&head.path)
                .map(|text| File::analyse(head.clone(), text, None))
                .map_err(|reason| Skipped { path: head.path.to_path_buf(), reason });
            done.push((i, outcome));
            each(n_done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1, heads.len());
        }
    };
    let mut all: Vec<(usize, Result<File, Skipped>)> = if n_threads == 1 {
        work()
    } else {
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..n_threads).map(|_| scope.spawn(work)).collect();
            workers.into_iter().flat_map(|w| w.join().unwrap_or_default()).collect()
        })
    };
    all.sort_by_key(|(i, _)| *i);
    let mut files: Vec<Option<File>> = Vec::with_capacity(heads.len());
    let mut skipped = Vec::new();
    for (i, outcome) in all {
        while files.len() < i {
            files.push(None);
        }
        match outcome {
            Ok(file) => files.push(Some(file)),
            Err(fault) => {
                skipped.push(fault);
                files.push(None);
            }
        }
    }
    (files, skipped)
}

impl Snapshot {
    /// Number of project files.
    pub fn n_files(&self) -> usize {
        self.files.iter().flatten().count()
    }

    /// Does some import statement of a project file load this module?
    pub(crate) fn imports(&self, module: Name) -> bool {
        let imported = self.imported.get_or_init(|| {
            let files = self.files.iter().flatten();
            files.flat_map(|f| f.relations().imported.iter().copied()).collect()
        });
        imported.contains(&module)
    }

    pub(crate) fn file_at(&self, path: &Path) -> Option<&Arc<File>> {
        let id = self.by_path.get(path)?;
        self.files.get(id.0 as usize)?.as_ref()
    }

    /// The text of a project file as it was analysed.
    pub fn text(&self, path: &Path) -> Option<Arc<str>> {
        self.file_at(path).or_else(|| self.file_at(&canonical(path))).map(|f| f.text.clone())
    }

    /// Paths of all analysed files, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().flatten().map(|f| &*f.path)
    }
}
