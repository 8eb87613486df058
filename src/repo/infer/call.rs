//! Calls: arguments, overloads, type variables, constructors, and the few functions whose result no
//! signature can tell.
//!
//! # Place
//! Used by expressions, decorators and special methods.

use super::annotation::string_value;
use super::ty::{Bindings, ClassKey, Descriptor, Ty, TySet, Var};
use super::world::{Env, FrameKind, World};
use crate::base::Origin;
use crate::repo::file::{File, FileId};
use crate::repo::name::Name;
use crate::repo::scope::{BindKind, ScopeId, ScopeKind};
use crate::repo::syntax::*;
use smallvec::SmallVec;
use std::sync::Arc;

/// Overloads of one function that are tried.
const OVERLOADS_MAX: usize = 64;

/// The arguments of a call, evaluated.
#[derive(Clone, Debug, Default)]
pub(super) struct CallArgs {
    pub(super) positional: SmallVec<[TySet; 4]>,
    pub(super) keywords: SmallVec<[(Name, TySet); 2]>,
    /// `*args` or `**kwargs` is passed: any parameter may be filled.
    pub(super) has_star: bool,
}

impl CallArgs {
    pub(super) fn none() -> Self {
        Self::default()
    }

    pub(super) fn positional(args: &[TySet]) -> Self {
        Self {
            positional: args.iter().cloned().collect(),
            ..Self::default()
        }
    }
}

impl World<'_> {
    pub(super) fn call_args(&self, env: &Env, args: Run) -> CallArgs {
        let mut out = CallArgs::default();
        for arg in env.file.ast.args(args) {
            match arg.kind {
                ArgKind::Positional if !out.has_star => {
                    out.positional.push(self.expr(env, arg.value))
                }
                ArgKind::Positional => {}
                ArgKind::Keyword(name) => out.keywords.push((name, self.expr(env, arg.value))),
                ArgKind::Star => {
                    out.has_star = true;
                }
                ArgKind::DoubleStar => out.has_star = true,
            }
        }
        out
    }

    pub(super) fn call_expr(&self, env: &Env, id: ExprId, func: ExprId, args: Run) -> TySet {
        if let Some(found) = self.special_call(env, id, func, args) {
            return found;
        }
        let callee = self.expr(env, func);
        let given = self.call_args(env, args);
        let mut out = TySet {
            items: Default::default(),
            unknown: callee.unknown,
        };
        for ty in &callee.items {
            let found = self.special_callee(env, id, ty, args, &given);
            out.join(found.unwrap_or_else(|| self.call_type(ty, &given)));
        }
        out
    }

    /// Call what a set may be.
    pub(super) fn call(&self, callee: &TySet, args: &CallArgs) -> TySet {
        let mut out = TySet {
            items: Default::default(),
            unknown: callee.unknown,
        };
        for ty in &callee.items {
            out.join(self.call_type(ty, args));
        }
        out
    }

    pub(super) fn call_type(&self, callee: &Ty, args: &CallArgs) -> TySet {
        self.deeper(|| match callee {
            Ty::Function {
                file,
                func,
                receiver,
            } => self.call_function(*file, *func, receiver.as_deref(), args),
            Ty::Lambda { file, scope, expr } => self.call_lambda(*file, *scope, *expr, args),
            Ty::Callable(result) | Ty::Partial(result) => match callee {
                Ty::Partial(inner) => {
                    let any = CallArgs {
                        has_star: true,
                        ..args.clone()
                    };
                    self.call(inner, &any)
                }
                _ => (**result).clone(),
            },
            Ty::Class {
                class,
                args: type_args,
            } => self.construct(*class, type_args.as_ref(), args),
            Ty::Alias(instances) => (**instances).clone(),
            Ty::Descriptor(Descriptor::StaticMethod, inner) => self.call(inner, args),
            Ty::Instance { class, .. } => {
                match self.class_attribute(*class, Name::CALL, callee, false) {
                    Some(method) => self.call(&method, args),
                    None => TySet::unknown(),
                }
            }
            _ => TySet::unknown(),
        })
    }

    fn call_lambda(&self, file: FileId, scope: ScopeId, expr: ExprId, args: &CallArgs) -> TySet {
        let file = self.file(file);
        let ExprKind::Lambda { lambda } = file.ast.kind(expr) else {
            return TySet::unknown();
        };
        let node = file.ast.lambdas[lambda as usize];
        let env = Env::new(file, scope);
        let inner = env.with_frame(FrameKind::Lambda {
            params: node.params,
            args: args.positional.to_vec(),
        });
        self.expr(&inner, node.body)
    }

    /// The result of a function, its variables replaced by what the call passes.
    fn call_function(
        &self,
        file: FileId,
        func: FuncId,
        receiver: Option<&Ty>,
        args: &CallArgs,
    ) -> TySet {
        let owner = self.file(file);
        let overloads = self.overloads(&owner, func);
        if overloads.len() > 1 {
            let mut best: Option<TySet> = None;
            let mut all = TySet::empty();
            let mut ambiguous = 0;
            for &candidate in overloads.iter().take(OVERLOADS_MAX) {
                let Some((by, certain)) = self.bind_call(&owner, candidate, receiver, args) else {
                    continue;
                };
                let result = self.result_of(file, candidate, receiver, &by);
                if certain {
                    if ambiguous == 0 {
                        best = Some(result);
                    } else {
                        all.join(result);
                        best = Some(all.clone());
                    }
                    break;
                }
                ambiguous += 1;
                all.join(result);
            }
            return match best {
                Some(found) => found,
                None if ambiguous > 0 => all,
                None => TySet::unknown(),
            };
        }
        let by = self
            .bind_call(&owner, func, receiver, args)
            .map(|(by, _)| by)
            .unwrap_or_default();
        self.result_of(file, func, receiver, &by)
    }

    fn result_of(&self, file: FileId, func: FuncId, receiver: Option<&Ty>, by: &Bindings) -> TySet {
        let class = match receiver {
            Some(Ty::Instance { class, .. } | Ty::Class { class, .. }) => Some(*class),
            _ => None,
        };
        let owner = self.file(file);
        // The receiver matters only where the function is a method of a project's class.
        let raw = self.declared_or_inferred(file, func, class);
        let raw = raw.replaced(by);
        if !raw.has_vars() {
            return raw;
        }
        let mut vars = Vec::new();
        super::annotation::collect_vars(&raw, &mut vars);
        let mut rest = Bindings::default();
        for var in vars {
            // Variables of this function that no argument fixes; others belong to whoever asks.
            let node = owner.ast.function(func);
            let own = var.file == file && node.span.contains(var.pos);
            let declared =
                !own && owner.scopes.at(var.pos) == ScopeId::MODULE && by.get(var).is_none();
            if own || (declared && self.is_function_var(&owner, func, receiver, var)) {
                rest.set(var, self.unfixed(var, own));
            }
        }
        raw.replaced(&rest)
    }

    fn unfixed(&self, var: Var, is_param: bool) -> TySet {
        if is_param {
            return TySet::unknown();
        }
        let bound = self.var_bound(var);
        if bound.has_vars() {
            TySet::unknown()
        } else {
            bound.with_unknown()
        }
    }

    /// Is a type variable one of the function's own (not of the class around it)?
    fn is_function_var(
        &self,
        _owner: &File,
        _func: FuncId,
        receiver: Option<&Ty>,
        var: Var,
    ) -> bool {
        match receiver {
            Some(Ty::Instance { class, .. } | Ty::Class { class, .. }) => !self
                .mro(*class)
                .entries
                .iter()
                .any(|e| self.own_vars(e.class).contains(&var)),
            _ => true,
        }
    }

    /// The overloads of a function, or the function alone.
    fn overloads(&self, file: &File, func: FuncId) -> SmallVec<[FuncId; 8]> {
        let node = file.ast.function(func);
        let is_overload = |f: FuncId| {
            file.ast
                .list(file.ast.function(f).decorators)
                .iter()
                .any(|d| {
                    self.decorator_name(file, *d)
                        .is_some_and(|(_, n)| n == Name::OVERLOAD)
                })
        };
        let scope = file.scopes.of_function(func);
        let parent = file.scopes.scope(scope).parent.unwrap_or(ScopeId::MODULE);
        let mut found: SmallVec<[FuncId; 8]> = SmallVec::new();
        let all = file.scopes.of(parent, node.name);
        if all.len() > 1 {
            for b in all {
                if let BindKind::Function(f) = b.kind
                    && is_overload(f)
                {
                    found.push(f);
                }
            }
        }
        if found.is_empty() {
            found.push(func);
        }
        found
    }

    /// Names that may be passed by keyword to what `func` calls, without those already passed.
    pub(crate) fn keyword_names(
        &self,
        env: &Env,
        func: ExprId,
        args: &[Arg],
    ) -> Vec<(Name, Origin)> {
        let mut out: Vec<(Name, Origin)> = Vec::new();
        if func == ExprId::NONE {
            return vec![(Name::METACLASS, Origin::Builtin)];
        }
        let callee = self.expr(env, func);
        let n_positional = args
            .iter()
            .filter(|a| a.kind == ArgKind::Positional)
            .count();
        for ty in &callee.items {
            self.keyword_names_of(ty, n_positional, &mut out, 0);
        }
        let used = |n: Name| args.iter().any(|a| a.kind == ArgKind::Keyword(n));
        out.retain(|(n, _)| !used(*n));
        out
    }

    fn keyword_names_of(
        &self,
        ty: &Ty,
        n_positional: usize,
        out: &mut Vec<(Name, Origin)>,
        depth: u32,
    ) {
        if depth > 6 {
            return;
        }
        match ty {
            Ty::Function {
                file,
                func,
                receiver,
            } => {
                let owner = self.file(*file);
                for f in self.overloads(&owner, *func) {
                    let params = owner.ast.params(owner.ast.function(f).params);
                    let skip = usize::from(receiver.is_some());
                    for (i, p) in params.iter().enumerate().skip(skip) {
                        let taken = p.kind == ParamKind::Normal && i < skip + n_positional;
                        let by_name = matches!(p.kind, ParamKind::Normal | ParamKind::KeywordOnly);
                        if by_name && !taken && !out.iter().any(|(n, _)| *n == p.name) {
                            out.push((p.name, owner.origin));
                        }
                    }
                }
            }
            Ty::Class { class, .. } => {
                let origin = self.file(class.file).origin;
                if let Some(fields) = self.constructor_fields(*class)
                    && !self.own(*class).has_class_level(Name::INIT)
                {
                    for (_, field) in fields.iter().filter(|(_, f)| f.in_init).skip(n_positional) {
                        out.push((field.name, origin));
                    }
                    return;
                }
                let instance = Ty::Instance {
                    class: *class,
                    args: None,
                    exact: true,
                };
                for name in [Name::INIT, Name::NEW] {
                    if let Some(owner) = self.method_owner(*class, name)
                        && !self.is_object(owner)
                        && let Some(found) = self.class_attribute(*class, name, &instance, false)
                    {
                        for ty in &found.items {
                            self.keyword_names_of(ty, n_positional, out, depth + 1);
                        }
                        if !found.items.is_empty() {
                            return;
                        }
                    }
                }
            }
            Ty::Instance { class, .. } => {
                if let Some(found) = self.class_attribute(*class, Name::CALL, ty, false) {
                    for ty in &found.items {
                        self.keyword_names_of(ty, n_positional, out, depth + 1);
                    }
                }
            }
            Ty::Partial(inner) => {
                for ty in &inner.items {
                    self.keyword_names_of(ty, n_positional, out, depth + 1);
                }
            }
            _ => {}
        }
    }

    /// Match arguments with parameters. None when they do not fit; the flag says that they surely do.
    pub(super) fn bind_call(
        &self,
        file: &Arc<File>,
        func: FuncId,
        receiver: Option<&Ty>,
        args: &CallArgs,
    ) -> Option<(Bindings, bool)> {
        let ast = &file.ast;
        let node = ast.function(func);
        let scope = file.scopes.of_function(func);
        let env = Env::new(file.clone(), scope);
        let params = ast.params(node.params);
        let mut by = Bindings::default();
        let mut certain = true;
        let mut next = 0;
        if let Some(receiver) = receiver {
            if let Some(first) = params.first()
                && matches!(first.kind, ParamKind::Normal | ParamKind::PositionalOnly)
            {
                if let Some(annotation) = first.annotation.some() {
                    let declared = self.annotation(&env, annotation);
                    let given = TySet::one(receiver.clone());
                    self.unify(&declared, &given, &mut by, 0);
                    if !self.accepts(&declared, &given, &mut certain) {
                        return None;
                    }
                }
                next = 1;
            }
            self.receiver_bindings(file, func, receiver, &mut by);
        }
        let is_plain = |p: &Param| matches!(p.kind, ParamKind::Normal | ParamKind::PositionalOnly);
        let mut filled: SmallVec<[bool; 8]> = SmallVec::from_elem(false, params.len());
        filled[..next].fill(true);
        let mut at = next;
        for given in &args.positional {
            match params.get(at) {
                Some(p) if is_plain(p) => {
                    filled[at] = true;
                    if !self.bind_param(&env, p, given, &mut by, &mut certain) {
                        return None;
                    }
                    at += 1;
                }
                _ => match params.iter().find(|p| p.kind == ParamKind::VarArgs) {
                    Some(p) => {
                        if !self.bind_param(&env, p, given, &mut by, &mut certain) {
                            return None;
                        }
                    }
                    None if args.has_star => {}
                    None => return None,
                },
            }
        }
        for (name, given) in &args.keywords {
            let found = params.iter().position(|p| {
                p.name == *name && matches!(p.kind, ParamKind::Normal | ParamKind::KeywordOnly)
            });
            match found {
                Some(i) => {
                    filled[i] = true;
                    if !self.bind_param(&env, &params[i], given, &mut by, &mut certain) {
                        return None;
                    }
                }
                None if params.iter().any(|p| p.kind == ParamKind::VarKeywords) => {}
                None => return None,
            }
        }
        for (i, p) in params.iter().enumerate() {
            let required = p.default == ExprId::NONE
                && !matches!(p.kind, ParamKind::VarArgs | ParamKind::VarKeywords);
            if required && !filled[i] && !args.has_star {
                return None;
            }
            if !filled[i]
                && let Some(default) = p.default.some()
                && !file.is_stub
            {
                // A default fills the parameter's own variable.
                let parent = file.scopes.scope(scope).parent.unwrap_or(ScopeId::MODULE);
                let value = self.expr(&env.in_scope(parent), default);
                by.widen(
                    Var {
                        file: file.id,
                        pos: p.start,
                        name: p.name,
                    },
                    value,
                );
            }
        }
        Some((by, certain && !args.has_star))
    }

    fn bind_param(
        &self,
        env: &Env,
        p: &Param,
        given: &TySet,
        by: &mut Bindings,
        certain: &mut bool,
    ) -> bool {
        match p.annotation.some() {
            Some(annotation) => {
                let declared = self.annotation(env, annotation);
                self.unify(&declared, given, by, 0);
                self.accepts(&declared, given, certain)
            }
            None => {
                by.widen(
                    Var {
                        file: env.file.id,
                        pos: p.start,
                        name: p.name,
                    },
                    given.clone(),
                );
                true
            }
        }
    }

    /// The class variables of a method, seen from its receiver.
    fn receiver_bindings(&self, file: &File, func: FuncId, receiver: &Ty, by: &mut Bindings) {
        let scope = file.scopes.of_function(func);
        let Some(owner) = self.method_class(file, scope) else {
            return;
        };
        let (class, args) = match receiver {
            Ty::Instance { class, args, .. } | Ty::Class { class, args } => (*class, args),
            _ => return,
        };
        let mro = self.mro(class);
        let Some(entry) = mro.entries.iter().find(|e| e.class == owner) else {
            return;
        };
        let outer = self.bindings_for(class, args);
        for (i, var) in self.own_vars(owner).into_iter().enumerate() {
            if let Some(args) = &entry.args
                && let Some(arg) = args.get(i)
            {
                let value = if args_known(receiver) {
                    arg.replaced(&outer)
                } else {
                    arg.clone()
                };
                if by.get(var).is_none() && TySet::one(Ty::Var(var)) != value {
                    by.set(var, value);
                }
            }
        }
    }

    /// Learn what type variables stand for by laying an argument beside a parameter.
    fn unify(&self, declared: &TySet, given: &TySet, by: &mut Bindings, depth: u32) {
        if depth > 5 || !declared.has_vars() {
            return;
        }
        let n_vars = declared
            .items
            .iter()
            .filter(|t| matches!(t, Ty::Var(_)))
            .count();
        for d in &declared.items {
            match d {
                Ty::Var(var) => {
                    // In `T | None` and `T | list[T]` the variable takes what the rest does not.
                    let mut rest = given.clone();
                    if declared.items.len() > n_vars {
                        rest.items.retain(|g| {
                            !declared.items.iter().any(|o| match (o, &*g) {
                                (Ty::None, Ty::None) => true,
                                (Ty::Instance { class: a, .. }, Ty::Instance { class: b, .. }) => {
                                    self.is_subclass(*b, *a)
                                }
                                _ => false,
                            })
                        });
                    }
                    if !rest.is_empty() {
                        by.widen(*var, rest);
                    }
                }
                Ty::Instance {
                    class,
                    args: Some(args),
                    ..
                } => {
                    for g in &given.items {
                        if let Some(found) = self.args_as(g, *class) {
                            for (a, f) in args.iter().zip(found.iter()) {
                                self.unify(a, f, by, depth + 1);
                            }
                        } else if matches!(g, Ty::Instance { .. } | Ty::Class { .. }) {
                            self.unify_protocol(*class, args, g, by, depth);
                        }
                    }
                }
                Ty::Alias(inner) => {
                    // type[T]
                    for g in &given.items {
                        if let Ty::Class { class, args } = g {
                            let instance = TySet::one(Ty::Instance {
                                class: *class,
                                args: args.clone(),
                                exact: false,
                            });
                            self.unify(inner, &instance, by, depth + 1);
                        }
                    }
                }
                Ty::Class {
                    class,
                    args: Some(args),
                } => {
                    for g in &given.items {
                        if let Ty::Class {
                            class: c,
                            args: Some(found),
                        } = g
                            && c == class
                        {
                            for (a, f) in args.iter().zip(found.iter()) {
                                self.unify(a, f, by, depth + 1);
                            }
                        }
                    }
                }
                Ty::Tuple(items) => {
                    for g in &given.items {
                        if let Some(found) = self.tuple_items(g) {
                            for (a, f) in items.iter().zip(found.iter()) {
                                self.unify(a, f, by, depth + 1);
                            }
                        }
                    }
                }
                Ty::Callable(result) => {
                    let any = CallArgs {
                        has_star: true,
                        ..CallArgs::default()
                    };
                    for g in &given.items {
                        if matches!(
                            g,
                            Ty::Function { .. }
                                | Ty::Lambda { .. }
                                | Ty::Callable(_)
                                | Ty::Class { .. }
                                | Ty::Partial(_)
                        ) {
                            let found = self.call_type(g, &any);
                            self.unify(result, &found, by, depth + 1);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// A protocol is met by structure: its iteration or item method tells the variables.
    fn unify_protocol(
        &self,
        protocol: ClassKey,
        args: &[TySet],
        given: &Ty,
        by: &mut Bindings,
        depth: u32,
    ) {
        let name = self.class_name(protocol);
        if let (Name::ITERABLE | Name::ITERATOR, [item]) = (name, args) {
            let found = self.iterated(&TySet::one(given.clone()), false);
            if !found.items.is_empty() {
                self.unify(item, &found, by, depth + 1);
            }
        }
    }

    /// May an argument be passed for a parameter? Clears `certain` when that cannot be told.
    fn accepts(&self, declared: &TySet, given: &TySet, certain: &mut bool) -> bool {
        if declared.unknown && declared.items.is_empty() {
            return true;
        }
        if given.unknown || given.is_empty() {
            *certain = false;
        }
        if given.items.is_empty() {
            return true;
        }
        let mut any = given.unknown;
        let mut all = true;
        for g in &given.items {
            match declared.items.iter().map(|d| self.fits(d, g)).max() {
                Some(Fit::Yes) => any = true,
                Some(Fit::Maybe) => {
                    any = true;
                    *certain = false;
                }
                _ => all = false,
            }
        }
        if declared.unknown {
            any = true;
        }
        if !all {
            *certain = false;
        }
        any
    }

    fn fits(&self, declared: &Ty, given: &Ty) -> Fit {
        match (declared, given) {
            (Ty::Var(var), _) => {
                let bound = self.var_bound(*var);
                if bound.items.is_empty() || bound.has_vars() {
                    return Fit::Yes;
                }
                bound
                    .items
                    .iter()
                    .map(|b| self.fits(b, given))
                    .max()
                    .unwrap_or(Fit::Maybe)
            }
            (_, Ty::Var(_)) => Fit::Maybe,
            (Ty::None, Ty::None) => Fit::Yes,
            (Ty::None, _) => Fit::No,
            (
                Ty::Callable(_),
                Ty::Function { .. }
                | Ty::Lambda { .. }
                | Ty::Class { .. }
                | Ty::Callable(_)
                | Ty::Partial(_),
            ) => Fit::Yes,
            (Ty::Callable(_), Ty::Instance { class, .. }) => {
                if self.class_defines(*class, Name::CALL) {
                    Fit::Yes
                } else {
                    Fit::No
                }
            }
            (Ty::Callable(_), _) => Fit::No,
            (Ty::Tuple(a), Ty::Tuple(b)) => {
                if a.len() == b.len() {
                    Fit::Maybe
                } else {
                    Fit::No
                }
            }
            (Ty::Tuple(_), _) => Fit::Maybe,
            (Ty::Alias(_), Ty::Class { .. }) => Fit::Yes,
            (Ty::Alias(_), _) => Fit::No,
            (Ty::Class { class: a, .. }, Ty::Class { class: b, .. }) => {
                if self.is_subclass(*b, *a) {
                    Fit::Yes
                } else {
                    Fit::No
                }
            }
            (Ty::Instance { class, .. }, _) => {
                if self.is_object(*class) {
                    return Fit::Yes;
                }
                let Some(of) = self.class_of(given) else {
                    return Fit::Maybe;
                };
                if self.is_subclass(of, *class) {
                    return Fit::Yes;
                }
                if self.promotes(of, *class) {
                    return Fit::Yes;
                }
                if self.mro(of).open.is_some() {
                    return Fit::Maybe;
                }
                if self.is_protocol(*class) {
                    self.meets_protocol(given, *class)
                } else {
                    Fit::No
                }
            }
            _ => Fit::Maybe,
        }
    }

    /// `int` passes for `float` and `float` for `complex`.
    fn promotes(&self, of: ClassKey, to: ClassKey) -> bool {
        let is = |class: ClassKey, name: Name| self.builtin(name) == Some(class);
        (is(to, Name::FLOAT) && is(of, Name::INT))
            || (is(to, Name::COMPLEX) && (is(of, Name::INT) || is(of, Name::FLOAT)))
            || (is(to, Name::BYTES) && is(of, Name::BYTEARRAY))
    }

    pub(super) fn is_protocol(&self, class: ClassKey) -> bool {
        let (Some(env), Some(id)) = (self.class_env(class), class.class()) else {
            return false;
        };
        let ast = &env.file.ast;
        ast.args(ast.class(id).args).iter().any(|a| {
            let base = match ast.kind(a.value) {
                ExprKind::Subscript { value, .. } => value,
                _ => a.value,
            };
            matches!(
                ast.kind(base),
                ExprKind::Name(Name::PROTOCOL)
                    | ExprKind::Attribute {
                        name: Name::PROTOCOL,
                        ..
                    }
            )
        })
    }

    /// Does a value have every name that a protocol asks for?
    fn meets_protocol(&self, given: &Ty, protocol: ClassKey) -> Fit {
        let Some(of) = self.class_of(given) else {
            return Fit::Maybe;
        };
        let own = self.own(protocol);
        for (&name, known) in &own.names {
            if !known.in_class && !known.on_instance {
                continue;
            }
            let skip = matches!(name, Name::SLOTS | Name::DOC | Name::MODULE_ATTR)
                || name.as_str() == "__hash__";
            if skip {
                continue;
            }
            let has = self
                .mro(of)
                .entries
                .iter()
                .any(|e| self.own(e.class).names.contains_key(&name));
            if !has {
                return Fit::No;
            }
        }
        Fit::Maybe
    }

    /// Make an instance of a class.
    fn construct(
        &self,
        class: ClassKey,
        type_args: Option<&Arc<[TySet]>>,
        args: &CallArgs,
    ) -> TySet {
        let ty = Ty::Class {
            class,
            args: type_args.cloned(),
        };
        if Some(class) == self.builtin(Name::TYPE) && args.positional.len() == 1 {
            return self.class_of_instances(&args.positional[0]);
        }
        // A metaclass with a `__call__` of the project's may return anything.
        if let (Some(metaclass), _) = self.explicit_metaclass(class)
            && !self.is_enum(class)
            && let Some(method) = self.method_owner(metaclass, Name::CALL)
            && !method.file.is_library()
        {
            let plain = TySet::one(Ty::Instance {
                class,
                args: type_args.cloned(),
                exact: false,
            });
            return plain.with_unknown();
        }
        if let Some(type_args) = type_args {
            return TySet::one(Ty::Instance {
                class,
                args: Some(type_args.clone()),
                exact: true,
            });
        }
        let vars = self.own_vars(class);
        // `__new__` may say that something else is made.
        if let Some(owner) = self.method_owner(class, Name::NEW)
            && !self.is_object(owner)
            && let Some(found) = self.constructed_by_new(class, owner, &ty, args)
        {
            return found;
        }
        if vars.is_empty() {
            return TySet::exact(class);
        }
        // The variables are learnt from the parameters of `__init__`.
        let own: Vec<TySet> = vars.iter().map(|v| TySet::one(Ty::Var(*v))).collect();
        let instance = Ty::Instance {
            class,
            args: Some(own.clone().into()),
            exact: true,
        };
        let mut learnt = Bindings::default();
        if let Some(init) = self.class_attribute(class, Name::INIT, &instance, false) {
            'found: for ty in &init.items {
                let Ty::Function { file, func, .. } = ty else {
                    continue;
                };
                let owner = self.file(*file);
                for candidate in self.overloads(&owner, *func) {
                    if let Some((by, _)) = self.bind_call(&owner, candidate, Some(&instance), args)
                    {
                        learnt = by;
                        break 'found;
                    }
                }
            }
        }
        let args: Vec<TySet> = vars
            .iter()
            .map(|v| match learnt.get(*v) {
                Some(found) => self.shallow(found.clone()),
                None => TySet::unknown(),
            })
            .map(|s| if s.has_vars() { TySet::unknown() } else { s })
            .collect();
        TySet::one(Ty::Instance {
            class,
            args: Some(args.into()),
            exact: true,
        })
    }

    fn constructed_by_new(
        &self,
        class: ClassKey,
        owner: ClassKey,
        ty: &Ty,
        args: &CallArgs,
    ) -> Option<TySet> {
        let env = self.class_env(owner)?;
        let binding = env.file.scopes.of(env.scope, Name::NEW).last().copied()?;
        let BindKind::Function(func) = binding.kind else {
            return None;
        };
        let node = env.file.ast.function(func);
        if node.returns == ExprId::NONE {
            if env.file.is_stub || owner.file.is_library() {
                return None;
            }
            // Written in the project: what it returns, when that can be told.
            let found = self.call_function(env.file.id, func, Some(ty), args);
            let is_instance = |t: &Ty| matches!(t, Ty::Instance { class: c, .. } if *c == class);
            if found.items.is_empty() || found.unknown {
                return Some(TySet::instance(class).with_unknown());
            }
            return (!found.items.iter().all(is_instance)).then_some(found);
        }
        let found = self.call_function(env.file.id, func, Some(ty), args);
        if found.items.is_empty() {
            return None;
        }
        // `-> Self` gives a plain instance whose arguments may be known by now.
        let known = found.items.iter().all(|t| match t {
            Ty::Instance { args, .. } => {
                args.as_ref().is_none_or(|a| !a.iter().any(TySet::has_vars))
            }
            _ => true,
        });
        known.then(|| {
            let mut out = TySet {
                items: Default::default(),
                unknown: found.unknown,
            };
            for t in found.items {
                out.add(match t {
                    Ty::Instance { class: c, args, .. } if c == class => Ty::Instance {
                        class: c,
                        args,
                        exact: true,
                    },
                    other => other,
                });
            }
            out
        })
    }

    /// Calls recognised by the name that is called, before its type is known.
    fn special_call(&self, env: &Env, id: ExprId, func: ExprId, args: Run) -> Option<TySet> {
        let ast = &env.file.ast;
        match ast.kind(func) {
            ExprKind::Name(Name::SUPER) => self.super_value(env, args),
            ExprKind::Name(name) | ExprKind::Attribute { name, .. }
                if matches!(name, Name::NAMEDTUPLE | Name::NAMED_TUPLE) =>
            {
                Some(TySet::one(Ty::Class {
                    class: ClassKey::made(env.file.id, id),
                    args: None,
                }))
            }
            _ => None,
        }
    }

    /// `super()` and `super(C, self)`.
    fn super_value(&self, env: &Env, args: Run) -> Option<TySet> {
        // The method around the call, and its class.
        let file = &env.file;
        let mut scope = env.scope;
        let (after, func) = loop {
            let ScopeKind::Function(func) = file.scopes.scope(scope).kind else {
                return Some(TySet::unknown());
            };
            if let Some(class) = self.method_class(file, scope) {
                break (class, func);
            }
            scope = file.scopes.scope(scope).parent?;
        };
        let in_class = self.is_class_method(file, func) || self.is_static_method(file, func);
        let of = env
            .receiver
            .filter(|r| self.is_subclass(*r, after))
            .unwrap_or(after);
        let after = match file.ast.args(args).first() {
            Some(first) => match self.expr(env, first.value).items.first() {
                Some(Ty::Class { class, .. }) if self.is_subclass(of, *class) => *class,
                _ => after,
            },
            None => after,
        };
        Some(TySet::one(Ty::Super {
            after,
            of,
            in_class,
        }))
    }

    /// Callees whose result their signature does not tell.
    fn special_callee(
        &self,
        env: &Env,
        id: ExprId,
        callee: &Ty,
        args: Run,
        given: &CallArgs,
    ) -> Option<TySet> {
        let ast = &env.file.ast;
        let list = ast.args(args);
        match callee {
            Ty::Form(Name::NEW_TYPE) => {
                let of = list
                    .get(1)
                    .map_or_else(TySet::unknown, |a| self.annotation(env, a.value));
                Some(TySet::one(Ty::Alias(Arc::new(of))))
            }
            Ty::Form(Name::TYPED_DICT) => {
                let dict = self.builtin(Name::DICT)?;
                Some(TySet::one(Ty::Class {
                    class: dict,
                    args: None,
                }))
            }
            Ty::Class { class, .. } if class.file.is_library() => {
                let module = self.file(class.file).module_name;
                let name = self.class_name(*class);
                match (module, name) {
                    (Name::FUNCTOOLS, Name::PARTIAL) => {
                        let of = given.positional.first()?;
                        Some(TySet::one(Ty::Partial(Arc::new(of.clone()))))
                    }
                    (Name::BUILTINS, Name::PROPERTY) => {
                        let of = given.positional.first().cloned().or_else(|| {
                            given
                                .keywords
                                .iter()
                                .find(|(k, _)| k.as_str() == "fget")
                                .map(|(_, v)| v.clone())
                        })?;
                        Some(TySet::one(Ty::Descriptor(
                            Descriptor::Property,
                            Arc::new(of),
                        )))
                    }
                    (Name::BUILTINS, Name::CLASSMETHOD) => {
                        let of = given.positional.first()?;
                        Some(TySet::one(Ty::Descriptor(
                            Descriptor::ClassMethod,
                            Arc::new(of.clone()),
                        )))
                    }
                    (Name::BUILTINS, Name::STATICMETHOD) => {
                        let of = given.positional.first()?;
                        Some(TySet::one(Ty::Descriptor(
                            Descriptor::StaticMethod,
                            Arc::new(of.clone()),
                        )))
                    }
                    _ => None,
                }
            }
            Ty::Function {
                file,
                func,
                receiver: None,
            } => {
                let owner = self.file(*file);
                let name = owner.ast.function(*func).name;
                self.special_function(env, id, owner.module_name, name, list, given)
            }
            _ => None,
        }
    }

    fn special_function(
        &self,
        env: &Env,
        _id: ExprId,
        module: Name,
        name: Name,
        list: &[Arg],
        given: &CallArgs,
    ) -> Option<TySet> {
        let ast = &env.file.ast;
        match (module, name) {
            (Name::BUILTINS, Name::GETATTR) => {
                let of = given.positional.first()?;
                let attr = list.get(1).and_then(|a| string_value(&env.file, a.value));
                let mut found = match attr {
                    Some(text) => self.attribute(of, Name::new(text)),
                    None => TySet::unknown(),
                };
                if let Some(default) = given.positional.get(2) {
                    found.join(default.clone());
                    found.unknown = true;
                }
                Some(found)
            }
            (Name::TYPING | Name::TYPING_EXTENSIONS, Name::CAST) => {
                let first = list.first()?;
                Some(self.annotation(env, first.value))
            }
            (Name::COPY, Name::COPY | Name::DEEPCOPY) => given.positional.first().cloned(),
            (Name::FUNCTOOLS, Name::WRAPS) => {
                let wrapped = given.positional.first()?;
                // What it decorates takes the place of the wrapped function.
                Some(TySet::one(Ty::Callable(Arc::new(wrapped.clone()))))
            }
            (Name::FUNCTOOLS, Name::LRU_CACHE)
                if !matches!(
                    list.first().map(|a| ast.kind(a.value)),
                    Some(ExprKind::Name(_))
                ) =>
            {
                None
            }
            (Name::DATACLASSES, Name::FIELD) => self.field_default(given),
            (Name::DATACLASSES, n) if n.as_str() == "replace" => given.positional.first().cloned(),
            (m, Name::FIELD | Name::IB | Name::ATTRIB) if is_attrs(m) => self.field_default(given),
            _ => None,
        }
    }

    /// The value of `field(default=…)` or `field(default_factory=…)` in an instance.
    fn field_default(&self, given: &CallArgs) -> Option<TySet> {
        for (name, value) in &given.keywords {
            match *name {
                Name::DEFAULT => return Some(value.clone().with_unknown()),
                Name::DEFAULT_FACTORY | Name::FACTORY => {
                    return Some(self.call(value, &CallArgs::none()).with_unknown());
                }
                _ => {}
            }
        }
        Some(TySet::unknown())
    }
}

fn is_attrs(module: Name) -> bool {
    let text = module.as_str();
    text == "attr" || text == "attrs" || text.starts_with("attr.") || text.starts_with("attrs.")
}

fn args_known(ty: &Ty) -> bool {
    matches!(
        ty,
        Ty::Instance { args: Some(_), .. } | Ty::Class { args: Some(_), .. }
    )
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Fit {
    No,
    Maybe,
    Yes,
}
