//! E1101: attributes that no alternative of a value has.
//!
//! # Place
//! Part of the checker. Reads the same lists as completion: only a closed one may be spoken about.

use super::inspect::Inspection;
use super::message::Message;
use crate::repo::file::ModuleId;
use crate::repo::infer::{ClassKey, Env, Ty, World};
use crate::repo::name::Name;
use crate::repo::scope::{BindKind, ScopeId};
use crate::repo::syntax::*;
use crate::repo::walk::Around;

/// Deepest chain of star imports.
const STARS_MAX: u32 = 8;

impl Inspection<'_, '_> {
    pub(super) fn check_member(
        &mut self,
        env: &Env,
        expr: ExprId,
        value: ExprId,
        name: Name,
        around: Around,
    ) {
        let silent = around.catches_attribute
            || around.annotation
            || around.guarded
            || name.is_dunder()
            || name == Name::EMPTY
            || name == Name::CURSOR;
        if silent {
            return;
        }
        let Some(receiver) = self.sure_value(env, value) else {
            return;
        };
        let world = self.world;
        if receiver.items.iter().any(|t| may_have(world, t, name)) {
            return;
        }
        if self.is_tested(env, value, name) {
            return;
        }
        let inside = self.class_around(env.scope);
        let members = world.members(&receiver, inside);
        if members.open.is_some() || members.names.contains_key(&name) {
            return;
        }
        if name.is_mangled() && inside.is_none() {
            return; // Reached under its mangled name, if at all.
        }
        let owner = self.described(&receiver.items[0]);
        let span = self.name_span(expr);
        let anchor = self.file.ast.expr(expr).span.start;
        self.report(Message::NoMember, span, anchor, format!("{owner} has no member '{name}'"));
    }

    /// `hasattr(x, 'name')` somewhere in the same function: the author knows.
    fn is_tested(&self, env: &Env, value: ExprId, name: Name) -> bool {
        let ast = &self.file.ast;
        let within = self.file.scopes.scope(env.scope).span;
        let receiver = self.file.slice(ast.expr(value).span);
        ast.reflective_calls.iter().any(|&call| {
            let at = ast.expr(call).span.start;
            let ExprKind::Call { func, args } = ast.kind(call) else {
                return false;
            };
            within.contains(at)
                && matches!(
                    ast.kind(func),
                    ExprKind::Name(Name::HASATTR | Name::GETATTR | Name::SETATTR | Name::DELATTR)
                )
                && ast
                    .args(args)
                    .first()
                    .is_some_and(|a| self.file.slice(ast.expr(a.value).span) == receiver)
                && ast.args(args).get(1).is_none_or(|a| {
                    let text = self.file.slice(ast.expr(a.value).span);
                    text.trim_matches(['"', '\'']) == name.as_str()
                        || !text.starts_with(['"', '\''])
                })
        })
    }
}

/// Quick and generous: true when the name is there, or the list is not worth asking for.
fn may_have(world: &World<'_>, ty: &Ty, name: Name) -> bool {
    match ty {
        Ty::Instance { class, .. } => class_may_have(world, *class, name),
        Ty::Class { class, .. } => {
            class_may_have(world, *class, name)
                || world.is_enum(*class) && is_functional(world, *class)
        }
        Ty::Module(id) => module_may_have(world, *id, name),
        Ty::Tuple(_) | Ty::Super { .. } => false,
        Ty::Descriptor(..) => true,
        // Functions take any attribute.
        _ => true,
    }
}

fn class_may_have(world: &World<'_>, class: ClassKey, name: Name) -> bool {
    let mro = world.mro(class);
    if mro.open.is_some() {
        return true;
    }
    mro.entries.iter().any(|entry| {
        let own = world.own(entry.class);
        if own.open.is_some() || own.names.contains_key(&name) {
            return true;
        }
        if world.is_object(entry.class) {
            return false;
        }
        // A class of a library that stores attributes its own way (`threading.local`).
        (entry.class.file.is_library()
            && [Name::SETATTR_METHOD, Name::GETATTR_METHOD]
                .iter()
                .any(|hook| own.has_class_level(*hook)))
            || is_mixin(world, entry.class)
    })
}

/// A mixin uses what the classes have that it is mixed into; pylint leaves those alone, too.
fn is_mixin(world: &World<'_>, class: ClassKey) -> bool {
    let name = world.class_name(class).as_str();
    name.ends_with("Mixin") || name.ends_with("mixin")
}

/// An enum without members in its body may get them elsewhere.
fn is_functional(world: &World<'_>, class: ClassKey) -> bool {
    class.class().is_none() || world.own(class).names.is_empty()
}

/// What a module may have besides what its statements bind. Generous: `__all__` is not looked at.
pub(super) fn module_may_have(world: &World<'_>, id: ModuleId, name: Name) -> bool {
    module_may_have_within(world, id, name, 0)
}

fn module_may_have_within(world: &World<'_>, id: ModuleId, name: Name, depth: u32) -> bool {
    if depth > STARS_MAX || world.submodule(id, name).is_some() {
        return true;
    }
    let module = world.module(id);
    let Some(source) = module.source.map(|f| world.file(f)) else {
        return match world.library().native_names(module.name) {
            Some(names) => names.contains(&name),
            // A stub may be older than what it describes; a namespace has nothing else.
            None => module.stub.is_some() || !module.is_package,
        };
    };
    let has_getattr = source
        .scopes
        .of(ScopeId::MODULE, Name::GETATTR_METHOD)
        .iter()
        .any(|b| matches!(b.kind, BindKind::Function(_) | BindKind::Target { .. }));
    if has_getattr
        || super::name::writes_globals(&source)
        || !source.ast.errors.is_empty()
        || source.text.contains("sys.modules[__name__]")
    {
        return true;
    }
    source.scopes.stars.iter().any(|&star| {
        let from = &source.ast.imports_from[star as usize];
        let target = source.absolute(from.level, from.module);
        match target.and_then(|m| world.resolve_module(m)) {
            Some(other) if other == id => false,
            Some(other) => module_may_have_within(world, other, name, depth + 1),
            None => true,
        }
    })
}
