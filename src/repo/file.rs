//! One analysed file, and the ids by which files and modules are known.
//!
//! # Place
//! Uses `syntax` and `scope`. Held by snapshots and by the library.

use super::infer::FileRelations;
use super::name::Name;
use super::scope::{self, ScopeId, Scopes};
use super::syntax::{self, Ast, ClassId, ExprId, ExprKind, Hole, Region};
use crate::base::{LineCol, LineIndex, Origin};
use rustc_hash::FxHashMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Ids from here on belong to the library, which is shared by all snapshots.
const LIBRARY: u32 = 1 << 31;

/// A file of a snapshot or of the library.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct FileId(pub(crate) u32);

impl FileId {
    /// The function being written, which is parsed apart from its file.
    pub(crate) const FRAGMENT: Self = Self(LIBRARY - 1);

    pub(crate) fn library(index: usize) -> Self {
        Self(LIBRARY | index as u32)
    }
    pub(crate) fn library_index(self) -> Option<usize> {
        (self.0 & LIBRARY != 0).then_some((self.0 & !LIBRARY) as usize)
    }
    pub(crate) fn is_library(self) -> bool {
        self.0 & LIBRARY != 0
    }
}

/// A module of a snapshot or of the library.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ModuleId(pub(crate) u32);

impl ModuleId {
    pub(crate) fn library(index: usize) -> Self {
        Self(LIBRARY | index as u32)
    }
    pub(crate) fn library_index(self) -> Option<usize> {
        (self.0 & LIBRARY != 0).then_some((self.0 & !LIBRARY) as usize)
    }
}

/// One module: its files and the folders its submodules are looked for in.
#[derive(Clone, Debug)]
pub(crate) struct Module {
    pub(crate) name: Name,
    pub(crate) stub: Option<FileId>,
    pub(crate) source: Option<FileId>,
    pub(crate) is_package: bool,
    pub(crate) origin: Origin,
    /// Folders of a package (several for a namespace package), stubs first.
    pub(crate) dirs: Vec<Arc<Path>>,
}

impl Module {
    /// The file whose names the module has.
    pub(crate) fn file(&self) -> Option<FileId> {
        self.stub.or(self.source)
    }
}

/// What is known of one file.
pub(crate) struct File {
    pub(crate) id: FileId,
    pub(crate) path: Arc<Path>,
    pub(crate) text: Arc<str>,
    pub(crate) ast: Ast,
    pub(crate) scopes: Scopes,
    pub(crate) module: Option<ModuleId>,
    pub(crate) module_name: Name,
    pub(crate) is_package: bool,
    pub(crate) is_stub: bool,
    pub(crate) origin: Origin,
    /// For a fragment: the file and scope around it.
    pub(crate) parent: Option<(FileId, ScopeId)>,
    lines: OnceLock<LineIndex>,
    relations: OnceLock<FileRelations>,
    calls: OnceLock<FxHashMap<Name, Vec<ExprId>>>,
}

/// What a file is called, before it is analysed.
#[derive(Clone, Debug)]
pub(crate) struct FileHead {
    pub(crate) id: FileId,
    pub(crate) path: Arc<Path>,
    pub(crate) module: Option<ModuleId>,
    pub(crate) module_name: Name,
    pub(crate) is_package: bool,
    pub(crate) is_stub: bool,
    pub(crate) origin: Origin,
}

impl File {
    /// Parse and index `text`, with the cursor in it when there is a hole.
    pub(crate) fn analyse(head: FileHead, text: Arc<str>, hole: Option<Hole>) -> Self {
        let region = Region { hole, ..Region::whole(&text) };
        Self::analyse_region(head, text, &region, None, None)
    }

    /// Parse a part of a text. `class` is the class around it, when its functions are methods.
    pub(crate) fn analyse_region(
        head: FileHead,
        text: Arc<str>,
        region: &Region,
        parent: Option<(FileId, ScopeId)>,
        class: Option<ClassId>,
    ) -> Self {
        let ast = syntax::parse(&text, region);
        let scopes = scope::index(&ast, region.range.end as u32, class);
        Self {
            id: head.id,
            path: head.path,
            text,
            ast,
            scopes,
            module: head.module,
            module_name: head.module_name,
            is_package: head.is_package,
            is_stub: head.is_stub,
            origin: head.origin,
            parent,
            lines: OnceLock::new(),
            relations: OnceLock::new(),
            calls: OnceLock::new(),
        }
    }

    pub(crate) fn head(&self) -> FileHead {
        FileHead {
            id: self.id,
            path: self.path.clone(),
            module: self.module,
            module_name: self.module_name,
            is_package: self.is_package,
            is_stub: self.is_stub,
            origin: self.origin,
        }
    }

    pub(crate) fn position(&self, offset: u32) -> LineCol {
        let index = self.lines.get_or_init(|| LineIndex::new(&self.text));
        index.position(&self.text, offset as usize)
    }

    pub(crate) fn relations(&self) -> &FileRelations {
        self.relations.get_or_init(|| FileRelations::of(self))
    }

    /// Calls of something with this name (`name(…)` and `x.name(…)`).
    pub(crate) fn calls_of(&self, name: Name) -> &[ExprId] {
        let calls = self.calls.get_or_init(|| {
            let mut calls: FxHashMap<Name, Vec<ExprId>> = FxHashMap::default();
            for (i, expr) in self.ast.exprs.iter().enumerate() {
                if let ExprKind::Call { func, args } = expr.kind
                    && !args.is_empty()
                    && func != ExprId::NONE
                    && let ExprKind::Name(name) | ExprKind::Attribute { name, .. } =
                        self.ast.kind(func)
                {
                    calls.entry(name).or_default().push(ExprId(i as u32));
                }
            }
            calls
        });
        calls.get(&name).map_or(&[], Vec::as_slice)
    }

    /// Does some import statement of this file load a module?
    pub(crate) fn imports(&self, module: Name) -> bool {
        self.relations().imported.contains(&module)
    }

    pub(crate) fn slice(&self, span: syntax::Span) -> &str {
        self.text.get(span.range()).unwrap_or("")
    }

    /// Bytes held for this file.
    pub(crate) fn n_bytes(&self) -> usize {
        self.text.len() + self.ast.n_bytes() + self.scopes.n_bytes() + size_of::<Self>()
    }

    /// The package that relative imports start from.
    pub(crate) fn package(&self) -> &'static str {
        let name = self.module_name.as_str();
        if self.is_package {
            return name;
        }
        name.rsplit_once('.').map_or("", |(package, _)| package)
    }

    /// The absolute dotted name of `level` dots and `module`; `None` above the top package.
    pub(crate) fn absolute(&self, level: u32, module: Name) -> Option<Name> {
        if level == 0 {
            return Some(module);
        }
        let mut package = self.package();
        for _ in 1..level {
            package = match package.rsplit_once('.') {
                Some((outer, _)) => outer,
                None if !package.is_empty() => "",
                None => return None,
            };
        }
        Some(match (package, module.as_str()) {
            (p, "") => Name::new(p),
            ("", m) => Name::new(m),
            (p, m) => Name::new(&format!("{p}.{m}")),
        })
    }
}
