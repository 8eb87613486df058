//! What a value may be: a set of alternatives, and whether others are possible.
//!
//! # Place
//! Uses `file`, `name`, `syntax`. Used throughout inference.
//! # Invariants
//! - [`TySet::unknown`] is set whenever some alternative could not be found: only a set without it
//!   may lead to a closed answer.
//! - A set holds at most [`ALTERNATIVES_MAX`] alternatives; more make it unknown.

use crate::repo::file::{FileId, ModuleId};
use crate::repo::name::Name;
use crate::repo::scope::ScopeId;
use crate::repo::syntax::{ClassId, ExprId, FuncId};
use smallvec::SmallVec;
use std::sync::Arc;

/// Most alternatives of one set.
pub(crate) const ALTERNATIVES_MAX: usize = 24;

/// A class: written with `class`, or made by a call (`namedtuple(…)`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ClassKey {
    pub(crate) file: FileId,
    id: u32,
}

const MADE: u32 = 1 << 31;

impl ClassKey {
    pub(crate) fn new(file: FileId, class: ClassId) -> Self {
        Self { file, id: class.0 }
    }
    /// A class that the call `expr` makes.
    pub(crate) fn made(file: FileId, expr: ExprId) -> Self {
        Self { file, id: expr.0 | MADE }
    }
    pub(crate) fn class(self) -> Option<ClassId> {
        (self.id & MADE == 0).then_some(ClassId(self.id))
    }
    pub(crate) fn call(self) -> Option<ExprId> {
        (self.id & MADE != 0).then_some(ExprId(self.id & !MADE))
    }
}

/// A type variable, or a parameter without annotation: whatever the caller passes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Var {
    pub(crate) file: FileId,
    pub(crate) pos: u32,
    pub(crate) name: Name,
}

/// Type arguments of a generic class; none when they are not known.
pub(crate) type Args = Option<Arc<[TySet]>>;

/// How a function is reached through a class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Descriptor {
    Property,
    ClassMethod,
    StaticMethod,
}

/// One alternative.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Ty {
    None,
    Instance {
        class: ClassKey,
        args: Args,
        /// Made by calling the class: not an instance of a subclass.
        exact: bool,
    },
    /// The class itself.
    Class {
        class: ClassKey,
        args: Args,
    },
    Module(ModuleId),
    Function {
        file: FileId,
        func: FuncId,
        receiver: Option<Arc<Ty>>,
    },
    Lambda {
        file: FileId,
        scope: ScopeId,
        expr: ExprId,
    },
    /// A tuple whose items are known one by one.
    Tuple(Arc<[TySet]>),
    /// Something that can be called and returns this.
    Callable(Arc<TySet>),
    Var(Var),
    /// `super()`: what follows `after` in the method resolution order of `of`.
    Super {
        after: ClassKey,
        of: ClassKey,
        in_class: bool,
    },
    Descriptor(Descriptor, Arc<TySet>),
    /// A form of the typing language (`Optional`, `Union`, …), by name.
    Form(Name),
    /// A type expression that is no class (`Union[A, B]`, `Callable[…]`): its instances.
    Alias(Arc<TySet>),
    /// `functools.partial(f, …)`: an object that calls f.
    Partial(Arc<TySet>),
}

/// Alternatives.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct TySet {
    pub(crate) items: SmallVec<[Ty; 1]>,
    pub(crate) unknown: bool,
}

impl TySet {
    /// No alternative at all (the value of code that never ends, or nothing found yet).
    pub(crate) fn empty() -> Self {
        Self::default()
    }

    pub(crate) fn unknown() -> Self {
        Self { items: SmallVec::new(), unknown: true }
    }

    pub(crate) fn one(ty: Ty) -> Self {
        let mut items = SmallVec::new();
        items.push(ty);
        Self { items, unknown: false }
    }

    pub(crate) fn instance(class: ClassKey) -> Self {
        Self::one(Ty::Instance { class, args: None, exact: false })
    }

    pub(crate) fn exact(class: ClassKey) -> Self {
        Self::one(Ty::Instance { class, args: None, exact: true })
    }

    pub(crate) fn generic(class: ClassKey, args: impl Into<Arc<[TySet]>>) -> Self {
        Self::one(Ty::Instance { class, args: Some(args.into()), exact: true })
    }

    pub(crate) fn none() -> Self {
        Self::one(Ty::None)
    }

    fn alias(of: Ty) -> Ty {
        Ty::Alias(Arc::new(Self::one(of)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty() && !self.unknown
    }

    pub(crate) fn add(&mut self, ty: Ty) {
        if self.items.contains(&ty) {
            return;
        }
        if self.items.len() >= ALTERNATIVES_MAX {
            self.unknown = true;
            return;
        }
        self.items.push(ty);
    }

    pub(crate) fn join(&mut self, other: Self) {
        self.unknown |= other.unknown;
        if self.items.is_empty() {
            self.items = other.items;
            return;
        }
        for ty in other.items {
            self.add(ty);
        }
    }

    pub(crate) fn joined(mut self, other: Self) -> Self {
        self.join(other);
        self
    }

    pub(crate) fn with_unknown(mut self) -> Self {
        self.unknown = true;
        self
    }

    /// Is everything in `self` also in `other`?
    pub(crate) fn within(&self, other: &Self) -> bool {
        (!self.unknown || other.unknown) && self.items.iter().all(|t| other.items.contains(t))
    }

    pub(crate) fn has_vars(&self) -> bool {
        self.items.iter().any(Ty::has_vars)
    }

    /// The set with type variables replaced.
    pub(crate) fn replaced(&self, by: &Bindings) -> Self {
        if by.is_empty() || !self.has_vars() {
            return self.clone();
        }
        let mut out = Self { items: SmallVec::new(), unknown: self.unknown };
        for ty in &self.items {
            match ty {
                Ty::Var(var) => match by.get(*var) {
                    Some(found) => out.join(found.clone()),
                    None => out.add(ty.clone()),
                },
                Ty::Alias(inner) => match inner.items[..] {
                    // `type[T]`: the classes of what T stands for.
                    [Ty::Var(var)] if by.get(var).is_some_and(|f| !f.has_vars()) => {
                        let found = by.get(var).cloned().unwrap_or_default();
                        out.unknown |= found.unknown;
                        for ty in found.items {
                            out.add(match ty {
                                Ty::Instance { class, args, .. } => Ty::Class { class, args },
                                other => Self::alias(other),
                            });
                        }
                    }
                    _ => out.add(ty.replaced(by)),
                },
                _ => out.add(ty.replaced(by)),
            }
        }
        out
    }

    /// How deep types are nested; bounds growth of recursive ones.
    pub(crate) fn depth(&self) -> u32 {
        self.items.iter().map(Ty::depth).max().unwrap_or(0)
    }
}

fn args_replaced(args: &Args, by: &Bindings) -> Args {
    args.as_ref().map(|a| a.iter().map(|s| s.replaced(by)).collect())
}

impl Ty {
    pub(crate) fn has_vars(&self) -> bool {
        match self {
            Self::Var(_) => true,
            Self::Instance { args, .. } | Self::Class { args, .. } => {
                args.as_ref().is_some_and(|a| a.iter().any(TySet::has_vars))
            }
            Self::Tuple(items) => items.iter().any(TySet::has_vars),
            Self::Callable(set)
            | Self::Descriptor(_, set)
            | Self::Partial(set)
            | Self::Alias(set) => set.has_vars(),
            Self::Function { receiver, .. } => receiver.as_ref().is_some_and(|r| r.has_vars()),
            _ => false,
        }
    }

    fn replaced(&self, by: &Bindings) -> Self {
        match self {
            Self::Instance { class, args, exact } => {
                Self::Instance { class: *class, args: args_replaced(args, by), exact: *exact }
            }
            Self::Class { class, args } => {
                Self::Class { class: *class, args: args_replaced(args, by) }
            }
            Self::Tuple(items) => Self::Tuple(items.iter().map(|s| s.replaced(by)).collect()),
            Self::Callable(set) => Self::Callable(Arc::new(set.replaced(by))),
            Self::Partial(set) => Self::Partial(Arc::new(set.replaced(by))),
            Self::Alias(set) => Self::Alias(Arc::new(set.replaced(by))),
            Self::Descriptor(kind, set) => Self::Descriptor(*kind, Arc::new(set.replaced(by))),
            Self::Function { file, func, receiver } => Self::Function {
                file: *file,
                func: *func,
                receiver: receiver.as_ref().map(|r| Arc::new(r.replaced(by))),
            },
            other => other.clone(),
        }
    }

    fn depth(&self) -> u32 {
        match self {
            Self::Instance { args, .. } | Self::Class { args, .. } => {
                1 + args.as_ref().map_or(0, |a| a.iter().map(TySet::depth).max().unwrap_or(0))
            }
            Self::Tuple(items) => 1 + items.iter().map(TySet::depth).max().unwrap_or(0),
            Self::Callable(set)
            | Self::Descriptor(_, set)
            | Self::Partial(set)
            | Self::Alias(set) => 1 + set.depth(),
            Self::Function { receiver, .. } => 1 + receiver.as_ref().map_or(0, |r| r.depth()),
            _ => 1,
        }
    }
}

/// What type variables stand for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bindings(SmallVec<[(Var, TySet); 4]>);

impl Bindings {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, var: Var) -> Option<&TySet> {
        self.0.iter().find(|(v, _)| *v == var).map(|(_, s)| s)
    }

    pub(crate) fn set(&mut self, var: Var, value: TySet) {
        match self.0.iter_mut().find(|(v, _)| *v == var) {
            Some((_, known)) => *known = value,
            None => self.0.push((var, value)),
        }
    }

    /// Add what a variable may stand for.
    pub(crate) fn widen(&mut self, var: Var, value: TySet) {
        match self.0.iter_mut().find(|(v, _)| *v == var) {
            Some((_, known)) => known.join(value),
            None => self.0.push((var, value)),
        }
    }
}
