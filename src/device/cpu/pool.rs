//! Persistent threads that run one region of work at a time together with the caller.
//!
//! # Place
//! Part of `device::cpu`; used by the SIMD backend. Does not know what the work is.
//! # Invariants
//! - A region's closure is borrowed only while the region is open or a worker that joined it has not
//!   left: [`Pool::run`] returns after both. A worker that wakes too late finds the region closed and
//!   never touches the closure, so a preempted thread delays nobody.
//! - Work is claimed from an atomic counter ([`Pieces`]), so the result must not depend on who takes
//!   which piece.
//! - `run` takes `&mut self`: regions cannot nest.
//! - A panic in any thread becomes an error of `run`; the pool stays usable.
#![allow(unsafe_code)] // the closure of a region crosses threads as a raw pointer

use std::cell::UnsafeCell;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

/// How long a worker spins for the next region before it parks: longer than the serial gaps between
/// the regions of a step, short enough that an idle process uses no processor time.
const SPIN_BEFORE_PARK: Duration = Duration::from_micros(200);
/// Spins between two looks at the clock.
const SPINS_PER_CLOCK: u32 = 256;

/// Spins of the caller, waiting for the last worker, before it lets others run.
const SPINS_BEFORE_YIELD: u32 = 2_000;

type Work = dyn Fn(usize) + Sync;

/// State word: region number in the high bits, then "open", then the number of workers that joined.
const OPEN: u64 = 1 << 16;
const JOINED: u64 = OPEN - 1;
const REGION: u64 = OPEN << 1;

/// A value alone on its cache lines (two, because of adjacent-line prefetching).
#[repr(align(128))]
pub(super) struct Alone<T>(pub(super) T);

struct Shared {
    state: Alone<AtomicU64>,
    n_left: Alone<AtomicUsize>,
    work: UnsafeCell<Option<*const Work>>,
    panicked: AtomicBool,
    stop: AtomicBool,
    parked: Vec<Alone<AtomicBool>>,
}

// SAFETY: `work` is written only by `Pool::run` while the region is closed and no worker is inside,
// and read only by workers that joined an open region (the state word orders both); the closure
// behind it is `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: as above; the pointer is never used after `run` returns.
unsafe impl Send for Shared {}

/// One or more of the pool's threads panicked while they ran a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RegionPanicked;

/// The caller plus `n_threads − 1` workers.
pub(super) struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    threads: Vec<Thread>,
}

impl Pool {
    /// A pool of `n_threads` threads, the caller included. When the system refuses a thread, the pool
    /// is smaller.
    pub(super) fn new(n_threads: NonZeroUsize) -> Self {
        let n_workers = (n_threads.get() - 1).min(JOINED as usize - 1);
        let shared = Arc::new(Shared {
            state: Alone(AtomicU64::new(0)),
            n_left: Alone(AtomicUsize::new(0)),
            work: UnsafeCell::new(None),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            parked: (0..n_workers).map(|_| Alone(AtomicBool::new(false))).collect(),
        });
        let mut workers = Vec::with_capacity(n_workers);
        for idx in 0..n_workers {
            let shared = Arc::clone(&shared);
            let builder = std::thread::Builder::new().name(format!("tether-cpu-{}", idx + 1));
            match builder.spawn(move || worker(&shared, idx)) {
                Ok(handle) => workers.push(handle),
                Err(_) => break,
            }
        }
        let threads = workers.iter().map(|w| w.thread().clone()).collect();
        Self { shared, workers, threads }
    }

    /// Threads that may take part in a region; thread indices are below this.
    pub(super) fn n_threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Run `work(thread)` on the caller (thread 0) and on every worker that arrives before the caller
    /// is done. `work` must claim what it does from a shared counter.
    ///
    /// # Errors
    /// When `work` panicked on any thread.
    pub(super) fn run(&mut self, work: &(dyn Fn(usize) + Sync)) -> Result<(), RegionPanicked> {
        if self.workers.is_empty() {
            return catch_unwind(AssertUnwindSafe(|| work(0))).map_err(|_| RegionPanicked);
        }
        let shared = &*self.shared;
        shared.n_left.0.store(0, Ordering::Relaxed);
        // SAFETY: the last region is closed and everyone who joined it has left, so no worker reads
        // `work`. The lifetime is erased here and honoured by the wait below.
        unsafe {
            *shared.work.get() = Some(std::mem::transmute::<
                *const (dyn Fn(usize) + Sync + '_),
                *const Work,
            >(std::ptr::from_ref(work)));
        }
        let region =
            (shared.state.0.load(Ordering::Relaxed) & !(OPEN | JOINED)).wrapping_add(REGION);
        shared.state.0.store(region | OPEN, Ordering::SeqCst);
        for (parked, thread) in shared.parked.iter().zip(&self.threads) {
            if parked.0.load(Ordering::SeqCst) {
                thread.unpark();
            }
        }

        let own = catch_unwind(AssertUnwindSafe(|| work(0)));

        let joined = shared.state.0.fetch_and(!OPEN, Ordering::AcqRel) & JOINED;
        let mut n_spins = 0u32;
        while shared.n_left.0.load(Ordering::Acquire) as u64 != joined {
            n_spins = n_spins.saturating_add(1);
            // A wait this long means that a worker lost its processor: give it ours.
            if n_spins > SPINS_BEFORE_YIELD {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
        if shared.panicked.swap(false, Ordering::Relaxed) || own.is_err() {
            return Err(RegionPanicked);
        }
        Ok(())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for thread in &self.threads {
            thread.unpark();
        }
        for worker in self.workers.drain(..) {
            // A worker catches the panics of its work, so there is nothing to report here.
            let _ = worker.join();
        }
    }
}

fn worker(shared: &Shared, idx: usize) {
    let mut last_region = 0;
    while let Some(state) = wait_for_region(shared, idx, last_region) {
        last_region = state & !(OPEN | JOINED);
        if !join(shared, state) {
            continue;
        }
        // SAFETY: the region was open when this thread joined it, so `run` does not return, and does
        // not write `work` again, before this thread adds itself to `n_left`.
        let work = unsafe { (*shared.work.get()).map(|work| &*work) };
        if let Some(work) = work
            && catch_unwind(AssertUnwindSafe(|| work(idx + 1))).is_err()
        {
            shared.panicked.store(true, Ordering::Relaxed);
        }
        shared.n_left.0.fetch_add(1, Ordering::Release);
    }
}

/// Count this thread in, unless the region of `state` closed meanwhile.
fn join(shared: &Shared, mut state: u64) -> bool {
    let region = state & !(OPEN | JOINED);
    loop {
        if state & OPEN == 0 || state & !(OPEN | JOINED) != region {
            return false;
        }
        let joined = shared.state.0.compare_exchange_weak(
            state,
            state + 1,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        match joined {
            Ok(_) => return true,
            Err(now) => state = now,
        }
    }
}

/// The state of the first region after `last_region` that is still open; `None` when the pool ends.
fn wait_for_region(shared: &Shared, idx: usize, last_region: u64) -> Option<u64> {
    let open = || {
        let state = shared.state.0.load(Ordering::SeqCst);
        (state & OPEN != 0 && state & !(OPEN | JOINED) != last_region).then_some(state)
    };
    loop {
        let start = Instant::now();
        let mut n_spins = 0u32;
        loop {
            if let Some(state) = open() {
                return Some(state);
            }
            n_spins += 1;
            if n_spins == SPINS_PER_CLOCK {
                n_spins = 0;
                if start.elapsed() > SPIN_BEFORE_PARK {
                    break;
                }
            }
            std::hint::spin_loop();
        }
        let parked = &shared.parked[idx].0;
        parked.store(true, Ordering::SeqCst);
        // The state is read again after `parked` is set, and `run` reads `parked` after it sets the
        // state: one of the two sees the other, so no region is slept through.
        while open().is_none() {
            if shared.stop.load(Ordering::SeqCst) {
                return None;
            }
            std::thread::park();
            if let Some(state) = open() {
                parked.store(false, Ordering::SeqCst);
                return Some(state);
            }
        }
        parked.store(false, Ordering::SeqCst);
    }
}

/// Indices `0..n` handed out in runs of neighbours, smaller ones towards the end.
pub(super) struct Pieces {
    next: Alone<AtomicUsize>,
    n: usize,
    size: usize,
}

impl Pieces {
    /// `n` items for `n_threads` threads, in pieces of at least `size_min` items.
    pub(super) fn new(n: usize, n_threads: usize, size_min: usize) -> Self {
        // Six pieces a thread: late or slow threads leave little undone, and claims stay rare.
        let size = if n_threads == 1 { n } else { n.div_ceil(n_threads * 6) };
        Self { next: Alone(AtomicUsize::new(0)), n, size: size.max(size_min).max(1) }
    }

    /// The first item that nobody has taken yet.
    pub(super) fn peek(&self) -> usize {
        self.next.0.load(Ordering::Relaxed)
    }

    /// The next piece, or `None` when everything is taken.
    pub(super) fn claim(&self) -> Option<Range<usize>> {
        let start = self.next.0.fetch_add(self.size, Ordering::Relaxed);
        (start < self.n).then(|| start..(start + self.size).min(self.n))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use proptest::prelude::*;

    use super::*;

    fn pool(n: usize) -> Pool {
        Pool::new(NonZeroUsize::new(n).unwrap())
    }

    proptest! {
        #[test]
        fn pieces_cover_every_item_once(n in 0usize..300, threads in 1usize..5, size in 0usize..40) {
            let pieces = Pieces::new(n, threads, size);
            let mut seen = Vec::new();
            while let Some(piece) = pieces.claim() {
                prop_assert!(!piece.is_empty());
                seen.extend(piece);
            }
            prop_assert_eq!(seen, (0..n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn every_item_of_many_regions_is_done_once() {
        for threads in 1..=4 {
            let mut pool = pool(threads);
            assert_eq!(pool.n_threads(), threads);
            for region in 0..2_000usize {
                let n = region % 37;
                let done: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
                let pieces = Pieces::new(n, threads, 1);
                pool.run(&|_| {
                    while let Some(piece) = pieces.claim() {
                        for i in piece {
                            done[i].fetch_add(1, Ordering::Relaxed);
                        }
                    }
                })
                .unwrap();
                assert!(done.iter().all(|d| d.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn a_parked_worker_wakes_for_the_next_region() {
        let mut pool = pool(2);
        let seen = Mutex::new(Vec::new());
        for _ in 0..5 {
            std::thread::sleep(SPIN_BEFORE_PARK * 3);
            // The caller waits for the other thread, so this ends only if the worker wakes.
            let both = std::sync::Barrier::new(2);
            pool.run(&|thread| {
                both.wait();
                seen.lock().unwrap().push(thread);
            })
            .unwrap();
        }
        let seen = seen.into_inner().unwrap();
        assert_eq!(seen.iter().filter(|&&t| t == 1).count(), 5);
    }

    #[test]
    fn a_panic_on_any_thread_is_an_error_and_the_pool_goes_on() {
        let mut pool = pool(3);
        for victim in 0..3 {
            let all = std::sync::Barrier::new(3);
            let result = pool.run(&|thread| {
                all.wait();
                assert_ne!(thread, victim, "deliberate");
            });
            assert_eq!(result, Err(RegionPanicked));
            assert_eq!(pool.run(&|_| {}), Ok(()));
        }
    }
}
