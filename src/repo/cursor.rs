//! What may be written at a cursor: finds what kind of place it is and lists the names that fit.
//!
//! # Place
//! Uses `syntax` (with a hole where the cursor is) and `infer`. Read by `complete`.
//! # Invariants
//! - Text from the name being typed to the end of its line is not looked at: the code there is yet to
//!   be written.
//! - Only member and import places are ever closed. Where a name begins, keywords and new names may
//!   stand too.

use super::file::{File, FileId};
use super::infer::{Env, Member, MemberKind, Members, Ty, World};
use super::library::is_identifier;
use super::name::Name;
use super::scope::{BindKind, Binding, ScopeId, ScopeKind};
use super::session::Moved;
use super::syntax::*;
use crate::base::limit::{CANDIDATE_BYTES_MAX, CANDIDATES_MAX};
use crate::base::{Answer, Candidate, CandidateKind, Candidates, DefinitionSite, NameRole, Origin};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Where the identifier that ends at `offset` begins (at `offset` when there is none).
pub fn name_start(text: &str, offset: usize) -> usize {
    let before = text.get(..offset).unwrap_or("");
    before
        .char_indices()
        .rev()
        .take_while(|(_, c)| *c == '_' || c.is_alphanumeric())
        .last()
        .map_or(offset.min(text.len()), |(i, _)| i)
}

/// Names that every module, class body or method has without binding them.
const IMPLICIT_NAMES: [&str; 12] = [
    "__builtins__",
    "__cached__",
    "__loader__",
    "__package__",
    "__path__",
    "__spec__",
    "__annotations__",
    "__class__",
    "__module__",
    "__qualname__",
    "__dict__",
    "_",
];

pub(super) struct Place<'w> {
    pub(super) world: &'w World<'w>,
    /// The file or the function that holds the cursor.
    pub(super) file: Arc<File>,
    pub(super) start: usize,
    pub(super) typed: &'w str,
    pub(super) moved: Option<Moved>,
    pub(super) role: NameRole,
}

impl Place<'_> {
    pub(super) fn answer(&self) -> Candidates {
        let Some(cursor) = self.file.ast.cursor.clone() else {
            return self.unknown("no place for a name");
        };
        match cursor.site {
            CursorSite::Literal => self.unknown("in a string, comment or number"),
            CursorSite::Definition => self.unknown("a new name is being defined"),
            CursorSite::Member { value, at_statement_start } => {
                self.member(&cursor, value, at_statement_start)
            }
            CursorSite::Name { .. } | CursorSite::Pattern => match self.role {
                NameRole::Argument => self.argument(&cursor),
                NameRole::Any | NameRole::Read => self.name(&cursor),
            },
            CursorSite::ImportModule { dotted } => self.import_module(dotted),
            CursorSite::FromModule { level, dotted } => self.modules_below(level, dotted),
            CursorSite::FromName { level, module } => {
                self.names_of_module(&self.env(&cursor), level, module)
            }
        }
    }

    fn site(&self, file: &File, pos: u32) -> DefinitionSite {
        let at = match self.moved {
            Some(moved) if file.id != FileId::FRAGMENT => {
                let moved_pos = moved.place(file.id, pos);
                // The text as it is is that of the fragment's file.
                if moved_pos == pos { file.position(pos) } else { self.file.position(moved_pos) }
            }
            _ => file.position(pos),
        };
        DefinitionSite { path: file.path.clone(), line: at.line, col: at.col }
    }

    fn unknown(&self, reason: &str) -> Candidates {
        Candidates::unknown(self.start, reason)
    }

    fn env(&self, cursor: &Cursor) -> Env {
        let mut scope = self.file.scopes.at(self.start as u32);
        // Annotations and defaults are read where the function stands, which has no parameters yet.
        while let ScopeKind::Function(func) = self.file.scopes.scope(scope).kind
            && let node = self.file.ast.function(func)
            && ((self.start as u32) < node.header_end
                || (node.body.is_empty() && self.start as u32 == node.header_end))
            && node.type_params.is_empty()
            && let Some(parent) = self.file.scopes.scope(scope).parent
        {
            scope = parent;
        }
        let mut env = Env::new(self.file.clone(), scope);
        for frame in &cursor.frames {
            env = env.with_expr_frame(frame);
        }
        for &(test, holds) in &cursor.guards {
            env = env.with_guard(test, holds);
        }
        env
    }

    /// The class whose body or methods the cursor is in.
    fn class_around(&self, env: &Env) -> Option<super::infer::ClassKey> {
        let mut at = Some(env.scope);
        while let Some(scope) = at {
            if let ScopeKind::Class(class) = self.file.scopes.scope(scope).kind {
                return Some(super::infer::ClassKey::new(self.file.id, class));
            }
            at = self.file.scopes.scope(scope).parent;
        }
        let (outer, scope) = self.file.parent?;
        let outer = self.world.file(outer);
        let mut at = Some(scope);
        while let Some(scope) = at {
            if let ScopeKind::Class(class) = outer.scopes.scope(scope).kind {
                return Some(super::infer::ClassKey::new(outer.id, class));
            }
            at = outer.scopes.scope(scope).parent;
        }
        None
    }

    fn member(&self, cursor: &Cursor, value: ExprId, at_statement_start: bool) -> Candidates {
        let env = self.env(cursor);
        let receiver = self.world.expr(&env, value);
        let receiver = self.world.closed_over_vars(&receiver);
        let mut members = self.world.members(&receiver, self.class_around(&env));
        let takes_new_names = |ty: &Ty| match ty {
            Ty::Instance { class, .. } | Ty::Class { class, .. } => !class.file.is_library(),
            _ => false,
        };
        let is_target = at_statement_start && is_path(&self.file.ast, value);
        if is_target && receiver.items.iter().any(takes_new_names) {
            members.set_open(|| Arc::from("an attribute may be assigned here"));
        }
        if self.is_half_made(&env, value, &receiver) {
            members.set_open(|| Arc::from("its constructor is being written"));
        }
        if self.is_tried(&env, is_attribute_error) {
            members.set_open(|| Arc::from("a missing attribute is caught here"));
        }
        self.finish(members, |_| true)
    }

    /// Another instance of the class whose `__init__` is being written: what that is going to assign is
    /// not known yet.
    fn is_half_made(&self, env: &Env, value: ExprId, receiver: &super::infer::TySet) -> bool {
        let start = self.start as u32;
        let covers = |span: Span| span.start <= start && start <= span.end;
        let in_init =
            self.file.ast.functions.iter().any(|f| f.name == Name::INIT && covers(f.span));
        let is_self =
            matches!(self.file.ast.kind(value), ExprKind::Name(n) if n.as_str() == "self");
        let Some(class) = self.class_around(env).filter(|_| in_init && !is_self) else {
            return false;
        };
        let is_same = |ty: &Ty| match ty {
            Ty::Instance { class: c, .. } => self.world.is_subclass(*c, class),
            _ => false,
        };
        receiver.items.iter().any(is_same)
    }

    /// Is the cursor in the body of a `try` that catches such an error, or of a `with` that expects one?
    fn is_tried(&self, env: &Env, catches: fn(Name) -> bool) -> bool {
        let ast = &self.file.ast;
        let path = super::infer::enclosing_path(
            ast,
            self.file.scopes.scope(env.scope).body,
            self.start as u32,
        );
        let is_caught = |expr: ExprId| {
            let names = match ast.kind(expr) {
                ExprKind::Tuple { items } => ast.list(items).to_vec(),
                _ => vec![expr],
            };
            names.iter().any(|n| match ast.kind(*n) {
                ExprKind::Name(name) | ExprKind::Attribute { name, .. } => {
                    catches(name) || name == Name::EXCEPTION
                }
                _ => false,
            })
        };
        path.windows(2).any(|pair| {
            let [outer, inner] = pair else { return false };
            let Some(&stmt) = ast.block(outer.block).get(outer.index) else {
                return false;
            };
            match (ast.stmt(stmt).kind, inner.role) {
                (StmtKind::Try { node }, super::infer::Role::Try) => {
                    let handlers = ast.tries[node as usize].handlers;
                    ast.handlers[handlers.range()]
                        .iter()
                        .any(|h| h.kind.some().is_none_or(is_caught))
                }
                // `with pytest.raises(AttributeError):`, `with suppress(ImportError):`
                (StmtKind::With { items, .. }, super::infer::Role::With) => {
                    ast.with_items[items.range()].iter().any(|item| match ast.kind(item.value) {
                        ExprKind::Call { args, .. } => {
                            ast.args(args).first().is_some_and(|a| is_caught(a.value))
                        }
                        _ => false,
                    })
                }
                _ => false,
            }
        })
    }

    /// Sort, filter by what is typed, and describe.
    fn finish(&self, members: Members, keep: impl Fn(Name) -> bool) -> Candidates {
        if self.world.is_late() {
            return Candidates::timed_out(self.start);
        }
        let answer = match (&members.open, members.names.is_empty()) {
            (Some(_), true) => return self.unknown(members.open.as_deref().unwrap_or("")),
            (Some(_), false) => Answer::Open,
            // Known and empty: still nothing to hold anyone to.
            (None, true) => return self.unknown("nothing is known to have names here"),
            (None, false) => Answer::Closed,
        };
        let mut names: Vec<Candidate> = members
            .names
            .into_iter()
            .filter(|(name, _)| self.fits(*name) && keep(*name))
            .map(|(name, member)| self.candidate(name, &member))
            .collect();
        names.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        self.limited(Candidates { answer, names, start_byte: self.start, reason: members.open })
    }

    /// May a name be written here, seen from what is typed already?
    fn fits(&self, name: Name) -> bool {
        let text = name.as_str();
        text.starts_with(self.typed) && text.len() <= CANDIDATE_BYTES_MAX && is_identifier(text)
    }

    fn limited(&self, mut found: Candidates) -> Candidates {
        if found.names.len() > CANDIDATES_MAX {
            found.names.truncate(CANDIDATES_MAX);
            found.answer = Answer::Open;
            found.reason = Some(Arc::from(format!("more than {CANDIDATES_MAX} names")));
        }
        found
    }

    fn candidate(&self, name: Name, member: &Member) -> Candidate {
        let kind = match member.kind {
            MemberKind::Module => CandidateKind::Module,
            MemberKind::Class => CandidateKind::Class,
            MemberKind::Function => CandidateKind::Function,
            MemberKind::Method => CandidateKind::Method,
            MemberKind::Property => CandidateKind::Property,
            MemberKind::Attribute => CandidateKind::Attribute,
            MemberKind::Variable => CandidateKind::Variable,
        };
        let mut candidate = Candidate::new(name.as_str(), kind, Origin::Unknown);
        if let Some((file, pos)) = member.site {
            let file = self.world.file(file);
            candidate.origin =
                if file.module_name == Name::BUILTINS { Origin::Builtin } else { file.origin };
            candidate.defined_at = Some(self.site(&file, pos));
            describe(&file, name, pos, &mut candidate);
        }
        candidate
    }

    fn import_module(&self, dotted: Name) -> Candidates {
        let mut members = Members::default();
        if dotted == Name::EMPTY {
            let tops = &self.world.snapshot.modules.tops;
            for name in tops.iter().copied().chain(self.world.library().top_modules()) {
                members.add(name, Member { kind: MemberKind::Module, site: None });
            }
            members.set_open(|| Arc::from("modules may be installed elsewhere"));
            return self.finish(members, |_| true);
        }
        self.submodules(dotted, false)
    }

    /// The modules below one; `is_bare` right after the dots of a relative import.
    fn submodules(&self, dotted: Name, is_bare: bool) -> Candidates {
        let Some(id) = self.world.resolve_module(dotted) else {
            return self.unknown(&format!("no module {dotted} is known"));
        };
        let mut members = Members::default();
        for name in self.world.submodule_names(id) {
            members.add(name, Member { kind: MemberKind::Module, site: None });
        }
        let module = self.world.module(id);
        if is_bare {
            members.set_open(|| Arc::from("`import` may stand here"));
        }
        if module.origin != Origin::Project {
            members
                .set_open(|| Arc::from("an installed package may have modules that are not seen"));
        }
        self.finish(members, |_| true)
    }

    fn modules_below(&self, level: u32, dotted: Name) -> Candidates {
        if level == 0 {
            return self.import_module(dotted);
        }
        match self.file.absolute(level, dotted) {
            Some(full) if full != Name::EMPTY => self.submodules(full, dotted == Name::EMPTY),
            _ => self.unknown("a relative import above the top package"),
        }
    }

    fn names_of_module(&self, env: &Env, level: u32, module: Name) -> Candidates {
        let Some(full) = self.file.absolute(level, module) else {
            return self.unknown("a relative import above the top package");
        };
        let Some(id) = self.world.resolve_module(full) else {
            return self.unknown(&format!("no module {full} is known"));
        };
        let mut members = Members::default();
        self.world.module_members(id, &mut members);
        if self.world.module(id).is_package {
            for name in self.world.submodule_names(id) {
                members.add(name, Member { kind: MemberKind::Module, site: None });
            }
        }
        if self.is_tried(env, is_import_error) {
            members.set_open(|| Arc::from("a missing name is caught here"));
        }
        self.finish(members, |n| !n.is_dunder() || self.typed.starts_with("__"))
    }

    /// Names in scope, nearest first; keyword names where an argument begins.
    fn name(&self, cursor: &Cursor) -> Candidates {
        let env = self.env(cursor);
        let mut found = Found { place: self, names: FxHashMap::default() };
        self.names_of_frames(cursor, &mut found);
        let file = self.names_of_scopes(&env, &mut found);
        let mut stars = Members::default();
        self.world.star_members(&file, &mut stars, 0);
        for (name, member) in stars.names {
            let candidate = self.candidate(name, &member);
            found.offer(name, candidate.kind, candidate.origin, candidate.defined_at);
        }
        let implicit: &[&str] = match self.role {
            NameRole::Read => &IMPLICIT_NAMES,
            NameRole::Any | NameRole::Argument => &[],
        };
        let implicit = implicit.iter().map(|name| Name::new(name));
        for name in implicit.chain([Name::NAME_ATTR, Name::FILE_ATTR, Name::DOC]) {
            found.offer(name, CandidateKind::Variable, Origin::Project, None);
        }
        let mut builtins = Members::default();
        self.world.module_members(self.world.library().builtins(), &mut builtins);
        for (name, member) in builtins.names {
            if name.is_underscored()
                && !matches!(name.as_str(), "__import__" | "__debug__" | "__build_class__")
            {
                continue; // Type variables and attributes of the module, not names in scope.
            }
            let candidate = self.candidate(name, &member);
            found.offer(name, candidate.kind, Origin::Builtin, candidate.defined_at);
        }
        let mut found = found.names;
        if let Some(call) = &cursor.call
            && call.at_argument_start
            && self.role == NameRole::Any
        {
            for (name, origin) in self.world.keyword_names(&env, call.func, &call.args) {
                if self.fits(name) {
                    // The keyword shadows a variable of the same name in the list.
                    found.insert(
                        name,
                        Candidate::new(name.as_str(), CandidateKind::Keyword, origin),
                    );
                }
            }
        }
        if self.world.is_late() {
            return Candidates::timed_out(self.start);
        }
        let mut names: Vec<Candidate> = found.into_values().collect();
        names.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let reason = match self.role {
            NameRole::Read if stars.open.is_some() => stars.open,
            NameRole::Read if self.is_tried(&env, is_name_error) => {
                Some(Arc::from("a missing name is caught here"))
            }
            NameRole::Read => None,
            NameRole::Any | NameRole::Argument => {
                Some(Arc::from("keywords and new names may stand here"))
            }
        };
        let answer = if reason.is_none() { Answer::Closed } else { Answer::Open };
        self.limited(Candidates { answer, names, start_byte: self.start, reason })
    }

    /// The keyword arguments of the call around the cursor.
    fn argument(&self, cursor: &Cursor) -> Candidates {
        let Some(call) = cursor.call.as_ref().filter(|c| c.at_argument_start) else {
            return self.unknown("no argument begins here");
        };
        let env = self.env(cursor);
        let is_closed = self.world.takes_only_named(&env, call.func);
        let mut names: Vec<Candidate> = self
            .world
            .keyword_names(&env, call.func, &call.args)
            .into_iter()
            .filter(|(name, _)| self.fits(*name))
            .map(|(name, origin)| Candidate::new(name.as_str(), CandidateKind::Keyword, origin))
            .collect();
        if self.world.is_late() {
            return Candidates::timed_out(self.start);
        }
        names.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let (answer, reason) = match (is_closed, names.is_empty()) {
            (true, false) => (Answer::Closed, None),
            (true, true) => return self.unknown("the call takes no more keyword arguments"),
            (false, true) => return self.unknown("nothing is known about the call's arguments"),
            (false, false) => (Answer::Open, Some(Arc::from("the call may take others"))),
        };
        self.limited(Candidates { answer, names, start_byte: self.start, reason })
    }

    /// Names that comprehensions and lambdas around the cursor bind.
    fn names_of_frames(&self, cursor: &Cursor, found: &mut Found<'_>) {
        let ast = &self.file.ast;
        let here = |pos| Some(self.site(&self.file, pos));
        for frame in cursor.frames.iter().rev() {
            match frame {
                ExprFrame::Comp { clauses } => {
                    for clause in clauses {
                        each_target_name(ast, clause.target, &mut |name, pos| {
                            found.offer(name, CandidateKind::Variable, Origin::Local, here(pos));
                        });
                    }
                }
                ExprFrame::Lambda { params } => {
                    for p in ast.params(*params) {
                        let kind = CandidateKind::Parameter;
                        found.offer(p.name, kind, Origin::Local, here(p.start));
                    }
                }
            }
        }
    }

    /// Names of the scopes around the cursor; gives the file of the outermost.
    fn names_of_scopes(&self, env: &Env, found: &mut Found<'_>) -> Arc<File> {
        let mut file = self.file.clone();
        let mut at = Some(env.scope);
        let mut innermost = true;
        while let Some(id) = at {
            let scope = file.scopes.scope(id);
            let is_class = matches!(scope.kind, ScopeKind::Class(_));
            let is_part = id == ScopeId::MODULE && file.parent.is_some();
            if (!is_class || innermost) && !is_part {
                let is_function = matches!(scope.kind, ScopeKind::Function(_));
                let origin = if is_function { Origin::Local } else { Origin::Project };
                for bindings in file.scopes.all(id).chunk_by(|a, b| a.name == b.name) {
                    // What is bound further down may have been bound in an earlier round of a loop.
                    let must_be_bound = innermost && self.role == NameRole::Any;
                    if must_be_bound
                        && !self.world.is_bound_at(&file, id, bindings, self.start as u32)
                    {
                        continue;
                    }
                    let is_there = |b: &&Binding| !matches!(b.kind, BindKind::Deleted);
                    let b = bindings.iter().rfind(is_there).unwrap_or(&bindings[0]);
                    let kind = match b.kind {
                        BindKind::Param { .. } => CandidateKind::Parameter,
                        BindKind::Function(_) => CandidateKind::Function,
                        BindKind::Class(_) => CandidateKind::Class,
                        BindKind::Import { .. } => CandidateKind::Module,
                        _ => CandidateKind::Variable,
                    };
                    found.offer(b.name, kind, origin, Some(self.site(&file, b.pos)));
                }
            }
            innermost = false;
            at = scope.parent;
            if at.is_none()
                && let Some((outer, scope)) = file.parent
            {
                file = self.world.file(outer);
                at = Some(scope);
            }
        }
        file
    }
}

/// Names found so far, the nearest of each.
struct Found<'p> {
    place: &'p Place<'p>,
    names: FxHashMap<Name, Candidate>,
}

impl Found<'_> {
    fn offer(
        &mut self,
        name: Name,
        kind: CandidateKind,
        origin: Origin,
        at: Option<DefinitionSite>,
    ) {
        if self.place.fits(name) {
            self.names.entry(name).or_insert_with(|| {
                let mut candidate = Candidate::new(name.as_str(), kind, origin);
                candidate.defined_at = at;
                candidate
            });
        }
    }
}

fn is_attribute_error(name: Name) -> bool {
    name == Name::ATTR_ERROR
}

fn is_name_error(name: Name) -> bool {
    name == Name::NAME_ERROR
}

fn is_import_error(name: Name) -> bool {
    matches!(name.as_str(), "ImportError" | "ModuleNotFoundError")
}

/// `a`, `a.b`, `a.b[…]`: what an attribute is usually assigned on.
fn is_path(ast: &Ast, expr: ExprId) -> bool {
    match ast.kind(expr) {
        ExprKind::Name(_) => true,
        ExprKind::Attribute { value, .. } | ExprKind::Subscript { value, .. } => {
            is_path(ast, value)
        }
        _ => false,
    }
}

/// Signature and type as the source writes them.
fn describe(file: &File, name: Name, pos: u32, candidate: &mut Candidate) {
    let functions = &file.ast.functions;
    let at = functions.partition_point(|f| f.name_start < pos);
    if let Some(function) = functions.get(at).filter(|f| f.name_start == pos && f.name == name) {
        let is_property = candidate.kind == CandidateKind::Property;
        if is_property {
            candidate.ty =
                function.returns.some().map(|r| one_line(file.slice(file.ast.expr(r).span)));
        } else {
            let header = file.slice(Span { start: pos, end: function.header_end });
            candidate.signature = Some(one_line(header.trim_end().trim_end_matches(':')));
        }
        return;
    }
    let scope = file.scopes.at(pos);
    for b in file.scopes.of(scope, name).iter().filter(|b| b.pos == pos) {
        if let BindKind::Annotated { annotation, .. } = b.kind {
            candidate.ty = Some(one_line(file.slice(file.ast.expr(annotation).span)));
        }
    }
}

/// White space collapsed.
fn one_line(text: &str) -> Arc<str> {
    if !text.contains(['\n', '\r', '\t']) && !text.contains("  ") {
        return Arc::from(text);
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    Arc::from(words.join(" ").replace("( ", "(").replace(", )", ")").replace(",)", ")").as_str())
}

fn each_target_name(ast: &Ast, target: ExprId, visit: &mut dyn FnMut(Name, u32)) {
    match ast.kind(target) {
        ExprKind::Name(name) => visit(name, ast.expr(target).span.start),
        ExprKind::Tuple { items } | ExprKind::List { items } => {
            for &item in ast.list(items) {
                each_target_name(ast, item, visit);
            }
        }
        ExprKind::Starred(inner) => each_target_name(ast, inner, visit),
        _ => {}
    }
}
