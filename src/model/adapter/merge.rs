//! A model's tensors with adapters merged into them, and with rows for new tokens.
//!
//! # Place
//! Part of `model::adapter`. What is made here is loaded like any file.
//! # Invariants
//! `W + scale · b a` is computed in f32 and stored as F32 where the weight was F32, else as F16 (F32 when a value
//! does not fit), so merging costs a rounding of at most 2⁻¹¹ of each weight. Weights that no adapter changes keep
//! their type. Rows of new tokens that no merged adapter has are zeros.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use half::f16;

use super::bind::Term;
use super::file::{Adapter, Slot, at};
use super::table::TableRows;
use super::{AdapterError, AdapterProblem};
use crate::base::DType;
use crate::device::cpu::quant;
use crate::format::{TensorView, Tensors};
use crate::model::part::{Naming, Part};
use crate::model::{ModelConfig, ModelError};

/// A tensor of our own.
struct Own {
    dtype: DType,
    shape: Vec<usize>,
    data: Vec<u8>,
}

/// Tensors of a model, some of them changed.
pub struct Merged<'a> {
    base: &'a dyn Tensors,
    changed: BTreeMap<String, Own>,
}

impl Tensors for Merged<'_> {
    fn tensor(&self, name: &str) -> Option<TensorView<'_>> {
        match self.changed.get(name) {
            Some(own) => Some(TensorView { dtype: own.dtype, shape: &own.shape, data: &own.data }),
            None => self.base.tensor(name),
        }
    }

    fn names(&self) -> Vec<&str> {
        let mut names = self.base.names();
        let is_new = |n: &&str| self.base.tensor(n).is_none();
        names.extend(self.changed.keys().map(String::as_str).filter(is_new));
        names
    }

    fn forget(&self, name: &str) {
        self.base.forget(name);
    }
}

/// Tokens that a model comes to have: its own, and those that adapters add.
///
/// # Errors
/// When an adapter trains a token that no vocabulary can have.
pub(in crate::model) fn n_tokens(
    config: &ModelConfig,
    adapters: &[&Adapter],
) -> Result<usize, AdapterError> {
    let mut n = config.vocab;
    for adapter in adapters {
        let rows = adapter.embedding_rows(config.vocab).map_err(at(&adapter.name))?;
        let head = adapter.head_rows(config.vocab, true).map_err(at(&adapter.name))?;
        n = n.max(rows.n_tokens()).max(head.n_tokens());
    }
    Ok(n)
}

impl<'a> Merged<'a> {
    /// `base` with `merged` in its weights and rows for the tokens that `merged` and `beside` add. The
    /// configuration is that of the result.
    ///
    /// # Errors
    /// Adapters that do not fit; values that are not numbers.
    pub fn new(
        base: &'a dyn Tensors,
        config: &ModelConfig,
        merged: &[&Adapter],
        beside: &[&Adapter],
    ) -> Result<(Self, ModelConfig), ModelError> {
        let mut all = merged.to_vec();
        all.extend(beside);
        for adapter in &all {
            adapter.check_fits(config)?;
        }
        let mut result = config.clone();
        result.vocab = n_tokens(config, &all)?;
        let mut made = Self { base, changed: BTreeMap::new() };
        let naming = Naming::of(base);
        let slots: std::collections::BTreeSet<Slot> =
            merged.iter().flat_map(|a| a.pairs.keys().copied()).collect();
        for slot in slots.into_iter().filter(|s| s.part != Part::Head) {
            let name = slot.part.name(naming, slot.layer, "weight");
            let mut weight = made.read(&name)?;
            made.add_terms(slot, config, merged, &mut weight)?;
            made.store(name, weight);
        }
        for adapter in merged {
            for replaced in &adapter.replaced {
                let name = replaced.slot.part.name(naming, replaced.slot.layer, "weight");
                let values = adapter.floats(&replaced.tensor).map_err(at(&adapter.name))?;
                let shape = adapter.view(&replaced.tensor).shape.to_vec();
                made.store(name, Weight { values, shape, is_f32: true });
            }
        }
        made.tables(naming, config, &mut result, merged)?;
        Ok((made, result))
    }

    /// Embedding and head.
    fn tables(
        &mut self,
        naming: Naming,
        config: &ModelConfig,
        result: &mut ModelConfig,
        merged: &[&Adapter],
    ) -> Result<(), ModelError> {
        let (n_base, n_all) = (config.vocab, result.vocab);
        let embedding = Part::Embedding.name(naming, None, "weight");
        let head = Part::Head.name(naming, None, "weight");
        let is_tied = config.tied_head || self.base.tensor(&head).is_none();
        let slot = Slot { layer: None, part: Part::Head };
        let mut has_own_head = !is_tied;
        let mut rows = Vec::new();
        for adapter in merged {
            let at = at(&adapter.name);
            let of_embedding = adapter.embedding_rows(n_base).map_err(at)?;
            let of_head = adapter.head_rows(n_base, is_tied).map_err(at)?;
            has_own_head |= adapter.pairs.contains_key(&slot)
                || adapter.head.is_some()
                || of_embedding.whole.is_some() != of_head.whole.is_some();
            rows.push((*adapter, of_embedding, of_head));
        }
        let of_embedding = rows.iter().map(|(a, e, _)| (*a, e));
        let grown = self.table(&embedding, n_all, of_embedding, None)?;
        let mut own_head = None;
        if has_own_head {
            let from = if is_tied { &embedding } else { &head };
            let terms = merged.iter().any(|a| a.pairs.contains_key(&slot));
            let terms = terms.then_some((slot, config, merged));
            own_head = self.table(from, n_all, rows.iter().map(|(a, _, h)| (*a, h)), terms)?;
            if own_head.is_none() && is_tied {
                own_head = Some(self.copy(&embedding)?);
            }
            result.tied_head = false;
        }
        self.changed.extend(grown.map(|own| (embedding, own)));
        self.changed.extend(own_head.map(|own| (head, own)));
        Ok(())
    }

    /// A table with rows of adapters in it and `n_all` rows; `None` when it stays as it is.
    fn table<'r>(
        &self,
        name: &str,
        n_all: usize,
        rows: impl Iterator<Item = (&'r Adapter, &'r TableRows)>,
        terms: Option<(Slot, &ModelConfig, &[&Adapter])>,
    ) -> Result<Option<Own>, ModelError> {
        let rows: Vec<_> = rows.filter(|(_, rows)| !rows.is_empty()).collect();
        if rows.is_empty() && terms.is_none() {
            let view = self.view(name)?;
            if view.shape[0] == n_all {
                return Ok(None);
            }
            let mut own = self.copy(name)?;
            // Blocks of zeros have a scale of zero, whatever the type.
            let n_bytes = own.data.len() / own.shape[0] * n_all;
            own.data.resize(n_bytes, 0);
            own.shape[0] = n_all;
            return Ok(Some(own));
        }
        let mut weight = self.read(name)?;
        if let Some((slot, config, merged)) = terms {
            self.add_terms(slot, config, merged, &mut weight)?;
        }
        let n_cols = weight.shape[1];
        weight.values.resize(n_all * n_cols, 0.0);
        weight.shape[0] = n_all;
        for (adapter, rows) in rows {
            adapter.check_rows(rows).map_err(at(&adapter.name))?;
            for id in rows.ids() {
                adapter.read_row(rows, id, &mut weight.values[id as usize * n_cols..][..n_cols]);
            }
        }
        Ok(Some(weight.stored()))
    }

    fn view(&self, name: &str) -> Result<TensorView<'_>, ModelError> {
        let view = self.tensor(name).filter(|v| v.shape.len() == 2 && v.shape[0] > 0);
        view.ok_or_else(|| ModelError::MissingTensors { names: vec![name.to_owned()] })
    }

    fn copy(&self, name: &str) -> Result<Own, ModelError> {
        let view = self.view(name)?;
        Ok(Own { dtype: view.dtype, shape: view.shape.to_vec(), data: view.data.to_vec() })
    }

    fn read(&self, name: &str) -> Result<Weight, ModelError> {
        let view = self.view(name)?;
        let mut values = vec![0.0; view.n_elements()];
        let n_bytes = view.data.len() / view.shape[0];
        for (row, out) in view.data.chunks(n_bytes.max(1)).zip(values.chunks_mut(view.shape[1])) {
            quant::dequantise_row(view.dtype, row, out);
        }
        Ok(Weight { values, shape: view.shape.to_vec(), is_f32: view.dtype == DType::F32 })
    }

    fn add_terms(
        &self,
        slot: Slot,
        config: &ModelConfig,
        merged: &[&Adapter],
        weight: &mut Weight,
    ) -> Result<(), ModelError> {
        for adapter in merged {
            let at = at(&adapter.name);
            let Some(term) = adapter.term(slot, config).map_err(at)? else { continue };
            if term.a.len() * weight.shape[0] != weight.values.len() * term.rank {
                let tensor = adapter.pairs[&slot].a.clone();
                let why = format!("the weight has shape {:?}", weight.shape);
                return Err(
                    at(AdapterProblem::DoesNotFit { matched: 0, total: 0, tensor, why }).into()
                );
            }
            weight.add(&term);
        }
        Ok(())
    }

    fn store(&mut self, name: String, weight: Weight) {
        self.base.forget(&name);
        self.changed.insert(name, weight.stored());
    }
}

/// A weight as numbers.
struct Weight {
    values: Vec<f32>, // [R, K]
    shape: Vec<usize>,
    /// The file had 32 bits.
    is_f32: bool,
}

impl Weight {
    /// `+= b a`, rows divided among threads; each element is one sum over the ranks.
    fn add(&mut self, term: &Term) {
        let n_cols = self.shape[1];
        let n_threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let n_rows = self.shape[0].div_ceil(n_threads).max(1);
        let parts = self.values.chunks_mut(n_rows * n_cols).zip(term.b.chunks(n_rows * term.rank));
        std::thread::scope(|scope| {
            for (rows, b) in parts {
                scope.spawn(move || {
                    for (row, b) in rows.chunks_mut(n_cols).zip(b.chunks(term.rank)) {
                        for (&b, a) in b.iter().zip(term.a.chunks(n_cols)) {
                            row.iter_mut().zip(a).for_each(|(w, a)| *w += b * a);
                        }
                    }
                });
            }
        });
    }

    fn stored(self) -> Own {
        let fits = |v: &f32| v.abs() <= f16::MAX.to_f32();
        let (dtype, data) = if !self.is_f32 && self.values.iter().all(fits) {
            let bits = |v: &f32| f16::from_f32(*v).to_le_bytes();
            (DType::F16, self.values.iter().flat_map(bits).collect())
        } else {
            (DType::F32, self.values.iter().flat_map(|v| v.to_le_bytes()).collect())
        };
        Own { dtype, shape: self.shape, data }
    }
}
