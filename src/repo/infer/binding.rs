//! Names: from an identifier to what it may stand for.
//!
//! # Place
//! Uses `flow` for order and `scope` for bindings; everything that evaluates a name comes here.

use super::flow::{self, Path};
use super::target::{target_path, target_path_at};
use super::ty::{Bindings, Ty, TySet, Var};
use super::world::{Env, Frame, FrameKind, Key, World};
use crate::repo::file::FileId;
use crate::repo::name::Name;
use crate::repo::scope::{BindKind, Binding, ScopeId, ScopeKind, Source};
use crate::repo::syntax::*;
use std::sync::Arc;

impl World<'_> {
    /// What a name stands for at `pos`.
    pub(crate) fn name(&self, env: &Env, name: Name, pos: u32) -> TySet {
        if let Some(found) = self.name_in_frames(env, name, pos) {
            return found;
        }
        self.lookup(env, name, Some(pos))
    }

    pub(super) fn name_in_frames(&self, env: &Env, name: Name, pos: u32) -> Option<TySet> {
        let mut at = env.frames.clone();
        while let Some(frame) = at {
            match &frame.kind {
                FrameKind::Comp(clauses) => {
                    let ast = &env.file.ast;
                    // An iterable sees the targets of earlier clauses only.
                    let n_visible = clauses
                        .iter()
                        .position(|c| ast.expr(c.iter).span.contains(pos))
                        .unwrap_or(clauses.len());
                    for (i, clause) in clauses[..n_visible].iter().enumerate().rev() {
                        if let Some(path) = target_path(ast, clause.target, name) {
                            let inner = Env {
                                frames: Some(Arc::new(Frame {
                                    kind: FrameKind::Comp(clauses[..i].to_vec()),
                                    parent: frame.parent.clone(),
                                })),
                                ..env.clone()
                            };
                            let iterable = self.expr(&inner, clause.iter);
                            let item = self.iterated(&iterable, clause.is_async);
                            return Some(self.unpacked(item, &path));
                        }
                    }
                }
                FrameKind::Lambda { params, args } => {
                    let list = env.file.ast.params(*params);
                    if let Some(i) = list.iter().position(|p| p.name == name) {
                        if let Some(known) = args.get(i)
                            && matches!(list[i].kind, ParamKind::Normal | ParamKind::PositionalOnly)
                        {
                            return Some(known.clone());
                        }
                        let default = list[i].default;
                        let found = default.some().map_or_else(TySet::empty, |d| {
                            let outer = Env { frames: frame.parent.clone(), ..env.clone() };
                            self.expr(&outer, d)
                        });
                        return Some(found.with_unknown());
                    }
                }
            }
            at = frame.parent.clone();
        }
        None
    }

    /// Look a name up through the scopes, from the place `pos` of the innermost one (or at its end).
    pub(super) fn lookup(&self, env: &Env, name: Name, pos: Option<u32>) -> TySet {
        let file = &env.file;
        let scopes = &file.scopes;
        let mut at = Some(env.scope);
        let mut first = true;
        let mut constraints: Option<flow::Constraints> = None;
        while let Some(id) = at {
            let scope = scopes.scope(id);
            if id == ScopeId::MODULE && file.parent.is_some() {
                // A part of a file: its own top level is that of the scope around it.
                break;
            }
            let bindings = scopes.of(id, name);
            let is_class = matches!(scope.kind, ScopeKind::Class(_));
            let visible = first
                || !is_class
                || bindings.iter().any(|b| matches!(b.kind, BindKind::TypeParam { .. }));
            if visible && !bindings.is_empty() {
                let here = env.in_scope(id);
                if first && let Some(pos) = pos {
                    let in_function = matches!(scope.kind, ScopeKind::Function(_));
                    let found =
                        flow::reaching(&file.ast, scope.body, bindings, name, pos, in_function);
                    if let Some(types) =
                        self.reaching_types(&here, name, bindings, &found, in_function)
                    {
                        return types;
                    }
                    // Not bound yet: in a class body the name means the one around it.
                } else {
                    let found = self.bindings_union(&here, name, bindings);
                    return self.narrowed(env, found, name, constraints.as_ref());
                }
            }
            if first
                && let Some(pos) = pos
                && matches!(scope.kind, ScopeKind::Function(_))
            {
                constraints = Some(flow::conditions(&file.ast, scope.body, name, pos));
            }
            first = false;
            at = scope.parent;
        }
        let found = match file.parent {
            Some((outer, scope)) => {
                let outer = Env::new(self.file(outer), scope).with_receiver(env.receiver);
                let is_class = matches!(outer.file.scopes.scope(scope).kind, ScopeKind::Class(_));
                // A quoted annotation sees the class body around it, a method does not.
                let start = match outer.file.scopes.scope(scope).parent {
                    Some(parent) if is_class && file.id == FileId::FRAGMENT => parent,
                    _ => scope,
                };
                let mut found = self.lookup(&outer.in_scope(start), name, None);
                // Globals that the function being written assigns.
                let is_global = |b: &&Binding| b.eval_scope != ScopeId::MODULE;
                for binding in scopes.of(ScopeId::MODULE, name).iter().filter(is_global) {
                    found.join(self.binding(&env.in_scope(ScopeId::MODULE), binding));
                }
                found
            }
            None => self.module_or_builtin(env, name),
        };
        self.narrowed(env, found, name, constraints.as_ref())
    }

    pub(super) fn narrowed(
        &self,
        env: &Env,
        found: TySet,
        name: Name,
        constraints: Option<&flow::Constraints>,
    ) -> TySet {
        let Some(constraints) = constraints else {
            return found;
        };
        let path = Path::name(name);
        constraints.iter().rev().fold(found, |set, c| self.narrow(env, set, &path, *c))
    }

    pub(super) fn module_or_builtin(&self, env: &Env, name: Name) -> TySet {
        if let Some(found) = self.star_imported(&env.file, name) {
            return found;
        }
        if let Some(found) = self.module_constant(&env.file, name) {
            return found;
        }
        let builtins = self.library().builtins();
        if env.file.id == self.library().supplement() || env.file.id == self.library().support() {
            // Our own stubs use the typing language and each other without importing.
            if let Some(found) = self.typing_form(Name::TYPING, name) {
                return found;
            }
            for id in [self.library().support(), self.library().supplement()] {
                let other = Env::new(self.file(id), ScopeId::MODULE);
                if let Some(found) = self.at_scope_exit(&other, name) {
                    return found;
                }
            }
        }
        if env.file.module_name != Name::BUILTINS
            && let Some(found) = self.module_attribute(builtins, name)
        {
            return found;
        }
        TySet::unknown()
    }

    /// The types of the bindings that reach a place; none when nothing is bound there yet.
    pub(super) fn reaching_types(
        &self,
        env: &Env,
        name: Name,
        all: &[Binding],
        found: &flow::Reaching,
        in_function: bool,
    ) -> Option<TySet> {
        let path = Path::name(name);
        let mut types = TySet::empty();
        for (binding, constraints) in &found.bindings {
            let value = self.binding(env, binding);
            let value =
                constraints.iter().rev().fold(value, |set, c| self.narrow(env, set, &path, *c));
            types.join(value);
        }
        if let Some(constraints) = &found.from_start {
            let params: Vec<&Binding> = all
                .iter()
                .filter(|b| matches!(b.kind, BindKind::Param { .. } | BindKind::TypeParam { .. }))
                .collect();
            for param in &params {
                let value = self.binding(env, param);
                let value =
                    constraints.iter().rev().fold(value, |set, c| self.narrow(env, set, &path, *c));
                types.join(value);
            }
            if params.is_empty() && found.bindings.is_empty() {
                if !in_function {
                    return None;
                }
                // Used before it is bound (a loop may come round, or the code is unfinished).
                for binding in all {
                    types.join(self.binding(env, binding));
                }
            }
        }
        Some(types)
    }

    /// Everything a name is bound to in a scope, seen from another one.
    pub(super) fn bindings_union(&self, env: &Env, name: Name, bindings: &[Binding]) -> TySet {
        if let [only] = bindings {
            return self.binding(env, only);
        }
        let key = Key::Exit(env.file.id, env.scope, name, env.receiver);
        self.memo(key, || {
            let scope = env.file.scopes.scope(env.scope);
            let mut types = TySet::empty();
            let is_definition = |b: &Binding| {
                matches!(b.kind, BindKind::Function(_) | BindKind::Class(_) | BindKind::Deleted)
            };
            if bindings.iter().all(is_definition) {
                // Definitions replace each other: those in force at the end are meant.
                let found = flow::at_exit(&env.file.ast, scope.body, bindings, name);
                for (binding, _) in &found.bindings {
                    types.join(self.binding(env, binding));
                }
                return types;
            }
            for binding in bindings {
                types.join(self.binding(env, binding));
            }
            types
        })
    }

    /// Is a name of a scope bound when `pos` is reached?
    pub(crate) fn is_bound_at(
        &self,
        file: &crate::repo::file::File,
        scope: ScopeId,
        bindings: &[Binding],
        pos: u32,
    ) -> bool {
        let is_param =
            |b: &Binding| matches!(b.kind, BindKind::Param { .. } | BindKind::TypeParam { .. });
        if !bindings.iter().any(|b| matches!(b.kind, BindKind::Deleted)) {
            return bindings.iter().any(|b| is_param(b) || b.pos < pos || b.eval_scope != scope);
        }
        let Some(first) = bindings.first() else {
            return false;
        };
        let body = file.scopes.scope(scope).body;
        let found = flow::reaching(&file.ast, body, bindings, first.name, pos, false);
        !found.bindings.is_empty() || (found.from_start.is_some() && bindings.iter().any(is_param))
    }

    /// May a name that is deleted somewhere in its scope be bound when `pos` is reached?
    pub(crate) fn may_be_bound_at(
        &self,
        file: &crate::repo::file::File,
        scope: ScopeId,
        bindings: &[Binding],
        pos: u32,
    ) -> bool {
        let Some(first) = bindings.first() else {
            return false;
        };
        let body = file.scopes.scope(scope).body;
        let found = flow::reaching(&file.ast, body, bindings, first.name, pos, false);
        found.from_start.is_some() || !found.bindings.is_empty()
    }

    /// What a scope's name is when the scope's body has run; none when it is not bound there.
    pub(super) fn at_scope_exit(&self, env: &Env, name: Name) -> Option<TySet> {
        let bindings = env.file.scopes.of(env.scope, name);
        match bindings {
            [] => return None,
            [only] if matches!(only.kind, BindKind::Deleted) => return None,
            [only] => return Some(self.binding(env, only)),
            _ => {}
        }
        let scope = env.file.scopes.scope(env.scope);
        let found = flow::at_exit(&env.file.ast, scope.body, bindings, name);
        if found.bindings.is_empty() {
            return None;
        }
        let mut types = TySet::empty();
        for (binding, _) in &found.bindings {
            types.join(self.binding(env, binding));
        }
        Some(types)
    }

    /// What one binding gives its name.
    pub(super) fn binding(&self, env: &Env, binding: &Binding) -> TySet {
        if env.scope == ScopeId::MODULE
            && let Some(form) = self.typing_form(env.file.module_name, binding.name)
        {
            return form;
        }
        match binding.kind {
            BindKind::Deleted => return TySet::empty(),
            BindKind::Class(class) => {
                return self.class_value(env, class);
            }
            BindKind::Function(func) => return self.function_value(&env.file, func),
            _ => {}
        }
        let key = Key::Binding(env.file.id, env.scope, binding.name, binding.pos, env.receiver);
        let here = if binding.eval_scope == env.scope {
            env.clone()
        } else {
            env.in_scope(binding.eval_scope)
        };
        self.memo(key, || self.binding_value(&here, binding))
    }

    pub(super) fn binding_value(&self, env: &Env, binding: &Binding) -> TySet {
        let ast = &env.file.ast;
        match binding.kind {
            BindKind::Param { func, param } => self.parameter(env, func, param),
            BindKind::Target { root, value, source } => {
                if source == Source::Value
                    && let Some(found) = self.type_variable(env, binding, value)
                {
                    return found;
                }
                let of = self.source_value(env, value, source);
                match target_path_at(ast, root, binding.pos) {
                    Some(path) => self.unpacked(of, &path),
                    None => TySet::unknown(),
                }
            }
            BindKind::Annotated { annotation, value } => self.annotated(env, annotation, value),
            BindKind::Augmented { stmt } => {
                let StmtKind::AugAssign { target, op, value } = ast.stmt(stmt).kind else {
                    return TySet::unknown();
                };
                let ExprKind::Name(name) = ast.kind(target) else {
                    return TySet::unknown();
                };
                let left = self.name(env, name, binding.pos);
                let right = self.expr(env, value);
                self.augmented(op, &left, &right)
            }
            BindKind::Except { handler } => {
                let handler = &ast.handlers[handler as usize];
                // `except* E as group` binds a group of such exceptions, which is no `E`.
                let Some(kind) = handler.kind.some().filter(|_| !handler.is_star) else {
                    return TySet::unknown();
                };
                let classes = self.expr(env, kind);
                self.instances_of_classes(&classes)
            }
            BindKind::Import { alias } => self.imported(env, &ast.aliases[alias as usize]),
            BindKind::ImportFrom { from, alias } => {
                let from = &ast.imports_from[from as usize];
                self.imported_from(&env.file, from, ast.aliases[alias as usize].name)
            }
            BindKind::Walrus(expr) => match ast.kind(expr) {
                ExprKind::Walrus { value, .. } => self.expr(env, value),
                _ => TySet::unknown(),
            },
            BindKind::Captured { stmt, case } => self.captured(env, stmt, case, binding),
            BindKind::TypeAlias { stmt } => match ast.stmt(stmt).kind {
                StmtKind::TypeAlias { value, .. } => self.expr(env, value),
                _ => TySet::unknown(),
            },
            BindKind::TypeParam { .. } => {
                TySet::one(Ty::Var(Var { file: env.file.id, pos: binding.pos, name: binding.name }))
            }
            BindKind::Function(_) | BindKind::Class(_) | BindKind::Deleted => TySet::empty(),
        }
    }

    pub(super) fn source_value(&self, env: &Env, value: ExprId, source: Source) -> TySet {
        let found = self.expr(env, value);
        match source {
            Source::Value => found,
            Source::Item => self.iterated(&found, false),
            Source::AsyncItem => self.iterated(&found, true),
            Source::Entered => self.entered(&found, false),
            Source::AsyncEntered => self.entered(&found, true),
        }
    }

    /// A parameter inside its function.
    pub(super) fn parameter(&self, env: &Env, func: FuncId, param: u32) -> TySet {
        let ast = &env.file.ast;
        let function = ast.function(func);
        let p = ast.params[param as usize];
        let outer = match env.file.scopes.scope(env.scope).parent {
            Some(parent) => env.in_scope(parent),
            None => env.clone(),
        };
        let is_first = function.params.start == param;
        if is_first
            && matches!(p.kind, ParamKind::Normal | ParamKind::PositionalOnly)
            && let Some(class) = self.method_class(&env.file, env.scope)
            && !self.is_static_method(&env.file, func)
        {
            let is_class = self.is_class_method(&env.file, func);
            if let Some(annotation) = p.annotation.some() {
                let declared = self.annotation(&outer, annotation);
                if !declared.has_vars() {
                    return declared;
                }
            }
            let receiver = env.receiver.filter(|r| self.is_subclass(*r, class)).unwrap_or(class);
            return self.receiver_type(receiver, is_class);
        }
        let var = TySet::one(Ty::Var(Var { file: env.file.id, pos: p.start, name: p.name }));
        let value = match p.annotation.some() {
            Some(annotation) => {
                let declared = self.annotation(&outer, annotation);
                // `x: int = None` is common and means that None may be passed.
                match p.default.some() {
                    Some(default) if matches!(ast.kind(default), ExprKind::None) => {
                        declared.joined(TySet::none())
                    }
                    _ => declared,
                }
            }
            None => match p.default.some() {
                Some(default) if !matches!(p.kind, ParamKind::VarArgs | ParamKind::VarKeywords) => {
                    var.joined(self.expr(&outer, default))
                }
                _ => var,
            },
        };
        match p.kind {
            ParamKind::VarArgs => {
                let item = if p.annotation == ExprId::NONE { TySet::unknown() } else { value };
                self.generic_builtin(Name::TUPLE, vec![item])
            }
            ParamKind::VarKeywords => {
                let item = if p.annotation == ExprId::NONE { TySet::unknown() } else { value };
                self.generic_builtin(Name::DICT, vec![self.of_builtin(Name::STR), item])
            }
            _ => value,
        }
    }

    /// `self` or `cls` in a method of a class, with the class's own type variables as arguments.
    pub(super) fn receiver_type(&self, class: super::ty::ClassKey, is_class: bool) -> TySet {
        let vars = self.own_vars(class);
        let args = (!vars.is_empty())
            .then(|| vars.iter().map(|v| TySet::one(Ty::Var(*v))).collect::<Vec<_>>().into());
        let metaclass = self.is_metaclass(class);
        if is_class || metaclass {
            if metaclass && !is_class {
                return TySet::one(Ty::Instance { class, args, exact: false });
            }
            return TySet::one(Ty::Class { class, args });
        }
        TySet::one(Ty::Instance { class, args, exact: false })
    }

    /// `name: annotation = value`.
    pub(super) fn annotated(&self, env: &Env, annotation: ExprId, value: ExprId) -> TySet {
        let ast = &env.file.ast;
        if let Some(form) = self.alias_form(env, annotation) {
            // `x: Final = 1`, `X: TypeAlias = …`, `x: ClassVar = …`: the value tells.
            if matches!(form, Name::FINAL | Name::CLASS_VAR | Name::TYPE_ALIAS)
                && let Some(value) = value.some()
            {
                return self.expr(env, value);
            }
        }
        let declared = self.annotation(env, annotation);
        match value.some() {
            Some(value) if matches!(ast.kind(value), ExprKind::None) => {
                declared.joined(TySet::none())
            }
            Some(value) if declared.unknown && declared.items.is_empty() => {
                self.expr(env, value).with_unknown()
            }
            Some(value)
                if matches!(
                    ast.kind(value),
                    ExprKind::Call { .. }
                        | ExprKind::List { .. }
                        | ExprKind::Set { .. }
                        | ExprKind::Dict { .. }
                        | ExprKind::Comp { .. }
                ) =>
            {
                let assigned = self.expr(env, value);
                self.declared_and_assigned(declared, assigned)
            }
            _ => declared,
        }
    }

    /// `stream: IO = BytesIO()` has the names of both; `app: Flask = LocalProxy(…)` those of the proxy too.
    fn declared_and_assigned(&self, mut declared: TySet, assigned: TySet) -> TySet {
        let is_instance = |t: &Ty| matches!(t, Ty::Instance { .. });
        if declared.items.iter().any(|d| !is_instance(d) && *d != Ty::None) {
            return declared;
        }
        let Some(admitted) =
            declared.items.iter().map(|d| self.class_of(d)).collect::<Option<Vec<_>>>()
        else {
            return declared;
        };
        for ty in assigned.items {
            let Ty::Instance { class, .. } = &ty else {
                continue;
            };
            if admitted.contains(class) {
                continue;
            }
            if let Some(d) = admitted.iter().position(|d| self.is_subclass(*class, *d)) {
                // `x: Sequence[Z] = []` holds what is declared.
                let n_vars = self.own_vars(*class).len();
                let args = match &declared.items[d] {
                    Ty::Instance { args: Some(args), .. } if args.len() == n_vars => {
                        Some(args.clone())
                    }
                    _ => None,
                };
                declared.add(match args {
                    Some(_) => Ty::Instance { class: *class, args, exact: true },
                    None => ty,
                });
            } else if self.own(*class).has_class_level(Name::GETATTR_METHOD) {
                declared.add(Ty::Instance { class: *class, args: None, exact: true });
            }
        }
        declared
    }

    pub(super) fn alias_form(&self, env: &Env, annotation: ExprId) -> Option<Name> {
        let name = match env.file.ast.kind(annotation) {
            ExprKind::Name(name) | ExprKind::Attribute { name, .. } => name,
            _ => return None,
        };
        matches!(name, Name::FINAL | Name::CLASS_VAR | Name::TYPE_ALIAS).then_some(name)
    }

    /// What a file declares at module level without a statement (`__name__`, `__file__`, …).
    pub(super) fn module_constant(
        &self,
        file: &crate::repo::file::File,
        name: Name,
    ) -> Option<TySet> {
        match name {
            Name::NAME_ATTR | Name::FILE_ATTR => Some(self.of_builtin(Name::STR)),
            Name::DOC => Some(self.of_builtin(Name::STR).joined(TySet::none())),
            Name::PACKAGE => Some(self.of_builtin(Name::STR).joined(TySet::none())),
            Name::PATH_ATTR if file.is_package => {
                Some(self.generic_builtin(Name::LIST, vec![self.of_builtin(Name::STR)]))
            }
            Name::DICT_ATTR => Some(self.of_builtin(Name::DICT)),
            Name::SPEC | Name::LOADER | Name::CACHED | Name::BUILTINS_PRIVATE => {
                Some(TySet::unknown())
            }
            _ => None,
        }
    }

    pub(super) fn no_bindings() -> Bindings {
        Bindings::default()
    }
}
