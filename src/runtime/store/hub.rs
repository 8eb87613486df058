//! Models of the Hugging Face hub, in the hub's own cache.
//!
//! # Place
//! Part of the model store.
//! # Invariants
//! The client has no time limits of its own, so it runs on a thread that is listened to with one: a hub
//! that does not answer is an error within seconds, whatever the thread still does.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use hf_hub::api::Progress;
use hf_hub::api::sync::{ApiBuilder, ApiError};
use hf_hub::{Cache, Repo, RepoType};

use super::error::StoreError;
use super::progress::{PullProgress, PullStep};
use crate::base::limit;

const INDEX: &str = "model.safetensors.index.json";
const SINGLE: &str = "model.safetensors";
const NEEDED: [&str; 2] = ["config.json", "tokenizer.json"];
const WANTED: [&str; 3] =
    ["generation_config.json", "tokenizer_config.json", "chat_template.jinja"];

/// `OWNER/NAME` and a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HubRepo {
    pub(super) id: String,
    pub(super) revision: String,
}

impl HubRepo {
    /// From `hf:OWNER/NAME[@REVISION]`; `None` when `spec` does not begin so.
    pub(super) fn parse(spec: &str) -> Option<Result<Self, StoreError>> {
        let rest = spec.strip_prefix("hf:")?;
        let (id, revision) = rest.split_once('@').unwrap_or((rest, "main"));
        let part = |s: &str| {
            !s.is_empty()
                && !s.starts_with('.')
                && s.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        };
        let good_id = id.split_once('/').is_some_and(|(owner, name)| part(owner) && part(name));
        let good_revision = revision.split('/').all(part);
        Some(if good_id && good_revision {
            Ok(Self { id: id.to_owned(), revision: revision.to_owned() })
        } else {
            Err(StoreError::BadHubSpec { spec: spec.to_owned() })
        })
    }

    fn to_repo(&self) -> Repo {
        Repo::with_revision(self.id.clone(), RepoType::Model, self.revision.clone())
    }
}

/// How the hub is reached.
#[derive(Clone, Debug)]
pub(super) struct Hub {
    pub(super) endpoint: String,
    pub(super) token: Option<String>,
    pub(super) cache: PathBuf,
    /// How long the hub may take to answer.
    pub(super) answer_max: Duration,
}

impl Hub {
    /// The folder of a model that is in the cache with everything it needs.
    pub(super) fn cached(&self, repo: &HubRepo) -> Option<PathBuf> {
        let cached = Cache::new(self.cache.clone()).repo(repo.to_repo());
        let folder = cached.get(NEEDED[0])?.parent()?.to_owned();
        (NEEDED.iter().all(|name| folder.join(name).exists()) && has_weights(&folder))
            .then_some(folder)
    }

    /// Download what is missing of a model; its folder.
    pub(super) fn pull(
        &self,
        repo: &HubRepo,
        progress: &mut dyn PullProgress,
    ) -> Result<PathBuf, StoreError> {
        let (sender, receiver) = mpsc::channel();
        let (hub, worker_repo) = (self.clone(), repo.clone());
        thread::spawn(move || {
            let result = hub.download(&worker_repo, &sender);
            // Nobody listens any more when the limit has passed.
            let _ = sender.send(Event::End(result));
        });
        self.listen(&receiver, progress)
    }

    fn listen(
        &self,
        receiver: &Receiver<Event>,
        progress: &mut dyn PullProgress,
    ) -> Result<PathBuf, StoreError> {
        let mut patience = self.answer_max;
        loop {
            match receiver.recv_timeout(patience) {
                Ok(Event::Answered) => patience = Duration::from_millis(limit::HUB_SILENCE_MS_MAX),
                Ok(Event::Begin { what, bytes }) => {
                    progress.step(PullStep::Downloading { what }, Some(bytes));
                }
                Ok(Event::Done(bytes)) => progress.done(bytes),
                Ok(Event::End(result)) => return result,
                Err(RecvTimeoutError::Timeout) => {
                    let problem = format!("no answer within {} s", patience.as_secs());
                    return Err(self.unreachable(problem));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.unreachable("the download stopped".to_owned()));
                }
            }
        }
    }

    fn unreachable(&self, problem: String) -> StoreError {
        StoreError::HubUnreachable { endpoint: self.endpoint.clone(), problem }
    }

    fn download(&self, repo: &HubRepo, events: &Sender<Event>) -> Result<PathBuf, StoreError> {
        let failed = |e: ApiError| self.describe(repo, e);
        let api = ApiBuilder::new()
            .with_endpoint(self.endpoint.clone())
            .with_token(self.token.clone())
            .with_cache_dir(self.cache.clone())
            .with_progress(false)
            .build()
            .map_err(failed)?;
        let api = api.repo(repo.to_repo());
        let info = api.info().map_err(failed)?;
        let _ = events.send(Event::Answered);
        let files: Vec<String> = info.siblings.into_iter().map(|s| s.rfilename).collect();
        let has = |name: &str| files.iter().any(|f| f == name);
        let weights = [SINGLE, INDEX].into_iter().find(|name| has(name));
        let (Some(weights), true) = (weights, NEEDED.iter().all(|name| has(name))) else {
            return Err(not_usable(repo, &files));
        };
        let get = |name: &str| -> Result<PathBuf, StoreError> {
            let cached = Cache::new(self.cache.clone()).repo(repo.to_repo()).get(name);
            cached.map_or_else(
                || api.download_with_progress(name, Reporter::new(events)).map_err(failed),
                Ok,
            )
        };
        for name in NEEDED.iter().chain(WANTED.iter().filter(|name| has(name))) {
            get(name)?;
        }
        let path = get(weights)?;
        if weights == INDEX {
            for shard in shards(&path)? {
                get(&shard)?;
            }
        }
        let folder = path.parent().map(Path::to_owned);
        folder.ok_or_else(|| not_usable(repo, &files))
    }

    fn describe(&self, repo: &HubRepo, error: ApiError) -> StoreError {
        let problem = error.to_string();
        // The client's error type is another crate's; its text has the status.
        if ["401", "403", "404"].iter().any(|status| problem.contains(status)) {
            return StoreError::NotOnHub {
                endpoint: self.endpoint.clone(),
                repo: repo.id.clone(),
                revision: repo.revision.clone(),
            };
        }
        match error {
            ApiError::IoError(e) => StoreError::io("write below", &self.cache, &repo.id, 0, e),
            _ => self.unreachable(problem),
        }
    }
}

/// What the thread that downloads says.
enum Event {
    Answered,
    Begin { what: String, bytes: u64 },
    Done(u64),
    End(Result<PathBuf, StoreError>),
}

struct Reporter {
    events: Sender<Event>,
    n_bytes: u64,
}

impl Reporter {
    fn new(events: &Sender<Event>) -> Self {
        Self { events: events.clone(), n_bytes: 0 }
    }
}

impl Progress for Reporter {
    fn init(&mut self, size: usize, filename: &str) {
        let _ = self.events.send(Event::Begin { what: filename.to_owned(), bytes: size as u64 });
    }

    fn update(&mut self, size: usize) {
        self.n_bytes += size as u64;
        let _ = self.events.send(Event::Done(self.n_bytes));
    }

    fn finish(&mut self) {}
}

fn has_weights(folder: &Path) -> bool {
    let index = folder.join(INDEX);
    folder.join(SINGLE).exists()
        || shards(&index).is_ok_and(|shards| shards.iter().all(|s| folder.join(s).exists()))
}

/// The file names in a shard index.
fn shards(index: &Path) -> Result<Vec<String>, StoreError> {
    let at = |source| StoreError::Io { doing: "read", path: index.to_owned(), source };
    let text = std::fs::read(index).map_err(at)?;
    let json: serde_json::Value = serde_json::from_slice(&text).map_err(|e| at(e.into()))?;
    let map = json["weight_map"].as_object().into_iter().flatten();
    let mut names: Vec<String> = map
        .filter_map(|(_, shard)| shard.as_str())
        .filter(|shard| Path::new(shard).file_name() == Some((*shard).as_ref()))
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    Ok(names)
}

fn not_usable(repo: &HubRepo, files: &[String]) -> StoreError {
    let gguf: Vec<&str> =
        files.iter().map(String::as_str).filter(|f| f.ends_with(".gguf")).take(8).collect();
    StoreError::NotUsable {
        repo: repo.id.clone(),
        hint: if gguf.is_empty() {
            String::new()
        } else {
            format!("; download one of its GGUF files and pass its path ({})", gguf.join(", "))
        },
    }
}
