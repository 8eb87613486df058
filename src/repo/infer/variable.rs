//! Type variables: where they are made, what limits them.
//!
//! # Place
//! Used wherever a result still mentions variables that no call fixed.

use super::ty::{Ty, TySet, Var};
use super::world::{Env, World};
use crate::repo::file::FileId;
use crate::repo::name::Name;
use crate::repo::scope::{BindKind, Binding};
use crate::repo::syntax::*;
use std::sync::Arc;

impl World<'_> {
    /// `T = TypeVar('T')` binds a type variable.
    pub(super) fn type_variable(
        &self,
        env: &Env,
        binding: &Binding,
        value: ExprId,
    ) -> Option<TySet> {
        let ast = &env.file.ast;
        let ExprKind::Call { func, .. } = ast.kind(value) else {
            return None;
        };
        let name = match ast.kind(func) {
            ExprKind::Name(name) | ExprKind::Attribute { name, .. } => name,
            _ => return None,
        };
        matches!(name, Name::TYPE_VAR | Name::PARAM_SPEC | Name::TYPE_VAR_TUPLE).then(|| {
            TySet::one(Ty::Var(Var { file: env.file.id, pos: binding.pos, name: binding.name }))
        })
    }

    /// What a type variable is limited to: its bound or the union of its constraints.
    pub(crate) fn var_bound(&self, var: Var) -> TySet {
        let file = self.file_of_var(var.file);
        let Some(file) = file else {
            return TySet::unknown();
        };
        let scope = file.scopes.at(var.pos);
        let mut at = Some(scope);
        while let Some(id) = at {
            for b in file.scopes.of(id, var.name) {
                if b.pos != var.pos {
                    continue;
                }
                let env = Env::new(file.clone(), id);
                match b.kind {
                    BindKind::TypeParam { param } => {
                        return match file.ast.type_params[param as usize].bound.some() {
                            Some(bound) => self.bound_annotation(&env, bound),
                            None => TySet::unknown(),
                        };
                    }
                    BindKind::Target { value, .. } => {
                        let ExprKind::Call { args, .. } = file.ast.kind(value) else {
                            return TySet::unknown();
                        };
                        let mut found = TySet::empty();
                        for (i, arg) in file.ast.args(args).iter().enumerate() {
                            match arg.kind {
                                ArgKind::Keyword(n) if n.as_str() == "bound" => {
                                    return self.annotation(&env, arg.value);
                                }
                                ArgKind::Positional if i > 0 => {
                                    found.join(self.annotation(&env, arg.value))
                                }
                                _ => {}
                            }
                        }
                        return if found.is_empty() { TySet::unknown() } else { found };
                    }
                    BindKind::Param { func, param } => return self.evidence(&file, func, param),
                    _ => return TySet::unknown(),
                }
            }
            at = file.scopes.scope(id).parent;
        }
        TySet::unknown()
    }

    /// A bound may be one annotation or a tuple of constraints.
    pub(super) fn bound_annotation(&self, env: &Env, bound: ExprId) -> TySet {
        match env.file.ast.kind(bound) {
            ExprKind::Tuple { items } => {
                let mut found = TySet::empty();
                for &item in env.file.ast.list(items) {
                    found.join(self.annotation(env, item));
                }
                found
            }
            _ => self.annotation(env, bound),
        }
    }

    pub(super) fn file_of_var(&self, id: FileId) -> Option<Arc<crate::repo::file::File>> {
        if id == FileId::FRAGMENT {
            return self.fragment.as_ref().map(|f| f.file.clone());
        }
        if id.is_library() || self.snapshot.files.get(id.0 as usize).is_some_and(Option::is_some) {
            return Some(self.file(id));
        }
        self.overlay.as_ref().filter(|f| f.id == id).cloned()
    }

    /// Variables replaced by their bounds, or by "unknown": what can be said without knowing callers.
    pub(crate) fn closed_over_vars(&self, set: &TySet) -> TySet {
        if !set.has_vars() {
            return set.clone();
        }
        let mut out = TySet { items: Default::default(), unknown: set.unknown };
        for ty in &set.items {
            match ty {
                Ty::Var(var) => {
                    let bound = self.var_bound(*var);
                    if bound.has_vars() {
                        out.unknown = true;
                    } else {
                        out.join(bound);
                    }
                }
                other => out.add(other.clone()),
            }
        }
        out
    }
}
