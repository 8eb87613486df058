//! The definitions of a file, in order: modules, classes, functions, variables, with their parents.
//!
//! # Place
//! Uses files and trees, no types. Read by the tables and by whoever shows an outline.
//! # Shapes and units
//! Spans are byte offsets into the file's decoded text.

use super::file::File;
use super::project::{Snapshot, canonical};
use super::scope::{BindKind, Binding, ScopeId, ScopeKind, Source};
use super::syntax::*;
use crate::base::LineCol;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// What a definition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DefinitionKind {
    Module,
    Class,
    Function,
    Method,
    Property,
    /// A variable of a module or a class.
    Variable,
    /// An attribute that a method assigns through its first parameter.
    Attribute,
}

impl DefinitionKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Module => "module",
            Self::Class => "class",
            Self::Function => "function",
            Self::Method => "method",
            Self::Property => "property",
            Self::Variable => "variable",
            Self::Attribute => "attribute",
        }
    }
}

/// One definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    pub kind: DefinitionKind,
    pub name: String,
    /// `Class.method`, within its module; empty for the module.
    pub qualified_name: String,
    pub module: String,
    pub path: Arc<Path>,
    /// Index of the definition around it in the same file's list.
    pub parent: Option<usize>,
    /// Where the name stands.
    pub start: LineCol,
    /// The same as a byte offset.
    pub start_byte: usize,
    /// The last line of the definition.
    pub end_line: u32,
    /// The first line, decorators included.
    pub first_line: u32,
    pub span: Range<usize>,
    /// The head as it is written, on one line, without the colon.
    pub signature: Option<String>,
    pub docstring: Option<String>,
    pub decorators: Vec<String>,
    /// The annotation: of a variable, or of what a function returns.
    pub annotation: Option<String>,
    pub is_async: bool,
}

/// A function parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParameterRow {
    /// Index of the function in the list of definitions.
    pub(crate) definition: usize,
    pub(crate) position: usize,
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) annotation: Option<String>,
    pub(crate) default: Option<String>,
}

/// An entry of a class's parentheses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BaseRow {
    pub(crate) definition: usize,
    pub(crate) position: usize,
    /// `metaclass` and the like; none for a base.
    pub(crate) keyword: Option<String>,
    pub(crate) expression: String,
    pub(crate) expr: ExprId,
}

/// The definitions of one file and what belongs to them.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    /// The module first; a definition comes after what it is in.
    pub(crate) definitions: Vec<Definition>,
    pub(crate) parameters: Vec<ParameterRow>,
    pub(crate) bases: Vec<BaseRow>,
    /// The definition of each scope, by scope id.
    pub(crate) of_scope: Vec<usize>,
}

impl Snapshot {
    /// The definitions of a file.
    pub fn outline(&self, path: &Path) -> Option<Vec<Definition>> {
        let file = self.file_at(path).or_else(|| self.file_at(&canonical(path)))?;
        Some(outline(file).definitions)
    }
}

pub(crate) fn outline(file: &File) -> Outline {
    let mut build = Build { file, out: Outline::default() };
    build.module();
    for id in 0..file.scopes.scopes.len() as u32 {
        build.scope(ScopeId(id));
    }
    build.out
}

struct Build<'a> {
    file: &'a File,
    out: Outline,
}

impl Build<'_> {
    fn text(&self, expr: ExprId) -> Option<String> {
        expr.some().map(|e| one_line(self.file.slice(self.file.ast.expr(e).span)))
    }

    fn definition(&self, kind: DefinitionKind, name: &str, at: u32, span: Span) -> Definition {
        let parent = match kind {
            DefinitionKind::Module => None,
            _ => {
                let scope = self.scope_of(kind, at);
                self.out.of_scope.get(scope.index()).copied()
            }
        };
        let qualified_name = match parent.map(|p| &self.out.definitions[p]) {
            Some(p) if !p.qualified_name.is_empty() => format!("{}.{name}", p.qualified_name),
            Some(_) => name.to_owned(),
            None => String::new(),
        };
        Definition {
            kind,
            name: name.to_owned(),
            qualified_name,
            module: self.file.module_name.as_str().to_owned(),
            path: self.file.path.clone(),
            parent,
            start: self.file.position(at),
            start_byte: at as usize,
            end_line: self.file.position(span.end).line,
            first_line: self.file.position(span.start).line,
            span: span.range(),
            signature: None,
            docstring: None,
            decorators: Vec::new(),
            annotation: None,
            is_async: false,
        }
    }

    /// The scope that a definition stands in: for attributes, that of the class.
    fn scope_of(&self, kind: DefinitionKind, at: u32) -> ScopeId {
        let mut scope = self.file.scopes.at(at);
        while kind == DefinitionKind::Attribute
            && !matches!(self.file.scopes.scope(scope).kind, ScopeKind::Class(_))
        {
            match self.file.scopes.scope(scope).parent {
                Some(parent) => scope = parent,
                None => break,
            }
        }
        scope
    }

    fn module(&mut self) {
        let file = self.file;
        let name = file.module_name.as_str();
        let last = name.rsplit('.').next().unwrap_or(name);
        let span = Span { start: 0, end: file.text.len() as u32 };
        let mut module = self.definition(DefinitionKind::Module, last, 0, span);
        module.docstring = file.ast.docstring.map(|d| docstring(file.slice(d)));
        self.out.definitions.push(module);
        self.out.of_scope = vec![0; file.scopes.scopes.len()];
    }

    /// A scope's own entry, then the names that its body binds.
    fn scope(&mut self, id: ScopeId) {
        let file = self.file;
        let scope = file.scopes.scope(id);
        match scope.kind {
            ScopeKind::Module => {}
            ScopeKind::Function(func) => self.function(id, func),
            ScopeKind::Class(class) => self.class(id, class),
        }
        if !matches!(scope.kind, ScopeKind::Function(_)) {
            self.variables(id);
        }
        if let ScopeKind::Class(class) = scope.kind {
            self.attributes(id, class);
        }
    }

    /// Descend from the scope around: `at` of a `def` line is in the function's own scope.
    fn with_parent(&self, id: ScopeId, mut definition: Definition) -> Definition {
        let parent = self.file.scopes.scope(id).parent.unwrap_or(ScopeId::MODULE);
        let parent = self.out.of_scope[parent.index()];
        definition.parent = Some(parent);
        let around = &self.out.definitions[parent].qualified_name;
        definition.qualified_name = match around.as_str() {
            "" => definition.name.clone(),
            around => format!("{around}.{}", definition.name),
        };
        definition
    }

    fn function(&mut self, id: ScopeId, func: FuncId) {
        let file = self.file;
        let ast = &file.ast;
        let node = ast.function(func);
        let parent = file.scopes.scope(id).parent.unwrap_or(ScopeId::MODULE);
        let in_class = matches!(file.scopes.scope(parent).kind, ScopeKind::Class(_));
        let decorators: Vec<String> =
            ast.list(node.decorators).iter().filter_map(|d| self.text(*d)).collect();
        let is_property = decorators.iter().any(|d| {
            let last = d.rsplit('.').next().unwrap_or(d);
            matches!(last, "property" | "cached_property" | "setter" | "deleter")
        });
        let kind = match (in_class, is_property) {
            (true, true) => DefinitionKind::Property,
            (true, false) => DefinitionKind::Method,
            (false, _) => DefinitionKind::Function,
        };
        let plain = self.definition(kind, node.name.as_str(), node.name_start, node.span);
        let mut definition = self.with_parent(id, plain);
        let header = Span { start: node.def_start, end: node.header_end };
        definition.signature = Some(one_line(file.slice(header).trim_end().trim_end_matches(':')));
        definition.docstring = node.docstring.map(|d| docstring(file.slice(d)));
        definition.annotation = self.text(node.returns);
        definition.decorators = decorators;
        definition.is_async = node.is_async;
        let index = self.out.definitions.len();
        for (position, p) in ast.params(node.params).iter().enumerate() {
            self.out.parameters.push(ParameterRow {
                definition: index,
                position,
                name: p.name.as_str().to_owned(),
                kind: match p.kind {
                    ParamKind::PositionalOnly => "positional",
                    ParamKind::Normal => "normal",
                    ParamKind::VarArgs => "varargs",
                    ParamKind::KeywordOnly => "keyword",
                    ParamKind::VarKeywords => "varkeywords",
                },
                annotation: self.text(p.annotation),
                default: self.text(p.default),
            });
        }
        self.out.definitions.push(definition);
        self.out.of_scope[id.index()] = index;
    }

    fn class(&mut self, id: ScopeId, class: ClassId) {
        let file = self.file;
        let ast = &file.ast;
        let node = ast.class(class);
        let plain =
            self.definition(DefinitionKind::Class, node.name.as_str(), node.name_start, node.span);
        let mut definition = self.with_parent(id, plain);
        let header = Span { start: node.def_start, end: node.header_end };
        definition.signature = Some(one_line(file.slice(header).trim_end().trim_end_matches(':')));
        definition.docstring = node.docstring.map(|d| docstring(file.slice(d)));
        definition.decorators =
            ast.list(node.decorators).iter().filter_map(|d| self.text(*d)).collect();
        let index = self.out.definitions.len();
        for (position, arg) in ast.args(node.args).iter().enumerate() {
            self.out.bases.push(BaseRow {
                definition: index,
                position,
                keyword: match arg.kind {
                    ArgKind::Keyword(name) => Some(name.as_str().to_owned()),
                    ArgKind::DoubleStar => Some("**".to_owned()),
                    ArgKind::Positional | ArgKind::Star => None,
                },
                expression: self.text(arg.value).unwrap_or_default(),
                expr: arg.value,
            });
        }
        self.out.definitions.push(definition);
        self.out.of_scope[id.index()] = index;
    }

    /// The first binding of each name that is a variable of a module or class.
    fn variables(&mut self, id: ScopeId) {
        let file = self.file;
        let all = file.scopes.all(id);
        let mut i = 0;
        let mut found: Vec<(Binding, ExprId)> = Vec::new();
        while i < all.len() {
            let len = all[i..].partition_point(|b| b.name == all[i].name);
            let bindings = &all[i..i + len];
            i += len;
            let annotation = bindings.iter().find_map(|b| match b.kind {
                BindKind::Annotated { annotation, .. } => Some(annotation),
                _ => None,
            });
            let first = bindings.iter().find(|b| {
                matches!(
                    b.kind,
                    BindKind::Target { source: Source::Value, .. } | BindKind::Annotated { .. }
                )
            });
            if let Some(first) = first {
                found.push((*first, annotation.unwrap_or(ExprId::NONE)));
            }
        }
        found.sort_by_key(|(b, _)| b.pos);
        for (binding, annotation) in found {
            let name = binding.name.as_str();
            let span = self.statement_span(id, binding.pos, name);
            let plain = self.definition(DefinitionKind::Variable, name, binding.pos, span);
            let mut definition = plain;
            definition.parent = Some(self.out.of_scope[id.index()]);
            let around = &self.out.definitions[self.out.of_scope[id.index()]].qualified_name;
            definition.qualified_name =
                if around.is_empty() { name.to_owned() } else { format!("{around}.{name}") };
            definition.annotation = self.text(annotation);
            self.out.definitions.push(definition);
        }
    }

    /// The statement that a binding stands in.
    fn statement_span(&self, scope: ScopeId, pos: u32, name: &str) -> Span {
        let ast = &self.file.ast;
        let body = self.file.scopes.scope(scope).body;
        let path = super::infer::enclosing_path(ast, body, pos);
        let stmt = path.last().and_then(|l| ast.block(l.block).get(l.index));
        match stmt.map(|s| ast.stmt(*s).span) {
            Some(span) if span.contains(pos) => span,
            _ => Span { start: pos, end: pos + name.len() as u32 },
        }
    }

    fn attributes(&mut self, id: ScopeId, class: ClassId) {
        let file = self.file;
        let stores = file.scopes.stores_of(class);
        let mut seen = rustc_hash::FxHashSet::default();
        let in_class = |n| !file.scopes.of(id, n).is_empty();
        let mut sorted: Vec<_> = stores.iter().filter(|s| !in_class(s.name)).collect();
        sorted.sort_by_key(|s| s.pos);
        for store in sorted {
            if !seen.insert(store.name) {
                continue;
            }
            let name = store.name.as_str();
            let end = store.pos + name.len() as u32;
            let span = match store.kind {
                BindKind::Target { value, .. } | BindKind::Annotated { value, .. } => Span {
                    start: store.pos,
                    end: value.some().map_or(end, |v| file.ast.expr(v).span.end),
                },
                _ => Span { start: store.pos, end },
            };
            let mut definition = self.definition(DefinitionKind::Attribute, name, store.pos, span);
            let parent = self.out.of_scope[id.index()];
            definition.parent = Some(parent);
            definition.qualified_name =
                format!("{}.{name}", self.out.definitions[parent].qualified_name);
            if let BindKind::Annotated { annotation, .. } = store.kind {
                definition.annotation = self.text(annotation);
            }
            self.out.definitions.push(definition);
        }
    }
}

/// White space collapsed, brackets without space inside.
pub(crate) fn one_line(text: &str) -> String {
    if !text.contains(['\n', '\r', '\t']) && !text.contains("  ") {
        return text.to_owned();
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace("( ", "(").replace(", )", ")").replace(",)", ")").replace(" )", ")")
}

/// A docstring's text: without quotes, its lines as `inspect.cleandoc` gives them.
fn docstring(literal: &str) -> String {
    let text = literal.trim_start_matches(['r', 'R', 'u', 'U', 'b', 'B']);
    let quote = if text.starts_with("\"\"\"") || text.starts_with("'''") { 3 } else { 1 };
    let inner = text.get(quote..text.len().saturating_sub(quote)).unwrap_or("");
    let mut lines = inner.lines();
    let first = lines.next().unwrap_or("").trim();
    let rest: Vec<&str> = lines.collect();
    let indent = rest
        .iter()
        .filter(|l| !l.trim().is_empty())
        .map(|l| l.len() - l.trim_start().len())
        .min()
        .unwrap_or(0);
    let mut out = vec![first];
    out.extend(rest.iter().map(|l| l.get(indent..).unwrap_or("").trim_end()));
    out.join("\n").trim().to_owned()
}
