//! A model that is ready to write: files opened, tokenizer built, weights on a device.
//!
//! # Place
//! Part of `runtime`, its composition root: the only code that opens model files and picks a device.

use super::RuntimeError;
use super::adapter::{self, AdapterPlan, AdapterUse, Loaded, OpenAdapter};
use super::device::{self, DeviceChoice};
use super::drive::{Output, Work, drive};
use super::grammar::GrammarPool;
use super::memory::{self, MemoryPlan};
use crate::base::{CandidateSource, TokenId, limit};
use crate::constrain::{Constraint, NameStore, PaperCache, PaperConfig, TokenTrie, Vocabulary};
use crate::device::KvType;
use crate::engine::{Encode, Engine, EngineConfig, Request, SamplingParams};
use crate::format::{Fingerprint, GgufFile, Safetensors, Sha256Hex, Tensors};
use crate::model::{Adapter, AdapterId, Decoder, DecoderLimits, Merged, ModelConfig};
use crate::tokenizer::{AddBos, ChatOptions, Message, Specials, Tokenizer};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

/// Where a model's files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelFiles {
    /// One GGUF file with everything in it.
    Gguf(PathBuf),
    /// A folder as the Hugging Face hub lays it out: `config.json`, `tokenizer.json`, safetensors.
    Folder(PathBuf),
}

impl ModelFiles {
    /// The file or folder.
    pub fn path(&self) -> &Path {
        match self {
            Self::Gguf(path) | Self::Folder(path) => path,
        }
    }
}

/// How to load a model.
#[derive(Clone, Debug)]
pub struct LoadConfig {
    pub device: DeviceChoice,
    /// Threads of the CPU device; `None`: one for each core.
    pub threads: Option<NonZeroUsize>,
    pub kv_type: KvType,
    /// Tokens that the key/value cache holds, over all sequences; `None`: a full context for each
    /// sequence, up to [`limit::KV_CONTEXTS_MAX`] of them.
    pub kv_tokens: Option<usize>,
    /// Most sequences that run at once.
    pub seqs_max: NonZeroUsize,
    /// Share of a device's free memory that may be used, where the device has memory of its own.
    pub memory_fraction: f32,
    /// Where kernels that are compiled on this machine are kept; `None`: the platform's cache folder.
    pub home: Option<PathBuf>,
}

impl LoadConfig {
    /// One sequence on the best device, with a cache for one full context.
    pub fn single() -> Self {
        Self {
            device: DeviceChoice::Auto,
            threads: None,
            kv_type: KvType::F16,
            kv_tokens: None,
            seqs_max: NonZeroUsize::MIN,
            memory_fraction: 0.9,
            home: None,
        }
    }
}

/// What a prompt is made of.
#[derive(Clone, Debug)]
pub enum Prompt {
    /// Text that goes on; special tokens in it are text.
    Text(String),
    /// A conversation, rendered with the model's chat template.
    Chat(Vec<Message>),
    /// Rendered text in which special tokens are meant (no beginning-of-text token is added).
    Rendered(String),
    Tokens(Vec<u32>),
}

/// What a model is made of, before it is on a device.
struct Parts<'a> {
    shape: ModelConfig,
    tokenizer: Tokenizer,
    tensors: &'a dyn Tensors,
    fingerprint: Fingerprint,
    /// Parameters of adapters beside the weights.
    n_beside: u64,
}

/// Who is told what while a model loads.
struct Hooks<'a> {
    on_plan: &'a mut dyn FnMut(&MemoryPlan),
    progress: &'a mut dyn FnMut(usize, usize),
}

/// A loaded model.
pub struct Model {
    files: ModelFiles,
    fingerprint: Fingerprint,
    tokenizer: Arc<Tokenizer>,
    vocabulary: Arc<Vocabulary>,
    names: OnceLock<Arc<NameStore>>,
    grammars: Arc<GrammarPool>,
    paper_cache: PaperCache,
    threads: usize,
    device_note: Option<String>,
    adapters: Vec<Loaded>,
    /// What requests run with unless they say otherwise.
    current: Option<AdapterId>,
    engine: Engine,
}

impl Model {
    /// Open the files and put the weights on the device. `progress` is told (layers done, layers in all).
    ///
    /// # Errors
    /// Files that are broken, unsupported or do not belong together; no memory.
    pub fn load(
        files: &ModelFiles,
        config: &LoadConfig,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, RuntimeError> {
        Self::load_planned(files, config, &AdapterPlan::NONE, &mut |_| {}, progress)
    }

    /// The same with adapters, telling `on_plan` how the memory of a device that has its own will be used, before it is.
    ///
    /// # Errors
    /// As [`Model::load`]; adapters that do not fit, or two of one name.
    pub fn load_planned(
        files: &ModelFiles,
        config: &LoadConfig,
        adapters: &AdapterPlan<'_>,
        on_plan: &mut dyn FnMut(&MemoryPlan),
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, RuntimeError> {
        let mut hooks = Hooks { on_plan, progress };
        adapter::check(adapters, files)?;
        match files {
            ModelFiles::Gguf(path) => {
                let file = GgufFile::open(path)?;
                let shape = gguf_shape(&file)?;
                let tokenizer = Tokenizer::from_gguf(file.metadata())?;
                let fingerprint = file.fingerprint();
                let parts = Parts { shape, tokenizer, tensors: &file, fingerprint, n_beside: 0 };
                Self::adapted(files, parts, adapters, config, &mut hooks)
            }
            ModelFiles::Folder(path) => {
                let shape = ModelConfig::from_hf(&read_json(&path.join("config.json"))?)?;
                let tokenizer = Tokenizer::from_folder(path)?;
                let file = Safetensors::open(path)?;
                let fingerprint = file.fingerprint();
                let parts = Parts { shape, tokenizer, tensors: &file, fingerprint, n_beside: 0 };
                Self::adapted(files, parts, adapters, config, &mut hooks)
            }
        }
    }

    /// Merge adapters, or put them beside the weights.
    fn adapted(
        files: &ModelFiles,
        mut parts: Parts<'_>,
        plan: &AdapterPlan<'_>,
        config: &LoadConfig,
        hooks: &mut Hooks<'_>,
    ) -> Result<Self, RuntimeError> {
        let n_base = parts.shape.vocab;
        parts.tokenizer.check_fits(n_base)?;
        if plan.adapters.is_empty() {
            return Self::build(files, parts, config, hooks);
        }
        let all: Vec<&Adapter> = plan.adapters.iter().map(|a| &a.adapter).collect();
        let (merged, beside): (&[&Adapter], &[&Adapter]) = match plan.usage {
            AdapterUse::Merged => (&all, &[]),
            AdapterUse::PerRequest => (&[], &all),
        };
        let (tensors, shape) = Merged::new(parts.tensors, &parts.shape, merged, beside)?;
        let added = adapter::new_tokens(plan.adapters, parts.tokenizer.len(), shape.vocab)?;
        let tokenizer = parts.tokenizer.with_added(&added)?;
        if plan.usage == AdapterUse::Merged {
            parts.fingerprint = combined(parts.fingerprint, plan.adapters);
        }
        let n_beside = beside.iter().map(|a| a.n_parameters()).sum();
        let fingerprint = parts.fingerprint;
        let parts = Parts { shape, tokenizer, tensors: &tensors, fingerprint, n_beside };
        let mut model = Self::build(files, parts, config, hooks)?;
        for open in plan.adapters {
            let id = match plan.usage {
                AdapterUse::Merged => None,
                AdapterUse::PerRequest => Some(model.engine.add_adapter(&open.adapter, n_base)?),
            };
            model.adapters.push(Loaded { open: open.clone(), id });
        }
        Ok(model)
    }

    fn build(
        files: &ModelFiles,
        parts: Parts<'_>,
        config: &LoadConfig,
        hooks: &mut Hooks<'_>,
    ) -> Result<Self, RuntimeError> {
        let Parts { shape, tokenizer, tensors, fingerprint, n_beside } = parts;
        let device::Opened { mut backend, note } =
            device::open(config.device, threads(config), config.home.as_deref())?;
        let block = limit::KV_BLOCK_TOKENS;
        let full = shape.context * config.seqs_max.get().min(limit::KV_CONTEXTS_MAX);
        let kv_tokens = config.kv_tokens.unwrap_or(full).max(block);
        let seqs_max = config.seqs_max.get().min(limit::STEP_SEQS_MAX);
        let mut limits = DecoderLimits {
            rows_max: limit::STEP_ROWS_MAX,
            logit_rows_max: seqs_max.max(8) + limit::DRAFT_ROWS_MAX,
            kv_blocks: kv_tokens.div_ceil(block),
            kv_block_tokens: block,
            kv_type: config.kv_type,
        };
        if let Some(free) = backend.memory() {
            let (fraction, is_wish) = (config.memory_fraction, config.kv_tokens.is_some());
            let plan = memory::plan(&shape, tensors, n_beside, &limits, free, fraction, is_wish)?;
            limits.kv_blocks = plan.cache_tokens / block;
            (hooks.on_plan)(&plan);
        }
        let decoder = Decoder::load(shape, tensors, backend.as_mut(), limits, hooks.progress)?;
        let ids = 0..tokenizer.len() as u32;
        let vocabulary = Arc::new(
            Vocabulary::new(
                ids.map(|id| tokenizer.token_bytes(TokenId(id))),
                tokenizer.eos().ids(),
            )
            .map_err(RuntimeError::Constraint)?,
        );
        let engine_config = EngineConfig { seqs_max, prefill_rows_max: limit::STEP_ROWS_MAX };
        let tokenizer = Arc::new(tokenizer);
        let mut engine = Engine::new(backend, decoder, Arc::clone(&vocabulary), engine_config);
        engine.set_encoder(encoder(&tokenizer));
        Ok(Self {
            files: files.clone(),
            fingerprint,
            tokenizer,
            grammars: Arc::new(GrammarPool::new(Arc::clone(&vocabulary))),
            vocabulary,
            names: OnceLock::new(),
            paper_cache: PaperCache::default(),
            threads: threads(config).get(),
            device_note: note,
            adapters: Vec::new(),
            current: None,
            engine,
        })
    }

    pub fn files(&self) -> &ModelFiles {
        &self.files
    }

    /// Identifies the weights, merged adapters included, for cache keys and results.
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// Identifies what computes a request's keys and values: the weights, and the adapter that it names with
    /// its scale. Whatever is cached for longer than a request is cached under this.
    pub fn cache_key(&self, adapter: Option<AdapterId>) -> Fingerprint {
        let is_it = |loaded: &&Loaded| adapter.is_some() && loaded.id == adapter;
        match self.adapters.iter().find(is_it) {
            Some(loaded) => combined(self.fingerprint, std::slice::from_ref(&loaded.open)),
            None => self.fingerprint,
        }
    }

    /// The adapters that were loaded, merged or not.
    pub fn adapters(&self) -> impl Iterator<Item = &OpenAdapter> {
        self.adapters.iter().map(|loaded| &loaded.open)
    }

    /// An adapter beside the weights by its name, for [`Request::adapter`].
    ///
    /// # Errors
    /// When none of that name is loaded, with those that are.
    pub fn adapter(&self, name: &str) -> Result<AdapterId, RuntimeError> {
        let beside = || self.adapters.iter().filter_map(|l| Some((l.open.name(), l.id?)));
        let found = beside().find(|(n, _)| *n == name);
        found.map(|(_, id)| id).ok_or_else(|| RuntimeError::NotLoaded {
            name: name.to_owned(),
            known: beside().map(|(n, _)| n).collect::<Vec<_>>().join(", "),
        })
    }

    /// Requests made from now on run with this adapter, or with none.
    pub fn use_adapter(&mut self, adapter: Option<AdapterId>) {
        self.current = adapter;
    }

    /// What requests made from now on run with.
    pub fn current_adapter(&self) -> Option<AdapterId> {
        self.current
    }

    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    pub fn config(&self) -> &ModelConfig {
        self.engine.decoder().config()
    }

    /// Why another device was not chosen, where that may surprise.
    pub fn device_note(&self) -> Option<&str> {
        self.device_note.as_deref()
    }

    /// Threads of the CPU device.
    pub fn threads(&self) -> usize {
        self.threads
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// The bytes of every token.
    pub(super) fn vocabulary(&self) -> Arc<Vocabulary> {
        Arc::clone(&self.vocabulary)
    }

    /// The grammars of this model's vocabulary.
    pub fn grammars(&self) -> &Arc<GrammarPool> {
        &self.grammars
    }

    /// The automata of this model's vocabulary, made at the first use.
    ///
    /// # Errors
    /// When the vocabulary lacks tokens that a constraint needs.
    pub(super) fn name_store(&self) -> Result<Arc<NameStore>, RuntimeError> {
        self.tokenizer.check_constrainable()?;
        let make = || {
            let trie = Arc::new(TokenTrie::new(Vocabulary::clone(&self.vocabulary)));
            Arc::new(NameStore::new(trie))
        };
        Ok(Arc::clone(self.names.get_or_init(make)))
    }

    /// The token that asks for names, by its spelling.
    ///
    /// # Errors
    /// When no single token of the vocabulary is spelled like that.
    pub fn trigger_token(&self, text: &str) -> Result<TokenId, RuntimeError> {
        if let Some(id) = self.tokenizer.special_id(text) {
            return Ok(id);
        }
        match self.tokenizer.encode_bytes(text.as_bytes())[..] {
            [id] if self.tokenizer.token_bytes(id) == text.as_bytes() => Ok(id),
            ref ids => Err(RuntimeError::NoTrigger { text: text.to_owned(), n_tokens: ids.len() }),
        }
    }

    /// What ToolGen's published rule needs to know about the model.
    pub(super) fn paper_config(&self, trigger: TokenId, confidence: f64) -> PaperConfig {
        let text = self.tokenizer.special_text(trigger).map(str::to_owned);
        let bytes = self.tokenizer.token_bytes(trigger);
        let tokenizer = Arc::clone(&self.tokenizer);
        PaperConfig {
            vocabulary: Arc::clone(&self.vocabulary),
            trigger,
            trigger_text: text.unwrap_or_else(|| String::from_utf8_lossy(bytes).into_owned()),
            confidence,
            encode: Arc::new(move |text| {
                tokenizer.encode(text, Specials::Parse, AddBos::Never).unwrap_or_default()
            }),
            cache: self.paper_cache.clone(),
        }
    }

    /// The tokens of a prompt.
    ///
    /// # Errors
    /// Text the vocabulary cannot write; a conversation without a chat template.
    pub fn encode(&self, prompt: &Prompt) -> Result<Vec<u32>, RuntimeError> {
        let ids = match prompt {
            Prompt::Text(text) => self.tokenizer.encode(text, Specials::AsText, AddBos::Auto)?,
            Prompt::Rendered(text) => {
                self.tokenizer.encode(text, Specials::Parse, AddBos::Never)?
            }
            Prompt::Chat(messages) => {
                let options = ChatOptions {
                    add_generation_prompt: true,
                    now: SystemTime::now(),
                    variables: BTreeMap::new(),
                };
                let text = self.tokenizer.chat_template()?.render(messages, &options)?;
                self.tokenizer.encode(&text, Specials::Parse, AddBos::Never)?
            }
            Prompt::Tokens(ids) => return Ok(ids.clone()),
        };
        Ok(ids.into_iter().map(|id| id.0).collect())
    }

    /// Write text after a prompt. `on_text` is told new text as soon as it is certain.
    ///
    /// # Errors
    /// Prompts and parameters that cannot run; a lost device.
    pub fn generate(
        &mut self,
        prompt: &Prompt,
        params: SamplingParams,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<Output, RuntimeError> {
        let outputs = self.generate_samples(prompt, params, None, &mut |_, t| on_text(t))?;
        outputs.into_iter().next().ok_or(RuntimeError::Stalled)
    }

    /// As [`Model::generate`], with a restriction on what may be written.
    ///
    /// # Errors
    /// As [`Model::generate`].
    pub fn generate_constrained(
        &mut self,
        prompt: &Prompt,
        params: SamplingParams,
        constraint: Box<dyn Constraint>,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<Output, RuntimeError> {
        let outputs =
            self.generate_samples(prompt, params, Some(constraint), &mut |_, t| on_text(t))?;
        outputs.into_iter().next().ok_or(RuntimeError::Stalled)
    }

    /// Write as many texts after a prompt as the parameters say; `on_text` is told (sample, new text).
    ///
    /// # Errors
    /// As [`Model::generate`].
    pub fn generate_samples(
        &mut self,
        prompt: &Prompt,
        params: SamplingParams,
        constraint: Option<Box<dyn Constraint>>,
        on_text: &mut dyn FnMut(usize, &str),
    ) -> Result<Vec<Output>, RuntimeError> {
        let mut request = Request::new(self.encode(prompt)?, params);
        request.constraint = constraint;
        request.adapter = self.current;
        self.run(vec![Work::plain(request)], None, on_text)
    }

    /// Write text after several prompts at once; outputs in their order.
    ///
    /// # Errors
    /// As [`Model::generate`]; nothing runs then.
    pub fn generate_all(
        &mut self,
        prompts: &[(Prompt, SamplingParams)],
    ) -> Result<Vec<Output>, RuntimeError> {
        let works = prompts
            .iter()
            .map(|(prompt, params)| {
                let mut request = Request::new(self.encode(prompt)?, params.clone());
                request.adapter = self.current;
                Ok(Work::plain(request))
            })
            .collect::<Result<_, RuntimeError>>()?;
        self.run(works, None, &mut |_, _| {})
    }

    pub(super) fn run(
        &mut self,
        works: Vec<Work>,
        tool: Option<&mut (dyn CandidateSource + '_)>,
        on_text: &mut dyn FnMut(usize, &str),
    ) -> Result<Vec<Output>, RuntimeError> {
        drive(&mut self.engine, &self.tokenizer, works, tool, on_text)
    }
}

fn gguf_shape(file: &GgufFile) -> Result<ModelConfig, RuntimeError> {
    let rows = file.tensor("token_embd.weight").and_then(|t| t.shape.first().copied());
    Ok(ModelConfig::from_gguf(file.metadata(), rows.unwrap_or(0))?)
}

/// The shape of a model that is not loaded.
pub(super) fn shape_of(files: &ModelFiles) -> Result<ModelConfig, RuntimeError> {
    match files {
        ModelFiles::Gguf(path) => gguf_shape(&GgufFile::open(path)?),
        ModelFiles::Folder(path) => {
            Ok(ModelConfig::from_hf(&read_json(&path.join("config.json"))?)?)
        }
    }
}

/// A fingerprint that adapters are part of.
fn combined(base: Fingerprint, adapters: &[OpenAdapter]) -> Fingerprint {
    use sha2::Digest;
    let mut hash = sha2::Sha256::new();
    hash.update(base.0);
    adapters.iter().for_each(|a| hash.update(a.key().0));
    Sha256Hex(hash.finalize().into())
}

/// Cuts the rest of a name into tokens; a name that the vocabulary cannot write has none.
fn encoder(tokenizer: &Arc<Tokenizer>) -> Encode {
    let tokenizer = Arc::clone(tokenizer);
    Arc::new(move |bytes| {
        let ids = tokenizer.encode_bytes(bytes);
        let spelled = ids.iter().flat_map(|&id| tokenizer.token_bytes(id));
        if spelled.eq(bytes) { ids } else { Vec::new() }
    })
}

fn threads(config: &LoadConfig) -> NonZeroUsize {
    let cores = || std::thread::available_parallelism().ok();
    config.threads.or_else(cores).unwrap_or(NonZeroUsize::MIN)
}

fn read_json(path: &Path) -> Result<serde_json::Value, RuntimeError> {
    let bad = |problem: String| RuntimeError::BadFile { path: path.to_owned(), problem };
    let text = std::fs::read(path).map_err(|e| bad(format!("cannot be read: {e}")))?;
    serde_json::from_slice(&text).map_err(|e| bad(format!("is not JSON: {e}")))
}
