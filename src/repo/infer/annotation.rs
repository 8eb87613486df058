//! Annotations: from a type expression to the instances it admits.
//!
//! # Place
//! Uses expressions for the names in it. Used for parameters, results, attributes and bases.
//! # Sources
//! The typing specification, typing.python.org/en/latest/spec.

use super::ty::{Args, Bindings, Descriptor, Ty, TySet, Var};
use super::world::{Env, World};
use crate::repo::file::File;
use crate::repo::name::Name;
use crate::repo::scope::ScopeKind;
use crate::repo::syntax::*;
use std::sync::Arc;

impl World<'_> {
    /// The values that an annotation admits.
    pub(crate) fn annotation(&self, env: &Env, expr: ExprId) -> TySet {
        self.deeper(|| self.annotation_inner(env, expr))
    }

    fn annotation_inner(&self, env: &Env, expr: ExprId) -> TySet {
        let ast = &env.file.ast;
        match ast.kind(expr) {
            ExprKind::Name(_) | ExprKind::Attribute { .. } => {
                let value = self.expr(env, expr);
                self.as_instances(env, &value)
            }
            ExprKind::None => TySet::none(),
            ExprKind::Str => match self.forward_reference(env, expr) {
                Some((inner, root)) => self.annotation(&inner, root),
                None => TySet::unknown(),
            },
            ExprKind::Binary { op: BinOp::Or, left, right } => {
                self.annotation(env, left).joined(self.annotation(env, right))
            }
            ExprKind::Subscript { value, index } => self.subscripted(env, value, index),
            ExprKind::Starred(_) => TySet::unknown(),
            ExprKind::Call { .. } | ExprKind::IfElse { .. } => {
                let value = self.expr(env, expr);
                self.as_instances(env, &value)
            }
            _ => TySet::unknown(),
        }
    }

    /// A quoted annotation, parsed in place.
    fn forward_reference(&self, env: &Env, expr: ExprId) -> Option<(Env, ExprId)> {
        let (start, end) = string_content(&env.file, expr)?;
        let text = env.file.text.get(start..end)?;
        if text.contains('\\') || text.len() > 2000 {
            return None;
        }
        let lead = text.len() - text.trim_start().len();
        self.parsed_in_place(env, start + lead..end)
    }

    /// What a type expression's value admits.
    pub(super) fn as_instances(&self, env: &Env, value: &TySet) -> TySet {
        let mut out = TySet { items: Default::default(), unknown: value.unknown };
        for ty in &value.items {
            match ty {
                Ty::Class { class, args } => out.add(self.instance_of(*class, args.clone(), false)),
                Ty::Alias(set) => out.join((**set).clone()),
                Ty::None | Ty::Var(_) => out.add(ty.clone()),
                Ty::Form(form) => out.join(self.bare_form(env, *form)),
                _ => out.unknown = true,
            }
        }
        out
    }

    /// An instance of a class, tuples with known items apart.
    pub(super) fn instance_of(&self, class: super::ty::ClassKey, args: Args, exact: bool) -> Ty {
        Ty::Instance { class, args, exact }
    }

    fn bare_form(&self, env: &Env, form: Name) -> TySet {
        match form {
            Name::CALLABLE_TYPE => TySet::one(Ty::Callable(Arc::new(TySet::unknown()))),
            Name::TUPLE_UPPER => TySet::instance_or_unknown(self.builtin(Name::TUPLE)),
            Name::TYPE_UPPER => TySet::instance_or_unknown(self.builtin(Name::TYPE)),
            Name::SELF_TYPE => self.self_type(env),
            Name::LITERAL_STRING | Name::TEXT => self.of_builtin(Name::STR),
            Name::NO_RETURN | Name::NEVER => TySet::empty(),
            _ => TySet::unknown(),
        }
    }

    /// `Self` in the class around an annotation.
    fn self_type(&self, env: &Env) -> TySet {
        if let Some(class) = env.receiver {
            return self.receiver_type(class, false);
        }
        let mut file = env.file.clone();
        let mut scope = env.scope;
        loop {
            if let ScopeKind::Class(class) = file.scopes.scope(scope).kind {
                return self.receiver_type(super::ty::ClassKey::new(file.id, class), false);
            }
            match (file.scopes.scope(scope).parent, file.parent) {
                (Some(parent), _) => scope = parent,
                (None, Some((outer, outer_scope))) => {
                    file = self.file(outer);
                    scope = outer_scope;
                }
                (None, None) => return TySet::unknown(),
            }
        }
    }

    /// `value[index]` as a type.
    fn subscripted(&self, env: &Env, value: ExprId, index: ExprId) -> TySet {
        let base = self.expr(env, value);
        let mut out = TySet { items: Default::default(), unknown: base.unknown };
        for ty in &base.items {
            out.join(self.subscripted_type(env, ty, index));
        }
        out
    }

    /// The instances of `ty[index]`.
    pub(super) fn subscripted_type(&self, env: &Env, ty: &Ty, index: ExprId) -> TySet {
        let ast = &env.file.ast;
        let items: Vec<ExprId> = match ast.kind(index) {
            ExprKind::Tuple { items } => ast.list(items).to_vec(),
            _ => vec![index],
        };
        match ty {
            Ty::Form(form) => self.subscripted_form(env, *form, &items),
            Ty::Class { class, .. } => {
                if Some(*class) == self.builtin(Name::TUPLE) {
                    return self.tuple_annotation(env, &items);
                }
                if Some(*class) == self.builtin(Name::TYPE) {
                    let of =
                        items.first().map_or_else(TySet::unknown, |i| self.annotation(env, *i));
                    return self.class_of_instances(&of);
                }
                let args: Vec<TySet> = items.iter().map(|i| self.type_argument(env, *i)).collect();
                TySet::one(self.instance_of(*class, Some(args.into()), false))
            }
            Ty::Alias(set) => {
                let mut vars = Vec::new();
                collect_vars(set, &mut vars);
                let mut by = Bindings::default();
                for (var, item) in vars.into_iter().zip(&items) {
                    by.set(var, self.annotation(env, *item));
                }
                set.replaced(&by)
            }
            _ => TySet::unknown(),
        }
    }

    fn type_argument(&self, env: &Env, item: ExprId) -> TySet {
        match env.file.ast.kind(item) {
            // `[int, str]` and `...` stand for the parameters of a callable.
            ExprKind::List { .. } | ExprKind::Ellipsis => TySet::unknown(),
            _ => self.annotation(env, item),
        }
    }

    fn tuple_annotation(&self, env: &Env, items: &[ExprId]) -> TySet {
        let ast = &env.file.ast;
        if let [first, rest] = items
            && matches!(ast.kind(*rest), ExprKind::Ellipsis)
        {
            let item = self.annotation(env, *first);
            return self.generic_builtin(Name::TUPLE, vec![item]);
        }
        if items.iter().any(|i| matches!(ast.kind(*i), ExprKind::Starred(_))) {
            return self.generic_builtin(Name::TUPLE, vec![TySet::unknown()]);
        }
        if let [only] = items
            && matches!(ast.kind(*only), ExprKind::Tuple { .. })
        {
            return TySet::one(Ty::Tuple(Arc::from(Vec::new())));
        }
        let types: Vec<TySet> = items.iter().map(|i| self.annotation(env, *i)).collect();
        TySet::one(Ty::Tuple(types.into()))
    }

    fn subscripted_form(&self, env: &Env, form: Name, items: &[ExprId]) -> TySet {
        let ast = &env.file.ast;
        let first = || items.first().map_or_else(TySet::unknown, |i| self.annotation(env, *i));
        match form {
            Name::OPTIONAL => first().joined(TySet::none()),
            Name::UNION => {
                let mut out = TySet::empty();
                for &item in items {
                    out.join(self.annotation(env, item));
                }
                out
            }
            Name::ANNOTATED
            | Name::CLASS_VAR
            | Name::FINAL
            | Name::REQUIRED
            | Name::NOT_REQUIRED
            | Name::READ_ONLY
            | Name::INIT_VAR => first(),
            Name::TYPE_UPPER => self.class_of_instances(&first()),
            Name::TUPLE_UPPER => self.tuple_annotation(env, items),
            Name::CALLABLE_TYPE => {
                let result = items.get(1).map_or_else(TySet::unknown, |i| self.annotation(env, *i));
                TySet::one(Ty::Callable(Arc::new(result)))
            }
            Name::LITERAL => {
                let mut out = TySet::empty();
                for &item in items {
                    out.join(match ast.kind(item) {
                        ExprKind::Attribute { .. }
                        | ExprKind::Name(_)
                        | ExprKind::Subscript { .. } => {
                            let value = self.expr(env, item);
                            self.literal_members(&value)
                        }
                        _ => self.expr(env, item),
                    });
                }
                out
            }
            Name::TYPE_GUARD | Name::TYPE_IS => self.of_builtin(Name::BOOL),
            _ => TySet::unknown(),
        }
    }

    /// Values of a literal type given by name: an enum's member, or another literal's alias.
    fn literal_members(&self, value: &TySet) -> TySet {
        let mut out = TySet { items: Default::default(), unknown: value.unknown };
        for ty in &value.items {
            match ty {
                Ty::Alias(set) => out.join((**set).clone()),
                other => out.add(other.clone()),
            }
        }
        out
    }

    /// `type[X]`: the classes of these instances.
    pub(super) fn class_of_instances(&self, of: &TySet) -> TySet {
        let mut out = TySet { items: Default::default(), unknown: of.unknown };
        for ty in &of.items {
            match ty {
                Ty::Instance { class, args, .. } => {
                    out.add(Ty::Class { class: *class, args: args.clone() })
                }
                Ty::Var(_) => out.add(Ty::Alias(Arc::new(TySet::one(ty.clone())))),
                other => match self.class_of(other) {
                    Some(class) => out.add(Ty::Class { class, args: None }),
                    None => out.unknown = true,
                },
            }
        }
        out
    }

    /// A form of the typing language defined by the `typing` module itself.
    pub(super) fn typing_form(&self, module: Name, name: Name) -> Option<TySet> {
        let is_typing = matches!(module, Name::TYPING | Name::TYPING_EXTENSIONS);
        if self.library().typeshed().is_none() && (is_typing || is_abstract_module(module)) {
            // The sources of these modules do not say what their classes are generic in.
            if let Some(class) = super::world::class_in(&self.file(self.library().support()), name)
            {
                return Some(TySet::one(Ty::Class { class, args: None }));
            }
        }
        if !is_typing {
            return None;
        }
        let builtin = match name {
            Name::LIST_UPPER => Name::LIST,
            Name::DICT_UPPER => Name::DICT,
            Name::SET_UPPER => Name::SET_TYPE,
            Name::FROZENSET_UPPER => Name::FROZENSET,
            Name::TEXT => Name::STR,
            Name::OPTIONAL
            | Name::UNION
            | Name::ANY
            | Name::CALLABLE_TYPE
            | Name::TYPE_UPPER
            | Name::TUPLE_UPPER
            | Name::CLASS_VAR
            | Name::FINAL
            | Name::ANNOTATED
            | Name::LITERAL
            | Name::SELF_TYPE
            | Name::GENERIC
            | Name::PROTOCOL
            | Name::REQUIRED
            | Name::NOT_REQUIRED
            | Name::READ_ONLY
            | Name::TYPE_GUARD
            | Name::TYPE_IS
            | Name::CONCATENATE
            | Name::UNPACK
            | Name::NO_RETURN
            | Name::NEVER
            | Name::LITERAL_STRING
            | Name::TYPE_ALIAS
            | Name::TYPED_DICT
            | Name::NAMED_TUPLE
            | Name::NEW_TYPE => return Some(TySet::one(Ty::Form(name))),
            Name::TYPE_CHECKING => return Some(self.of_builtin(Name::BOOL)),
            _ => return None,
        };
        let class = self.builtin(builtin)?;
        Some(TySet::one(Ty::Class { class, args: None }))
    }

    /// Instances that an `except` clause or `isinstance` names by class.
    pub(super) fn instances_of_classes(&self, classes: &TySet) -> TySet {
        let mut out = TySet { items: Default::default(), unknown: classes.unknown };
        for ty in &classes.items {
            match ty {
                Ty::Class { class, args } => {
                    out.add(Ty::Instance { class: *class, args: args.clone(), exact: false })
                }
                Ty::Tuple(items) => {
                    for item in items.iter() {
                        out.join(self.instances_of_classes(item));
                    }
                }
                Ty::Alias(set) => out.join((**set).clone()),
                Ty::Instance { class, args: Some(args), .. }
                    if Some(*class) == self.builtin(Name::TUPLE) && args.len() == 1 =>
                {
                    out.join(self.instances_of_classes(&args[0]));
                }
                Ty::Form(Name::CALLABLE_TYPE) => out.add(Ty::Callable(Arc::new(TySet::unknown()))),
                Ty::Descriptor(Descriptor::Property, _) => out.unknown = true,
                _ => out.unknown = true,
            }
        }
        out
    }
}

impl TySet {
    fn instance_or_unknown(class: Option<super::ty::ClassKey>) -> Self {
        class.map_or_else(Self::unknown, Self::instance)
    }
}

fn is_abstract_module(module: Name) -> bool {
    matches!(module, Name::COLLECTIONS_ABC | Name::COLLECTIONS_PRIVATE | Name::CONTEXTLIB)
}

/// Type variables in a set, in order of appearance.
pub(super) fn collect_vars(set: &TySet, out: &mut Vec<Var>) {
    for ty in &set.items {
        match ty {
            Ty::Var(var) if !out.contains(var) => out.push(*var),
            Ty::Instance { args: Some(args), .. } | Ty::Class { args: Some(args), .. } => {
                args.iter().for_each(|a| collect_vars(a, out));
            }
            Ty::Tuple(items) => items.iter().for_each(|i| collect_vars(i, out)),
            Ty::Callable(inner) | Ty::Alias(inner) | Ty::Partial(inner) => collect_vars(inner, out),
            _ => {}
        }
    }
}

/// Offsets of the text of a plain string literal.
pub(crate) fn string_content(file: &File, expr: ExprId) -> Option<(usize, usize)> {
    let span = file.ast.expr(expr).span;
    let text = file.slice(span);
    let quote_at = text.find(['"', '\''])?;
    let rest = &text[quote_at..];
    let quote = rest.get(..1)?;
    let triple = quote.repeat(3);
    let n = if rest.len() >= 6 && rest.starts_with(&triple) { 3 } else { 1 };
    let inner = rest.get(n..rest.len().checked_sub(n)?)?;
    // Adjacent literals are not one text.
    if n == 1 && inner.contains(quote) {
        return None;
    }
    let start = span.start as usize + quote_at + n;
    Some((start, start + inner.len()))
}

/// The value of a plain string literal without escapes.
pub(crate) fn string_value(file: &File, expr: ExprId) -> Option<&str> {
    if !matches!(file.ast.kind(expr), ExprKind::Str) {
        return None;
    }
    let (start, end) = string_content(file, expr)?;
    let text = file.text.get(start..end)?;
    (!text.contains('\\')).then_some(text)
}
