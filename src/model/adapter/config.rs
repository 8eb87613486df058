//! `adapter_config.json` as peft writes it.
//!
//! # Place
//! Part of `model::adapter`. What would change the arithmetic and is not known is refused by name; fields that
//! only concern training are ignored.

use std::collections::BTreeMap;

use serde_json::Value;

use super::AdapterProblem;
use super::pattern::Pattern;
use crate::base::limit::LOW_RANK_MAX;

/// Variants of LoRA whose field must be absent, null, false or empty.
const VARIANTS: [(&str, &str); 12] = [
    ("use_dora", "DoRA (use_dora)"),
    ("lora_bias", "a bias on the terms (lora_bias)"),
    ("use_qalora", "QALoRA (use_qalora)"),
    ("use_bdlora", "block-diagonal LoRA (use_bdlora)"),
    ("alora_invocation_tokens", "activated LoRA (alora_invocation_tokens)"),
    ("arrow_config", "Arrow routing (arrow_config)"),
    ("kasa_config", "KaSA (kasa_config)"),
    ("monteclora_config", "MonteCLoRA (monteclora_config)"),
    ("velora_config", "VeLoRA (velora_config)"),
    ("layer_replication", "layer replication (layer_replication)"),
    ("target_parameters", "LoRA on bare parameters (target_parameters)"),
    ("megatron_config", "Megatron layers (megatron_config)"),
];

/// Which modules were trained.
#[derive(Clone, Debug)]
pub(super) enum Targets {
    /// Not said: what the file holds.
    Unsaid,
    /// Names, or ends of names after a dot.
    Names(Vec<String>),
    /// Every linear layer but the head.
    AllLinear,
    Pattern(Pattern),
}

/// What `adapter_config.json` says.
#[derive(Clone, Debug)]
pub struct PeftConfig {
    /// The model it was trained on, as the trainer called it.
    pub base: Option<String>,
    pub rank: usize,
    pub alpha: f64,
    pub is_rank_stabilised: bool,
    pub(super) ranks: Vec<(Pattern, usize)>,
    pub(super) alphas: Vec<(Pattern, f64)>,
    pub(super) targets: Targets,
    pub(super) excluded: Targets,
    /// Layers that were trained; `None`: all.
    pub(super) layers: Option<Vec<usize>>,
    /// Modules that were trained whole.
    pub(super) saved: Vec<String>,
    /// Single rows of the embedding (or, under a name, of another table) that were trained.
    pub(super) token_rows: BTreeMap<String, Vec<u32>>,
    /// A tied head follows a whole embedding that was trained.
    pub(super) ties_saved: bool,
}

impl PeftConfig {
    /// Read the parsed JSON.
    ///
    /// # Errors
    /// Names the field, its value, and what was expected; other methods than LoRA by name.
    pub fn new(json: &Value) -> Result<Self, AdapterProblem> {
        if !json.is_object() {
            return Err(bad("the whole file", json, "an object was expected"));
        }
        let kind = json["peft_type"].as_str().ok_or(missing("peft_type"))?;
        if !kind.eq_ignore_ascii_case("lora") {
            return Err(AdapterProblem::Unsupported { what: format!("the method {kind}") });
        }
        for (key, what) in VARIANTS {
            if is_set(&json[key]) {
                return Err(AdapterProblem::Unsupported { what: what.to_owned() });
            }
        }
        match json["bias"].as_str() {
            None if json["bias"].is_null() => {}
            Some("none") => {}
            _ => {
                let what = format!("bias = {}", shown(&json["bias"]));
                return Err(AdapterProblem::Unsupported { what });
            }
        }
        let alpha = match &json["lora_alpha"] {
            Value::Null => return Err(missing("lora_alpha")),
            value => number("lora_alpha", value)?,
        };
        Ok(Self {
            base: json["base_model_name_or_path"].as_str().map(str::to_owned),
            rank: rank("r", json.get("r").ok_or(missing("r"))?)?,
            alpha,
            is_rank_stabilised: json["use_rslora"].as_bool().unwrap_or(false),
            ranks: patterns("rank_pattern", &json["rank_pattern"], |v| rank("rank_pattern", v))?,
            alphas: patterns("alpha_pattern", &json["alpha_pattern"], |v| {
                number("alpha_pattern", v)
            })?,
            targets: targets("target_modules", &json["target_modules"])?,
            excluded: targets("exclude_modules", &json["exclude_modules"])?,
            layers: layers(&json["layers_to_transform"])?,
            saved: names("modules_to_save", &json["modules_to_save"])?,
            token_rows: token_rows(&json["trainable_token_indices"])?,
            ties_saved: json["ensure_weight_tying"].as_bool().unwrap_or(false),
        })
    }

    /// Rank of a module, and the factor on its terms.
    pub(super) fn rank_and_scale(&self, module: &str) -> Result<(usize, f64), AdapterProblem> {
        let rank = first_match(&self.ranks, module)?.unwrap_or(self.rank);
        let alpha = first_match(&self.alphas, module)?.unwrap_or(self.alpha);
        let divisor = match self.is_rank_stabilised {
            true => (rank as f64).sqrt(),
            false => rank as f64,
        };
        Ok((rank, alpha / divisor))
    }

    /// Whether a module of a model is one that was trained. `None` when the file does not say.
    pub(super) fn is_target(
        &self,
        module: &str,
        layer: Option<usize>,
    ) -> Result<Option<bool>, AdapterProblem> {
        let Some(named) = self.targets.contains(module, layer)? else { return Ok(None) };
        let is_in = match (&self.layers, layer) {
            (Some(layers), Some(layer)) => layers.contains(&layer),
            (Some(_), None) => false,
            (None, _) => true,
        };
        let is_out = self.excluded.contains(module, layer)?.unwrap_or(false);
        Ok(Some(named && is_in && !is_out))
    }
}

impl Targets {
    fn contains(&self, module: &str, layer: Option<usize>) -> Result<Option<bool>, AdapterProblem> {
        Ok(Some(match self {
            Self::Unsaid => return Ok(None),
            Self::Names(names) => names.iter().any(|n| is_end_of(module, n)),
            Self::AllLinear => layer.is_some(),
            Self::Pattern(pattern) => pattern.matches(module)?,
        }))
    }
}

/// Whether `name` is `module`, or its end after a dot.
pub(super) fn is_end_of(module: &str, name: &str) -> bool {
    module.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

fn first_match<T: Copy>(
    patterns: &[(Pattern, T)],
    module: &str,
) -> Result<Option<T>, AdapterProblem> {
    for (pattern, value) in patterns {
        if pattern.matches(module)? {
            return Ok(Some(*value));
        }
    }
    Ok(None)
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(items) => !items.is_empty(),
        _ => true,
    }
}

fn missing(key: &'static str) -> AdapterProblem {
    AdapterProblem::MissingKey { key }
}

fn bad(key: &str, value: &Value, expected: &'static str) -> AdapterProblem {
    AdapterProblem::BadValue { key: key.to_owned(), value: shown(value), expected }
}

/// A value for messages, cut when it is long.
fn shown(value: &Value) -> String {
    const CHARS_MAX: usize = 80;
    let text = value.to_string();
    match text.char_indices().nth(CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

fn rank(key: &str, value: &Value) -> Result<usize, AdapterProblem> {
    let rank = value.as_u64().and_then(|n| usize::try_from(n).ok());
    rank.filter(|n| (1..=LOW_RANK_MAX).contains(n))
        .ok_or_else(|| bad(key, value, "a rank of 1 to 1024 was expected"))
}

fn number(key: &str, value: &Value) -> Result<f64, AdapterProblem> {
    let number = value.as_f64().filter(|n| n.is_finite() && n.abs() <= 1e9);
    number.ok_or_else(|| bad(key, value, "a number was expected"))
}

fn patterns<T>(
    key: &'static str,
    value: &Value,
    read: impl Fn(&Value) -> Result<T, AdapterProblem>,
) -> Result<Vec<(Pattern, T)>, AdapterProblem> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Object(entries) => entries
            .iter()
            .map(|(pattern, value)| Ok((Pattern::of_end(key, pattern)?, read(value)?)))
            .collect(),
        other => Err(bad(key, other, "an object of patterns was expected")),
    }
}

fn names(key: &str, value: &Value) -> Result<Vec<String>, AdapterProblem> {
    let bad = || bad(key, value, "a list of names was expected");
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => {
            items.iter().map(|i| i.as_str().map(str::to_owned).ok_or_else(bad)).collect()
        }
        _ => Err(bad()),
    }
}

fn targets(key: &'static str, value: &Value) -> Result<Targets, AdapterProblem> {
    match value {
        Value::Null => Ok(Targets::Unsaid),
        Value::String(text) if text.eq_ignore_ascii_case("all-linear") => Ok(Targets::AllLinear),
        Value::String(text) => Ok(Targets::Pattern(Pattern::of_all(key, text)?)),
        list => Ok(Targets::Names(names(key, list)?)),
    }
}

fn layers(value: &Value) -> Result<Option<Vec<usize>>, AdapterProblem> {
    const KEY: &str = "layers_to_transform";
    let one = |v: &Value| {
        let n = v.as_u64().and_then(|n| usize::try_from(n).ok());
        n.ok_or_else(|| bad(KEY, v, "a layer number was expected"))
    };
    match value {
        Value::Null => Ok(None),
        Value::Array(items) => items.iter().map(one).collect::<Result<_, _>>().map(Some),
        other => Ok(Some(vec![one(other)?])),
    }
}

fn token_rows(value: &Value) -> Result<BTreeMap<String, Vec<u32>>, AdapterProblem> {
    match value {
        Value::Null => Ok(BTreeMap::new()),
        Value::Object(tables) => {
            tables.iter().map(|(name, list)| Ok((name.clone(), token_ids(list)?))).collect()
        }
        list => Ok(BTreeMap::from([("embed_tokens".to_owned(), token_ids(list)?)])),
    }
}

fn token_ids(value: &Value) -> Result<Vec<u32>, AdapterProblem> {
    const KEY: &str = "trainable_token_indices";
    const LIST: &str = "a list of token ids was expected";
    let items = value.as_array().ok_or_else(|| bad(KEY, value, LIST))?;
    let id = |item: &Value| {
        let id = item.as_u64().and_then(|n| u32::try_from(n).ok());
        id.ok_or_else(|| bad(KEY, item, LIST))
    };
    let ids = items.iter().map(id).collect::<Result<Vec<u32>, _>>()?;
    let mut seen = ids.clone();
    seen.sort_unstable();
    seen.dedup();
    match seen.len() == ids.len() {
        true => Ok(ids),
        false => Err(bad(KEY, value, "each id once was expected")),
    }
}
