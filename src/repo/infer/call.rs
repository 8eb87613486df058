//! Calls: arguments, overloads, type variables, constructors, and the few functions whose result no
//! signature can tell.
//!
//! # Place
//! Used by expressions, decorators and special methods.

use super::literal::Literal;
use super::ty::{Bindings, Descriptor, Ty, TySet, Var};
use super::world::{Env, FrameKind, World};
use crate::repo::file::{File, FileId};
use crate::repo::name::Name;
use crate::repo::scope::{BindKind, ScopeId};
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
    /// Positional arguments, then keywords, that are written as literals.
    pub(super) literals: SmallVec<[Option<Literal>; 4]>,
    pub(super) keyword_literals: SmallVec<[Option<Literal>; 2]>,
    /// `*args` or `**kwargs` is passed: any parameter may be filled.
    pub(super) has_star: bool,
}

impl CallArgs {
    pub(super) fn none() -> Self {
        Self::default()
    }

    pub(super) fn positional(args: &[TySet]) -> Self {
        Self { positional: args.iter().cloned().collect(), ..Self::default() }
    }
}

/// Arguments matched with parameters so far.
struct Matched {
    by: Bindings,
    /// They surely fit.
    certain: bool,
    filled: SmallVec<[bool; 8]>,
}

fn is_plain(p: &Param) -> bool {
    matches!(p.kind, ParamKind::Normal | ParamKind::PositionalOnly)
}

impl World<'_> {
    pub(super) fn call_args(&self, env: &Env, args: Run) -> CallArgs {
        let mut out = CallArgs::default();
        for arg in env.file.ast.args(args) {
            match arg.kind {
                ArgKind::Positional if !out.has_star => {
                    out.positional.push(self.expr(env, arg.value));
                    out.literals.push(Literal::of(&env.file, arg.value));
                }
                ArgKind::Positional => {}
                ArgKind::Keyword(name) => {
                    out.keywords.push((name, self.expr(env, arg.value)));
                    out.keyword_literals.push(Literal::of(&env.file, arg.value));
                }
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
        let mut out = TySet { items: Default::default(), unknown: callee.unknown };
        for ty in &callee.items {
            let found = self.special_callee(env, id, ty, args, &given);
            out.join(found.unwrap_or_else(|| self.call_type(ty, &given)));
        }
        out
    }

    /// Call what a set may be.
    pub(super) fn call(&self, callee: &TySet, args: &CallArgs) -> TySet {
        let mut out = TySet { items: Default::default(), unknown: callee.unknown };
        for ty in &callee.items {
            out.join(self.call_type(ty, args));
        }
        out
    }

    pub(super) fn call_type(&self, callee: &Ty, args: &CallArgs) -> TySet {
        self.deeper(|| match callee {
            Ty::Function { file, func, receiver } => {
                self.call_function(*file, *func, receiver.as_deref(), args)
            }
            Ty::Lambda { file, scope, expr } => self.call_lambda(*file, *scope, *expr, args),
            Ty::Callable(result) | Ty::Partial(result) => match callee {
                Ty::Partial(inner) => {
                    let any = CallArgs { has_star: true, ..args.clone() };
                    self.call(inner, &any)
                }
                _ => (**result).clone(),
            },
            Ty::Class { class, args: type_args } => {
                self.construct(*class, type_args.as_ref(), args)
            }
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

    pub(super) fn call_lambda(
        &self,
        file: FileId,
        scope: ScopeId,
        expr: ExprId,
        args: &CallArgs,
    ) -> TySet {
        let file = self.file(file);
        let ExprKind::Lambda { lambda } = file.ast.kind(expr) else {
            return TySet::unknown();
        };
        let node = file.ast.lambdas[lambda as usize];
        let env = Env::new(file, scope);
        let inner = env
            .with_frame(FrameKind::Lambda { params: node.params, args: args.positional.to_vec() });
        self.expr(&inner, node.body)
    }

    /// The result of a function, its variables replaced by what the call passes.
    pub(super) fn call_function(
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
        let by = self.bind_call(&owner, func, receiver, args).map(|(by, _)| by).unwrap_or_default();
        self.result_of(file, func, receiver, &by)
    }

    pub(super) fn result_of(
        &self,
        file: FileId,
        func: FuncId,
        receiver: Option<&Ty>,
        by: &Bindings,
    ) -> TySet {
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

    pub(super) fn unfixed(&self, var: Var, is_param: bool) -> TySet {
        if is_param {
            return TySet::unknown();
        }
        let bound = self.var_bound(var);
        if bound.has_vars() { TySet::unknown() } else { bound.with_unknown() }
    }

    /// Is a type variable one of the function's own (not of the class around it)?
    pub(super) fn is_function_var(
        &self,
        _owner: &File,
        _func: FuncId,
        receiver: Option<&Ty>,
        var: Var,
    ) -> bool {
        match receiver {
            Some(Ty::Instance { class, .. } | Ty::Class { class, .. }) => {
                !self.mro(*class).entries.iter().any(|e| self.own_vars(e.class).contains(&var))
            }
            _ => true,
        }
    }

    /// The overloads of a function, or the function alone.
    pub(super) fn overloads(&self, file: &File, func: FuncId) -> SmallVec<[FuncId; 8]> {
        let node = file.ast.function(func);
        let is_overload = |f: FuncId| {
            file.ast
                .list(file.ast.function(f).decorators)
                .iter()
                .any(|d| self.decorator_name(file, *d).is_some_and(|(_, n)| n == Name::OVERLOAD))
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

    /// Match arguments with parameters. None when they do not fit; the flag says that they surely do.
    pub(super) fn bind_call(
        &self,
        file: &Arc<File>,
        func: FuncId,
        receiver: Option<&Ty>,
        args: &CallArgs,
    ) -> Option<(Bindings, bool)> {
        let node = file.ast.function(func);
        let scope = file.scopes.of_function(func);
        let env = Env::new(file.clone(), scope);
        let params = file.ast.params(node.params);
        let mut fit = Matched {
            by: Bindings::default(),
            certain: true,
            filled: SmallVec::from_elem(false, params.len()),
        };
        let mut first = 0;
        if let Some(receiver) = receiver {
            if let Some(this) = params.first().filter(|p| is_plain(p)) {
                if let Some(annotation) = this.annotation.some() {
                    let declared = self.annotation(&env, annotation);
                    let given = TySet::one(receiver.clone());
                    self.unify(&declared, &given, &mut fit.by, 0);
                    if !self.accepts(&declared, &given, &mut fit.certain) {
                        return None;
                    }
                }
                fit.filled[0] = true;
                first = 1;
            }
            self.receiver_bindings(file, func, receiver, &mut fit.by);
        }
        let matched = self.bind_positional(&env, params, first, args, &mut fit)
            && self.bind_keywords(&env, params, args, &mut fit)
            && self.bind_defaults(&env, params, args, &mut fit);
        matched.then_some((fit.by, fit.certain && !args.has_star))
    }

    fn bind_positional(
        &self,
        env: &Env,
        params: &[Param],
        first: usize,
        args: &CallArgs,
        fit: &mut Matched,
    ) -> bool {
        let mut at = first;
        args.positional.iter().enumerate().all(|(i, given)| {
            let literal = args.literals.get(i).and_then(Option::as_ref);
            match params.get(at) {
                Some(p) if is_plain(p) => {
                    fit.filled[at] = true;
                    at += 1;
                    self.bind_param(env, p, literal, given, fit)
                }
                _ => match params.iter().find(|p| p.kind == ParamKind::VarArgs) {
                    Some(p) => self.bind_param(env, p, None, given, fit),
                    None => args.has_star,
                },
            }
        })
    }

    fn bind_keywords(
        &self,
        env: &Env,
        params: &[Param],
        args: &CallArgs,
        fit: &mut Matched,
    ) -> bool {
        args.keywords.iter().enumerate().all(|(i, (name, given))| {
            let literal = args.keyword_literals.get(i).and_then(Option::as_ref);
            let found = params.iter().position(|p| {
                p.name == *name && matches!(p.kind, ParamKind::Normal | ParamKind::KeywordOnly)
            });
            match found {
                Some(i) => {
                    fit.filled[i] = true;
                    self.bind_param(env, &params[i], literal, given, fit)
                }
                None => params.iter().any(|p| p.kind == ParamKind::VarKeywords),
            }
        })
    }

    /// Parameters that nothing was passed for.
    fn bind_defaults(
        &self,
        env: &Env,
        params: &[Param],
        args: &CallArgs,
        fit: &mut Matched,
    ) -> bool {
        for (i, p) in params.iter().enumerate() {
            let required = p.default == ExprId::NONE
                && !matches!(p.kind, ParamKind::VarArgs | ParamKind::VarKeywords);
            if required && !fit.filled[i] && !args.has_star {
                return false;
            }
            if !fit.filled[i]
                && let Some(default) = p.default.some()
                && !env.file.is_stub
            {
                // A default fills the parameter's own variable.
                let parent = env.file.scopes.scope(env.scope).parent.unwrap_or(ScopeId::MODULE);
                let value = self.expr(&env.in_scope(parent), default);
                fit.by.widen(Var { file: env.file.id, pos: p.start, name: p.name }, value);
            }
        }
        true
    }

    /// May this be passed for a parameter declared by literals? Others take anything here.
    fn takes_literal(
        &self,
        env: &Env,
        p: &Param,
        literal: Option<&Literal>,
        given: &TySet,
        certain: &mut bool,
    ) -> bool {
        if !env.file.is_stub {
            return true;
        }
        let admitted = p.annotation.some().and_then(|a| self.literals_of(env, a));
        match (admitted, literal) {
            (Some(admitted), Some(literal)) => admitted.contains(literal),
            (Some(_), None) => {
                *certain &= given.items.iter().all(|t| *t == Ty::None) && !given.unknown;
                true
            }
            (None, _) => true,
        }
    }

    fn bind_param(
        &self,
        env: &Env,
        p: &Param,
        literal: Option<&Literal>,
        given: &TySet,
        fit: &mut Matched,
    ) -> bool {
        if !self.takes_literal(env, p, literal, given, &mut fit.certain) {
            return false;
        }
        match p.annotation.some() {
            Some(annotation) => {
                let declared = self.annotation(env, annotation);
                self.unify(&declared, given, &mut fit.by, 0);
                self.accepts(&declared, given, &mut fit.certain)
            }
            None => {
                let var = Var { file: env.file.id, pos: p.start, name: p.name };
                fit.by.widen(var, given.clone());
                true
            }
        }
    }

    /// The class variables of a method, seen from its receiver.
    pub(super) fn receiver_bindings(
        &self,
        file: &File,
        func: FuncId,
        receiver: &Ty,
        by: &mut Bindings,
    ) {
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
        for (i, &var) in self.own_vars(owner).iter().enumerate() {
            if let Some(args) = &entry.args
                && let Some(arg) = args.get(i)
            {
                let value = if args_known(receiver) { arg.replaced(&outer) } else { arg.clone() };
                if by.get(var).is_none() && TySet::one(Ty::Var(var)) != value {
                    by.set(var, value);
                }
            }
        }
    }
}

fn args_known(ty: &Ty) -> bool {
    matches!(ty, Ty::Instance { args: Some(_), .. } | Ty::Class { args: Some(_), .. })
}
