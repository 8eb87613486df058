//! Operators and protocols: arithmetic, comparison, iteration, context managers, awaiting.
//!
//! # Place
//! Reads the special methods of types; used by expressions and bindings.
//! # Sources
//! The Python data model, docs.python.org/3/reference/datamodel.html.

use super::call::CallArgs;
use super::ty::{ClassKey, Ty, TySet};
use super::world::{Env, World};
use crate::repo::name::Name;
use crate::repo::scope::ScopeKind;
use crate::repo::syntax::*;
use std::sync::Arc;

fn method(op: BinOp) -> (&'static str, &'static str) {
    match op {
        BinOp::Add => ("__add__", "__radd__"),
        BinOp::Sub => ("__sub__", "__rsub__"),
        BinOp::Mul => ("__mul__", "__rmul__"),
        BinOp::MatMul => ("__matmul__", "__rmatmul__"),
        BinOp::Div => ("__truediv__", "__rtruediv__"),
        BinOp::FloorDiv => ("__floordiv__", "__rfloordiv__"),
        BinOp::Mod => ("__mod__", "__rmod__"),
        BinOp::Pow => ("__pow__", "__rpow__"),
        BinOp::LShift => ("__lshift__", "__rlshift__"),
        BinOp::RShift => ("__rshift__", "__rrshift__"),
        BinOp::And => ("__and__", "__rand__"),
        BinOp::Or => ("__or__", "__ror__"),
        BinOp::Xor => ("__xor__", "__rxor__"),
    }
}

impl World<'_> {
    pub(super) fn binary(&self, op: BinOp, left: &TySet, right: &TySet) -> TySet {
        let has_class =
            |s: &TySet| s.items.iter().any(|t| matches!(t, Ty::Class { .. } | Ty::Alias(_)));
        if op == BinOp::Or
            && is_type_union(left)
            && is_type_union(right)
            && (has_class(left) || has_class(right))
        {
            return self.type_union(left, right);
        }
        let (name, reflected) = method(op);
        let (name, reflected) = (Name::new(name), Name::new(reflected));
        let mut out = TySet { items: Default::default(), unknown: left.unknown || right.unknown };
        if right.items.is_empty() {
            // Nothing is known of the right side: the left side's method may still tell.
            out.unknown = true;
        }
        for l in &left.items {
            if let (Ty::Tuple(a), BinOp::Add) = (l, op)
                && let [Ty::Tuple(b)] = &right.items[..]
                && a.len() + b.len() <= 16
            {
                out.add(Ty::Tuple(a.iter().chain(b.iter()).cloned().collect()));
                continue;
            }
            let by_right = || {
                let mut found = TySet::empty();
                for r in &right.items {
                    let left = [TySet::one(l.clone())];
                    if let Some(value) = self.call_method(r, reflected, &left) {
                        found.join(value);
                    }
                }
                (!found.is_empty()).then_some(found)
            };
            let found = if self.reflected_wins(l, right, reflected) {
                by_right()
            } else {
                self.call_method(l, name, std::slice::from_ref(right))
                    .filter(|f| !f.is_empty())
                    .or_else(by_right)
            };
            match found {
                Some(value) => out.join(value),
                None => out.unknown = true,
            }
        }
        if left.items.is_empty() {
            for r in &right.items {
                if let Some(value) = self.call_method(r, reflected, std::slice::from_ref(left)) {
                    out.join(value);
                }
            }
            out.unknown = true;
        }
        out
    }

    /// A library type meets classes of the project that define the reflected method.
    fn reflected_wins(&self, left: &Ty, right: &TySet, reflected: Name) -> bool {
        let Some(l) = self.class_of(left) else {
            return true;
        };
        !right.items.is_empty()
            && right.items.iter().all(|r| {
                self.class_of(r).is_some_and(|r| {
                    r != l && !r.file.is_library() && self.class_defines(r, reflected)
                })
            })
    }

    pub(super) fn augmented(&self, op: BinOp, left: &TySet, right: &TySet) -> TySet {
        let (name, _) = method(op);
        let in_place = Name::new(&format!("__i{}", &name[2..]));
        let mut out = TySet { items: Default::default(), unknown: left.unknown };
        for l in &left.items {
            match self.call_method(l, in_place, std::slice::from_ref(right)) {
                Some(value) if !value.is_empty() => out.join(value),
                _ => out.join(self.binary(op, &TySet::one(l.clone()), right)),
            }
        }
        out
    }

    /// `A | B` of classes is a type expression.
    fn type_union(&self, left: &TySet, right: &TySet) -> TySet {
        let mut instances = TySet::empty();
        for side in [left, right] {
            for ty in &side.items {
                match ty {
                    Ty::Class { class, args } => {
                        instances.add(Ty::Instance {
                            class: *class,
                            args: args.clone(),
                            exact: false,
                        });
                    }
                    Ty::Alias(set) => instances.join((**set).clone()),
                    Ty::None => instances.add(Ty::None),
                    Ty::Var(_) => instances.add(ty.clone()),
                    _ => instances.unknown = true,
                }
            }
            instances.unknown |= side.unknown;
        }
        TySet::one(Ty::Alias(Arc::new(instances)))
    }

    pub(super) fn unary(&self, op: UnaryOp, value: &TySet) -> TySet {
        let name = match op {
            UnaryOp::Plus => "__pos__",
            UnaryOp::Minus => "__neg__",
            UnaryOp::Invert => "__invert__",
            UnaryOp::Not => return self.of_builtin(Name::BOOL),
        };
        let name = Name::new(name);
        let mut out = TySet { items: Default::default(), unknown: value.unknown };
        for ty in &value.items {
            match self.call_method(ty, name, &[]) {
                Some(found) => out.join(found),
                None => out.unknown = true,
            }
        }
        out
    }

    pub(super) fn comparison(&self, env: &Env, op: CmpOp, left: ExprId, right: ExprId) -> TySet {
        let name = match op {
            CmpOp::Eq => "__eq__",
            CmpOp::NotEq => "__ne__",
            CmpOp::Lt => "__lt__",
            CmpOp::LtE => "__le__",
            CmpOp::Gt => "__gt__",
            CmpOp::GtE => "__ge__",
            _ => return self.of_builtin(Name::BOOL),
        };
        let name = Name::new(name);
        let l = self.expr(env, left);
        let mut out = TySet::empty();
        for ty in &l.items {
            // Only classes of packages and projects return something else than a bool (arrays, queries).
            if let Ty::Instance { class, .. } = ty
                && let Some(owner) = self.method_owner(*class, name)
                && !self.is_object(owner)
            {
                let r = self.expr(env, right);
                match self.call_method(ty, name, &[r]) {
                    Some(found) => out.join(found),
                    None => out.unknown = true,
                }
                continue;
            }
            out.join(self.of_builtin(Name::BOOL));
        }
        if l.unknown {
            out.join(self.of_builtin(Name::BOOL));
            out.unknown = true;
        }
        out
    }

    /// Call a special method, looked up on the type. None when there is none.
    pub(super) fn call_method(&self, of: &Ty, name: Name, args: &[TySet]) -> Option<TySet> {
        let methods = self.special_method(of, name)?;
        Some(self.call(&methods, &CallArgs::positional(args)))
    }

    /// A special method bound to its object; None when the type has none.
    pub(super) fn special_method(&self, of: &Ty, name: Name) -> Option<TySet> {
        match of {
            Ty::Class { class, .. } => {
                let metaclass = self.metaclass_of(*class)?;
                let found = self.class_attribute(metaclass, name, of, false)?;
                Some(found)
            }
            Ty::Var(var) => {
                let bound = self.var_bound(*var);
                let mut out = TySet { items: Default::default(), unknown: bound.unknown };
                for ty in &bound.items {
                    match self.special_method(ty, name) {
                        Some(found) => out.join(found),
                        None => out.unknown = true,
                    }
                }
                Some(out)
            }
            Ty::Super { .. } | Ty::Form(_) | Ty::Alias(_) => None,
            Ty::Tuple(items) => {
                let class = self.builtin(Name::TUPLE)?;
                let mut all = TySet::empty();
                items.iter().for_each(|i| all.join(i.clone()));
                if items.is_empty() {
                    all.unknown = true;
                }
                let as_tuple =
                    Ty::Instance { class, args: Some(Arc::from(vec![all])), exact: true };
                self.class_attribute(class, name, &as_tuple, false)
            }
            _ => {
                let class = self.class_of(of)?;
                let found = self.class_attribute(class, name, of, false);
                if found.is_none() && self.mro(class).open.is_some() {
                    return Some(TySet::unknown());
                }
                found
            }
        }
    }

    /// `of[key]`.
    pub(super) fn get_item(&self, of: &Ty, key: &TySet) -> TySet {
        self.call_method(of, Name::GETITEM, std::slice::from_ref(key))
            .unwrap_or_else(TySet::unknown)
    }

    /// What iterating gives.
    pub(super) fn iterated(&self, of: &TySet, is_async: bool) -> TySet {
        let mut out = TySet { items: Default::default(), unknown: of.unknown };
        for ty in &of.items {
            if is_async {
                let found = self
                    .call_method(ty, Name::AITER, &[])
                    .and_then(|it| self.next_of(&it, Name::ANEXT));
                match found {
                    Some(found) => out.join(self.awaited(&found)),
                    None => out.unknown = true,
                }
                continue;
            }
            if let Some(items) = self.tuple_items(ty) {
                if items.is_empty() {
                    out.unknown = true;
                }
                items.iter().for_each(|i| out.join(i.clone()));
                continue;
            }
            if let Ty::Class { class, .. } = ty
                && self.is_enum(*class)
            {
                out.add(Ty::Instance { class: *class, args: None, exact: true });
                continue;
            }
            // Quick path: what derives from Iterable says what its items are.
            if let Some(item) = self.iterable_arg(ty) {
                out.join(item);
                continue;
            }
            let found = self.call_method(ty, Name::ITER, &[]);
            let found = match found {
                Some(iterator) => match iterator.items.iter().find_map(|t| self.iterable_arg(t)) {
                    Some(item) if iterator.items.len() == 1 && !iterator.unknown => Some(item),
                    _ => self.next_of(&iterator, Name::NEXT),
                },
                None => {
                    // The old protocol: integers passed to `__getitem__`.
                    self.call_method(ty, Name::GETITEM, &[self.of_builtin(Name::INT)])
                }
            };
            match found {
                Some(found) => out.join(found),
                None => out.unknown = true,
            }
        }
        out
    }

    fn iterable_arg(&self, ty: &Ty) -> Option<TySet> {
        let Ty::Instance { class, .. } = ty else {
            return None;
        };
        // A class that says itself how it is iterated comes first.
        if !class.file.is_library() && self.class_defines(*class, Name::ITER) {
            return None;
        }
        let iterable = self.library_class(Name::TYPING, Name::ITERABLE)?;
        let args = self.args_as(ty, iterable)?;
        args.first().cloned()
    }

    fn next_of(&self, iterator: &TySet, name: Name) -> Option<TySet> {
        let mut out = TySet { items: Default::default(), unknown: iterator.unknown };
        for ty in &iterator.items {
            match self.call_method(ty, name, &[]) {
                Some(found) => out.join(found),
                None => out.unknown = true,
            }
        }
        Some(out)
    }

    /// What `with value as target` gives the target.
    pub(super) fn entered(&self, of: &TySet, is_async: bool) -> TySet {
        let name = if is_async { Name::AENTER } else { Name::ENTER };
        let mut out = TySet { items: Default::default(), unknown: of.unknown };
        for ty in &of.items {
            match self.call_method(ty, name, &[]) {
                Some(found) if is_async => out.join(self.awaited(&found)),
                Some(found) => out.join(found),
                None => out.unknown = true,
            }
        }
        out
    }

    pub(super) fn awaited(&self, of: &TySet) -> TySet {
        let coroutine = self.library_class(Name::TYPING, Name::COROUTINE);
        let awaitable = self.library_class(Name::TYPING, Name::AWAITABLE);
        let mut out = TySet { items: Default::default(), unknown: of.unknown };
        for ty in &of.items {
            if let Some(args) = coroutine.and_then(|c| self.args_as(ty, c))
                && args.len() == 3
            {
                out.join(args[2].clone());
                continue;
            }
            if let Some(args) = awaitable.and_then(|c| self.args_as(ty, c))
                && args.len() == 1
            {
                out.join(args[0].clone());
                continue;
            }
            match self.call_method(ty, Name::AWAIT, &[]) {
                Some(generator) => out.join(self.generator_result(&generator)),
                None => out.unknown = true,
            }
        }
        out
    }

    /// What `yield from` gives: the result of the generator.
    pub(super) fn generator_result(&self, of: &TySet) -> TySet {
        let generator = self.library_class(Name::TYPING, Name::GENERATOR);
        let mut out = TySet { items: Default::default(), unknown: of.unknown };
        for ty in &of.items {
            match generator.and_then(|g| self.args_as(ty, g)) {
                Some(args) if args.len() == 3 => out.join(args[2].clone()),
                _ => out.unknown = true,
            }
        }
        out
    }

    /// What `yield` gives inside the function around an expression.
    pub(super) fn sent_to_generator(&self, env: &Env) -> TySet {
        let ScopeKind::Function(func) = env.file.scopes.scope(env.scope).kind else {
            return TySet::unknown();
        };
        let Some(returns) = env.file.ast.function(func).returns.some() else {
            return TySet::unknown();
        };
        let declared = self.annotation(env, returns);
        let generator = self.library_class(Name::TYPING, Name::GENERATOR);
        let mut out = TySet { items: Default::default(), unknown: declared.unknown };
        for ty in &declared.items {
            match generator.and_then(|g| self.args_as(ty, g)) {
                Some(args) if args.len() == 3 => out.join(args[1].clone()),
                _ => out.unknown = true,
            }
        }
        out
    }

    /// The class in the resolution order that defines a name.
    pub(super) fn method_owner(&self, class: ClassKey, name: Name) -> Option<ClassKey> {
        self.mro(class).entries.iter().map(|e| e.class).find(|c| self.own(*c).has_class_level(name))
    }
}

/// Could every alternative stand in `A | B` as a type?
fn is_type_union(set: &TySet) -> bool {
    let is_type =
        |t: &Ty| matches!(t, Ty::Class { .. } | Ty::Alias(_) | Ty::None | Ty::Form(_) | Ty::Var(_));
    !set.items.is_empty() && set.items.iter().all(is_type)
}
