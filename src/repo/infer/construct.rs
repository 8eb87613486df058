//! Making instances: what calling a class gives.
//!
//! # Place
//! Used by calls.

use super::call::CallArgs;
use super::ty::{Bindings, ClassKey, Ty, TySet};
use super::world::World;
use crate::repo::name::Name;
use crate::repo::scope::BindKind;
use crate::repo::syntax::*;
use std::sync::Arc;

impl World<'_> {
    /// Make an instance of a class.
    pub(super) fn construct(
        &self,
        class: ClassKey,
        type_args: Option<&Arc<[TySet]>>,
        args: &CallArgs,
    ) -> TySet {
        let ty = Ty::Class { class, args: type_args.cloned() };
        if Some(class) == self.builtin(Name::TYPE) && args.positional.len() == 1 {
            return self.class_of_instances(&args.positional[0]);
        }
        // A metaclass with a `__call__` of the project's may return anything.
        if let (Some(metaclass), _) = self.explicit_metaclass(class)
            && !self.is_enum(class)
            && let Some(method) = self.method_owner(metaclass, Name::CALL)
            && !method.file.is_library()
        {
            let plain = TySet::one(Ty::Instance { class, args: type_args.cloned(), exact: false });
            return plain.with_unknown();
        }
        if let Some(type_args) = type_args {
            return TySet::one(Ty::Instance { class, args: Some(type_args.clone()), exact: true });
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
        let instance = Ty::Instance { class, args: Some(own.clone().into()), exact: true };
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
        TySet::one(Ty::Instance { class, args: Some(args.into()), exact: true })
    }

    pub(super) fn constructed_by_new(
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
            let mut out = TySet { items: Default::default(), unknown: found.unknown };
            for t in found.items {
                out.add(match t {
                    Ty::Instance { class: c, args, .. } if c == class => {
                        Ty::Instance { class: c, args, exact: true }
                    }
                    other => other,
                });
            }
            out
        })
    }
}
