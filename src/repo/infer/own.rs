//! What a class defines itself: names of its body, of its methods' stores, slots, reflection.
//!
//! # Place
//! Used by `class` through [`World::own`], which keeps the result.

use super::annotation::string_value;
use super::class::{FieldClass, Own};
use super::ty::ClassKey;
use super::world::World;
use crate::repo::file::File;
use crate::repo::name::Name;
use crate::repo::scope::{BindKind, ScopeId, ScopeKind};
use crate::repo::syntax::*;
use std::sync::Arc;

impl World<'_> {
    pub(super) fn find_own(&self, class: ClassKey) -> Own {
        let mut own = Own::default();
        if self.field_class(class) == Some(FieldClass::NamedTuple) {
            self.named_tuple_names(class, &mut own);
        }
        let (Some(env), Some(id)) = (self.class_env(class), class.class()) else {
            return own;
        };
        let file = &env.file;
        let is_typed_dict = self.is_typed_dict(class);
        for binding in file.scopes.all(env.scope) {
            match binding.kind {
                // Keys are not attributes.
                BindKind::Annotated { .. } if is_typed_dict => {}
                BindKind::Deleted | BindKind::TypeParam { .. } => {
                    own.names.remove(&binding.name);
                }
                // `x: int` without a value exists on instances only.
                BindKind::Annotated { value, .. } => {
                    let is_stub = file.is_stub;
                    own.add(binding.name, value != ExprId::NONE || is_stub, binding.pos);
                    own.add(binding.name, false, binding.pos);
                }
                _ => own.add(binding.name, true, binding.pos),
            }
        }
        for store in file.scopes.stores_of(id) {
            own.add(store.name, self.stores_on_class(file, store), store.pos);
        }
        if let Some(fragment) = self.fragment.as_ref().filter(|f| f.class == Some(class)) {
            for store in fragment.file.scopes.stores_of(id) {
                own.add(store.name, self.stores_on_class(&fragment.file, store), store.pos);
            }
            self.reflection(&fragment.file, class, &mut own);
        }
        self.twin_names(class, &mut own);
        if let Some(binding) = file.scopes.of(env.scope, Name::SLOTS).last() {
            self.slot_names(file, binding, &mut own);
        }
        self.reflection(file, class, &mut own);
        // `object` and `type` have these for everybody; a class that has them itself answers to anything.
        let in_builtins = class.file.is_library() && file.module_name == Name::BUILTINS;
        for name in [Name::GETATTR_METHOD, Name::GETATTRIBUTE, Name::SETATTR_METHOD] {
            let by_itself = in_builtins && name != Name::GETATTR_METHOD;
            // Sources pass a set attribute on, and what they set is seen; a stub says that any may be set.
            let is_seen = name == Name::SETATTR_METHOD && !file.is_stub;
            if own.has_class_level(name) && !by_itself && !is_seen {
                own.open = Some(Arc::from(format!("{name} on {}", file.ast.class(id).name)));
            }
        }
        self.field_names(class, &mut own);
        self.supplement_names(class, &mut own);
        own
    }

    /// Names that our table of built-in types has and older stubs do not.
    pub(super) fn supplement_names(&self, class: ClassKey, own: &mut Own) {
        let supplement = self.library().supplement();
        if class.file == supplement {
            return;
        }
        let file = self.file(class.file);
        if file.module_name != Name::BUILTINS {
            return;
        }
        let more = self.file(supplement);
        let name = self.class_name(class);
        for b in more.scopes.of(ScopeId::MODULE, name) {
            if let BindKind::Class(id) = b.kind {
                for binding in more.scopes.all(more.scopes.of_class(id)) {
                    own.add(binding.name, true, 0);
                }
            }
        }
    }

    pub(super) fn slot_names(
        &self,
        file: &File,
        binding: &crate::repo::scope::Binding,
        own: &mut Own,
    ) {
        let value = match binding.kind {
            BindKind::Target { value, .. } | BindKind::Annotated { value, .. } => value,
            _ => return,
        };
        let Some(value) = value.some() else { return };
        let ast = &file.ast;
        let items: Vec<ExprId> = match ast.kind(value) {
            ExprKind::Tuple { items } | ExprKind::List { items } | ExprKind::Set { items } => {
                ast.list(items).to_vec()
            }
            ExprKind::Dict { items } => ast.list(items).iter().step_by(2).copied().collect(),
            ExprKind::Str => vec![value],
            _ => {
                own.open = Some(Arc::from("computed __slots__"));
                return;
            }
        };
        own.slots = true;
        for item in items {
            match item.some().and_then(|i| string_value(file, i)) {
                Some("__dict__") => own.slots = false,
                Some(name) => own.add(Name::new(name), false, binding.pos),
                None => {
                    own.open = Some(Arc::from("computed __slots__"));
                }
            }
        }
    }

    /// Does a store through the first parameter land on the class (`cls.x = …`)?
    pub(super) fn stores_on_class(
        &self,
        file: &File,
        store: &crate::repo::scope::AttrStore,
    ) -> bool {
        let mut at = Some(store.scope);
        while let Some(scope) = at {
            if let ScopeKind::Function(func) = file.scopes.scope(scope).kind
                && self.method_class(file, scope).is_some()
            {
                return self.is_class_method(file, func);
            }
            at = file.scopes.scope(scope).parent;
        }
        false
    }

    /// The class of the same name in the source beside a stub.
    pub(super) fn twin(&self, class: ClassKey) -> Option<ClassKey> {
        let id = class.class()?;
        let file = self.file(class.file);
        if !file.is_stub {
            return None;
        }
        let scope = file.scopes.of_class(id);
        if file.scopes.scope(scope).parent != Some(ScopeId::MODULE) {
            return None;
        }
        let module = self.resolve_module(file.module_name)?;
        let module = self.module(module);
        let source = self.file(module.source.filter(|s| *s != file.id)?);
        source.scopes.of(ScopeId::MODULE, file.ast.class(id).name).iter().rev().find_map(
            |b| match b.kind {
                BindKind::Class(twin) => Some(ClassKey::new(source.id, twin)),
                _ => None,
            },
        )
    }

    /// A stub may leave out names that the source has.
    pub(super) fn twin_names(&self, class: ClassKey, own: &mut Own) {
        let Some(twin) = self.twin(class) else { return };
        let more = self.own(twin);
        own.add_twin(&more);
    }

    /// `setattr(self, …)`, `vars(self)`, `self.__dict__` and hooks that add attributes.
    pub(super) fn reflection(&self, file: &File, class: ClassKey, own: &mut Own) {
        let ast = &file.ast;
        let (span, exprs) = match class.class() {
            Some(id) if file.id == class.file => (ast.class(id).span, ast.class(id).exprs),
            // The function being written.
            _ => (Span { start: 0, end: u32::MAX }, Run { start: 0, len: ast.exprs.len() as u32 }),
        };
        let name_of_class = self.class_name(class);
        for &call in &ast.reflective_calls {
            let at = ast.expr(call).span.start;
            if !span.contains(at) {
                continue;
            }
            let ExprKind::Call { func, args } = ast.kind(call) else {
                continue;
            };
            let ExprKind::Name(name) = ast.kind(func) else {
                continue;
            };
            let args = ast.args(args);
            if !args.first().is_some_and(|a| self.is_self(file, a.value, class)) {
                continue;
            }
            if restores_state(file, at) {
                continue;
            }
            match (name, args.get(1)) {
                (Name::SETATTR, Some(attr)) => match string_value(file, attr.value) {
                    Some(text) => own.add(Name::new(text), false, at),
                    None => own.open = Some(Arc::from(format!("setattr on {name_of_class}"))),
                },
                (Name::VARS, _) => own.open = Some(Arc::from(format!("vars() on {name_of_class}"))),
                _ => {}
            }
        }
        // `self.__dict__` written, or `object.__setattr__` called.
        for expr in &ast.exprs[exprs.range()] {
            let ExprKind::Attribute { name, .. } = expr.kind else {
                continue;
            };
            if name != Name::DICT_ATTR && name != Name::SETATTR_METHOD {
                continue;
            }
            let after = file.text.get(expr.span.end as usize..).unwrap_or("").trim_start();
            if name == Name::DICT_ATTR {
                let assigned = after.starts_with('=') && !after.starts_with("==");
                // A copy of an object has the names that the object has.
                if restores_state(file, expr.span.start)
                    || after.starts_with(".update(self.__dict__)")
                {
                    continue;
                }
                if assigned
                    || after.starts_with(".update")
                    || after.starts_with('[')
                    || after.starts_with(".setdefault")
                {
                    own.open = Some(Arc::from(format!("__dict__ of {name_of_class}")));
                }
            } else if after.starts_with('(') {
                self.setattr_method_call(file, expr.span, name_of_class, own);
            }
        }
    }

    /// `object.__setattr__(self, 'name', value)`.
    pub(super) fn setattr_method_call(
        &self,
        file: &File,
        method: Span,
        class: Name,
        own: &mut Own,
    ) {
        let ast = &file.ast;
        let call = ast.exprs.iter().find_map(|e| match e.kind {
            ExprKind::Call { func, args } if ast.expr(func).span == method => Some(args),
            _ => None,
        });
        let Some(args) = call else { return };
        let args = ast.args(args);
        let attr = if args.len() >= 3 { args.get(1) } else { args.first() };
        match attr.and_then(|a| string_value(file, a.value)) {
            Some(text) => own.add(Name::new(text), false, method.start),
            None => {
                // `def __setattr__(self, name, value): super().__setattr__(name, value)` adds nothing by
                // itself: only assignments do, and those are seen.
                let passes_on = ast
                    .functions
                    .iter()
                    .any(|f| f.name == Name::SETATTR_METHOD && f.span.contains(method.start));
                if !passes_on {
                    own.open = Some(Arc::from(format!("__setattr__ on {class}")));
                }
            }
        }
    }

    /// Is an expression the first parameter of a method of this class?
    pub(super) fn is_self(&self, file: &File, expr: ExprId, class: ClassKey) -> bool {
        let ExprKind::Name(name) = file.ast.kind(expr) else {
            return false;
        };
        let mut at = Some(file.scopes.at(file.ast.expr(expr).span.start));
        while let Some(scope) = at {
            for b in file.scopes.of(scope, name) {
                if let BindKind::Param { func, param } = b.kind {
                    let is_first = file.ast.function(func).params.start == param;
                    return is_first && self.method_class(file, scope) == Some(class);
                }
            }
            at = file.scopes.scope(scope).parent;
        }
        false
    }
}

/// Is a place in a method that gives an object what another one had (pickling, copying)? That adds no name.
fn restores_state(file: &File, at: u32) -> bool {
    match file.scopes.scope(file.scopes.at(at)).kind {
        ScopeKind::Function(func) => {
            matches!(
                file.ast.function(func).name.as_str(),
                "__setstate__" | "__copy__" | "__deepcopy__" | "copy"
            )
        }
        _ => false,
    }
}
