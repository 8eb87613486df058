//! Modules and imports: names of modules, star imports, `__all__`.
//!
//! # Place
//! Uses `world` to find modules. Used for import statements and attributes of modules.
//! # Sources
//! docs.python.org/3/reference/import.html and simple_stmts.html#the-import-statement.

use super::annotation::string_value;
use super::ty::{Ty, TySet};
use super::world::{Env, Key, World};
use crate::repo::file::{File, ModuleId};
use crate::repo::name::Name;
use crate::repo::scope::{BindKind, Binding, ScopeId};
use crate::repo::syntax::*;
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// Deepest chain of star imports.
const STARS_MAX: u32 = 16;

/// The names in `__all__`.
#[derive(Debug)]
pub(crate) struct AllNames {
    pub(crate) names: FxHashSet<Name>,
    /// These are all of them.
    pub(crate) complete: bool,
}

impl World<'_> {
    /// `import a.b` and `import a.b as c`.
    pub(super) fn imported(&self, _env: &Env, alias: &Alias) -> TySet {
        let name = if alias.as_name.is_some() {
            alias.name
        } else {
            let dotted = alias.name.as_str();
            Name::new(dotted.split('.').next().unwrap_or(dotted))
        };
        let found =
            self.resolve_module(name).map_or_else(TySet::unknown, |id| TySet::one(Ty::Module(id)));
        // `import a.b` of which only a is here: there is more to a than is seen.
        if name != alias.name && self.resolve_module(alias.name).is_none() {
            return found.with_unknown();
        }
        found
    }

    /// `from m import name`.
    pub(super) fn imported_from(&self, file: &File, from: &ImportFrom, name: Name) -> TySet {
        let Some(module) = file.absolute(from.level, from.module) else {
            return TySet::unknown();
        };
        let Some(id) = self.resolve_module(module) else {
            return TySet::unknown();
        };
        // A package that imports from itself means its submodule when the name is not bound yet.
        let itself = self.module(id);
        let is_itself = [itself.stub, itself.source].contains(&Some(file.id));
        if is_itself && let Some(sub) = self.submodule(id, name) {
            return TySet::one(Ty::Module(sub));
        }
        if let Some(found) = self.bound_in_module(id, name) {
            return found;
        }
        if let Some(sub) = self.submodule(id, name) {
            return TySet::one(Ty::Module(sub));
        }
        TySet::unknown()
    }

    pub(crate) fn submodule(&self, id: ModuleId, name: Name) -> Option<ModuleId> {
        let module = self.module(id);
        if !module.is_package {
            return None;
        }
        self.resolve_module(Name::new(&format!("{}.{name}", module.name)))
    }

    /// A name of a module; none when it has no such name.
    pub(crate) fn module_attribute(&self, id: ModuleId, name: Name) -> Option<TySet> {
        if let Some(found) = self.bound_in_module(id, name) {
            return Some(found);
        }
        let (file, _) = self.module_files(id);
        let Some(file) = file else {
            // A namespace package: only its modules.
            return self.submodule(id, name).map(|sub| TySet::one(Ty::Module(sub)));
        };
        // A submodule that someone imported is an attribute of its package.
        if self.is_imported_somewhere(id, name) {
            return self.submodule(id, name).map(|sub| TySet::one(Ty::Module(sub)));
        }
        // A module-level `__getattr__` answers for everything else.
        self.has_module_getattr(&file).then(TySet::unknown)
    }

    /// What a module's own statements bind a name to.
    fn bound_in_module(&self, id: ModuleId, name: Name) -> Option<TySet> {
        let (file, source) = self.module_files(id);
        let file = file?;
        if let Some(found) = self.file_attribute(id, &file, name) {
            return Some(found);
        }
        // The stub does not know it, the source may.
        let source = source.filter(|s| s.id != file.id)?;
        self.file_attribute(id, &source, name)
    }

    pub(crate) fn has_module_getattr(&self, file: &File) -> bool {
        file.scopes
            .of(ScopeId::MODULE, Name::GETATTR_METHOD)
            .iter()
            .any(|b| matches!(b.kind, BindKind::Function(_)))
    }

    fn file_attribute(&self, id: ModuleId, file: &Arc<File>, name: Name) -> Option<TySet> {
        let bindings = file.scopes.of(ScopeId::MODULE, name);
        if !bindings.is_empty() {
            let key = Key::Module(id, name);
            let env = Env::new(file.clone(), ScopeId::MODULE);
            // The source of a stubbed module has answers of its own.
            if file.is_stub || self.module(id).stub.is_none() {
                let found =
                    self.memo(key, || self.at_scope_exit(&env, name).unwrap_or_else(TySet::empty));
                return (!found.is_empty())
                    .then_some(found)
                    .or_else(|| self.at_scope_exit(&env, name).is_some().then(TySet::unknown));
            }
            return self.at_scope_exit(&env, name);
        }
        if let Some(found) = self.star_imported(file, name) {
            return Some(found);
        }
        self.module_constant(file, name)
    }

    /// A name that a star import of this file brings in.
    pub(super) fn star_imported(&self, file: &File, name: Name) -> Option<TySet> {
        self.star_imported_within(file, name, 0)
    }

    fn star_imported_within(&self, file: &File, name: Name, depth: u32) -> Option<TySet> {
        if depth > STARS_MAX || !self.step() {
            return Some(TySet::unknown());
        }
        let mut unresolved = false;
        for &star in file.scopes.stars.iter().rev() {
            let from = &file.ast.imports_from[star as usize];
            let target =
                file.absolute(from.level, from.module).and_then(|m| self.resolve_module(m));
            let Some(id) = target else {
                unresolved = true;
                continue;
            };
            if Some(id) == file.module {
                continue;
            }
            let (Some(other), _) = self.module_files(id) else {
                continue;
            };
            if other.id == file.id || !self.exports(&other, name, depth + 1) {
                continue;
            }
            if !other.scopes.of(ScopeId::MODULE, name).is_empty() {
                if let Some(found) = self.module_attribute(id, name) {
                    return Some(found);
                }
            } else if let Some(found) = self.star_imported_within(&other, name, depth + 1) {
                return Some(found);
            } else if let Some(found) = self.module_attribute(id, name) {
                return Some(found);
            }
        }
        unresolved.then(TySet::unknown)
    }

    /// Does `from m import *` bring this name?
    pub(crate) fn exports(&self, file: &File, name: Name, depth: u32) -> bool {
        match self.all_names(file, depth) {
            Some(all) => all.names.contains(&name) || (!all.complete && !name.is_underscored()),
            None => !name.is_underscored(),
        }
    }

    /// The names in `__all__`; none when there is no `__all__`.
    pub(crate) fn all_names(&self, file: &File, depth: u32) -> Option<Arc<AllNames>> {
        if file.scopes.of(ScopeId::MODULE, Name::ALL).is_empty() {
            return None;
        }
        self.kept_all_names(file.id, || self.find_all_names(file, depth))
    }

    fn find_all_names(&self, file: &File, depth: u32) -> AllNames {
        let bindings = file.scopes.of(ScopeId::MODULE, Name::ALL);
        let mut names = FxHashSet::default();
        let mut complete = depth < STARS_MAX;
        if depth < STARS_MAX {
            for binding in bindings {
                complete &= self.add_all_names(file, binding, depth, &mut names);
            }
            complete &= self.add_all_calls(file, depth, &mut names);
        }
        AllNames { names, complete }
    }

    fn add_all_names(
        &self,
        file: &File,
        binding: &Binding,
        depth: u32,
        names: &mut FxHashSet<Name>,
    ) -> bool {
        match binding.kind {
            BindKind::Target { value, .. } => self.add_all_value(file, value, depth, names),
            BindKind::Annotated { value, .. } => match value.some() {
                Some(value) => self.add_all_value(file, value, depth, names),
                None => false,
            },
            BindKind::Augmented { stmt } => match file.ast.stmt(stmt).kind {
                StmtKind::AugAssign { value, .. } => self.add_all_value(file, value, depth, names),
                _ => false,
            },
            _ => false,
        }
    }

    /// Names of one part of `__all__`; false when it is not static.
    fn add_all_value(
        &self,
        file: &File,
        value: ExprId,
        depth: u32,
        names: &mut FxHashSet<Name>,
    ) -> bool {
        let ast = &file.ast;
        match ast.kind(value) {
            ExprKind::List { items } | ExprKind::Tuple { items } | ExprKind::Set { items } => {
                let mut complete = true;
                for &item in ast.list(items) {
                    match (string_value(file, item), ast.kind(item)) {
                        (Some(text), _) => {
                            names.insert(Name::new(text));
                        }
                        (None, ExprKind::Starred(inner)) => {
                            complete &= self.add_all_value(file, inner, depth, names)
                        }
                        _ => complete = false,
                    }
                }
                complete
            }
            ExprKind::Binary { op: BinOp::Add, left, right } => {
                self.add_all_value(file, left, depth, names)
                    & self.add_all_value(file, right, depth, names)
            }
            // mod.__all__
            ExprKind::Attribute { value, name: Name::ALL } => {
                let ExprKind::Name(module) = ast.kind(value) else {
                    return false;
                };
                let other = self.module_named(file, module);
                self.add_all_of(other.and_then(|id| self.module_files(id).0), depth, names)
            }
            ExprKind::Call { func, args } => {
                let is_conversion =
                    matches!(ast.kind(func), ExprKind::Name(Name::LIST | Name::TUPLE));
                match ast.args(args) {
                    [only] if is_conversion => self.add_all_value(file, only.value, depth, names),
                    _ => false,
                }
            }
            // A name imported from another module's `__all__`, or a constant of this one.
            ExprKind::Name(name) => match file.scopes.of(ScopeId::MODULE, name) {
                [binding] if name != Name::ALL => match binding.kind {
                    BindKind::ImportFrom { from, alias }
                        if file.ast.aliases[alias as usize].name == Name::ALL =>
                    {
                        let from = &ast.imports_from[from as usize];
                        let other = file
                            .absolute(from.level, from.module)
                            .and_then(|m| self.resolve_module(m))
                            .and_then(|id| self.module_files(id).0);
                        self.add_all_of(other, depth, names)
                    }
                    _ => self.add_all_names(file, binding, depth + 1, names),
                },
                _ => false,
            },
            _ => false,
        }
    }

    /// All names of another file's `__all__`.
    fn add_all_of(
        &self,
        other: Option<Arc<File>>,
        depth: u32,
        names: &mut FxHashSet<Name>,
    ) -> bool {
        match other.and_then(|o| self.all_names(&o, depth + 1)) {
            Some(more) => {
                names.extend(more.names.iter().copied());
                more.complete
            }
            None => false,
        }
    }

    fn module_named(&self, file: &File, name: Name) -> Option<ModuleId> {
        for binding in file.scopes.of(ScopeId::MODULE, name) {
            match binding.kind {
                BindKind::Import { alias } => {
                    let alias = &file.ast.aliases[alias as usize];
                    return self.resolve_module(alias.as_name.map_or(name, |_| alias.name));
                }
                BindKind::ImportFrom { from, alias } => {
                    let from = &file.ast.imports_from[from as usize];
                    let base = file.absolute(from.level, from.module)?;
                    let last = file.ast.aliases[alias as usize].name;
                    let full = if base == Name::EMPTY {
                        last
                    } else {
                        Name::new(&format!("{base}.{last}"))
                    };
                    return self.resolve_module(full);
                }
                _ => {}
            }
        }
        // A star import of a submodule binds the submodule in its package.
        let module = file.module.map(|m| self.module(m))?;
        self.resolve_module(Name::new(&format!("{}.{name}", module.name)))
    }

    /// `__all__.append('x')`, `__all__.extend([...])`, `__all__.remove('x')` at module level.
    fn add_all_calls(&self, file: &File, depth: u32, names: &mut FxHashSet<Name>) -> bool {
        let ast = &file.ast;
        let mut complete = true;
        for &id in ast.block(ast.body) {
            let StmtKind::Expr(expr) = ast.stmt(id).kind else {
                continue;
            };
            let ExprKind::Call { func, args } = ast.kind(expr) else {
                continue;
            };
            let ExprKind::Attribute { value, name } = ast.kind(func) else {
                continue;
            };
            if !matches!(ast.kind(value), ExprKind::Name(Name::ALL)) {
                continue;
            }
            let [arg] = ast.args(args) else {
                complete = false;
                continue;
            };
            match (name, string_value(file, arg.value)) {
                (Name::APPEND, Some(text)) => {
                    names.insert(Name::new(text));
                }
                (Name::REMOVE, Some(text)) => {
                    names.remove(&Name::new(text));
                }
                (Name::EXTEND, _) => complete &= self.add_all_value(file, arg.value, depth, names),
                _ => complete = false,
            }
        }
        complete
    }

    /// Is a submodule an attribute of its package because something imports it?
    pub(crate) fn is_imported_somewhere(&self, id: ModuleId, name: Name) -> bool {
        // A name that no statement ever wrote is not interned.
        let full = Name::lookup(&format!("{}.{name}", self.module(id).name));
        full.is_some_and(|full| self.is_imported(full) && self.submodule(id, name).is_some())
    }
}
