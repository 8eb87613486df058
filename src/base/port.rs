//! The port between the engine and completion tools: what is asked, and what may be answered.
//!
//! # Place
//! Uses nothing. Implemented by `complete`, asked by `runtime` on behalf of `constrain`, which knows
//! neither. Nothing here mentions tokens or masks.
//! # Invariants
//! Unknown is not empty: only [`Answer::Closed`] may forbid a token.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// How much an answer may be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The names are complete: any other name is an error at run time.
    Closed,
    /// The names exist, others may too: a preference, never a wall.
    Open,
    /// The tool knows nothing about this place.
    Unknown,
    /// The deadline passed first.
    TimedOut,
}

impl Answer {
    /// The spelling used in JSON: `closed`, `open`, `unknown`, `timed_out`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::Unknown => "unknown",
            Self::TimedOut => "timed_out",
        }
    }
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CandidateKind {
    Module,
    Class,
    Function,
    Method,
    Property,
    /// An attribute of an instance or class that is not a method or property.
    Attribute,
    Variable,
    Parameter,
    /// The name of a keyword argument, offered inside a call's parentheses.
    Keyword,
    Unknown,
}

impl CandidateKind {
    /// The spelling used in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Module => "module",
            Self::Class => "class",
            Self::Function => "function",
            Self::Method => "method",
            Self::Property => "property",
            Self::Attribute => "attribute",
            Self::Variable => "variable",
            Self::Parameter => "parameter",
            Self::Keyword => "keyword",
            Self::Unknown => "unknown",
        }
    }
}

/// Where a name comes from, seen from the project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// Local to the function being written.
    Local,
    Project,
    StandardLibrary,
    Package,
    Builtin,
    Unknown,
}

impl Origin {
    /// The spelling used in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Project => "project",
            Self::StandardLibrary => "stdlib",
            Self::Package => "package",
            Self::Builtin => "builtin",
            Self::Unknown => "unknown",
        }
    }
}

/// Where a name is defined. Lines and columns count from 1, columns in Unicode characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionSite {
    pub path: Arc<Path>,
    pub line: u32,
    pub col: u32,
}

/// One name that may stand at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The whole identifier (never a suffix), NFKC-normalised as Python compares names.
    pub name: Arc<str>,
    pub kind: CandidateKind,
    pub origin: Origin,
    pub defined_at: Option<DefinitionSite>,
    /// `name(parameters) -> result` for callables, when known.
    pub signature: Option<Arc<str>>,
    /// The type as a Python annotation, when known.
    pub ty: Option<Arc<str>>,
}

impl Candidate {
    /// A candidate of which only the name, its kind and its origin are known.
    pub fn new(name: impl Into<Arc<str>>, kind: CandidateKind, origin: Origin) -> Self {
        Self { name: name.into(), kind, origin, defined_at: None, signature: None, ty: None }
    }
}

/// A tool's answer: names sorted by their text, without duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidates {
    pub answer: Answer,
    pub names: Vec<Candidate>,
    /// Byte offset in the text where the name that is being typed begins (the cursor when none is).
    pub start_byte: usize,
    /// Why the answer is not `Closed`, in a few words (`"unknown receiver"`, `"__getattr__ on Proxy"`).
    pub reason: Option<Arc<str>>,
}

impl Candidates {
    /// No knowledge, with the reason.
    pub fn unknown(start_byte: usize, reason: impl Into<Arc<str>>) -> Self {
        Self { answer: Answer::Unknown, names: Vec::new(), start_byte, reason: Some(reason.into()) }
    }

    /// The deadline passed.
    pub fn timed_out(start_byte: usize) -> Self {
        Self { answer: Answer::TimedOut, names: Vec::new(), start_byte, reason: None }
    }
}

/// What is asked of a completion tool.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The file the text belongs to, absolute.
    pub path: &'a Path,
    /// The whole text of that file as it is being written (the overlay), UTF-8.
    pub text: &'a str,
    /// Cursor as a byte offset into `text`, on a character boundary.
    pub offset: usize,
    /// When the answer stops being useful.
    pub deadline: Instant,
}

/// What a name that begins at the cursor is for, when the text before it tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NameRole {
    /// Whatever may stand there.
    #[default]
    Any,
    /// The name of a keyword argument.
    Argument,
    /// A variable that is read.
    Read,
}

/// Anything that can list the names valid at a cursor.
pub trait CandidateSource: Send {
    /// A short name for messages: `native`, `jedi`, `lsp:pyright`.
    fn name(&self) -> &str;

    /// Whether the answer is worked out by another process, so that waiting for it costs this one
    /// nothing.
    fn is_process(&self) -> bool {
        false
    }

    /// The names valid at the query's cursor. Never fails: whatever goes wrong is `Unknown` or
    /// `TimedOut` with a reason.
    fn candidates(&mut self, query: &Query<'_>) -> Candidates;

    /// As [`CandidateSource::candidates`], for a name of which the role is known. Tools that do not tell
    /// roles apart know nothing about those.
    fn candidates_for(&mut self, query: &Query<'_>, role: NameRole) -> Candidates {
        match role {
            NameRole::Any => self.candidates(query),
            NameRole::Argument | NameRole::Read => {
                Candidates::unknown(query.offset, "the tool does not tell what a name is for")
            }
        }
    }
}
