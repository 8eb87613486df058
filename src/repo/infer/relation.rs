//! Relations over the whole project that single classes need: subclasses, attributes set from
//! outside, modules that something imports.
//!
//! # Place
//! Read by attributes and members. What depends on one file's text alone is kept with the file.

use super::ty::{ClassKey, Ty};
use super::world::{Env, Tier, World};
use crate::repo::file::{File, FileId};
use crate::repo::name::Name;
use crate::repo::scope::{AttrStore, BindKind, ScopeId};
use crate::repo::syntax::*;
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// The classes that the receiver of a store may be of; none stands for any class.
pub(crate) type Receivers = Arc<[Option<ClassKey>]>;

/// A store outside the methods of classes: file and index into
/// [`crate::repo::scope::Scopes::outside_stores`].
pub(crate) type StoreKey = (FileId, u32);

/// Subclasses of one class that are looked at.
const SUBCLASSES_MAX: usize = 200;

#[derive(Default)]
pub(super) struct Relations {
    /// Stores whose receivers are being looked at.
    busy: std::cell::RefCell<FxHashSet<StoreKey>>,
}

impl World<'_> {
    /// The project's classes that derive from a class, directly or not.
    pub(crate) fn subclasses(&self, class: ClassKey) -> Arc<[ClassKey]> {
        self.rest_on(Tier::Project);
        if let Some(known) = self.tiers.borrow_mut().at(Tier::Project).subclasses.get(&class) {
            return known.clone();
        }
        let mut found: Vec<ClassKey> = Vec::new();
        let mut queue = vec![class];
        while let Some(next) = queue.pop() {
            let name = self.class_name(next);
            for file in self.project_files() {
                let relations = file.relations();
                let from = relations.bases.partition_point(|(n, _)| *n < name);
                for &(base, sub) in &relations.bases[from..] {
                    if base != name {
                        break;
                    }
                    let sub = ClassKey::new(file.id, sub);
                    if sub != class && !found.contains(&sub) && self.is_subclass(sub, next) {
                        found.push(sub);
                        queue.push(sub);
                    }
                }
            }
            if found.len() >= SUBCLASSES_MAX || !self.step() {
                break;
            }
        }
        let found: Arc<[ClassKey]> = found.into();
        if !self.truncated.get() {
            self.tiers.borrow_mut().at(Tier::Project).subclasses.insert(class, found.clone());
        }
        found
    }

    /// The classes of the same library file that derive from a class, directly or not.
    pub(super) fn subclasses_beside(&self, class: ClassKey) -> Vec<ClassKey> {
        let file = self.file(class.file);
        let bases = &file.relations().bases;
        let mut found: Vec<ClassKey> = Vec::new();
        let mut queue = vec![class];
        while let Some(next) = queue.pop() {
            let name = self.class_name(next);
            let from = bases.partition_point(|(n, _)| *n < name);
            for &(_, sub) in bases[from..].iter().take_while(|(n, _)| *n == name) {
                let sub = ClassKey::new(file.id, sub);
                if sub != class && !found.contains(&sub) && found.len() < SUBCLASSES_MAX {
                    found.push(sub);
                    queue.push(sub);
                }
            }
        }
        found
    }

    /// Visit the stores `receiver.name = value` with a wanted name whose receiver may be an instance of
    /// a class or of its bases: in the class's own module, in modules that import it or its package, and
    /// in the function being written. The flag says that the receiver's class is known.
    pub(super) fn each_store(
        &self,
        class: ClassKey,
        wanted: &dyn Fn(Name) -> bool,
        visit: &mut dyn FnMut(&Arc<File>, &AttrStore, bool),
    ) {
        let mro = self.mro(class);
        for &id in self.files_with_stores(class).iter() {
            let file = self.file(id);
            for (index, store) in file.scopes.outside_stores().iter().enumerate() {
                if !wanted(store.name) || !self.step() {
                    continue;
                }
                let receivers = self.receivers(&file, index as u32);
                let is_ours = |c: &Option<ClassKey>| match c {
                    Some(class) => mro.entries.iter().any(|e| e.class == *class),
                    None => true,
                };
                if let Some(receiver) = receivers.iter().find(|c| is_ours(c)) {
                    visit(&file, store, receiver.is_some());
                }
            }
        }
    }

    /// Files that may set attributes on instances of a class.
    fn files_with_stores(&self, class: ClassKey) -> Arc<[FileId]> {
        self.rest_on(Tier::Project);
        let known = self.tiers.borrow_mut().at(Tier::Project).store_files.get(&class).cloned();
        let files = known.unwrap_or_else(|| {
            let mro = self.mro(class);
            let own = mro.entries.iter().filter(|e| !e.class.file.is_library());
            let modules: Vec<(FileId, Name)> =
                own.map(|e| (e.class.file, self.file(e.class.file).module_name)).collect();
            let reaches = |file: &Arc<File>| {
                !file.scopes.outside_stores().is_empty()
                    && modules.iter().any(|(id, m)| file.id == *id || imports_part_of(file, *m))
            };
            let found: Arc<[FileId]> = self.project_files().filter(reaches).map(|f| f.id).collect();
            if !self.truncated.get() {
                let mut tiers = self.tiers.borrow_mut();
                tiers.at(Tier::Project).store_files.insert(class, found.clone());
            }
            found
        });
        match &self.fragment {
            Some(written) if !written.file.scopes.outside_stores().is_empty() => {
                files.iter().copied().chain([FileId::FRAGMENT]).collect()
            }
            _ => files,
        }
    }

    fn receivers(&self, file: &Arc<File>, index: u32) -> Receivers {
        match &self.overlay {
            Some(overlay) if overlay.id != file.id && file.id != FileId::FRAGMENT => {
                self.plain_receivers(file, index, overlay)
            }
            _ => self.find_receivers(file, index),
        }
    }

    /// The receivers in a file that is not being written, as they are without what is: found once for
    /// all the functions that are written.
    fn plain_receivers(&self, file: &Arc<File>, index: u32, overlay: &File) -> Receivers {
        let key = (file.id, index);
        let known = self.plain.borrow_mut().at(Tier::Project).receivers.get(&key).cloned();
        let found =
            known.unwrap_or_else(|| self.in_plain_world(|world| world.find_receivers(file, index)));
        let names_overlay = |c: &Option<ClassKey>| c.is_some_and(|c| c.file == overlay.id);
        if !found.iter().any(names_overlay) {
            return found;
        }
        let moved = found.iter().filter_map(|class| match class {
            Some(class) if class.file == overlay.id => self.in_overlay(*class, overlay).map(Some),
            _ => Some(*class),
        });
        moved.collect()
    }

    /// The class of the text being written that stands for one of the file as it was.
    fn in_overlay(&self, class: ClassKey, overlay: &File) -> Option<ClassKey> {
        let id = class.class()?;
        let before = self.snapshot.files.get(overlay.id.0 as usize)?.as_ref()?;
        let name = before.ast.class(id).name;
        let classes = &overlay.ast.classes;
        let at = match classes.get(id.0 as usize) {
            Some(same) if same.name == name => id.0,
            _ => classes.iter().position(|c| c.name == name)? as u32,
        };
        Some(ClassKey::new(overlay.id, ClassId(at)))
    }

    fn find_receivers(&self, file: &Arc<File>, index: u32) -> Receivers {
        let (key, tier) = ((file.id, index), Tier::of(file.id).max(Tier::Project));
        if let Some(known) = self.tiers.borrow_mut().at(tier).receivers.get(&key) {
            return known.clone();
        }
        let Some(store) = file.scopes.outside_stores().get(index as usize) else {
            return Arc::from([]);
        };
        if !self.relations.busy.borrow_mut().insert(key) {
            self.not_final();
            return Arc::from([]);
        }
        let found: Receivers = self.apart(|| {
            let env = Env::new(file.clone(), store.scope);
            let receiver = self.expr(&env, store.receiver);
            let any = receiver.items.iter().all(|t| matches!(t, Ty::Var(_) | Ty::None));
            let classes = receiver.items.iter().filter_map(|ty| match ty {
                Ty::Instance { class, .. } | Ty::Class { class, .. } => Some(Some(*class)),
                _ => None,
            });
            classes.chain(any.then_some(None)).collect()
        });
        self.relations.busy.borrow_mut().remove(&key);
        // A receiver outside of what is being written has a budget of its own: one that exhausts it would
        // exhaust it again at every question.
        let is_outside = self.overlay.is_none() && self.fragment.is_none();
        if !self.truncated.get() || (is_outside && self.ran_out_of_steps()) {
            self.tiers.borrow_mut().at(tier).receivers.insert(key, found.clone());
        }
        found
    }

    /// Does some import statement of the project, or of a library file read so far, load a module?
    pub(super) fn is_imported(&self, module: Name) -> bool {
        self.rest_on(Tier::Project);
        self.snapshot.imports(module)
            || self.overlay.as_ref().is_some_and(|f| f.imports(module))
            || self.library().imports(module)
    }
}

/// Does a file import a module or a package around it, through which the module may be reached?
fn imports_part_of(file: &File, module: Name) -> bool {
    let mut text = module.as_str();
    loop {
        if Name::lookup(text).is_some_and(|n| file.imports(n)) {
            return true;
        }
        match text.rsplit_once('.') {
            Some((package, _)) => text = package,
            None => return false,
        }
    }
}

/// What other files need to know of a file, found in its own text.
#[derive(Default)]
pub(crate) struct FileRelations {
    /// Last names of bases with the classes that have them, sorted.
    pub(crate) bases: Vec<(Name, ClassId)>,
    /// Modules that its import statements load, and names that may be modules.
    pub(crate) imported: FxHashSet<Name>,
}

impl FileRelations {
    pub(crate) fn of(file: &File) -> Self {
        let mut out = Self::default();
        for (i, node) in file.ast.classes.iter().enumerate() {
            for arg in file.ast.args(node.args) {
                if arg.kind == ArgKind::Positional
                    && let Some(name) = base_name(&file.ast, arg.value)
                {
                    // A base may be imported under another name.
                    out.bases.push((original_name(file, name), ClassId(i as u32)));
                }
            }
        }
        out.bases.sort_unstable();
        let imported = &mut out.imported;
        let mut add = |name: Name| {
            // Importing a.b.c loads a.b too.
            let mut text = name.as_str();
            while imported.insert(Name::new(text)) {
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
                        // The name may be a module or not: one that is none is never looked up.
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
        out
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
