//! Assignment targets: the way from a value to a name inside a tuple of targets.
//!
//! # Place
//! Used by bindings, comprehensions and patterns.

use super::ty::TySet;
use super::world::World;
use crate::repo::name::Name;
use crate::repo::syntax::*;

/// One step from a value towards a name inside a target.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Item {
        index: usize,
        n: usize,
        star: Option<usize>,
    },
    /// `*rest`
    Rest,
}

impl World<'_> {
    /// Take a value apart along the way to a name in a target.
    pub(super) fn unpacked(&self, value: TySet, path: &[Step]) -> TySet {
        let mut value = value;
        for step in path {
            value = match step {
                Step::Item { index, n, star } => self.unpacked_item(&value, *index, *n, *star),
                Step::Rest => {
                    let item = self.iterated(&value, false);
                    self.generic_builtin(Name::LIST, vec![item])
                }
            };
        }
        value
    }

    pub(super) fn unpacked_item(
        &self,
        value: &TySet,
        index: usize,
        n: usize,
        star: Option<usize>,
    ) -> TySet {
        let mut out = TySet { items: Default::default(), unknown: value.unknown };
        for ty in &value.items {
            if let Some(items) = self.tuple_items(ty) {
                let at = match star {
                    Some(star) if index > star => (items.len() + index).checked_sub(n),
                    _ => Some(index),
                };
                match at.and_then(|i| items.get(i)) {
                    Some(item) => out.join(item.clone()),
                    None => out.unknown = true,
                }
                continue;
            }
            out.join(self.iterated(&TySet::one(ty.clone()), false));
        }
        out
    }
}

/// The way to the name that starts at `pos` in a target.
pub(super) fn target_path_at(ast: &Ast, root: ExprId, pos: u32) -> Option<Vec<Step>> {
    find_target(ast, root, &|id| {
        let expr = ast.expr(id);
        matches!(
            expr.kind,
            ExprKind::Name(_) | ExprKind::Attribute { .. } | ExprKind::Subscript { .. }
        ) && expr.span.start == pos
    })
}

/// The way to a name in a target.
pub(super) fn target_path(ast: &Ast, root: ExprId, name: Name) -> Option<Vec<Step>> {
    find_target(ast, root, &|id| matches!(ast.kind(id), ExprKind::Name(n) if n == name))
}

fn find_target(ast: &Ast, root: ExprId, wanted: &dyn Fn(ExprId) -> bool) -> Option<Vec<Step>> {
    if wanted(root) {
        return Some(Vec::new());
    }
    match ast.kind(root) {
        ExprKind::Tuple { items } | ExprKind::List { items } => {
            let items = ast.list(items);
            let star = items.iter().position(|i| matches!(ast.kind(*i), ExprKind::Starred(_)));
            for (index, &item) in items.iter().enumerate() {
                if let Some(mut rest) = find_target(ast, item, wanted) {
                    if Some(index) != star {
                        rest.insert(0, Step::Item { index, n: items.len(), star });
                    }
                    return Some(rest);
                }
            }
            None
        }
        ExprKind::Starred(inner) => {
            let mut rest = find_target(ast, inner, wanted)?;
            rest.insert(0, Step::Rest);
            Some(rest)
        }
        _ => None,
    }
}
