//! What is certain: special methods that a value surely lacks, the one function that a call surely runs.
//!
//! # Place
//! Read by the checker. Every answer errs on the side of not knowing.

use super::ty::{ClassKey, Ty};
use super::world::World;
use crate::repo::file::{File, FileId};
use crate::repo::name::Name;
use crate::repo::scope::ScopeKind;
use crate::repo::syntax::*;
use std::sync::Arc;

/// The function that a call runs.
pub(crate) struct Callee {
    pub(crate) file: Arc<File>,
    pub(crate) func: FuncId,
    /// Parameters that the receiver fills.
    pub(crate) n_filled: usize,
}

/// What is known of the constructor of a class.
pub(crate) enum Constructor {
    Function(Callee),
    /// Nothing but what `object` has: it takes no argument.
    Plain,
}

impl World<'_> {
    /// Has a value none of these special methods, and can no subclass or base add one?
    pub(crate) fn surely_lacks(&self, ty: &Ty, methods: &[Name]) -> bool {
        match ty {
            Ty::Instance { class, exact, .. } => {
                if !exact && class.file.is_library() {
                    return false;
                }
                if self.is_object(*class) {
                    return false;
                }
                let subclasses = if *exact { Arc::from([]) } else { self.subclasses(*class) };
                std::iter::once(class)
                    .chain(subclasses.iter())
                    .all(|c| self.class_surely_lacks(*c, methods))
            }
            Ty::Module(_) => true,
            Ty::Tuple(_) => !methods.iter().any(|m| matches!(*m, Name::ITER | Name::GETITEM)),
            Ty::Function { .. } | Ty::Lambda { .. } => !methods.contains(&Name::CALL),
            Ty::Class { class, .. } => {
                if class.file.is_library() || !self.own_vars(*class).is_empty() {
                    return false;
                }
                let (metaclass, unknown) = self.explicit_metaclass(*class);
                !unknown
                    && metaclass.is_none()
                    && self.class_surely_lacks(*class, &[Name::CLASS_GETITEM])
                    && !self.is_enum(*class)
                    && !self.is_decorated(*class)
                    && self
                        .mro(*class)
                        .entries
                        .iter()
                        .all(|e| !e.class.file.is_library() || self.is_object(e.class))
                    && !methods.contains(&Name::CALL)
            }
            _ => false,
        }
    }

    fn class_surely_lacks(&self, class: ClassKey, methods: &[Name]) -> bool {
        let mro = self.mro(class);
        if mro.open.is_some() || self.is_protocol(class) || self.is_decorated(class) {
            return false;
        }
        mro.entries.iter().all(|entry| {
            let own = self.own(entry.class);
            // `__getattr__` does not matter: special methods are looked up on the type.
            let is_open = own.open.as_ref().is_some_and(|why| !why.starts_with("__getattr"));
            !is_open && !methods.iter().any(|m| own.names.contains_key(m))
        })
    }

    /// Is a class, or one that it derives from in the project, decorated by something unknown?
    fn is_decorated(&self, class: ClassKey) -> bool {
        self.mro(class).entries.iter().filter(|e| !e.class.file.is_library()).any(|entry| {
            let (Some(env), Some(id)) = (self.outer_env(entry.class), entry.class.class()) else {
                return true;
            };
            let decorators = env.file.ast.list(env.file.ast.class(id).decorators);
            decorators.iter().any(|d| !self.keeps_class(&env, *d))
        })
    }

    /// The function that calling this value surely runs, when its signature is the source's own.
    pub(crate) fn certain_callee(&self, ty: &Ty) -> Option<Callee> {
        let Ty::Function { file, func, receiver } = ty else {
            return None;
        };
        let owner = self.file(*file);
        let node = owner.ast.function(*func);
        if owner.is_stub || !self.is_plainly_decorated(&owner, *func) {
            return None;
        }
        if self.overloads(&owner, *func).len() > 1 {
            return None;
        }
        if let Some(Ty::Instance { class, exact: false, .. } | Ty::Class { class, .. }) =
            receiver.as_deref()
            && self.is_overridden(*class, *file, node.name)
        {
            return None;
        }
        let n_filled = usize::from(receiver.is_some());
        // `def method(*args)` takes its receiver from the star.
        let first = owner.ast.params(node.params).first();
        let takes_first =
            first.is_some_and(|p| matches!(p.kind, ParamKind::Normal | ParamKind::PositionalOnly));
        if n_filled > 0 && !takes_first {
            return None;
        }
        Some(Callee { file: owner, func: *func, n_filled })
    }

    /// Does some subclass define the method again?
    fn is_overridden(&self, class: ClassKey, _file: FileId, method: Name) -> bool {
        self.subclasses(class).iter().any(|sub| {
            let own = self.own(*sub);
            own.names.contains_key(&method) || self.mro(*sub).open.is_some()
        })
    }

    /// Only decorators that keep the signature.
    fn is_plainly_decorated(&self, file: &File, func: FuncId) -> bool {
        file.ast.list(file.ast.function(func).decorators).iter().all(|d| {
            let is_call = matches!(file.ast.kind(*d), ExprKind::Call { .. });
            !is_call
                && self.decorator_name(file, *d).is_some_and(|(_, n)| {
                    matches!(
                        n,
                        Name::STATICMETHOD
                            | Name::CLASSMETHOD
                            | Name::ABSTRACTMETHOD
                            | Name::OVERRIDE
                            | Name::FINAL_DECORATOR
                    )
                })
        })
    }

    /// What making an instance of a class surely runs.
    pub(crate) fn certain_constructor(&self, class: ClassKey) -> Option<Constructor> {
        let mro = self.mro(class);
        let is_plain = mro.open.is_none()
            && !class.file.is_library()
            && !self.is_decorated(class)
            && self.explicit_metaclass(class) == (None, false)
            && mro.entries.iter().all(|e| {
                let is_library = e.class.file.is_library() && !self.is_object(e.class);
                !is_library
                    && self.field_class(e.class).is_none()
                    && self.own(e.class).open.is_none()
            });
        if !is_plain {
            return None;
        }
        if self.method_owner(class, Name::NEW).is_some_and(|c| !self.is_object(c)) {
            return None;
        }
        let owner = self.method_owner(class, Name::INIT)?;
        if self.is_object(owner) {
            return Some(Constructor::Plain);
        }
        let instance = Ty::Instance { class, args: None, exact: true };
        let found = self.class_attribute(class, Name::INIT, &instance, false)?;
        if found.unknown {
            return None;
        }
        match &found.items[..] {
            [only] => self.certain_callee(only).map(Constructor::Function),
            _ => None,
        }
    }

    /// A function of the project that runs to its end without a result.
    pub(crate) fn returns_nothing(&self, callee: &Callee) -> bool {
        let ast = &callee.file.ast;
        let node = ast.function(callee.func);
        let scope = callee.file.scopes.scope(callee.file.scopes.of_function(callee.func));
        let in_protocol = match scope.parent.map(|p| &callee.file.scopes.scope(p).kind) {
            Some(ScopeKind::Class(class)) => {
                self.is_protocol(ClassKey::new(callee.file.id, *class))
            }
            _ => false,
        };
        if node.is_async || node.is_generator || !node.decorators.is_empty() || in_protocol {
            return false;
        }
        if node.returns.some().is_some_and(|r| !matches!(ast.kind(r), ExprKind::None)) {
            return false;
        }
        let mut returns = false;
        let mut does_something = false;
        super::function::visit_statements(ast, node.body, &mut |stmt| match ast.stmt(stmt).kind {
            StmtKind::Return(_) | StmtKind::Raise { .. } => returns = true,
            StmtKind::Pass => {}
            StmtKind::Expr(e) if matches!(ast.kind(e), ExprKind::Str | ExprKind::Ellipsis) => {}
            _ => does_something = true,
        });
        does_something && !returns && !super::flow::never_ends(ast, node.body)
    }

    /// `type` or a metaclass: its instances are classes, of which nothing is known.
    pub(crate) fn is_kind_of_class(&self, class: ClassKey) -> bool {
        self.is_metaclass(class)
    }

    /// A class that stubs describe as a protocol and that is an abstract class at run time.
    pub(crate) fn is_abstract_of_library(&self, class: ClassKey) -> bool {
        class.file.is_library()
            && (self.is_protocol(class)
                || matches!(
                    self.file(class.file).module_name,
                    Name::TYPING | Name::TYPES | Name::COLLECTIONS_ABC | Name::COLLECTIONS_PRIVATE
                ))
    }
}
