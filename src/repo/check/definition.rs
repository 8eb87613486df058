//! E0102 and E0213: definitions that replace each other, methods without `self`.
//!
//! # Place
//! Part of the checker. Reads the tree; no types.

use super::inspect::Inspection;
use super::message::Message;
use crate::repo::infer::Env;
use crate::repo::name::Name;
use crate::repo::scope::{BindKind, Binding, ScopeId, ScopeKind};
use crate::repo::syntax::*;

impl Inspection<'_, '_> {
    pub(super) fn check_function(&mut self, env: &Env, func: FuncId) {
        let file = self.file.clone();
        let node = file.ast.function(func);
        let in_class = matches!(file.scopes.scope(env.scope).kind, ScopeKind::Class(_));
        if in_class && self.wants(Message::NoSelfArgument) {
            self.check_self(env, func);
        }
        // `@name.setter` and the like say that they build on what was there.
        let builds_on = |d: &ExprId| {
            let target = match file.ast.kind(*d) {
                ExprKind::Call { func, .. } => func,
                _ => *d,
            };
            match file.ast.kind(target) {
                ExprKind::Attribute { value, name } => {
                    matches!(file.ast.kind(value), ExprKind::Name(n) if n == node.name)
                        || matches!(name, Name::OVERLOAD | Name::REGISTER)
                }
                ExprKind::Name(name) => name == Name::OVERLOAD,
                _ => false,
            }
        };
        if !file.ast.list(node.decorators).iter().any(builds_on) {
            let what = if in_class { "method" } else { "function" };
            self.check_redefinition(env, node.name, node.name_start, what);
        }
    }

    pub(super) fn check_class(&mut self, env: &Env, class: ClassId) {
        let file = self.file.clone();
        let node = file.ast.class(class);
        self.check_redefinition(env, node.name, node.name_start, "class");
    }

    fn check_redefinition(&mut self, env: &Env, name: Name, pos: u32, what: &str) {
        if !self.wants(Message::FunctionRedefined) || self.file.is_stub {
            return;
        }
        let file = self.file.clone();
        let scope = file.scopes.scope(env.scope);
        // By convention a name that does not matter.
        if name.as_str().trim_matches('_').is_empty() || name.as_str().contains("dummy") {
            return;
        }
        let bindings = file.scopes.of(env.scope, name);
        let Some(earlier) = bindings.iter().rfind(|b| b.pos < pos) else {
            return;
        };
        let is_definition = |b: &Binding| match b.kind {
            BindKind::Function(func) => {
                let decorators = file.ast.list(file.ast.function(func).decorators);
                // A decorator may have kept the first one: a route, a handler, an overload.
                decorators.is_empty()
            }
            BindKind::Class(class) => file.ast.class(class).decorators.is_empty(),
            _ => false,
        };
        if !is_definition(earlier) || earlier.eval_scope != env.scope {
            return;
        }
        let own = bindings.iter().find(|b| b.pos == pos);
        if own.is_none_or(|b| b.eval_scope != env.scope) {
            return;
        }
        if !same_path(&file.ast, scope.body, earlier.pos, pos) {
            return;
        }
        if self.is_read_between(env.scope, name, earlier.pos, pos) {
            return;
        }
        let line = file.position(earlier.pos).line;
        let end = pos + name.as_str().len() as u32;
        let text = format!("{what} '{name}' is already defined in line {line}");
        self.report(Message::FunctionRedefined, Span { start: pos, end }, pos, text);
    }

    /// Is the first definition used before the second takes its name (`old = f`)?
    fn is_read_between(&self, scope: ScopeId, name: Name, from: u32, to: u32) -> bool {
        let ast = &self.file.ast;
        ast.exprs.iter().any(|e| {
            e.span.start > from
                && e.span.start < to
                && matches!(e.kind, ExprKind::Name(n) if n == name)
                && self.file.scopes.at(e.span.start) == scope
        })
    }

    fn check_self(&mut self, env: &Env, func: FuncId) {
        let file = self.file.clone();
        let node = file.ast.function(func);
        let ScopeKind::Class(class) = file.scopes.scope(env.scope).kind else {
            return;
        };
        let implicit = matches!(node.name, Name::NEW | Name::INIT_SUBCLASS | Name::CLASS_GETITEM);
        // A decorator may pass other things first.
        if implicit || !node.decorators.is_empty() {
            return;
        }
        let Some(first) = file.ast.params(node.params).first() else {
            return;
        };
        if !matches!(first.kind, ParamKind::Normal | ParamKind::PositionalOnly) {
            return;
        }
        let text = first.name.as_str();
        if matches!(text, "self" | "cls" | "mcs" | "mcls" | "metacls" | "klass")
            || text.starts_with('_')
        {
            return;
        }
        // `name = staticmethod(name)` further down in the class.
        if file.scopes.of(env.scope, node.name).len() > 1 {
            return;
        }
        // Metaclasses call it what they like; so do interfaces, whose methods have no self at all.
        let ast_class = file.ast.class(class);
        let has_plain_bases = ast_class.args.is_empty()
            || file.ast.args(ast_class.args).iter().all(|a| {
                let text = file.slice(file.ast.expr(a.value).span);
                !text.contains("type") && !text.contains("Meta") && !text.contains("Interface")
            });
        let key = crate::repo::infer::ClassKey::new(file.id, class);
        self.world.renew();
        let mro = self.world.mro(key);
        let is_metaclass = self
            .world
            .builtin(Name::TYPE)
            .is_some_and(|t| mro.entries.iter().any(|e| e.class == t));
        if !has_plain_bases || is_metaclass || (mro.open.is_some() && !ast_class.args.is_empty()) {
            return;
        }
        let span = Span { start: first.start, end: first.start + text.len() as u32 };
        let name = node.name;
        let message =
            format!("method '{name}' should have 'self' as its first parameter, not '{text}'");
        self.report(Message::NoSelfArgument, span, node.def_start, message);
    }
}

/// Do both places run whenever the code around the second does: no other branch holds the first?
fn same_path(ast: &Ast, body: Run, first: u32, second: u32) -> bool {
    let a = crate::repo::infer::enclosing_path(ast, body, first);
    let b = crate::repo::infer::enclosing_path(ast, body, second);
    // The block of the first is one around the second, so that the first always ran before it.
    let Some(level) = a.last() else { return false };
    let Some(at) = b.iter().position(|l| l.block == level.block) else {
        return false;
    };
    // Below a condition the second may be a replacement on purpose.
    at + 1 == b.len() && b[at].index > level.index
}
