//! An adapter beside a model on a device, for the requests that name it.
//!
//! # Place
//! Part of `model::adapter`; `decoder` adds what is made here to its products.

use super::file::{Adapter, Slot, at};
use super::table::TableRows;
use super::{AdapterError, AdapterProblem};
use crate::device::{
    Backend, DeviceError, LowRankId, LowRankSource, MatrixId, MatrixSource, RopeStyle, Stacking,
};
use crate::model::part::Part;
use crate::model::weights::Weights;
use crate::model::{ModelConfig, ModelError};

/// A pair as numbers: what it adds is `b (a x)`.
pub(super) struct Term {
    pub(super) rank: usize,
    pub(super) a: Vec<f32>, // [r, K]
    pub(super) b: Vec<f32>, // [R, r], the scale in it
}

impl Adapter {
    /// The pair of a weight, its outputs in the order of a model whose heads rotate in `config`'s style.
    pub(super) fn term(
        &self,
        slot: Slot,
        config: &ModelConfig,
    ) -> Result<Option<Term>, AdapterProblem> {
        let Some(pair) = self.pairs.get(&slot) else { return Ok(None) };
        let (a, mut b) = (self.floats(&pair.a)?, self.floats(&pair.b)?);
        let scale = pair.scale * f64::from(self.scale);
        for v in &mut b {
            *v = (f64::from(*v) * scale) as f32;
        }
        if matches!(slot.part, Part::Query | Part::Key) && self.style != config.rope.style {
            b = reordered(&b, config.head_dim, pair.rank, config.rope.style);
        }
        Ok(Some(Term { rank: pair.rank, a, b }))
    }
}

/// Rows of `width` elements, those of each head in the order of a style, taken from the other one.
fn reordered(rows: &[f32], head_dim: usize, width: usize, to: RopeStyle) -> Vec<f32> {
    let half = head_dim / 2;
    let mut out = Vec::with_capacity(rows.len());
    for head in rows.chunks(head_dim * width) {
        for i in 0..head_dim {
            let from = match to {
                // Neighbours (2j, 2j + 1) are j of the first half and j of the second.
                RopeStyle::Interleaved => i % 2 * half + i / 2,
                RopeStyle::Halves => i % half * 2 + i / half,
            };
            out.extend(&head[from * width..][..width]);
        }
    }
    out
}

/// Terms of one layer's products.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::model) struct LayerTerms {
    pub(in crate::model) qkv: Option<LowRankId>,
    pub(in crate::model) output: Option<LowRankId>,
    pub(in crate::model) gate_up: Option<LowRankId>,
    pub(in crate::model) down: Option<LowRankId>,
}

/// Rows of the head that an adapter has of its own.
#[derive(Debug)]
pub(in crate::model) struct HeadRows {
    pub(in crate::model) matrix: MatrixId, // [n, C]
    /// Token of each row, ascending. `[n]`
    pub(in crate::model) ids: Vec<u32>,
}

/// An adapter on the device.
pub(in crate::model) struct BoundAdapter {
    pub(in crate::model) layers: Vec<LayerTerms>,
    pub(in crate::model) head: Option<LowRankId>,
    pub(in crate::model) head_rows: Option<HeadRows>,
    adapter: Adapter,
    embedding: TableRows,
}

impl std::fmt::Debug for BoundAdapter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BoundAdapter").field("name", &self.adapter.name).finish_non_exhaustive()
    }
}

impl BoundAdapter {
    /// Put an adapter that fits beside the weights. `n_base`: tokens of the model itself.
    pub(in crate::model) fn new(
        adapter: &Adapter,
        config: &ModelConfig,
        weights: &Weights,
        n_base: usize,
        backend: &mut dyn Backend,
    ) -> Result<Self, ModelError> {
        let at = at(&adapter.name);
        if let Some(replaced) = adapter.replaced.first() {
            let module = replaced.tensor.clone();
            return Err(at(AdapterProblem::NeedsMerge { module }).into());
        }
        let mut bind = |w: MatrixId, layer: Option<usize>, parts: &[Part]| {
            let terms = (parts.iter())
                .map(|&part| adapter.term(Slot { layer, part }, config).map_err(at))
                .collect::<Result<Vec<_>, AdapterError>>()?;
            Ok::<_, ModelError>(low_rank(backend, w, &terms)?)
        };
        let mut layers = Vec::with_capacity(weights.layers.len());
        for (i, layer) in weights.layers.iter().enumerate() {
            layers.push(LayerTerms {
                qkv: bind(layer.qkv, Some(i), &[Part::Query, Part::Key, Part::Value])?,
                output: bind(layer.output, Some(i), &[Part::Output])?,
                gate_up: bind(layer.gate_up, Some(i), &[Part::Gate, Part::Up])?,
                down: bind(layer.down, Some(i), &[Part::Down])?,
            });
        }
        let head = match config.vocab == n_base {
            true => bind(weights.head, None, &[Part::Head])?,
            false => {
                let mut term =
                    adapter.term(Slot { layer: None, part: Part::Head }, config).map_err(at)?;
                if let Some(term) = &mut term {
                    term.b.resize(config.vocab * term.rank, 0.0); // nothing for the new tokens
                }
                low_rank(backend, weights.head, &[term])?
            }
        };
        let embedding = adapter.embedding_rows(n_base).map_err(at)?;
        adapter.check_rows(&embedding).map_err(at)?;
        let rows = adapter.head_rows(n_base, weights.head == weights.embedding).map_err(at)?;
        let head_rows = Self::head_rows(adapter, &rows, config, backend)?;
        Ok(Self { layers, head, head_rows, adapter: adapter.clone(), embedding })
    }

    fn head_rows(
        adapter: &Adapter,
        rows: &TableRows,
        config: &ModelConfig,
        backend: &mut dyn Backend,
    ) -> Result<Option<HeadRows>, ModelError> {
        if rows.is_empty() {
            return Ok(None);
        }
        adapter.check_rows(rows).map_err(at(&adapter.name))?;
        let ids = rows.ids();
        let cols = config.hidden;
        let matrix = match &rows.whole {
            Some((tensor, n)) if rows.single.is_empty() => {
                let view = adapter.view(tensor);
                let source = MatrixSource { dtype: view.dtype, rows: *n, cols, data: view.data };
                backend.matrix(&[source], Stacking::Rows)?
            }
            _ => {
                let mut values = vec![0.0; ids.len() * cols];
                for (&id, out) in ids.iter().zip(values.chunks_mut(cols)) {
                    adapter.read_row(rows, id, out);
                }
                let (dtype, data) = (crate::base::DType::F32, bytemuck::cast_slice(&values));
                let source = MatrixSource { dtype, rows: ids.len(), cols, data };
                backend.matrix(&[source], Stacking::Rows)?
            }
        };
        Ok(Some(HeadRows { matrix, ids }))
    }

    /// Whether some tokens have another row of the embedding.
    pub(in crate::model) fn has_embedding(&self) -> bool {
        !self.embedding.is_empty()
    }

    /// Its own row of the embedding for a token; `false` when that is the model's.
    pub(in crate::model) fn embedding_row(&self, id: u32, out: &mut [f32]) -> bool {
        self.adapter.read_row(&self.embedding, id, out)
    }

    /// Whether it can read a token that the model itself does not have.
    pub(in crate::model) fn reads(&self, id: u32) -> bool {
        self.embedding.find(id).is_some()
    }
}

fn low_rank(
    backend: &mut dyn Backend,
    w: MatrixId,
    terms: &[Option<Term>],
) -> Result<Option<LowRankId>, DeviceError> {
    if terms.iter().all(Option::is_none) {
        return Ok(None);
    }
    let parts: Vec<Option<LowRankSource<'_>>> = (terms.iter())
        .map(|t| t.as_ref().map(|Term { rank, a, b }| LowRankSource { rank: *rank, a, b }))
        .collect();
    backend.low_rank(w, &parts).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reordering_rows_there_and_back_changes_nothing() {
        let rows: Vec<f32> = (0..3 * 8 * 2).map(|v| v as f32).collect();
        let there = reordered(&rows, 8, 2, RopeStyle::Interleaved);
        // The second row of the first head is the first of its second half: row 4.
        assert_eq!(there[2..4], [8.0, 9.0]);
        assert_eq!(reordered(&there, 8, 2, RopeStyle::Halves), rows);
    }
}
