//! When a tool that failed may be started again.
//!
//! # Place
//! Part of `complete::process`. Pure: the time is an argument.
//! # Invariants
//! At most [`TOOL_RESTARTS_PER_MINUTE_MAX`] starts in any minute, with growing pauses between failures
//! that follow one another. It never gives up for good: a tool that was broken for an hour comes back.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::base::limit::{TOOL_BACKOFF_MS_MAX, TOOL_BACKOFF_MS_MIN, TOOL_RESTARTS_PER_MINUTE_MAX};

const WINDOW: Duration = Duration::from_secs(60);

/// The restarts of one tool.
#[derive(Debug, Default)]
pub(in crate::complete) struct Restarts {
    n_failures_in_a_row: u32,
    not_before: Option<Instant>,
    recent: VecDeque<Instant>,
}

impl Restarts {
    /// The tool failed, or could not be started.
    pub(in crate::complete) fn failed(&mut self, now: Instant) {
        let doublings = self.n_failures_in_a_row.min(20);
        let pause_ms = (TOOL_BACKOFF_MS_MIN << doublings).min(TOOL_BACKOFF_MS_MAX);
        self.n_failures_in_a_row = self.n_failures_in_a_row.saturating_add(1);
        self.not_before = Some(now + Duration::from_millis(pause_ms));
    }

    /// The tool did its work: the next failure starts from the shortest pause again.
    pub(in crate::complete) fn worked(&mut self) {
        self.n_failures_in_a_row = 0;
    }

    /// How long until a start is allowed.
    pub(in crate::complete) fn pause(&self, now: Instant) -> Duration {
        // The start that must be a window ago before there may be another.
        let oldest = self.recent.len().checked_sub(TOOL_RESTARTS_PER_MINUTE_MAX);
        let after_window = oldest.map(|i| self.recent[i] + WINDOW);
        let allowed = self.not_before.max(after_window);
        allowed.map_or(Duration::ZERO, |t| t.saturating_duration_since(now))
    }

    /// Whether a start is allowed now; if so, it is counted.
    pub(in crate::complete) fn may_start(&mut self, now: Instant) -> bool {
        while self.recent.front().is_some_and(|&t| now.saturating_duration_since(t) >= WINDOW) {
            self.recent.pop_front();
        }
        if !self.pause(now).is_zero() {
            return false;
        }
        self.recent.push_back(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_failures_and_shrink_after_work() {
        let mut restarts = Restarts::default();
        let t0 = Instant::now();
        let after = |ms| t0 + Duration::from_millis(ms);
        restarts.failed(t0);
        assert!(!restarts.may_start(after(99)));
        assert!(restarts.may_start(after(100)));
        restarts.failed(after(100));
        assert!(!restarts.may_start(after(299)));
        assert!(restarts.may_start(after(300)));
        restarts.worked();
        restarts.failed(after(1000));
        assert!(restarts.may_start(after(1100)));
    }

    #[test]
    fn starts_in_a_minute_are_bounded_and_come_back_after_it() {
        let mut restarts = Restarts::default();
        let t0 = Instant::now();
        for _ in 0..TOOL_RESTARTS_PER_MINUTE_MAX {
            assert!(restarts.may_start(t0));
        }
        assert!(!restarts.may_start(t0 + Duration::from_secs(59)));
        assert!(restarts.may_start(t0 + WINDOW));
    }

    #[test]
    fn after_the_pause_a_start_is_allowed_and_just_before_it_is_not() {
        let mut restarts = Restarts::default();
        let mut now = Instant::now();
        assert_eq!(restarts.pause(now), Duration::ZERO);
        for i in 0..4 * TOOL_RESTARTS_PER_MINUTE_MAX {
            restarts.failed(now);
            let pause = restarts.pause(now);
            assert!(!restarts.may_start(now + pause - Duration::from_millis(1)), "start {i}");
            now += pause;
            assert!(restarts.may_start(now), "start {i}");
        }
    }

    #[test]
    fn a_thousand_failures_do_not_overflow_the_pause() {
        let mut restarts = Restarts::default();
        let t0 = Instant::now();
        for _ in 0..1000 {
            restarts.failed(t0);
        }
        assert!(!restarts.may_start(t0 + Duration::from_millis(TOOL_BACKOFF_MS_MAX - 1)));
        assert!(restarts.may_start(t0 + Duration::from_millis(TOOL_BACKOFF_MS_MAX)));
    }
}
