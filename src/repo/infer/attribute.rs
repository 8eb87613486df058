//! Attributes: what `value.name` may be, through the resolution order, descriptors and metaclasses.
//!
//! # Place
//! Uses `class` for what classes define; used by expressions, calls and operators.

use super::call::CallArgs;
use super::class::MroEntry;
use super::ty::{Args, ClassKey, Descriptor, Ty, TySet};
use super::world::{Env, Key, World};
use crate::repo::name::Name;
use crate::repo::scope::{AttrStore, BindKind, Binding, ScopeId};
use std::sync::Arc;

impl World<'_> {
    /// What an attribute of these values may be.
    pub(crate) fn attribute(&self, of: &TySet, name: Name) -> TySet {
        let mut out = TySet { items: Default::default(), unknown: of.unknown };
        let mut missing = false;
        for ty in &of.items {
            match self.attribute_of(ty, name) {
                Some(found) => out.join(found),
                None => missing = true,
            }
        }
        if missing && out.is_empty() {
            out.unknown = true;
        }
        out
    }

    /// What an attribute of one alternative may be; none when it has no such attribute.
    pub(crate) fn attribute_of(&self, ty: &Ty, name: Name) -> Option<TySet> {
        match ty {
            Ty::Instance { class, args, .. } => self.instance_attribute(*class, args, ty, name),
            Ty::Class { class, .. } => self.class_object_attribute(*class, ty, name),
            Ty::Module(id) => self.module_attribute(*id, name).or_else(|| {
                let class = self.class_of(ty)?;
                self.instance_attribute(class, &None, ty, name)
            }),
            Ty::Var(var) => {
                let bound = self.var_bound(*var);
                if bound.has_vars() {
                    return Some(TySet::unknown());
                }
                Some(self.attribute(&bound, name))
            }
            Ty::Super { after, of, in_class } => {
                Some(self.super_attribute(*after, *of, *in_class, name))
            }
            Ty::Tuple(items) => {
                let class = self.builtin(Name::TUPLE)?;
                let mut all = TySet::empty();
                items.iter().for_each(|i| all.join(i.clone()));
                let args: Args = Some(Arc::from(vec![all]));
                let as_tuple = Ty::Instance { class, args: args.clone(), exact: true };
                self.instance_attribute(class, &args, &as_tuple, name)
            }
            Ty::Function { file, func, .. } => {
                if let Some(found) = self.function_attribute(*file, *func, name) {
                    return Some(found);
                }
                let class = self.class_of(ty)?;
                Some(self.instance_attribute(class, &None, ty, name).unwrap_or_else(TySet::unknown))
            }
            Ty::Descriptor(Descriptor::Property, _) => match name {
                // `@x.setter` keeps the property.
                Name::SETTER | Name::GETTER | Name::DELETER => {
                    Some(TySet::one(Ty::Callable(Arc::new(TySet::one(ty.clone())))))
                }
                _ => {
                    let class = self.class_of(ty)?;
                    self.instance_attribute(class, &None, ty, name)
                }
            },
            Ty::Form(_) | Ty::Alias(_) => Some(TySet::unknown()),
            Ty::Lambda { .. } | Ty::Callable(_) => {
                let class = self.class_of(ty)?;
                Some(self.instance_attribute(class, &None, ty, name).unwrap_or_else(TySet::unknown))
            }
            _ => {
                let class = self.class_of(ty)?;
                self.instance_attribute(class, &None, ty, name)
            }
        }
    }

    fn instance_attribute(
        &self,
        class: ClassKey,
        args: &Args,
        receiver: &Ty,
        name: Name,
    ) -> Option<TySet> {
        if name == Name::CLASS_ATTR {
            return Some(TySet::one(Ty::Class { class, args: args.clone() }));
        }
        if let Some(found) = self.class_attribute(class, name, receiver, false) {
            return Some(found);
        }
        if let Some(found) = self.outside_attribute(class, name) {
            return Some(found);
        }
        // Attributes that only some subclass defines.
        if !matches!(receiver, Ty::Instance { exact: true, .. })
            && let Some(found) = self.subclass_attribute(class, name)
        {
            return Some(found);
        }
        if name != Name::GETATTR_METHOD
            && let Some(method) = self.class_attribute(class, Name::GETATTR_METHOD, receiver, false)
        {
            return Some(
                self.call(&method, &CallArgs::positional(&[self.of_builtin(Name::STR)]))
                    .with_unknown(),
            );
        }
        self.mro(class).open.is_some().then(TySet::unknown)
    }

    fn class_object_attribute(&self, class: ClassKey, receiver: &Ty, name: Name) -> Option<TySet> {
        if let Some(found) = self.class_attribute(class, name, receiver, true) {
            return Some(found);
        }
        if let Some(metaclass) = self.metaclass_of(class)
            && let Some(found) = self.class_attribute(metaclass, name, receiver, false)
        {
            return Some(found);
        }
        self.mro(class).open.is_some().then(TySet::unknown)
    }

    /// An attribute found through the classes of the resolution order, bound to its receiver.
    pub(crate) fn class_attribute(
        &self,
        class: ClassKey,
        name: Name,
        receiver: &Ty,
        on_class: bool,
    ) -> Option<TySet> {
        let raw = self.raw_attribute(class, name, on_class)?;
        let by = match receiver {
            Ty::Instance { class: c, args, .. } | Ty::Class { class: c, args } if *c == class => {
                self.bindings_for(class, args)
            }
            _ => Self::no_bindings(),
        };
        let bound = self.bound(&raw, receiver, on_class);
        Some(bound.replaced(&by))
    }

    /// An attribute in terms of the class's own type variables, not bound yet.
    fn raw_attribute(&self, class: ClassKey, name: Name, on_class: bool) -> Option<TySet> {
        let mro = self.mro(class);
        let mut found = false;
        let mut found_in_stub = false;
        for entry in &mro.entries {
            if let Some(known) = self.own(entry.class).names.get(&name)
                && (known.in_class || (known.on_instance && !on_class))
            {
                found = true;
                found_in_stub |= !known.by_twin;
            }
        }
        if !found {
            return None;
        }
        let key = Key::Attribute(class, name, on_class, class);
        Some(self.memo(key, || {
            let mut out = TySet::empty();
            for entry in &mro.entries {
                let own = self.own(entry.class);
                // What a stub leaves out it means to inherit, when a base has it.
                let Some(known) = own.names.get(&name).filter(|n| !(n.by_twin && found_in_stub))
                else {
                    continue;
                };
                let (found, ends) = self.entry_attribute(class, entry, name, on_class);
                out.join(found);
                if known.in_class || ends {
                    break;
                }
            }
            out
        }))
    }

    /// What one class of the order gives; true when it declares the type.
    fn entry_attribute(
        &self,
        class: ClassKey,
        entry: &MroEntry,
        name: Name,
        on_class: bool,
    ) -> (TySet, bool) {
        let mut out = TySet::empty();
        let mut declared = false;
        if let Some(found) = self.made_attribute(class, entry.class, name) {
            return (found, true);
        }
        if let (Some(env), Some(id)) = (self.class_env(entry.class), entry.class.class()) {
            let env = env.with_receiver(Some(class));
            let is_declaration = |b: &Binding| matches!(b.kind, BindKind::Annotated { .. });
            let bindings = env.file.scopes.of(env.scope, name);
            declared = bindings.last().is_some_and(is_declaration);
            if let Some(found) = self.at_scope_exit(&env, name) {
                out.join(self.enum_member(entry.class, name, found));
            }
            let stores: Vec<&AttrStore> = {
                let all = env.file.scopes.stores_of(id);
                all.iter().filter(|s| s.name == name).collect()
            };
            let annotated = stores.iter().any(|s| matches!(s.kind, BindKind::Annotated { .. }));
            if !declared && !on_class {
                for store in stores {
                    if annotated && !matches!(store.kind, BindKind::Annotated { .. }) {
                        continue;
                    }
                    out.join(self.store_value(&env, store));
                }
            }
            declared |= annotated;
            if let Some(fragment) = self.fragment.as_ref().filter(|f| f.class == Some(entry.class))
                && !declared
                && fragment.stored.contains(&name)
            {
                let written =
                    Env::new(fragment.file.clone(), ScopeId::MODULE).with_receiver(Some(class));
                for store in fragment.file.scopes.stores_of(id).iter().filter(|s| s.name == name) {
                    out.join(self.store_value(&written, store));
                }
            }
            if out.is_empty()
                && !declared
                && let Some(twin) = self.twin(entry.class)
                && let Some(found) = self.raw_attribute(twin, name, on_class)
            {
                out.join(found);
            }
            if out.is_empty() && !declared {
                // A slot, or a name that only a reflective call sets.
                out.unknown = true;
            }
        } else {
            out.unknown = true;
        }
        let by = self.bindings_for(entry.class, &entry.args);
        let out = out.replaced(&by);
        (self.without_foreign_vars(class, out), declared)
    }

    /// What an assignment through `self` stores.
    pub(super) fn store_value(&self, class_env: &Env, store: &AttrStore) -> TySet {
        if matches!(store.kind, BindKind::Augmented { .. }) {
            return TySet::empty();
        }
        let env = class_env.in_scope(store.scope);
        let binding =
            Binding { name: store.name, pos: store.pos, eval_scope: store.scope, kind: store.kind };
        self.binding(&env, &binding)
    }

    /// Parameters of methods that reach an attribute are unknown; the class's own variables stay.
    fn without_foreign_vars(&self, class: ClassKey, set: TySet) -> TySet {
        if !set.items.iter().any(|t| matches!(t, Ty::Var(_))) {
            return set;
        }
        let own = self.own_vars(class);
        let mut out = TySet { items: Default::default(), unknown: set.unknown };
        for ty in set.items {
            match &ty {
                Ty::Var(var) if !own.contains(var) => {
                    let bound = self.var_bound(*var);
                    if bound.has_vars() {
                        out.unknown = true;
                    } else {
                        out.join(bound);
                    }
                }
                _ => out.add(ty),
            }
        }
        out
    }

    /// Apply the descriptor protocol.
    fn bound(&self, raw: &TySet, receiver: &Ty, on_class: bool) -> TySet {
        let mut out = TySet { items: Default::default(), unknown: raw.unknown };
        for ty in &raw.items {
            match ty {
                Ty::Function { file, func, receiver: None } if !on_class => {
                    out.add(Ty::Function {
                        file: *file,
                        func: *func,
                        receiver: Some(Arc::new(receiver.clone())),
                    });
                }
                Ty::Descriptor(Descriptor::ClassMethod, inner) => {
                    let class = match receiver {
                        Ty::Instance { class, args, .. } => {
                            Ty::Class { class: *class, args: args.clone() }
                        }
                        other => other.clone(),
                    };
                    for ty in &inner.items {
                        match ty {
                            Ty::Function { file, func, receiver: None } => out.add(Ty::Function {
                                file: *file,
                                func: *func,
                                receiver: Some(Arc::new(class.clone())),
                            }),
                            other => out.add(other.clone()),
                        }
                    }
                    out.unknown |= inner.unknown;
                }
                Ty::Descriptor(Descriptor::StaticMethod, inner) => out.join((**inner).clone()),
                Ty::Descriptor(Descriptor::Property, inner) if !on_class => {
                    out.join(self.property_value(inner, receiver));
                }
                // Only `__set__`: what is read lies in the instance, under whatever name.
                Ty::Instance { class, .. }
                    if !on_class
                        && !class.file.is_library()
                        && self.class_defines(*class, Name::SET)
                        && !self.class_defines(*class, Name::GET) =>
                {
                    out.unknown = true;
                }
                Ty::Instance { class, .. } if self.class_defines(*class, Name::GET) => {
                    let owner = match receiver {
                        Ty::Instance { class, args, .. } => {
                            TySet::one(Ty::Class { class: *class, args: args.clone() })
                        }
                        other => TySet::one(other.clone()),
                    };
                    let object =
                        if on_class { TySet::none() } else { TySet::one(receiver.clone()) };
                    match self.call_method(ty, Name::GET, &[object, owner]) {
                        Some(found) => out.join(found),
                        None => out.unknown = true,
                    }
                }
                // A descriptor that is only told of stores: what was stored is read.
                Ty::Instance { class, .. }
                    if !on_class && self.class_defines(*class, Name::SET) =>
                {
                    out.unknown = true;
                }
                other => out.add(other.clone()),
            }
        }
        out
    }

    fn super_attribute(&self, after: ClassKey, of: ClassKey, in_class: bool, name: Name) -> TySet {
        let receiver = self.receiver_type(of, in_class);
        let Some(receiver) = receiver.items.first() else {
            return TySet::unknown();
        };
        let mro = self.mro(of);
        let at = mro.entries.iter().position(|e| e.class == after).map_or(0, |i| i + 1);
        for entry in mro.entries.iter().skip(at) {
            if !self.own(entry.class).names.get(&name).is_some_and(|n| n.in_class) {
                continue;
            }
            let (found, _) = self.entry_attribute(of, entry, name, true);
            return self.bound(&found, receiver, in_class && !self.is_plain_function(&found));
        }
        TySet::unknown()
    }

    fn is_plain_function(&self, set: &TySet) -> bool {
        set.items.iter().all(|t| matches!(t, Ty::Function { receiver: None, .. }))
    }

    /// `obj.name = value` somewhere outside the class, on a receiver known to be of this class.
    fn outside_attribute(&self, class: ClassKey, name: Name) -> Option<TySet> {
        if class.file.is_library() {
            return None;
        }
        let mut out: Option<TySet> = None;
        self.each_store(class, &|n| n == name, &mut |file, store, is_certain| {
            let env = Env::new(file.clone(), store.scope);
            let mut found = self.closed_over_vars(&self.store_value(&env, store));
            found.unknown |= !is_certain;
            match &mut out {
                Some(known) => known.join(found),
                None => out = Some(found),
            }
        });
        out
    }

    fn subclass_attribute(&self, class: ClassKey, name: Name) -> Option<TySet> {
        if class.file.is_library() {
            return None;
        }
        let mut out: Option<TySet> = None;
        for sub in self.subclasses(class).iter() {
            let receiver = Ty::Instance { class: *sub, args: None, exact: true };
            if let Some(found) = self.class_attribute(*sub, name, &receiver, false) {
                match &mut out {
                    Some(known) => known.join(found),
                    None => out = Some(found),
                }
            }
        }
        out.map(TySet::with_unknown)
    }
}
