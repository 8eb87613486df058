//! What happened to the calls of one tool.
//!
//! # Place
//! Part of `complete`; shown by whoever owns the tool.

use crate::base::{Answer, Candidates};

/// Counts since the tool was started. `calls` is the sum of `answered`, `empty` and `timed_out`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolCounters {
    pub calls: u64,
    /// Calls that got at least one name.
    pub answered: u64,
    /// Calls that got none: the tool knew nothing there, was being restarted, or failed.
    pub empty: u64,
    /// Calls whose deadline passed.
    pub timed_out: u64,
    /// Answers that came after their call's deadline; they are thrown away.
    pub late: u64,
    /// Errors the tool reported for one call.
    pub errors: u64,
    /// Times the tool ended or wrote something that is not its protocol.
    pub crashes: u64,
    /// Times the tool was killed because it did not come back to a call.
    pub hangs: u64,
    pub restarts: u64,
    /// Offered names that cannot be used: not an identifier, too long, or too many.
    pub dropped_names: u64,
}

impl ToolCounters {
    /// Count a finished call.
    pub(super) fn finish(&mut self, candidates: &Candidates) {
        self.calls += 1;
        match candidates.answer {
            Answer::TimedOut => self.timed_out += 1,
            _ if candidates.names.is_empty() => self.empty += 1,
            _ => self.answered += 1,
        }
    }
}
