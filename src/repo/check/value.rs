//! E1111, E1133, E1136: results that are none, loops over what has no items, subscripts of it.
//!
//! # Place
//! Part of the checker.

use super::inspect::Inspection;
use super::message::Message;
use crate::repo::infer::{Env, Ty};
use crate::repo::name::Name;
use crate::repo::syntax::*;
use crate::repo::walk::Around;

impl Inspection<'_, '_> {
    /// `x = f()` where f returns nothing.
    pub(super) fn check_no_return(&mut self, env: &Env, stmt: StmtId, value: ExprId) {
        if value == ExprId::NONE {
            return;
        }
        let file = self.file.clone();
        let ExprKind::Call { func, .. } = file.ast.kind(value) else {
            return;
        };
        let Some(callee) = self.sure_value(env, func) else {
            return;
        };
        let [only @ Ty::Function { .. }] = &callee.items[..] else {
            return;
        };
        let Some(callee) = self.world.certain_callee(only) else {
            return;
        };
        if self.world.returns_nothing(&callee) {
            let span = file.ast.stmt(stmt).span;
            let name = callee.file.ast.function(callee.func).name;
            let text = format!("assigning the result of '{name}', which returns nothing");
            self.report(Message::AssignmentFromNoReturn, span, span.start, text);
        }
    }

    pub(super) fn check_iterable(&mut self, env: &Env, expr: ExprId, around: Around) {
        if around.catches_type || around.annotation || around.guarded {
            return;
        }
        let Some(value) = self.sure_value(env, expr) else {
            return;
        };
        let lacks = |t: &Ty| self.world.surely_lacks(t, &[Name::ITER, Name::GETITEM]);
        if value.items.iter().all(lacks) {
            self.report_value(Message::NotAnIterable, expr, &value.items[0], "is not iterable");
        }
    }

    pub(super) fn check_subscript(&mut self, env: &Env, value: ExprId, around: Around) {
        if around.catches_type || around.annotation || around.guarded {
            return;
        }
        let Some(found) = self.sure_value(env, value) else {
            return;
        };
        let lacks = |t: &Ty| self.world.surely_lacks(t, &[Name::GETITEM]);
        if found.items.iter().all(lacks) {
            let what = "is not subscriptable";
            self.report_value(Message::UnsubscriptableObject, value, &found.items[0], what);
        }
    }

    fn report_value(&mut self, message: Message, expr: ExprId, ty: &Ty, what: &str) {
        let span = self.file.ast.expr(expr).span;
        let source: String = self.file.slice(span).chars().take(60).collect();
        let source = source.split_whitespace().collect::<Vec<_>>().join(" ").replace('\'', "\"");
        let text = format!("'{source}', {}, {what}", self.described(ty));
        self.report(message, span, span.start, text);
    }
}
