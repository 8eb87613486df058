//! Adapters beside the weights during a step: which rows have which terms, and the rows of tables that differ.
//!
//! # Place
//! Part of `model`; `decoder` asks it at each of its products.
//! # Invariants
//! - A step without adapters does nothing here, and a row without one is computed as if there were none.
//! - A token that the model itself does not have is impossible for rows whose adapter does not bring it.

use super::adapter::BoundAdapter;
use super::{AdapterId, AdapterRows, ModelConfig, ModelError};
use crate::device::{Backend, BufferId, DeviceError, LowRankId, LowRankRun, VectorId};

/// Whose rows a product has.
#[derive(Clone, Copy)]
pub(super) enum Rows<'a> {
    /// Those of the step.
    All(&'a [AdapterRows]),
    /// Those that need logits.
    Picked,
}

/// The adapters of a decoder, and the scratch of its steps.
#[derive(Debug)]
pub(super) struct Beside {
    adapters: Vec<BoundAdapter>,
    /// Tokens of the model itself; those up to `n_all` are brought by adapters.
    n_base: usize,
    n_all: usize,
    runs: Vec<LowRankRun>,
    picked: Vec<AdapterRows>,
    /// One row of the embedding. `[C]`
    row: Vec<f32>,
    /// Logits of an adapter's own rows of the head. `[R, n]`
    own_logits: Option<BufferId>,
    n_own_max: usize,
    values: Vec<f32>,
    impossible: Vec<f32>,
}

impl Beside {
    pub(super) fn new(config: &ModelConfig, n_logit_rows: usize) -> Self {
        Self {
            adapters: Vec::new(),
            n_base: config.vocab,
            n_all: config.vocab,
            runs: Vec::new(),
            picked: Vec::with_capacity(n_logit_rows),
            row: vec![0.0; config.hidden],
            own_logits: None,
            n_own_max: 0,
            values: Vec::new(),
            impossible: Vec::new(),
        }
    }

    pub(super) fn add(
        &mut self,
        backend: &mut dyn Backend,
        adapter: BoundAdapter,
        (n_rows, n_logit_rows): (usize, usize),
        n_base: usize,
    ) -> Result<AdapterId, ModelError> {
        self.n_base = n_base;
        self.impossible = vec![f32::NEG_INFINITY; self.n_all - n_base];
        let n_own = adapter.head_rows.as_ref().map_or(0, |h| h.ids.len());
        if n_own > self.n_own_max {
            self.own_logits = Some(backend.buffer(n_logit_rows * n_own)?);
            self.n_own_max = n_own;
            self.values = vec![0.0; n_own];
        }
        self.runs.reserve(n_rows);
        self.adapters.push(adapter);
        Ok(AdapterId(self.adapters.len() as u32 - 1))
    }

    /// Whether rows of an adapter (or of none) can read a token.
    pub(super) fn reads(&self, adapter: Option<AdapterId>, id: u32) -> bool {
        (id as usize) < self.n_base || adapter.is_some_and(|a| self.get(a).reads(id))
    }

    pub(super) fn n_adapters(&self) -> usize {
        self.adapters.len()
    }

    fn get(&self, id: AdapterId) -> &BoundAdapter {
        &self.adapters[id.0 as usize]
    }

    /// Put adapters' own rows of the embedding in the place of the model's. x `[T, C]`.
    pub(super) fn embed(
        &mut self,
        backend: &mut dyn Backend,
        ids: &[u32],
        rows: &[AdapterRows],
        x: BufferId,
    ) -> Result<(), DeviceError> {
        for run in rows {
            let adapter = &self.adapters[run.adapter.0 as usize];
            if !adapter.has_embedding() {
                continue;
            }
            for t in run.first_row..run.first_row + run.n_rows {
                if adapter.embedding_row(ids[t], &mut self.row) {
                    backend.write(x, t * self.row.len(), &self.row)?;
                }
            }
        }
        Ok(())
    }

    /// Remember which of the rows that need logits have an adapter.
    pub(super) fn pick(&mut self, logit_rows: &[u32], rows: &[AdapterRows]) {
        self.picked.clear();
        if rows.is_empty() {
            return;
        }
        for (i, &row) in logit_rows.iter().enumerate() {
            let row = row as usize;
            let is_in = |r: &&AdapterRows| (r.first_row..r.first_row + r.n_rows).contains(&row);
            let Some(run) = rows.iter().find(is_in) else { continue };
            match self.picked.last_mut() {
                Some(last) if last.adapter == run.adapter && last.first_row + last.n_rows == i => {
                    last.n_rows += 1;
                }
                _ => self.picked.push(AdapterRows { first_row: i, n_rows: 1, ..*run }),
            }
        }
    }

    /// The terms that rows have in one product.
    pub(super) fn runs(
        &mut self,
        rows: Rows<'_>,
        terms: impl Fn(&BoundAdapter) -> Option<LowRankId>,
    ) -> &[LowRankRun] {
        let rows = match rows {
            Rows::All(rows) => rows,
            Rows::Picked => &self.picked,
        };
        self.runs.clear();
        let adapters = &self.adapters;
        self.runs.extend(rows.iter().filter_map(|run| {
            let terms = terms(&adapters[run.adapter.0 as usize])?;
            Some(LowRankRun { first_row: run.first_row, n_rows: run.n_rows, terms })
        }));
        &self.runs
    }

    /// Put the logits of adapters' own rows of the head in the place of the model's, and make tokens
    /// impossible that a row's adapter does not bring. logits `[R, n_all]`.
    pub(super) fn finish_logits(
        &mut self,
        backend: &mut dyn Backend,
        (picked, norm, eps): (BufferId, VectorId, f32),
        logits: BufferId,
        n_rows: usize,
    ) -> Result<(), DeviceError> {
        if !self.impossible.is_empty() {
            for row in 0..n_rows {
                backend.write(logits, row * self.n_all + self.n_base, &self.impossible)?;
            }
        }
        for (i, adapter) in self.adapters.iter().enumerate() {
            let (Some(head), Some(own)) = (&adapter.head_rows, self.own_logits) else { continue };
            let is_it = |run: &&AdapterRows| run.adapter.0 as usize == i;
            if !self.picked.iter().any(|run| is_it(&run)) {
                continue;
            }
            backend.norm_matmul(picked, norm, eps, head.matrix, None, own, n_rows, &[])?;
            let values = &mut self.values[..head.ids.len()];
            for run in self.picked.iter().filter(is_it) {
                for row in run.first_row..run.first_row + run.n_rows {
                    backend.read(own, row * values.len(), values)?;
                    let mut n_done = 0;
                    for ids in head.ids.chunk_by(|a, b| a + 1 == *b) {
                        let at = row * self.n_all + ids[0] as usize;
                        backend.write(logits, at, &values[n_done..n_done + ids.len()])?;
                        n_done += ids.len();
                    }
                }
            }
        }
        Ok(())
    }
}
