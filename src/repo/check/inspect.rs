//! The inspection of one file: a walk over its tree that asks each check what it knows.
//!
//! # Place
//! Owns what the checks share: the world, the file, what was found. Run by `run`.

use super::message::{Message, MessageSet};
use crate::repo::file::File;
use crate::repo::infer::{ClassKey, Env, Members, Ty, TySet, World};
use crate::repo::name::Name;
use crate::repo::scope::{ScopeId, ScopeKind};
use crate::repo::syntax::*;
use crate::repo::walk::{Around, Visitor};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// A finding before it is placed: byte offsets, not lines.
pub(super) struct Found {
    pub(super) message: Message,
    pub(super) span: Span,
    /// Another place whose line a comment may silence it on: where the expression begins.
    pub(super) anchor: u32,
    pub(super) text: String,
}

/// What holds for every file of a run.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) builtins: Arc<FxHashSet<Name>>,
    pub(super) stored: Arc<FxHashSet<Name>>,
}

pub(super) struct Inspection<'w, 's> {
    pub(super) world: &'w World<'s>,
    pub(super) file: Arc<File>,
    pub(super) enabled: MessageSet,
    pub(super) found: Vec<Found>,
    /// Names that star imports bring; none when some cannot be known.
    pub(super) stars: Option<FxHashSet<Name>>,
    pub(super) builtins: Arc<FxHashSet<Name>>,
    /// Attributes that some file assigns on something else than its own `self`: whose they are is not
    /// always known.
    pub(super) stored: Arc<FxHashSet<Name>>,
    /// Values of receivers that were asked for already.
    pub(super) values: FxHashMap<ExprId, TySet>,
    /// The list that was asked for last: many findings in a row are about one class.
    pub(super) last_members: Option<(TySet, Option<ClassKey>, Arc<Members>)>,
    /// `from __future__ import annotations`
    pub(super) postpones_annotations: bool,
    /// The interpreter's packages are known, so that a module that is not found is not there.
    pub(super) knows_packages: bool,
}

impl<'w, 's> Inspection<'w, 's> {
    pub(super) fn new(
        world: &'w World<'s>,
        file: Arc<File>,
        enabled: MessageSet,
        shared: &Shared,
    ) -> Self {
        let mut inspection = Self {
            world,
            enabled,
            found: Vec::new(),
            stars: None,
            builtins: shared.builtins.clone(),
            stored: shared.stored.clone(),
            values: FxHashMap::default(),
            last_members: None,
            postpones_annotations: file.is_stub || postpones_annotations(&file),
            knows_packages: world.library().knows_packages(),
            file,
        };
        inspection.stars = inspection.star_names();
        inspection
    }

    fn star_names(&self) -> Option<FxHashSet<Name>> {
        if self.file.scopes.stars.is_empty() {
            return Some(FxHashSet::default());
        }
        self.world.renew();
        let mut members = Members::default();
        self.world.star_members(&self.file, &mut members, 0);
        members.open.is_none().then(|| members.names.into_keys().collect())
    }

    pub(super) fn wants(&self, message: Message) -> bool {
        self.enabled.contains(message)
    }

    pub(super) fn report(&mut self, message: Message, span: Span, anchor: u32, text: String) {
        if self.wants(message) {
            self.found.push(Found { message, span, anchor, text });
        }
    }

    /// What an expression may be; each question has the whole budget.
    pub(super) fn value(&mut self, env: &Env, expr: ExprId) -> TySet {
        if let Some(known) = self.values.get(&expr) {
            return known.clone();
        }
        self.world.renew();
        let found = self.world.expr(env, expr);
        let mut found = self.world.closed_over_vars(&found);
        if self.world.is_late() {
            found.unknown = true;
        }
        self.values.insert(expr, found.clone());
        found
    }

    /// The value when every alternative is known; None is left out, since a test elsewhere may exclude it.
    pub(super) fn sure_value(&mut self, env: &Env, expr: ExprId) -> Option<TySet> {
        let mut value = self.value(env, expr);
        if value.unknown {
            return None;
        }
        value.items.retain(|t| *t != Ty::None);
        let plain = |t: &Ty| !matches!(t, Ty::Var(_) | Ty::Form(_) | Ty::Alias(_));
        (!value.items.is_empty() && value.items.iter().all(plain)).then_some(value)
    }

    /// What may follow the dot on a value, seen from inside a class.
    pub(super) fn members(&mut self, of: &TySet, inside: Option<ClassKey>) -> Arc<Members> {
        if let Some((known, from, members)) = &self.last_members
            && known == of
            && *from == inside
        {
            return members.clone();
        }
        let members = Arc::new(self.world.members(of, inside));
        self.last_members = Some((of.clone(), inside, members.clone()));
        members
    }

    /// The class whose body or methods a scope is in.
    pub(super) fn class_around(&self, scope: ScopeId) -> Option<ClassKey> {
        let mut at = Some(scope);
        while let Some(scope) = at {
            let node = self.file.scopes.scope(scope);
            if let ScopeKind::Class(class) = node.kind {
                return Some(ClassKey::new(self.file.id, class));
            }
            at = node.parent;
        }
        None
    }

    /// What a value is called in a message.
    pub(super) fn described(&self, ty: &Ty) -> String {
        match ty {
            Ty::Instance { class, .. } => {
                format!("instance of '{}'", self.world.class_name(*class))
            }
            Ty::Class { class, .. } => format!("class '{}'", self.world.class_name(*class)),
            Ty::Module(id) => format!("module '{}'", self.world.module(*id).name),
            Ty::Super { .. } => "'super()'".to_owned(),
            Ty::Tuple(_) => "instance of 'tuple'".to_owned(),
            Ty::Function { file, func, receiver } => {
                let name = self.world.file(*file).ast.function(*func).name;
                let what = if receiver.is_some() { "method" } else { "function" };
                format!("{what} '{name}'")
            }
            _ => "value".to_owned(),
        }
    }

    /// The name in an attribute expression.
    pub(super) fn name_span(&self, expr: ExprId) -> Span {
        let span = self.file.ast.expr(expr).span;
        match self.file.ast.kind(expr) {
            ExprKind::Attribute { name, .. } => {
                let len = name.as_str().len() as u32;
                Span { start: span.end.saturating_sub(len).max(span.start), end: span.end }
            }
            _ => span,
        }
    }
}

fn postpones_annotations(file: &File) -> bool {
    file.ast.imports_from.iter().any(|from| {
        from.module.as_str() == "__future__"
            && file.ast.aliases[from.names.range()].iter().any(|a| a.name.as_str() == "annotations")
    })
}

impl Visitor for Inspection<'_, '_> {
    fn load(&mut self, env: &Env, expr: ExprId, around: Around) {
        match self.file.ast.kind(expr) {
            ExprKind::Name(name) if self.wants(Message::UndefinedVariable) => {
                self.check_name(env, expr, name, around);
            }
            ExprKind::Attribute { value, name } if self.wants(Message::NoMember) => {
                self.check_member(env, expr, value, name, around);
            }
            ExprKind::Call { func, args } => self.check_call(env, expr, func, args, around),
            ExprKind::Subscript { value, .. } if self.wants(Message::UnsubscriptableObject) => {
                self.check_subscript(env, value, around);
            }
            _ => {}
        }
    }

    fn iterated(&mut self, env: &Env, expr: ExprId, around: Around) {
        if self.wants(Message::NotAnIterable) {
            self.check_iterable(env, expr, around);
        }
    }

    fn statement(&mut self, env: &Env, stmt: StmtId, around: Around) {
        match self.file.ast.stmt(stmt).kind {
            StmtKind::Import { names } => self.check_import(names, around),
            StmtKind::ImportFrom { from } => self.check_import_from(from, around),
            StmtKind::Assign { value, .. } | StmtKind::AnnAssign { value, .. }
                if self.wants(Message::AssignmentFromNoReturn) =>
            {
                self.check_no_return(env, stmt, value);
            }
            StmtKind::Function(func) => self.check_function(env, func),
            StmtKind::Class(class) => self.check_class(env, class),
            _ => {}
        }
    }
}
