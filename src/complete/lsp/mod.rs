//! Any language server as a completion tool, over stdio.
//!
//! # Place
//! Part of `complete`. Speaks the Language Server Protocol as far as completion needs it; what language
//! it is follows from the file's extension.
//! # Invariants
//! - Nothing is waited for but the answer to our own request, and that until the call's deadline: no
//!   "ready" message, which many servers never send.
//! - What the server asks of us is answered on the reading thread, also while nobody asks it anything.
//! - Names are `Open`, also when the list is said to be complete: servers leave names out by their own
//!   rules. No names is `Unknown`.
//! - Names that need an import first, words of the language and snippets are no names.
//! # Sources
//! Language Server Protocol 3.17 (read 2025-11).

mod command;
mod document;
mod encoding;
mod item;
mod language;
#[cfg(test)]
mod tests;
mod wire;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::cursor::{Typed, typed};
use super::place::{Place, python_place};
use super::process::{Framing, NoMessage, NotReading, Process, Restarts};
use super::{CompleteError, ToolCounters};
use crate::base::limit::{LSP_SHUTDOWN_MS_MAX, PYTHON_FILE_BYTES_MAX};
use crate::base::{Answer, CandidateSource, Candidates, LineIndex, Query};
use document::Documents;
use encoding::Encoding;
use item::{Around, Completions, candidates};
use language::language_id;
use wire::{Initialized, Response};

/// How long to wait before asking again a server that asks to be asked again.
const ASK_AGAIN_MS: u64 = 20;

/// How a language server is run.
#[derive(Clone, Debug)]
pub struct LspConfig {
    /// Program and arguments, split at blanks (quotes keep blanks together); no shell is involved.
    pub command: String,
    /// The project's folder, absolute.
    pub root: PathBuf,
    /// What the server gets when it asks for its configuration, as one tree of sections.
    pub settings: Value,
    /// `initializationOptions`, in the shape the server documents.
    pub initialization_options: Value,
    /// How long starting may take, in milliseconds.
    pub start_ms_max: u64,
    /// How long after a missed deadline it may go on before it is killed, in milliseconds.
    pub hang_ms_max: u64,
    /// Whether a question waits until a tool that failed may be started again, instead of going without an
    /// answer: for work that nobody waits for. Its deadline moves by as much.
    pub waits_for_restart: bool,
}

impl LspConfig {
    /// Settings for the usual servers: complete no names that need an import first, and for Python use
    /// the packages of `environment`. Servers ignore sections that are not theirs.
    pub fn usual_settings(environment: Option<&Path>) -> Value {
        let python = environment.map(Path::to_string_lossy);
        let analysis = json!({"autoImportCompletions": false, "diagnosticMode": "openFilesOnly"});
        json!({
            "python": {"pythonPath": python, "analysis": analysis},
            "basedpyright": {"analysis": analysis},
            "ty": {"completions": {"autoImport": false}},
            "rust-analyzer": {"completion": {"autoimport": {"enable": false}}},
        })
    }

    /// `initializationOptions` for the usual servers, as [`LspConfig::usual_settings`].
    pub fn usual_initialization_options(environment: Option<&Path>) -> Value {
        let python = environment.map(Path::to_string_lossy);
        json!({
            "workspace": {"environmentPath": python},
            "completion": {"disableSnippets": true},
            "preferences": {"includeCompletionsForModuleExports": false},
            "settings": {"ty": {"completions": {"autoImport": false}}},
        })
    }
}

/// A running language server.
pub struct Lsp {
    config: LspConfig,
    words: Vec<String>,
    name: String,
    version: String,
    running: Option<Running>,
    restarts: Restarts,
    next_id: u64,
    counters: ToolCounters,
}

struct Running {
    process: Process<Response>,
    /// The id of `initialize` until it is answered.
    initializing: Option<u64>,
    encoding: Encoding,
    documents: Documents,
}

/// Why a call got no completions.
enum NoReply {
    Late,
    /// The server is gone.
    Failed(String),
    /// This call failed; the server goes on.
    Refused(String),
}

impl Lsp {
    /// Start the server and initialise it.
    ///
    /// # Errors
    /// When the command cannot be run, the server does not answer `initialize` in time, refuses it, or has
    /// no completion to offer.
    pub fn start(config: LspConfig) -> Result<Self, CompleteError> {
        let words = command::split(&config.command)?;
        let program = Path::new(&words[0]).file_name().unwrap_or_default();
        let mut lsp = Self {
            name: format!("lsp:{}", program.to_string_lossy()),
            words,
            config,
            version: String::new(),
            running: None,
            restarts: Restarts::default(),
            next_id: 0,
            counters: ToolCounters::default(),
        };
        let mut running = lsp.spawn()?;
        let deadline = Instant::now() + Duration::from_millis(lsp.config.start_ms_max);
        match running.process.receive(deadline) {
            Ok(response) => lsp.accept_initialized(&mut running, &response)?,
            Err(NoMessage::Ended(problem)) => return Err(lsp.start_failed(problem)),
            Err(NoMessage::Late) => {
                let words = running.process.last_words();
                return Err(CompleteError::StartTimedOut {
                    tool: lsp.name.clone(),
                    ms_max: lsp.config.start_ms_max,
                    heard: words.unwrap_or_else(|| "nothing".to_owned()),
                });
            }
        }
        lsp.running = Some(running);
        Ok(lsp)
    }

    /// What happened to the calls so far.
    pub fn counters(&self) -> ToolCounters {
        self.counters
    }

    /// The server's name and version as it gives them, for reports.
    pub fn version(&self) -> &str {
        &self.version
    }

    fn spawn(&mut self) -> Result<Running, CompleteError> {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).current_dir(&self.config.root);
        let (settings, folders) = (self.config.settings.clone(), wire::folders(&self.config.root));
        let process = Process::spawn(command, Framing::Headers, move |frame| {
            wire::route(frame, &settings, &folders)
        });
        let process = process.map_err(|problem| CompleteError::CannotStart {
            tool: "the language server",
            program: PathBuf::from(&self.words[0]),
            problem,
        })?;
        let id = self.new_id();
        let params = wire::initialize(&self.config.root, &self.config.initialization_options);
        // Killed only after whoever waits for it has given up.
        let limit = Duration::from_millis(self.config.start_ms_max + self.config.hang_ms_max);
        let message = wire::request(id, "initialize", &params);
        // An empty queue has room.
        let _ = process.ask(id, &message, Instant::now() + limit);
        Ok(Running {
            process,
            initializing: Some(id),
            encoding: Encoding::Utf16,
            documents: Documents::default(),
        })
    }

    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Take the answer to `initialize` and finish the handshake.
    fn accept_initialized(
        &mut self,
        running: &mut Running,
        response: &Response,
    ) -> Result<(), CompleteError> {
        if let Some(error) = &response.error {
            return Err(CompleteError::Refused {
                tool: self.name.clone(),
                problem: error.message.clone(),
            });
        }
        let told: Initialized = wire::result(&response.frame).map_err(|problem| {
            self.start_failed(format!("its capabilities are none: {problem}"))
        })?;
        if !told.capabilities.completion_provider.is_some_and(|p| p.is_object()) {
            return Err(CompleteError::NoCompletion { tool: self.name.clone() });
        }
        self.version = told.server_info.map_or_else(String::new, |info| {
            format!("{} {}", info.name, info.version.unwrap_or_default())
        });
        running.encoding = Encoding::negotiated(told.capabilities.position_encoding.as_deref());
        running.initializing = None;
        let settings = json!({"settings": self.config.settings});
        for message in [
            wire::notification("initialized", &json!({})),
            wire::notification("workspace/didChangeConfiguration", &settings),
        ] {
            // Two short messages in a queue that just was empty.
            let _ = running.process.tell(&message);
        }
        Ok(())
    }

    fn start_failed(&self, problem: String) -> CompleteError {
        CompleteError::StartFailed { tool: self.name.clone(), problem }
    }

    fn ask(
        &mut self,
        query: &Query<'_>,
        asked: &Asked<'_>,
    ) -> Result<(Completions, Encoding), NoReply> {
        let (mut running, waited) = match self.running.take() {
            Some(running) => (running, Duration::ZERO),
            None => self.restart()?,
        };
        let query = &Query { deadline: query.deadline + waited, ..*query };
        let reply = self.ask_running(&mut running, query, asked);
        if let Err(NoReply::Failed(_)) = reply {
            if running.process.was_killed_as_hung() {
                self.counters.hangs += 1;
            } else {
                self.counters.crashes += 1;
            }
            self.restarts.failed(Instant::now());
        } else {
            self.running = Some(running);
        }
        reply
    }

    /// The tool, started again, and how long that was waited for.
    fn restart(&mut self) -> Result<(Running, Duration), NoReply> {
        let waited = self.config.waits_for_restart.then(|| self.restarts.pause(Instant::now()));
        let waited = waited.unwrap_or_default();
        std::thread::sleep(waited);
        let now = Instant::now();
        if !self.restarts.may_start(now) {
            return Err(NoReply::Failed(format!("{} waits to be restarted", self.name)));
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
        asked: &Asked<'_>,
    ) -> Result<(Completions, Encoding), NoReply> {
        self.wait_until_initialized(running, query.deadline)?;
        for (method, params) in running.documents.show(query.path, asked.text) {
            let told = running.process.tell(&wire::notification(method, &params));
            told.map_err(|NotReading| not_reading(running))?;
        }
        loop {
            let response = self.completion(running, query, asked)?;
            self.restarts.worked();
            let Some(error) = response.error else {
                let completions = wire::result(&response.frame)
                    .map_err(|e| NoReply::Refused(format!("its answer is no completion: {e}")))?;
                return Ok((completions, running.encoding));
            };
            let again = Duration::from_millis(ASK_AGAIN_MS);
            if !error.may_be_asked_again() {
                return Err(NoReply::Refused(error.message));
            }
            if Instant::now() + again >= query.deadline {
                return Err(NoReply::Late);
            }
            std::thread::sleep(again);
        }
    }

    /// One completion request and its response.
    fn completion(
        &mut self,
        running: &mut Running,
        query: &Query<'_>,
        asked: &Asked<'_>,
    ) -> Result<Response, NoReply> {
        let id = self.new_id();
        let params = json!({
            "textDocument": {"uri": wire::uri(query.path)},
            "position": running.encoding.position(asked.text, &asked.index, asked.offset),
            "context": {"triggerKind": 1},
        });
        let answer_by =
            query.deadline.max(Instant::now()) + Duration::from_millis(self.config.hang_ms_max);
        let message = wire::request(id, "textDocument/completion", &params);
        let sent = running.process.ask(id, &message, answer_by);
        sent.map_err(|NotReading| not_reading(running))?;
        loop {
            match running.process.receive(query.deadline) {
                Ok(response) if response.id == id => return Ok(response),
                Ok(_) => self.counters.late += 1,
                Err(NoMessage::Ended(problem)) => return Err(self.crashed(&problem)),
                Err(NoMessage::Late) => {
                    let cancel = wire::notification("$/cancelRequest", &json!({"id": id}));
                    // A server that does not read will not mind.
                    let _ = running.process.tell(&cancel);
                    return Err(NoReply::Late);
                }
            }
        }
    }

    fn wait_until_initialized(
        &mut self,
        running: &mut Running,
        deadline: Instant,
    ) -> Result<(), NoReply> {
        while let Some(id) = running.initializing {
            match running.process.receive(deadline) {
                Ok(response) if response.id == id => self
                    .accept_initialized(running, &response)
                    .map_err(|problem| NoReply::Failed(problem.to_string()))?,
                Ok(_) => self.counters.late += 1,
                Err(NoMessage::Ended(problem)) => return Err(self.crashed(&problem)),
                Err(NoMessage::Late) => return Err(NoReply::Late),
            }
        }
        Ok(())
    }

    fn crashed(&self, problem: &str) -> NoReply {
        NoReply::Failed(format!("{} crashed: {problem}", self.name))
    }

    fn answer(&mut self, query: &Query<'_>) -> Candidates {
        let Some(typed) = typed(query.text, query.offset) else {
            return Candidates::unknown(query.offset, "the cursor is not a position of the text");
        };
        let start = typed.start_byte;
        if query.text.len() as u64 > PYTHON_FILE_BYTES_MAX {
            return Candidates::unknown(start, "the file is too large");
        }
        let is_python = language_id(query.path) == "python";
        let place = match is_python {
            true => python_place(query.text, query.offset),
            false => Place::Code,
        };
        if place != Place::Code {
            return Candidates::unknown(start, place.reason());
        }
        let asked = Asked::new(query, typed, is_python);
        match self.ask(query, &asked) {
            Err(NoReply::Late) => Candidates::timed_out(start),
            Err(NoReply::Failed(problem)) => Candidates::unknown(start, problem),
            Err(NoReply::Refused(problem)) => {
                self.counters.errors += 1;
                Candidates::unknown(start, format!("{} failed: {problem}", self.name))
            }
            Ok((completions, encoding)) => self.understand(&completions, encoding, &asked, start),
        }
    }

    fn understand(
        &mut self,
        completions: &Completions,
        encoding: Encoding,
        asked: &Asked<'_>,
        start_byte: usize,
    ) -> Candidates {
        let around = Around {
            text: asked.text,
            index: &asked.index,
            offset: asked.offset,
            typed: &asked.typed,
            encoding,
            is_python: asked.is_python,
        };
        let (names, n_dropped) = candidates(&completions.items, &around);
        self.counters.dropped_names += n_dropped;
        if names.is_empty() {
            return Candidates::unknown(start_byte, "the language server knows no names here");
        }
        let reason = match completions.is_incomplete {
            true => "the language server lists a part of the names",
            false => "a language server's lists are not complete",
        };
        Candidates { answer: Answer::Open, names, start_byte, reason: Some(Arc::from(reason)) }
    }
}

/// A query as the server sees it: without a byte order mark, which servers count in different ways.
struct Asked<'a> {
    text: &'a str,
    index: LineIndex,
    offset: usize,
    typed: Typed,
    is_python: bool,
}

impl<'a> Asked<'a> {
    fn new(query: &Query<'a>, mut typed: Typed, is_python: bool) -> Self {
        let (text, n_cut) = match query.text.strip_prefix('\u{feff}') {
            Some(rest) => (rest, query.text.len() - rest.len()),
            None => (query.text, 0),
        };
        typed.start_byte = typed.start_byte.saturating_sub(n_cut);
        Self {
            text,
            index: LineIndex::new(text),
            offset: query.offset.saturating_sub(n_cut),
            typed,
            is_python,
        }
    }
}

/// The documents are no longer what the server has: it must be shown them again.
fn not_reading(running: &mut Running) -> NoReply {
    running.documents = Documents::default();
    NoReply::Late
}

impl CandidateSource for Lsp {
    fn name(&self) -> &str {
        &self.name
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

impl Drop for Lsp {
    /// Ask the server to leave, as the protocol wants it, and do not wait long for it.
    fn drop(&mut self) {
        let Some(running) = self.running.take().filter(|r| r.initializing.is_none()) else {
            return;
        };
        let deadline = Instant::now() + Duration::from_millis(LSP_SHUTDOWN_MS_MAX);
        let id = self.new_id();
        if running.process.ask(id, &wire::bare(Some(id), "shutdown"), deadline).is_err() {
            return;
        }
        while let Ok(response) = running.process.receive(deadline) {
            if response.id == id {
                let _ = running.process.tell(&wire::bare(None, "exit"));
                running.process.wait_for_exit(deadline);
                return;
            }
        }
    }
}
