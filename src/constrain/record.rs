//! What a guide did: one event for every place it asked at, and the sums.
//!
//! # Place
//! Uses `base`. Filled by the guides, shown by `--explain` and in results.

use std::sync::Arc;
use std::time::Duration;

use crate::base::{Answer, TokenId};

/// What kind of name begins at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlaceKind {
    /// After a dot on a value.
    Member,
    /// A module, or a part of its path, in an import statement.
    Module,
    /// After `from module import`.
    ImportedName,
    /// Where a keyword argument may begin.
    Keyword,
    /// A variable that is read.
    Name,
    /// Where the model emitted the trigger.
    Trigger,
}

impl PlaceKind {
    /// The spelling used in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Module => "module",
            Self::ImportedName => "imported_name",
            Self::Keyword => "keyword",
            Self::Name => "name",
            Self::Trigger => "trigger",
        }
    }
}

/// How likely what was written at a place was: the sum over the tokens that were chosen under its mask, the
/// one that ended the name included. Natural logarithms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Chance {
    /// To the model alone.
    pub log_prob: f64,
    /// Among what was allowed.
    pub log_prob_allowed: f64,
}

/// One place where the tool was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct GuideEvent {
    pub kind: PlaceKind,
    /// Byte offset in the whole text (prompt and continuation) where the name begins.
    pub offset: usize,
    pub answer: Answer,
    /// Names that were usable.
    pub n_names: usize,
    /// Names that could not be used: not identifiers, reserved words, over-long.
    pub n_dropped: usize,
    /// Why the answer did not constrain, when it did not.
    pub reason: Option<Arc<str>>,
    /// What stood there already when the tool was asked.
    pub typed: Vec<u8>,
    /// The name that was written in the end; `None` when the text ended or went another way first.
    pub name: Option<Vec<u8>>,
    /// The first token the model preferred at this place and was not allowed to write.
    pub wanted: Option<TokenId>,
    /// `None` where nothing was constrained, or no record of it was wanted.
    pub chance: Option<Chance>,
    /// How long the answer took.
    pub took: Duration,
}

impl GuideEvent {
    /// Whether the model would have written something else.
    pub fn changed(&self) -> bool {
        self.wanted.is_some()
    }

    /// Whether two events are about the same place.
    pub(super) fn is_at(&self, other: &Self) -> bool {
        (self.offset, self.kind) == (other.offset, other.kind)
    }
}

/// Sums over the events of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuideStats {
    pub asked: usize,
    pub closed: usize,
    pub open: usize,
    pub unknown: usize,
    pub timed_out: usize,
    pub changed: usize,
}

impl GuideStats {
    /// The sums over `events`.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a GuideEvent>) -> Self {
        let mut stats = Self::default();
        for event in events {
            stats.asked += 1;
            stats.changed += usize::from(event.changed());
            *match event.answer {
                Answer::Closed => &mut stats.closed,
                Answer::Open => &mut stats.open,
                Answer::Unknown => &mut stats.unknown,
                Answer::TimedOut => &mut stats.timed_out,
            } += 1;
        }
        stats
    }
}
