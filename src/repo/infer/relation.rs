//! Relations over the whole project that single classes need: subclasses, attributes set from
//! outside, modules that something imports.
//!
//! # Place
//! Read by attributes and members. Found once per question at first need, from the scopes of all files.

use super::ty::{ClassKey, Ty};
use super::world::{Env, World};
use crate::repo::file::{File, FileId};
use crate::repo::name::Name;
use crate::repo::scope::{BindKind, ScopeId};
use crate::repo::syntax::*;
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;

/// A store `receiver.name = value` in some file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site {
    pub(super) file: FileId,
    /// Index into [`crate::repo::scope::Scopes::outside_stores`].
    pub(super) index: usize,
    pub(super) name: Name,
}

pub(super) type Sites = FxHashMap<ClassKey, Vec<Site>>;

#[derive(Default)]
pub(super) struct Relations {
    /// Project classes by the last name of each of their bases.
    by_base: std::cell::OnceCell<FxHashMap<Name, Vec<ClassKey>>>,
    subclasses: std::cell::RefCell<FxHashMap<ClassKey, Rc<[ClassKey]>>>,
    sites: std::cell::OnceCell<Rc<Sites>>,
    sites_busy: std::cell::Cell<bool>,
    imported: std::cell::OnceCell<FxHashSet<Name>>,
}

/// Subclasses of one class that are looked at.
const SUBCLASSES_MAX: usize = 200;

impl World<'_> {
    /// The project's classes that derive from a class, directly or not.
    pub(crate) fn subclasses(&self, class: ClassKey) -> Rc<[ClassKey]> {
        if let Some(known) = self.relations.subclasses.borrow().get(&class) {
            return known.clone();
        }
        let by_base = self.relations.by_base.get_or_init(|| {
            let mut map: FxHashMap<Name, Vec<ClassKey>> = FxHashMap::default();
            for file in self.project_files() {
                for (i, node) in file.ast.classes.iter().enumerate() {
                    for arg in file.ast.args(node.args) {
                        if arg.kind == ArgKind::Positional
                            && let Some(name) = base_name(&file.ast, arg.value)
                        {
                            // A base may be imported under another name.
                            let name = original_name(&file, name);
                            map.entry(name).or_default().push(ClassKey::new(file.id, ClassId(i as u32)));
                        }
                    }
                }
            }
            map
        });
        let mut found: Vec<ClassKey> = Vec::new();
        let mut queue = vec![class];
        while let Some(next) = queue.pop() {
            for &sub in by_base.get(&self.class_name(next)).into_iter().flatten() {
                if sub != class && !found.contains(&sub) && self.is_subclass(sub, next) {
                    found.push(sub);
                    queue.push(sub);
                }
            }
            if found.len() >= SUBCLASSES_MAX || !self.step() {
                break;
            }
        }
        let found: Rc<[ClassKey]> = found.into();
        self.relations.subclasses.borrow_mut().insert(class, found.clone());
        found
    }

    /// Attributes set on instances from outside their classes, by class.
    pub(super) fn outside_stores(&self) -> Rc<Sites> {
        if let Some(known) = self.relations.sites.get() {
            return known.clone();
        }
        if self.relations.sites_busy.replace(true) {
            return Rc::default();
        }
        let mut sites: Sites = FxHashMap::default();
        for file in self.project_files() {
            for (index, store) in file.scopes.outside_stores().iter().enumerate() {
                if !self.step() {
                    break;
                }
                let env = Env::new(file.clone(), store.scope);
                let receiver = self.expr(&env, store.receiver);
                for ty in &receiver.items {
                    let class = match ty {
                        Ty::Instance { class, .. } | Ty::Class { class, .. } => *class,
                        _ => continue,
                    };
                    sites.entry(class).or_default().push(Site { file: file.id, index, name: store.name });
                }
            }
        }
        self.relations.sites_busy.set(false);
        let sites = Rc::new(sites);
        let _ = self.relations.sites.set(sites.clone());
        sites
    }

    /// Modules that some import statement of the project, or of a library file read so far, loads.
    pub(super) fn imported_modules(&self) -> &FxHashSet<Name> {
        self.relations.imported.get_or_init(|| {
            let mut found = FxHashSet::default();
            for file in self.project_files() {
                Self::add_imports(&file, &mut found);
            }
            let n = self.library().n_files();
            for i in 0..n {
                Self::add_imports(&self.library().file(i), &mut found);
            }
            found
        })
    }

    fn add_imports(file: &File, found: &mut FxHashSet<Name>) {
        let mut add = |name: Name| {
            // Importing a.b.c loads a.b too.
            let mut text = name.as_str();
            while found.insert(Name::new(text)) {
                match text.rsplit_once('.') {
                    Some((parent, _)) => text = parent,
                    None => return,
                }
            }
        };
        for binding in &file.scopes.bindings {
            match binding.kind {
                BindKind::Import { alias } => add(file.ast.aliases[alias as usize].name),
                BindKind::ImportFrom { from, alias } => {
                    let from = &file.ast.imports_from[from as usize];
                    let last = file.ast.aliases[alias as usize].name;
                    match file.absolute(from.level, from.module) {
                        Some(Name::EMPTY) => add(last),
                        // The name may be a module or not: a name that is none is never looked up here.
                        Some(base) => add(Name::new(&format!("{base}.{last}"))),
                        None => {}
                    }
                }
                _ => {}
            }
        }
        for &star in &file.scopes.stars {
            let from = &file.ast.imports_from[star as usize];
            if let Some(base) = file.absolute(from.level, from.module) {
                add(base);
            }
        }
    }
}

fn base_name(ast: &Ast, expr: ExprId) -> Option<Name> {
    match ast.kind(expr) {
        ExprKind::Name(name) | ExprKind::Attribute { name, .. } => Some(name),
        ExprKind::Subscript { value, .. } => base_name(ast, value),
        _ => None,
    }
}

fn original_name(file: &File, name: Name) -> Name {
    for b in file.scopes.of(ScopeId::MODULE, name) {
        if let BindKind::ImportFrom { alias, .. } = b.kind {
            return file.ast.aliases[alias as usize].name;
        }
    }
    name
}
