//! A thread that runs an action when a question was not answered in time.
//!
//! # Place
//! Part of `complete::process`, which kills a hung tool with it: nobody may ask the tool again for
//! a long time, and meanwhile it must not burn a processor.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use super::{locked, named};

/// A question and when its answer must be there.
#[derive(Clone, Copy)]
struct Due {
    id: u64,
    at: Instant,
}

#[derive(Default)]
struct State {
    /// The oldest and the newest question without an answer; those between do not matter.
    oldest: Option<Due>,
    newest: Option<Due>,
    fired: bool,
    closed: bool,
}

/// Runs its action at most once.
#[derive(Clone)]
pub(super) struct Watchdog {
    shared: Arc<(Mutex<State>, Condvar)>,
}

impl Watchdog {
    pub(super) fn start(action: impl FnOnce() + Send + 'static) -> std::io::Result<Self> {
        let shared = Arc::new((Mutex::new(State::default()), Condvar::new()));
        let theirs = Arc::clone(&shared);
        named("tool-watch", move || {
            if wait_until_due(&theirs) {
                action();
            }
        })?;
        Ok(Self { shared })
    }

    /// Fire at `at` unless the question `id`, or one that was asked later, is answered before.
    pub(super) fn expect(&self, id: u64, at: Instant) {
        let due = Due { id, at };
        let mut state = locked(&self.shared.0);
        state.oldest.get_or_insert(due);
        state.newest = Some(due);
        drop(state);
        self.shared.1.notify_one();
    }

    /// The question `id` has its answer: whatever was asked before it is not waited for either.
    pub(super) fn answered(&self, id: u64) {
        let mut state = locked(&self.shared.0);
        if state.oldest.is_none_or(|due| id < due.id) {
            return;
        }
        state.newest = state.newest.filter(|due| due.id > id);
        state.oldest = state.newest;
    }

    pub(super) fn has_fired(&self) -> bool {
        locked(&self.shared.0).fired
    }

    /// End the thread without running the action.
    pub(super) fn close(&self) {
        locked(&self.shared.0).closed = true;
        self.shared.1.notify_one();
    }
}

/// Returns whether the time came (otherwise the watchdog was closed).
fn wait_until_due((mutex, condvar): &(Mutex<State>, Condvar)) -> bool {
    let mut state = locked(mutex);
    while !state.closed {
        let now = Instant::now();
        let wait = state.oldest.map(|due| due.at.saturating_duration_since(now));
        match wait {
            Some(wait) if wait.is_zero() => {
                state.fired = true;
                return true;
            }
            Some(wait) => {
                state = condvar
                    .wait_timeout(state, wait)
                    .unwrap_or_else(std::sync::PoisonError::into_inner)
                    .0;
            }
            None => {
                state = condvar.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Questions 1 and 2 are due after 50 and 150 ms; `answers` come at once.
    #[track_caller]
    fn check(answers: &[u64], fires_by_ms: Option<u64>) {
        let watchdog = Watchdog::start(|| ()).expect("a thread");
        let start = Instant::now();
        watchdog.expect(1, start + Duration::from_millis(50));
        watchdog.expect(2, start + Duration::from_millis(150));
        answers.iter().for_each(|&id| watchdog.answered(id));
        let mut fired_ms = None;
        while fired_ms.is_none() && start.elapsed() < Duration::from_millis(300) {
            std::thread::sleep(Duration::from_millis(2));
            fired_ms = watchdog.has_fired().then(|| start.elapsed().as_millis() as u64);
        }
        assert_eq!(fired_ms.is_some(), fires_by_ms.is_some(), "{answers:?}");
        if let (Some(at), Some(by)) = (fired_ms, fires_by_ms) {
            assert!(at >= by, "fired after {at} ms");
        }
        watchdog.close();
    }

    #[test]
    fn only_an_answer_to_a_question_calls_it_off() {
        check(&[], Some(50));
        check(&[0], Some(50));
        check(&[1], Some(150));
        check(&[2], None);
        check(&[1, 2], None);
        check(&[2, 1], None);
    }
}
