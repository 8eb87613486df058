//! Rows of the embedding and of the head that an adapter brings.
//!
//! # Place
//! Part of `model::adapter`.
//! # Invariants
//! A table that was only saved because it was resized is the model's own for the tokens that the model has: only
//! its rows for new tokens are taken.

use std::collections::BTreeMap;

use super::AdapterProblem;
use super::file::Adapter;
use crate::base::limit;
use crate::device::cpu::quant;

/// A whole table in the file.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    pub(super) tensor: String,
    pub(super) is_trained: bool,
}

/// Single rows in the file, one for each token.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    pub(super) tensor: String,
    pub(super) ids: Vec<u32>,
}

/// What the file has of a table.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) whole: Option<Whole>,
    pub(super) rows: Option<Rows>,
}

/// Where the rows of a table are that differ from the model's.
#[derive(Clone, Debug, Default)]
pub(super) struct TableRows {
    /// Tensor and rows of a table that was trained whole.
    pub(super) whole: Option<(String, usize)>,
    /// Tensor and row for single tokens; they come before the whole.
    pub(super) single: BTreeMap<u32, (String, usize)>,
}

impl TableRows {
    pub(super) fn is_empty(&self) -> bool {
        self.whole.is_none() && self.single.is_empty()
    }

    /// Tokens up to the last one that has a row.
    pub(super) fn n_tokens(&self) -> usize {
        let single = self.single.keys().next_back().map_or(0, |&id| id as usize + 1);
        self.whole.as_ref().map_or(0, |(_, n)| *n).max(single)
    }

    /// Every token with a row, ascending.
    pub(super) fn ids(&self) -> Vec<u32> {
        let n_whole = self.whole.as_ref().map_or(0, |(_, n)| *n as u32);
        let mut ids: Vec<u32> = (0..n_whole).collect();
        ids.extend(self.single.keys().filter(|id| **id >= n_whole));
        ids
    }

    /// Where the row of a token is.
    pub(super) fn find(&self, id: u32) -> Option<(&str, usize)> {
        match (self.single.get(&id), &self.whole) {
            (Some((tensor, row)), _) => Some((tensor, *row)),
            (None, Some((tensor, n))) if (id as usize) < *n => Some((tensor, id as usize)),
            _ => None,
        }
    }
}

impl Adapter {
    /// Rows of the embedding.
    pub(super) fn embedding_rows(&self, n_base: usize) -> Result<TableRows, AdapterProblem> {
        self.embedding.as_ref().map_or(Ok(TableRows::default()), |t| rows_of(self, t, n_base))
    }

    /// Rows of the head: its own, or those of the embedding where the model's head is tied to it.
    pub(super) fn head_rows(
        &self,
        n_base: usize,
        is_tied: bool,
    ) -> Result<TableRows, AdapterProblem> {
        if let Some(table) = &self.head {
            return rows_of(self, table, n_base);
        }
        if !is_tied {
            return Ok(TableRows::default());
        }
        let mut rows = self.embedding_rows(n_base)?;
        let follows = self.config.as_ref().is_some_and(|c| c.ties_saved);
        if let Some((tensor, n)) = rows.whole.take_if(|_| !follows) {
            // The head stays the model's own, with what the embedding has for new tokens.
            for id in n_base..n {
                rows.single.entry(id as u32).or_insert_with(|| (tensor.clone(), id));
            }
        }
        Ok(rows)
    }

    /// Read the row of a token as f32; `false` when there is none.
    pub(super) fn read_row(&self, rows: &TableRows, id: u32, out: &mut [f32]) -> bool {
        let Some((tensor, row)) = rows.find(id) else { return false };
        let view = self.view(tensor);
        let n_bytes = view.data.len() / view.shape[0].max(1);
        quant::dequantise_row(view.dtype, &view.data[row * n_bytes..][..n_bytes], out);
        true
    }

    /// Every element of a tensor as f32.
    ///
    /// # Errors
    /// NaN and infinities, by name.
    pub(super) fn floats(&self, tensor: &str) -> Result<Vec<f32>, AdapterProblem> {
        let view = self.view(tensor);
        let mut values = vec![0.0; view.n_elements()];
        let n_cols = view.shape.last().copied().unwrap_or(1).max(1);
        if !values.is_empty() {
            let n_bytes = view.data.len() / (values.len() / n_cols);
            for (row, out) in view.data.chunks(n_bytes).zip(values.chunks_mut(n_cols)) {
                quant::dequantise_row(view.dtype, row, out);
            }
        }
        match values.iter().position(|v| !v.is_finite()) {
            Some(at) => {
                let (tensor, value) = (tensor.to_owned(), values[at]);
                Err(AdapterProblem::NotFinite { tensor, value, at })
            }
            None => Ok(values),
        }
    }

    /// Every row that a table would give is made of numbers.
    pub(super) fn check_rows(&self, rows: &TableRows) -> Result<(), AdapterProblem> {
        let mut tensors: Vec<&str> = rows.single.values().map(|(t, _)| t.as_str()).collect();
        tensors.extend(rows.whole.iter().map(|(t, _)| t.as_str()));
        tensors.sort_unstable();
        tensors.dedup();
        tensors.into_iter().try_for_each(|t| self.floats(t).map(|_| ()))
    }
}

fn rows_of(adapter: &Adapter, table: &Table, n_base: usize) -> Result<TableRows, AdapterProblem> {
    let mut found = TableRows::default();
    if let Some(Whole { tensor, is_trained }) = &table.whole {
        let n = adapter.view(tensor).shape.first().copied().unwrap_or(0);
        if n > limit::VOCAB_TOKENS_MAX {
            let (token, max) = (n as u32, limit::VOCAB_TOKENS_MAX);
            return Err(AdapterProblem::TokenTooLarge { token, max });
        }
        if *is_trained {
            found.whole = Some((tensor.clone(), n));
        } else {
            let new = n_base..n;
            found.single.extend(new.map(|id| (id as u32, (tensor.clone(), id))));
        }
    }
    if let Some(Rows { tensor, ids }) = &table.rows {
        for (row, &id) in ids.iter().enumerate() {
            if id as usize >= limit::VOCAB_TOKENS_MAX {
                return Err(AdapterProblem::TokenTooLarge {
                    token: id,
                    max: limit::VOCAB_TOKENS_MAX,
                });
            }
            found.single.insert(id, (tensor.clone(), row));
        }
    }
    Ok(found)
}
