//! Whether an adapter belongs to a model: every tensor has its place there, and none is missing.
//!
//! # Place
//! Part of `model::adapter`.

use std::collections::BTreeSet;

use super::config::is_end_of;
use super::file::{Adapter, Slot, at};
use super::table::Table;
use super::{AdapterError, AdapterProblem};
use crate::model::ModelConfig;
use crate::model::part::{Naming, Part};

/// Outputs and inputs of a part that is a product.
pub(super) fn sides(config: &ModelConfig, part: Part) -> Option<(usize, usize)> {
    let ModelConfig { hidden, n_heads, n_kv_heads, head_dim, ff, vocab, .. } = *config;
    match part {
        Part::Query => Some((n_heads * head_dim, hidden)),
        Part::Key | Part::Value => Some((n_kv_heads * head_dim, hidden)),
        Part::Output => Some((hidden, n_heads * head_dim)),
        Part::Gate | Part::Up => Some((ff, hidden)),
        Part::Down => Some((hidden, ff)),
        Part::Head => Some((vocab, hidden)),
        _ => None,
    }
}

/// Elements of a part that is a vector.
fn length(config: &ModelConfig, part: Part) -> Option<usize> {
    match part {
        Part::AttentionNorm | Part::FeedForwardNorm | Part::OutputNorm => Some(config.hidden),
        Part::QueryNorm | Part::KeyNorm => Some(config.head_dim),
        _ => None,
    }
}

impl Adapter {
    /// That every tensor has its place in a model of this shape, and every module that was trained is there.
    /// Returns the number of tensors.
    ///
    /// # Errors
    /// With the count of those that fit, and the first that does not.
    pub fn check_fits(&self, config: &ModelConfig) -> Result<usize, AdapterError> {
        let at = at(&self.name);
        if let Some(adapter) = &self.architecture
            && adapter != config.architecture.name()
        {
            let (adapter, model) = (adapter.clone(), config.architecture.name());
            return Err(at(AdapterProblem::OtherArchitecture { adapter, model }));
        }
        let known = |part: Part| part.stem(Naming::HuggingFace);
        let parts = || Part::PRODUCTS.into_iter().chain([Part::Head, Part::Embedding]);
        for module in self.target_names() {
            let example =
                |part: Part| part.module(Naming::HuggingFace, part.is_of_layer().then_some(0));
            let last = module.rsplit('.').next().unwrap_or(module);
            if !parts().any(|part| is_end_of(&example(part), last)) {
                let known: Vec<&str> =
                    parts().map(|p| known(p).rsplit('.').next().unwrap_or_default()).collect();
                let (module, known) = (module.clone(), known.join(", "));
                return Err(at(AdapterProblem::UnknownModule { module, known }));
            }
        }
        let total = self.tensors.names().len();
        let mut wrong = self.unknown.clone();
        for (slot, pair) in &self.pairs {
            wrong.extend(self.wrong_pair(config, *slot, [&pair.a, &pair.b]));
        }
        for replaced in &self.replaced {
            let expected =
                match (sides(config, replaced.slot.part), length(config, replaced.slot.part)) {
                    (Some((rows, cols)), _) => vec![rows, cols],
                    (None, Some(n)) => vec![n],
                    (None, None) => Vec::new(),
                };
            wrong.extend(self.wrong_layer(config, replaced.slot, &replaced.tensor));
            let got = self.view(&replaced.tensor).shape;
            if got != expected {
                wrong.push((replaced.tensor.clone(), shapes(got, &expected)));
            }
        }
        for table in [&self.embedding, &self.head].into_iter().flatten() {
            wrong.extend(self.wrong_table(config, table));
        }
        let bad: BTreeSet<&str> = wrong.iter().map(|(tensor, _)| tensor.as_str()).collect();
        if !bad.is_empty() {
            let names = self.tensors.names();
            let first = names.into_iter().find(|n| bad.contains(n)).unwrap_or_default().to_owned();
            let why = wrong.iter().find(|(t, _)| *t == first).map(|(_, why)| why.clone());
            return Err(at(AdapterProblem::DoesNotFit {
                matched: total - bad.len(),
                total,
                tensor: first,
                why: why.unwrap_or_default(),
            }));
        }
        self.check_complete(config).map_err(at)?;
        Ok(total)
    }

    fn wrong_layer(
        &self,
        config: &ModelConfig,
        slot: Slot,
        tensor: &str,
    ) -> Option<(String, String)> {
        let layer = slot.layer.filter(|&layer| layer >= config.n_layers)?;
        let why = format!("the model has {} layers, none is number {layer}", config.n_layers);
        Some((tensor.to_owned(), why))
    }

    fn wrong_pair(
        &self,
        config: &ModelConfig,
        slot: Slot,
        [a, b]: [&str; 2],
    ) -> Vec<(String, String)> {
        let mut wrong: Vec<_> =
            [a, b].into_iter().filter_map(|t| self.wrong_layer(config, slot, t)).collect();
        let Some((rows, cols)) = sides(config, slot.part) else {
            let why = "terms of this module are not supported".to_owned();
            return [a, b].map(|t| (t.to_owned(), why.clone())).to_vec();
        };
        let (got_a, got_b) = (self.view(a).shape, self.view(b).shape);
        if got_a[1] != cols {
            wrong.push((a.to_owned(), shapes(got_a, &[got_a[0], cols])));
        }
        if got_b[0] != rows {
            wrong.push((b.to_owned(), shapes(got_b, &[rows, got_b[1]])));
        }
        wrong
    }

    fn wrong_table(&self, config: &ModelConfig, table: &Table) -> Vec<(String, String)> {
        let mut wrong = Vec::new();
        let tensors = (table.whole.iter().map(|w| (&w.tensor, true)))
            .chain(table.rows.iter().map(|r| (&r.tensor, false)));
        for (tensor, is_whole) in tensors {
            let got = self.view(tensor).shape;
            match *got {
                [n, cols] if cols == config.hidden && (!is_whole || n >= config.vocab) => {}
                [n, _] => {
                    let rows = if is_whole { config.vocab.max(n) } else { n };
                    wrong.push((tensor.clone(), shapes(got, &[rows, config.hidden])));
                }
                _ => wrong.push((tensor.clone(), shapes(got, &[config.vocab, config.hidden]))),
            }
        }
        wrong
    }

    /// Every module that the configuration says was trained has its terms.
    fn check_complete(&self, config: &ModelConfig) -> Result<(), AdapterProblem> {
        let Some(peft) = &self.config else { return Ok(()) };
        let layers = (0..config.n_layers)
            .flat_map(|layer| Part::PRODUCTS.map(|part| Slot { layer: Some(layer), part }));
        let (mut expected, mut found, mut first) = (0, 0, None);
        for slot in layers.chain([Slot { layer: None, part: Part::Head }]) {
            let module = slot.part.module(Naming::HuggingFace, slot.layer);
            if peft.is_target(&module, slot.layer)? != Some(true) {
                continue;
            }
            expected += 1;
            if self.pairs.contains_key(&slot) {
                found += 1;
            } else {
                first.get_or_insert(module);
            }
        }
        match first {
            Some(module) => Err(AdapterProblem::Incomplete { expected, found, module }),
            None => Ok(()),
        }
    }
}

fn shapes(got: &[usize], expected: &[usize]) -> String {
    format!("it has shape {got:?}, expected shape {expected:?}")
}
