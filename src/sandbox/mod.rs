//! Run an external program under a time and output limit.
//!
//! # Place
//! Uses `base`. Used by whoever needs an interpreter or a linter. Does not know what the program is
//! for. It bounds time and output and kills the whole process group; it does not isolate files or
//! the network, so untrusted programs need more than this.
//! # Invariants
//! A program that overruns is killed with everything it started, and reaped; its output is bounded
//! in memory whatever it prints.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

mod kill;

/// What to run and how long it may take.
#[derive(Clone, Debug)]
pub struct Job {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub stdin: Vec<u8>,
    pub timeout: Duration,
    /// Bytes kept of standard output and of standard error; the rest is read and dropped.
    pub output_bytes_max: usize,
}

/// What a program left behind.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// More was printed than was kept.
    pub is_cut: bool,
}

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    #[error("cannot start '{program}': {source}")]
    Start { program: String, source: std::io::Error },
    #[error("'{program}' did not finish within {} ms and was stopped", .timeout.as_millis())]
    TimedOut { program: String, timeout: Duration },
    #[error("lost track of '{program}': {source}")]
    Lost { program: String, source: std::io::Error },
}

/// Run a program to its end, or to its limit.
///
/// # Errors
/// When it cannot be started, or overruns its time.
pub fn run(job: &Job) -> Result<Outcome, SandboxError> {
    let program = job.program.display().to_string();
    let mut command = Command::new(&job.program);
    command.args(&job.args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    kill::own_group(&mut command);
    let mut child = command
        .spawn()
        .map_err(|source| SandboxError::Start { program: program.clone(), source })?;

    let stdin = child.stdin.take();
    let input = job.stdin.clone();
    thread::spawn(move || {
        if let Some(mut pipe) = stdin {
            // A program that does not read its input is no error.
            let _ = pipe.write_all(&input);
        }
    });
    let out = collect(child.stdout.take(), job.output_bytes_max);
    let err = collect(child.stderr.take(), job.output_bytes_max);
    let status = wait(&mut child, job.timeout);
    if !matches!(status, Ok(Some(_))) {
        kill::group(&child);
        let _ = child.kill();
        let _ = child.wait();
    }
    let status = status
        .map_err(|source| SandboxError::Lost { program: program.clone(), source })?
        .ok_or_else(|| SandboxError::TimedOut { program: program.clone(), timeout: job.timeout })?;
    // Something the program started may keep the pipes open: do not wait for it for ever.
    let grace = Duration::from_millis(500);
    let (stdout, out_cut) = out.recv_timeout(grace).unwrap_or_default();
    let (stderr, err_cut) = err.recv_timeout(grace).unwrap_or_default();
    Ok(Outcome { status, stdout, stderr, is_cut: out_cut || err_cut })
}

fn wait(child: &mut Child, timeout: Duration) -> std::io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + timeout;
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

fn collect<R: Read + Send + 'static>(
    pipe: Option<R>,
    bytes_max: usize,
) -> mpsc::Receiver<(Vec<u8>, bool)> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let (mut kept, mut is_cut, mut chunk) = (Vec::new(), false, [0u8; 8192]);
        if let Some(mut pipe) = pipe {
            while let Ok(n) = pipe.read(&mut chunk) {
                if n == 0 {
                    break;
                }
                let room = bytes_max - kept.len();
                kept.extend_from_slice(&chunk[..n.min(room)]);
                is_cut |= n > room;
            }
        }
        let _ = send.send((kept, is_cut));
    });
    receive
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn sh(script: &str, stdin: &[u8], timeout_ms: u64) -> Result<Outcome, SandboxError> {
        run(&Job {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            stdin: stdin.to_vec(),
            timeout: Duration::from_millis(timeout_ms),
            output_bytes_max: 1000,
        })
    }

    #[test]
    fn output_and_status_come_back() {
        let out = sh("cat; echo err >&2; exit 3", b"hello", 5000).expect("it ends");
        assert_eq!(out.status.code(), Some(3));
        assert_eq!((out.stdout.as_slice(), out.stderr.as_slice()), (&b"hello"[..], &b"err\n"[..]));
    }

    #[test]
    fn a_program_that_overruns_is_killed_with_its_children() {
        let started = Instant::now();
        let result = sh("trap '' TERM; sleep 30 & wait", b"", 100);
        assert!(matches!(result, Err(SandboxError::TimedOut { .. })));
        assert!(started.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn a_flood_is_cut_and_said_to_be() {
        let out = sh("head -c 100000 /dev/zero", b"", 5000).expect("it ends");
        assert!(out.is_cut);
        assert_eq!(out.stdout.len(), 1000);
    }

    #[test]
    fn a_missing_program_is_named() {
        let job = Job {
            program: "/nonexistent/prog".into(),
            args: vec![],
            stdin: vec![],
            timeout: Duration::from_secs(1),
            output_bytes_max: 10,
        };
        assert!(run(&job).expect_err("no such program").to_string().contains("/nonexistent/prog"));
    }
}
