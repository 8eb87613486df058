//! The plain implementation of every operation: f32 data, f64 sums, no blocking, no threads.
//!
//! # Place
//! Implements `device::Backend`. Everything faster is tested against it. Weights are dequantised to
//! f32 while loading; one file per operation.

mod attention;
mod gated;
mod low_rank;
mod matmul;
mod norm;
mod rope;
mod select;

use half::{bf16, f16};

use super::quant;
use crate::device::{
    Activation, Attention, Backend, BufferId, DeviceError, KvId, KvShape, KvType, LowRankId,
    LowRankRun, LowRankSource, MatrixId, MatrixSource, RopeStore, Stacking, StepRows, VectorId,
};

/// A dequantised matrix.
struct Matrix {
    rows: usize,
    cols: usize,
    values: Vec<f32>, // [rows, cols]
    /// Rows of each part it was made of.
    part_rows: Vec<usize>,
}

/// Keys and values as f32, rounded to the cache's type when they are stored.
struct KvStore {
    shape: KvShape,
    keys: Vec<f32>,   // [L, n_blocks · block_tokens, Hk, D]
    values: Vec<f32>, // [L, n_blocks · block_tokens, Hk, D]
}

impl KvStore {
    fn n_slots(&self) -> usize {
        self.shape.n_blocks * self.shape.block_tokens
    }

    /// Where the `Hk · D` elements of a token begin.
    fn at(&self, layer: usize, slot: usize) -> usize {
        assert!(slot < self.n_slots() && layer < self.shape.n_layers);
        (layer * self.n_slots() + slot) * self.shape.n_kv_heads * self.shape.head_dim
    }

    /// Put a token's heads into one of the arrays, as the store's type keeps them.
    fn put(to: &mut [f32], from: &[f32], shape: &KvShape) {
        to.copy_from_slice(from);
        match shape.dtype {
            KvType::F32 => {}
            KvType::F16 => to.iter_mut().for_each(|x| *x = f16::from_f32(*x).to_f32()),
            KvType::BF16 => to.iter_mut().for_each(|x| *x = bf16::from_f32(*x).to_f32()),
            KvType::Q8 => {
                let mut codes = vec![0; shape.head_dim];
                for head in to.chunks_mut(shape.head_dim) {
                    let scale = quant::quantise_head(head, &mut codes);
                    let values = codes.iter().map(|&code| f32::from(code) * scale);
                    head.iter_mut().zip(values).for_each(|(x, value)| *x = value);
                }
            }
        }
    }

    fn copy_slot(&mut self, from: usize, to: usize) {
        let n = self.shape.n_kv_heads * self.shape.head_dim;
        for layer in 0..self.shape.n_layers {
            let (from, to) = (self.at(layer, from), self.at(layer, to));
            self.keys.copy_within(from..from + n, to);
            self.values.copy_within(from..from + n, to);
        }
    }
}

/// The backend that other backends are compared with.
#[derive(Default)]
pub struct ReferenceBackend {
    matrices: Vec<Matrix>,
    terms: Vec<low_rank::Terms>,
    vectors: Vec<Vec<f32>>,
    buffers: Vec<Vec<f32>>,
    stores: Vec<KvStore>,
}

impl ReferenceBackend {
    pub fn new() -> Self {
        Self::default()
    }

    fn vector_of(&self, id: Option<VectorId>) -> Option<&[f32]> {
        id.map(|id| self.vectors[id.0 as usize].as_slice())
    }

    /// The rows of `x` after the norm.
    fn normed(&self, x: BufferId, norm: VectorId, eps: f32, n_rows: usize) -> Vec<f32> {
        let weights = &self.vectors[norm.0 as usize];
        let x = &self.buffers[x.0 as usize][..n_rows * weights.len()];
        x.chunks(weights.len()).flat_map(|row| norm::rms_norm(row, weights, eps)).collect()
    }
}

impl ReferenceBackend {
    /// `x @ wᵀ (+ bias)` with the low-rank terms of the rows that have some.
    fn product(
        &self,
        x: &[f32],
        w: MatrixId,
        bias: Option<&[f32]>,
        low_rank: &[LowRankRun],
    ) -> Vec<f32> {
        let matrix = &self.matrices[w.0 as usize];
        let mut y = matmul::matmul(x, matrix, bias);
        for run in low_rank {
            let terms = &self.terms[run.terms.0 as usize];
            assert_eq!(terms.matrix, w, "terms belong to the matrix they were made for");
            for t in run.first_row..run.first_row + run.n_rows {
                let x = &x[t * matrix.cols..][..matrix.cols];
                terms.add(x, &mut y[t * matrix.rows..][..matrix.rows]);
            }
        }
        y
    }
}

fn next_id(len: usize) -> u32 {
    u32::try_from(len).expect("fewer than 2^32 objects are made while a model loads")
}

impl Backend for ReferenceBackend {
    fn name(&self) -> &'static str {
        "reference"
    }

    fn description(&self) -> String {
        "plain f32 on one thread, for tests".to_owned()
    }

    fn matrix(
        &mut self,
        parts: &[MatrixSource<'_>],
        stacking: Stacking,
    ) -> Result<MatrixId, DeviceError> {
        super::source::check(self.name(), parts, stacking)?;
        let cols = parts[0].cols;
        let rows = parts.iter().map(|p| p.rows).sum();
        let mut values = vec![0.0; rows * cols];
        let mut first = 0;
        for part in parts {
            let row_bytes = part.data.len() / part.rows;
            for row in part.data.chunks(row_bytes) {
                quant::dequantise_row(part.dtype, row, &mut values[first..first + cols]);
                first += cols;
            }
        }
        let part_rows = parts.iter().map(|p| p.rows).collect();
        self.matrices.push(Matrix { rows, cols, values, part_rows });
        Ok(MatrixId(next_id(self.matrices.len() - 1)))
    }

    fn low_rank(
        &mut self,
        w: MatrixId,
        parts: &[Option<LowRankSource<'_>>],
    ) -> Result<LowRankId, DeviceError> {
        let matrix = &self.matrices[w.0 as usize];
        super::source::check_low_rank(self.name(), matrix.cols, &matrix.part_rows, parts)?;
        self.terms.push(low_rank::Terms::new(w, &matrix.part_rows, parts));
        Ok(LowRankId(next_id(self.terms.len() - 1)))
    }

    fn vector(&mut self, values: &[f32]) -> Result<VectorId, DeviceError> {
        self.vectors.push(values.to_vec());
        Ok(VectorId(next_id(self.vectors.len() - 1)))
    }

    fn buffer(&mut self, n_elems: usize) -> Result<BufferId, DeviceError> {
        self.buffers.push(vec![0.0; n_elems]);
        Ok(BufferId(next_id(self.buffers.len() - 1)))
    }

    fn kv_store(&mut self, shape: KvShape) -> Result<KvId, DeviceError> {
        let n = super::source::kv_elements(self.name(), &shape)?;
        self.stores.push(KvStore { shape, keys: vec![0.0; n], values: vec![0.0; n] });
        Ok(KvId(next_id(self.stores.len() - 1)))
    }

    fn bytes_used(&self) -> u64 {
        let n: usize = self.matrices.iter().map(|m| m.values.len()).sum::<usize>()
            + self.terms.iter().map(low_rank::Terms::n_elems).sum::<usize>()
            + self.vectors.iter().map(Vec::len).sum::<usize>()
            + self.buffers.iter().map(Vec::len).sum::<usize>()
            + self.stores.iter().map(|s| 2 * s.keys.len()).sum::<usize>();
        n as u64 * 4
    }

    fn write(&mut self, to: BufferId, offset: usize, values: &[f32]) -> Result<(), DeviceError> {
        self.buffers[to.0 as usize][offset..offset + values.len()].copy_from_slice(values);
        Ok(())
    }

    fn read(&mut self, from: BufferId, offset: usize, out: &mut [f32]) -> Result<(), DeviceError> {
        out.copy_from_slice(&self.buffers[from.0 as usize][offset..offset + out.len()]);
        Ok(())
    }

    fn embed(&mut self, table: MatrixId, ids: &[u32], out: BufferId) -> Result<(), DeviceError> {
        let table = &self.matrices[table.0 as usize];
        let rows = self.buffers[out.0 as usize].chunks_mut(table.cols);
        for (out, &id) in rows.zip(ids) {
            out.copy_from_slice(&table.values[id as usize * table.cols..][..table.cols]);
        }
        Ok(())
    }

    fn norm_matmul(
        &mut self,
        x: BufferId,
        norm: VectorId,
        eps: f32,
        w: MatrixId,
        bias: Option<VectorId>,
        out: BufferId,
        n_rows: usize,
        low_rank: &[LowRankRun],
    ) -> Result<(), DeviceError> {
        let x = self.normed(x, norm, eps, n_rows);
        let y = self.product(&x, w, self.vector_of(bias), low_rank);
        self.buffers[out.0 as usize][..y.len()].copy_from_slice(&y);
        Ok(())
    }

    fn norm_gated(
        &mut self,
        x: BufferId,
        norm: VectorId,
        eps: f32,
        w: MatrixId,
        act: Activation,
        out: BufferId,
        n_rows: usize,
        low_rank: &[LowRankRun],
    ) -> Result<(), DeviceError> {
        let x = self.normed(x, norm, eps, n_rows);
        let n_out = self.matrices[w.0 as usize].rows / 2;
        let y = gated::combine(&self.product(&x, w, None, low_rank), n_out, act);
        self.buffers[out.0 as usize][..y.len()].copy_from_slice(&y);
        Ok(())
    }

    fn matmul_add(
        &mut self,
        x: BufferId,
        w: MatrixId,
        bias: Option<VectorId>,
        out: BufferId,
        n_rows: usize,
        low_rank: &[LowRankRun],
    ) -> Result<(), DeviceError> {
        let n_cols = self.matrices[w.0 as usize].cols;
        let x = &self.buffers[x.0 as usize][..n_rows * n_cols];
        let y = self.product(x, w, self.vector_of(bias), low_rank);
        for (o, y) in self.buffers[out.0 as usize].iter_mut().zip(y) {
            *o += y;
        }
        Ok(())
    }

    fn rope_store(
        &mut self,
        qkv: BufferId,
        spec: &RopeStore,
        kv: KvId,
        layer: usize,
        step: &StepRows<'_>,
    ) -> Result<(), DeviceError> {
        let vector = |id: Option<VectorId>| id.map(|id| self.vectors[id.0 as usize].as_slice());
        let (inv_freq, q_norm, k_norm) =
            (vector(spec.inv_freq), vector(spec.q_norm), vector(spec.k_norm));
        let store = &mut self.stores[kv.0 as usize];
        let (n_q, d) = (spec.n_heads, spec.head_dim);
        let width = (n_q + 2 * spec.n_kv_heads) * d;
        let rows = self.buffers[qkv.0 as usize].chunks_mut(width);
        for (t, row) in rows.take(step.n_rows).enumerate() {
            let position = step.positions[t];
            for (h, head) in row[..(n_q + spec.n_kv_heads) * d].chunks_mut(d).enumerate() {
                if let Some(weights) = if h < n_q { q_norm } else { k_norm } {
                    head.copy_from_slice(&norm::rms_norm(head, weights, spec.eps));
                }
                if let Some(inv_freq) = inv_freq {
                    rope::rotate(head, inv_freq, position, spec.style);
                }
            }
            let (keys, values) = row[n_q * d..].split_at(spec.n_kv_heads * d);
            let at = store.at(layer, step.slots[t] as usize);
            KvStore::put(&mut store.keys[at..at + keys.len()], keys, &store.shape);
            KvStore::put(&mut store.values[at..at + values.len()], values, &store.shape);
        }
        Ok(())
    }

    fn attention(
        &mut self,
        qkv: BufferId,
        spec: &Attention,
        kv: KvId,
        layer: usize,
        step: &StepRows<'_>,
        out: BufferId,
    ) -> Result<(), DeviceError> {
        let y = attention::attention(
            &self.buffers[qkv.0 as usize],
            spec,
            &self.stores[kv.0 as usize],
            layer,
            step,
        );
        self.buffers[out.0 as usize][..y.len()].copy_from_slice(&y);
        Ok(())
    }

    fn gather(
        &mut self,
        x: BufferId,
        n_cols: usize,
        rows: &[u32],
        out: BufferId,
    ) -> Result<(), DeviceError> {
        let gathered: Vec<f32> = rows
            .iter()
            .flat_map(|&r| &self.buffers[x.0 as usize][r as usize * n_cols..][..n_cols])
            .copied()
            .collect();
        self.buffers[out.0 as usize][..gathered.len()].copy_from_slice(&gathered);
        Ok(())
    }

    fn argmax(
        &mut self,
        logits: BufferId,
        n_cols: usize,
        row: usize,
        n_valid: usize,
        mask: Option<&[u32]>,
    ) -> Result<Option<u32>, DeviceError> {
        let row = &self.buffers[logits.0 as usize][row * n_cols..][..n_valid];
        Ok(select::argmax(row, mask))
    }

    fn copy_blocks(&mut self, kv: KvId, pairs: &[(u32, u32)]) -> Result<(), DeviceError> {
        let store = &mut self.stores[kv.0 as usize];
        let n = store.shape.block_tokens;
        for &(from, to) in pairs {
            for offset in 0..n {
                store.copy_slot(from as usize * n + offset, to as usize * n + offset);
            }
        }
        Ok(())
    }

    fn move_slots(&mut self, kv: KvId, pairs: &[(u32, u32)]) -> Result<(), DeviceError> {
        for &(from, to) in pairs {
            self.stores[kv.0 as usize].copy_slot(from as usize, to as usize);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
