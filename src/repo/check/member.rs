//! E1101: attributes that no alternative of a value has.
//!
//! # Place
//! Part of the checker. Reads the same lists as completion: only a closed one may be spoken about.

use super::inspect::Inspection;
use super::message::Message;
use crate::base::Origin;
use crate::repo::file::ModuleId;
use crate::repo::infer::{ClassKey, Env, Ty, World};
use crate::repo::name::Name;
use crate::repo::scope::{BindKind, ScopeId};
use crate::repo::syntax::*;
use crate::repo::walk::Around;

/// Deepest chain of star imports.
const STARS_MAX: u32 = 8;

/// Names that some interpreters, embedders and sessions add to `sys`.
const SOMETIMES_IN_SYS: [&str; 14] = [
    "frozen",
    "_MEIPASS",
    "pypy_version_info",
    "pypy_translation_info",
    "real_prefix",
    "gettotalrefcount",
    "getwindowsversion",
    "last_exc",
    "last_type",
    "last_value",
    "last_traceback",
    "ps1",
    "ps2",
    "tracebacklimit",
];

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
            || (around.annotation && self.postpones_annotations)
            || around.guarded
            || name.is_dunder()
            || name == Name::EMPTY
            || name == Name::CURSOR
            || self.stored.contains(&name);
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
        let members = self.members(&receiver, inside);
        let is_open = members.open.is_some() && !self.is_listed(&receiver.items[0], name);
        if is_open || members.names.contains_key(&name) {
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

    /// A module whose names the interpreter listed: `sys`, of which nobody knows all otherwise.
    fn is_listed(&self, ty: &Ty, name: Name) -> bool {
        let Ty::Module(id) = ty else {
            return false;
        };
        let module = self.world.module(*id).name;
        self.world.library().native_names(module).is_some()
            && !SOMETIMES_IN_SYS.contains(&name.as_str())
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
                && ast.args(args).get(1).is_some_and(|a| {
                    let text = self.file.slice(ast.expr(a.value).span);
                    text.trim_matches(['"', '\'']) == name.as_str()
                })
        })
    }
}

/// Quick and generous: true when the name is there, or the list is not worth asking for.
fn may_have(world: &World<'_>, ty: &Ty, name: Name) -> bool {
    match ty {
        Ty::Instance { class, exact, .. } => {
            (!exact && class.file.is_library() && !is_plain_value(world, *class))
                || world.is_kind_of_class(*class)
                || class_may_have(world, *class, name)
        }
        Ty::Class { class, .. } => {
            class_may_have(world, *class, name)
                || world.is_enum(*class) && is_functional(world, *class)
                || world.is_abstract_of_library(*class)
        }
        Ty::Module(id) => module_may_have(world, *id, name),
        // Without a base of its own the class is made to be mixed with others.
        Ty::Super { of, .. } => world.mro(*of).entries.len() <= 2,
        Ty::Tuple(_) => false,
        Ty::Descriptor(..) => true,
        // Functions take any attribute.
        _ => true,
    }
}

/// A value of this type is hardly ever one of a subclass.
fn is_plain_value(world: &World<'_>, class: ClassKey) -> bool {
    [
        Name::STR,
        Name::INT,
        Name::FLOAT,
        Name::BOOL,
        Name::BYTES,
        Name::LIST,
        Name::DICT,
        Name::SET_TYPE,
        Name::FROZENSET,
        Name::TUPLE,
    ]
    .into_iter()
    .any(|name| world.builtin(name) == Some(class))
}

fn class_may_have(world: &World<'_>, class: ClassKey, name: Name) -> bool {
    let mro = world.mro(class);
    if mro.open.is_some() || is_mixin(world, class) {
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
        entry.class.file.is_library()
            && [Name::SETATTR_METHOD, Name::GETATTR_METHOD]
                .iter()
                .any(|hook| own.has_class_level(*hook))
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

/// Stubs describe it, and the interpreter that was asked does not have it.
fn is_of_another_system(world: &World<'_>, id: ModuleId) -> bool {
    let name = world.module(id).name.as_str();
    matches!(name, "nt" | "_winapi" | "winreg" | "msvcrt")
        && !world.library().is_builtin_module(name)
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
            // A stub may be older than what it describes, a namespace go on elsewhere.
            None => true,
        };
    };
    let has_getattr = source
        .scopes
        .of(ScopeId::MODULE, Name::GETATTR_METHOD)
        .iter()
        .any(|b| matches!(b.kind, BindKind::Function(_) | BindKind::Target { .. }));
    // Names that a module of the standard library makes in a loop are in its stub.
    let has_stub = module.origin == Origin::StandardLibrary && module.stub.is_some();
    if has_getattr
        || (super::name::writes_globals(&source) && !has_stub)
        || !source.ast.errors.is_empty()
        || source.text.contains("sys.modules[__name__]")
    {
        return true;
    }
    source.scopes.stars.iter().any(|&star| {
        let from = &source.ast.imports_from[star as usize];
        let target = source.absolute(from.level, from.module);
        match target.and_then(|m| world.resolve_module(m)) {
            Some(other) if other == id || is_of_another_system(world, other) => false,
            Some(other) => module_may_have_within(world, other, name, depth + 1),
            // The standard library imports from modules of other platforms.
            None => module.origin != Origin::StandardLibrary,
        }
    })
}
