//! The standard library and installed packages: found and parsed when they are asked for.
//!
//! # Place
//! Uses `file`, `source`, `environment`. Shared by all snapshots of a project.
//! # Invariants
//! - Entries are only added: an id once given stays valid and its file never changes.
//! - A library module never depends on project files.
//! # Sources
//! PEP 561 (stub packages), PEP 420 (namespace packages).

use super::environment::{Environment, find_typeshed, native_names};
use super::file::{File, FileHead, FileId, Module, ModuleId};
use super::name::Name;
use super::source;
use crate::base::Origin;
use rustc_hash::{FxHashMap, FxHashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// Built-in types for when no stubs are installed, and a supplement for old ones.
const BUILTINS: &str = include_str!("builtins.pyi");
/// The abstract types that those are described with.
const SUPPORT: &str = include_str!("support.pyi");

#[derive(Default)]
struct State {
    files: Vec<Arc<File>>,
    by_path: FxHashMap<PathBuf, Option<FileId>>,
    modules: Vec<Arc<Module>>,
    by_name: FxHashMap<Name, Option<ModuleId>>,
    listings: FxHashMap<PathBuf, Arc<FxHashSet<String>>>,
    /// Modules that import statements of the first `n_imported` files load.
    imported: FxHashSet<Name>,
    n_imported: usize,
}

pub(crate) struct Library {
    /// Where stubs of the standard library lie.
    typeshed: Option<PathBuf>,
    stdlib: Vec<PathBuf>,
    packages: Vec<PathBuf>,
    builtin_modules: FxHashSet<String>,
    executable: Option<PathBuf>,
    /// Names of modules written in C, as the interpreter has them; asked for when they are needed.
    native_names: OnceLock<FxHashMap<Name, FxHashSet<Name>>>,
    /// An interpreter was asked and nothing hooks into its imports.
    knows_packages: bool,
    state: RwLock<State>,
    /// The module of built-in names.
    builtins: ModuleId,
    supplement: FileId,
}

impl Library {
    pub(crate) fn new(environment: &Environment, typeshed: Option<PathBuf>) -> Self {
        let typeshed = typeshed.or_else(|| find_typeshed(&environment.packages));
        let mut library = Self {
            typeshed,
            stdlib: environment.stdlib.clone(),
            packages: environment.packages.clone(),
            builtin_modules: environment.builtin_modules.iter().cloned().collect(),
            executable: environment.executable.clone(),
            native_names: OnceLock::new(),
            knows_packages: environment.executable.is_some()
                && !environment.packages.iter().any(|dir| has_import_hooks(dir)),
            state: RwLock::default(),
            builtins: ModuleId::library(0),
            supplement: FileId::library(0),
        };
        let own_stub = |index: usize, path: &str, module_name: Name, text: &str| {
            let head = FileHead {
                id: FileId::library(index),
                path: Arc::from(Path::new(path)),
                module: None,
                module_name,
                is_package: false,
                is_stub: true,
                origin: Origin::Builtin,
            };
            Arc::new(File::analyse(head, Arc::from(text), None))
        };
        {
            let state = library.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            state.files.push(own_stub(0, "<builtins>", Name::BUILTINS, BUILTINS));
            state.files.push(own_stub(1, "<support>", Name::TYPES, SUPPORT));
            state.modules.push(Arc::new(Module {
                name: Name::BUILTINS,
                stub: Some(FileId::library(0)),
                source: None,
                is_package: false,
                origin: Origin::Builtin,
                dirs: Vec::new(),
            }));
        }
        if library.typeshed.is_some()
            && let Some(id) = library.resolve(Name::BUILTINS)
        {
            library.builtins = id;
        } else {
            let state = library.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            state.by_name.insert(Name::BUILTINS, Some(ModuleId::library(0)));
        }
        library
    }

    pub(crate) fn typeshed(&self) -> Option<&Path> {
        self.typeshed.as_deref()
    }

    pub(crate) fn builtins(&self) -> ModuleId {
        self.builtins
    }

    /// The names that a module written in C has, when the interpreter said.
    pub(crate) fn native_names(&self, module: Name) -> Option<&FxHashSet<Name>> {
        let known = self.native_names.get_or_init(|| {
            let found = self.executable.as_deref().map(native_names).unwrap_or_default();
            let names = |list: &[String]| list.iter().map(|n| Name::new(n)).collect();
            found.iter().map(|(module, list)| (Name::new(module), names(list))).collect()
        });
        known.get(&module)
    }

    /// Is every importable module one that can be found on disk?
    pub(crate) fn knows_packages(&self) -> bool {
        self.knows_packages
    }

    pub(crate) fn is_builtin_module(&self, name: &str) -> bool {
        self.builtin_modules.contains(name)
    }

    /// Our own table of built-in types.
    pub(crate) fn supplement(&self) -> FileId {
        self.supplement
    }

    pub(crate) fn support(&self) -> FileId {
        FileId::library(1)
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn file(&self, index: usize) -> Arc<File> {
        self.read().files[index].clone()
    }

    pub(crate) fn module(&self, index: usize) -> Arc<Module> {
        self.read().modules[index].clone()
    }

    /// Does some import statement of a file read so far load this module?
    pub(crate) fn imports(&self, module: Name) -> bool {
        {
            let state = self.read();
            if state.n_imported == state.files.len() {
                return state.imported.contains(&module);
            }
        }
        let mut state = self.write();
        let State { files, imported, n_imported, .. } = &mut *state;
        for file in &files[*n_imported..] {
            imported.extend(file.relations().imported.iter().copied());
        }
        *n_imported = files.len();
        imported.contains(&module)
    }

    /// The module with a dotted name.
    pub(crate) fn resolve(&self, name: Name) -> Option<ModuleId> {
        if let Some(&known) = self.read().by_name.get(&name) {
            return known;
        }
        let found = match name.as_str().rsplit_once('.') {
            None => self.find_top(name.as_str()),
            Some((parent, last)) => {
                let parent = self.resolve(Name::new(parent))?;
                let parent = self.module(parent.library_index()?);
                self.find_sub(&parent, last)
            }
        };
        let mut state = self.write();
        if let Some(&known) = state.by_name.get(&name) {
            return known; // Another thread was first.
        }
        let id = found.map(|module| {
            let id = ModuleId::library(state.modules.len());
            state.modules.push(Arc::new(module));
            id
        });
        state.by_name.insert(name, id);
        id
    }

    fn find_top(&self, name: &str) -> Option<Module> {
        if name.is_empty() {
            return None;
        }
        let full = Name::new(name);
        let mut found: Option<Module> = None;
        if let Some(dir) = &self.typeshed {
            self.look_in(dir, name, full, Origin::StandardLibrary, &mut found);
        }
        let is_stub_stdlib = found.is_some();
        for dir in &self.stdlib {
            self.look_in(dir, name, full, Origin::StandardLibrary, &mut found);
        }
        if is_stub_stdlib || found.as_ref().is_some_and(|m| m.file().is_some()) {
            return found;
        }
        if self.builtin_modules.contains(name) {
            return found; // A module without a file: nothing below may take its place.
        }
        let stubs = format!("{name}-stubs");
        for dir in &self.packages {
            self.look_in(dir, &stubs, full, Origin::Package, &mut found);
        }
        for dir in &self.packages {
            self.look_in(dir, name, full, Origin::Package, &mut found);
        }
        if found.as_ref().is_none_or(|m| m.file().is_none()) {
            // Third-party stubs that come with the standard library's, by distribution.
            if let Some(dir) = self.typeshed.as_ref().and_then(|t| t.parent()) {
                let dir = dir.join("stubs").join(name);
                self.look_in(&dir, name, full, Origin::Package, &mut found);
            }
        }
        found
    }

    /// Add what `dir` holds under `name` to the module found so far.
    fn look_in(
        &self,
        dir: &Path,
        name: &str,
        full: Name,
        origin: Origin,
        found: &mut Option<Module>,
    ) {
        let listing = self.listing(dir);
        let package = listing.contains(name).then(|| dir.join(name));
        let inner = package.as_deref().map(|p| self.listing(p));
        let has = |file: &str| inner.as_ref().is_some_and(|l| l.contains(file));
        let module = found.get_or_insert_with(|| Module {
            name: full,
            stub: None,
            source: None,
            is_package: false,
            origin,
            dirs: Vec::new(),
        });
        let before = (module.stub, module.source, module.dirs.len());
        if let Some(package) = &package {
            let regular = has("__init__.pyi") || has("__init__.py");
            // A folder without `__init__` is a portion of a namespace, unless a module was found.
            if regular || (module.file().is_none() && inner.as_ref().is_some_and(|l| !l.is_empty()))
            {
                module.dirs.push(Arc::from(package.as_path()));
            }
            module.is_package |= regular || module.file().is_none();
            if has("__init__.pyi") && module.stub.is_none() {
                module.stub = self.load(&package.join("__init__.pyi"), module, true);
            }
            if has("__init__.py") && module.source.is_none() {
                module.source = self.load(&package.join("__init__.py"), module, true);
            }
        }
        // Stubs of a newer Python may describe a package that is one file here.
        let is_newer_stub =
            origin == Origin::StandardLibrary && module.stub.is_some() && !has("__init__.py");
        if module.file().is_none()
            || (module.source.is_none() && (!module.is_package || is_newer_stub))
        {
            let stub = format!("{name}.pyi");
            if module.stub.is_none() && listing.contains(&stub) {
                module.stub = self.load(&dir.join(stub), module, false);
                module.is_package = false;
            }
            let source = format!("{name}.py");
            if module.source.is_none() && listing.contains(&source) {
                module.source = self.load(&dir.join(source), module, false);
                module.is_package &= is_newer_stub;
            }
        }
        let after = (module.stub, module.source, module.dirs.len());
        if before == after && after == (None, None, 0) {
            *found = None;
        }
    }

    fn find_sub(&self, parent: &Module, last: &str) -> Option<Module> {
        let full = Name::new(&format!("{}.{last}", parent.name));
        let mut found = None;
        for dir in &parent.dirs {
            self.look_in(dir, last, full, parent.origin, &mut found);
        }
        found
    }

    /// Names of the modules in a module's folders.
    pub(crate) fn submodules(&self, module: &Module) -> Vec<Name> {
        let mut names: Vec<Name> = module.dirs.iter().flat_map(|d| self.modules_in(d)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Names of all modules that could be imported first.
    pub(crate) fn top_modules(&self) -> Vec<Name> {
        let mut names: Vec<Name> = Vec::new();
        for dir in self.typeshed.iter().chain(&self.stdlib).chain(&self.packages) {
            names.extend(self.modules_in(dir));
        }
        names.extend(self.builtin_modules.iter().map(|m| Name::new(m)));
        names.sort_unstable();
        names.dedup();
        names
    }

    fn modules_in(&self, dir: &Path) -> Vec<Name> {
        let mut names = Vec::new();
        for entry in self.listing(dir).iter() {
            let stem = module_stem(entry);
            if let Some(stem) = stem
                && is_identifier(stem)
                && stem != "__init__"
                && stem != "__pycache__"
            {
                names.push(Name::new(stem));
            }
        }
        names
    }

    /// The names in a folder: files as they are, folders that may be packages.
    fn listing(&self, dir: &Path) -> Arc<FxHashSet<String>> {
        if let Some(known) = self.read().listings.get(dir) {
            return known.clone();
        }
        let mut names = FxHashSet::default();
        if let Ok(entries) = std::fs::read_dir(dir) {
            for entry in entries.flatten() {
                if let Ok(name) = entry.file_name().into_string() {
                    names.insert(name);
                }
            }
        }
        let names = Arc::new(names);
        self.write().listings.insert(dir.to_path_buf(), names.clone());
        names
    }

    fn load(&self, path: &Path, module: &Module, is_package: bool) -> Option<FileId> {
        if let Some(&known) = self.read().by_path.get(path) {
            return known;
        }
        let head = FileHead {
            id: FileId::library(0),
            path: Arc::from(path),
            module: None,
            module_name: module.name,
            is_package,
            is_stub: path.extension().is_some_and(|e| e == "pyi"),
            origin: module.origin,
        };
        let file = source::read(path).ok().map(|text| File::analyse(head, text, None));
        let mut state = self.write();
        if let Some(&known) = state.by_path.get(path) {
            return known; // Another thread was first.
        }
        let id = file.map(|mut file| {
            file.id = FileId::library(state.files.len());
            let id = file.id;
            state.files.push(Arc::new(file));
            id
        });
        state.by_path.insert(path.to_path_buf(), id);
        id
    }
}

/// Editable installs may bring finders of their own: then not every module lies where it looks.
fn has_import_hooks(packages: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(packages) else {
        return false;
    };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with("__editable__") || name.ends_with(".egg-link")
    })
}

/// The module that an entry of a folder is: `a.py`, `a.pyi`, an extension module, or a folder.
fn module_stem(entry: &str) -> Option<&str> {
    if let Some(stem) = entry.strip_suffix(".py").or_else(|| entry.strip_suffix(".pyi")) {
        return Some(stem);
    }
    if entry.ends_with(".so") || entry.ends_with(".pyd") {
        return entry.split('.').next();
    }
    (!entry.contains('.')).then_some(entry)
}

pub(crate) fn is_identifier(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c == '_' || c.is_alphabetic())
        && chars.all(|c| c == '_' || c.is_alphanumeric())
}
