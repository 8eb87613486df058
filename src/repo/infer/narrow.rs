//! Narrowing: what conditions say about a value.
//!
//! # Place
//! Uses conditions found by `flow`; used wherever a name or a path is read.
//! # Invariants
//! - Narrowing only ever removes alternatives that the condition rules out, or names what the value
//!   must be. A condition that is not understood changes nothing.

use super::flow::{self, Constraint, Path};
use super::ty::{Ty, TySet};
use super::world::{Env, World};
use crate::repo::name::Name;
use crate::repo::scope::{BindKind, Binding, ScopeKind};
use crate::repo::syntax::*;

impl World<'_> {
    /// What is left of a set under a condition on the path it is the value of.
    pub(super) fn narrow(
        &self,
        env: &Env,
        set: TySet,
        path: &Path,
        constraint: Constraint,
    ) -> TySet {
        match constraint {
            Constraint::Test { test, holds } => self.narrow_test(env, set, path, test, holds, 0),
            Constraint::Case { stmt, case } => self.narrow_case(env, set, path, stmt, case),
        }
    }

    /// Narrow the value of an expression by a test, when the expression is a path.
    pub(super) fn narrow_value(
        &self,
        env: &Env,
        expr: ExprId,
        value: TySet,
        test: ExprId,
        holds: bool,
    ) -> TySet {
        match Path::of(&env.file.ast, expr) {
            Some(path) => self.narrow_test(env, value, &path, test, holds, 0),
            None => value,
        }
    }

    /// Narrow a dotted path by the conditions around it.
    pub(super) fn narrow_path(&self, env: &Env, expr: ExprId, value: TySet) -> TySet {
        let ast = &env.file.ast;
        let scope = env.file.scopes.scope(env.scope);
        if !matches!(scope.kind, ScopeKind::Function(_)) {
            return value;
        }
        let Some(path) = Path::of(ast, expr) else {
            return value;
        };
        let pos = ast.expr(expr).span.start;
        if pos < scope.span.start || pos > scope.span.end {
            return value;
        }
        let conditions = flow::conditions(ast, scope.body, path.0[0], pos);
        conditions.iter().rev().fold(value, |set, c| self.narrow(env, set, &path, *c))
    }

    fn narrow_test(
        &self,
        env: &Env,
        set: TySet,
        path: &Path,
        test: ExprId,
        holds: bool,
        depth: u32,
    ) -> TySet {
        if depth > 8 || !self.step() {
            return set;
        }
        let ast = &env.file.ast;
        match ast.kind(test) {
            ExprKind::Unary { op: UnaryOp::Not, operand } => {
                self.narrow_test(env, set, path, operand, !holds, depth + 1)
            }
            ExprKind::And { operands } | ExprKind::Or { operands } => {
                let is_and = matches!(ast.kind(test), ExprKind::And { .. });
                let operands = ast.list(operands);
                if is_and == holds {
                    // All of them hold (or none does).
                    return operands
                        .iter()
                        .fold(set, |s, o| self.narrow_test(env, s, path, *o, holds, depth + 1));
                }
                let mut out = TySet::empty();
                for &operand in operands {
                    out.join(self.narrow_test(env, set.clone(), path, operand, holds, depth + 1));
                }
                out
            }
            ExprKind::Walrus { target, .. } if path.is(ast, target) => truthy(set, holds),
            ExprKind::Walrus { value, .. } => {
                self.narrow_test(env, set, path, value, holds, depth + 1)
            }
            ExprKind::Compare { op, left, right } => {
                let left = match ast.kind(left) {
                    ExprKind::Walrus { target, .. } => target,
                    _ => left,
                };
                self.narrow_comparison(env, set, path, op, left, right, holds)
            }
            ExprKind::Call { func, args } => self.narrow_call(env, set, path, func, args, holds),
            _ if path.is(ast, test) => truthy(set, holds),
            _ => set,
        }
    }

    fn narrow_comparison(
        &self,
        env: &Env,
        set: TySet,
        path: &Path,
        op: CmpOp,
        left: ExprId,
        right: ExprId,
        holds: bool,
    ) -> TySet {
        let ast = &env.file.ast;
        let same = match op {
            CmpOp::Is | CmpOp::Eq => true,
            CmpOp::IsNot | CmpOp::NotEq => false,
            _ => return set,
        };
        let equal = same == holds;
        if path.is(ast, left) {
            if matches!(ast.kind(right), ExprKind::None) {
                return if equal { only_none(set) } else { without_none(set) };
            }
            return set;
        }
        // getattr(x, 'name', None) is not None
        if let ExprKind::Call { func, args } = ast.kind(left)
            && matches!(ast.kind(func), ExprKind::Name(Name::GETATTR))
            && ast.args(args).first().is_some_and(|a| path.is(ast, a.value))
        {
            return set.with_unknown();
        }
        // type(x) is C
        if let ExprKind::Call { func, args } = ast.kind(left)
            && matches!(ast.kind(func), ExprKind::Name(Name::TYPE))
            && let [only] = ast.args(args)
            && path.is(ast, only.value)
            && equal
        {
            let classes = self.expr(env, right);
            return self.restricted(set, &classes);
        }
        set
    }

    fn narrow_call(
        &self,
        env: &Env,
        set: TySet,
        path: &Path,
        func: ExprId,
        args: Run,
        holds: bool,
    ) -> TySet {
        let ast = &env.file.ast;
        let args = ast.args(args);
        let Some(first) = args.first() else {
            return set;
        };
        let first_value = match ast.kind(first.value) {
            ExprKind::Walrus { target, .. } => target,
            _ => first.value,
        };
        if !path.is(ast, first_value) {
            return set;
        }
        if let ExprKind::Name(name) = ast.kind(func) {
            match (name, args.get(1)) {
                (Name::ISINSTANCE, Some(second)) => {
                    let classes = self.class_info(env, second.value);
                    return if holds {
                        self.restricted(set, &classes)
                    } else {
                        self.excluded(set, &classes)
                    };
                }
                (Name::ISSUBCLASS, Some(second)) if holds => {
                    let classes = self.class_info(env, second.value);
                    let instances = self.instances_of_classes(&classes);
                    let narrowed = self.class_of_instances(&instances);
                    return if set.items.is_empty() { narrowed } else { narrowed.joined(set) };
                }
                (Name::HASATTR | Name::GETATTR, _) => return set.with_unknown(),
                (Name::CALLABLE, _) => return set,
                _ => {}
            }
        }
        // A function declared to be a type guard.
        let callee = self.expr(env, func);
        if let [Ty::Function { file, func, .. }] = &callee.items[..] {
            let owner = self.file(*file);
            if let Some(returns) = owner.ast.function(*func).returns.some()
                && let ExprKind::Subscript { value, index } = owner.ast.kind(returns)
                && let ExprKind::Name(n) | ExprKind::Attribute { name: n, .. } =
                    owner.ast.kind(value)
                && matches!(n, Name::TYPE_GUARD | Name::TYPE_IS)
                && holds
            {
                let inner = Env::new(owner.clone(), owner.scopes.of_function(*func));
                return self.closed_over_vars(&self.annotation(&inner, index));
            }
        }
        set
    }

    /// The classes in the second argument of `isinstance`.
    fn class_info(&self, env: &Env, expr: ExprId) -> TySet {
        let ast = &env.file.ast;
        match ast.kind(expr) {
            ExprKind::Tuple { items } => {
                let mut out = TySet::empty();
                for &item in ast.list(items) {
                    out.join(self.class_info(env, item));
                }
                out
            }
            _ => self.expr(env, expr),
        }
    }

    /// The value is an instance of one of these classes.
    fn restricted(&self, set: TySet, classes: &TySet) -> TySet {
        let wanted = self.instances_of_classes(classes);
        if wanted.items.is_empty() {
            return set.with_unknown();
        }
        let mut out = TySet { items: Default::default(), unknown: wanted.unknown };
        for w in &wanted.items {
            let mut kept = false;
            if let Ty::Instance { class: wanted_class, .. } = w {
                for s in &set.items {
                    if let Some(class) = self.class_of(s)
                        && !matches!(s, Ty::None)
                        && self.is_subclass(class, *wanted_class)
                    {
                        out.add(s.clone());
                        kept = true;
                    }
                }
            }
            // What is not known to be one may be one all the same (or a subclass of both).
            if !kept || set.unknown {
                out.add(w.clone());
            }
        }
        out
    }

    /// The value is an instance of none of these classes.
    fn excluded(&self, set: TySet, classes: &TySet) -> TySet {
        let mut unwanted = Vec::new();
        collect_classes(classes, &mut unwanted);
        let mut out = set;
        out.items.retain(|s| match s {
            Ty::None => true,
            s => match self.class_of(s) {
                Some(class) => !unwanted.iter().any(|u| self.is_subclass(class, *u)),
                None => true,
            },
        });
        if out.is_empty() {
            out.unknown = true;
        }
        out
    }

    fn narrow_case(&self, env: &Env, set: TySet, path: &Path, stmt: StmtId, case: u32) -> TySet {
        let ast = &env.file.ast;
        let StmtKind::Match { subject, .. } = ast.stmt(stmt).kind else {
            return set;
        };
        if !path.is(ast, subject) {
            return set;
        }
        match self.pattern_type(env, ast.cases[case as usize].pattern, 0) {
            Some(classes) => self.restricted(set, &classes),
            None => set,
        }
    }

    /// The classes that a pattern demands; none when it takes other things too.
    fn pattern_type(&self, env: &Env, pattern: PatId, depth: u32) -> Option<TySet> {
        if depth > 8 {
            return None;
        }
        let ast = &env.file.ast;
        match ast.pattern(pattern).kind {
            PatternKind::Class { class, .. } => Some(self.expr(env, class)),
            PatternKind::As { pattern, .. } => self.pattern_type(env, pattern, depth + 1),
            PatternKind::Or { patterns } => {
                let mut out = TySet::empty();
                for &p in &ast.pattern_lists[patterns.range()] {
                    out.join(self.pattern_type(env, p, depth + 1)?);
                }
                Some(out)
            }
            _ => None,
        }
    }

    /// What a capture in a `case` binds.
    pub(super) fn captured(&self, env: &Env, stmt: StmtId, case: u32, binding: &Binding) -> TySet {
        let ast = &env.file.ast;
        let StmtKind::Match { subject, .. } = ast.stmt(stmt).kind else {
            return TySet::unknown();
        };
        debug_assert!(matches!(binding.kind, BindKind::Captured { .. }));
        let value = self.expr(env, subject);
        let root = ast.cases[case as usize].pattern;
        self.capture(env, root, value, binding, 0).unwrap_or_else(TySet::unknown)
    }

    /// The value that reaches a capture inside a pattern.
    fn capture(
        &self,
        env: &Env,
        pattern: PatId,
        value: TySet,
        binding: &Binding,
        depth: u32,
    ) -> Option<TySet> {
        if depth > 12 {
            return None;
        }
        let ast = &env.file.ast;
        let node = ast.pattern(pattern);
        let here = node.span.start == binding.pos;
        match node.kind {
            PatternKind::Capture(Some(name)) if here && name == binding.name => Some(value),
            PatternKind::Star(Some(name)) if here && name == binding.name => {
                let item = self.iterated(&value, false);
                Some(self.generic_builtin(Name::LIST, vec![item]))
            }
            PatternKind::As { pattern: inner, name, .. } => {
                if here && name == binding.name {
                    return Some(match self.pattern_type(env, inner, 0) {
                        Some(classes) => self.restricted(value, &classes),
                        None => value,
                    });
                }
                self.capture(env, inner, value, binding, depth + 1)
            }
            PatternKind::Or { patterns } => ast.pattern_lists[patterns.range()]
                .iter()
                .find_map(|p| self.capture(env, *p, value.clone(), binding, depth + 1)),
            PatternKind::Sequence { patterns } => {
                let list = &ast.pattern_lists[patterns.range()];
                list.iter().enumerate().find_map(|(i, p)| {
                    let star = list
                        .iter()
                        .position(|p| matches!(ast.pattern(*p).kind, PatternKind::Star(_)));
                    let step = super::target::Step::Item { index: i, n: list.len(), star };
                    let is_star = Some(i) == star;
                    let item =
                        if is_star { value.clone() } else { self.unpacked(value.clone(), &[step]) };
                    self.capture(env, *p, item, binding, depth + 1)
                })
            }
            PatternKind::Mapping { patterns, rest } => {
                if rest == Some(binding.name) && here {
                    return Some(self.of_builtin(Name::DICT));
                }
                let item = TySet::unknown();
                ast.pattern_lists[patterns.range()]
                    .iter()
                    .find_map(|p| self.capture(env, *p, item.clone(), binding, depth + 1))
            }
            PatternKind::Class { class, patterns, keywords } => {
                let classes = self.expr(env, class);
                let narrowed = self.restricted(value, &classes);
                for &(name, p) in &ast.pattern_keywords[keywords.range()] {
                    let item = self.attribute(&narrowed, name);
                    if let Some(found) = self.capture(env, p, item, binding, depth + 1) {
                        return Some(found);
                    }
                }
                let list = &ast.pattern_lists[patterns.range()];
                list.iter().enumerate().find_map(|(i, p)| {
                    let item = self.match_arg(&narrowed, i);
                    self.capture(env, *p, item, binding, depth + 1)
                })
            }
            _ => None,
        }
    }

    /// The attribute that the i-th positional pattern of a class looks at.
    fn match_arg(&self, of: &TySet, i: usize) -> TySet {
        let mut out = TySet { items: Default::default(), unknown: of.unknown };
        for ty in &of.items {
            let Ty::Instance { class, .. } = ty else {
                out.unknown = true;
                continue;
            };
            if let Some(fields) = self.constructor_fields(*class) {
                match fields.get(i) {
                    Some((_, field)) => {
                        out.join(self.attribute(&TySet::one(ty.clone()), field.name))
                    }
                    None => out.unknown = true,
                }
                continue;
            }
            let name = self.mro(*class).entries.iter().find_map(|e| {
                let env = self.class_env(e.class)?;
                let binding = env.file.scopes.of(env.scope, Name::MATCH_ARGS).last().copied()?;
                let BindKind::Target { value, .. } = binding.kind else {
                    return None;
                };
                let ExprKind::Tuple { items } = env.file.ast.kind(value) else {
                    return None;
                };
                let item = *env.file.ast.list(items).get(i)?;
                super::annotation::string_value(&env.file, item).map(Name::new)
            });
            match name {
                Some(name) => out.join(self.attribute(&TySet::one(ty.clone()), name)),
                // Built-in types match themselves with one positional pattern.
                None if class.file.is_library() && i == 0 => out.add(ty.clone()),
                None => out.unknown = true,
            }
        }
        out
    }
}

fn truthy(mut set: TySet, holds: bool) -> TySet {
    if holds {
        set.items.retain(|t| *t != Ty::None);
    }
    set
}

fn only_none(set: TySet) -> TySet {
    if set.items.contains(&Ty::None) || set.unknown { TySet::none() } else { set }
}

fn without_none(mut set: TySet) -> TySet {
    set.items.retain(|t| *t != Ty::None);
    set
}

fn collect_classes(set: &TySet, out: &mut Vec<super::ty::ClassKey>) {
    for ty in &set.items {
        match ty {
            Ty::Class { class, .. } => out.push(*class),
            Ty::Tuple(items) => items.iter().for_each(|i| collect_classes(i, out)),
            Ty::Alias(inner) => {
                for i in &inner.items {
                    if let Ty::Instance { class, .. } = i {
                        out.push(*class);
                    }
                }
            }
            _ => {}
        }
    }
}
