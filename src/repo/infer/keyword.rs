//! Names that may be passed by keyword.
//!
//! # Place
//! Read by completion inside the parentheses of a call.

use super::certain::Constructor;
use super::ty::Ty;
use super::world::{Env, World};
use crate::base::Origin;
use crate::repo::name::Name;
use crate::repo::syntax::*;

impl World<'_> {
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
        let n_positional = args.iter().filter(|a| a.kind == ArgKind::Positional).count();
        for ty in &callee.items {
            self.keyword_names_of(ty, n_positional, &mut out, 0);
        }
        let used = |n: Name| args.iter().any(|a| a.kind == ArgKind::Keyword(n));
        out.retain(|(n, _)| !used(*n));
        out
    }

    /// Whether a call surely runs one function whose keyword arguments are all named in its signature.
    pub(crate) fn takes_only_named(&self, env: &Env, func: ExprId) -> bool {
        if func == ExprId::NONE {
            return false;
        }
        let callee = self.expr(env, func);
        let [ty] = &callee.items[..] else {
            return false;
        };
        let callee = match ty {
            _ if callee.unknown => None,
            Ty::Class { class, .. } => match self.certain_constructor(*class) {
                Some(Constructor::Function(callee)) => Some(callee),
                Some(Constructor::Plain) | None => None,
            },
            ty => self.certain_callee(ty),
        };
        callee.is_some_and(|callee| {
            let params = callee.file.ast.function(callee.func).params;
            callee.file.ast.params(params).iter().all(|p| p.kind != ParamKind::VarKeywords)
        })
    }

    pub(super) fn keyword_names_of(
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
            Ty::Function { file, func, receiver } => {
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
                let instance = Ty::Instance { class: *class, args: None, exact: true };
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
}
