//! Attention over the paged cache: online softmax over chunks of keys, for tiles of query rows.
//!
//! # Place
//! Part of `device::cpu::simd`. Reads `cache`; the arithmetic is in `kernel`.
//! # Invariants
//! A row meets its keys in chunks of up to 32 within a block, in order; every [`SPLIT_CHUNKS`] chunks a part
//! is closed and joined to the parts before it. Both are fixed by the row's own keys, so a row gets the same
//! bits alone or in a tile, and whether the parts are computed by one thread or by several.
//! # Sources
//! Online softmax in tiles: Dao et al. 2022, arXiv:2205.14135; splitting keys between threads: the
//! "Flash-Decoding" note of the same authors, 2023.
#![allow(unsafe_code)] // scratch and outputs are divided between threads as raw pointers

mod kernel;
mod part;

use self::kernel::{CHUNK, Join, Running, Sums};
use super::cache::Cache;
use super::lanes::{Isa, LANES, dispatch};
use super::memory::Floats;
use crate::device::cpu::pool::{Pieces, Pool, RegionPanicked};
use crate::device::{Attention, DeviceError, SeqRows, StepRows};

/// Chunks of one part.
const SPLIT_CHUNKS: usize = 4;
/// Most query rows (rows of the step × heads of a group) of a tile.
const TILE_ROWS: usize = 48;
/// With more query rows than this, keys and values are widened to f32 once for all of them.
const WIDEN_ROWS: usize = 8;
/// Multiplications below which one thread is quicker than a meeting of several.
const SERIAL_WORK: usize = 1 << 17;

/// Scratch of one thread: see [`Own::carve`].
pub(super) struct Scratch {
    own: Vec<Floats>,
    parts: Floats,
}

impl Scratch {
    pub(super) fn new(n_threads: usize) -> Result<Self, DeviceError> {
        let what = "scratch for attention";
        let own = (0..n_threads).map(|_| Floats::new(0, what));
        Ok(Self { own: own.collect::<Result<_, _>>()?, parts: Floats::new(0, what)? })
    }

    /// Make room for heads of `head_dim` elements, of which `group` share keys.
    pub(super) fn reserve(&mut self, head_dim: usize, group: usize) -> Result<(), DeviceError> {
        for own in &mut self.own {
            own.reserve(Own::len(head_dim, group), "scratch for attention")?;
        }
        Ok(())
    }

    pub(super) fn n_bytes(&self) -> u64 {
        let own: usize = self.own.iter().map(Floats::len).sum();
        (own + self.parts.len()) as u64 * 4
    }
}

/// Pieces of a thread's scratch.
#[derive(Clone, Copy)]
struct Own {
    queries: *mut f32, // [M, D]
    scores: *mut f32,  // [M, CHUNK]
    keys: *mut f32,    // [D, CHUNK]
    values: *mut f32,  // [CHUNK, D↑16]
    running: Running,
    part: Sums,
    whole: Sums,
}

impl Own {
    fn rows(group: usize) -> usize {
        TILE_ROWS.max(group).next_multiple_of(LANES)
    }

    fn len(head_dim: usize, group: usize) -> usize {
        let (m, d) = (Self::rows(group), head_dim.next_multiple_of(LANES));
        m * (3 * d + CHUNK + LANES + 6) + 2 * CHUNK * d
    }

    fn carve(floats: &Floats, head_dim: usize, group: usize) -> Self {
        let (m, d) = (Self::rows(group), head_dim.next_multiple_of(LANES));
        assert!(floats.len() >= Self::len(head_dim, group));
        let mut at = 0;
        let mut take = |n: usize| {
            let p = floats.ptr().wrapping_add(at);
            at += n;
            p
        };
        Self {
            queries: take(m * d),
            scores: take(m * CHUNK),
            keys: take(d * CHUNK),
            values: take(CHUNK * d),
            running: Running { largest: take(m), lanes: take(m * LANES), alpha: take(m) },
            part: Sums { values: take(m * d), largest: take(m), total: take(m) },
            whole: Sums { values: take(m * d), largest: take(m), total: take(m) },
        }
    }
}

/// Attention of one layer for a step.
pub(super) struct Job<'a> {
    pub(super) isa: Isa,
    pub(super) spec: &'a Attention,
    pub(super) cache: &'a Cache,
    pub(super) layer: usize,
    pub(super) step: &'a StepRows<'a>,
    /// `[T, (H + 2·Hk) · D]`
    pub(super) qkv: *const f32,
    /// `[T, H · D]`
    pub(super) out: *mut f32,
}

// SAFETY: `qkv` is only read, and `out` is divided between the items of `run`.
unsafe impl Sync for Job<'_> {}

/// Rows of one sequence that share a key-value head.
#[derive(Clone, Copy)]
struct Item<'a> {
    seq: &'a SeqRows<'a>,
    first: usize,
    n_rows: usize,
    kv_head: usize,
}

/// Compute `job` on all threads.
pub(super) fn run(
    pool: &mut Pool,
    scratch: &mut Scratch,
    job: &Job<'_>,
) -> Result<(), DeviceError> {
    let n_items = job.n_items();
    if job.work() <= SERIAL_WORK || pool.n_threads() == 1 {
        let own = job.own(scratch, 0);
        for i in 0..n_items {
            job.whole(&job.item(i), &own);
        }
        return Ok(());
    }
    if n_items >= 4 * pool.n_threads() {
        Ok(by_item(pool, scratch, job)?)
    } else {
        by_part(pool, scratch, job)
    }
}

/// Many items: a thread computes whole ones.
fn by_item(pool: &mut Pool, scratch: &Scratch, job: &Job<'_>) -> Result<(), RegionPanicked> {
    let n_items = job.n_items();
    let pieces = Pieces::new(n_items, pool.n_threads() * 4, 1);
    pool.run(&|thread| {
        let own = job.own(scratch, thread);
        while let Some(piece) = pieces.claim() {
            for i in piece {
                // The last rows of a sequence see the most keys: begin with them.
                job.whole(&job.item(n_items - 1 - i), &own);
            }
        }
    })
}

/// Few items: several threads share one, part by part, and the caller joins the parts in order.
fn by_part(pool: &mut Pool, scratch: &mut Scratch, job: &Job<'_>) -> Result<(), DeviceError> {
    let n_items = job.n_items();
    let n_splits = |i: usize| job.splits(&job.item(i)).len();
    let most = (0..n_items).map(n_splits).max().unwrap_or(0);
    let m = Own::rows(job.group());
    let part_len = m * (job.cache.value_stride() + 2);
    let n_floats = n_items * most * part_len;
    scratch.parts.reserve(n_floats, "parts of attention")?;
    let scratch = &*scratch;
    let part = |i: usize, split: usize| {
        let start = scratch.parts.ptr().wrapping_add((i * most + split) * part_len);
        Sums { largest: start, total: start.wrapping_add(m), values: start.wrapping_add(2 * m) }
    };
    let pieces = Pieces::new(n_items * most, pool.n_threads() * 4, 1);
    pool.run(&|thread| {
        let own = job.own(scratch, thread);
        while let Some(piece) = pieces.claim() {
            for i in piece {
                let (i, split) = (i / most, i % most);
                let item = job.item(i);
                let splits = job.splits(&item);
                if split < splits.len() {
                    job.load_queries(&item, &own);
                    job.part(&item, splits.start + split, &own, part(i, split));
                }
            }
        }
    })?;
    let own = job.own(scratch, 0);
    for i in 0..n_items {
        let item = job.item(i);
        job.start_whole(&item, &own);
        for split in 0..n_splits(i) {
            job.join(&item, &own, part(i, split));
        }
        job.finish(&item, &own);
    }
    Ok(())
}

impl<'a> Job<'a> {
    /// Multiplications of the scores, more or less.
    fn work(&self) -> usize {
        let pairs = |s: &SeqRows<'_>| s.n_rows * (s.past + s.n_rows);
        let n_pairs: usize = self.step.seqs.iter().map(pairs).sum();
        n_pairs * self.spec.n_heads * self.spec.head_dim
    }

    fn own(&self, scratch: &Scratch, thread: usize) -> Own {
        Own::carve(&scratch.own[thread], self.spec.head_dim, self.group())
    }

    fn group(&self) -> usize {
        self.spec.n_heads / self.spec.n_kv_heads
    }

    /// Rows of the step in a tile.
    fn tile(&self) -> usize {
        (TILE_ROWS / self.group()).max(1)
    }

    fn n_items(&self) -> usize {
        let tiles = |s: &SeqRows<'_>| s.n_rows.div_ceil(self.tile());
        self.step.seqs.iter().map(tiles).sum::<usize>() * self.spec.n_kv_heads
    }

    fn item(&self, i: usize) -> Item<'a> {
        let (mut tile, kv_head) = (i / self.spec.n_kv_heads, i % self.spec.n_kv_heads);
        for seq in self.step.seqs {
            let n_tiles = seq.n_rows.div_ceil(self.tile());
            if tile < n_tiles {
                let first = tile * self.tile();
                let n_rows = (seq.n_rows - first).min(self.tile());
                return Item { seq, first, n_rows, kv_head };
            }
            tile -= n_tiles;
        }
        unreachable!("items are below n_items")
    }

    /// Cached keys that some row of the item sees: from, to.
    fn key_range(&self, item: &Item<'_>) -> (usize, usize) {
        let seq = item.seq;
        let to = match seq.tree {
            Some(_) => seq.past + seq.n_rows,
            None => seq.past + item.first + item.n_rows,
        };
        let from = (item.first..item.first + item.n_rows).map(|r| self.first_key(seq, r)).min();
        (from.unwrap_or(0), to)
    }

    /// The first cached key inside the window of row `row`.
    fn first_key(&self, seq: &SeqRows<'_>, row: usize) -> usize {
        let position = match seq.tree {
            Some(_) => self.step.positions[seq.first_row + row] as usize,
            None => seq.past + row,
        };
        self.spec.window.map_or(0, |w| (position + 1).saturating_sub(w))
    }

    fn chunks_per_block(&self) -> usize {
        self.cache.key_stride().div_ceil(CHUNK)
    }

    fn chunk_of(&self, key: usize) -> usize {
        let n = self.cache.shape.block_tokens;
        key / n * self.chunks_per_block() + key % n / CHUNK
    }

    fn splits(&self, item: &Item<'_>) -> std::ops::Range<usize> {
        let (from, to) = self.key_range(item);
        if from >= to {
            return 0..0;
        }
        self.chunk_of(from) / SPLIT_CHUNKS..self.chunk_of(to - 1) / SPLIT_CHUNKS + 1
    }

    fn whole(&self, item: &Item<'_>, own: &Own) {
        self.load_queries(item, own);
        self.start_whole(item, own);
        for split in self.splits(item) {
            self.part(item, split, own, own.part);
            self.join(item, own, own.part);
        }
        self.finish(item, own);
    }

    /// Gather the queries of an item, scaled. Row `r · group + h`.
    fn load_queries(&self, item: &Item<'_>, own: &Own) {
        let (d, group) = (self.spec.head_dim, self.group());
        let width = (self.spec.n_heads + 2 * self.spec.n_kv_heads) * d;
        for r in 0..item.n_rows {
            let t = item.seq.first_row + item.first + r;
            for h in 0..group {
                let from = self.qkv.wrapping_add(t * width + (item.kv_head * group + h) * d);
                let to = own.queries.wrapping_add((r * group + h) * d);
                for i in 0..d {
                    // SAFETY: row `t` of the step's buffer, and this thread's scratch.
                    unsafe { *to.add(i) = *from.add(i) * self.spec.scale };
                }
            }
        }
    }

    fn start_whole(&self, item: &Item<'_>, own: &Own) {
        for r in 0..item.n_rows * self.group() {
            // SAFETY: this thread's scratch.
            unsafe { *own.whole.total.add(r) = 0.0 };
        }
    }

    fn join(&self, item: &Item<'_>, own: &Own, later: Sums) {
        let join = Join {
            n_rows: item.n_rows * self.group(),
            n_vectors: self.cache.value_stride() / LANES,
            into: own.whole,
            later,
        };
        dispatch(self.isa, join);
    }

    /// Write the outputs of an item.
    fn finish(&self, item: &Item<'_>, own: &Own) {
        let (d, group, stride) = (self.spec.head_dim, self.group(), self.cache.value_stride());
        for r in 0..item.n_rows {
            let t = item.seq.first_row + item.first + r;
            for h in 0..group {
                let m = r * group + h;
                let to = t * self.spec.n_heads * d + (item.kv_head * group + h) * d;
                // SAFETY: this thread's scratch, and outputs that belong to this item.
                unsafe {
                    let total = *own.whole.total.add(m);
                    // A row that sees nothing (an empty tree row) attends to nothing.
                    let scale = if total > 0.0 { 1.0 / total } else { 0.0 };
                    for i in 0..d {
                        let sum =
                            if total == 0.0 { 0.0 } else { *own.whole.values.add(m * stride + i) };
                        *self.out.add(to + i) = sum * scale;
                    }
                }
            }
        }
    }
}
