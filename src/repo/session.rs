//! A conversation about one project: questions at a cursor, with what was found for earlier ones.
//!
//! # Place
//! Uses `cursor` and `infer`. Owned by a completion tool, one per thread.
//! # Invariants
//! - An answer depends on the question's text and the project's snapshot only, never on the order of
//!   questions: what is kept from earlier ones rests on files that did not change since.
//! - While one function is being written, the rest of its file is analysed once: the file without the
//!   function's body is the *base*, the function alone is the *fragment*.

use super::cursor::{Place, name_start};
use super::file::{File, FileHead, FileId};
use super::infer::{ClassKey, Fragment, Known, World};
use super::name::Name;
use super::project::{Project, Snapshot, canonical, head};
use super::scope::{ScopeId, ScopeKind};
use super::syntax::{FuncId, Hole, Region};
use crate::base::{Candidates, NameRole};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// The file around the function being written.
struct Base {
    path: PathBuf,
    /// The file with the body cut out.
    file: Arc<File>,
    /// Bytes before and after the part that may change.
    n_before: usize,
    n_after: usize,
    /// Where the function begins (decorators included).
    function_start: usize,
    scope: ScopeId,
    class: Option<ClassKey>,
}

impl Base {
    /// The part of `text` that is the function, when the rest is as it was.
    fn region_in(&self, path: &Path, text: &str, offset: usize) -> Option<Range<usize>> {
        let known = &self.file.text;
        let end = text.len().checked_sub(self.n_after)?;
        let fits = self.path == path
            && self.n_before <= offset
            && offset <= end
            && text.as_bytes()[..self.n_before] == known.as_bytes()[..self.n_before]
            && text.as_bytes()[end..] == known.as_bytes()[known.len() - self.n_after..];
        fits.then_some(self.function_start..end)
    }
}

/// Questions about one project.
pub struct Session {
    project: Arc<Project>,
    snapshot: Arc<Snapshot>,
    base: Option<Base>,
    known: Known,
    /// The file as the last question outside a function had it.
    path_cache: Option<(PathBuf, PathBuf)>,
    /// Stack that a question may use, in bytes.
    stack_bytes_max: usize,
    ran_out_of_stack: bool,
    /// Of the name that is asked about.
    role: NameRole,
}

impl Session {
    pub fn new(project: Arc<Project>) -> Self {
        let snapshot = project.snapshot();
        Self {
            project,
            snapshot,
            base: None,
            known: Known::default(),
            path_cache: None,
            stack_bytes_max: usize::MAX,
            ran_out_of_stack: false,
            role: NameRole::Any,
        }
    }

    /// Let questions use this much stack, counted from where they are asked.
    pub fn limit_stack(&mut self, bytes_max: usize) {
        self.stack_bytes_max = bytes_max;
    }

    /// Was the last answer cut short by the limit of the stack?
    pub fn ran_out_of_stack(&self) -> bool {
        self.ran_out_of_stack
    }

    /// The names that may stand at `offset` in `text`, which takes the place of the file's own.
    pub fn names_at(
        &mut self,
        path: &Path,
        text: &str,
        offset: usize,
        deadline: Option<Instant>,
    ) -> Candidates {
        self.names_for(NameRole::Any, path, text, offset, deadline)
    }

    /// As [`Session::names_at`], for a name of which the role is known.
    pub fn names_for(
        &mut self,
        role: NameRole,
        path: &Path,
        text: &str,
        offset: usize,
        deadline: Option<Instant>,
    ) -> Candidates {
        self.role = role;
        self.ran_out_of_stack = false;
        if offset > text.len() || !text.is_char_boundary(offset) {
            return Candidates::unknown(offset.min(text.len()), "the cursor is not in the text");
        }
        let start = name_start(text, offset);
        if text[start..offset].starts_with(|c: char| c.is_numeric()) {
            return Candidates::unknown(start, "in a number");
        }
        let current = self.project.snapshot();
        if !Arc::ptr_eq(&current, &self.snapshot) {
            self.snapshot = current;
            self.base = None;
            self.known.forget_project();
        }
        let path = self.canonical(path);
        let hole = Hole { start, resume: line_end(text, offset) };
        let typed = Name::new(&text[start..offset]).as_str();
        let region = self.base.as_ref().and_then(|b| b.region_in(&path, text, start));
        let region = match region {
            Some(region) => region,
            None => match self.rebase(&path, text, hole) {
                Ok(region) => region,
                Err(whole) => {
                    return self.ask(whole.clone(), Some(whole), None, start, typed, deadline);
                }
            },
        };
        let Some(base) = &self.base else {
            return Candidates::unknown(start, "no place for a name");
        };
        let hole = Hole { resume: hole.resume.min(region.end), ..hole };
        let region = Region { range: region, hole: Some(hole) };
        let head = FileHead { id: FileId::FRAGMENT, ..base.file.head() };
        let parent = Some((base.file.id, base.scope));
        let class = base.class.and_then(ClassKey::class);
        let file = Arc::new(File::analyse_region(head, Arc::from(text), &region, parent, class));
        let stored = file
            .scopes
            .attr_stores
            .iter()
            .filter(|s| s.of_self.is_some())
            .map(|s| s.name)
            .collect();
        let fragment = Fragment { file: file.clone(), class: base.class, stored };
        let overlay = base.file.clone();
        self.ask(file, Some(overlay), Some(fragment), start, typed, deadline)
    }

    fn ask(
        &mut self,
        file: Arc<File>,
        overlay: Option<Arc<File>>,
        fragment: Option<Fragment>,
        start: usize,
        typed: &str,
        deadline: Option<Instant>,
    ) -> Candidates {
        self.known.forget_fragment();
        let moved = self.base.as_ref().zip(fragment.as_ref()).map(|(b, f)| Moved {
            file: b.file.id,
            from: b.n_before,
            by: f.file.text.len() as i64 - b.file.text.len() as i64,
        });
        let world = World::new(&self.snapshot, overlay, deadline)
            .resume(fragment, std::mem::take(&mut self.known))
            .within_stack(self.stack_bytes_max);
        let found = Place { world: &world, file, start, typed, moved, role: self.role }.answer();
        self.ran_out_of_stack = world.ran_out_of_stack();
        self.known = world.into_known();
        found
    }

    /// Analyse a file with a new function in it. Gives the function's part of the text, or the whole
    /// file when the cursor is in no function.
    fn rebase(&mut self, path: &Path, text: &str, hole: Hole) -> Result<Range<usize>, Arc<File>> {
        self.base = None;
        self.known.forget_overlay();
        let head = self.head_of(path);
        let whole = File::analyse(head.clone(), Arc::from(text), Some(hole));
        let Some((func, scope)) = outermost_function(&whole, hole.start as u32) else {
            return Err(Arc::new(whole));
        };
        let node = whole.ast.function(func);
        let n_before = node.docstring.map_or(node.header_end, |d| d.end) as usize;
        let end = line_end(text, (node.span.end as usize).max(hole.start));
        if n_before > hole.start {
            return Err(Arc::new(whole)); // In the header or the docstring.
        }
        let cut = format!("{}\n{}", &text[..n_before], &text[end..]);
        let file = Arc::new(File::analyse(head, Arc::from(cut), None));
        // The scope around the function has the same number in both: nothing before it changed.
        let class = match file.scopes.scopes.get(scope.index()).map(|s| s.kind) {
            Some(ScopeKind::Class(class)) => Some(ClassKey::new(file.id, class)),
            Some(_) => None,
            None => return Err(Arc::new(whole)),
        };
        // From the start of its line, so that its indentation is seen.
        let function_start = line_start(text, node.span.start as usize);
        self.base = Some(Base {
            path: path.to_path_buf(),
            file,
            n_before,
            n_after: text.len() - end,
            function_start,
            scope,
            class,
        });
        Ok(function_start..end)
    }

    fn canonical(&mut self, path: &Path) -> PathBuf {
        if let Some((asked, found)) = &self.path_cache
            && asked == path
        {
            return found.clone();
        }
        let found = canonical(path);
        self.path_cache = Some((path.to_path_buf(), found.clone()));
        found
    }

    fn head_of(&self, path: &Path) -> FileHead {
        match self.snapshot.file_at(path) {
            Some(file) => file.head(),
            None => {
                let id = FileId(self.snapshot.files.len() as u32);
                let mut head = head(id, path, self.project.source_roots());
                head.module = self.snapshot.modules.by_name.get(&head.module_name).copied();
                head
            }
        }
    }
}

/// How far the places of the base lie from those of the text as it is.
#[derive(Clone, Copy)]
pub(super) struct Moved {
    file: FileId,
    from: usize,
    by: i64,
}

impl Moved {
    /// A place of `file` in the text as it is.
    pub(super) fn place(self, file: FileId, pos: u32) -> u32 {
        if file == self.file && pos as usize > self.from {
            u32::try_from(i64::from(pos) + self.by).unwrap_or(pos)
        } else {
            pos
        }
    }
}

/// The outermost function around a place (classes may be around it), and the scope it stands in.
fn outermost_function(file: &File, at: u32) -> Option<(FuncId, ScopeId)> {
    let mut scope = Some(file.scopes.at(at));
    let mut found = None;
    while let Some(id) = scope {
        let node = file.scopes.scope(id);
        if let ScopeKind::Function(func) = node.kind {
            found = Some((func, node.parent.unwrap_or(ScopeId::MODULE)));
        }
        scope = node.parent;
    }
    found
}

/// The start of the line that holds `offset`.
fn line_start(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset].iter().rposition(|b| matches!(b, b'\n' | b'\r')).map_or(0, |n| n + 1)
}

/// The end of the line that holds `offset`.
fn line_end(text: &str, offset: usize) -> usize {
    let offset = offset.min(text.len());
    text.as_bytes()[offset..]
        .iter()
        .position(|b| matches!(b, b'\n' | b'\r'))
        .map_or(text.len(), |n| offset + n)
}
