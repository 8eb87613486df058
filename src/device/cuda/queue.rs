//! Launches wait until somebody wants a result; then they run, as a recorded graph where the same ones ran before.
//!
//! # Place
//! Part of `device::cuda`. The backend's operations push launches; reading pulls.
//! # Invariants
//! - Launches run in the order in which they were pushed, with the arrays of [`Staging`] as they were then.
//! - A graph is replayed only for launches equal to those it was recorded from, parameters included.

use super::driver::{DevicePtr, Driver, GraphId, Launch};
use super::staging::{Put, Section, Staging};
use crate::base::limit;
use crate::device::{DeviceError, KernelRun};
use std::time::Instant;

/// Shorter lists are not worth a graph.
const GRAPH_LAUNCHES_MIN: usize = 8;

/// What a launch has to move and to compute at least: the cost model of `kernels/README.md`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) bytes: u64,
    /// Two for a multiplication and an addition.
    pub(super) ops: u64,
}

impl Cost {
    pub(super) const fn bytes(n: usize) -> Self {
        Self { bytes: n as u64, ops: 0 }
    }
}

/// A list of launches that ran, and its graph from the second time on.
struct Recorded {
    launches: Vec<Launch>,
    graph: Option<GraphId>,
    last_use: u64,
}

/// The driver with what waits for it.
pub(super) struct Queue {
    driver: Box<dyn Driver>,
    staging: Staging,
    waiting: Vec<Launch>,
    /// One for each launch that waits.
    costs: Vec<Cost>,
    recorded: Vec<Recorded>,
    clock: u64,
    timing: Option<Timing>,
}

/// Launches that were timed since it was asked for.
struct Timing {
    since: Instant,
    runs: Vec<KernelRun>,
}

impl Queue {
    pub(super) fn new(mut driver: Box<dyn Driver>) -> Result<Self, DeviceError> {
        let staging = Staging::new(driver.as_mut())?;
        Ok(Self {
            driver,
            staging,
            waiting: Vec::new(),
            costs: Vec::new(),
            recorded: Vec::new(),
            clock: 0,
            timing: None,
        })
    }

    pub(super) fn driver(&self) -> &dyn Driver {
        self.driver.as_ref()
    }

    /// The driver, with nothing waiting.
    pub(super) fn idle_driver(&mut self) -> Result<&mut dyn Driver, DeviceError> {
        self.flush()?;
        Ok(self.driver.as_mut())
    }

    pub(super) fn staging_bytes(&self) -> usize {
        self.staging.n_bytes()
    }

    pub(super) fn push(&mut self, launch: Launch, cost: Cost) {
        self.waiting.push(launch);
        self.costs.push(cost);
    }

    /// Time every launch from now on, one by one, or go back to graphs.
    ///
    /// # Errors
    /// When the device is lost.
    pub(super) fn set_timing(&mut self, is_on: bool) -> Result<(), DeviceError> {
        self.flush()?;
        self.driver.wait()?;
        self.timing = is_on.then(|| Timing { since: Instant::now(), runs: Vec::new() });
        Ok(())
    }

    /// What was timed since the last call.
    pub(super) fn take_runs(&mut self) -> Vec<KernelRun> {
        self.timing.as_mut().map(|t| std::mem::take(&mut t.runs)).unwrap_or_default()
    }

    /// Put an array that the launches pushed from now on read.
    ///
    /// # Errors
    /// When the device is lost.
    pub(super) fn put(&mut self, section: Section, bytes: &[u8]) -> Result<DevicePtr, DeviceError> {
        loop {
            match self.staging.put(section, bytes) {
                Put::Done(at) => return Ok(at),
                Put::InUse => self.flush()?,
                Put::TooSmall => {
                    self.flush()?;
                    self.staging.grow(self.driver.as_mut(), section, bytes.len())?;
                }
            }
        }
    }

    /// Put an array into whichever of some sections has it already, or is free.
    ///
    /// # Errors
    /// When the device is lost.
    pub(super) fn put_any(
        &mut self,
        sections: &[Section],
        bytes: &[u8],
    ) -> Result<DevicePtr, DeviceError> {
        let is_dirty = |s: &&Section| self.staging.is_dirty(**s);
        let same = sections.iter().filter(is_dirty).find(|s| self.staging.holds(**s, bytes));
        let free = || sections.iter().find(|s| !is_dirty(s));
        let section = same.or_else(free).or(sections.first()).copied();
        self.put(section.expect("at least one section"), bytes)
    }

    /// Start everything that waits.
    ///
    /// # Errors
    /// When the device is lost.
    pub(super) fn flush(&mut self) -> Result<(), DeviceError> {
        self.staging.upload(self.driver.as_mut())?;
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.clock += 1;
        let launches = std::mem::take(&mut self.waiting);
        let done = self.run(&launches);
        self.waiting = launches;
        self.waiting.clear();
        self.costs.clear();
        done
    }

    fn run_timed(&mut self, launches: &[Launch]) -> Result<(), DeviceError> {
        let Some(timing) = &mut self.timing else { return Ok(()) };
        self.driver.wait()?;
        let began = timing.since.elapsed().as_secs_f64() * 1e6;
        let spans = self.driver.time(launches)?;
        timing.runs.extend(launches.iter().zip(&self.costs).zip(spans).map(
            |((launch, cost), span)| KernelRun {
                name: launch.kernel.kernel().name,
                start_us: began + span.start_us,
                us: span.us,
                bytes: cost.bytes,
                ops: cost.ops,
            },
        ));
        Ok(())
    }

    fn run(&mut self, launches: &[Launch]) -> Result<(), DeviceError> {
        if self.timing.is_some() {
            return self.run_timed(launches);
        }
        let one_by_one =
            |driver: &mut dyn Driver| launches.iter().try_for_each(|l| driver.launch(l));
        if launches.len() < GRAPH_LAUNCHES_MIN {
            return one_by_one(self.driver.as_mut());
        }
        let found = self.recorded.iter().position(|r| r.launches == launches);
        let Some(i) = found else {
            self.remember(launches);
            return one_by_one(self.driver.as_mut());
        };
        let recorded = &mut self.recorded[i];
        recorded.last_use = self.clock;
        let graph = match recorded.graph {
            Some(graph) => graph,
            None => *recorded.graph.insert(self.driver.record(launches)?),
        };
        self.driver.replay(graph)
    }

    /// Keep a list in case it comes again, in place of the one that was not used for longest.
    fn remember(&mut self, launches: &[Launch]) {
        if self.recorded.len() == limit::DEVICE_GRAPHS_MAX {
            let oldest = (0..self.recorded.len())
                .min_by_key(|&i| self.recorded[i].last_use)
                .expect("the limit is not zero");
            if let Some(graph) = self.recorded.swap_remove(oldest).graph {
                self.driver.forget(graph);
            }
        }
        self.recorded.push(Recorded {
            launches: launches.to_vec(),
            graph: None,
            last_use: self.clock,
        });
    }

    /// Graphs in use, for tests.
    #[cfg(all(test, feature = "emu"))]
    pub(super) fn n_graphs(&self) -> usize {
        self.recorded.iter().filter(|r| r.graph.is_some()).count()
    }

    /// Read device memory after everything that waits.
    ///
    /// # Errors
    /// When the device is lost.
    pub(super) fn read(&mut self, from: DevicePtr, out: &mut [u8]) -> Result<(), DeviceError> {
        self.flush()?;
        self.driver.download(from, out)
    }
}
