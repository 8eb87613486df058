//! The [`Backend`] of the processor: objects by id, and each operation handed to its file.
//!
//! # Place
//! Part of `device::cpu::simd`.
#![allow(unsafe_code)] // threads fill groups of a matrix through raw pointers

use std::num::NonZeroUsize;

use super::attention;
use super::cache::Cache;
use super::finish::Finish;
use super::lanes::Isa;
use super::low_rank::{Run, Terms};
use super::machine;
use super::matmul::{self, Matrix, Product};
use super::memory::{Arena, Floats};
use super::rope::{self, Angles};
use super::rows::Prepare;
use super::select;
use super::weight::Part;
use crate::base::limit::STEP_ROWS_MAX;
use crate::device::cpu::pool::{Pieces, Pool, RegionPanicked};
use crate::device::cpu::source;
use crate::device::{
    Activation, Attention, Backend, BufferId, DeviceError, KvId, KvShape, LowRankId, LowRankRun,
    LowRankSource, MatrixId, MatrixSource, RopeStore, Stacking, StepRows, VectorId,
};

/// Elements copied by one thread rather than by all.
const SERIAL_ELEMENTS: usize = 1 << 15;

/// [`Finish`] by id.
enum After {
    Set(Option<VectorId>),
    Add(Option<VectorId>),
    Gated(Activation),
}

/// Runs a model on the processor.
pub struct CpuBackend {
    isa: Isa,
    pool: Pool,
    arena: Arena,
    matrices: Vec<Matrix>,
    terms: Vec<Terms>,
    /// The low-rank runs of one product.
    runs: Vec<Run>,
    vectors: Vec<Vec<f32>>,
    buffers: Vec<Floats>,
    caches: Vec<Cache>,
    angles: Angles,
    products: matmul::Scratch,
    attention: attention::Scratch,
}

impl CpuBackend {
    /// A backend on the widest instruction set of this machine. `threads`: by default one per core.
    ///
    /// # Errors
    /// When memory is short.
    pub fn new(threads: Option<NonZeroUsize>) -> Result<Self, DeviceError> {
        Self::with_isa(threads, Isa::best())
    }

    /// A backend on one instruction set, for tests and comparisons.
    ///
    /// # Errors
    /// When this machine does not have it, or memory is short.
    pub fn with_isa(threads: Option<NonZeroUsize>, isa: Isa) -> Result<Self, DeviceError> {
        if !isa.is_available() {
            return Err(DeviceError::UnsupportedShape {
                device: "cpu",
                what: format!("the instruction set {}", isa.name()),
                problem: format!("this machine has {}", Isa::best().name()),
            });
        }
        let pool = Pool::new(threads.unwrap_or_else(machine::default_threads));
        let n_threads = pool.n_threads();
        Ok(Self {
            isa,
            pool,
            arena: Arena::default(),
            matrices: Vec::new(),
            terms: Vec::new(),
            runs: Vec::new(),
            vectors: Vec::new(),
            buffers: Vec::new(),
            caches: Vec::new(),
            angles: Angles::default(),
            products: matmul::Scratch::new(n_threads)?,
            attention: attention::Scratch::new(n_threads)?,
        })
    }

    /// Threads that share the work, the caller included.
    pub fn n_threads(&self) -> usize {
        self.pool.n_threads()
    }

    /// Bytes of scratch for products, which grows with the widest matrix.
    #[cfg(test)]
    pub(super) fn products_bytes(&self) -> u64 {
        self.products.n_bytes()
    }

    fn slice(&self, id: BufferId, n_elems: usize) -> &[f32] {
        &self.buffers[id.0 as usize].as_slice()[..n_elems]
    }

    fn slice_mut(&mut self, id: BufferId, n_elems: usize) -> &mut [f32] {
        &mut self.buffers[id.0 as usize].as_mut_slice()[..n_elems]
    }

    fn pointer(&self, id: BufferId, n_elems: usize) -> *mut f32 {
        let buffer = &self.buffers[id.0 as usize];
        assert!(
            n_elems <= buffer.len(),
            "a buffer of {} elements is too short for {n_elems}",
            buffer.len()
        );
        buffer.ptr()
    }

    /// Check the runs of a product with `w` and keep them for it.
    fn take_runs(&mut self, w: MatrixId, n_rows: usize, low_rank: &[LowRankRun]) {
        self.runs.clear();
        let mut end = 0;
        for run in low_rank {
            let terms = run.terms.0 as usize;
            let owner = self.terms[terms].matrix;
            assert_eq!(owner, w.0 as usize, "terms belong to the matrix they were made for");
            assert!(run.first_row >= end, "runs are ascending and apart");
            end = run.first_row + run.n_rows;
            assert!(end <= n_rows, "runs lie inside the step");
            self.runs.push(Run { first_row: run.first_row, n_rows: run.n_rows, terms });
        }
    }

    fn product(
        &mut self,
        x: BufferId,
        norm: Option<(VectorId, f32)>,
        w: MatrixId,
        out: BufferId,
        n_rows: usize,
        after: After,
        low_rank: &[LowRankRun],
    ) -> Result<(), DeviceError> {
        let (n_cols, out_cols) = {
            let matrix = &self.matrices[w.0 as usize];
            let out_cols = if matrix.gated { matrix.rows / 2 } else { matrix.rows };
            (matrix.cols, out_cols)
        };
        assert_ne!(x, out, "a product cannot write its own input");
        self.take_runs(w, n_rows, low_rank);
        self.products.reserve(n_cols, n_rows)?;
        let out = self.pointer(out, n_rows * out_cols);
        let x = &self.buffers[x.0 as usize].as_slice()[..n_rows * n_cols];
        let norm = norm.map(|(id, eps)| (self.vectors[id.0 as usize].as_slice(), eps));
        assert!(
            norm.is_none_or(|(weights, _)| weights.len() == n_cols),
            "a norm has one weight per column"
        );
        let product = Product {
            isa: self.isa,
            matrix: &self.matrices[w.0 as usize],
            x,
            prepare: Prepare { norm, n_cols, halves: self.matrices[w.0 as usize].has_halves() },
            n_rows,
            out,
            out_cols,
            finish: match after {
                After::Set(bias) => Finish::Set(bias_of(&self.vectors, bias)),
                After::Add(bias) => Finish::Add(bias_of(&self.vectors, bias)),
                After::Gated(act) => Finish::Gated(act),
            },
            low_rank: &self.runs,
            terms: &self.terms,
        };
        if let Finish::Set(Some(bias)) | Finish::Add(Some(bias)) = product.finish {
            assert_eq!(bias.len(), out_cols, "a bias has one element per row");
        }
        let gated = matches!(product.finish, Finish::Gated(_));
        assert_eq!(gated, product.matrix.gated, "only gated pairs are combined");
        Ok(matmul::run(&mut self.pool, &mut self.products, &product)?)
    }
}

impl From<RegionPanicked> for DeviceError {
    fn from(_: RegionPanicked) -> Self {
        Self::Lost {
            device: "cpu",
            problem: "a thread of the backend panicked (its message was printed)".to_owned(),
        }
    }
}

fn next_id(len: usize) -> u32 {
    u32::try_from(len).expect("fewer than 2^32 objects are made while a model loads")
}

fn bias_of(vectors: &[Vec<f32>], id: Option<VectorId>) -> Option<&[f32]> {
    id.map(|id| vectors[id.0 as usize].as_slice())
}

impl Backend for CpuBackend {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn description(&self) -> String {
        let (name, n) = (machine::name(), self.pool.n_threads());
        let threads = if n == 1 { "thread" } else { "threads" };
        format!("{name}, {}, {n} {threads}", self.isa.name())
    }

    fn matrix(
        &mut self,
        parts: &[MatrixSource<'_>],
        stacking: Stacking,
    ) -> Result<MatrixId, DeviceError> {
        source::check(self.name(), parts, stacking)?;
        let cols = parts[0].cols;
        let mut laid_out = Vec::with_capacity(parts.len());
        let mut first_row = 0;
        for source in parts {
            let mut part = Part {
                dtype: source.dtype,
                first_row,
                rows: source.rows,
                cols,
                start: std::ptr::null_mut(),
            };
            let n_bytes = part.n_groups().saturating_mul(part.group_bytes());
            part.start = self.arena.take(n_bytes, "a weight matrix")?.as_ptr();
            let pieces = Pieces::new(part.n_groups(), self.pool.n_threads(), 1);
            self.pool.run(&|_| {
                while let Some(piece) = pieces.claim() {
                    for g in piece {
                        // SAFETY: fresh memory, and each group is claimed once.
                        unsafe { part.fill(source, g) };
                    }
                }
            })?;
            first_row += source.rows;
            laid_out.push(part);
        }
        self.products.reserve(cols, STEP_ROWS_MAX)?;
        self.matrices.push(Matrix {
            parts: laid_out,
            rows: first_row,
            cols,
            gated: stacking == Stacking::GatedPair,
        });
        Ok(MatrixId(next_id(self.matrices.len() - 1)))
    }

    fn low_rank(
        &mut self,
        w: MatrixId,
        parts: &[Option<LowRankSource<'_>>],
    ) -> Result<LowRankId, DeviceError> {
        let matrix = &self.matrices[w.0 as usize];
        let part_rows: Vec<usize> = matrix.parts.iter().map(|p| p.rows).collect();
        let n_cols = matrix.cols;
        source::check_low_rank(self.name(), n_cols, &part_rows, parts)?;
        let terms = Terms::new(&mut self.arena, w.0 as usize, n_cols, &part_rows, parts)?;
        self.products.reserve_low_rank(n_cols, STEP_ROWS_MAX, terms.ranks())?;
        self.terms.push(terms);
        self.runs.reserve(STEP_ROWS_MAX);
        Ok(LowRankId(next_id(self.terms.len() - 1)))
    }

    fn vector(&mut self, values: &[f32]) -> Result<VectorId, DeviceError> {
        self.vectors.push(values.to_vec());
        Ok(VectorId(next_id(self.vectors.len() - 1)))
    }

    fn buffer(&mut self, n_elems: usize) -> Result<BufferId, DeviceError> {
        self.buffers.push(Floats::new(n_elems, "an activation buffer")?);
        Ok(BufferId(next_id(self.buffers.len() - 1)))
    }

    fn kv_store(&mut self, shape: KvShape) -> Result<KvId, DeviceError> {
        source::kv_elements(self.name(), &shape)?;
        self.caches.push(Cache::new(shape)?);
        Ok(KvId(next_id(self.caches.len() - 1)))
    }

    fn bytes_used(&self) -> u64 {
        let vectors: usize = self.vectors.iter().map(Vec::len).sum();
        let buffers: usize = self.buffers.iter().map(Floats::len).sum();
        let caches: u64 = self.caches.iter().map(Cache::n_bytes).sum();
        let scratch = self.products.n_bytes() + self.attention.n_bytes();
        self.arena.n_bytes() + caches + scratch + (vectors + buffers) as u64 * 4
    }

    fn write(&mut self, to: BufferId, offset: usize, values: &[f32]) -> Result<(), DeviceError> {
        self.slice_mut(to, offset + values.len())[offset..].copy_from_slice(values);
        Ok(())
    }

    fn read(&mut self, from: BufferId, offset: usize, out: &mut [f32]) -> Result<(), DeviceError> {
        out.copy_from_slice(&self.slice(from, offset + out.len())[offset..]);
        Ok(())
    }

    fn embed(&mut self, table: MatrixId, ids: &[u32], out: BufferId) -> Result<(), DeviceError> {
        let cols = self.matrices[table.0 as usize].cols;
        let out = self.pointer(out, ids.len() * cols) as usize;
        let table = &self.matrices[table.0 as usize];
        let inside = ids.iter().all(|&id| (id as usize) < table.rows);
        assert!(inside, "a token id is outside the embedding");
        let copy = |t: usize| {
            let mut row = ids[t] as usize;
            for part in &table.parts {
                if row < part.rows {
                    // SAFETY: row `t` of the buffer, which one thread claims.
                    let out = unsafe {
                        std::slice::from_raw_parts_mut((out as *mut f32).add(t * cols), cols)
                    };
                    part.read_row(row, out);
                    return;
                }
                row -= part.rows;
            }
        };
        if ids.len() * cols <= SERIAL_ELEMENTS {
            (0..ids.len()).for_each(copy);
            return Ok(());
        }
        let pieces = Pieces::new(ids.len(), self.pool.n_threads(), 1);
        self.pool.run(&|_| {
            while let Some(piece) = pieces.claim() {
                piece.for_each(copy);
            }
        })?;
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
        self.product(x, Some((norm, eps)), w, out, n_rows, After::Set(bias), low_rank)
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
        self.product(x, Some((norm, eps)), w, out, n_rows, After::Gated(act), low_rank)
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
        self.product(x, None, w, out, n_rows, After::Add(bias), low_rank)
    }

    fn rope_store(
        &mut self,
        qkv: BufferId,
        spec: &RopeStore,
        kv: KvId,
        layer: usize,
        step: &StepRows<'_>,
    ) -> Result<(), DeviceError> {
        let cache = &self.caches[kv.0 as usize];
        let (n_kv, d) = (spec.n_kv_heads, spec.head_dim);
        assert_eq!((n_kv, d), (cache.shape.n_kv_heads, cache.shape.head_dim));
        assert!(step.positions.len() == step.n_rows && step.slots.len() == step.n_rows);
        if let Some(id) = spec.inv_freq {
            let inv_freq = &self.vectors[id.0 as usize];
            assert!(2 * inv_freq.len() <= d, "more is rotated than a head has");
            self.angles.update(id, inv_freq, step.positions);
        }
        let job = rope::Job {
            isa: self.isa,
            spec,
            cache,
            layer,
            step,
            angles: spec.inv_freq.map(|_| &self.angles),
            q_norm: bias_of(&self.vectors, spec.q_norm),
            k_norm: bias_of(&self.vectors, spec.k_norm),
            qkv: self.pointer(qkv, step.n_rows * (spec.n_heads + 2 * n_kv) * d),
        };
        Ok(rope::run(&mut self.pool, &job)?)
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
        let cache = &self.caches[kv.0 as usize];
        let (n_q, n_kv, d) = (spec.n_heads, spec.n_kv_heads, spec.head_dim);
        assert_eq!((n_kv, d), (cache.shape.n_kv_heads, cache.shape.head_dim));
        assert!(n_q.is_multiple_of(n_kv), "query heads share key-value heads evenly");
        assert!(qkv != out, "attention cannot write its own input");
        self.attention.reserve(d, n_q / n_kv)?;
        let job = attention::Job {
            isa: self.isa,
            spec,
            cache,
            layer,
            step,
            qkv: self.pointer(qkv, step.n_rows * (n_q + 2 * n_kv) * d).cast_const(),
            out: self.pointer(out, step.n_rows * n_q * d),
        };
        attention::run(&mut self.pool, &mut self.attention, &job)
    }

    fn gather(
        &mut self,
        x: BufferId,
        n_cols: usize,
        rows: &[u32],
        out: BufferId,
    ) -> Result<(), DeviceError> {
        assert_ne!(x, out, "rows are gathered into another buffer");
        let to = self.pointer(out, rows.len() * n_cols);
        for (i, &row) in rows.iter().enumerate() {
            let from = &self.slice(x, (row as usize + 1) * n_cols)[row as usize * n_cols..];
            // SAFETY: `out` is another buffer with room for every row.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.add(i * n_cols), n_cols) };
        }
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
        assert!(n_valid <= n_cols, "more ids are valid than a row has");
        assert!(mask.is_none_or(|m| m.len() * 32 >= n_valid), "the mask is too short");
        let row = &self.slice(logits, row * n_cols + n_valid)[row * n_cols..];
        Ok(select::argmax(self.isa, row, mask))
    }

    fn copy_blocks(&mut self, kv: KvId, pairs: &[(u32, u32)]) -> Result<(), DeviceError> {
        self.caches[kv.0 as usize].copy_blocks(pairs);
        Ok(())
    }

    fn move_slots(&mut self, kv: KvId, pairs: &[(u32, u32)]) -> Result<(), DeviceError> {
        self.caches[kv.0 as usize].move_slots(pairs);
        Ok(())
    }
}
