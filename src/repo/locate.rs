//! Where names are defined: from a use to the statement that binds it, through imports and attributes.
//!
//! # Place
//! Uses scopes and inference. Read by `tether definition` and by the table of references.

use super::error::RepoError;
use super::file::{File, FileId, ModuleId};
use super::infer::{ClassKey, Env, FrameKind, Ty, World};
use super::name::Name;
use super::outline::one_line;
use super::project::{Snapshot, canonical};
use super::scope::{BindKind, Binding, ScopeId, ScopeKind};
use super::syntax::*;
use super::walk::{Around, Visitor, walk};
use crate::base::{DefinitionSite, Origin};
use std::path::Path;
use std::sync::Arc;

/// Longest chain of imports that is followed.
const IMPORTS_MAX: u32 = 16;
/// Stack that inference may use: a question can come from any thread.
pub(crate) const STACK_BYTES_MAX: usize = 1 << 20;
/// Most places of one name.
const SITES_MAX: usize = 64;

/// A place that binds a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Site {
    pub(crate) file: FileId,
    pub(crate) pos: u32,
}

/// A definition of the name under a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    pub name: String,
    /// `module:Class.method`; the module alone for a module.
    pub symbol: String,
    pub kind: &'static str,
    pub site: DefinitionSite,
    pub origin: Origin,
    /// Head of a function or class, or the line of what else it is.
    pub text: String,
}

impl Snapshot {
    /// Where the name at a byte offset is defined; several places when it may be several things. Empty when
    /// nothing is known or no name is there.
    ///
    /// # Errors
    /// When the file is not part of the project.
    pub fn definitions_at(&self, path: &Path, offset: usize) -> Result<Vec<Located>, RepoError> {
        let file = self.file_at(path).or_else(|| self.file_at(&canonical(path)));
        let file = file.ok_or_else(|| RepoError::NoSuchFile {
            path: path.to_path_buf(),
            reason: "it was not analysed".to_owned(),
        })?;
        let world = World::new(self, None, None).within_stack(STACK_BYTES_MAX);
        let mut sites = at_offset(&world, file, offset as u32);
        sites.sort_unstable();
        sites.dedup();
        Ok(sites.into_iter().map(|s| located(&world, s)).collect())
    }
}

/// What the cursor is on, found in one walk.
struct Finder<'w, 's> {
    world: &'w World<'s>,
    at: u32,
    found: Option<(Span, Vec<Site>)>,
}

impl Finder<'_, '_> {
    fn take(&mut self, span: Span, find: impl FnOnce(&World<'_>) -> Vec<Site>) {
        let touches = span.start <= self.at && self.at <= span.end && span.start < span.end;
        let is_smaller =
            self.found.as_ref().is_none_or(|(s, _)| span.end - span.start <= s.end - s.start);
        if touches && is_smaller {
            self.world.renew();
            self.found = Some((span, find(self.world)));
        }
    }
}

impl Visitor for Finder<'_, '_> {
    fn load(&mut self, env: &Env, expr: ExprId, _around: Around) {
        let span = env.file.ast.expr(expr).span;
        if span.start > self.at || span.end < self.at {
            return;
        }
        match env.file.ast.kind(expr) {
            ExprKind::Name(name) => self.take(span, |w| name_sites(w, env, name, span.start)),
            ExprKind::Attribute { value, name } => {
                let span = attribute_span(&env.file, expr, name);
                self.take(span, |w| attribute_sites(w, env, value, name));
            }
            ExprKind::Call { func, args } => {
                for arg in env.file.ast.args(args) {
                    if let ArgKind::Keyword(name) = arg.kind {
                        let end = arg.start + name.as_str().len() as u32;
                        let span = Span { start: arg.start, end };
                        self.take(span, |w| keyword_sites(w, env, func, name));
                    }
                }
            }
            _ => {}
        }
    }

    fn stored_attribute(&mut self, env: &Env, expr: ExprId, _around: Around) {
        if let ExprKind::Attribute { value, name } = env.file.ast.kind(expr) {
            let span = attribute_span(&env.file, expr, name);
            self.take(span, |w| attribute_sites(w, env, value, name));
        }
    }

    fn statement(&mut self, env: &Env, stmt: StmtId, _around: Around) {
        let file = &env.file;
        let span = file.ast.stmt(stmt).span;
        if span.start > self.at || span.end < self.at {
            return;
        }
        match file.ast.stmt(stmt).kind {
            StmtKind::Import { names } => {
                for alias in &file.ast.aliases[names.range()] {
                    let text = alias.name.as_str();
                    let end = alias.name_start + text.len() as u32;
                    // Of a dotted name, the part up to the cursor.
                    let upto = self.at.saturating_sub(alias.name_start) as usize;
                    let cut = text.get(upto..).and_then(|rest| rest.find('.'));
                    let part = cut.map_or(text, |dot| &text[..upto + dot]);
                    let module = Name::new(part);
                    let span = Span { start: alias.name_start, end };
                    self.take(span, |w| module_site(w, w.resolve_module(module)));
                    self.bound_alias(file, alias);
                }
            }
            StmtKind::ImportFrom { from } => {
                let node = file.ast.imports_from[from as usize];
                let module = file.absolute(node.level, node.module);
                let end = node.module_start + node.module.as_str().len() as u32;
                let span = Span { start: node.module_start, end };
                self.take(span, |w| module_site(w, module.and_then(|m| w.resolve_module(m))));
                for alias in &file.ast.aliases[node.names.range()] {
                    let end = alias.name_start + alias.name.as_str().len() as u32;
                    let span = Span { start: alias.name_start, end };
                    let name = alias.name;
                    self.take(span, |w| imported_sites(w, file, from, name, 0));
                    self.bound_alias(file, alias);
                }
            }
            _ => {}
        }
        // Names that are being bound are their own definition.
        for b in file.scopes.all(env.scope) {
            let span = Span { start: b.pos, end: b.pos + b.name.as_str().len() as u32 };
            let is_name = file.slice(span) == b.name.as_str();
            if is_name && !matches!(b.kind, BindKind::Import { .. } | BindKind::ImportFrom { .. }) {
                self.take(span, |_| vec![Site { file: file.id, pos: b.pos }]);
            }
        }
        if let StmtKind::Function(func) = file.ast.stmt(stmt).kind {
            for p in file.ast.params(file.ast.function(func).params) {
                let end = p.start + p.name.as_str().len() as u32;
                let span = Span { start: p.start, end };
                self.take(span, |_| vec![Site { file: file.id, pos: p.start }]);
            }
        }
    }
}

impl Finder<'_, '_> {
    fn bound_alias(&mut self, file: &Arc<File>, alias: &Alias) {
        if let Some(name) = alias.as_name {
            let end = alias.as_start + name.as_str().len() as u32;
            let site = Site { file: file.id, pos: alias.as_start };
            self.take(Span { start: alias.as_start, end }, |_| vec![site]);
        }
    }
}

fn at_offset(world: &World<'_>, file: &Arc<File>, at: u32) -> Vec<Site> {
    let mut finder = Finder { world, at, found: None };
    walk(file, &mut finder);
    finder.found.map(|(_, sites)| sites).unwrap_or_default()
}

/// The name in an attribute expression.
pub(crate) fn attribute_span(file: &File, expr: ExprId, name: Name) -> Span {
    let span = file.ast.expr(expr).span;
    let len = name.as_str().len() as u32;
    Span { start: span.end.saturating_sub(len).max(span.start), end: span.end }
}

/// The bindings that a name means.
pub(crate) fn name_sites(world: &World<'_>, env: &Env, name: Name, pos: u32) -> Vec<Site> {
    let file = &env.file;
    if let Some(site) = frame_site(env, name) {
        return vec![site];
    }
    let mut at = Some(env.scope);
    let mut innermost = true;
    while let Some(id) = at {
        let scope = file.scopes.scope(id);
        let is_class = matches!(scope.kind, ScopeKind::Class(_));
        let bindings = file.scopes.of(id, name);
        if !bindings.is_empty() && (innermost || !is_class) {
            return binding_sites(
                world,
                file,
                bindings,
                if innermost { Some(pos) } else { None },
                0,
            );
        }
        innermost = false;
        at = scope.parent;
    }
    let starred = star_sites(world, file, name, 0);
    if !starred.is_empty() {
        return starred;
    }
    module_sites(world, world.library().builtins(), name, 0)
}

fn frame_site(env: &Env, name: Name) -> Option<Site> {
    let ast = &env.file.ast;
    let mut at = env.frames.as_deref();
    while let Some(frame) = at {
        let pos = match &frame.kind {
            FrameKind::Comp(clauses) => {
                clauses.iter().rev().find_map(|c| target_pos(ast, c.target, name))
            }
            FrameKind::Lambda { params, .. } => {
                ast.params(*params).iter().find(|p| p.name == name).map(|p| p.start)
            }
        };
        if let Some(pos) = pos {
            return Some(Site { file: env.file.id, pos });
        }
        at = frame.parent.as_deref();
    }
    None
}

fn target_pos(ast: &Ast, target: ExprId, name: Name) -> Option<u32> {
    let mut stack = vec![target];
    while let Some(id) = stack.pop() {
        match ast.kind(id) {
            ExprKind::Name(n) if n == name => return Some(ast.expr(id).span.start),
            ExprKind::Tuple { items } | ExprKind::List { items } => {
                stack.extend(ast.list(items).iter().copied());
            }
            ExprKind::Starred(inner) => stack.push(inner),
            _ => {}
        }
    }
    None
}

/// The statements that bind a name in one scope; imports are followed. Assignments that cannot have been
/// reached yet are left out when there are earlier ones.
fn binding_sites(
    world: &World<'_>,
    file: &Arc<File>,
    bindings: &[Binding],
    before: Option<u32>,
    depth: u32,
) -> Vec<Site> {
    let mut out = Vec::new();
    let is_bound = |b: &&Binding| !matches!(b.kind, BindKind::Deleted | BindKind::Augmented { .. });
    let earlier: Vec<&Binding> =
        bindings.iter().filter(is_bound).filter(|b| before.is_none_or(|at| b.pos <= at)).collect();
    let all: Vec<&Binding> = bindings.iter().filter(is_bound).collect();
    let chosen = if earlier.is_empty() { all } else { earlier };
    // Definitions replace each other; of plain assignments the first says where the name comes from.
    let is_import =
        |b: &&&Binding| matches!(b.kind, BindKind::Import { .. } | BindKind::ImportFrom { .. });
    let imports: Vec<&Binding> = chosen.iter().filter(is_import).copied().collect();
    for binding in &imports {
        out.extend(followed(world, file, binding, depth));
    }
    let others: Vec<&Binding> = chosen.iter().filter(|b| !is_import(b)).copied().collect();
    let defines = |b: &&&Binding| matches!(b.kind, BindKind::Function(_) | BindKind::Class(_));
    match others.iter().rfind(defines) {
        Some(last) => out.push(Site { file: file.id, pos: last.pos }),
        None if imports.is_empty() || out.is_empty() => {
            out.extend(others.first().map(|b| Site { file: file.id, pos: b.pos }));
        }
        None => {}
    }
    out.truncate(SITES_MAX);
    out
}

/// An import binding, followed to what it imports; itself when that is not found.
fn followed(world: &World<'_>, file: &Arc<File>, binding: &Binding, depth: u32) -> Vec<Site> {
    let own = vec![Site { file: file.id, pos: binding.pos }];
    if depth > IMPORTS_MAX {
        return own;
    }
    let found = match binding.kind {
        BindKind::Import { alias } => {
            let alias = &file.ast.aliases[alias as usize];
            let module = match alias.as_name {
                Some(_) => alias.name,
                None => binding.name,
            };
            module_site(world, world.resolve_module(module))
        }
        BindKind::ImportFrom { from, alias } => {
            let name = file.ast.aliases[alias as usize].name;
            imported_sites(world, file, from, name, depth + 1)
        }
        _ => Vec::new(),
    };
    if found.is_empty() { own } else { found }
}

fn imported_sites(
    world: &World<'_>,
    file: &Arc<File>,
    from: u32,
    name: Name,
    depth: u32,
) -> Vec<Site> {
    let node = &file.ast.imports_from[from as usize];
    let module = file.absolute(node.level, node.module).and_then(|m| world.resolve_module(m));
    let Some(id) = module else {
        return Vec::new();
    };
    if Some(id) == file.module
        && let Some(sub) = world.submodule(id, name)
    {
        return module_site(world, Some(sub));
    }
    let found = module_sites(world, id, name, depth);
    if !found.is_empty() {
        return found;
    }
    module_site(world, world.submodule(id, name))
}

/// A module as a place: the start of its file.
fn module_site(world: &World<'_>, id: Option<ModuleId>) -> Vec<Site> {
    let file = id.and_then(|id| {
        let module = world.module(id);
        module.source.or(module.stub)
    });
    file.map(|file| Site { file, pos: 0 }).into_iter().collect()
}

/// The places that bind a name of a module.
fn module_sites(world: &World<'_>, id: ModuleId, name: Name, depth: u32) -> Vec<Site> {
    if depth > IMPORTS_MAX {
        return Vec::new();
    }
    let module = world.module(id);
    // Sources first: that is what people want to read.
    for file in [module.source, module.stub].into_iter().flatten() {
        let file = world.file(file);
        let bindings = file.scopes.of(ScopeId::MODULE, name);
        if !bindings.is_empty() {
            let found = binding_sites(world, &file, bindings, None, depth + 1);
            if !found.is_empty() {
                return found;
            }
        }
        let found = star_sites(world, &file, name, depth + 1);
        if !found.is_empty() {
            return found;
        }
    }
    if world.is_imported_somewhere(id, name) {
        return module_site(world, world.submodule(id, name));
    }
    Vec::new()
}

fn star_sites(world: &World<'_>, file: &Arc<File>, name: Name, depth: u32) -> Vec<Site> {
    if depth > IMPORTS_MAX {
        return Vec::new();
    }
    for &star in file.scopes.stars.iter().rev() {
        let node = &file.ast.imports_from[star as usize];
        let module = file.absolute(node.level, node.module).and_then(|m| world.resolve_module(m));
        let Some(id) = module.filter(|id| Some(*id) != file.module) else {
            continue;
        };
        let (Some(other), _) = world.module_files(id) else {
            continue;
        };
        if other.id != file.id && world.exports(&other, name, 0) {
            let found = module_sites(world, id, name, depth + 1);
            if !found.is_empty() {
                return found;
            }
        }
    }
    Vec::new()
}

/// The places that define an attribute of what an expression may be.
pub(crate) fn attribute_sites(
    world: &World<'_>,
    env: &Env,
    value: ExprId,
    name: Name,
) -> Vec<Site> {
    let of = world.expr(env, value);
    let of = world.closed_over_vars(&of);
    let mut out = Vec::new();
    for ty in &of.items {
        for site in type_sites(world, ty, name) {
            if !out.contains(&site) && out.len() < SITES_MAX {
                out.push(site);
            }
        }
    }
    out
}

fn type_sites(world: &World<'_>, ty: &Ty, name: Name) -> Vec<Site> {
    let after = |class: ClassKey, skip_past: Option<ClassKey>| {
        let mro = world.mro(class);
        let skip = skip_past.and_then(|p| mro.entries.iter().position(|e| e.class == p));
        let skip = skip.map_or(0, |at| at + 1);
        mro.entries.iter().skip(skip).find_map(|entry| {
            let own = world.own(entry.class);
            let known = own.names.get(&name)?;
            Some(Site { file: entry.class.file, pos: known.pos })
        })
    };
    match ty {
        Ty::Module(id) => module_sites(world, *id, name, 0),
        Ty::Super { after: past, of, .. } => after(*of, Some(*past)).into_iter().collect(),
        Ty::Class { class, .. } => after(*class, None).into_iter().collect(),
        _ => world.class_of(ty).and_then(|class| after(class, None)).into_iter().collect(),
    }
}

/// The parameter that a keyword argument fills.
fn keyword_sites(world: &World<'_>, env: &Env, func: ExprId, name: Name) -> Vec<Site> {
    let callee = world.expr(env, func);
    let mut out = Vec::new();
    for ty in &callee.items {
        let function = match ty {
            Ty::Function { file, func, .. } => Some((*file, *func)),
            Ty::Class { class, .. } => constructor(world, *class),
            _ => None,
        };
        let Some((file, func)) = function else { continue };
        let file = world.file(file);
        let params = file.ast.params(file.ast.function(func).params);
        out.extend(
            params.iter().find(|p| p.name == name).map(|p| Site { file: file.id, pos: p.start }),
        );
    }
    out
}

/// The constructor of a class, or the field that stands for a parameter.
fn constructor(world: &World<'_>, class: ClassKey) -> Option<(FileId, FuncId)> {
    let instance = Ty::Instance { class, args: None, exact: true };
    let found = world.class_attribute(class, Name::INIT, &instance, false)?;
    found.items.iter().find_map(|t| match t {
        Ty::Function { file, func, .. } => Some((*file, *func)),
        _ => None,
    })
}

/// The symbol that a place defines: `module:Qualified.name`.
pub(crate) fn symbol(file: &File, pos: u32) -> (String, &'static str, String) {
    let module = file.module_name.as_str();
    if pos == 0 && file.ast.functions.iter().all(|f| f.name_start != 0) {
        let starts_with_binding = file.scopes.all(ScopeId::MODULE).iter().any(|b| {
            b.pos == 0 && !matches!(b.kind, BindKind::Import { .. } | BindKind::ImportFrom { .. })
        });
        if !starts_with_binding {
            return (module.to_owned(), "module", module.to_owned());
        }
    }
    let scope = file.scopes.at(pos);
    let mut parts: Vec<&str> = Vec::new();
    let mut at = Some(scope);
    let mut kind = "variable";
    while let Some(id) = at {
        let node = file.scopes.scope(id);
        match node.kind {
            ScopeKind::Function(f) => {
                let f = file.ast.function(f);
                if f.name_start == pos {
                    kind = "function";
                }
                parts.push(f.name.as_str());
            }
            ScopeKind::Class(c) => {
                let c = file.ast.class(c);
                if c.name_start == pos {
                    kind = "class";
                }
                parts.push(c.name.as_str());
            }
            ScopeKind::Module => {}
        }
        at = node.parent;
    }
    let name = name_at(file, pos);
    if kind == "variable" && is_path(file, pos) {
        // `self.name = …` in a method is an attribute of the class.
        kind = "attribute";
        let mut at = Some(scope);
        while let Some(id) = at
            && matches!(file.scopes.scope(id).kind, ScopeKind::Function(_))
        {
            parts.remove(0);
            at = file.scopes.scope(id).parent;
        }
    }
    parts.reverse();
    if kind == "variable" || kind == "attribute" {
        if kind == "variable" && file.ast.params.iter().any(|p| p.start == pos) {
            kind = "parameter";
        }
        parts.push(name);
    }
    (format!("{module}:{}", parts.join(".")), kind, name.to_owned())
}

/// Does a dotted path begin at a place?
fn is_path(file: &File, pos: u32) -> bool {
    let rest = file.text.get(pos as usize..).unwrap_or("");
    let end = rest.find(|c: char| !(c == '_' || c.is_alphanumeric())).unwrap_or(rest.len());
    rest[end..].starts_with('.')
}

/// The identifier that begins at, or (for `self.name`) ends the path that begins at a place.
fn name_at(file: &File, pos: u32) -> &str {
    let rest = file.text.get(pos as usize..).unwrap_or("");
    let end = rest
        .char_indices()
        .find(|(_, c)| !(*c == '_' || *c == '.' || c.is_alphanumeric()))
        .map_or(rest.len(), |(i, _)| i);
    let path = &rest[..end];
    path.rsplit('.').next().unwrap_or(path)
}

fn located(world: &World<'_>, site: Site) -> Located {
    let file = world.file(site.file);
    let (symbol, kind, name) = symbol(&file, site.pos);
    let at = file.position(site.pos);
    let function = file.ast.functions.iter().find(|f| f.name_start == site.pos);
    let class = file.ast.classes.iter().find(|c| c.name_start == site.pos);
    let text = match (function, class) {
        (Some(f), _) => one_line(file.slice(Span { start: f.def_start, end: f.header_end })),
        (None, Some(c)) => one_line(file.slice(Span { start: c.def_start, end: c.header_end })),
        _ => {
            let start = file.text[..site.pos as usize].rfind(['\n', '\r']).map_or(0, |n| n + 1);
            let rest = &file.text[start..];
            rest.lines().next().unwrap_or("").trim().chars().take(200).collect()
        }
    };
    Located {
        name,
        symbol,
        kind,
        site: DefinitionSite { path: file.path.clone(), line: at.line, col: at.col },
        origin: file.origin,
        text: text.trim_end_matches(':').to_owned(),
    }
}
