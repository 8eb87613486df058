//! A thread that runs an action at a set time unless it is called off.
//!
//! # Place
//! Part of `complete::process`, which kills a hung tool with it: nobody may ask the tool again for
//! a long time, and meanwhile it must not burn a processor.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use super::{locked, named};

#[derive(Default)]
struct State {
    due: Option<Instant>,
    fired: bool,
    closed: bool,
}

/// Runs its action at most once.
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

    /// Fire at `at`; an earlier time that was set before stays.
    pub(super) fn arm(&self, at: Instant) {
        let mut state = locked(&self.shared.0);
        state.due = Some(state.due.map_or(at, |due| due.min(at)));
        self.shared.1.notify_one();
    }

    pub(super) fn disarm(&self) {
        locked(&self.shared.0).due = None;
    }

    pub(super) fn has_fired(&self) -> bool {
        locked(&self.shared.0).fired
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        locked(&self.shared.0).closed = true;
        self.shared.1.notify_one();
    }
}

/// Returns whether the time came (otherwise the watchdog was dropped).
fn wait_until_due((mutex, condvar): &(Mutex<State>, Condvar)) -> bool {
    let mut state = locked(mutex);
    loop {
        let now = Instant::now();
        let wait = state.due.map(|due| due.saturating_duration_since(now));
        match wait {
            _ if state.closed => return false,
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
                state = condvar
                    .wait(state)
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
            }
        }
    }
}
