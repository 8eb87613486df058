//! Scopes and bindings of one file: which name is bound where, and by what.
//!
//! # Place
//! Uses `syntax`. Used by inference and by every query about definitions. Knows one file only.
//! # Invariants
//! - The bindings of a scope are sorted by name, then by position.
//! - A name that a function declares `global` or `nonlocal` is bound in the scope it belongs to, with
//!   the function's scope noted as the one its value is computed in.
//! - Comprehensions and lambdas have no entry: their names are found while an expression is read.

use super::name::Name;
use super::syntax::*;
use rustc_hash::FxHashMap;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ScopeId(pub(crate) u32);

impl ScopeId {
    pub(crate) const MODULE: Self = Self(0);
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ScopeKind {
    Module,
    Function(FuncId),
    Class(ClassId),
}

#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(crate) kind: ScopeKind,
    pub(crate) parent: Option<ScopeId>,
    pub(crate) body: Run,
    pub(crate) span: Span,
    pub(crate) bindings: Run,
}

/// Where the value of a target comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// The value itself.
    Value,
    /// An item of iterating over the value.
    Item,
    AsyncItem,
    /// What entering the value as a context manager gives.
    Entered,
    AsyncEntered,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum BindKind {
    /// Index into [`Ast::params`].
    Param {
        func: FuncId,
        param: u32,
    },
    /// A name inside the target `root` of an assignment, loop or `with`.
    Target {
        root: ExprId,
        value: ExprId,
        source: Source,
    },
    /// `name: annotation` or `name: annotation = value`.
    Annotated {
        annotation: ExprId,
        value: ExprId,
    },
    /// `name op= value`.
    Augmented {
        stmt: StmtId,
    },
    Except {
        handler: u32,
    },
    Import {
        alias: u32,
    },
    ImportFrom {
        from: u32,
        alias: u32,
    },
    Function(FuncId),
    Class(ClassId),
    Walrus(ExprId),
    /// Captured by a pattern of the match statement.
    Captured {
        stmt: StmtId,
        case: u32,
    },
    Deleted,
    TypeAlias {
        stmt: StmtId,
    },
    TypeParam {
        param: u32,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    pub(crate) name: Name,
    pub(crate) pos: u32,
    /// The scope the binding expression is evaluated in.
    pub(crate) eval_scope: ScopeId,
    pub(crate) kind: BindKind,
}

/// `receiver.name = value` and its relatives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttrStore {
    pub(crate) name: Name,
    pub(crate) receiver: ExprId,
    pub(crate) pos: u32,
    pub(crate) scope: ScopeId,
    pub(crate) kind: BindKind,
    /// The class whose method's first parameter the receiver is.
    pub(crate) of_self: Option<ClassId>,
}

/// The scopes of one file.
#[derive(Default)]
pub(crate) struct Scopes {
    pub(crate) scopes: Vec<Scope>,
    pub(crate) bindings: Vec<Binding>,
    pub(crate) func_scopes: Vec<ScopeId>,
    pub(crate) class_scopes: Vec<ScopeId>,
    /// Sorted by class, then name, those of no class last.
    pub(crate) attr_stores: Vec<AttrStore>,
    /// Star imports of the module scope: indices into [`Ast::imports_from`].
    pub(crate) stars: Vec<u32>,
}

impl Scopes {
    pub(crate) fn scope(&self, id: ScopeId) -> &Scope {
        &self.scopes[id.index()]
    }

    pub(crate) fn of_function(&self, id: FuncId) -> ScopeId {
        self.func_scopes[id.index()]
    }

    pub(crate) fn of_class(&self, id: ClassId) -> ScopeId {
        self.class_scopes[id.index()]
    }

    /// All bindings of a scope.
    pub(crate) fn all(&self, scope: ScopeId) -> &[Binding] {
        &self.bindings[self.scope(scope).bindings.range()]
    }

    /// The bindings of one name in a scope, by position.
    pub(crate) fn of(&self, scope: ScopeId, name: Name) -> &[Binding] {
        let all = self.all(scope);
        let from = all.partition_point(|b| b.name < name);
        let len = all[from..].partition_point(|b| b.name == name);
        &all[from..from + len]
    }

    /// Stores through `self` in the methods of a class.
    pub(crate) fn stores_of(&self, class: ClassId) -> &[AttrStore] {
        let key = |s: &AttrStore| s.of_self.map_or(u32::MAX, |c| c.0);
        let from = self.attr_stores.partition_point(|s| key(s) < class.0);
        let len = self.attr_stores[from..].partition_point(|s| key(s) == class.0);
        &self.attr_stores[from..from + len]
    }

    /// Stores through anything else.
    pub(crate) fn outside_stores(&self) -> &[AttrStore] {
        let from = self.attr_stores.partition_point(|s| s.of_self.is_some());
        &self.attr_stores[from..]
    }

    /// The innermost scope whose statement covers `at`.
    pub(crate) fn at(&self, at: u32) -> ScopeId {
        // Scopes are made in source order, so the last one that covers the place is the innermost.
        let upto = self.scopes.partition_point(|s| s.span.start <= at);
        let mut id = ScopeId(upto.saturating_sub(1) as u32);
        loop {
            let scope = self.scope(id);
            match scope.parent {
                Some(parent) if at > scope.span.end => id = parent,
                _ => return id,
            }
        }
    }

    pub(crate) fn n_bytes(&self) -> usize {
        self.scopes.capacity() * size_of::<Scope>()
            + self.bindings.capacity() * size_of::<Binding>()
            + self.attr_stores.capacity() * size_of::<AttrStore>()
            + (self.func_scopes.capacity() + self.class_scopes.capacity()) * 4
    }
}

/// Find the scopes and bindings of a tree. `class` is the class around it, when the tree is that of a
/// method alone.
pub(crate) fn index(ast: &Ast, end: u32, class: Option<ClassId>) -> Scopes {
    let mut builder = Builder {
        ast,
        scopes: Vec::new(),
        bindings: Vec::with_capacity(ast.stmts.len()),
        declared: FxHashMap::default(),
        out: Scopes {
            func_scopes: vec![ScopeId::MODULE; ast.functions.len()],
            class_scopes: vec![ScopeId::MODULE; ast.classes.len()],
            ..Scopes::default()
        },
    };
    let span = Span { start: 0, end: end.saturating_add(1) };
    let module = builder.open(ScopeKind::Module, None, ast.body, span);
    let outer = Context { scope: module, class, self_name: None, self_class: None };
    builder.block(ast.body, &outer);
    for &walrus in &ast.walruses {
        builder.walrus(walrus);
    }
    builder.finish()
}

#[derive(Clone, Copy)]
struct Context {
    scope: ScopeId,
    /// The class whose body this is, directly.
    class: Option<ClassId>,
    /// The first parameter of the innermost method, and its class.
    self_name: Option<Name>,
    self_class: Option<ClassId>,
}

struct Builder<'a> {
    ast: &'a Ast,
    scopes: Vec<Scope>,
    bindings: Vec<(ScopeId, Binding)>,
    /// Names declared `global` or `nonlocal`, with the scope they belong to.
    declared: FxHashMap<(ScopeId, Name), ScopeId>,
    out: Scopes,
}

impl Builder<'_> {
    fn open(&mut self, kind: ScopeKind, parent: Option<ScopeId>, body: Run, span: Span) -> ScopeId {
        let id = ScopeId(self.scopes.len() as u32);
        self.scopes.push(Scope { kind, parent, body, span, bindings: Run::default() });
        id
    }

    fn finish(mut self) -> Scopes {
        self.bindings.sort_unstable_by_key(|(s, b)| (*s, b.name, b.pos));
        let mut at = 0;
        for i in 0..self.scopes.len() {
            let from = at;
            while at < self.bindings.len() && self.bindings[at].0.index() == i {
                at += 1;
            }
            self.scopes[i].bindings = Run { start: from as u32, len: (at - from) as u32 };
        }
        self.out.bindings = self.bindings.into_iter().map(|(_, b)| b).collect();
        self.out.scopes = self.scopes;
        self.out.scopes.shrink_to_fit();
        self.out.attr_stores.sort_by_key(|s| (s.of_self.map_or(u32::MAX, |c| c.0), s.name, s.pos));
        self.out.attr_stores.shrink_to_fit();
        self.out
    }

    fn bind(&mut self, cx: &Context, name: Name, pos: u32, kind: BindKind) {
        if name == Name::EMPTY || name == Name::CURSOR {
            return;
        }
        let scope = self.declared.get(&(cx.scope, name)).copied().unwrap_or(cx.scope);
        self.bindings.push((scope, Binding { name, pos, eval_scope: cx.scope, kind }));
    }

    fn block(&mut self, body: Run, cx: &Context) {
        // Declarations hold for the whole function, so they are read first.
        let ast = self.ast;
        for &id in ast.block(body) {
            self.statement(id, cx);
        }
    }

    fn statement(&mut self, id: StmtId, cx: &Context) {
        let ast = self.ast;
        let stmt = ast.stmt(id);
        let pos = stmt.span.start;
        match stmt.kind {
            StmtKind::Expr(_)
            | StmtKind::Return(_)
            | StmtKind::Raise { .. }
            | StmtKind::Assert { .. }
            | StmtKind::Pass
            | StmtKind::Break
            | StmtKind::Continue => {}
            StmtKind::Assign { targets, value } => {
                for &root in ast.list(targets) {
                    self.target(root, cx, BindKind::Target { root, value, source: Source::Value });
                }
            }
            StmtKind::AugAssign { target, .. } => {
                self.target(target, cx, BindKind::Augmented { stmt: id });
            }
            StmtKind::AnnAssign { target, annotation, value } => {
                self.target(target, cx, BindKind::Annotated { annotation, value });
            }
            StmtKind::Delete { targets } => {
                for &target in ast.list(targets) {
                    self.target(target, cx, BindKind::Deleted);
                }
            }
            StmtKind::Global { names } => {
                for &name in &ast.name_lists[names.range()] {
                    self.declared.insert((cx.scope, name), ScopeId::MODULE);
                }
            }
            StmtKind::Nonlocal { names } => {
                for &name in &ast.name_lists[names.range()] {
                    if let Some(owner) = self.owner_of_nonlocal(cx.scope, name) {
                        self.declared.insert((cx.scope, name), owner);
                    }
                }
            }
            StmtKind::Import { names } => {
                for alias in names.range() {
                    let a = ast.aliases[alias];
                    let name = a.as_name.unwrap_or_else(|| {
                        let dotted = a.name.as_str();
                        Name::new(dotted.split('.').next().unwrap_or(dotted))
                    });
                    self.bind(cx, name, pos, BindKind::Import { alias: alias as u32 });
                }
            }
            StmtKind::ImportFrom { from } => {
                let node = ast.imports_from[from as usize];
                for alias in node.names.range() {
                    let a = ast.aliases[alias];
                    let kind = BindKind::ImportFrom { from, alias: alias as u32 };
                    self.bind(cx, a.as_name.unwrap_or(a.name), pos, kind);
                }
                if node.star {
                    self.out.stars.push(from);
                }
            }
            StmtKind::TypeAlias { name, .. } => {
                self.bind(cx, name, pos, BindKind::TypeAlias { stmt: id });
            }
            StmtKind::If { branches } => {
                for i in branches.range() {
                    self.block(ast.branches[i].body, cx);
                }
            }
            StmtKind::While { body, orelse, .. } => {
                self.block(body, cx);
                self.block(orelse, cx);
            }
            StmtKind::For { node } => {
                let node = ast.fors[node as usize];
                let source = if node.is_async { Source::AsyncItem } else { Source::Item };
                let kind = BindKind::Target { root: node.target, value: node.iter, source };
                self.target(node.target, cx, kind);
                self.block(node.body, cx);
                self.block(node.orelse, cx);
            }
            StmtKind::Try { node } => {
                let node = ast.tries[node as usize];
                self.block(node.body, cx);
                for handler in node.handlers.range() {
                    let h = ast.handlers[handler];
                    if let Some(name) = h.name {
                        self.bind(
                            cx,
                            name,
                            h.name_start,
                            BindKind::Except { handler: handler as u32 },
                        );
                    }
                    self.block(h.body, cx);
                }
                self.block(node.orelse, cx);
                self.block(node.finally, cx);
            }
            StmtKind::With { items, body, is_async } => {
                for item in &ast.with_items[items.range()] {
                    if let Some(root) = item.target.some() {
                        let source = if is_async { Source::AsyncEntered } else { Source::Entered };
                        self.target(root, cx, BindKind::Target { root, value: item.value, source });
                    }
                }
                self.block(body, cx);
            }
            StmtKind::Match { cases, .. } => {
                for case in cases.range() {
                    let node = ast.cases[case];
                    self.pattern(
                        node.pattern,
                        cx,
                        BindKind::Captured { stmt: id, case: case as u32 },
                    );
                    self.block(node.body, cx);
                }
            }
            StmtKind::Function(func) => self.function(func, cx),
            StmtKind::Class(class) => self.class(class, cx),
        }
    }

    fn owner_of_nonlocal(&self, scope: ScopeId, name: Name) -> Option<ScopeId> {
        let mut at = self.scopes[scope.index()].parent;
        let mut outermost = None;
        while let Some(id) = at {
            if matches!(self.scopes[id.index()].kind, ScopeKind::Function(_)) {
                outermost = Some(id);
                if self.bindings.iter().rev().any(|(s, b)| *s == id && b.name == name) {
                    return Some(id);
                }
            }
            at = self.scopes[id.index()].parent;
        }
        outermost
    }

    fn function(&mut self, func: FuncId, cx: &Context) {
        let ast = self.ast;
        let node = ast.function(func);
        self.bind(cx, node.name, node.name_start, BindKind::Function(func));
        let scope = self.open(ScopeKind::Function(func), Some(cx.scope), node.body, node.span);
        self.out.func_scopes[func.index()] = scope;
        let mut inner =
            Context { scope, class: None, self_name: cx.self_name, self_class: cx.self_class };
        for param in node.type_params.range() {
            let p = ast.type_params[param];
            self.bind(&inner, p.name, p.start, BindKind::TypeParam { param: param as u32 });
        }
        for param in node.params.range() {
            let p = ast.params[param];
            if Some(p.name) == inner.self_name {
                inner.self_name = None;
            }
            self.bind(&inner, p.name, p.start, BindKind::Param { func, param: param as u32 });
        }
        if let Some(class) = cx.class
            && !self.is_static(node)
        {
            let first = ast.params(node.params).first();
            inner.self_name = first
                .filter(|p| matches!(p.kind, ParamKind::Normal | ParamKind::PositionalOnly))
                .map(|p| p.name);
            inner.self_class = Some(class);
        }
        self.block(node.body, &inner);
    }

    fn is_static(&self, node: &Function) -> bool {
        let ast = self.ast;
        ast.list(node.decorators)
            .iter()
            .any(|&d| matches!(ast.kind(d), ExprKind::Name(Name::STATICMETHOD)))
    }

    fn class(&mut self, class: ClassId, cx: &Context) {
        let ast = self.ast;
        let node = ast.class(class);
        self.bind(cx, node.name, node.name_start, BindKind::Class(class));
        let scope = self.open(ScopeKind::Class(class), Some(cx.scope), node.body, node.span);
        self.out.class_scopes[class.index()] = scope;
        let inner = Context {
            scope,
            class: Some(class),
            self_name: cx.self_name,
            self_class: cx.self_class,
        };
        for param in node.type_params.range() {
            let p = ast.type_params[param];
            self.bind(&inner, p.name, p.start, BindKind::TypeParam { param: param as u32 });
        }
        self.block(node.body, &inner);
    }

    /// Bind the names and note the attributes in an assignment target.
    fn target(&mut self, target: ExprId, cx: &Context, kind: BindKind) {
        let ast = self.ast;
        let mut stack: smallvec::SmallVec<[ExprId; 8]> = smallvec::smallvec![target];
        while let Some(id) = stack.pop() {
            let expr = ast.expr(id);
            match expr.kind {
                ExprKind::Name(name) => self.bind(cx, name, expr.span.start, kind),
                ExprKind::Tuple { items } | ExprKind::List { items } => {
                    stack.extend(ast.list(items).iter().copied());
                }
                ExprKind::Starred(inner) => stack.push(inner),
                ExprKind::Attribute { value, name } => {
                    if matches!(kind, BindKind::Deleted)
                        || name == Name::CURSOR
                        || name == Name::EMPTY
                    {
                        continue;
                    }
                    let through_self = match ast.kind(value) {
                        ExprKind::Name(n) => Some(n) == cx.self_name,
                        _ => false,
                    };
                    self.out.attr_stores.push(AttrStore {
                        name,
                        receiver: value,
                        pos: expr.span.start,
                        scope: cx.scope,
                        kind,
                        of_self: if through_self { cx.self_class } else { None },
                    });
                }
                _ => {}
            }
        }
    }

    fn pattern(&mut self, pattern: PatId, cx: &Context, kind: BindKind) {
        let ast = self.ast;
        let mut stack: smallvec::SmallVec<[PatId; 8]> = smallvec::smallvec![pattern];
        while let Some(id) = stack.pop() {
            let node = ast.pattern(id);
            let pos = node.span.start;
            match node.kind {
                PatternKind::Capture(name) | PatternKind::Star(name) => {
                    if let Some(name) = name {
                        self.bind(cx, name, pos, kind);
                    }
                }
                PatternKind::Value(_) => {}
                PatternKind::Class { patterns, keywords, .. } => {
                    stack.extend(ast.pattern_lists[patterns.range()].iter().copied());
                    stack.extend(ast.pattern_keywords[keywords.range()].iter().map(|k| k.1));
                }
                PatternKind::Sequence { patterns } | PatternKind::Or { patterns } => {
                    stack.extend(ast.pattern_lists[patterns.range()].iter().copied());
                }
                PatternKind::Mapping { patterns, rest } => {
                    stack.extend(ast.pattern_lists[patterns.range()].iter().copied());
                    if let Some(name) = rest {
                        self.bind(cx, name, pos, kind);
                    }
                }
                PatternKind::As { pattern, name, .. } => {
                    stack.push(pattern);
                    self.bind(cx, name, pos, kind);
                }
            }
        }
    }

    /// A walrus binds in the function or module around it, past comprehensions.
    fn walrus(&mut self, id: ExprId) {
        let ast = self.ast;
        let expr = ast.expr(id);
        let ExprKind::Walrus { target, .. } = expr.kind else {
            return;
        };
        let ExprKind::Name(name) = ast.kind(target) else {
            return;
        };
        let at = expr.span.start;
        let upto = self.scopes.partition_point(|s| s.span.start <= at);
        let mut scope = ScopeId(upto.saturating_sub(1) as u32);
        while let Some(parent) = self.scopes[scope.index()].parent {
            if at < self.scopes[scope.index()].span.end {
                break;
            }
            scope = parent;
        }
        let cx = Context { scope, class: None, self_name: None, self_class: None };
        self.bind(&cx, name, at, BindKind::Walrus(id));
    }
}
