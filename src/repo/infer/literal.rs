//! Literal arguments against `Literal[…]` parameters: which overload a mode or a flag chooses.
//!
//! # Place
//! Used by calls while arguments are matched with parameters.

use super::annotation::string_value;
use super::ty::{Ty, TySet};
use super::world::{Env, World};
use crate::repo::file::File;
use crate::repo::name::Name;
use crate::repo::scope::{BindKind, ScopeId};
use crate::repo::syntax::*;
use smallvec::SmallVec;
use std::sync::Arc;

/// Aliases of aliases that are followed.
const ALIASES_MAX: u32 = 8;

/// A string, `True` or `False`, as it is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Literal {
    Str(Arc<str>),
    Bool(bool),
}

/// The literals that an annotation admits.
pub(super) type Literals = Arc<[Literal]>;

impl Literal {
    pub(super) fn of(file: &File, expr: ExprId) -> Option<Self> {
        match file.ast.kind(expr) {
            ExprKind::Str => string_value(file, expr).map(|s| Self::Str(Arc::from(s))),
            ExprKind::True => Some(Self::Bool(true)),
            ExprKind::False => Some(Self::Bool(false)),
            _ => None,
        }
    }
}

impl World<'_> {
    /// The literals of an annotation that admits no other strings and booleans; none when it does.
    pub(super) fn literals_of(&self, env: &Env, annotation: ExprId) -> Option<Literals> {
        self.kept_literals(env.file.id, annotation, || {
            let mut found = SmallVec::new();
            self.add_literals(env, annotation, &mut found, 0).then(|| Arc::from(found.as_slice()))
        })
    }

    /// Collects the literals; false when the annotation is not made of them.
    fn add_literals(
        &self,
        env: &Env,
        annotation: ExprId,
        out: &mut SmallVec<[Literal; 8]>,
        depth: u32,
    ) -> bool {
        let ast = &env.file.ast;
        if depth > ALIASES_MAX || !self.step() {
            return false;
        }
        match ast.kind(annotation) {
            ExprKind::None => true,
            ExprKind::Binary { op: BinOp::Or, left, right } => {
                self.add_literals(env, left, out, depth)
                    && self.add_literals(env, right, out, depth)
            }
            ExprKind::Subscript { value, index } => {
                let form = self.expr(env, value);
                if form != TySet::one(Ty::Form(Name::LITERAL)) {
                    return false;
                }
                let items = match ast.kind(index) {
                    ExprKind::Tuple { items } => ast.list(items),
                    _ => std::slice::from_ref(&index),
                };
                items.iter().all(|item| match Literal::of(&env.file, *item) {
                    Some(literal) => {
                        out.push(literal);
                        true
                    }
                    None => matches!(ast.kind(*item), ExprKind::None),
                })
            }
            ExprKind::Name(name) => match env.file.scopes.of(ScopeId::MODULE, name) {
                [binding] => match binding.kind {
                    BindKind::Annotated { value, .. } | BindKind::Target { value, .. } => {
                        let module = env.in_scope(ScopeId::MODULE);
                        value.some().is_some_and(|v| self.add_literals(&module, v, out, depth + 1))
                    }
                    BindKind::ImportFrom { from, alias } => {
                        self.add_imported_literals(env, from, alias, out, depth + 1)
                    }
                    _ => false,
                },
                _ => false,
            },
            _ => false,
        }
    }

    fn add_imported_literals(
        &self,
        env: &Env,
        from: u32,
        alias: u32,
        out: &mut SmallVec<[Literal; 8]>,
        depth: u32,
    ) -> bool {
        let from = &env.file.ast.imports_from[from as usize];
        let name = env.file.ast.aliases[alias as usize].name;
        let other = env
            .file
            .absolute(from.level, from.module)
            .and_then(|m| self.resolve_module(m))
            .and_then(|id| self.module_files(id).0);
        let Some(other) = other else {
            return false;
        };
        let value = match other.scopes.of(ScopeId::MODULE, name) {
            [binding] => match binding.kind {
                BindKind::Annotated { value, .. } | BindKind::Target { value, .. } => value.some(),
                _ => None,
            },
            _ => None,
        };
        let env = Env::new(other, ScopeId::MODULE);
        value.is_some_and(|v| self.add_literals(&env, v, out, depth))
    }
}
