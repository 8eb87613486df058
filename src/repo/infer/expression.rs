//! Expressions: what each kind of expression may be.
//!
//! # Place
//! Uses names, attributes, calls and operators. The entry point is [`World::expr`].

use super::ty::{Descriptor, Ty, TySet};
use super::world::{Env, FrameKind, World};
use crate::repo::name::Name;
use crate::repo::syntax::*;
use std::sync::Arc;

/// Items of a display that are looked at for the type of its elements.
const ITEMS_MAX: usize = 12;
/// Items of a tuple that are known one by one.
const TUPLE_MAX: usize = 16;

impl World<'_> {
    /// What an expression may be.
    pub(crate) fn expr(&self, env: &Env, id: ExprId) -> TySet {
        self.deeper(|| self.expr_inner(env, id))
    }

    fn expr_inner(&self, env: &Env, id: ExprId) -> TySet {
        let ast = &env.file.ast;
        let expr = ast.expr(id);
        match expr.kind {
            ExprKind::Missing => TySet::unknown(),
            ExprKind::Name(name) => {
                let found = self.name(env, name, expr.span.start);
                self.guarded(env, id, found)
            }
            ExprKind::Attribute { value, name } => {
                let of = self.expr(env, value);
                let found = self.attribute(&of, name);
                self.guarded(env, id, self.narrow_path(env, id, found))
            }
            ExprKind::Call { func, args } => self.call_expr(env, id, func, args),
            ExprKind::Subscript { value, index } => {
                let of = self.expr(env, value);
                let found = self.subscript(env, &of, index);
                self.guarded(env, id, self.narrow_path(env, id, found))
            }
            ExprKind::Slice { .. } => self.of_builtin(Name::SLICE),
            ExprKind::Int => self.of_builtin(Name::INT),
            ExprKind::Float => self.of_builtin(Name::FLOAT),
            ExprKind::Complex => self.of_builtin(Name::COMPLEX),
            ExprKind::True
            | ExprKind::False
            | ExprKind::Compare {
                op: CmpOp::Is | CmpOp::IsNot | CmpOp::In | CmpOp::NotIn, ..
            } => self.of_builtin(Name::BOOL),
            ExprKind::None => TySet::none(),
            ExprKind::Ellipsis => self
                .library_class(Name::TYPES, Name::new("EllipsisType"))
                .map_or_else(TySet::unknown, TySet::exact),
            ExprKind::Str | ExprKind::FString { .. } => self.of_builtin(Name::STR),
            ExprKind::Bytes => self.of_builtin(Name::BYTES),
            ExprKind::Tuple { items } => self.tuple_display(env, items),
            ExprKind::List { items } => {
                self.generic_builtin(Name::LIST, vec![self.items_type(env, items)])
            }
            ExprKind::Set { items } => {
                self.generic_builtin(Name::SET_TYPE, vec![self.items_type(env, items)])
            }
            ExprKind::Dict { items } => self.dict_display(env, items),
            ExprKind::Comp { kind, comp } => self.comprehension(env, kind, comp),
            ExprKind::Binary { op, left, right } => {
                let (l, r) = (self.expr(env, left), self.expr(env, right));
                self.binary(op, &l, &r)
            }
            ExprKind::Unary { op: UnaryOp::Not, .. } => self.of_builtin(Name::BOOL),
            ExprKind::Unary { op, operand } => {
                let value = self.expr(env, operand);
                self.unary(op, &value)
            }
            ExprKind::And { operands } | ExprKind::Or { operands } => {
                let is_or = matches!(expr.kind, ExprKind::Or { .. });
                let operands = ast.list(operands);
                let mut out = TySet::empty();
                let mut here = env.clone();
                for (i, &operand) in operands.iter().enumerate() {
                    let mut value = self.expr(&here, operand);
                    if is_or && i + 1 < operands.len() {
                        value.items.retain(|t| *t != Ty::None);
                    }
                    out.join(value);
                    here = here.with_guard(operand, !is_or);
                }
                out
            }
            ExprKind::Compare { op, left, right } => self.comparison(env, op, left, right),
            ExprKind::IfElse { test, body, orelse } => {
                let yes = self.expr(&env.with_guard(test, true), body);
                yes.joined(self.expr(&env.with_guard(test, false), orelse))
            }
            ExprKind::Lambda { .. } => {
                TySet::one(Ty::Lambda { file: env.file.id, scope: env.scope, expr: id })
            }
            ExprKind::Await(value) => {
                let value = self.expr(env, value);
                self.awaited(&value)
            }
            ExprKind::Yield(_) => self.sent_to_generator(env),
            ExprKind::YieldFrom(value) => {
                let value = self.expr(env, value);
                self.generator_result(&value)
            }
            ExprKind::Starred(value) => self.expr(env, value),
            ExprKind::Walrus { value, .. } => self.expr(env, value),
        }
    }

    /// A path narrowed by what was tested before it in the same expression.
    fn guarded(&self, env: &Env, id: ExprId, found: TySet) -> TySet {
        if env.guards.is_none() {
            return found;
        }
        let plain = Env { guards: None, ..env.clone() };
        let mut found = found;
        let mut at = env.guards.as_deref();
        while let Some(guard) = at {
            found = self.narrow_value(&plain, id, found, guard.test, guard.holds);
            at = guard.outer.as_deref();
        }
        found
    }

    fn tuple_display(&self, env: &Env, items: Run) -> TySet {
        let ast = &env.file.ast;
        let list = ast.list(items);
        if list.len() > TUPLE_MAX
            || list.iter().any(|i| matches!(ast.kind(*i), ExprKind::Starred(_)))
        {
            return self.generic_builtin(Name::TUPLE, vec![self.items_type(env, items)]);
        }
        let types: Vec<TySet> = list.iter().map(|i| self.expr(env, *i)).collect();
        TySet::one(Ty::Tuple(types.into()))
    }

    /// The type of the elements of a display.
    fn items_type(&self, env: &Env, items: Run) -> TySet {
        let ast = &env.file.ast;
        let list = ast.list(items);
        let mut out = TySet::empty();
        for &item in list.iter().take(ITEMS_MAX) {
            match ast.kind(item) {
                ExprKind::Starred(inner) => {
                    let of = self.expr(env, inner);
                    out.join(self.iterated(&of, false));
                }
                _ => out.join(self.expr(env, item)),
            }
        }
        if list.is_empty() || list.len() > ITEMS_MAX {
            out.unknown = true;
        }
        self.shallow(to_be_filled(out))
    }

    /// Containers of containers of …: below some depth nothing is known.
    pub(super) fn shallow(&self, set: TySet) -> TySet {
        if set.depth() > 5 { TySet::unknown() } else { set }
    }

    fn dict_display(&self, env: &Env, items: Run) -> TySet {
        let ast = &env.file.ast;
        let list = ast.list(items);
        let mut keys = TySet::empty();
        let mut values = TySet::empty();
        for pair in list.chunks_exact(2).take(ITEMS_MAX) {
            match pair[0].some() {
                Some(key) => {
                    keys.join(self.expr(env, key));
                    values.join(self.expr(env, pair[1]));
                }
                None => {
                    let other = self.expr(env, pair[1]);
                    match self.mapping_args(&other) {
                        Some((k, v)) => {
                            keys.join(k);
                            values.join(v);
                        }
                        None => {
                            keys.unknown = true;
                            values.unknown = true;
                        }
                    }
                }
            }
        }
        if list.is_empty() || list.len() > 2 * ITEMS_MAX {
            keys.unknown = true;
            values.unknown = true;
        }
        self.generic_builtin(
            Name::DICT,
            vec![self.shallow(keys), self.shallow(to_be_filled(values))],
        )
    }

    /// Key and value types of a mapping.
    fn mapping_args(&self, set: &TySet) -> Option<(TySet, TySet)> {
        let mapping = self.library_class(Name::TYPING, Name::new("Mapping"))?;
        let [ty] = &set.items[..] else { return None };
        let args = self.args_as(ty, mapping)?;
        match &args[..] {
            [k, v] => Some((k.clone(), v.clone())),
            _ => None,
        }
    }

    /// An environment in which a comprehension's targets are bound.
    pub(super) fn comp_env(&self, env: &Env, comp: u32) -> Env {
        let ast = &env.file.ast;
        let clauses = ast.clauses[ast.comps[comp as usize].clauses.range()].to_vec();
        let tests: Vec<ExprId> =
            clauses.iter().flat_map(|c| ast.list(c.conditions).iter().copied()).collect();
        let inner = env.with_frame(FrameKind::Comp(clauses));
        tests.into_iter().fold(inner, |e, test| e.with_guard(test, true))
    }

    fn comprehension(&self, env: &Env, kind: CompKind, comp: u32) -> TySet {
        let node = env.file.ast.comps[comp as usize];
        let inner = self.comp_env(env, comp);
        let element = self.shallow(self.expr(&inner, node.element));
        match kind {
            CompKind::List => self.generic_builtin(Name::LIST, vec![to_be_filled(element)]),
            CompKind::Set => self.generic_builtin(Name::SET_TYPE, vec![element]),
            CompKind::Dict => {
                let value = match node.value.some() {
                    Some(value) => self.shallow(to_be_filled(self.expr(&inner, value))),
                    None => TySet::unknown(),
                };
                self.generic_builtin(Name::DICT, vec![element, value])
            }
            CompKind::Generator => {
                let class = self.library_class(Name::TYPING, Name::GENERATOR);
                class.map_or_else(TySet::unknown, |class| {
                    TySet::generic(class, vec![element, TySet::none(), TySet::none()])
                })
            }
        }
    }

    /// `value[index]` of values.
    pub(super) fn subscript(&self, env: &Env, of: &TySet, index: ExprId) -> TySet {
        let ast = &env.file.ast;
        let mut out = TySet { items: Default::default(), unknown: of.unknown };
        for ty in &of.items {
            match ty {
                Ty::Class { .. } | Ty::Form(_) | Ty::Alias(_) => {
                    if let Ty::Class { class, .. } = ty
                        && self.is_enum(*class)
                    {
                        out.add(Ty::Instance { class: *class, args: None, exact: true });
                        continue;
                    }
                    // A subscripted class is still that class.
                    let instances = self.subscripted_type(env, ty, index);
                    for found in &instances.items {
                        match (ty, found) {
                            (Ty::Class { .. }, Ty::Instance { class, args, .. }) => {
                                out.add(Ty::Class { class: *class, args: args.clone() });
                            }
                            (Ty::Class { .. }, Ty::Tuple(_)) => {
                                out.add(Ty::Alias(Arc::new(TySet::one(found.clone()))));
                            }
                            _ => {}
                        }
                    }
                    if !matches!(ty, Ty::Class { .. }) {
                        out.add(Ty::Alias(Arc::new(instances)));
                    } else if instances.unknown {
                        out.unknown = true;
                    }
                }
                _ => {
                    if let Some(items) = self.tuple_items(ty) {
                        out.join(self.tuple_item(ast, &env.file.text, &items, index));
                        continue;
                    }
                    let is_slice = matches!(ast.kind(index), ExprKind::Slice { .. });
                    let key =
                        if is_slice { self.of_builtin(Name::SLICE) } else { self.expr(env, index) };
                    out.join(self.get_item(ty, &key));
                }
            }
        }
        out
    }

    fn tuple_item(&self, ast: &Ast, text: &str, items: &[TySet], index: ExprId) -> TySet {
        let all = || {
            let mut out = TySet::empty();
            items.iter().for_each(|i| out.join(i.clone()));
            if items.is_empty() {
                out.unknown = true;
            }
            out
        };
        match ast.kind(index) {
            ExprKind::Int => {
                let digits = text.get(ast.expr(index).span.range()).unwrap_or("");
                match digits.parse::<usize>().ok().and_then(|i| items.get(i)) {
                    Some(item) => item.clone(),
                    None => all(),
                }
            }
            ExprKind::Unary { op: UnaryOp::Minus, operand } => {
                let digits = text.get(ast.expr(operand).span.range()).unwrap_or("");
                let at = digits.parse::<usize>().ok().and_then(|i| items.len().checked_sub(i));
                at.and_then(|i| items.get(i)).cloned().unwrap_or_else(all)
            }
            ExprKind::Slice { .. } => self.generic_builtin(Name::TUPLE, vec![all()]),
            _ => all(),
        }
    }

    /// The items of a tuple that are known one by one (named tuples too).
    pub(super) fn tuple_items(&self, ty: &Ty) -> Option<Arc<[TySet]>> {
        match ty {
            Ty::Tuple(items) => Some(items.clone()),
            Ty::Instance { class, .. } => self.named_tuple_items(*class),
            _ => None,
        }
    }

    /// The result of a function that was decorated as a property, read.
    pub(super) fn property_value(&self, getter: &TySet, receiver: &Ty) -> TySet {
        let mut out = TySet { items: Default::default(), unknown: getter.unknown };
        for ty in &getter.items {
            match ty {
                Ty::Function { file, func, .. } => {
                    let bound = Ty::Function {
                        file: *file,
                        func: *func,
                        receiver: Some(Arc::new(receiver.clone())),
                    };
                    out.join(self.call_type(&bound, &super::call::CallArgs::none()));
                }
                Ty::Descriptor(Descriptor::Property, inner) => {
                    out.join(self.property_value(inner, receiver))
                }
                other => out.join(self.call_type(other, &super::call::CallArgs::none())),
            }
        }
        out
    }
}

/// A list or dictionary of `None` waits for other values.
fn to_be_filled(items: TySet) -> TySet {
    if items.items.iter().all(|t| *t == Ty::None) { items.with_unknown() } else { items }
}
