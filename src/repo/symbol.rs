//! Functions by name and by position, with the parts of their text.
//!
//! # Place
//! Read by whoever writes, replaces or samples functions. Knows files and trees, no types.
//! # Shapes and units
//! All ranges are byte offsets into the file's decoded text, see [`Snapshot::text`].

use super::error::RepoError;
use super::file::File;
use super::name::Name;
use super::project::{Snapshot, canonical};
use super::scope::{ScopeId, ScopeKind};
use super::syntax::{ExprKind, FuncId, Span};
use crate::base::{LineCol, LineIndex};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Symbols offered when one is not found.
const NEAREST_MAX: usize = 5;

/// A function of the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionInfo {
    /// `package.module:Class.method`.
    pub symbol: String,
    pub path: Arc<Path>,
    /// Of the `def` line.
    pub line: u32,
    /// Decorators, header and body.
    pub whole: Range<usize>,
    /// From `def` (or `async`) to after the colon.
    pub header: Range<usize>,
    pub docstring: Option<Range<usize>>,
    /// What comes after the header and the docstring: from the start of a line to after the last
    /// statement (its line end not included). Empty when there is nothing.
    pub body: Range<usize>,
    /// The white space that body lines begin with.
    pub indent: String,
    pub is_async: bool,
    /// The class whose method it is.
    pub class: Option<String>,
    pub n_decorators: usize,
}

impl Snapshot {
    /// A function by symbol, `package.module:Class.method`.
    ///
    /// # Errors
    /// When there is none; the nearest symbols are named.
    pub fn find_symbol(&self, symbol: &str) -> Result<FunctionInfo, RepoError> {
        let Some((module, path)) = symbol.split_once(':') else {
            // `package.module.Class.method` is what people write first.
            let nearest = self.nearest(&symbol.replacen('.', ":", 1));
            return match nearest.iter().find(|s| s.replace(':', ".") == symbol) {
                Some(meant) => self.find_symbol(&meant.clone()),
                None if nearest.is_empty() => {
                    Err(RepoError::BadSymbol { symbol: symbol.to_owned() })
                }
                None => Err(RepoError::NoSuchSymbol { symbol: symbol.to_owned(), nearest }),
            };
        };
        let files = self.files.iter().flatten().filter(|f| f.module_name.as_str() == module);
        let mut stub = None;
        for file in files {
            let found = (0..file.ast.functions.len() as u32)
                .map(FuncId)
                .filter(|f| qualified_name(file, *f) == path)
                .min_by_key(|f| is_overload(file, *f));
            match found {
                Some(func) if !file.is_stub => return Ok(describe(file, func)),
                Some(func) => stub = Some(describe(file, func)),
                None => {}
            }
        }
        stub.ok_or_else(|| RepoError::NoSuchSymbol {
            symbol: symbol.to_owned(),
            nearest: self.nearest(symbol),
        })
    }

    /// The innermost function around a position.
    ///
    /// # Errors
    /// When the file is not part of the project or no function is there.
    pub fn function_at(&self, path: &Path, at: LineCol) -> Result<FunctionInfo, RepoError> {
        let file = self.file_at(path).or_else(|| self.file_at(&canonical(path)));
        let Some(file) = file else {
            return Err(RepoError::NoSuchFile {
                path: path.to_path_buf(),
                reason: "it was not analysed".to_owned(),
            });
        };
        let none = || RepoError::NoFunctionAt { path: path.to_path_buf(), line: at.line };
        let offset = LineIndex::new(&file.text).offset(&file.text, at).map_err(|_| none())? as u32;
        let mut scope = file.scopes.at(offset);
        loop {
            let node = file.scopes.scope(scope);
            if let ScopeKind::Function(func) = node.kind {
                return Ok(describe(file, func));
            }
            scope = node.parent.ok_or_else(none)?;
        }
    }

    /// Every function of the project's sources, in order of path and place.
    pub fn functions(&self) -> impl Iterator<Item = FunctionInfo> + '_ {
        self.files.iter().flatten().filter(|f| !f.is_stub).flat_map(|file| {
            (0..file.ast.functions.len() as u32).map(move |f| describe(file, FuncId(f)))
        })
    }

    /// Symbols that look like this one, nearest first.
    fn nearest(&self, symbol: &str) -> Vec<String> {
        let last = symbol.rsplit(['.', ':']).next().unwrap_or(symbol);
        let mut scored: Vec<(usize, String)> = Vec::new();
        for file in self.files.iter().flatten().filter(|f| !f.is_stub) {
            for f in 0..file.ast.functions.len() as u32 {
                let func = FuncId(f);
                let name = file.ast.function(func).name.as_str();
                let of_name = distance(last, name);
                if of_name > 2 + last.len() / 3 {
                    continue;
                }
                let full = format!("{}:{}", file.module_name, qualified_name(file, func));
                scored.push((of_name * 4 + distance(symbol, &full), full));
            }
        }
        scored.sort();
        scored.dedup_by(|a, b| a.1 == b.1);
        scored.truncate(NEAREST_MAX);
        scored.into_iter().map(|(_, s)| s).collect()
    }
}

fn is_overload(file: &File, func: FuncId) -> bool {
    file.ast.list(file.ast.function(func).decorators).iter().any(|d| {
        matches!(
            file.ast.kind(*d),
            ExprKind::Name(Name::OVERLOAD) | ExprKind::Attribute { name: Name::OVERLOAD, .. }
        )
    })
}

/// `Class.method`, with the functions around it.
pub(crate) fn qualified_name(file: &File, func: FuncId) -> String {
    let mut parts = vec![file.ast.function(func).name.as_str()];
    let mut at = file.scopes.scope(file.scopes.of_function(func)).parent;
    while let Some(scope) = at.filter(|s| *s != ScopeId::MODULE) {
        let node = file.scopes.scope(scope);
        match node.kind {
            ScopeKind::Function(f) => parts.push(file.ast.function(f).name.as_str()),
            ScopeKind::Class(c) => parts.push(file.ast.class(c).name.as_str()),
            ScopeKind::Module => {}
        }
        at = node.parent;
    }
    parts.reverse();
    parts.join(".")
}

fn describe(file: &File, func: FuncId) -> FunctionInfo {
    let node = file.ast.function(func);
    let text = &*file.text;
    let range = |s: Span| s.range();
    let docstring = node.docstring.map(range);
    let end = (node.span.end as usize).min(text.len());
    let after = docstring.as_ref().map_or(node.header_end as usize, |d| d.end).min(end);
    let statements = file.ast.block(node.body);
    let first = statements.get(usize::from(node.docstring.is_some()));
    let header_line_end = after + text[after..].find('\n').map_or(text.len() - after, |n| n + 1);
    let body = match first.map(|s| file.ast.stmt(*s).span.start as usize) {
        // On the line of the header: `def f(): return 1`.
        Some(start) if start < header_line_end => after.min(start)..end,
        Some(_) => header_line_end.min(end)..end,
        None => header_line_end.min(text.len())..header_line_end.min(text.len()),
    };
    let def_indent = line_indent(text, node.def_start as usize);
    let indent = statements
        .iter()
        .map(|s| file.ast.stmt(*s).span.start as usize)
        .find(|s| {
            *s > node.header_end as usize
                && text[node.header_end as usize..*s].contains(['\n', '\r'])
        })
        .map_or_else(|| format!("{def_indent}{}", unit(text)), |s| line_indent(text, s).to_owned());
    let parent = file.scopes.scope(file.scopes.of_function(func)).parent;
    let class = parent.and_then(|p| match file.scopes.scope(p).kind {
        ScopeKind::Class(c) => Some(file.ast.class(c).name.as_str().to_owned()),
        _ => None,
    });
    FunctionInfo {
        symbol: format!("{}:{}", file.module_name, qualified_name(file, func)),
        path: file.path.clone(),
        line: file.position(node.def_start).line,
        whole: range(node.span),
        header: node.def_start as usize..node.header_end as usize,
        docstring,
        body,
        indent,
        is_async: node.is_async,
        class,
        n_decorators: node.decorators.len as usize,
    }
}

/// The white space at the start of the line that holds `at`.
fn line_indent(text: &str, at: usize) -> &str {
    let start = text[..at].rfind(['\n', '\r']).map_or(0, |n| n + 1);
    let line = &text[start..at];
    let len = line.len() - line.trim_start_matches([' ', '\t', '\u{c}']).len();
    line[..len].trim_start_matches('\u{c}')
}

/// One step of indentation as the file writes it.
fn unit(text: &str) -> &'static str {
    let tabbed = text.lines().any(|l| l.starts_with('\t'));
    let spaced = text.lines().any(|l| l.starts_with("  "));
    if tabbed && !spaced { "\t" } else { "    " }
}

/// Edits between two texts, up to 64 bytes of each.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) =
        (&a.as_bytes()[a.len().saturating_sub(64)..], &b.as_bytes()[b.len().saturating_sub(64)..]);
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut left = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let same = left + usize::from(x != y);
            left = row[j + 1];
            row[j + 1] = same.min(left + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
