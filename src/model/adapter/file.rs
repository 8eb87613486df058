//! An adapter's tensors, sorted by what they are for.
//!
//! # Place
//! Part of `model::adapter`. Looks at one adapter alone; `fit` compares it with a model.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::config::{Targets, is_end_of};
use super::table::Table;
use super::{AdapterError, AdapterProblem, PeftConfig};
use crate::base::limit;
use crate::device::RopeStyle;
use crate::format::{GgufFile, TensorView, Tensors};
use crate::model::Architecture;
use crate::model::part::{Naming, Part};

/// A weight that terms belong to. Ordered by layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot {
    pub(super) layer: Option<usize>,
    pub(super) part: Part,
}

/// The two tensors of a term.
#[derive(Clone, Debug, Default)]
pub(super) struct Pair {
    pub(super) a: String,
    pub(super) b: String,
    pub(super) rank: usize,
    pub(super) scale: f64,
}

/// A tensor that takes the place of one of the model.
#[derive(Clone, Debug)]
pub(super) struct Replaced {
    pub(super) slot: Slot,
    pub(super) tensor: String,
}

/// What is wrong with a tensor, should anybody ask.
pub(super) type Unknown = (String, String);

/// An adapter that was read. Cheap to clone: tensors stay in their file.
#[derive(Clone)]
pub struct Adapter {
    pub(super) name: String,
    pub(super) tensors: Arc<dyn Tensors>,
    /// How rows of query and key are ordered.
    pub(super) style: RopeStyle,
    pub(super) architecture: Option<String>,
    pub(super) config: Option<PeftConfig>,
    pub(super) pairs: BTreeMap<Slot, Pair>,
    pub(super) embedding: Option<Table>,
    pub(super) head: Option<Table>,
    pub(super) replaced: Vec<Replaced>,
    pub(super) unknown: Vec<Unknown>,
    /// What the user multiplies the terms with.
    pub(super) scale: f32,
}

impl Adapter {
    /// From what peft saves: `adapter_config.json` and the tensors of `adapter_model.safetensors`.
    ///
    /// # Errors
    /// Other methods than LoRA, half pairs, ranks that contradict the configuration.
    pub fn from_peft(
        name: &str,
        json: &serde_json::Value,
        tensors: Arc<dyn Tensors>,
    ) -> Result<Self, AdapterError> {
        let at = at(name);
        let config = PeftConfig::new(json).map_err(at)?;
        let mut adapter = Self::empty(name, tensors, RopeStyle::Halves);
        adapter.sort_peft(&config).map_err(at)?;
        adapter.config = Some(config);
        Ok(adapter)
    }

    /// From a GGUF file of the type `adapter`.
    ///
    /// # Errors
    /// When it is something else, or pairs are incomplete.
    pub fn from_gguf(name: &str, file: Arc<GgufFile>) -> Result<Self, AdapterError> {
        let at = at(name);
        let metadata = file.metadata();
        let text = |key: &'static str| {
            let text = metadata.str(key).ok().flatten();
            text.map(str::to_owned).ok_or(AdapterProblem::MissingMetadata { key })
        };
        let kind = text("general.type").map_err(at)?;
        if kind != "adapter" {
            return Err(at(AdapterProblem::NotAnAdapter { found: kind }));
        }
        let method = text("adapter.type").map_err(at)?;
        if method != "lora" {
            return Err(at(AdapterProblem::Unsupported { what: format!("the method {method}") }));
        }
        let architecture = text("general.architecture").map_err(at)?;
        let alpha = metadata.f32("adapter.lora.alpha").ok().flatten().unwrap_or(0.0);
        let known = Architecture::from_name(&architecture).ok();
        let style = known.map_or(RopeStyle::Halves, Architecture::gguf_rope_style);
        let mut adapter = Self::empty(name, file, style);
        adapter.architecture = Some(architecture);
        adapter.sort_gguf(f64::from(alpha)).map_err(at)?;
        Ok(adapter)
    }

    fn empty(name: &str, tensors: Arc<dyn Tensors>, style: RopeStyle) -> Self {
        Self {
            name: name.to_owned(),
            tensors,
            style,
            architecture: None,
            config: None,
            pairs: BTreeMap::new(),
            embedding: None,
            head: None,
            replaced: Vec::new(),
            unknown: Vec::new(),
            scale: 1.0,
        }
    }

    /// The same adapter, its terms multiplied with `scale`. Trained rows of tables are not scaled.
    ///
    /// # Errors
    /// When it is not a number of a usable size.
    pub fn scaled(mut self, scale: f32) -> Result<Self, AdapterError> {
        if !scale.is_finite() || scale.abs() > 1000.0 {
            return Err(at(&self.name)(AdapterProblem::BadScale { scale }));
        }
        self.scale = scale;
        Ok(self)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// What `adapter_config.json` says, for an adapter that has one.
    pub fn config(&self) -> Option<&PeftConfig> {
        self.config.as_ref()
    }

    /// Ranks of its terms, ascending, each once.
    pub fn ranks(&self) -> Vec<usize> {
        let mut ranks: Vec<usize> = self.pairs.values().map(|p| p.rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// The kinds of modules it changes, as Hugging Face calls them, and in how many layers.
    pub fn modules(&self) -> Vec<(String, usize)> {
        let mut modules: BTreeMap<Part, usize> = BTreeMap::new();
        let tables = [(&self.embedding, Part::Embedding), (&self.head, Part::Head)];
        let tables = tables.into_iter().filter(|(t, _)| t.is_some()).map(|(_, part)| part);
        let parts =
            self.pairs.keys().map(|s| s.part).chain(self.replaced.iter().map(|r| r.slot.part));
        for part in parts.chain(tables) {
            *modules.entry(part).or_default() += 1;
        }
        let last = |part: Part| {
            let stem = part.stem(Naming::HuggingFace);
            stem.rsplit('.').next().unwrap_or(stem).to_owned()
        };
        modules.into_iter().map(|(part, n)| (last(part), n)).collect()
    }

    /// Elements of all its tensors.
    pub fn n_parameters(&self) -> u64 {
        let names = self.tensors.names();
        names.iter().filter_map(|n| self.tensors.tensor(n)).map(|t| t.n_elements() as u64).sum()
    }

    pub(super) fn view(&self, tensor: &str) -> TensorView<'_> {
        self.tensors.tensor(tensor).expect("names were taken from the file")
    }

    fn sort_peft(&mut self, config: &PeftConfig) -> Result<(), AdapterProblem> {
        let tensors = Arc::clone(&self.tensors);
        let names = tensors.names();
        if names.is_empty() {
            return Err(AdapterProblem::Empty);
        }
        for full in names {
            let name = full.strip_prefix("base_model.model.").unwrap_or(full);
            self.sort_peft_tensor(config, full, &name.replace(".default.", "."))?;
        }
        self.check_pairs(|slot| {
            let module = slot.part.module(Naming::HuggingFace, slot.layer);
            config.rank_and_scale(&module)
        })?;
        for (table, module) in [(&self.embedding, "model.embed_tokens"), (&self.head, "lm_head")] {
            let Some(Table { rows: Some(rows), .. }) = table else { continue };
            let view = self.view(&rows.tensor);
            if view.shape.first() != Some(&rows.ids.len()) {
                let expected = format!("one row for each of {} tokens of {module}", rows.ids.len());
                return Err(shape(&rows.tensor, &view, expected));
            }
        }
        Ok(())
    }

    fn sort_peft_tensor(
        &mut self,
        config: &PeftConfig,
        full: &str,
        name: &str,
    ) -> Result<(), AdapterProblem> {
        let unsupported = |what: &str| AdapterProblem::Unsupported { what: what.to_owned() };
        if name.ends_with(".original_module.weight") {
            return Ok(()); // the model's own, saved beside what replaces it
        }
        if name.contains(".lora_magnitude_vector") {
            return Err(unsupported("DoRA (lora_magnitude_vector)"));
        }
        if name.contains(".lora_embedding_") {
            let what = "LoRA on the embedding (train its rows with trainable_token_indices, or save it whole with modules_to_save)";
            return Err(unsupported(what));
        }
        let ends = [
            (".lora_A.weight", Use::A),
            (".lora_B.weight", Use::B),
            (".token_adapter.trainable_tokens_delta", Use::Rows),
            (".token_adapter.base_layer.weight", Use::Base),
            (".base_layer.weight", Use::Base),
            (".modules_to_save.weight", Use::Whole),
            (".weight", Use::Whole),
        ];
        let found = ends.into_iter().find_map(|(end, u)| Some((name.strip_suffix(end)?, u)));
        let Some((module, mut purpose)) = found else {
            self.unknown.push((full.to_owned(), "no tensor of LoRA is called so".to_owned()));
            return Ok(());
        };
        let Some((part, layer)) = Part::find(Naming::HuggingFace, module) else {
            let why = format!("the models that are known have no module '{module}'");
            self.unknown.push((full.to_owned(), why));
            return Ok(());
        };
        let is_table = matches!(part, Part::Embedding | Part::Head);
        let is_saved = config.saved.iter().any(|saved| is_end_of(module, saved));
        if is_table && matches!(purpose, Use::Whole) && !is_saved {
            purpose = Use::Base; // saved because it was resized
        }
        let slot = Slot { layer, part };
        match purpose {
            Use::A => self.pairs.entry(slot).or_default().a = full.to_owned(),
            Use::B => self.pairs.entry(slot).or_default().b = full.to_owned(),
            Use::Rows if is_table => {
                let ids = token_ids(config, module, part);
                self.table(part).rows = Some(super::table::Rows { tensor: full.to_owned(), ids });
            }
            Use::Base | Use::Whole if is_table => {
                let table = self.table(part);
                let is_trained = matches!(purpose, Use::Whole);
                if table.whole.is_none() || (is_trained && name.contains(".modules_to_save.")) {
                    table.whole = Some(super::table::Whole { tensor: full.to_owned(), is_trained });
                }
            }
            Use::Whole => self.replaced.push(Replaced { slot, tensor: full.to_owned() }),
            Use::Base => {} // a copy of the model's own
            Use::Rows => {
                let why = "single rows are trained of tables only".to_owned();
                self.unknown.push((full.to_owned(), why));
            }
        }
        Ok(())
    }

    fn table(&mut self, part: Part) -> &mut Table {
        let table = if part == Part::Embedding { &mut self.embedding } else { &mut self.head };
        table.get_or_insert_default()
    }

    fn sort_gguf(&mut self, alpha: f64) -> Result<(), AdapterProblem> {
        let tensors = Arc::clone(&self.tensors);
        let names = tensors.names();
        if names.is_empty() {
            return Err(AdapterProblem::Empty);
        }
        for name in names {
            let ends = [(".weight.lora_a", Use::A), (".weight.lora_b", Use::B)];
            let found = ends.into_iter().find_map(|(end, u)| Some((name.strip_suffix(end)?, u)));
            let Some((module, purpose)) = found else {
                let why = "only pairs of lora_a and lora_b are supported in GGUF files".to_owned();
                self.unknown.push((name.to_owned(), why));
                continue;
            };
            let known = Part::find(Naming::Gguf, module).filter(|(p, _)| *p != Part::Embedding);
            let Some((part, layer)) = known else {
                let why = format!("terms of '{module}' are not supported");
                self.unknown.push((name.to_owned(), why));
                continue;
            };
            let pair = self.pairs.entry(Slot { layer, part }).or_default();
            match purpose {
                Use::A => pair.a = name.to_owned(),
                _ => pair.b = name.to_owned(),
            }
        }
        // Without an alpha the terms are stored ready.
        let ranks: BTreeMap<Slot, usize> =
            self.pairs.iter().map(|(slot, pair)| (*slot, self.rank_of(pair))).collect();
        self.check_pairs(|slot| {
            let rank = ranks[&slot];
            Ok((rank, if alpha == 0.0 { 1.0 } else { alpha / rank.max(1) as f64 }))
        })
    }

    /// Rows of a pair's `a`; 0 when it has none.
    fn rank_of(&self, pair: &Pair) -> usize {
        let view = self.tensors.tensor(&pair.a);
        view.and_then(|v| v.shape.first().copied()).unwrap_or(0)
    }

    /// Both halves are there, of one rank: the one that `expected` says, with a factor.
    fn check_pairs(
        &mut self,
        expected: impl Fn(Slot) -> Result<(usize, f64), AdapterProblem>,
    ) -> Result<(), AdapterProblem> {
        let mut pairs = std::mem::take(&mut self.pairs);
        for (slot, pair) in &mut pairs {
            let other = |have: &str, from: &str, to: &str| AdapterProblem::HalfPair {
                tensor: have.to_owned(),
                other: have.replace(from, to),
            };
            let (lower, upper) = (pair.a.ends_with("lora_a"), pair.b.ends_with("lora_b"));
            match (pair.a.is_empty(), pair.b.is_empty()) {
                (true, _) if upper => return Err(other(&pair.b, "lora_b", "lora_a")),
                (true, _) => return Err(other(&pair.b, "lora_B", "lora_A")),
                (_, true) if lower => return Err(other(&pair.a, "lora_a", "lora_b")),
                (_, true) => return Err(other(&pair.a, "lora_A", "lora_B")),
                _ => {}
            }
            let (a, b) = (self.view(&pair.a), self.view(&pair.b));
            let [rank, _] = *a.shape else {
                return Err(shape(&pair.a, &a, "two dimensions, [rank, inputs]".to_owned()));
            };
            if rank == 0 || rank > limit::LOW_RANK_MAX {
                let (tensor, max) = (pair.a.clone(), limit::LOW_RANK_MAX);
                return Err(AdapterProblem::BadRank { tensor, rank, max });
            }
            if b.shape.len() != 2 || b.shape[1] != rank {
                return Err(shape(&pair.b, &b, format!("[outputs, {rank}]")));
            }
            let (expected, scale) = expected(*slot)?;
            if rank != expected {
                let tensor = pair.a.clone();
                return Err(AdapterProblem::Rank { tensor, got: rank, expected });
            }
            (pair.rank, pair.scale) = (rank, scale);
        }
        self.pairs = pairs;
        Ok(())
    }

    /// Modules that a list of targets names and no model has.
    pub(super) fn target_names(&self) -> &[String] {
        match self.config.as_ref().map(|c| &c.targets) {
            Some(Targets::Names(names)) => names,
            _ => &[],
        }
    }
}

/// What a tensor is for.
#[derive(Clone, Copy)]
enum Use {
    A,
    B,
    /// Single rows of a table.
    Rows,
    /// The model's own table, saved because it was resized.
    Base,
    /// Takes the place of the model's own.
    Whole,
}

/// The tokens whose rows of a table were trained.
fn token_ids(config: &PeftConfig, module: &str, part: Part) -> Vec<u32> {
    let named = config.token_rows.iter().find(|(name, _)| is_end_of(module, name));
    // A head that is tied to the embedding is trained with it.
    let tied = || config.token_rows.iter().find(|(name, _)| is_end_of("model.embed_tokens", name));
    let found = named.or_else(|| if part == Part::Head { tied() } else { None });
    found.map(|(_, ids)| ids.clone()).unwrap_or_default()
}

pub(super) fn at(name: &str) -> impl Fn(AdapterProblem) -> AdapterError + Copy {
    move |problem| AdapterError { name: name.to_owned(), problem }
}

pub(super) fn shape(tensor: &str, view: &TensorView<'_>, expected: String) -> AdapterProblem {
    AdapterProblem::Shape { tensor: tensor.to_owned(), got: view.shape.to_vec(), expected }
}
