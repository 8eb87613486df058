//! Relations over the whole project that single classes need: subclasses, attributes set from
//! outside, modules that something imports.
//!
//! # Place
//! Read by attributes and members. What depends on one file's text alone is kept with the file.

use super::ty::{ClassKey, Ty};
use super::world::{Env, Tier, World};
use crate::repo::file::{File, FileId};
use crate::repo::name::Name;
use crate::repo::scope::{BindKind, ScopeId};
use crate::repo::syntax::*;
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// A store `receiver.name = value` in some file, on a receiver of a known class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    /// None when the receiver's class is not known: it may be any.
    pub(super) class: Option<ClassKey>,
    pub(super) file: FileId,
    /// Index into [`crate::repo::scope::Scopes::outside_stores`].
    pub(super) index: u32,
    pub(super) name: Name,
}

/// Subclasses of one class that are looked at.
const SUBCLASSES_MAX: usize = 200;

#[derive(Default)]
pub(super) struct Relations {
    /// Files whose stores are being looked at.
    busy: std::cell::RefCell<FxHashSet<FileId>>,
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

    /// Attributes set on instances of a class, or of its bases, from outside: in the class's own module
    /// and in modules that import it.
    pub(super) fn sites_of(&self, class: ClassKey) -> Arc<[Site]> {
        self.rest_on(Tier::Project);
        if let Some(known) = self.tiers.borrow_mut().at(Tier::Project).sites_of.get(&class) {
            return known.clone();
        }
        let mro = self.mro(class);
        let mut out = Vec::new();
        let mut seen: FxHashSet<FileId> = FxHashSet::default();
        let mut is_final = true;
        for entry in mro.entries.iter().filter(|e| !e.class.file.is_library()) {
            let module = self.file(entry.class.file).module_name;
            for file in self.project_files() {
                if file.scopes.outside_stores().is_empty()
                    || seen.contains(&file.id)
                    || !(file.id == entry.class.file || imports_part_of(&file, module))
                {
                    continue;
                }
                seen.insert(file.id);
                is_final &= !self.relations.busy.borrow().contains(&file.id);
                let sites = self.sites_in(&file);
                let fits = |s: &&Site| match s.class {
                    Some(class) => mro.entries.iter().any(|e| e.class == class),
                    None => true,
                };
                out.extend(sites.iter().filter(fits));
            }
        }
        let out: Arc<[Site]> = out.into();
        if is_final && !self.truncated.get() {
            self.tiers.borrow_mut().at(Tier::Project).sites_of.insert(class, out.clone());
        }
        out
    }

    fn sites_in(&self, file: &Arc<File>) -> Arc<[Site]> {
        match &self.overlay {
            Some(overlay) if overlay.id != file.id => self.plain_sites(file, overlay),
            _ => self.find_sites(file),
        }
    }

    /// The stores of a file that is not being written, as they are without what is: found once for
    /// all the functions that are written.
    fn plain_sites(&self, file: &Arc<File>, overlay: &File) -> Arc<[Site]> {
        let known = self.plain.borrow_mut().at(Tier::Project).sites.get(&file.id).cloned();
        let sites = known.unwrap_or_else(|| self.in_plain_world(|world| world.find_sites(file)));
        let names_overlay = |s: &Site| s.class.is_some_and(|c| c.file == overlay.id);
        if !sites.iter().any(names_overlay) {
            return sites;
        }
        let moved = sites.iter().filter_map(|site| match site.class {
            Some(class) if class.file == overlay.id => {
                Some(Site { class: Some(self.in_overlay(class, overlay)?), ..*site })
            }
            _ => Some(*site),
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

    fn find_sites(&self, file: &Arc<File>) -> Arc<[Site]> {
        if let Some(known) = self.tiers.borrow_mut().at(Tier::Project).sites.get(&file.id) {
            return known.clone();
        }
        if !self.relations.busy.borrow_mut().insert(file.id) {
            self.not_final();
            return Arc::from([]);
        }
        let sites: Arc<[Site]> = self.apart(|| {
            let mut sites = Vec::new();
            for (index, store) in file.scopes.outside_stores().iter().enumerate() {
                if !self.step() {
                    break;
                }
                let env = Env::new(file.clone(), store.scope);
                let receiver = self.expr(&env, store.receiver);
                let site =
                    |class| Site { class, file: file.id, index: index as u32, name: store.name };
                if receiver.items.iter().all(|t| matches!(t, Ty::Var(_) | Ty::None)) {
                    sites.push(site(None));
                }
                for ty in &receiver.items {
                    if let Ty::Instance { class, .. } | Ty::Class { class, .. } = ty {
                        sites.push(site(Some(*class)));
                    }
                }
            }
            sites.into()
        });
        self.relations.busy.borrow_mut().remove(&file.id);
        if !self.truncated.get() {
            self.tiers.borrow_mut().at(Tier::Project).sites.insert(file.id, sites.clone());
        }
        sites
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
