//! The arguments that say which model runs, and on what.
//!
//! # Place
//! Part of `cli`; shared by the verbs that run a model.

use super::adapter_args::AdapterArgs;
use super::bars;
use super::env::Environment;
use super::output::message;
use crate::base::limit;
use crate::device::KvType;
use crate::format::GgufFile;
use crate::runtime::{DeviceChoice, LoadConfig, MemoryPlan, Model, ModelFiles};
use crate::tokenizer::Tokenizer;
use anyhow::Context;
use std::num::NonZeroUsize;

/// Which model, and how it is run.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Model")]
pub(super) struct ModelArgs {
    /// A name from `tether models`, a .gguf file, a Hugging Face folder, or hf:OWNER/NAME.
    #[arg(long, short, value_name = "MODEL", default_value = "smollm2")]
    model: String,
    /// Where the model runs.
    #[arg(long, value_enum, default_value_t = Device::Auto)]
    device: Device,
    /// Threads of the CPU device; one for each core unless given.
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Tokens that the key/value cache holds; as many as the text may need unless given.
    #[arg(long, value_name = "N")]
    kv_tokens: Option<NonZeroUsize>,
    /// The same in blocks of 32 tokens.
    #[arg(long, value_name = "N", conflicts_with = "kv_tokens")]
    kv_blocks: Option<NonZeroUsize>,
    /// How keys and values are stored.
    #[arg(long, value_enum, default_value_t = Kv::F16)]
    kv_type: Kv,
    /// Share of a GPU's free memory that may be used.
    #[arg(long, value_name = "SHARE", default_value_t = 0.9, value_parser = parse_share)]
    gpu_memory_fraction: f32,
    #[command(flatten)]
    adapters: AdapterArgs,
}

fn parse_share(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err("a number above 0 and up to 1 was expected".to_owned()),
    }
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Device {
    /// A GPU where one can be used, else the processor.
    Auto,
    Cuda,
    Cpu,
    /// The CUDA kernels on the processor, for tests; in builds with the feature `emu`.
    Emu,
    /// Plain code in f32 with f64 sums; slow, for comparisons.
    Reference,
}

impl Device {
    pub(super) fn choice(self) -> DeviceChoice {
        match self {
            Self::Auto => DeviceChoice::Auto,
            Self::Cuda => DeviceChoice::Cuda,
            Self::Cpu => DeviceChoice::Cpu,
            Self::Emu => DeviceChoice::Emu,
            Self::Reference => DeviceChoice::Reference,
        }
    }
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Kv {
    /// 16 bits.
    F16,
    /// 16 bits with the range of f32.
    Bf16,
    /// As they were computed; slow on a GPU.
    F32,
    /// Eight bits and a scale for each head of a token: half the memory of f16, and less exact.
    Q8,
}

impl ModelArgs {
    /// Load the model for `n` texts after one prompt, with a cache for a full context of each.
    pub(super) fn load_samples(&self, env: &Environment, n: usize) -> anyhow::Result<Model> {
        let seqs_max = NonZeroUsize::new(n.min(limit::SAMPLES_MAX)).unwrap_or(NonZeroUsize::MIN);
        self.load_seqs(env, None, seqs_max)
    }

    /// Load the model with a cache for `n_tokens`.
    pub(super) fn load_for(&self, env: &Environment, n_tokens: usize) -> anyhow::Result<Model> {
        self.load_seqs(env, Some(n_tokens), NonZeroUsize::MIN)
    }

    /// Load the model for up to `n_seqs` texts at once, with a cache for `n_tokens` in all.
    pub(super) fn load_batch(
        &self,
        env: &Environment,
        n_tokens: usize,
        n_seqs: usize,
    ) -> anyhow::Result<Model> {
        self.load_seqs(env, Some(n_tokens), NonZeroUsize::new(n_seqs).unwrap_or(NonZeroUsize::MIN))
    }

    fn load_seqs(
        &self,
        env: &Environment,
        n_tokens: Option<usize>,
        seqs_max: NonZeroUsize,
    ) -> anyhow::Result<Model> {
        let files = self.files(env)?;
        let config = LoadConfig {
            device: self.device.choice(),
            threads: self.threads,
            kv_type: match self.kv_type {
                Kv::F16 => KvType::F16,
                Kv::Bf16 => KvType::BF16,
                Kv::F32 => KvType::F32,
                Kv::Q8 => KvType::Q8,
            },
            kv_tokens: self.cache_tokens().or(n_tokens),
            seqs_max,
            memory_fraction: self.gpu_memory_fraction,
            home: env.home.clone(),
        };
        let adapters = self.adapters.open(env)?;
        let bar = bars::items(0, "loading");
        let mut on_plan = |plan: &MemoryPlan| message(&plan.to_string());
        let plan = self.adapters.plan(&adapters);
        let model = Model::load_planned(&files, &config, &plan, &mut on_plan, &mut |done, all| {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
        });
        bar.finish_and_clear();
        let mut model = model?;
        self.adapters.apply(&mut model)?;
        if let Some(note) = model.device_note() {
            message(note);
        }
        Ok(model)
    }

    /// The size of the key/value cache that was asked for, in tokens.
    fn cache_tokens(&self) -> Option<usize> {
        let blocks = self.kv_blocks.map(|n| n.get().saturating_mul(limit::KV_BLOCK_TOKENS));
        self.kv_tokens.map(NonZeroUsize::get).or(blocks)
    }

    /// The device, and the threads of the processor.
    pub(super) fn device(&self) -> (DeviceChoice, NonZeroUsize) {
        let cores = || std::thread::available_parallelism().ok();
        (self.device.choice(), self.threads.or_else(cores).unwrap_or(NonZeroUsize::MIN))
    }

    /// Where the model is; a name that was not pulled yet is an error that says how to.
    fn files(&self, env: &Environment) -> anyhow::Result<ModelFiles> {
        Ok(env.store(None)?.resolve(&self.model)?.files)
    }
}

/// The tokenizer of a model that is named as `--model` names it.
pub(super) fn tokenizer_of(model: &str, env: &Environment) -> anyhow::Result<Tokenizer> {
    let files = env.store(None)?.resolve(model)?.files;
    let tokenizer = match &files {
        ModelFiles::Gguf(path) => Tokenizer::from_gguf(GgufFile::open(path)?.metadata()),
        ModelFiles::Folder(path) => Tokenizer::from_folder(path),
    };
    tokenizer.with_context(|| format!("no tokenizer in {}", files.path().display()))
}
