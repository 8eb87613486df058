//! Calls whose result no signature tells: `super()`, `getattr`, `cast`, `partial`, `field`, …
//!
//! # Place
//! Asked by calls before they look at signatures.

use super::annotation::string_value;
use super::call::CallArgs;
use super::ty::{ClassKey, Descriptor, Ty, TySet};
use super::world::{Env, World};
use crate::repo::file::FileId;
use crate::repo::name::Name;
use crate::repo::scope::ScopeKind;
use crate::repo::syntax::*;
use std::sync::Arc;

impl World<'_> {
    /// Calls recognised by the name that is called, before its type is known.
    pub(super) fn special_call(
        &self,
        env: &Env,
        id: ExprId,
        func: ExprId,
        args: Run,
    ) -> Option<TySet> {
        let ast = &env.file.ast;
        match ast.kind(func) {
            ExprKind::Name(Name::SUPER) => self.super_value(env, args),
            ExprKind::Name(name) | ExprKind::Attribute { name, .. }
                if matches!(name, Name::NAMEDTUPLE | Name::NAMED_TUPLE) =>
            {
                Some(TySet::one(Ty::Class { class: ClassKey::made(env.file.id, id), args: None }))
            }
            _ => None,
        }
    }

    /// `super()` and `super(C, self)`.
    pub(super) fn super_value(&self, env: &Env, args: Run) -> Option<TySet> {
        // The method around the call, and its class.
        let file = &env.file;
        let mut scope = env.scope;
        let (after, func) = loop {
            let ScopeKind::Function(func) = file.scopes.scope(scope).kind else {
                return Some(TySet::unknown());
            };
            if let Some(class) = self.method_class(file, scope) {
                break (class, func);
            }
            scope = file.scopes.scope(scope).parent?;
        };
        let in_class = self.is_class_method(file, func) || self.is_static_method(file, func);
        let of = env.receiver.filter(|r| self.is_subclass(*r, after)).unwrap_or(after);
        let after = match file.ast.args(args).first() {
            Some(first) => match self.expr(env, first.value).items.first() {
                Some(Ty::Class { class, .. }) if self.is_subclass(of, *class) => *class,
                _ => after,
            },
            None => after,
        };
        Some(TySet::one(Ty::Super { after, of, in_class }))
    }

    /// Callees whose result their signature does not tell.
    pub(super) fn special_callee(
        &self,
        env: &Env,
        id: ExprId,
        callee: &Ty,
        args: Run,
        given: &CallArgs,
    ) -> Option<TySet> {
        let ast = &env.file.ast;
        let list = ast.args(args);
        match callee {
            Ty::Form(Name::NEW_TYPE) => {
                let of = list.get(1).map_or_else(TySet::unknown, |a| self.annotation(env, a.value));
                Some(TySet::one(Ty::Alias(Arc::new(of))))
            }
            Ty::Form(Name::TYPED_DICT) => {
                let dict = self.builtin(Name::DICT)?;
                Some(TySet::one(Ty::Class { class: dict, args: None }))
            }
            Ty::Class { class, .. } if class.file.is_library() => {
                let module = self.file(class.file).module_name;
                let name = self.class_name(*class);
                match (module, name) {
                    (Name::FUNCTOOLS, Name::PARTIAL) => {
                        let of = given.positional.first()?;
                        Some(TySet::one(Ty::Partial(Arc::new(of.clone()))))
                    }
                    (Name::BUILTINS, Name::PROPERTY) => {
                        let of = given.positional.first().cloned().or_else(|| {
                            given
                                .keywords
                                .iter()
                                .find(|(k, _)| k.as_str() == "fget")
                                .map(|(_, v)| v.clone())
                        })?;
                        Some(TySet::one(Ty::Descriptor(Descriptor::Property, Arc::new(of))))
                    }
                    (Name::BUILTINS, Name::CLASSMETHOD) => {
                        let of = given.positional.first()?;
                        Some(TySet::one(Ty::Descriptor(
                            Descriptor::ClassMethod,
                            Arc::new(of.clone()),
                        )))
                    }
                    (Name::BUILTINS, Name::STATICMETHOD) => {
                        let of = given.positional.first()?;
                        Some(TySet::one(Ty::Descriptor(
                            Descriptor::StaticMethod,
                            Arc::new(of.clone()),
                        )))
                    }
                    _ => None,
                }
            }
            Ty::Function { file, func, .. } if self.is_object_new(*file, *func) => {
                let of = given.positional.first()?;
                let is_class = |t: &Ty| matches!(t, Ty::Class { .. });
                (!of.items.is_empty() && of.items.iter().all(is_class))
                    .then(|| self.instances_of_classes(of))
            }
            Ty::Function { file, func, receiver: None } => {
                let owner = self.file(*file);
                let name = owner.ast.function(*func).name;
                self.special_function(env, id, owner.module_name, name, list, given)
            }
            _ => None,
        }
    }

    /// The `__new__` of a built-in type, as in `object.__new__(C)` and `super().__new__(cls)`.
    fn is_object_new(&self, file: FileId, func: FuncId) -> bool {
        let owner = self.file(file);
        owner.module_name == Name::BUILTINS && owner.ast.function(func).name == Name::NEW
    }

    pub(super) fn special_function(
        &self,
        env: &Env,
        _id: ExprId,
        module: Name,
        name: Name,
        list: &[Arg],
        given: &CallArgs,
    ) -> Option<TySet> {
        let ast = &env.file.ast;
        match (module, name) {
            (Name::BUILTINS, Name::GETATTR) => {
                let of = given.positional.first()?;
                let attr = list.get(1).and_then(|a| string_value(&env.file, a.value));
                let mut found = match attr {
                    Some(text) => self.attribute(of, Name::new(text)),
                    None => TySet::unknown(),
                };
                if let Some(default) = given.positional.get(2) {
                    found.join(default.clone());
                    found.unknown = true;
                }
                Some(found)
            }
            (Name::TYPING | Name::TYPING_EXTENSIONS, Name::CAST) => {
                let first = list.first()?;
                Some(self.annotation(env, first.value))
            }
            (Name::COPY, Name::COPY | Name::DEEPCOPY) => given.positional.first().cloned(),
            (Name::FUNCTOOLS, Name::WRAPS) => {
                let wrapped = given.positional.first()?;
                // What it decorates takes the place of the wrapped function.
                Some(TySet::one(Ty::Callable(Arc::new(wrapped.clone()))))
            }
            (Name::FUNCTOOLS, Name::LRU_CACHE)
                if !matches!(list.first().map(|a| ast.kind(a.value)), Some(ExprKind::Name(_))) =>
            {
                None
            }
            (Name::DATACLASSES, Name::FIELD) => self.field_default(given),
            (Name::DATACLASSES, n) if n.as_str() == "replace" => given.positional.first().cloned(),
            (m, Name::FIELD | Name::IB | Name::ATTRIB) if is_attrs(m) => self.field_default(given),
            _ => None,
        }
    }

    /// The value of `field(default=…)` or `field(default_factory=…)` in an instance.
    pub(super) fn field_default(&self, given: &CallArgs) -> Option<TySet> {
        for (name, value) in &given.keywords {
            match *name {
                Name::DEFAULT => return Some(value.clone().with_unknown()),
                Name::DEFAULT_FACTORY | Name::FACTORY => {
                    return Some(self.call(value, &CallArgs::none()).with_unknown());
                }
                _ => {}
            }
        }
        Some(TySet::unknown())
    }
}

fn is_attrs(module: Name) -> bool {
    let text = module.as_str();
    text == "attr" || text == "attrs" || text.starts_with("attr.") || text.starts_with("attrs.")
}
