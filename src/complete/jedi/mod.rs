//! Jedi as a completion tool: a long-lived Python process that is asked in framed JSON.
//!
//! # Place
//! Part of `complete`. The Python side is `server.py`, embedded here; it runs isolated (`-I`), finds
//! modules in the given roots and in the user's interpreter, never in its own `sys.path`.
//! # Invariants
//! - A call returns at its deadline. What Jedi still does then it may finish, so that its caches stay
//!   warm; when it does not come back within `hang_ms_max` it is killed, also when nobody asks again.
//! - Jedi's "no names" is `Unknown`: it says the same of an empty object and of one it knows nothing
//!   about. Names are `Open`: Jedi leaves some out and invents others (`__slots__`, `setattr`, the diamond
//!   order, star imports).
//! - Names come back in NFKC. A definition that is spelled differently (a ligature) is only found while
//!   nothing of it is typed: Jedi compares spellings.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::cursor::{Typed, is_name, is_name_char, typed};
use super::place::{Place, python_place};
use super::process::{Framing, NoMessage, NotReading, Process, Restarts, Route};
use super::{CompleteError, ToolCounters};
use crate::base::limit::{CANDIDATE_BYTES_MAX, CANDIDATES_MAX, PYTHON_FILE_BYTES_MAX};
use crate::base::{
    Answer, Candidate, CandidateKind, CandidateSource, Candidates, LineIndex, Origin, Query,
};

const SERVER: &str = include_str!("server.py");
/// Stands for the set-up, whose answer is "ready"; questions count from 1.
const READY_ID: u64 = 0;

/// How Jedi is run.
#[derive(Clone, Debug)]
pub struct JediConfig {
    /// An interpreter that can `import jedi`.
    pub python: PathBuf,
    /// The user's interpreter, whose packages the code may import; `python` itself when not given.
    pub environment: Option<PathBuf>,
    /// Source roots, first wins; they come before the interpreter's own paths.
    pub roots: Vec<PathBuf>,
    /// Address space of the process; 0 for no limit.
    pub memory_bytes_max: u64,
    /// How long starting may take, in milliseconds.
    pub start_ms_max: u64,
    /// How long after a missed deadline it may go on before it is killed, in milliseconds.
    pub hang_ms_max: u64,
    /// Whether a question waits until a tool that failed may be started again, instead of going without an
    /// answer: for work that nobody waits for. Its deadline moves by as much.
    pub waits_for_restart: bool,
}

/// A running Jedi.
pub struct Jedi {
    config: JediConfig,
    server: &'static str,
    version: String,
    running: Option<Running>,
    restarts: Restarts,
    next_id: u64,
    counters: ToolCounters,
}

struct Running {
    process: Process<Reply>,
    /// Until the server has said that it is ready.
    is_starting: bool,
    /// The question whose deadline passed and that is still being worked on.
    abandoned: Option<u64>,
}

#[derive(Serialize)]
struct Setup<'a> {
    roots: Vec<String>,
    environment: Option<&'a str>,
    memory_bytes_max: u64,
}

#[derive(Serialize)]
struct Question<'a> {
    id: u64,
    path: &'a str,
    text: &'a str,
    line: u32,
    column: u32,
    prefix: &'a str,
    names_max: usize,
}

#[derive(Deserialize)]
struct Reply {
    id: Option<u64>,
    ready: Option<bool>,
    #[serde(default)]
    jedi: String,
    #[serde(default)]
    python: String,
    names: Option<Vec<(String, String)>>,
    #[serde(default)]
    truncated: bool,
    error: Option<String>,
    kind: Option<String>,
}

/// Why a call got no reply.
enum NoReply {
    Late,
    Failed(String),
}

impl Jedi {
    /// Start the process and wait until Jedi is imported.
    ///
    /// # Errors
    /// When there is no such interpreter, it has no Jedi, or the environment cannot be used.
    pub fn start(config: JediConfig) -> Result<Self, CompleteError> {
        Self::start_with(config, SERVER)
    }

    fn start_with(config: JediConfig, server: &'static str) -> Result<Self, CompleteError> {
        let mut jedi = Self {
            config,
            server,
            version: String::new(),
            running: None,
            restarts: Restarts::default(),
            next_id: 0,
            counters: ToolCounters::default(),
        };
        let mut running = jedi.spawn()?;
        let deadline = Instant::now() + Duration::from_millis(jedi.config.start_ms_max);
        let ready = running.process.receive(deadline);
        let ready = ready.map_err(|problem| match problem {
            NoMessage::Late => CompleteError::StartTimedOut {
                tool: "jedi".to_owned(),
                ms_max: jedi.config.start_ms_max,
                heard: heard(&running.process),
            },
            NoMessage::Ended(problem) => jedi.start_failed(problem),
        })?;
        jedi.accept_ready(&mut running, ready)?;
        jedi.running = Some(running);
        Ok(jedi)
    }

    /// What happened to the calls so far.
    pub fn counters(&self) -> ToolCounters {
        self.counters
    }

    /// The versions of Jedi and of the Python that runs it, for reports: `jedi 0.20.1, python 3.11.7`.
    pub fn version(&self) -> &str {
        &self.version
    }

    fn spawn(&self) -> Result<Running, CompleteError> {
        let mut command = Command::new(&self.config.python);
        command.args(["-I", "-c", self.server]);
        let process = Process::spawn(command, Framing::Length, route).map_err(|problem| {
            CompleteError::CannotStart {
                tool: "jedi",
                program: self.config.python.clone(),
                problem,
            }
        })?;
        let environment = self.config.environment.as_deref().map(shown);
        let setup = Setup {
            roots: self.config.roots.iter().map(|r| shown(r)).collect(),
            environment: environment.as_deref(),
            memory_bytes_max: self.config.memory_bytes_max,
        };
        // Killed only after whoever waits for it has given up.
        let limit = Duration::from_millis(self.config.start_ms_max + self.config.hang_ms_max);
        // An empty queue has room.
        let _ = process.ask(READY_ID, &json(&setup), Instant::now() + limit);
        Ok(Running { process, is_starting: true, abandoned: None })
    }

    fn accept_ready(&mut self, running: &mut Running, reply: Reply) -> Result<(), CompleteError> {
        if let Some(problem) = reply.error {
            return Err(match reply.kind.as_deref() {
                Some("no_jedi") => {
                    CompleteError::NoJedi { python: self.config.python.clone(), problem }
                }
                Some("environment") => CompleteError::Environment {
                    environment: self
                        .config
                        .environment
                        .clone()
                        .unwrap_or_else(|| self.config.python.clone()),
                    problem,
                },
                _ => self.start_failed(problem),
            });
        }
        if reply.ready != Some(true) {
            return Err(self.start_failed("its first message is not \"ready\"".to_owned()));
        }
        self.version = format!("jedi {}, python {}", reply.jedi, reply.python);
        running.is_starting = false;
        Ok(())
    }

    fn start_failed(&self, problem: String) -> CompleteError {
        CompleteError::StartFailed {
            tool: format!("jedi in {}", self.config.python.display()),
            problem,
        }
    }

    fn ask(&mut self, query: &Query<'_>, typed: &Typed) -> Result<Reply, NoReply> {
        let (mut running, waited) = match self.running.take() {
            Some(running) => (running, Duration::ZERO),
            None => self.restart()?,
        };
        let query = &Query { deadline: query.deadline + waited, ..*query };
        let asked = self.ask_running(&mut running, query, typed);
        match &asked {
            Err(NoReply::Failed(_)) => {
                if running.process.was_killed_as_hung() {
                    self.counters.hangs += 1;
                } else {
                    self.counters.crashes += 1;
                }
                self.restarts.failed(Instant::now());
            }
            Ok(_) | Err(NoReply::Late) => self.running = Some(running),
        }
        asked
    }

    /// The tool, started again, and how long that was waited for.
    fn restart(&mut self) -> Result<(Running, Duration), NoReply> {
        let waited = self.config.waits_for_restart.then(|| self.restarts.pause(Instant::now()));
        let waited = waited.unwrap_or_default();
        std::thread::sleep(waited);
        let now = Instant::now();
        if !self.restarts.may_start(now) {
            return Err(NoReply::Failed("jedi waits to be restarted".to_owned()));
        }
        self.counters.restarts += 1;
        self.spawn().map(|running| (running, waited)).map_err(|problem| {
            self.restarts.failed(now);
            NoReply::Failed(problem.to_string())
        })
    }

    fn ask_running(
        &mut self,
        running: &mut Running,
        query: &Query<'_>,
        typed: &Typed,
    ) -> Result<Reply, NoReply> {
        self.wait_until_free(running, query.deadline)?;
        self.next_id += 1;
        let id = self.next_id;
        let question = question(id, query, typed);
        let answer_by =
            query.deadline.max(Instant::now()) + Duration::from_millis(self.config.hang_ms_max);
        let asked = running.process.ask(id, &question, answer_by);
        asked.map_err(|NotReading| NoReply::Late)?;
        loop {
            match running.process.receive(query.deadline) {
                Ok(reply) if reply.id == Some(id) => {
                    self.restarts.worked();
                    return Ok(reply);
                }
                Ok(_) => self.counters.late += 1,
                Err(NoMessage::Late) => {
                    running.abandoned = Some(id);
                    return Err(NoReply::Late);
                }
                Err(NoMessage::Ended(problem)) => {
                    return Err(NoReply::Failed(format!("jedi crashed: {problem}")));
                }
            }
        }
    }

    /// Wait until the server is up and done with a question whose deadline passed.
    fn wait_until_free(&mut self, running: &mut Running, deadline: Instant) -> Result<(), NoReply> {
        while running.is_starting || running.abandoned.is_some() {
            match running.process.receive(deadline) {
                Ok(reply) if running.is_starting => {
                    self.accept_ready(running, reply)
                        .map_err(|problem| NoReply::Failed(problem.to_string()))?;
                }
                Ok(reply) => {
                    self.counters.late += 1;
                    if reply.id == running.abandoned {
                        running.abandoned = None;
                    }
                }
                Err(NoMessage::Ended(problem)) => {
                    return Err(NoReply::Failed(format!("jedi crashed: {problem}")));
                }
                Err(NoMessage::Late) => return Err(NoReply::Late),
            }
        }
        Ok(())
    }

    fn answer(&mut self, query: &Query<'_>) -> Candidates {
        let Some(typed) = typed(query.text, query.offset) else {
            return Candidates::unknown(query.offset, "the cursor is not a position of the text");
        };
        let start = typed.start_byte;
        if query.text.len() as u64 > PYTHON_FILE_BYTES_MAX {
            return Candidates::unknown(start, "the file is too large");
        }
        let place = python_place(query.text, query.offset);
        if place != Place::Code {
            return Candidates::unknown(start, place.reason());
        }
        match self.ask(query, &typed) {
            Err(NoReply::Late) => Candidates::timed_out(start),
            Err(NoReply::Failed(problem)) => Candidates::unknown(start, problem),
            Ok(reply) => self.understand(reply, query, &typed),
        }
    }

    fn understand(&mut self, reply: Reply, query: &Query<'_>, typed: &Typed) -> Candidates {
        let start = typed.start_byte;
        if let Some(problem) = reply.error {
            self.counters.errors += 1;
            return Candidates::unknown(start, format!("jedi failed: {problem}"));
        }
        let is_member = is_member(&query.text[..start]);
        let offered = reply.names.unwrap_or_default();
        let n_offered = offered.len() as u64;
        let mut names: Vec<Candidate> = offered
            .into_iter()
            .filter(|(name, _)| {
                is_name(name)
                    && name.len() <= CANDIDATE_BYTES_MAX
                    && name.starts_with(&typed.prefix)
            })
            .take(CANDIDATES_MAX)
            .map(|(name, kind)| Candidate::new(name, kind_of(&kind, is_member), Origin::Unknown))
            .collect();
        names.sort_by(|a, b| a.name.cmp(&b.name));
        names.dedup_by(|a, b| a.name == b.name);
        self.counters.dropped_names += n_offered - names.len() as u64;
        if names.is_empty() {
            return Candidates::unknown(start, "jedi knows no names here");
        }
        let reason = match reply.truncated {
            true => "jedi lists more names than are used",
            false => "jedi's lists are not complete",
        };
        Candidates {
            answer: Answer::Open,
            names,
            start_byte: start,
            reason: Some(Arc::from(reason)),
        }
    }
}

impl CandidateSource for Jedi {
    fn name(&self) -> &str {
        "jedi"
    }

    fn is_process(&self) -> bool {
        true
    }

    fn candidates(&mut self, query: &Query<'_>) -> Candidates {
        let candidates = self.answer(query);
        self.counters.finish(&candidates);
        candidates
    }
}

fn route(message: Vec<u8>) -> Route<Reply> {
    match serde_json::from_slice::<Reply>(&message) {
        Ok(message) => Route::Forward { id: message.id.unwrap_or(READY_ID), message },
        Err(problem) => Route::Garbage(format!("it wrote no answer: {problem}")),
    }
}

fn heard(process: &Process<Reply>) -> String {
    process.last_words().unwrap_or_else(|| "nothing".to_owned())
}

/// Jedi counts lines from 1 and columns from 0 in code points, and looks at no byte order mark.
///
/// Where a name may begin and nothing of it is typed, one is put in: Jedi takes blanks at the end of a
/// block for the code outside of it, and so misses the function's own names where a statement begins
/// (of 50 true names in real code that it missed, 47 are found this way). After a dot it would do
/// harm: `isinstance` no longer narrows there.
fn question(id: u64, query: &Query<'_>, typed: &Typed) -> Vec<u8> {
    let (text, offset) = match query.text.strip_prefix('\u{feff}') {
        Some(rest) => (rest, query.offset.saturating_sub('\u{feff}'.len_utf8())),
        None => (query.text, query.offset),
    };
    // A prefix that Jedi would compare as it is spelled is better filtered here.
    let at = match typed.differs {
        true => offset - (query.offset - typed.start_byte),
        false => offset,
    };
    let position = LineIndex::new(text).position(text, at);
    let after = text[offset..].chars().next();
    let begins = typed.prefix.is_empty() && !after.is_some_and(is_name_char);
    let text: Cow<'_, str> = match begins && !is_member(&text[..offset]) {
        true => Cow::Owned(format!("{}_{}", &text[..offset], &text[offset..])),
        false => Cow::Borrowed(text),
    };
    json(&Question {
        id,
        path: &shown(query.path),
        text: &text,
        line: position.line,
        column: position.col - 1,
        prefix: &typed.prefix,
        names_max: CANDIDATES_MAX,
    })
}

/// Whether a name after `before` is a member of something.
fn is_member(before: &str) -> bool {
    before.trim_end().ends_with('.')
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("strings and numbers always serialise")
}

/// Jedi uses paths for module names and its caches; one that is no UTF-8 is shown as well as it can be.
fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn kind_of(jedi_type: &str, is_member: bool) -> CandidateKind {
    match jedi_type {
        "module" | "namespace" => CandidateKind::Module,
        "class" => CandidateKind::Class,
        "function" => CandidateKind::Function,
        "property" => CandidateKind::Property,
        "param" => CandidateKind::Parameter,
        "argument" => CandidateKind::Keyword,
        "statement" | "instance" if is_member => CandidateKind::Attribute,
        "statement" | "instance" => CandidateKind::Variable,
        _ => CandidateKind::Unknown,
    }
}
