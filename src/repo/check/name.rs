//! E0602: names that no scope binds.
//!
//! # Place
//! Part of the checker. Scopes only, no types.

use super::inspect::Inspection;
use super::message::Message;
use crate::repo::file::File;
use crate::repo::infer::{Env, FrameKind, Members, World};
use crate::repo::name::Name;
use crate::repo::scope::{BindKind, ScopeId, ScopeKind};
use crate::repo::syntax::*;
use crate::repo::walk::Around;
use rustc_hash::FxHashSet;

/// Names of built-ins that stubs of some age do not have, or that only some platform has.
const NEW_BUILTINS: [&str; 12] = [
    "aiter",
    "anext",
    "EncodingWarning",
    "BaseExceptionGroup",
    "ExceptionGroup",
    "PythonFinalizationError",
    "WindowsError",
    "__debug__",
    "__import__",
    "__build_class__",
    "reveal_type",
    "copyright",
];

/// Names that every module has.
const MODULE_NAMES: [&str; 12] = [
    "__name__",
    "__file__",
    "__doc__",
    "__package__",
    "__spec__",
    "__loader__",
    "__cached__",
    "__builtins__",
    "__path__",
    "__annotations__",
    "__dict__",
    "__debug__",
];

/// The names of built-ins.
pub(super) fn builtin_names(world: &World<'_>) -> FxHashSet<Name> {
    let mut members = Members::default();
    world.module_members(world.library().builtins(), &mut members);
    let mut names: FxHashSet<Name> = members.names.into_keys().collect();
    let known =
        NEW_BUILTINS.iter().chain(&MODULE_NAMES).chain(&["exit", "quit", "credits", "license"]);
    names.extend(known.map(|n| Name::new(n)));
    names
}

/// Does a module write its own globals by name, so that any name may be bound?
pub(super) fn writes_globals(file: &File) -> bool {
    let ast = &file.ast;
    ast.reflective_calls.iter().any(|&call| {
        let ExprKind::Call { func, args } = ast.kind(call) else {
            return false;
        };
        let ExprKind::Name(name) = ast.kind(func) else {
            return false;
        };
        let span = ast.expr(call).span;
        let in_module = file.scopes.at(span.start) == ScopeId::MODULE;
        match name {
            Name::EXEC => in_module || file.slice(span).contains("globals()"),
            Name::GLOBALS => is_written(file, span),
            Name::VARS | Name::LOCALS => in_module && args.is_empty() && is_written(file, span),
            _ => false,
        }
    })
}

/// `globals()[…] = …`, `globals().update(…)`, or handed to someone.
fn is_written(file: &File, span: Span) -> bool {
    let after = file.text.get(span.end as usize..).unwrap_or("").trim_start();
    if let Some(method) = after.strip_prefix('.') {
        return method.starts_with("update") || method.starts_with("setdefault");
    }
    if after.starts_with('[') {
        let line = after.lines().next().unwrap_or("");
        return match line.split_once(']') {
            Some((_, rest)) => {
                let rest = rest.trim_start();
                rest.starts_with('=') && !rest.starts_with("==")
            }
            None => true,
        };
    }
    let before = file.text.get(..span.start as usize).unwrap_or("").trim_end();
    // `in globals()` reads; an argument or an assigned value may be written anywhere.
    !before.ends_with("in")
}

impl Inspection<'_, '_> {
    pub(super) fn check_name(&mut self, env: &Env, expr: ExprId, name: Name, around: Around) {
        if around.catches_name || name == Name::EMPTY || name == Name::CURSOR {
            return;
        }
        let span = self.file.ast.expr(expr).span;
        // The text may spell the name with characters that Python normalises.
        if span.end - span.start == 0 || self.is_bound(env, name, span.start, around) {
            return;
        }
        self.report(
            Message::UndefinedVariable,
            span,
            span.start,
            format!("undefined variable '{name}'"),
        );
    }

    fn is_bound(&self, env: &Env, name: Name, pos: u32, around: Around) -> bool {
        if self.is_bound_in_frames(env, name) {
            return true;
        }
        let scopes = &self.file.scopes;
        let mut at = Some(env.scope);
        let mut innermost = true;
        while let Some(id) = at {
            let scope = scopes.scope(id);
            let bindings = scopes.of(id, name);
            let is_class = matches!(scope.kind, ScopeKind::Class(_));
            let is_type_param =
                bindings.iter().any(|b| matches!(b.kind, BindKind::TypeParam { .. }));
            if !bindings.is_empty()
                && (!is_class || innermost || is_type_param || around.annotation)
            {
                let has_deletion = bindings.iter().any(|b| matches!(b.kind, BindKind::Deleted));
                let is_global = bindings.iter().any(|b| b.eval_scope != id);
                if !(innermost && has_deletion) || is_global {
                    return true;
                }
                return self.world.may_be_bound_at(&self.file, id, bindings, pos);
            }
            if is_class && matches!(name.as_str(), "__module__" | "__qualname__") && innermost {
                return true;
            }
            if is_class && name == Name::CLASS_ATTR && !innermost {
                return true;
            }
            innermost = false;
            at = scope.parent;
        }
        self.builtins.contains(&name) || self.stars.as_ref().is_none_or(|s| s.contains(&name))
    }

    fn is_bound_in_frames(&self, env: &Env, name: Name) -> bool {
        let ast = &self.file.ast;
        let mut at = env.frames.as_deref();
        while let Some(frame) = at {
            let bound = match &frame.kind {
                FrameKind::Comp(clauses) => clauses.iter().any(|c| binds(ast, c.target, name)),
                FrameKind::Lambda { params, .. } => {
                    ast.params(*params).iter().any(|p| p.name == name)
                }
            };
            if bound {
                return true;
            }
            at = frame.parent.as_deref();
        }
        false
    }
}

/// Does a target bind a name?
fn binds(ast: &Ast, target: ExprId, name: Name) -> bool {
    let mut stack = vec![target];
    while let Some(id) = stack.pop() {
        match ast.kind(id) {
            ExprKind::Name(n) if n == name => return true,
            ExprKind::Tuple { items } | ExprKind::List { items } => {
                stack.extend(ast.list(items).iter().copied());
            }
            ExprKind::Starred(inner) => stack.push(inner),
            _ => {}
        }
    }
    false
}
