//! One question's view of the project: the snapshot, the text being written, and what is known so far.
//!
//! # Place
//! The root of inference: everything else in this folder adds methods to [`World`].

use super::DEPTH_MAX;
use super::class::{Mro, Own};
use super::literal::Literals;
use super::module::AllNames;
use super::relation::{Receivers, StoreKey};
use super::ty::{ClassKey, Ty, TySet, Var};
use crate::repo::file::{File, FileId, Module, ModuleId};
use crate::repo::library::Library;
use crate::repo::name::Name;
use crate::repo::project::Snapshot;
use crate::repo::scope::{BindKind, ScopeId, ScopeKind};
use crate::repo::syntax::{Clause, ExprFrame, ExprId, FuncId, Run};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Instant;

/// Expressions and bindings looked at for one question.
const STEPS_MAX: u32 = 60_000;
/// Rounds of a recursive definition before it is given up.
const ROUNDS_MAX: u32 = 4;

/// What a memoised question is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Key {
    /// A binding: file, scope, position; the class of `self`.
    Binding(FileId, ScopeId, Name, u32, Option<ClassKey>),
    /// All bindings of a name in a scope, at its end.
    Exit(FileId, ScopeId, Name, Option<ClassKey>),
    Return(FileId, FuncId, Option<ClassKey>),
    /// The attribute of an instance or a class.
    Attribute(ClassKey, Name, bool, ClassKey),
    Module(ModuleId, Name),
    /// A parameter without annotation, by its place.
    Evidence(FileId, u32),
    /// A function as its decorators leave it.
    Decorated(FileId, FuncId),
}

impl Key {
    /// The tier of the file that the question is about.
    fn tier(self) -> Tier {
        match self {
            Self::Binding(file, _, _, _, receiver) | Self::Exit(file, _, _, receiver) => {
                let receiver = receiver.map_or(Tier::Library, |class| Tier::of(class.file));
                receiver.max(Tier::of(file))
            }
            Self::Decorated(file, _) | Self::Evidence(file, _) => Tier::of(file),
            Self::Attribute(class, ..) => Tier::of(class.file),
            Self::Return(file, _, receiver) => {
                let receiver = receiver.map_or(Tier::Library, |class| Tier::of(class.file));
                receiver.max(Tier::of(file))
            }
            Self::Module(module, _) => match module.library_index() {
                Some(_) => Tier::Library,
                None => Tier::Project,
            },
        }
    }
}

/// Answers that outlive a question, as long as what they rest on does not change.
#[derive(Default)]
pub(crate) struct Caches {
    done: FxHashMap<Key, TySet>,
    mros: FxHashMap<ClassKey, Arc<Mro>>,
    owns: FxHashMap<ClassKey, Arc<Own>>,
    classes: FxHashMap<(Name, Name), Option<ClassKey>>,
    vars: FxHashMap<ClassKey, Arc<[Var]>>,
    pub(super) subclasses: FxHashMap<ClassKey, Arc<[ClassKey]>>,
    pub(super) receivers: FxHashMap<StoreKey, Receivers>,
    pub(super) store_files: FxHashMap<ClassKey, Arc<[FileId]>>,
    all_names: FxHashMap<FileId, Arc<AllNames>>,
    literals: FxHashMap<(FileId, ExprId), Option<Literals>>,
}

/// What an answer rests on, the least lasting last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Tier {
    Library,
    Project,
    /// The function being written.
    Fragment,
}

impl Tier {
    pub(super) fn of(file: FileId) -> Self {
        match file {
            FileId::FRAGMENT => Self::Fragment,
            id if id.is_library() => Self::Library,
            _ => Self::Project,
        }
    }
}

/// The caches of the three tiers.
#[derive(Default)]
pub(super) struct Tiers {
    tiers: [Caches; 3],
}

impl Tiers {
    /// The project changed.
    fn forget_project(&mut self) {
        self.tiers[Tier::Project as usize] = Caches::default();
        self.forget_fragment();
    }

    /// The function being written changed.
    fn forget_fragment(&mut self) {
        self.tiers[Tier::Fragment as usize] = Caches::default();
    }

    fn find<T>(&self, look: impl Fn(&Caches) -> Option<T>) -> Option<(T, Tier)> {
        [Tier::Fragment, Tier::Project, Tier::Library]
            .into_iter()
            .find_map(|tier| look(&self.tiers[tier as usize]).map(|found| (found, tier)))
    }

    pub(super) fn at(&mut self, tier: Tier) -> &mut Caches {
        &mut self.tiers[tier as usize]
    }
}

/// What is known from earlier questions.
#[derive(Default)]
pub(crate) struct Known {
    tiers: Tiers,
    plain: Tiers,
}

impl Known {
    /// The function being written is another one, or its file is.
    pub(crate) fn forget_overlay(&mut self) {
        self.tiers.forget_project();
    }

    /// The project changed.
    pub(crate) fn forget_project(&mut self) {
        self.tiers.forget_project();
        self.plain.forget_project();
    }

    /// The function being written changed.
    pub(crate) fn forget_fragment(&mut self) {
        self.tiers.forget_fragment();
    }
}

/// Questions being answered, with the answer assumed so far, whether it was used, and their level.
type OpenQuestions = FxHashMap<Key, (TySet, bool, u32)>;

pub(crate) struct World<'s> {
    pub(crate) snapshot: &'s Snapshot,
    /// A file whose text is being written; takes the place of the snapshot's.
    pub(super) overlay: Option<Arc<File>>,
    /// The function of that file that is being written, and the class whose method it is.
    pub(super) fragment: Option<Fragment>,
    pub(super) tiers: RefCell<Tiers>,
    /// What is known of the project without the text being written.
    pub(super) plain: RefCell<Tiers>,
    open: RefCell<OpenQuestions>,
    /// What the answer being worked out rests on so far.
    resting_on: Cell<Tier>,
    mros_open: RefCell<FxHashSet<ClassKey>>,
    steps: Cell<u32>,
    depth: Cell<u32>,
    /// Lowest nesting level whose assumed answer was used since.
    lowest: Cell<u32>,
    level: Cell<u32>,
    deadline: Option<Instant>,
    late: Cell<bool>,
    /// The address that the stack must not grow down to.
    stack_floor: usize,
    out_of_stack: Cell<bool>,
    /// Some bound was hit.
    pub(super) truncated: Cell<bool>,
    pub(super) relations: super::relation::Relations,
}

/// A function that is parsed apart from its file.
#[derive(Clone)]
pub(crate) struct Fragment {
    pub(crate) file: Arc<File>,
    pub(crate) class: Option<ClassKey>,
    /// Attributes that it sets through `self`.
    pub(crate) stored: FxHashSet<Name>,
}

/// Where an expression is read.
#[derive(Clone)]
pub(crate) struct Env {
    pub(crate) file: Arc<File>,
    pub(crate) scope: ScopeId,
    /// The class of `self` when a method is read for a subclass.
    pub(crate) receiver: Option<ClassKey>,
    /// Comprehensions and lambdas around the expression.
    pub(crate) frames: Option<Arc<Frame>>,
    /// Conditions that hold where the expression stands inside a larger one.
    pub(crate) guards: Option<Arc<Guard>>,
}

/// A condition that was evaluated before an expression, as in `test and expression`.
pub(crate) struct Guard {
    pub(super) test: ExprId,
    pub(super) holds: bool,
    pub(super) outer: Option<Arc<Guard>>,
}

/// A scope inside an expression.
pub(crate) struct Frame {
    pub(crate) kind: FrameKind,
    pub(crate) parent: Option<Arc<Frame>>,
}

pub(crate) enum FrameKind {
    Comp(Vec<Clause>),
    Lambda { params: Run, args: Vec<TySet> },
}

impl Env {
    pub(crate) fn new(file: Arc<File>, scope: ScopeId) -> Self {
        Self { file, scope, receiver: None, frames: None, guards: None }
    }

    pub(crate) fn in_scope(&self, scope: ScopeId) -> Self {
        Self { file: self.file.clone(), scope, receiver: self.receiver, frames: None, guards: None }
    }

    pub(crate) fn with_receiver(mut self, receiver: Option<ClassKey>) -> Self {
        self.receiver = receiver;
        self
    }

    /// The same, from what the parser noted around the cursor.
    pub(crate) fn with_expr_frame(&self, frame: &ExprFrame) -> Self {
        self.with_frame(match frame {
            ExprFrame::Comp { clauses } => FrameKind::Comp(clauses.clone()),
            ExprFrame::Lambda { params } => FrameKind::Lambda { params: *params, args: Vec::new() },
        })
    }

    /// The same, where a test is known to hold or not to.
    pub(crate) fn with_guard(&self, test: ExprId, holds: bool) -> Self {
        let mut env = self.clone();
        env.guards = Some(Arc::new(Guard { test, holds, outer: self.guards.clone() }));
        env
    }

    pub(crate) fn with_frame(&self, kind: FrameKind) -> Self {
        let mut env = self.clone();
        env.frames = Some(Arc::new(Frame { kind, parent: self.frames.clone() }));
        env
    }
}

impl<'s> World<'s> {
    pub(crate) fn new(
        snapshot: &'s Snapshot,
        overlay: Option<Arc<File>>,
        deadline: Option<Instant>,
    ) -> Self {
        Self {
            snapshot,
            overlay,
            fragment: None,
            tiers: RefCell::default(),
            plain: RefCell::default(),
            open: RefCell::default(),
            resting_on: Cell::new(Tier::Library),
            mros_open: RefCell::default(),
            steps: Cell::new(0),
            depth: Cell::new(0),
            lowest: Cell::new(u32::MAX),
            level: Cell::new(0),
            deadline,
            late: Cell::new(false),
            stack_floor: 0,
            out_of_stack: Cell::new(false),
            truncated: Cell::new(false),
            relations: super::relation::Relations::default(),
        }
    }

    /// With the function being written, and answers from earlier questions.
    pub(crate) fn resume(mut self, fragment: Option<Fragment>, known: Known) -> Self {
        self.fragment = fragment;
        self.tiers = RefCell::new(known.tiers);
        self.plain = RefCell::new(known.plain);
        self
    }

    /// Using at most so much stack from here on.
    pub(crate) fn within_stack(mut self, bytes_max: usize) -> Self {
        self.stack_floor = stack_address().saturating_sub(bytes_max);
        self
    }

    pub(crate) fn ran_out_of_stack(&self) -> bool {
        self.out_of_stack.get()
    }

    /// The answers, for the next question.
    pub(crate) fn into_known(self) -> Known {
        Known { tiers: self.tiers.into_inner(), plain: self.plain.into_inner() }
    }

    /// Ask of the project as it is without the text being written; what is found stays known.
    pub(super) fn in_plain_world<T>(&self, question: impl FnOnce(&World<'s>) -> T) -> T {
        let mut tiers = self.plain.take();
        // The library is the same for both.
        std::mem::swap(tiers.at(Tier::Library), self.tiers.borrow_mut().at(Tier::Library));
        let mut world = World::new(self.snapshot, None, self.deadline)
            .resume(None, Known { tiers, plain: Tiers::default() });
        world.stack_floor = self.stack_floor;
        world.depth.set(self.depth.get());
        let found = question(&world);
        let is_cut = world.late.get() || world.out_of_stack.get();
        self.late.set(self.late.get() || world.late.get());
        self.out_of_stack.set(self.out_of_stack.get() || world.out_of_stack.get());
        self.truncated.set(self.truncated.get() || is_cut);
        let mut tiers = world.into_known().tiers;
        std::mem::swap(tiers.at(Tier::Library), self.tiers.borrow_mut().at(Tier::Library));
        self.plain.replace(tiers);
        found
    }

    /// The answers being worked out rest on something unfinished: they are not kept.
    pub(super) fn not_final(&self) {
        self.lowest.set(0);
    }

    /// Work something out whose unfinished parts do not concern the answers being worked out.
    pub(super) fn apart<T>(&self, question: impl FnOnce() -> T) -> T {
        let outer = self.lowest.replace(u32::MAX);
        let found = question();
        self.lowest.set(outer);
        found
    }

    /// Begin another question: it has the whole budget.
    pub(crate) fn renew(&self) {
        self.steps.set(0);
        self.truncated.set(false);
        self.out_of_stack.set(false);
        self.resting_on.set(Tier::Library);
    }

    pub(super) fn rest_on(&self, tier: Tier) {
        if tier > self.resting_on.get() {
            self.resting_on.set(tier);
        }
    }

    pub(crate) fn library(&self) -> &'s Library {
        &self.snapshot.library
    }

    /// The deadline passed while answering.
    pub(crate) fn is_late(&self) -> bool {
        self.late.get()
    }

    pub(crate) fn file(&self, id: FileId) -> Arc<File> {
        if let Some(index) = id.library_index() {
            return self.library().file(index);
        }
        self.rest_on(Tier::of(id));
        if id == FileId::FRAGMENT
            && let Some(fragment) = &self.fragment
        {
            return fragment.file.clone();
        }
        if let Some(overlay) = &self.overlay
            && overlay.id == id
        {
            return overlay.clone();
        }
        self.snapshot.files[id.0 as usize]
            .clone()
            .expect("ids of files are only made for files that exist")
    }

    pub(crate) fn project_files(&self) -> impl Iterator<Item = Arc<File>> + '_ {
        self.rest_on(Tier::Project);
        self.snapshot.files.iter().flatten().map(|f| match &self.overlay {
            Some(overlay) if overlay.id == f.id => overlay.clone(),
            _ => f.clone(),
        })
    }

    pub(crate) fn module(&self, id: ModuleId) -> Arc<Module> {
        match id.library_index() {
            Some(index) => self.library().module(index),
            None => Arc::new(self.snapshot.modules.entries[id.0 as usize].clone()),
        }
    }

    /// The file whose names a module has, and its source when that is another one.
    pub(crate) fn module_files(&self, id: ModuleId) -> (Option<Arc<File>>, Option<Arc<File>>) {
        let module = self.module(id);
        let source = module.source.map(|f| self.file(f));
        match module.stub {
            Some(stub) => (Some(self.file(stub)), source),
            None => (source, None),
        }
    }

    /// Find a module: the project's first.
    pub(crate) fn resolve_module(&self, name: Name) -> Option<ModuleId> {
        let table = &self.snapshot.modules;
        if let Some(&id) = table.by_name.get(&name) {
            self.rest_on(Tier::Project);
            return Some(id);
        }
        let text = name.as_str();
        let top = Name::lookup(text.split('.').next().unwrap_or(text))?;
        if let Some(&top) = table.by_name.get(&top) {
            // A regular package of the project hides an installed one; a namespace may go on there.
            let module = &table.entries[top.0 as usize];
            if module.file().is_some() {
                return None;
            }
        }
        self.library().resolve(name)
    }

    /// One unit of work; false when the budget or the time is used up.
    pub(super) fn step(&self) -> bool {
        let n = self.steps.get() + 1;
        self.steps.set(n);
        if n > STEPS_MAX {
            self.truncated.set(true);
            return false;
        }
        if n & 0xff == 0
            && let Some(deadline) = self.deadline
            && Instant::now() >= deadline
        {
            self.late.set(true);
        }
        if self.late.get() {
            self.truncated.set(true);
            return false;
        }
        true
    }

    /// The budget is used up, and nothing else was the matter: asked again, it would be so again.
    pub(super) fn ran_out_of_steps(&self) -> bool {
        self.steps.get() > STEPS_MAX && !self.late.get() && !self.out_of_stack.get()
    }

    /// Go one level deeper, or give up.
    pub(super) fn deeper(&self, question: impl FnOnce() -> TySet) -> TySet {
        let depth = self.depth.get();
        if stack_address() < self.stack_floor {
            self.out_of_stack.set(true);
        }
        if depth >= DEPTH_MAX || self.out_of_stack.get() || !self.step() {
            self.truncated.set(true);
            return TySet::unknown();
        }
        self.depth.set(depth + 1);
        let found = question();
        self.depth.set(depth);
        found
    }

    /// Answer a question once. A question met again while it is being answered gets the answer assumed
    /// so far, and is asked again until the assumption holds.
    pub(super) fn memo(&self, key: Key, question: impl Fn() -> TySet) -> TySet {
        let only_here = matches!((key, &self.fragment), (Key::Attribute(_, name, ..), Some(f)) if f.stored.contains(&name));
        if let Some((known, tier)) = self.tiers.borrow().find(|c| c.done.get(&key).cloned())
            && (!only_here || tier == Tier::Fragment)
        {
            self.rest_on(tier);
            return known;
        }
        if let Some((assumed, used, level)) = self.open.borrow_mut().get_mut(&key) {
            *used = true;
            self.lowest.set(self.lowest.get().min(*level));
            return assumed.clone();
        }
        let level = self.level.get() + 1;
        self.level.set(level);
        let outer_lowest = self.lowest.replace(u32::MAX);
        let outer_tier =
            self.resting_on.replace(if only_here { Tier::Fragment } else { Tier::Library });
        let mut assumed = TySet::empty();
        let mut round = 0;
        let found = loop {
            self.open.borrow_mut().insert(key, (assumed.clone(), false, level));
            self.lowest.set(u32::MAX);
            let found = self.deeper(&question);
            let used = self.open.borrow_mut().remove(&key).is_some_and(|(_, used, _)| used);
            if !used || found.within(&assumed) {
                break found;
            }
            round += 1;
            if round >= ROUNDS_MAX || found.depth() > 6 {
                break found.with_unknown();
            }
            assumed.join(found);
        };
        self.level.set(level - 1);
        let lowest = self.lowest.get();
        let tier = self.resting_on.get().max(key.tier());
        // An answer that rests on an unfinished question further out is not final.
        if lowest >= level && !self.truncated.get() {
            self.tiers.borrow_mut().at(tier).done.insert(key, found.clone());
        }
        let passed_on = if lowest < level { lowest } else { u32::MAX };
        self.lowest.set(outer_lowest.min(passed_on));
        self.resting_on.set(outer_tier.max(tier));
        found
    }

    /// The type variables of a class, found once.
    pub(super) fn cached_vars(
        &self,
        class: ClassKey,
        find: impl FnOnce() -> Arc<[Var]>,
    ) -> Arc<[Var]> {
        let tier = Tier::of(class.file);
        self.rest_on(tier);
        if let Some(known) = self.tiers.borrow_mut().at(tier).vars.get(&class) {
            return known.clone();
        }
        let found = find();
        if !self.truncated.get() {
            self.tiers.borrow_mut().at(tier).vars.insert(class, found.clone());
        }
        found
    }

    /// A file's `__all__`, read once. While it is being read it has no names (modules that list each
    /// other's).
    pub(super) fn kept_all_names(
        &self,
        file: FileId,
        find: impl FnOnce() -> AllNames,
    ) -> Option<Arc<AllNames>> {
        let tier = Tier::of(file);
        self.rest_on(tier);
        if let Some(known) = self.tiers.borrow_mut().at(tier).all_names.get(&file) {
            return Some(known.clone());
        }
        let open = Arc::new(AllNames { names: FxHashSet::default(), complete: false });
        self.tiers.borrow_mut().at(tier).all_names.insert(file, open);
        let found = Arc::new(find());
        self.tiers.borrow_mut().at(tier).all_names.insert(file, found.clone());
        Some(found)
    }

    /// The literals of an annotation, found once.
    pub(super) fn kept_literals(
        &self,
        file: FileId,
        annotation: ExprId,
        find: impl FnOnce() -> Option<Literals>,
    ) -> Option<Literals> {
        let tier = Tier::of(file);
        self.rest_on(tier);
        let key = (file, annotation);
        if let Some(known) = self.tiers.borrow_mut().at(tier).literals.get(&key) {
            return known.clone();
        }
        let found = find();
        if !self.truncated.get() {
            self.tiers.borrow_mut().at(tier).literals.insert(key, found.clone());
        }
        found
    }

    pub(super) fn known_mro(&self, class: ClassKey) -> Option<Arc<Mro>> {
        let tier = Tier::of(class.file);
        self.rest_on(tier);
        self.tiers.borrow_mut().at(tier).mros.get(&class).cloned()
    }

    /// Begin to work out a resolution order; false when that is going on already.
    pub(super) fn open_mro(&self, class: ClassKey) -> bool {
        self.mros_open.borrow_mut().insert(class)
    }

    pub(super) fn close_mro(&self, class: ClassKey, found: &Arc<Mro>) {
        self.mros_open.borrow_mut().remove(&class);
        if !self.truncated.get() {
            self.tiers.borrow_mut().at(Tier::of(class.file)).mros.insert(class, found.clone());
        }
    }

    /// What a class defines itself.
    pub(crate) fn own(&self, class: ClassKey) -> Arc<Own> {
        let written = self.fragment.as_ref().filter(|f| f.class == Some(class));
        let tier = if written.is_some() { Tier::Fragment } else { Tier::of(class.file) };
        self.rest_on(Tier::of(class.file));
        if let Some(known) = self.tiers.borrow_mut().at(tier).owns.get(&class) {
            return known.clone();
        }
        let found = Arc::new(self.find_own(class));
        if !self.truncated.get() {
            self.tiers.borrow_mut().at(tier).owns.insert(class, found.clone());
        }
        found
    }

    /// A class of a library module, by name.
    pub(crate) fn library_class(&self, module: Name, name: Name) -> Option<ClassKey> {
        if let Some(&known) = self.tiers.borrow_mut().at(Tier::Library).classes.get(&(module, name))
        {
            return known;
        }
        let found = self.find_library_class(module, name);
        self.tiers.borrow_mut().at(Tier::Library).classes.insert((module, name), found);
        found
    }

    fn find_library_class(&self, module: Name, name: Name) -> Option<ClassKey> {
        let id = if module == Name::BUILTINS {
            Some(self.library().builtins())
        } else {
            self.library().resolve(module)
        };
        let found = id.and_then(|id| self.module_files(id).0).and_then(|f| class_in(&f, name));
        found
            .or_else(|| class_in(&self.file(self.library().supplement()), name))
            .or_else(|| class_in(&self.file(self.library().support()), name))
    }

    pub(crate) fn builtin(&self, name: Name) -> Option<ClassKey> {
        self.library_class(Name::BUILTINS, name)
    }

    /// An instance of a built-in type; unknown when there is none of that name.
    pub(crate) fn of_builtin(&self, name: Name) -> TySet {
        self.builtin(name).map_or_else(TySet::unknown, TySet::exact)
    }

    pub(crate) fn generic_builtin(&self, name: Name, args: impl Into<Arc<[TySet]>>) -> TySet {
        self.builtin(name).map_or_else(TySet::unknown, |class| TySet::generic(class, args))
    }

    /// The class around a scope's function, when it is a method.
    pub(crate) fn method_class(&self, file: &File, scope: ScopeId) -> Option<ClassKey> {
        let parent = file.scopes.scope(scope).parent;
        match (parent, file.parent) {
            (Some(parent), outer) => match file.scopes.scope(parent).kind {
                ScopeKind::Class(class) => Some(ClassKey::new(file.id, class)),
                ScopeKind::Module => {
                    let (outer, outer_scope) = outer?;
                    let outer = self.file(outer);
                    match outer.scopes.scope(outer_scope).kind {
                        ScopeKind::Class(class) => Some(ClassKey::new(outer.id, class)),
                        _ => None,
                    }
                }
                ScopeKind::Function(_) => None,
            },
            (None, _) => None,
        }
    }

    pub(crate) fn is_object(&self, class: ClassKey) -> bool {
        self.builtin(Name::OBJECT) == Some(class)
    }

    /// The class that an alternative is an instance of.
    pub(crate) fn class_of(&self, ty: &Ty) -> Option<ClassKey> {
        match ty {
            Ty::Instance { class, .. } => Some(*class),
            Ty::None => self.library_class(Name::TYPES, Name::NONE_TYPE),
            Ty::Class { .. } => self.builtin(Name::TYPE),
            Ty::Module(_) => self.library_class(Name::TYPES, Name::MODULE_TYPE),
            Ty::Function { receiver: Some(_), .. } => {
                self.library_class(Name::TYPES, Name::METHOD_TYPE)
            }
            Ty::Function { .. } | Ty::Lambda { .. } | Ty::Callable(_) => {
                self.library_class(Name::TYPES, Name::FUNCTION_TYPE)
            }
            Ty::Tuple(_) => self.builtin(Name::TUPLE),
            Ty::Partial(_) => self.library_class(Name::FUNCTOOLS, Name::PARTIAL),
            Ty::Descriptor(Descriptor::Property, _) => self.builtin(Name::PROPERTY),
            Ty::Descriptor(Descriptor::ClassMethod, _) => self.builtin(Name::CLASSMETHOD),
            Ty::Descriptor(Descriptor::StaticMethod, _) => self.builtin(Name::STATICMETHOD),
            Ty::Var(_) | Ty::Super { .. } | Ty::Form(_) | Ty::Alias(_) => None,
        }
    }
}

/// About where the stack has grown to.
#[inline(always)]
fn stack_address() -> usize {
    let marker = 0_u8;
    std::hint::black_box(&raw const marker).addr()
}

use super::ty::Descriptor;

/// The class that a module binds to a name.
pub(super) fn class_in(file: &File, name: Name) -> Option<ClassKey> {
    file.scopes.of(ScopeId::MODULE, name).iter().find_map(|b| match b.kind {
        BindKind::Class(class) => Some(ClassKey::new(file.id, class)),
        _ => None,
    })
}
