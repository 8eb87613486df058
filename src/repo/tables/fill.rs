//! Filling the tables from a snapshot.
//!
//! # Place
//! Part of the tables. Rows of a file come from its outline, scopes and tree; what names mean is asked of
//! inference.

use super::error::TableError;
use super::schema::TABLES;
use crate::repo::file::{File, FileId};
use crate::repo::infer::{Env, Known, Ty, World};
use crate::repo::locate::{
    STACK_BYTES_MAX, Site, attribute_sites, attribute_span, name_sites, symbol,
};
use crate::repo::name::Name;
use crate::repo::outline::{Definition, DefinitionKind, Outline, outline};
use crate::repo::project::Snapshot;
use crate::repo::scope::{BindKind, ScopeId};
use crate::repo::syntax::*;
use crate::repo::walk::{Around, Visitor, walk};
use rusqlite::{CachedStatement, Connection, params};
use rustc_hash::{FxHashMap, FxHashSet};
use std::path::Path;
use std::sync::Arc;

/// Are references resolved to definitions? That is most of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum References {
    Resolved,
    LeftOut,
}

/// The tables of one snapshot.
pub struct Database {
    connection: Connection,
}

impl Database {
    /// Make the tables, in memory or (when a path is given) in a new file. `each` is told how many files of
    /// how many are done.
    ///
    /// # Errors
    /// When the file cannot be written, or is there already and is no database of ours.
    pub fn fill(
        snapshot: &Snapshot,
        root: &Path,
        path: Option<&Path>,
        references: References,
        each: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, TableError> {
        let mut connection = match path {
            None => Connection::open_in_memory().map_err(fault)?,
            Some(path) => emptied(path)?,
        };
        connection
            .execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
            .map_err(fault)?;
        let transaction = connection.transaction().map_err(fault)?;
        let create: String = TABLES.iter().map(super::schema::Table::create).collect();
        transaction.execute_batch(&create).map_err(fault)?;
        Filler::new(&transaction, snapshot, root)?.fill(references, each)?;
        let index: String = TABLES.iter().map(super::schema::Table::index).collect();
        transaction.execute_batch(&index).map_err(fault)?;
        transaction.commit().map_err(fault)?;
        connection.pragma_update(None, "query_only", true).map_err(fault)?;
        Ok(Self { connection })
    }

    pub(super) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

fn fault(error: rusqlite::Error) -> TableError {
    TableError::Fill { problem: error.to_string() }
}

/// A file that is empty, or held tables of ours and is made empty.
fn emptied(path: &Path) -> Result<Connection, TableError> {
    let unwritable = |problem: String| TableError::Unwritable { path: path.to_path_buf(), problem };
    if path.exists() {
        let connection = Connection::open(path).map_err(|e| unwritable(e.to_string()))?;
        let is_ours = |c: &Connection| -> rusqlite::Result<bool> {
            let mut tables = c.prepare("SELECT name FROM sqlite_master WHERE type = 'table'")?;
            let names: Vec<String> =
                tables.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
            Ok(names.is_empty() || names.iter().all(|n| TABLES.iter().any(|t| t.name == n)))
        };
        if !is_ours(&connection).map_err(|e| unwritable(e.to_string()))? {
            return Err(unwritable("it holds other tables; name another file".to_owned()));
        }
        drop(connection);
        std::fs::remove_file(path).map_err(|e| unwritable(e.to_string()))?;
    }
    Connection::open(path).map_err(|e| unwritable(e.to_string()))
}

struct Filler<'c, 's> {
    snapshot: &'s Snapshot,
    root: std::path::PathBuf,
    statements: FxHashMap<&'static str, CachedStatement<'c>>,
    outlines: Vec<(Arc<File>, Outline)>,
    /// Definition ids: of a file's first definition, by file.
    first_ids: FxHashMap<FileId, i64>,
    by_site: FxHashMap<Site, i64>,
}

impl<'c, 's> Filler<'c, 's> {
    fn new(
        connection: &'c Connection,
        snapshot: &'s Snapshot,
        root: &Path,
    ) -> Result<Self, TableError> {
        connection.set_prepared_statement_cache_capacity(TABLES.len() * 2);
        let mut statements = FxHashMap::default();
        for table in TABLES {
            let statement = connection.prepare_cached(&table.insert()).map_err(fault)?;
            statements.insert(table.name, statement);
        }
        let outlines: Vec<(Arc<File>, Outline)> =
            snapshot.files.iter().flatten().map(|f| (f.clone(), outline(f))).collect();
        let mut first_ids = FxHashMap::default();
        let mut by_site = FxHashMap::default();
        let mut next = 1_i64;
        for (file, outline) in &outlines {
            first_ids.insert(file.id, next);
            for definition in &outline.definitions {
                let pos = definition.start_byte as u32;
                by_site.entry(Site { file: file.id, pos }).or_insert(next);
                next += 1;
            }
            // The module itself, for who imports it.
            by_site.insert(Site { file: file.id, pos: 0 }, first_ids[&file.id]);
        }
        Ok(Self { snapshot, root: root.to_path_buf(), statements, outlines, first_ids, by_site })
    }

    fn insert(
        &mut self,
        table: &'static str,
        row: impl rusqlite::Params,
    ) -> Result<(), TableError> {
        let statement = self.statements.get_mut(table).expect("prepared for every table");
        statement.execute(row).map(|_| ()).map_err(fault)
    }

    fn fill(
        mut self,
        references: References,
        each: &mut dyn FnMut(usize, usize),
    ) -> Result<(), TableError> {
        let outlines = std::mem::take(&mut self.outlines);
        let n = outlines.len();
        let mut tiers = Known::default();
        let mut modules: FxHashSet<Name> = FxHashSet::default();
        for (done, (file, outline)) in outlines.iter().enumerate() {
            self.file(file)?;
            self.definitions(file, outline)?;
            self.parts(file, outline)?;
            if modules.insert(file.module_name) && file.module_name != Name::EMPTY {
                self.module(file)?;
            }
            self.errors(file)?;
            let world = World::new(self.snapshot, None, None)
                .resume(None, tiers)
                .within_stack(STACK_BYTES_MAX);
            self.bases(&world, file, outline)?;
            self.imports(&world, file)?;
            if references == References::Resolved {
                self.references(&world, file, outline)?;
            }
            tiers = world.into_known();
            each(done + 1, n);
        }
        Ok(())
    }

    fn relative(&self, file: &File) -> String {
        let path = file.path.strip_prefix(&self.root).unwrap_or(&file.path);
        path.to_string_lossy().into_owned()
    }

    fn file_number(file: &File) -> i64 {
        i64::from(file.id.0) + 1
    }

    fn file(&mut self, file: &File) -> Result<(), TableError> {
        let path = self.relative(file);
        let n_lines = file.text.lines().count() as i64;
        self.insert(
            "files",
            params![
                Self::file_number(file),
                path,
                file.module_name.as_str(),
                file.is_package,
                file.is_stub,
                n_lines,
                file.text.len() as i64,
                file.ast.errors.len() as i64,
            ],
        )
    }

    fn module(&mut self, file: &File) -> Result<(), TableError> {
        let name = file.module_name.as_str();
        let (parent, last) = match name.rsplit_once('.') {
            Some((parent, last)) => (Some(format!("Module {parent}")), last),
            None => (None, name),
        };
        let path = self.relative(file);
        self.insert("M", params![format!("Module {name}"), last, parent, file.is_package, path])
    }

    fn definitions(&mut self, file: &File, outline: &Outline) -> Result<(), TableError> {
        let first = self.first_ids[&file.id];
        for (i, d) in outline.definitions.iter().enumerate() {
            let decorators = serde_json::to_string(&d.decorators).unwrap_or_default();
            self.insert(
                "definitions",
                params![
                    first + i as i64,
                    Self::file_number(file),
                    d.parent.map(|p| first + p as i64),
                    d.kind.as_str(),
                    d.name,
                    d.qualified_name,
                    d.module,
                    d.start.line,
                    d.start.col,
                    d.first_line,
                    d.end_line,
                    d.span.start as i64,
                    d.span.end as i64,
                    d.signature,
                    d.docstring,
                    decorators,
                    d.annotation,
                    d.is_async,
                ],
            )?;
            self.cocogen(file, outline, d)?;
        }
        Ok(())
    }

    /// The row of CoCoGen's table that a definition belongs to.
    fn cocogen(
        &mut self,
        file: &File,
        outline: &Outline,
        d: &Definition,
    ) -> Result<(), TableError> {
        let Some(parent) = d.parent.map(|p| &outline.definitions[p]) else {
            return Ok(());
        };
        let m = format!("Module {}", d.module);
        let content = file.text.get(d.span.clone()).unwrap_or("");
        let path = self.relative(file);
        let (from, to) = (d.first_line, d.end_line);
        let class = format!("Class {}", parent.qualified_name);
        let variable = format!("Variable {}", d.name);
        let function = format!("Function {}", d.name);
        match (d.kind, parent.kind) {
            (DefinitionKind::Class, _) => {
                let c = format!("Class {}", d.qualified_name);
                self.insert("M_C", params![m, c, d.name, content, path, from, to])
            }
            (DefinitionKind::Method | DefinitionKind::Property, _) => self.insert(
                "M_C_CF",
                params![m, class, function, d.name, d.signature, content, path, from, to],
            ),
            (DefinitionKind::Variable | DefinitionKind::Attribute, DefinitionKind::Class) => {
                self.insert("M_C_V", params![m, class, variable, d.name, content, path, from, to])
            }
            (DefinitionKind::Function, DefinitionKind::Module) => self
                .insert("M_GF", params![m, function, d.name, d.signature, content, path, from, to]),
            (DefinitionKind::Variable, DefinitionKind::Module) => {
                self.insert("M_GV", params![m, variable, d.name, content, path, from, to])
            }
            _ => Ok(()),
        }
    }

    fn parts(&mut self, file: &File, outline: &Outline) -> Result<(), TableError> {
        let first = self.first_ids[&file.id];
        for p in &outline.parameters {
            self.insert(
                "parameters",
                params![
                    first + p.definition as i64,
                    p.position as i64,
                    p.name,
                    p.kind,
                    p.annotation,
                    p.default,
                ],
            )?;
        }
        Ok(())
    }

    fn bases(
        &mut self,
        world: &World<'_>,
        file: &Arc<File>,
        outline: &Outline,
    ) -> Result<(), TableError> {
        let first = self.first_ids[&file.id];
        for base in &outline.bases {
            world.renew();
            let scope = file.scopes.at(file.ast.expr(base.expr).span.start);
            let around = file.scopes.scope(scope).parent.unwrap_or(ScopeId::MODULE);
            let value = world.expr(&Env::new(file.clone(), around), base.expr);
            let class = match &value.items[..] {
                [Ty::Class { class, .. }] => Some(*class),
                _ => None,
            };
            let resolved = class.and_then(|class| {
                let owner = world.file(class.file);
                let pos = owner.ast.class(class.class()?).name_start;
                let id = self.by_site.get(&Site { file: class.file, pos }).copied();
                Some((symbol(&owner, pos).0, id))
            });
            let (resolved, id) = resolved.map_or((None, None), |(s, id)| (Some(s), id));
            self.insert(
                "bases",
                params![
                    first + base.definition as i64,
                    base.position as i64,
                    base.keyword,
                    base.expression,
                    resolved,
                    id,
                ],
            )?;
        }
        Ok(())
    }

    fn imports(&mut self, world: &World<'_>, file: &Arc<File>) -> Result<(), TableError> {
        let number = Self::file_number(file);
        let origin = |module: Option<Name>| {
            let id = module.and_then(|m| world.resolve_module(m));
            id.map_or("unknown", |id| world.module(id).origin.as_str())
        };
        let mut rows: Vec<ImportRow> = Vec::new();
        for binding in &file.scopes.bindings {
            let line = file.position(binding.pos).line;
            match binding.kind {
                BindKind::Import { alias } => {
                    let alias = &file.ast.aliases[alias as usize];
                    let module = alias.name.as_str().to_owned();
                    let bound = binding.name.as_str().to_owned();
                    rows.push((line, Some(module), None, Some(bound), 0, origin(Some(alias.name))));
                }
                BindKind::ImportFrom { from, alias } => {
                    let node = &file.ast.imports_from[from as usize];
                    let module = file.absolute(node.level, node.module);
                    let name = file.ast.aliases[alias as usize].name.as_str().to_owned();
                    let bound = binding.name.as_str().to_owned();
                    let text = module.map(|m| m.as_str().to_owned());
                    rows.push((line, text, Some(name), Some(bound), node.level, origin(module)));
                }
                _ => {}
            }
        }
        for &star in &file.scopes.stars {
            let node = &file.ast.imports_from[star as usize];
            let module = file.absolute(node.level, node.module);
            let line = file.position(node.module_start).line;
            let text = module.map(|m| m.as_str().to_owned());
            rows.push((line, text, Some("*".to_owned()), None, node.level, origin(module)));
        }
        rows.sort_by_key(|r| r.0);
        for (line, module, name, alias, level, origin) in rows {
            self.insert("imports", params![number, line, module, name, alias, level, origin])?;
        }
        Ok(())
    }

    fn errors(&mut self, file: &File) -> Result<(), TableError> {
        for error in &file.ast.errors {
            let at = file.position(error.span.start);
            self.insert(
                "errors",
                params![Self::file_number(file), at.line, at.col, error.message],
            )?;
        }
        Ok(())
    }

    fn references(
        &mut self,
        world: &World<'_>,
        file: &Arc<File>,
        outline: &Outline,
    ) -> Result<(), TableError> {
        let mut reader = Reader { world, rows: Vec::new(), called: FxHashSet::default() };
        for expr in &file.ast.exprs {
            if let ExprKind::Call { func, .. } = expr.kind
                && func != ExprId::NONE
            {
                reader.called.insert(func);
            }
        }
        walk(file, &mut reader);
        let mut rows = reader.rows;
        rows.sort_by_key(|r| r.at);
        let first = self.first_ids[&file.id];
        let number = Self::file_number(file);
        for row in rows {
            let at = file.position(row.at);
            let inside = outline.of_scope[file.scopes.at(row.at).index()] as i64;
            let (target, id) = match row.site {
                Some(site) => {
                    let id = self.by_site.get(&site).copied();
                    (Some(symbol(&world.file(site.file), site.pos).0), id)
                }
                None => (None, None),
            };
            self.insert(
                "refs",
                params![
                    number,
                    at.line,
                    at.col,
                    row.name.as_str(),
                    row.kind,
                    first + inside,
                    target,
                    id,
                ],
            )?;
        }
        Ok(())
    }
}

/// Line, module, name, alias, level, origin.
type ImportRow = (u32, Option<String>, Option<String>, Option<String>, u32, &'static str);

struct Reference {
    at: u32,
    name: Name,
    kind: &'static str,
    site: Option<Site>,
}

struct Reader<'w, 's> {
    world: &'w World<'s>,
    rows: Vec<Reference>,
    called: FxHashSet<ExprId>,
}

impl Visitor for Reader<'_, '_> {
    fn load(&mut self, env: &Env, expr: ExprId, _around: Around) {
        let file = &env.file;
        let span = file.ast.expr(expr).span;
        self.world.renew();
        let (at, name, sites, plain) = match file.ast.kind(expr) {
            ExprKind::Name(name) if span.start < span.end => {
                (span.start, name, name_sites(self.world, env, name, span.start), "name")
            }
            ExprKind::Attribute { value, name } if name != Name::EMPTY => {
                let at = attribute_span(file, expr, name).start;
                (at, name, attribute_sites(self.world, env, value, name), "attribute")
            }
            _ => return,
        };
        let kind = if self.called.contains(&expr) { "call" } else { plain };
        let site = match sites[..] {
            [only] => Some(only),
            _ => None,
        };
        self.rows.push(Reference { at, name, kind, site });
    }
}
