//! One child process that is asked and answers in messages, and that can neither block nor flood us.
//!
//! # Place
//! Part of `complete`; `jedi` and `lsp` run their tools through it. Knows framing, knows nothing of
//! what messages mean: a router given by the owner sorts them on the reading thread.
//! # Invariants
//! - No method waits longer than it was told to: writing and reading have threads of their own.
//! - What is held in memory is bounded: [`TOOL_FRAMES_WAITING_MAX`] messages in, and
//!   [`TOOL_WRITES_WAITING_MAX`] out; a tool that writes more waits in its pipe.
//! - The child leads a process group, and killing it kills the group: no grandchild stays behind. It
//!   is reaped exactly once, and never signalled after that.

mod framing;
mod restart;
mod watchdog;

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::base::limit::{TOOL_FRAMES_WAITING_MAX, TOOL_STDERR_BYTES_MAX, TOOL_WRITES_WAITING_MAX};

pub(super) use framing::Framing;
pub(super) use restart::Restarts;
use watchdog::Watchdog;

/// What the router makes of one message.
pub(super) enum Route<M> {
    /// For whoever waits in [`Process::receive`]: the answer to the question `id`.
    Forward { id: u64, message: M },
    /// Answered on the spot.
    Reply(Vec<u8>),
    /// Of no interest.
    Drop,
    /// Not a message of the protocol: the process is beyond trust.
    Garbage(String),
}

enum Incoming<M> {
    Message(M),
    Ended(String),
}

/// Why nothing was received.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoMessage {
    /// The deadline passed first.
    Late,
    /// The process is gone, with the reason.
    Ended(String),
}

/// A running child.
pub(super) struct Process<M> {
    child: Arc<ChildCell>,
    framing: Framing,
    outgoing: SyncSender<Vec<u8>>,
    incoming: Receiver<Incoming<M>>,
    watchdog: Watchdog,
    stderr_tail: Arc<Mutex<VecDeque<u8>>>,
}

/// Why a question could not be sent: so many messages wait already that the child cannot be reading.
pub(super) struct NotReading;

impl<M: Send + 'static> Process<M> {
    /// Start `command`; every message it writes goes through `route` on a thread of its own.
    ///
    /// # Errors
    /// When the operating system cannot start the program.
    pub(super) fn spawn(
        mut command: Command,
        framing: Framing,
        route: impl FnMut(Vec<u8>) -> Route<M> + Send + 'static,
    ) -> std::io::Result<Self> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = command.spawn()?;
        let stdin = child.stdin.take().expect("stdin was asked to be a pipe");
        let stdout = child.stdout.take().expect("stdout was asked to be a pipe");
        let stderr = child.stderr.take().expect("stderr was asked to be a pipe");
        let child = Arc::new(ChildCell(Mutex::new(Some(child))));

        let (outgoing, to_write) = sync_channel::<Vec<u8>>(TOOL_WRITES_WAITING_MAX);
        let (found, incoming) = sync_channel(TOOL_FRAMES_WAITING_MAX);
        let stderr_tail = Arc::new(Mutex::new(VecDeque::new()));
        let watchdog = {
            let child = Arc::clone(&child);
            Watchdog::start(move || child.kill())
        };
        let threads = watchdog.and_then(|watchdog| {
            named("tool-write", move || write_all(stdin, &to_write))?;
            let tail = Arc::clone(&stderr_tail);
            named("tool-stderr", move || keep_tail(stderr, &tail))?;
            let reader =
                Reader { framing, outgoing: outgoing.clone(), found, watchdog: watchdog.clone() };
            let child = Arc::clone(&child);
            named("tool-read", move || reader.run(stdout, route, &child))?;
            Ok(watchdog)
        });
        let watchdog = match threads {
            Ok(watchdog) => watchdog,
            Err(e) => {
                child.reap();
                return Err(e);
            }
        };
        Ok(Self { child, framing, outgoing, incoming, watchdog, stderr_tail })
    }

    /// Ask: hand `message` to the writing thread. The child is killed at `answer_by` unless it has
    /// answered this question, or a later one, before.
    ///
    /// # Errors
    /// When the child does not read what is sent to it.
    pub(super) fn ask(
        &self,
        id: u64,
        message: &[u8],
        answer_by: Instant,
    ) -> Result<(), NotReading> {
        self.watchdog.expect(id, answer_by);
        self.tell(message)
    }

    /// Hand a message that has no answer to the writing thread.
    ///
    /// # Errors
    /// When the child does not read what is sent to it.
    pub(super) fn tell(&self, message: &[u8]) -> Result<(), NotReading> {
        match self.outgoing.try_send(self.framing.encode(message)) {
            // A writer that is gone means a child that is gone: the reader says so, with the reason.
            Ok(()) | Err(TrySendError::Disconnected(_)) => Ok(()),
            Err(TrySendError::Full(_)) => Err(NotReading),
        }
    }

    /// The next forwarded message, waiting until `deadline` at most.
    pub(super) fn receive(&self, deadline: Instant) -> Result<M, NoMessage> {
        let wait = deadline.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            // A flood of messages must not keep anybody past the deadline.
            return Err(NoMessage::Late);
        }
        match self.incoming.recv_timeout(wait) {
            Ok(Incoming::Message(message)) => Ok(message),
            Ok(Incoming::Ended(reason)) => Err(NoMessage::Ended(self.explain(&reason))),
            Err(RecvTimeoutError::Timeout) => Err(NoMessage::Late),
            Err(RecvTimeoutError::Disconnected) => Err(NoMessage::Ended(self.explain("it ended"))),
        }
    }

    /// Whether the watchdog has killed the child.
    pub(super) fn was_killed_as_hung(&self) -> bool {
        self.watchdog.has_fired()
    }

    /// Wait until the child has left by itself, until `deadline` at most.
    pub(super) fn wait_for_exit(&self, deadline: Instant) {
        while !self.child.has_exited() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The reason with the exit status and the last line of error output, where there are any.
    fn explain(&self, reason: &str) -> String {
        let mut text = reason.to_owned();
        if self.was_killed_as_hung() {
            "it stopped answering and was killed".clone_into(&mut text);
        } else {
            // Its pipe may close a moment before it is gone; a status of its own says more than ours.
            self.wait_for_exit(Instant::now() + Duration::from_millis(50));
        }
        let status = self.child.reap();
        if let Some(status) = status.filter(|_| !self.was_killed_as_hung()) {
            text = format!("{text} ({status})");
        }
        match self.last_words() {
            Some(words) => format!("{text}; its last words: {words}"),
            None => text,
        }
    }

    /// The last line of error output that names an error, or else the last that says anything.
    pub(super) fn last_words(&self) -> Option<String> {
        let bytes: Vec<u8> = locked(&self.stderr_tail).iter().copied().collect();
        let stderr = String::from_utf8_lossy(&bytes);
        let lines = || stderr.lines().rev().map(str::trim).filter(|l| !l.is_empty());
        let line = lines().find(|l| l.contains("rror")).or_else(|| lines().next())?;
        Some(line.to_owned())
    }
}

impl<M> Drop for Process<M> {
    fn drop(&mut self) {
        self.watchdog.close();
        self.child.reap();
    }
}

/// The child until it is reaped.
struct ChildCell(Mutex<Option<Child>>);

impl ChildCell {
    /// Kill the process group. Under the lock the child is not reaped, so its id is still its own.
    fn kill(&self) {
        if let Some(child) = locked(&self.0).as_mut() {
            let group = i32::try_from(child.id()).ok();
            if let Some(group) = group.and_then(rustix::process::Pid::from_raw) {
                // Already gone is fine.
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            }
            let _ = child.kill();
        }
    }

    /// Kill what is left and collect the exit status, once.
    fn reap(&self) -> Option<ExitStatus> {
        let status = match locked(&self.0).as_mut()?.try_wait() {
            Ok(Some(status)) => Some(status),
            _ => None,
        };
        self.kill();
        let mut child = locked(&self.0).take()?;
        status.or_else(|| child.wait().ok())
    }

    fn has_exited(&self) -> bool {
        match locked(&self.0).as_mut() {
            Some(child) => !matches!(child.try_wait(), Ok(None)),
            None => true,
        }
    }
}

/// What the reading thread holds.
struct Reader<M> {
    framing: Framing,
    outgoing: SyncSender<Vec<u8>>,
    found: SyncSender<Incoming<M>>,
    watchdog: Watchdog,
}

impl<M> Reader<M> {
    fn run(self, stdout: impl Read, route: impl FnMut(Vec<u8>) -> Route<M>, child: &ChildCell) {
        let mut from = BufReader::with_capacity(64 << 10, stdout);
        let reason = match self.read_all(&mut from, route) {
            Ok(reason) => reason.to_owned(),
            Err(garbage) => {
                child.kill();
                garbage
            }
        };
        // Nobody may be left to read it.
        let _ = self.found.send(Incoming::Ended(reason));
    }

    /// Returns why it stopped; garbage is the error.
    fn read_all(
        &self,
        from: &mut impl BufRead,
        mut route: impl FnMut(Vec<u8>) -> Route<M>,
    ) -> Result<&'static str, String> {
        while let Some(message) = self.framing.read(from).map_err(|e| e.to_string())? {
            match route(message) {
                Route::Forward { id, message } => {
                    self.watchdog.answered(id);
                    if self.found.send(Incoming::Message(message)).is_err() {
                        return Ok("nobody listens any more");
                    }
                }
                // When the child does not read, its own questions are the least of the trouble.
                Route::Reply(bytes) => drop(self.outgoing.try_send(self.framing.encode(&bytes))),
                Route::Drop => {}
                Route::Garbage(problem) => return Err(problem),
            }
        }
        Ok("it ended")
    }
}

fn write_all(mut stdin: impl Write, to_write: &Receiver<Vec<u8>>) {
    for bytes in to_write {
        if stdin.write_all(&bytes).and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}

fn keep_tail(mut stderr: impl Read, tail: &Mutex<VecDeque<u8>>) {
    let mut buffer = [0; 4096];
    loop {
        match stderr.read(&mut buffer) {
            Ok(0) => return,
            Ok(n) => {
                let mut tail = locked(tail);
                tail.extend(&buffer[..n]);
                let surplus = tail.len().saturating_sub(TOOL_STDERR_BYTES_MAX);
                tail.drain(..surplus);
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

fn named(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(run)?;
    Ok(())
}

/// The lock, also after another thread panicked while it held it: the data are plain values.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
