//! Lists of names: what may follow the dot on a value, and how complete the list is.
//!
//! # Place
//! Uses `class`, `module` and `relation`; read by completion.
//! # Invariants
//! - A list is complete ([`Members::open`] is none) only when nothing known can add a name.

use super::ty::{ClassKey, Descriptor, Ty, TySet};
use super::world::{Env, World};
use crate::repo::file::{File, FileId, ModuleId};
use crate::repo::name::Name;
use crate::repo::scope::{BindKind, Binding, ScopeId};
use crate::repo::syntax::*;
use rustc_hash::FxHashMap;
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MemberKind {
    Module,
    Class,
    Function,
    Method,
    Property,
    Attribute,
    Variable,
}

#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) kind: MemberKind,
    /// Where it is defined; none for what has no source.
    pub(crate) site: Option<(FileId, u32)>,
}

/// Names, and whether there may be others.
#[derive(Debug, Default)]
pub(crate) struct Members {
    pub(crate) names: FxHashMap<Name, Member>,
    /// Why names may be missing.
    pub(crate) open: Option<Arc<str>>,
}

impl Members {
    pub(crate) fn add(&mut self, name: Name, member: Member) {
        self.names.entry(name).or_insert(member);
    }

    pub(crate) fn set_open(&mut self, reason: impl FnOnce() -> Arc<str>) {
        if self.open.is_none() {
            self.open = Some(reason());
        }
    }
}

/// Nesting of forwarding objects that is followed.
const FORWARDS_MAX: u32 = 3;

impl World<'_> {
    /// What may follow the dot on these values. `inside` is the class whose body the place is in.
    pub(crate) fn members(&self, of: &TySet, inside: Option<ClassKey>) -> Members {
        let mut out = Members::default();
        if of.unknown || of.items.is_empty() {
            out.set_open(|| Arc::from("unknown receiver"));
        }
        for ty in &of.items {
            self.add_members(ty, inside, &mut out, 0);
        }
        if of.items.iter().all(|t| *t == Ty::None) && !of.items.is_empty() {
            out.set_open(|| Arc::from("only None is known"));
        }
        if self.truncated.get() {
            out.set_open(|| Arc::from("too much to look at"));
        }
        out
    }

    fn add_members(&self, ty: &Ty, inside: Option<ClassKey>, out: &mut Members, depth: u32) {
        match ty {
            Ty::Instance { class, exact, .. } => {
                self.instance_members(*class, inside, out, depth);
                if !exact {
                    self.subclass_members(*class, inside, out);
                    if class.file.is_library() && self.is_abstract_class(*class) {
                        let name = self.class_name(*class);
                        out.set_open(|| {
                            Arc::from(format!("{name} is abstract: others implement it"))
                        });
                    }
                }
            }
            Ty::Class { class, .. } => self.class_members(*class, inside, out),
            Ty::Module(id) => self.module_members(*id, out),
            Ty::Super { after, of, .. } => self.super_members(*after, *of, inside, out),
            Ty::Var(var) => {
                let bound = self.var_bound(*var);
                if bound.unknown || bound.items.is_empty() || bound.has_vars() {
                    out.set_open(|| Arc::from(format!("{} may be anything", var.name)));
                }
                for ty in bound.items.iter().filter(|t| !matches!(t, Ty::Var(_))) {
                    self.add_members(ty, inside, out, depth);
                }
            }
            Ty::Function { .. } | Ty::Lambda { .. } | Ty::Callable(_) | Ty::Partial(_) => {
                if let Some(class) = self.class_of(ty) {
                    self.instance_members(class, inside, out, depth);
                }
                if let Ty::Function { file, func, .. } = ty {
                    let file = self.file(*file);
                    for store in self.function_stores(&file, *func) {
                        out.add(
                            store.name,
                            Member {
                                kind: MemberKind::Attribute,
                                site: Some((file.id, store.pos)),
                            },
                        );
                    }
                }
                out.set_open(|| Arc::from("functions take any attribute"));
            }
            Ty::Form(_) | Ty::Alias(_) => out.set_open(|| Arc::from("a type expression")),
            Ty::Tuple(_) | Ty::None | Ty::Descriptor(..) => match self.class_of(ty) {
                Some(class) => self.instance_members(class, inside, out, depth),
                None => out.set_open(|| Arc::from("a built-in type without a description")),
            },
        }
        if let Ty::Descriptor(Descriptor::ClassMethod | Descriptor::StaticMethod, _) = ty {
            out.set_open(|| Arc::from("functions take any attribute"));
        }
    }

    fn super_members(
        &self,
        after: ClassKey,
        of: ClassKey,
        inside: Option<ClassKey>,
        out: &mut Members,
    ) {
        let mro = self.mro(of);
        let at = mro.entries.iter().position(|e| e.class == after).map_or(0, |i| i + 1);
        for entry in mro.entries.iter().skip(at) {
            self.own_members(entry.class, inside, true, out);
        }
        if let Some(open) = &mro.open {
            out.set_open(|| open.clone());
        }
        // The next class may be another one in a subclass that has more bases; a class without bases
        // that calls `super()` is made for that.
        let is_mixed = |sub: &ClassKey| {
            let sub = self.mro(*sub);
            sub.open.is_some() || sub.entries.len() > mro.entries.len() + 1
        };
        if self.is_root(after) || self.subclasses(after).iter().any(is_mixed) {
            out.set_open(|| Arc::from("super() in a class that may be mixed with others"));
        }
    }

    fn instance_members(
        &self,
        class: ClassKey,
        inside: Option<ClassKey>,
        out: &mut Members,
        depth: u32,
    ) {
        let mro = self.mro(class);
        for entry in &mro.entries {
            self.own_members(entry.class, inside, false, out);
            if self.own(entry.class).has_class_level(Name::GETATTR_METHOD) && depth < FORWARDS_MAX {
                self.forwarded_members(class, entry.class, inside, out, depth);
            }
        }
        if let Some(open) = &mro.open {
            out.set_open(|| open.clone());
        }
        self.outside_members(class, out);
        self.decorated_openness(class, out);
        if self.is_object(class) {
            out.set_open(|| Arc::from("any object"));
        } else if self.builtin(Name::TYPE) == Some(class) {
            out.set_open(|| Arc::from("any class"));
        }
    }

    /// Names assigned from outside the class.
    fn outside_members(&self, class: ClassKey, out: &mut Members) {
        if class.file.is_library() {
            return;
        }
        let mut found: Vec<(Name, FileId, u32)> = Vec::new();
        let is_new = |name: Name| !out.names.contains_key(&name);
        self.each_store(class, &is_new, &mut |file, store, _| {
            found.push((store.name, file.id, store.pos));
        });
        for (name, file, pos) in found {
            out.add(name, Member { kind: MemberKind::Attribute, site: Some((file, pos)) });
        }
    }

    /// Names that only subclasses have: a value known as its base may be one of them.
    fn subclass_members(&self, class: ClassKey, inside: Option<ClassKey>, out: &mut Members) {
        let of_library = class.file.is_library();
        if of_library {
            for sub in self.subclasses_beside(class).iter() {
                self.own_members(*sub, inside, false, out);
            }
        }
        for sub in self.subclasses(class).iter() {
            let mro = self.mro(*sub);
            let open = out.open.clone();
            for entry in &mro.entries {
                self.own_members(entry.class, inside, false, out);
            }
            // Somebody's own dictionary does not make every dictionary one of them.
            if of_library {
                out.open = open;
            } else if let Some(open) = &mro.open {
                out.set_open(|| open.clone());
            }
        }
    }

    /// Does a class have no base but `object`?
    fn is_root(&self, class: ClassKey) -> bool {
        self.mro(class).entries[1..].iter().all(|e| self.is_object(e.class))
    }

    /// Class decorators that are not known to keep a class as it is.
    fn decorated_openness(&self, class: ClassKey, out: &mut Members) {
        for entry in &self.mro(class).entries {
            let (Some(env), Some(id)) = (self.class_env(entry.class), entry.class.class()) else {
                continue;
            };
            if env.file.ast.class(id).decorators.is_empty() || entry.class.file.is_library() {
                continue;
            }
            let parent = env.file.scopes.scope(env.scope).parent.unwrap_or(ScopeId::MODULE);
            let value = self.class_value(&env.in_scope(parent), id);
            if value.unknown {
                let name = env.file.ast.class(id).name;
                out.set_open(|| Arc::from(format!("decorator of {name}")));
            }
        }
    }

    /// A class's own names. Mangled ones exist only inside it.
    fn own_members(
        &self,
        class: ClassKey,
        inside: Option<ClassKey>,
        class_level_only: bool,
        out: &mut Members,
    ) {
        let own = self.own(class);
        let env = self.class_env(class);
        for (&name, known) in &own.names {
            if class_level_only && !known.in_class {
                continue;
            }
            if name.is_mangled() && inside != Some(class) {
                continue;
            }
            if out.names.contains_key(&name) {
                continue;
            }
            let kind = match &env {
                Some(env) if known.in_class => self.class_name_kind(env, name),
                _ => MemberKind::Attribute,
            };
            out.add(name, Member { kind, site: Some((class.file, known.pos)) });
        }
        if let Some(open) = &own.open {
            out.set_open(|| open.clone());
        }
    }

    fn class_name_kind(&self, env: &Env, name: Name) -> MemberKind {
        let file = &env.file;
        match file.scopes.of(env.scope, name).last().map(|b| b.kind) {
            Some(BindKind::Function(func)) => {
                let is_property =
                    file.ast.list(file.ast.function(func).decorators).iter().any(|d| {
                        self.decorator_name(file, *d).is_some_and(|(_, n)| {
                            matches!(
                                n,
                                Name::PROPERTY
                                    | Name::CACHED_PROPERTY
                                    | Name::SETTER
                                    | Name::ABSTRACTPROPERTY
                            )
                        })
                    });
                if is_property { MemberKind::Property } else { MemberKind::Method }
            }
            Some(BindKind::Class(_)) => MemberKind::Class,
            _ => MemberKind::Attribute,
        }
    }

    /// `__getattr__` that passes on to another object: that object's names.
    fn forwarded_members(
        &self,
        class: ClassKey,
        owner: ClassKey,
        inside: Option<ClassKey>,
        out: &mut Members,
        depth: u32,
    ) {
        let Some(env) = self.class_env(owner) else {
            return;
        };
        let file = env.file.clone();
        for binding in file.scopes.of(env.scope, Name::GETATTR_METHOD) {
            let BindKind::Function(func) = binding.kind else {
                continue;
            };
            let span = file.ast.function(func).span;
            let scope = file.scopes.of_function(func);
            let inner = Env::new(file.clone(), scope).with_receiver(Some(class));
            for &call in &file.ast.reflective_calls {
                if !span.contains(file.ast.expr(call).span.start) {
                    continue;
                }
                let ExprKind::Call { func, args } = file.ast.kind(call) else {
                    continue;
                };
                if !matches!(file.ast.kind(func), ExprKind::Name(Name::GETATTR)) {
                    continue;
                }
                let Some(first) = file.ast.args(args).first() else {
                    continue;
                };
                let target = self.expr(&inner, first.value);
                for ty in &target.items {
                    if !matches!(ty, Ty::Instance { class: c, .. } if *c == class)
                        && *ty != Ty::None
                    {
                        self.add_members(ty, inside, out, depth + 1);
                    }
                }
            }
        }
    }

    fn class_members(&self, class: ClassKey, inside: Option<ClassKey>, out: &mut Members) {
        let mro = self.mro(class);
        for entry in &mro.entries {
            self.own_members(entry.class, inside, true, out);
        }
        if let Some(open) = &mro.open {
            out.set_open(|| open.clone());
        }
        let (metaclass, unknown) = self.explicit_metaclass(class);
        if unknown {
            out.set_open(|| Arc::from(format!("unknown metaclass of {}", self.class_name(class))));
        }
        if let Some(meta) = metaclass.or_else(|| self.builtin(Name::TYPE)) {
            let meta_mro = self.mro(meta);
            for entry in &meta_mro.entries {
                self.own_members(entry.class, inside, false, out);
            }
            if let Some(open) = &meta_mro.open {
                out.set_open(|| open.clone());
            }
        }
        self.outside_members(class, out);
        if !class.file.is_library() {
            // `cls` in a method of a base may be any subclass.
            for sub in self.subclasses(class).iter() {
                for entry in &self.mro(*sub).entries {
                    self.own_members(entry.class, inside, true, out);
                }
            }
        }
        self.decorated_openness(class, out);
    }

    /// The names of a module.
    pub(crate) fn module_members(&self, id: ModuleId, out: &mut Members) {
        let module = self.module(id);
        let (file, source) = self.module_files(id);
        match &file {
            Some(file) => {
                self.file_members(id, file, out, 0);
                if let Some(source) = source.filter(|s| s.id != file.id) {
                    // What the stub leaves out and the source has.
                    self.file_members(id, &source, out, 0);
                    out.open = None;
                    if self.has_module_getattr(file) {
                        out.set_open(|| Arc::from(format!("__getattr__ of {}", module.name)));
                    }
                }
            }
            None if module.is_package => {
                // A namespace package has its modules and nothing else.
                for sub in self.submodule_names(id) {
                    out.add(sub, Member { kind: MemberKind::Module, site: None });
                }
            }
            None => out
                .set_open(|| Arc::from(format!("{} has no source that can be read", module.name))),
        }
        if file.is_some() && module.is_package {
            for sub in self.submodule_names(id) {
                if self.is_imported_somewhere(id, sub) {
                    out.add(sub, Member { kind: MemberKind::Module, site: None });
                }
            }
        }
        if matches!(module.name, Name::SYS | Name::BUILTINS) && id.library_index().is_some() {
            out.set_open(|| {
                Arc::from(format!("interpreters and embedders add to {}", module.name))
            });
        }
        if let Some(class) = self.library_class(Name::TYPES, Name::MODULE_TYPE) {
            // Stubs give modules a `__getattr__`, which no module has by itself.
            let open = out.open.take();
            for entry in &self.mro(class).entries {
                self.own_members(entry.class, None, false, out);
            }
            out.names.remove(&Name::GETATTR_METHOD);
            out.open = open;
        }
    }

    /// Names of a package's modules.
    pub(crate) fn submodule_names(&self, id: ModuleId) -> Vec<Name> {
        if id.library_index().is_some() {
            return self.library().submodules(&self.module(id));
        }
        let mut names = self.snapshot.modules.children.get(&id).cloned().unwrap_or_default();
        let module = self.module(id);
        if module.file().is_none()
            && let Some(other) = self.library().resolve(module.name)
        {
            names.extend(self.library().submodules(&self.module(other)));
        }
        names.sort_unstable_by_key(|n| n.as_str());
        names.dedup();
        names
    }

    fn file_members(&self, id: ModuleId, file: &Arc<File>, out: &mut Members, depth: u32) {
        self.scope_members(file, out, |_| true);
        self.star_members(file, out, depth);
        for name in [
            Name::NAME_ATTR,
            Name::FILE_ATTR,
            Name::DOC,
            Name::PACKAGE,
            Name::DICT_ATTR,
            Name::SPEC,
            Name::LOADER,
            Name::BUILTINS_PRIVATE,
        ] {
            out.add(name, Member { kind: MemberKind::Variable, site: None });
        }
        if file.is_package {
            out.add(Name::PATH_ATTR, Member { kind: MemberKind::Variable, site: None });
        }
        if self.has_module_getattr(file) {
            let name = self.module(id).name;
            out.set_open(|| Arc::from(format!("__getattr__ of {name}")));
        }
        self.dynamic_globals(file, out);
    }

    /// `globals()[…] = …`, `exec(…)` and friends at module level.
    fn dynamic_globals(&self, file: &File, out: &mut Members) {
        for &call in &file.ast.reflective_calls {
            let ExprKind::Call { func, args } = file.ast.kind(call) else {
                continue;
            };
            let ExprKind::Name(name) = file.ast.kind(func) else {
                continue;
            };
            let in_module = file.scopes.at(file.ast.expr(call).span.start) == ScopeId::MODULE;
            let dynamic = match name {
                Name::GLOBALS => true,
                Name::VARS | Name::LOCALS => in_module && args.is_empty(),
                Name::EXEC => in_module,
                Name::SETATTR => {
                    // setattr(sys.modules[__name__], …)
                    let text = file
                        .ast
                        .args(args)
                        .first()
                        .map_or("", |a| file.slice(file.ast.expr(a.value).span));
                    text.contains("modules")
                }
                _ => false,
            };
            if dynamic {
                out.set_open(|| Arc::from(format!("{name}() in {}", file.module_name)));
                return;
            }
        }
    }

    /// The names bound at module level that exist when the module is loaded.
    fn scope_members(&self, file: &File, out: &mut Members, keep: impl Fn(Name) -> bool) {
        let all = file.scopes.all(ScopeId::MODULE);
        let mut i = 0;
        while i < all.len() {
            let name = all[i].name;
            let len = all[i..].partition_point(|b| b.name == name);
            let bindings = &all[i..i + len];
            i += len;
            if !keep(name) || !self.exists_at_exit(file, name, bindings) {
                continue;
            }
            let last = bindings
                .iter()
                .rfind(|b| !matches!(b.kind, BindKind::Deleted))
                .unwrap_or(&bindings[0]);
            out.add(name, Member { kind: module_kind(last), site: Some((file.id, last.pos)) });
        }
    }

    fn exists_at_exit(&self, file: &File, name: Name, bindings: &[Binding]) -> bool {
        if !bindings.iter().any(|b| matches!(b.kind, BindKind::Deleted)) {
            return true;
        }
        let found = super::flow::at_exit(&file.ast, file.ast.body, bindings, name);
        !found.bindings.is_empty()
    }

    /// Names that star imports bring into a module.
    pub(crate) fn star_members(&self, file: &File, out: &mut Members, depth: u32) {
        if depth > 8 || !self.step() {
            if depth > 8 {
                out.set_open(|| Arc::from("star imports of star imports"));
            }
            return;
        }
        for &star in &file.scopes.stars {
            let from = &file.ast.imports_from[star as usize];
            let target =
                file.absolute(from.level, from.module).and_then(|m| self.resolve_module(m));
            let (Some(id), module) = (target, from.module) else {
                let module = from.module;
                out.set_open(|| Arc::from(format!("star import of {module}, which is not found")));
                continue;
            };
            let (Some(other), _) = self.module_files(id) else {
                out.set_open(|| {
                    Arc::from(format!("star import of {module}, which cannot be read"))
                });
                continue;
            };
            if other.id == file.id {
                continue;
            }
            let mut inner = Members::default();
            self.scope_members(&other, &mut inner, |_| true);
            self.star_members(&other, &mut inner, depth + 1);
            if let Some(all) = self.all_names(&other, 0) {
                for &name in &all.names {
                    let member = inner.names.get(&name).cloned();
                    let member = member.or_else(|| {
                        self.submodule(id, name)
                            .map(|_| Member { kind: MemberKind::Module, site: None })
                    });
                    out.add(
                        name,
                        member.unwrap_or(Member { kind: MemberKind::Variable, site: None }),
                    );
                }
                if !all.complete {
                    out.set_open(|| Arc::from(format!("computed __all__ of {module}")));
                    for (name, member) in inner.names {
                        if !name.is_underscored() {
                            out.add(name, member);
                        }
                    }
                }
            } else {
                for (name, member) in inner.names {
                    if !name.is_underscored() {
                        out.add(name, member);
                    }
                }
            }
            if let Some(open) = inner.open {
                out.set_open(|| open);
            }
            // Importing from a submodule binds the submodule in its package.
            if file.is_package
                && from.level == 1
                && let Some(first) =
                    from.module.as_str().split('.').next().filter(|f| !f.is_empty())
            {
                out.add(Name::new(first), Member { kind: MemberKind::Module, site: None });
            }
        }
    }
}

fn module_kind(binding: &Binding) -> MemberKind {
    match binding.kind {
        BindKind::Function(_) => MemberKind::Function,
        BindKind::Class(_) => MemberKind::Class,
        BindKind::Import { .. } => MemberKind::Module,
        _ => MemberKind::Variable,
    }
}
