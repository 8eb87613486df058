//! Functions: what decorators make of them and what they return.
//!
//! # Place
//! Uses expressions for bodies and annotations for signatures; used by calls and attributes.

use super::call::CallArgs;
use super::ty::{ClassKey, Descriptor, Ty, TySet};
use super::world::{Env, Key, World};
use crate::repo::file::{File, FileId};
use crate::repo::name::Name;
use crate::repo::scope::{AttrStore, BindKind, ScopeId, ScopeKind};
use crate::repo::syntax::*;
use smallvec::SmallVec;
use std::sync::Arc;

/// Return statements of one function that are read.
const RETURNS_MAX: usize = 24;

impl World<'_> {
    pub(super) fn is_static_method(&self, file: &File, func: FuncId) -> bool {
        let node = file.ast.function(func);
        self.has_decorator(file, node, Name::STATICMETHOD)
    }

    pub(super) fn is_class_method(&self, file: &File, func: FuncId) -> bool {
        let node = file.ast.function(func);
        matches!(node.name, Name::NEW | Name::INIT_SUBCLASS | Name::CLASS_GETITEM)
            || self.has_decorator(file, node, Name::CLASSMETHOD)
            || file.ast.list(node.decorators).iter().any(|d| {
                self.decorator_name(file, *d)
                    .is_some_and(|(_, n)| n.as_str().ends_with("classmethod"))
            })
    }

    pub(super) fn has_decorator(&self, file: &File, node: &Function, name: Name) -> bool {
        file.ast
            .list(node.decorators)
            .iter()
            .any(|d| self.decorator_name(file, *d).is_some_and(|(_, n)| n == name))
    }

    /// A `def`'s value: the function as its decorators leave it.
    pub(super) fn function_value(&self, file: &Arc<File>, func: FuncId) -> TySet {
        let node = file.ast.function(func);
        let plain = TySet::one(Ty::Function { file: file.id, func, receiver: None });
        let scope = file.scopes.of_function(func);
        let parent = file.scopes.scope(scope).parent.unwrap_or(ScopeId::MODULE);
        let in_class = matches!(file.scopes.scope(parent).kind, ScopeKind::Class(_));
        if node.decorators.is_empty() {
            if in_class && matches!(node.name, Name::INIT_SUBCLASS | Name::CLASS_GETITEM) {
                return TySet::one(Ty::Descriptor(Descriptor::ClassMethod, Arc::new(plain)));
            }
            return plain;
        }
        self.memo(Key::Decorated(file.id, func), || {
            let env = Env::new(file.clone(), parent);
            let mut value = plain.clone();
            for &decorator in file.ast.list(node.decorators).iter().rev() {
                value = self.decorated(&env, decorator, value);
            }
            value
        })
    }

    fn decorated(&self, env: &Env, decorator: ExprId, value: TySet) -> TySet {
        let of = |kind| TySet::one(Ty::Descriptor(kind, Arc::new(value.clone())));
        let file = &env.file;
        if let Some((base, name)) = self.decorator_name(file, decorator) {
            match name {
                Name::PROPERTY
                | Name::ABSTRACTPROPERTY
                | Name::CACHED_PROPERTY
                | Name::CLASS_PROPERTY
                    if self.is_library_decorator(env, decorator) =>
                {
                    return of(Descriptor::Property);
                }
                Name::CLASSMETHOD => return of(Descriptor::ClassMethod),
                Name::STATICMETHOD => return of(Descriptor::StaticMethod),
                Name::SETTER | Name::GETTER | Name::DELETER if base.is_some() => {
                    return self.property_again(env, base.unwrap_or(Name::EMPTY), name, value);
                }
                Name::OVERLOAD
                | Name::ABSTRACTMETHOD
                | Name::FINAL_DECORATOR
                | Name::OVERRIDE
                | Name::DEPRECATED
                | Name::NO_TYPE_CHECK
                | Name::RUNTIME_CHECKABLE => return value,
                // What these return calls the function and keeps its result.
                Name::WRAPS => return value,
                Name::LRU_CACHE | Name::CACHE if self.is_library_decorator(env, decorator) => {
                    return value;
                }
                Name::CONTEXTMANAGER | Name::ASYNCCONTEXTMANAGER
                    if self.is_library_decorator(env, decorator) =>
                {
                    return self.context_manager(&value, name == Name::ASYNCCONTEXTMANAGER);
                }
                _ => {}
            }
        }
        self.apply_decorator(env, decorator, &value)
    }

    /// A decorator whose name means what the library means by it (or that is not found at all).
    fn is_library_decorator(&self, env: &Env, decorator: ExprId) -> bool {
        let target = match env.file.ast.kind(decorator) {
            ExprKind::Call { func, .. } => func,
            _ => decorator,
        };
        let found = self.expr(env, target);
        found.items.iter().all(|t| match t {
            Ty::Class { class, .. } => class.file.is_library(),
            Ty::Function { file, .. } => file.is_library(),
            _ => true,
        })
    }

    /// Call an unknown decorator. What it does not tell is taken to be what it was given.
    pub(super) fn apply_decorator(&self, env: &Env, decorator: ExprId, value: &TySet) -> TySet {
        let callee = self.expr(env, decorator);
        if callee.items.is_empty() {
            return value.clone().with_unknown();
        }
        let result = self.call(&callee, &CallArgs::positional(std::slice::from_ref(value)));
        let mut out = TySet::empty();
        for ty in &result.items {
            match ty {
                // A wrapper defined in the decorator: callers see the function it wraps.
                Ty::Function { file, func, receiver: None } if self.is_wrapper(*file, *func) => {
                    out.join(value.clone());
                    if !self.function_stores(&self.file(*file), *func).is_empty() {
                        out.add(ty.clone());
                    }
                }
                Ty::Var(_) => out.unknown = true,
                other => out.add(other.clone()),
            }
        }
        if out.items.is_empty() {
            return value.clone().with_unknown();
        }
        if result.unknown {
            out.join(value.clone());
            out.unknown = true;
        }
        out
    }

    /// A nested function that passes `*args, **kwargs` on.
    fn is_wrapper(&self, file: FileId, func: FuncId) -> bool {
        let file = self.file(file);
        let node = file.ast.function(func);
        let scope = file.scopes.of_function(func);
        let parent = file.scopes.scope(scope).parent;
        let nested =
            parent.is_some_and(|p| matches!(file.scopes.scope(p).kind, ScopeKind::Function(_)));
        nested
            && (self.has_decorator(&file, node, Name::WRAPS)
                || file.ast.params(node.params).iter().any(|p| p.kind == ParamKind::VarArgs))
    }

    /// `@x.setter def x` leaves the property that `x` was.
    fn property_again(&self, env: &Env, base: Name, which: Name, value: TySet) -> TySet {
        let bindings = env.file.scopes.of(env.scope, base);
        for b in bindings {
            if let BindKind::Function(func) = b.kind {
                let node = env.file.ast.function(func);
                let is_self =
                    matches!(value.items.first(), Some(Ty::Function { func: f, .. }) if *f == func);
                if is_self {
                    break;
                }
                let first = env.file.ast.list(node.decorators).first();
                let again = first
                    .and_then(|d| self.decorator_name(&env.file, *d))
                    .is_some_and(|(_, n)| matches!(n, Name::SETTER | Name::DELETER | Name::GETTER));
                if again {
                    continue;
                }
                let found = self.function_value(&env.file, func);
                if which == Name::GETTER {
                    break;
                }
                return found;
            }
        }
        TySet::one(Ty::Descriptor(Descriptor::Property, Arc::new(value)))
    }

    fn context_manager(&self, value: &TySet, is_async: bool) -> TySet {
        // Kept as a callable whose result enters to what the generator yields.
        let mut out = TySet { items: Default::default(), unknown: value.unknown };
        let manager =
            if is_async { "_AsyncGeneratorContextManager" } else { "_GeneratorContextManager" };
        let class = self.library_class(Name::CONTEXTLIB, Name::new(manager));
        for ty in &value.items {
            let Ty::Function { file, func, .. } = ty else {
                out.unknown = true;
                continue;
            };
            let result = self.declared_or_inferred(*file, *func, None);
            let item = self.iterated(&self.closed_over_vars(&result), is_async);
            match class {
                Some(class) => out.add(Ty::Callable(Arc::new(TySet::generic(
                    class,
                    vec![item, TySet::none(), TySet::none()],
                )))),
                None => out.unknown = true,
            }
        }
        out
    }

    /// What a function returns, in terms of its parameters' and its class's type variables.
    pub(super) fn declared_or_inferred(
        &self,
        file: FileId,
        func: FuncId,
        receiver: Option<ClassKey>,
    ) -> TySet {
        self.memo(Key::Return(file, func, receiver), || {
            let file = self.file(file);
            let node = file.ast.function(func);
            let scope = file.scopes.of_function(func);
            let env = Env::new(file.clone(), scope).with_receiver(receiver);
            if let Some(returns) = node.returns.some() {
                let declared = self.annotation(&env, returns);
                let uninformative = declared.items.is_empty() && declared.unknown && !file.is_stub;
                if !uninformative {
                    return if node.is_async && !node.is_generator {
                        self.coroutine(declared)
                    } else {
                        declared
                    };
                }
                let inferred = self.inferred_return(&env, node).with_unknown();
                return inferred;
            }
            if file.is_stub {
                return TySet::unknown();
            }
            self.inferred_return(&env, node)
        })
    }

    fn coroutine(&self, result: TySet) -> TySet {
        match self.library_class(Name::TYPING, Name::COROUTINE) {
            Some(class) => TySet::generic(class, vec![TySet::unknown(), TySet::unknown(), result]),
            None => TySet::unknown(),
        }
    }

    fn inferred_return(&self, env: &Env, node: &Function) -> TySet {
        let ast = &env.file.ast;
        if node.body.is_empty() {
            return TySet::unknown(); // Yet to be written.
        }
        if node.is_generator {
            return self.inferred_generator(env, node);
        }
        let mut returns: SmallVec<[ExprId; 8]> = SmallVec::new();
        let mut bare = false;
        let mut raises_not_implemented = false;
        visit_statements(ast, node.body, &mut |stmt| match ast.stmt(stmt).kind {
            StmtKind::Return(value) => match value.some() {
                Some(value) => returns.push(value),
                None => bare = true,
            },
            StmtKind::Raise { exception, .. } => {
                raises_not_implemented |=
                    exception.some().is_some_and(|e| is_not_implemented(ast, e));
            }
            _ => {}
        });
        let mut out = TySet::empty();
        if returns.len() > RETURNS_MAX {
            out.unknown = true;
        }
        for &value in returns.iter().take(RETURNS_MAX) {
            out.join(self.expr(env, value));
        }
        let falls_through = !super::flow::never_ends(ast, node.body);
        if returns.is_empty() && (raises_not_implemented || self.is_abstract(&env.file, node)) {
            return TySet::unknown();
        }
        if bare || falls_through {
            out.add(Ty::None);
        }
        let out = self.shallow(out);
        if node.is_async { self.coroutine(out) } else { out }
    }

    fn is_abstract(&self, file: &File, node: &Function) -> bool {
        self.has_decorator(file, node, Name::ABSTRACTMETHOD) || {
            let ast = &file.ast;
            let body = ast.block(node.body);
            let skip = usize::from(node.docstring.is_some());
            // Only `...` or nothing after the docstring: a protocol, or a body that is yet to be written.
            body.len() <= skip + 1
                && body[skip.min(body.len())..].iter().all(|s| match ast.stmt(*s).kind {
                    StmtKind::Expr(e) => matches!(ast.kind(e), ExprKind::Ellipsis),
                    _ => false,
                })
        }
    }

    fn inferred_generator(&self, env: &Env, node: &Function) -> TySet {
        let ast = &env.file.ast;
        let mut item = TySet::empty();
        let mut result = TySet::empty();
        // Yields are expressions anywhere in the body; those of nested functions lie in other scopes.
        let mut n = 0;
        for expr in &ast.exprs[node.exprs.range()] {
            let (value, from) = match expr.kind {
                ExprKind::Yield(value) => (value, false),
                ExprKind::YieldFrom(value) => (value, true),
                _ => continue,
            };
            if env.file.scopes.at(expr.span.start) != env.scope {
                continue;
            }
            n += 1;
            if n > RETURNS_MAX {
                item.unknown = true;
                break;
            }
            match value.some() {
                None => item.add(Ty::None),
                Some(value) if from => {
                    let of = self.expr(env, value);
                    item.join(self.iterated(&of, false));
                }
                Some(value) => item.join(self.expr(env, value)),
            }
        }
        visit_statements(ast, node.body, &mut |stmt| {
            if let StmtKind::Return(value) = ast.stmt(stmt).kind
                && let Some(value) = value.some()
            {
                result.join(self.expr(env, value));
            }
        });
        if result.is_empty() {
            result.add(Ty::None);
        }
        let item = self.shallow(item);
        let (name, args) = if node.is_async {
            (Name::ASYNC_GENERATOR, vec![item, TySet::unknown()])
        } else {
            (Name::GENERATOR, vec![item, TySet::unknown(), self.shallow(result)])
        };
        self.library_class(Name::TYPING, name)
            .map_or_else(TySet::unknown, |class| TySet::generic(class, args))
    }

    /// Stores `function.name = value` beside a function's definition.
    pub(super) fn function_stores(&self, file: &File, func: FuncId) -> Vec<AttrStore> {
        let node = file.ast.function(func);
        let parent = file.scopes.scope(file.scopes.of_function(func)).parent;
        let is_of = |s: &&AttrStore| {
            Some(s.scope) == parent
                && matches!(file.ast.kind(s.receiver), ExprKind::Name(n) if n == node.name)
        };
        file.scopes.outside_stores().iter().filter(is_of).copied().collect()
    }

    /// An attribute that a store gives a function.
    pub(super) fn function_attribute(
        &self,
        file: FileId,
        func: FuncId,
        name: Name,
    ) -> Option<TySet> {
        let file = self.file(file);
        let mut out: Option<TySet> = None;
        for store in self.function_stores(&file, func).iter().filter(|s| s.name == name) {
            let env = Env::new(file.clone(), store.scope);
            let found = self.store_value(&env, store);
            out = Some(out.unwrap_or_default().joined(found));
        }
        out
    }
}

fn is_not_implemented(ast: &Ast, expr: ExprId) -> bool {
    let target = match ast.kind(expr) {
        ExprKind::Call { func, .. } => func,
        _ => expr,
    };
    matches!(ast.kind(target), ExprKind::Name(n) if n.as_str() == "NotImplementedError")
}

/// Visit the statements of a body and its blocks, not those of nested definitions.
pub(super) fn visit_statements(ast: &Ast, body: Run, visit: &mut dyn FnMut(StmtId)) {
    let mut stack: SmallVec<[Run; 16]> = SmallVec::from_slice(&[body]);
    while let Some(block) = stack.pop() {
        for &id in ast.block(block) {
            visit(id);
            stack.extend(super::flow::blocks_of(ast, id).into_iter().map(|(b, _)| b));
        }
    }
}
