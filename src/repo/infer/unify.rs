//! Arguments against parameters: what type variables stand for, and whether an argument fits.
//!
//! # Place
//! Used by calls, to choose overloads and to fill in results.

use super::call::CallArgs;
use super::ty::{Bindings, ClassKey, Ty, TySet, Var};
use super::world::World;
use crate::repo::name::Name;
use crate::repo::scope::BindKind;
use crate::repo::syntax::*;

/// Methods of a protocol that are compared.
const METHODS_MAX: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Fit {
    No,
    Maybe,
    Yes,
}

impl World<'_> {
    /// Learn what type variables stand for by laying an argument beside a parameter.
    pub(super) fn unify(&self, declared: &TySet, given: &TySet, by: &mut Bindings, depth: u32) {
        if depth > 5 || !declared.has_vars() {
            return;
        }
        for d in &declared.items {
            match d {
                Ty::Var(var) => self.unify_var(*var, declared, given, by),
                _ => self.unify_type(d, given, by, depth),
            }
        }
    }

    /// In `T | None` and `T | list[T]` the variable takes what the rest does not.
    fn unify_var(&self, var: Var, declared: &TySet, given: &TySet, by: &mut Bindings) {
        let mut rest = given.clone();
        if !declared.items.iter().all(|t| matches!(t, Ty::Var(_))) {
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
            by.widen(var, rest);
        }
    }

    fn unify_type(&self, declared: &Ty, given: &TySet, by: &mut Bindings, depth: u32) {
        match declared {
            Ty::Instance { class, args: Some(args), .. } => {
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
            Ty::Class { class, args: Some(args) } => {
                for g in &given.items {
                    if let Ty::Class { class: c, args: Some(found) } = g
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
                let any = CallArgs { has_star: true, ..CallArgs::default() };
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

    /// A protocol is met by structure: its iteration or item method tells the variables.
    pub(super) fn unify_protocol(
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
            return;
        }
        if !self.is_protocol(protocol) {
            return;
        }
        let Some(env) = self.class_env(protocol) else { return };
        let inner = self.bindings_for(protocol, &Some(args.to_vec().into()));
        for binding in env.file.scopes.all(env.scope).iter().take(METHODS_MAX) {
            let BindKind::Function(func) = binding.kind else { continue };
            let declared = self.declared_or_inferred(env.file.id, func, None).replaced(&inner);
            if declared.has_vars()
                && let Some(found) = self.call_method(given, binding.name, &[])
            {
                self.unify(&declared, &found, by, depth + 1);
            }
        }
    }

    /// May an argument be passed for a parameter? Clears `certain` when that cannot be told.
    pub(super) fn accepts(&self, declared: &TySet, given: &TySet, certain: &mut bool) -> bool {
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

    pub(super) fn fits(&self, declared: &Ty, given: &Ty) -> Fit {
        match (declared, given) {
            (Ty::Var(var), _) => {
                let bound = self.var_bound(*var);
                if bound.items.is_empty() || bound.has_vars() {
                    return Fit::Yes;
                }
                bound.items.iter().map(|b| self.fits(b, given)).max().unwrap_or(Fit::Maybe)
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
                if self.class_defines(*class, Name::CALL) { Fit::Yes } else { Fit::No }
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
                if self.is_subclass(*b, *a) { Fit::Yes } else { Fit::No }
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
                if self.is_protocol(*class) { self.meets_protocol(given, *class) } else { Fit::No }
            }
            _ => Fit::Maybe,
        }
    }

    /// `int` passes for `float` and `float` for `complex`.
    pub(super) fn promotes(&self, of: ClassKey, to: ClassKey) -> bool {
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
                ExprKind::Name(Name::PROTOCOL) | ExprKind::Attribute { name: Name::PROTOCOL, .. }
            )
        })
    }

    /// Does a value have every name that a protocol asks for?
    pub(super) fn meets_protocol(&self, given: &Ty, protocol: ClassKey) -> Fit {
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
            let has =
                self.mro(of).entries.iter().any(|e| self.own(e.class).names.contains_key(&name));
            if !has {
                return Fit::No;
            }
        }
        Fit::Maybe
    }
}
