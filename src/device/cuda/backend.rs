//! The [`Backend`] of the CUDA kernels: objects by id, and each operation as launches.
//!
//! # Place
//! Part of `device::cuda`. The same code on a GPU and on the emulator; only the driver below differs.
//! # Invariants
//! - An operation pushes launches and returns; errors of the device show at the next operation that reads.
//! - Few rows and many rows go through different kernels that give the same bits for a row.

use super::attend;
use super::cache::{Cache, independent_runs};
use super::driver::{DevicePtr, Driver, Launch};
use super::kernel::{self, KernelId};
use super::low_rank::Terms;
use super::matrix::{self, Layout, Matrix};
use super::params::*;
use super::product::{Mode, Product, Scratch};
use super::queue::{Cost, Queue};
use super::staging::Section;
use crate::base::limit;
use crate::device::cpu::source;
use crate::device::{
    Activation, Attention, Backend, BufferId, DeviceError, DeviceMemory, KernelRun, KvId, KvShape,
    KvType, LowRankId, LowRankRun, LowRankSource, MatrixId, MatrixSource, RopeStore, RopeStyle,
    Stacking, StepRows, TopRow, VectorId,
};

const KEY_TILE: usize = 32;

/// Values on the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Array {
    pub(super) at: DevicePtr,
    /// Elements of four bytes.
    pub(super) len: usize,
}

/// Runs a model on CUDA kernels.
pub struct CudaBackend {
    pub(super) queue: Queue,
    pub(super) matrices: Vec<Matrix>,
    pub(super) vectors: Vec<Array>,
    pub(super) terms: Vec<Terms>,
    buffers: Vec<Array>,
    caches: Vec<Cache>,
    scratch: Scratch,
    pub(super) bytes_used: u64,
}

impl CudaBackend {
    pub(in crate::device) fn on(driver: Box<dyn Driver>) -> Result<Self, DeviceError> {
        let queue = Queue::new(driver)?;
        Ok(Self {
            bytes_used: queue.staging_bytes() as u64,
            queue,
            matrices: Vec::new(),
            vectors: Vec::new(),
            terms: Vec::new(),
            buffers: Vec::new(),
            caches: Vec::new(),
            scratch: Scratch::default(),
        })
    }

    /// Graphs in use.
    #[cfg(all(test, feature = "emu"))]
    pub(in crate::device) fn n_graphs(&self) -> usize {
        self.queue.n_graphs()
    }

    pub(super) fn allocate(&mut self, len: usize, what: &str) -> Result<Array, DeviceError> {
        let driver = self.queue.idle_driver()?;
        let at = driver.allocate(4 * len, what)?;
        driver.clear(at, 4 * len)?;
        self.bytes_used += 4 * len as u64;
        Ok(Array { at, len })
    }

    /// A scratch array of at least `len`, larger than before if need be.
    pub(super) fn reserve(
        &mut self,
        which: fn(&mut Scratch) -> &mut Option<Array>,
        len: usize,
    ) -> Result<DevicePtr, DeviceError> {
        if let Some(array) = which(&mut self.scratch).filter(|array| array.len >= len) {
            return Ok(array.at);
        }
        let new = self.allocate(len, "workspace")?;
        if let Some(old) = which(&mut self.scratch).replace(new) {
            self.queue.idle_driver()?.release(old.at);
            self.bytes_used -= 4 * old.len as u64;
        }
        Ok(new.at)
    }

    pub(super) fn buffer_at(&self, id: BufferId, len: usize) -> DevicePtr {
        let array = self.buffers[id.0 as usize];
        assert!(len <= array.len, "a buffer of {} elements is too short for {len}", array.len);
        array.at
    }

    pub(super) fn vector_at(&self, id: Option<VectorId>) -> DevicePtr {
        id.map_or(DevicePtr::NONE, |id| self.vectors[id.0 as usize].at)
    }

    fn step_view(
        &mut self,
        step: &StepRows<'_>,
        arrays: &attend::StepArrays,
    ) -> Result<StepView, DeviceError> {
        let mut put = |section, bytes: &[u8]| self.queue.put(section, bytes);
        Ok(StepView {
            positions: put(Section::Positions, bytemuck::cast_slice(step.positions))?,
            slots: put(Section::Slots, bytemuck::cast_slice(step.slots))?,
            seqs: put(Section::Seqs, bytemuck::cast_slice(&arrays.seqs))?,
            blocks: put(Section::Blocks, bytemuck::cast_slice(&arrays.blocks))?,
            tree: put(Section::Tree, bytemuck::cast_slice(&arrays.tree))?,
        })
    }

    /// Attention over a narrow cache: work lists, then the launches that have work.
    fn attend_tiles(
        &mut self,
        mut params: AttendParams,
        spec: &Attention,
        kv: KvId,
        step: &StepRows<'_>,
        arrays: &attend::StepArrays,
        is_split: &[bool],
    ) -> Result<(), DeviceError> {
        let cache = &self.caches[kv.0 as usize];
        let (instance, padded) = cache.instance();
        let tile_bytes = 2 * KEY_TILE * 2 * padded; // keys and values
        let token_bytes = cache.token_bytes();
        let work = attend::work(step, arrays, is_split, spec);
        let cost_of = |load: attend::Load| Cost {
            bytes: (load.keys * token_bytes) as u64,
            ops: (4 * load.scores * spec.n_kv_heads * spec.head_dim) as u64,
        };
        let windowed = spec.window.is_some();
        if !work.rows.is_empty() {
            let section = if windowed { Section::WindowRowItems } else { Section::RowItems };
            params.items = self.queue.put(section, bytemuck::cast_slice(&work.rows))?;
            let grid = [work.rows.len(), spec.n_kv_heads, 1];
            // Two stages of tiles, and 128 threads' sums of two rows.
            let n_shared = 2 * tile_bytes + 128 * padded / 2 * 4;
            let launch = Launch::new(kernel::ATTEND_ROWS[instance], grid, n_shared, &params);
            self.queue.push(launch, cost_of(work.rows_load));
        }
        if work.split.is_empty() {
            return Ok(());
        }
        let section = if windowed { Section::WindowSplitItems } else { Section::SplitItems };
        params.items = self.queue.put(section, bytemuck::cast_slice(&work.split))?;
        let n_partials = limit::ATTENTION_PARTIALS_MAX * spec.n_heads;
        params.partial_sums = self.reserve(|s| &mut s.partial_sums, n_partials * spec.head_dim)?;
        params.partial_weights = self.reserve(|s| &mut s.partial_weights, n_partials * 2)?;
        let grid = [work.splits_max.div_ceil(2), spec.n_kv_heads, work.split.len()];
        let launch = Launch::new(kernel::ATTEND_SPLIT[instance], grid, 4 * tile_bytes, &params);
        self.queue.push(launch, cost_of(work.split_load));
        let grid = [work.split.len(), spec.n_kv_heads, 1];
        let launch = Launch::new(kernel::ATTEND_COMBINE, grid, 0, &params);
        let n_splits = work.split_load.scores.div_ceil(attend::SPLIT_KEYS) * spec.n_kv_heads;
        self.queue.push(launch, Cost::bytes(4 * (spec.head_dim + 2) * n_splits));
        Ok(())
    }

    /// Copy single tokens in every layer, in runs that do not depend on each other.
    fn move_tokens(&mut self, kv: KvId, pairs: &[(u32, u32)]) -> Result<(), DeviceError> {
        let cache = &self.caches[kv.0 as usize];
        let n_slots = cache.shape.n_blocks * cache.shape.block_tokens;
        let inside = |slot: u32| (slot as usize) < n_slots;
        assert!(pairs.iter().all(|&(from, to)| inside(from) && inside(to)), "slots of the store");
        let grid = [cache.shape.n_kv_heads, 2 * cache.shape.n_layers];
        let (view, layer_bytes) = (cache.view(0), cache.layer_bytes() as u64);
        let token_bytes = cache.token_bytes() * cache.shape.n_layers;
        for run in independent_runs(pairs).into_iter().filter(|run| !run.is_empty()) {
            let words: Vec<u32> = run.iter().flat_map(|&(from, to)| [from, to]).collect();
            let pairs = self.queue.put(Section::SlotPairs, bytemuck::cast_slice(&words))?;
            let params = MoveSlotsParams { cache: view, pairs, layer_bytes };
            let grid = [run.len(), grid[0], grid[1]];
            let cost = Cost::bytes(2 * run.len() * token_bytes);
            self.queue.push(Launch::new(kernel::MOVE_SLOTS, grid, 0, &params), cost);
        }
        Ok(())
    }
}

fn next_id(len: usize) -> u32 {
    u32::try_from(len).expect("fewer than 2^32 objects are made while a model loads")
}

impl Backend for CudaBackend {
    fn name(&self) -> &'static str {
        self.queue.driver().name()
    }

    fn description(&self) -> String {
        self.queue.driver().description()
    }

    fn memory(&self) -> Option<DeviceMemory> {
        self.queue.driver().memory().ok()
    }

    fn matrix(
        &mut self,
        parts: &[MatrixSource<'_>],
        stacking: Stacking,
    ) -> Result<MatrixId, DeviceError> {
        source::check(self.name(), parts, stacking)?;
        let driver = self.queue.idle_driver()?;
        let before = driver.memory()?.free;
        let matrix = matrix::load(driver, parts, stacking)?;
        self.bytes_used += before.saturating_sub(driver.memory()?.free);
        if matrix.parts.iter().any(|p| matches!(p.layout, Layout::Tiles(_))) {
            self.reserve_rows(matrix.cols, limit::STEP_ROWS_MAX)?;
        }
        self.matrices.push(matrix);
        Ok(MatrixId(next_id(self.matrices.len() - 1)))
    }

    fn low_rank(
        &mut self,
        w: MatrixId,
        parts: &[Option<LowRankSource<'_>>],
    ) -> Result<LowRankId, DeviceError> {
        self.load_terms(w, parts)
    }

    fn vector(&mut self, values: &[f32]) -> Result<VectorId, DeviceError> {
        let array = self.allocate(values.len(), "a vector")?;
        self.queue.idle_driver()?.upload(array.at, bytemuck::cast_slice(values))?;
        self.vectors.push(array);
        Ok(VectorId(next_id(self.vectors.len() - 1)))
    }

    fn buffer(&mut self, n_elems: usize) -> Result<BufferId, DeviceError> {
        let array = self.allocate(n_elems, "an activation buffer")?;
        self.buffers.push(array);
        Ok(BufferId(next_id(self.buffers.len() - 1)))
    }

    fn kv_store(&mut self, shape: KvShape) -> Result<KvId, DeviceError> {
        source::kv_elements(self.name(), &shape)?;
        let cache = Cache::new(self.queue.idle_driver()?, shape)?;
        self.bytes_used += cache.n_bytes() as u64;
        self.caches.push(cache);
        Ok(KvId(next_id(self.caches.len() - 1)))
    }

    fn bytes_used(&self) -> u64 {
        self.bytes_used
    }

    fn write(&mut self, to: BufferId, offset: usize, values: &[f32]) -> Result<(), DeviceError> {
        let at = self.buffer_at(to, offset + values.len()).at(4 * offset);
        self.queue.idle_driver()?.upload(at, bytemuck::cast_slice(values))
    }

    fn read(&mut self, from: BufferId, offset: usize, out: &mut [f32]) -> Result<(), DeviceError> {
        let at = self.buffer_at(from, offset + out.len()).at(4 * offset);
        self.queue.read(at, bytemuck::cast_slice_mut(out))
    }

    fn wait(&mut self) -> Result<(), DeviceError> {
        self.queue.idle_driver()?.wait()
    }

    fn time_kernels(&mut self, is_on: bool) -> Result<bool, DeviceError> {
        self.queue.set_timing(is_on)?;
        Ok(true)
    }

    fn kernel_runs(&mut self) -> Vec<KernelRun> {
        self.queue.take_runs()
    }

    fn library_product_us(
        &mut self,
        n_rows: usize,
        n_cols: usize,
        n_outputs: usize,
    ) -> Result<Option<f64>, DeviceError> {
        self.queue.idle_driver()?.time_library((n_rows, n_cols, n_outputs))
    }

    fn make_room(&mut self, spec: &Attention, vocab: usize) -> Result<(), DeviceError> {
        let n_partials = limit::ATTENTION_PARTIALS_MAX * spec.n_heads;
        self.reserve(|s| &mut s.partial_sums, n_partials * spec.head_dim)?;
        self.reserve(|s| &mut s.partial_weights, n_partials * 2)?;
        self.reserve_top(vocab)
    }

    fn embed(&mut self, table: MatrixId, ids: &[u32], out: BufferId) -> Result<(), DeviceError> {
        let matrix = &self.matrices[table.0 as usize];
        let inside = ids.iter().all(|&id| (id as usize) < matrix.rows);
        assert!(inside, "a token id is outside the embedding");
        let (cols, parts) = (matrix.cols, matrix.parts.clone());
        let out = self.buffer_at(out, ids.len() * cols);
        let ids_at = self.queue.put(Section::Ids, bytemuck::cast_slice(ids))?;
        for part in parts {
            let params = EmbedParams {
                table: part.view,
                ids: ids_at,
                out,
                n_cols: cols as u32,
                first_row: part.first_row as u32,
            };
            let kernel = match part.layout {
                Layout::Tiles(format) => kernel::EMBED[format as usize],
                Layout::Plain => kernel::EMBED_PRECISE,
            };
            let grid = [(cols / 8).div_ceil(threads(kernel)), ids.len(), 1];
            let n_bytes = part.n_bytes / part.rows as u64 * ids.len() as u64;
            let cost = Cost { bytes: n_bytes + (4 * ids.len() * cols) as u64, ops: 0 };
            self.queue.push(Launch::new(kernel, grid, 0, &params), cost);
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
        let norm = Some((norm, eps));
        self.product(&Product { x, norm, w, bias, out, n_rows, mode: Mode::Set }, low_rank)
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
        let (mode, norm) = (Mode::gated(act), Some((norm, eps)));
        self.product(&Product { x, norm, w, bias: None, out, n_rows, mode }, low_rank)
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
        self.product(&Product { x, norm: None, w, bias, out, n_rows, mode: Mode::Add }, low_rank)
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
        let n_slots = cache.shape.n_blocks * cache.shape.block_tokens;
        assert!(step.slots.iter().all(|&s| (s as usize) < n_slots), "slots of the store");
        let n_pairs = spec.inv_freq.map_or(0, |id| self.vectors[id.0 as usize].len);
        assert!(2 * n_pairs <= d, "more is rotated than a head has");
        let n_heads = spec.n_heads + 2 * n_kv;
        let params = RopeStoreParams {
            qkv: self.buffer_at(qkv, step.n_rows * n_heads * d),
            cache: cache.view(layer),
            positions: self.queue.put(Section::Positions, bytemuck::cast_slice(step.positions))?,
            slots: self.queue.put(Section::Slots, bytemuck::cast_slice(step.slots))?,
            inv_freq: self.vector_at(spec.inv_freq),
            q_norm: self.vector_at(spec.q_norm),
            k_norm: self.vector_at(spec.k_norm),
            n_heads: spec.n_heads as u32,
            n_pairs: n_pairs as u32,
            style: match spec.style {
                RopeStyle::Interleaved => 0,
                RopeStyle::Halves => 1,
            },
            eps: spec.eps,
        };
        let grid = [n_heads.div_ceil(4), step.n_rows, 1];
        let n_bytes = 8 * n_heads * d;
        let launch = Launch::new(kernel::ROPE_STORE, grid, 0, &params);
        self.queue.push(launch, Cost::bytes(step.n_rows * n_bytes));
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
        let cache = &self.caches[kv.0 as usize];
        let (n_q, n_kv, d) = (spec.n_heads, spec.n_kv_heads, spec.head_dim);
        assert_eq!((n_kv, d), (cache.shape.n_kv_heads, cache.shape.head_dim));
        assert!(n_q.is_multiple_of(n_kv), "query heads share key-value heads evenly");
        assert!(qkv != out, "attention cannot write its own input");
        let (view, is_precise) = (cache.view(layer), cache.shape.dtype == KvType::F32);
        let (arrays, is_split) = attend::arrays(step, n_q / n_kv);
        let params = AttendParams {
            qkv: self.buffer_at(qkv, step.n_rows * (n_q + 2 * n_kv) * d),
            out: self.buffer_at(out, step.n_rows * n_q * d),
            step: self.step_view(step, &arrays)?,
            row_seqs: self.queue.put(Section::RowSeqs, bytemuck::cast_slice(&arrays.row_seqs))?,
            cache: view,
            items: DevicePtr::NONE,
            partial_sums: DevicePtr::NONE,
            partial_weights: DevicePtr::NONE,
            n_heads: n_q as u32,
            window: spec.window.map_or(0, |w| u32::try_from(w).unwrap_or(u32::MAX)),
            scale: spec.scale * std::f32::consts::LOG2_E,
            n_rows: step.n_rows as u32,
        };
        if is_precise {
            let grid = [n_q.div_ceil(4), step.n_rows, 1];
            let scores: usize =
                step.seqs.iter().map(|s| s.n_rows * (s.past + s.n_rows)).sum::<usize>() * n_q;
            let (bytes, ops) = ((8 * scores * d) as u64, (4 * scores * d) as u64);
            let launch = Launch::new(kernel::ATTEND_PRECISE, grid, 0, &params);
            self.queue.push(launch, Cost { bytes, ops });
            return Ok(());
        }
        self.attend_tiles(params, spec, kv, step, &arrays, &is_split)
    }

    fn gather(
        &mut self,
        x: BufferId,
        n_cols: usize,
        rows: &[u32],
        out: BufferId,
    ) -> Result<(), DeviceError> {
        assert_ne!(x, out, "rows are gathered into another buffer");
        assert!(n_cols.is_multiple_of(4), "rows of whole vectors, which loading made sure of");
        let n_from = rows.iter().max().map_or(0, |&r| r as usize + 1);
        let params = GatherParams {
            x: self.buffer_at(x, n_from * n_cols),
            rows: self.queue.put(Section::GatherRows, bytemuck::cast_slice(rows))?,
            out: self.buffer_at(out, rows.len() * n_cols),
            n_cols: n_cols as u32,
            pad: 0,
        };
        let grid = [(n_cols / 4).div_ceil(threads(kernel::GATHER)), rows.len(), 1];
        let cost = Cost::bytes(8 * rows.len() * n_cols);
        self.queue.push(Launch::new(kernel::GATHER, grid, 0, &params), cost);
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
        let best = self.reserve(|s| &mut s.best, 1)?;
        let mask = match mask {
            Some(words) => self.queue.put(Section::Mask, bytemuck::cast_slice(words))?,
            None => DevicePtr::NONE,
        };
        let logits = self.buffer_at(logits, (row + 1) * n_cols).at(4 * row * n_cols);
        let params = ArgmaxParams { logits, mask, best, n_valid: n_valid as u32, pad: 0 };
        let launch = Launch::new(kernel::ARGMAX, [1, 1, 1], 8 * 8, &params);
        self.queue.push(launch, Cost::bytes(4 * n_valid));
        let mut id = [0];
        self.queue.read(best, bytemuck::cast_slice_mut(&mut id))?;
        Ok((id[0] != u32::MAX).then_some(id[0]))
    }

    fn top(
        &mut self,
        logits: BufferId,
        n_cols: usize,
        row: usize,
        n_valid: usize,
        mask: Option<&[u32]>,
        k: usize,
    ) -> Result<Option<TopRow>, DeviceError> {
        assert!(n_valid <= n_cols, "more ids are valid than a row has");
        self.top_row(logits, row * n_cols, n_valid, mask, k).map(Some)
    }

    fn copy_blocks(&mut self, kv: KvId, pairs: &[(u32, u32)]) -> Result<(), DeviceError> {
        let n = self.caches[kv.0 as usize].shape.block_tokens as u32;
        let slots: Vec<(u32, u32)> = pairs
            .iter()
            .flat_map(|&(from, to)| (0..n).map(move |i| (from * n + i, to * n + i)))
            .collect();
        self.move_tokens(kv, &slots)
    }

    fn move_slots(&mut self, kv: KvId, pairs: &[(u32, u32)]) -> Result<(), DeviceError> {
        self.move_tokens(kv, pairs)
    }
}

fn threads(kernel: KernelId) -> usize {
    kernel.kernel().n_threads as usize
}
