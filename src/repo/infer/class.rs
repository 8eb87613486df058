//! Classes: what they define themselves, their bases and resolution order, and what made classes
//! (named tuples, enums, data classes) have besides.
//!
//! # Place
//! Uses `scope` for what is written in a class and expressions for its bases.
//! # Invariants
//! - A class whose bases, decorators or bodies may add names that cannot be seen is *open*, with the
//!   reason; see [`Mro::open`] and [`Own::open`].
//! # Sources
//! C3 linearisation: Barrett et al. 1996, as in the Python 2.3 release notes on the MRO.

use super::annotation::string_value;
use super::ty::{Args, Bindings, ClassKey, Ty, TySet, Var};
use super::world::{Env, World};
use crate::repo::file::File;
use crate::repo::name::Name;
use crate::repo::scope::{BindKind, ScopeId};
use crate::repo::syntax::*;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// Most classes in a resolution order.
const MRO_MAX: usize = 256;

#[derive(Clone, Debug)]
pub(crate) struct MroEntry {
    pub(crate) class: ClassKey,
    /// Type arguments in terms of the variables of the class whose order this is.
    pub(crate) args: Args,
}

/// The method resolution order of a class.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mro {
    pub(crate) entries: Vec<MroEntry>,
    /// Why unknown names may come from a base.
    pub(crate) open: Option<Arc<str>>,
}

/// Where a name of a class comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OwnName {
    /// Bound in the class body (or made for the class).
    pub(crate) in_class: bool,
    /// Assigned through `self`, listed in `__slots__`, or annotated.
    pub(crate) on_instance: bool,
    /// Only the source beside a stub has it.
    pub(crate) by_twin: bool,
    pub(crate) pos: u32,
}

/// What a class defines itself.
#[derive(Debug, Default)]
pub(crate) struct Own {
    pub(crate) names: FxHashMap<Name, OwnName>,
    /// Why names may exist that are not seen.
    pub(crate) open: Option<Arc<str>>,
    /// `__slots__` without a way to add attributes.
    pub(crate) slots: bool,
}

impl Own {
    pub(crate) fn has_class_level(&self, name: Name) -> bool {
        self.names.get(&name).is_some_and(|n| n.in_class)
    }

    pub(super) fn add(&mut self, name: Name, in_class: bool, pos: u32) {
        let entry = self.names.entry(name).or_insert(OwnName {
            in_class: false,
            on_instance: false,
            by_twin: false,
            pos,
        });
        entry.in_class |= in_class;
        entry.on_instance |= !in_class;
    }

    /// Take over what the source beside a stub has and the stub leaves out.
    pub(super) fn add_twin(&mut self, more: &Self) {
        for (&name, known) in &more.names {
            self.names.entry(name).or_insert(OwnName { by_twin: true, pos: 0, ..*known });
        }
        if self.open.is_none() {
            self.open.clone_from(&more.open);
        }
    }
}

/// What kind of class the fields of a class make it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FieldClass {
    Dataclass,
    Attrs,
    NamedTuple,
}

/// Base classes with the arguments they are given.
type Bases = SmallVec<[(ClassKey, Args); 2]>;

impl World<'_> {
    pub(crate) fn class_env(&self, class: ClassKey) -> Option<Env> {
        let id = class.class()?;
        let file = self.file(class.file);
        let scope = file.scopes.of_class(id);
        Some(Env::new(file, scope))
    }

    /// The environment in which a class statement stands.
    pub(super) fn outer_env(&self, class: ClassKey) -> Option<Env> {
        let env = self.class_env(class)?;
        let parent = env.file.scopes.scope(env.scope).parent.unwrap_or(ScopeId::MODULE);
        Some(env.in_scope(parent))
    }

    pub(crate) fn class_name(&self, class: ClassKey) -> Name {
        let file = self.file(class.file);
        match (class.class(), class.call()) {
            (Some(id), _) => file.ast.class(id).name,
            (None, Some(call)) => match file.ast.kind(call) {
                ExprKind::Call { args, .. } => file
                    .ast
                    .args(args)
                    .first()
                    .and_then(|a| string_value(&file, a.value))
                    .map_or(Name::EMPTY, Name::new),
                _ => Name::EMPTY,
            },
            (None, None) => Name::EMPTY,
        }
    }

    /// A class statement's value: the class as its decorators leave it.
    pub(super) fn class_value(&self, env: &Env, class: ClassId) -> TySet {
        let file = &env.file;
        let key = ClassKey::new(file.id, class);
        let plain = TySet::one(Ty::Class { class: key, args: None });
        let decorators = file.ast.list(file.ast.class(class).decorators);
        if decorators.is_empty() || file.is_stub {
            return plain;
        }
        let outer = match file.scopes.scope(file.scopes.of_class(class)).parent {
            Some(parent) => env.in_scope(parent),
            None => env.clone(),
        };
        let memo_key = super::world::Key::Binding(
            file.id,
            file.scopes.of_class(class),
            Name::CLASS_ATTR,
            0,
            None,
        );
        self.memo(memo_key, || {
            let mut value = plain.clone();
            for &decorator in decorators.iter().rev() {
                if self.keeps_class(&outer, decorator) {
                    continue;
                }
                let found = self.apply_decorator(&outer, decorator, &value);
                value = if found.items.is_empty() { value.clone() } else { found };
            }
            value
        })
    }

    /// The name of what decorates, when it is plain: `dataclass`, `attr.s(…)`.
    pub(super) fn decorator_name(
        &self,
        file: &File,
        decorator: ExprId,
    ) -> Option<(Option<Name>, Name)> {
        let target = match file.ast.kind(decorator) {
            ExprKind::Call { func, .. } => func,
            _ => decorator,
        };
        match file.ast.kind(target) {
            ExprKind::Name(name) => Some((None, name)),
            ExprKind::Attribute { value, name } => match file.ast.kind(value) {
                ExprKind::Name(base) => Some((Some(base), name)),
                _ => Some((None, name)),
            },
            _ => None,
        }
    }

    pub(super) fn keeps_class(&self, env: &Env, decorator: ExprId) -> bool {
        let Some((_, name)) = self.decorator_name(&env.file, decorator) else {
            return false;
        };
        matches!(
            name,
            Name::DATACLASS
                | Name::TOTAL_ORDERING
                | Name::RUNTIME_CHECKABLE
                | Name::FINAL_DECORATOR
                | Name::DEPRECATED
                | Name::UNIQUE
                | Name::VERIFY
                | Name::S
                | Name::DEFINE
                | Name::MUTABLE
                | Name::FROZEN
                | Name::ATTRS
                | Name::DATACLASS_TRANSFORM
                | Name::NO_TYPE_CHECK
        )
    }

    /// Is a class made by fields, and how?
    pub(crate) fn field_class(&self, class: ClassKey) -> Option<FieldClass> {
        if let Some(call) = class.call() {
            let file = self.file(class.file);
            let ExprKind::Call { func, .. } = file.ast.kind(call) else {
                return None;
            };
            let name = match file.ast.kind(func) {
                ExprKind::Name(n) | ExprKind::Attribute { name: n, .. } => n,
                _ => return None,
            };
            return matches!(name, Name::NAMEDTUPLE | Name::NAMED_TUPLE)
                .then_some(FieldClass::NamedTuple);
        }
        let env = self.class_env(class)?;
        let node = env.file.ast.class(class.class()?);
        for &decorator in env.file.ast.list(node.decorators) {
            match self.decorator_name(&env.file, decorator) {
                Some((_, Name::DATACLASS)) => return Some(FieldClass::Dataclass),
                Some((base, Name::S | Name::ATTRS)) if base.is_some() => {
                    return Some(FieldClass::Attrs);
                }
                Some((_, Name::DEFINE | Name::MUTABLE | Name::FROZEN | Name::ATTRS)) => {
                    return Some(FieldClass::Attrs);
                }
                _ => {}
            }
        }
        for arg in env.file.ast.args(node.args) {
            let name = match env.file.ast.kind(arg.value) {
                ExprKind::Name(n) | ExprKind::Attribute { name: n, .. } => n,
                _ => continue,
            };
            if arg.kind == ArgKind::Positional && name == Name::NAMED_TUPLE {
                return Some(FieldClass::NamedTuple);
            }
        }
        None
    }

    /// Bases of a class as they are written; what is unknown is reported.
    pub(super) fn bases(&self, class: ClassKey) -> (Bases, Option<Arc<str>>) {
        let mut bases: SmallVec<[(ClassKey, Args); 2]> = SmallVec::new();
        let mut open: Option<Arc<str>> = None;
        if class.call().is_some() {
            return self.made_bases(class);
        }
        let (Some(env), Some(id)) = (self.outer_env(class), class.class()) else {
            return (bases, Some(Arc::from("unknown class")));
        };
        let node = env.file.ast.class(id);
        for arg in env.file.ast.args(node.args) {
            match arg.kind {
                ArgKind::Positional => {}
                ArgKind::Star | ArgKind::DoubleStar => {
                    open = Some(Arc::from(format!("computed bases of {}", node.name)));
                    continue;
                }
                ArgKind::Keyword(_) => continue,
            }
            let value = self.expr(&env, arg.value);
            let mut found = false;
            for ty in &value.items {
                found |= self.base_of(class, ty, &mut bases)
                    // `Generic[T]` and `Protocol[T]` add no names.
                    || matches!(ty, Ty::Alias(_)) && self.is_generic_form(&env, arg.value);
            }
            if (!found || value.unknown) && open.is_none() && !self.is_generic_form(&env, arg.value)
            {
                let text = env.file.slice(env.file.ast.expr(arg.value).span);
                let text: String = text.chars().take(40).collect();
                open = Some(Arc::from(format!("unknown base {text} of {}", node.name)));
            }
        }
        (bases, open)
    }

    /// Add the bases that one type of a class's argument stands for; whether it stands for any.
    fn base_of(
        &self,
        class: ClassKey,
        ty: &Ty,
        bases: &mut SmallVec<[(ClassKey, Args); 2]>,
    ) -> bool {
        match ty {
            Ty::Class { class: base, args } => {
                if *base != class {
                    bases.push((*base, args.clone()));
                }
                *base != class
            }
            Ty::Form(Name::NAMED_TUPLE) => {
                if let Some(tuple) = self.builtin(Name::TUPLE) {
                    bases.push((tuple, Some(Arc::from(vec![TySet::unknown()]))));
                }
                true
            }
            Ty::Form(Name::TYPED_DICT) => {
                let dict = self.library_class(Name::TYPING, Name::new("_TypedDict"));
                if let Some(dict) = dict.or_else(|| self.builtin(Name::DICT)) {
                    bases.push((dict, None));
                }
                if let Some(dict) = self.builtin(Name::DICT) {
                    bases.push((dict, None));
                }
                true
            }
            Ty::Form(Name::GENERIC | Name::PROTOCOL) => true,
            Ty::Alias(set) => {
                let n_before = bases.len();
                for inner in &set.items {
                    match inner {
                        Ty::Instance { class: base, args, .. } => bases.push((*base, args.clone())),
                        Ty::Tuple(_) => {
                            bases.extend(self.builtin(Name::TUPLE).map(|tuple| (tuple, None)));
                        }
                        _ => {}
                    }
                }
                bases.len() > n_before
            }
            _ => false,
        }
    }

    pub(super) fn is_generic_form(&self, env: &Env, expr: ExprId) -> bool {
        let base = match env.file.ast.kind(expr) {
            ExprKind::Subscript { value, .. } => value,
            _ => expr,
        };
        let name = match env.file.ast.kind(base) {
            ExprKind::Name(n) | ExprKind::Attribute { name: n, .. } => n,
            _ => return false,
        };
        if !matches!(name, Name::GENERIC | Name::PROTOCOL) {
            return false;
        }
        let value = self.expr(env, base);
        value.items.iter().any(|t| matches!(t, Ty::Form(Name::GENERIC | Name::PROTOCOL)))
            || value.items.is_empty()
    }

    pub(super) fn made_bases(&self, class: ClassKey) -> (Bases, Option<Arc<str>>) {
        let mut bases = SmallVec::new();
        match self.field_class(class) {
            Some(FieldClass::NamedTuple) => {
                if let Some(tuple) = self.builtin(Name::TUPLE) {
                    bases.push((tuple, Some(Arc::from(vec![TySet::unknown()]))));
                }
                (bases, None)
            }
            _ => (bases, Some(Arc::from("a class made by a call"))),
        }
    }

    /// Does a class describe the keys of a dictionary?
    pub(super) fn is_typed_dict(&self, class: ClassKey) -> bool {
        self.mro(class).entries.iter().any(|e| {
            let (Some(env), Some(id)) = (self.class_env(e.class), e.class.class()) else {
                return false;
            };
            let ast = &env.file.ast;
            ast.args(ast.class(id).args).iter().any(|a| {
                matches!(
                    ast.kind(a.value),
                    ExprKind::Name(Name::TYPED_DICT)
                        | ExprKind::Attribute { name: Name::TYPED_DICT, .. }
                )
            })
        })
    }

    /// The method resolution order; `object` last.
    pub(crate) fn mro(&self, class: ClassKey) -> Arc<Mro> {
        if let Some(known) = self.known_mro(class) {
            return known;
        }
        if !self.open_mro(class) {
            // A class among its own ancestors.
            return Arc::new(Mro {
                entries: vec![MroEntry { class, args: None }],
                open: Some(Arc::from("inherits from itself")),
            });
        }
        let found = Arc::new(self.linearised(class));
        self.close_mro(class, &found);
        found
    }

    pub(super) fn linearised(&self, class: ClassKey) -> Mro {
        let (bases, mut open) = self.bases(class);
        let own = MroEntry { class, args: self.own_args(class) };
        let mut sequences: Vec<Vec<MroEntry>> = Vec::new();
        for (base, args) in &bases {
            let base_mro = self.mro(*base);
            if open.is_none() {
                open.clone_from(&base_mro.open);
            }
            let by = self.bindings_for(*base, args);
            sequences.push(
                base_mro
                    .entries
                    .iter()
                    .filter(|e| !self.is_object(e.class))
                    .map(|e| MroEntry {
                        class: e.class,
                        args: e.args.as_ref().map(|a| a.iter().map(|s| s.replaced(&by)).collect()),
                    })
                    .collect(),
            );
        }
        sequences.push(
            bases
                .iter()
                .filter(|(b, _)| !self.is_object(*b))
                .map(|(class, args)| MroEntry { class: *class, args: args.clone() })
                .collect(),
        );
        let mut entries = vec![own];
        merge(&mut entries, sequences);
        if let Some(object) = self.builtin(Name::OBJECT)
            && object != class
        {
            entries.push(MroEntry { class: object, args: None });
        }
        if entries.len() > MRO_MAX {
            open = Some(Arc::from("too many bases"));
        }
        Mro { entries, open }
    }

    pub(super) fn own_args(&self, class: ClassKey) -> Args {
        let vars = self.own_vars(class);
        (!vars.is_empty())
            .then(|| vars.iter().map(|v| TySet::one(Ty::Var(*v))).collect::<Vec<_>>().into())
    }

    /// The type variables of a class, in order.
    pub(super) fn own_vars(&self, class: ClassKey) -> Arc<[Var]> {
        self.cached_vars(class, || self.find_vars(class).into())
    }

    fn find_vars(&self, class: ClassKey) -> Vec<Var> {
        let (Some(env), Some(id)) = (self.outer_env(class), class.class()) else {
            return Vec::new();
        };
        let ast = &env.file.ast;
        let node = ast.class(id);
        let mut vars = Vec::new();
        for p in &ast.type_params[node.type_params.range()] {
            vars.push(Var { file: class.file, pos: p.start, name: p.name });
        }
        if !vars.is_empty() {
            return vars;
        }
        let mut generic: Option<Vec<Var>> = None;
        for arg in ast.args(node.args) {
            let ExprKind::Subscript { value, index } = ast.kind(arg.value) else {
                continue;
            };
            let base = match ast.kind(value) {
                ExprKind::Name(n) | ExprKind::Attribute { name: n, .. } => n,
                _ => continue,
            };
            let mut found = Vec::new();
            self.vars_in(&env, index, &mut found, 0);
            if matches!(base, Name::GENERIC | Name::PROTOCOL) {
                generic = Some(found);
            } else {
                found.into_iter().for_each(|v| {
                    if !vars.contains(&v) {
                        vars.push(v);
                    }
                });
            }
        }
        generic.unwrap_or(vars)
    }

    /// Type variables mentioned in a type expression.
    pub(super) fn vars_in(&self, env: &Env, expr: ExprId, out: &mut Vec<Var>, depth: u32) {
        if depth > 6 {
            return;
        }
        let ast = &env.file.ast;
        match ast.kind(expr) {
            ExprKind::Name(_) => {
                for ty in &self.expr(env, expr).items {
                    if let Ty::Var(var) = ty
                        && !out.contains(var)
                    {
                        out.push(*var);
                    }
                }
            }
            ExprKind::Tuple { items } | ExprKind::List { items } => {
                for &item in ast.list(items) {
                    self.vars_in(env, item, out, depth + 1);
                }
            }
            ExprKind::Subscript { index, .. } => self.vars_in(env, index, out, depth + 1),
            ExprKind::Binary { left, right, .. } => {
                self.vars_in(env, left, out, depth + 1);
                self.vars_in(env, right, out, depth + 1);
            }
            ExprKind::Starred(inner) => self.vars_in(env, inner, out, depth + 1),
            _ => {}
        }
    }

    /// What a class's own variables stand for, given its arguments.
    pub(super) fn bindings_for(&self, class: ClassKey, args: &Args) -> Bindings {
        let mut by = Bindings::default();
        let vars = self.own_vars(class);
        for (i, &var) in vars.iter().enumerate() {
            let value = match args {
                Some(args) => args.get(i).cloned().unwrap_or_else(TySet::unknown),
                None => TySet::unknown(),
            };
            by.set(var, value);
        }
        by
    }

    /// The arguments that a value has seen as an instance of `base`; none when it is not one.
    pub(super) fn args_as(&self, ty: &Ty, base: ClassKey) -> Option<Arc<[TySet]>> {
        let (class, args) = match ty {
            Ty::Instance { class, args, .. } => (*class, args.clone()),
            Ty::Tuple(items) => {
                let mut all = TySet::empty();
                items.iter().for_each(|i| all.join(i.clone()));
                (self.builtin(Name::TUPLE)?, Some(Arc::from(vec![all])))
            }
            _ => return None,
        };
        let mro = self.mro(class);
        let entry = mro.entries.iter().find(|e| e.class == base)?;
        let by = self.bindings_for(class, &args);
        entry.args.as_ref().map(|found| found.iter().map(|s| s.replaced(&by)).collect())
    }

    pub(crate) fn is_subclass(&self, class: ClassKey, base: ClassKey) -> bool {
        class == base || self.mro(class).entries.iter().any(|e| e.class == base)
    }

    pub(super) fn class_defines(&self, class: ClassKey, name: Name) -> bool {
        self.mro(class)
            .entries
            .iter()
            .any(|e| !self.is_object(e.class) && self.own(e.class).has_class_level(name))
    }

    pub(crate) fn is_enum(&self, class: ClassKey) -> bool {
        let Some(base) = self.library_class(Name::ENUM, Name::ENUM_TYPE) else {
            return false;
        };
        self.is_subclass(class, base)
    }

    /// Has a class abstract methods that no class of its order implements?
    pub(super) fn is_abstract_class(&self, class: ClassKey) -> bool {
        let mro = self.mro(class);
        mro.entries.iter().enumerate().any(|(i, entry)| {
            if self.is_protocol(entry.class) && entry.class == class {
                return true;
            }
            let Some(env) = self.class_env(entry.class) else {
                return false;
            };
            let file = &env.file;
            let implemented = |name: Name| {
                let nearer = mro.entries[..i].iter();
                nearer.rev().any(|e| self.own(e.class).has_class_level(name))
            };
            file.scopes.all(env.scope).iter().any(|b| match b.kind {
                BindKind::Function(func) => {
                    self.has_decorator(file, file.ast.function(func), Name::ABSTRACTMETHOD)
                        && !implemented(b.name)
                }
                _ => false,
            })
        })
    }

    pub(super) fn is_metaclass(&self, class: ClassKey) -> bool {
        self.builtin(Name::TYPE).is_some_and(|t| self.is_subclass(class, t))
    }

    /// The metaclass of a class: its own or an inherited one, else `type`.
    pub(super) fn metaclass_of(&self, class: ClassKey) -> Option<ClassKey> {
        self.explicit_metaclass(class).0.or_else(|| self.builtin(Name::TYPE))
    }

    /// The metaclass that a class or one of its bases names; the flag says that one was not found.
    pub(super) fn explicit_metaclass(&self, class: ClassKey) -> (Option<ClassKey>, bool) {
        for entry in &self.mro(class).entries {
            let (Some(env), Some(id)) = (self.outer_env(entry.class), entry.class.class()) else {
                continue;
            };
            for arg in env.file.ast.args(env.file.ast.class(id).args) {
                if arg.kind == ArgKind::Keyword(Name::METACLASS) {
                    let value = self.expr(&env, arg.value);
                    return match value.items.first() {
                        Some(Ty::Class { class, .. }) => (Some(*class), value.unknown),
                        _ => (None, true),
                    };
                }
            }
        }
        (None, false)
    }
}

/// Merge resolution orders (C3); an inconsistent hierarchy falls back to first come.
fn merge(out: &mut Vec<MroEntry>, mut sequences: Vec<Vec<MroEntry>>) {
    loop {
        sequences.retain(|s| !s.is_empty());
        if sequences.is_empty() || out.len() > MRO_MAX {
            return;
        }
        let in_tail =
            |class: ClassKey| sequences.iter().any(|s| s[1..].iter().any(|e| e.class == class));
        let next = sequences
            .iter()
            .map(|s| &s[0])
            .find(|e| !in_tail(e.class))
            .unwrap_or(&sequences[0][0])
            .clone();
        for sequence in &mut sequences {
            sequence.retain(|e| e.class != next.class);
        }
        if !out.iter().any(|e| e.class == next.class) {
            out.push(next);
        }
    }
}
