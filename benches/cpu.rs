//! How fast the CPU backend is: weights read per second, products per second, and a whole step of a
//! SmolLM2-135M-shaped decoder on made-up weights. `cargo bench --bench cpu -- [gemv|gemm|model]… [isa] [threads=N] [rows=N]`.
//!
//! # Place
//! Uses the library's `device` folder only. Prints; every figure is the median of short runs, with the best beside it.
#![allow(clippy::print_stdout, clippy::unwrap_used)] // a program for people

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use tether::base::DType;
use tether::device::cpu::{CpuBackend, Isa};
use tether::device::{
    Activation, Attention, Backend, BufferId, KvId, KvShape, KvType, MatrixId, MatrixSource,
    RopeStore, RopeStyle, SeqRows, Stacking, StepRows, VectorId,
};

const TYPES: [DType; 11] = [
    DType::Q4_1,
    DType::Q8_0,
    DType::Q4_0,
    DType::Q5_0,
    DType::Q5_1,
    DType::Q4K,
    DType::Q5K,
    DType::Q6K,
    DType::F16,
    DType::BF16,
    DType::F32,
];

/// How long one figure may take.
const BUDGET: Duration = Duration::from_millis(600);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let has = |name: &str| args.iter().any(|a| a == name);
    let all = !["gemv", "gemm", "model", "attention", "pool"].iter().any(|n| has(n));
    let isa = Isa::ALL.into_iter().find(|isa| has(isa.name())).unwrap_or(Isa::best());
    let threads: Vec<usize> = args
        .iter()
        .find_map(|a| a.strip_prefix("threads=")?.parse().ok())
        .map_or_else(|| vec![1, 2], |n| vec![n]);
    let rows: Vec<usize> =
        args.iter().filter_map(|a| a.strip_prefix("rows=")?.parse().ok()).collect();
    let rows = if rows.is_empty() { vec![192] } else { rows };
    for n in threads {
        let make = || CpuBackend::with_isa(NonZeroUsize::new(n), isa).unwrap();
        println!("{}", make().description());
        let types: Vec<DType> = TYPES.into_iter().filter(|t| has(t.name())).collect();
        let types = if types.is_empty() { TYPES.to_vec() } else { types };
        for &dtype in &types {
            if all || has("gemv") {
                gemv(&mut make(), dtype);
            }
            if all || has("gemm") {
                for &rows in &rows {
                    gemm(&mut make(), dtype, rows);
                }
            }
        }
        if all || has("attention") {
            attention(&mut make());
        }
        if all || has("pool") {
            meetings(&mut make());
        }
        if all || has("model") {
            for &dtype in types.iter().filter(|t| t.block_len() == 32) {
                Model::new(make(), dtype).measure();
            }
        }
    }
}

/// Seconds of one call: median and best.
fn time(mut f: impl FnMut()) -> (f64, f64) {
    f();
    let mut samples = Vec::new();
    let start = Instant::now();
    while start.elapsed() < BUDGET || samples.len() < 5 {
        let one = Instant::now();
        f();
        samples.push(one.elapsed().as_secs_f64());
    }
    samples.sort_by(f64::total_cmp);
    (samples[samples.len() / 2], samples[0])
}

fn weights(
    backend: &mut CpuBackend,
    dtype: DType,
    shapes: &[(usize, usize)],
    stacking: Stacking,
) -> MatrixId {
    // 0x2C2C is 0.07 as f16: no scale is zero, infinite or denormal.
    let size = |&(r, c): &(usize, usize)| r * c / dtype.block_len() * dtype.block_bytes();
    let data: Vec<Vec<u8>> = shapes.iter().map(|s| vec![0x2C; size(s)]).collect();
    let parts: Vec<MatrixSource<'_>> = shapes
        .iter()
        .zip(&data)
        .map(|(&(rows, cols), data)| MatrixSource { dtype, rows, cols, data })
        .collect();
    backend.matrix(&parts, stacking).unwrap()
}

fn buffer(backend: &mut CpuBackend, n: usize) -> BufferId {
    let id = backend.buffer(n).unwrap();
    let values: Vec<f32> = (0..n).map(|i| (i as f32 * 0.37).sin()).collect();
    backend.write(id, 0, &values).unwrap();
    id
}

fn gemv(backend: &mut CpuBackend, dtype: DType) {
    // Many matrices in turn, together larger than the last-level cache, each a fraction of a millisecond.
    let (rows, cols, n_matrices) = (1536, 1536, 48);
    let w: Vec<MatrixId> =
        (0..n_matrices).map(|_| weights(backend, dtype, &[(rows, cols)], Stacking::Rows)).collect();
    let (x, out) = (buffer(backend, cols), buffer(backend, rows));
    let bytes = (rows * cols / dtype.block_len() * dtype.block_bytes()) as f64;
    let mut turn = 0;
    let (median, best) = time(|| {
        turn = (turn + 1) % n_matrices;
        backend.matmul_add(x, w[turn], None, out, 1, &[]).unwrap();
    });
    let (median, best) = (bytes / median / 1e9, bytes / best / 1e9);
    println!("  gemv {:5} {median:6.1} GB/s (best {best:.1})", dtype.name());
}

fn gemm(backend: &mut CpuBackend, dtype: DType, n: usize) {
    let (rows, cols) = (576, 1536);
    let w = weights(backend, dtype, &[(rows, cols)], Stacking::Rows);
    let (x, out) = (buffer(backend, n * cols), buffer(backend, n * rows));
    let macs = (rows * cols * n) as f64;
    let (median, best) = time(|| backend.matmul_add(x, w, None, out, n, &[]).unwrap());
    let (median, best) = (macs / median / 1e9, macs / best / 1e9);
    println!("  gemm {:5} × {n} rows {median:6.0} GMAC/s (best {best:.0})", dtype.name());
}

fn meetings(backend: &mut CpuBackend) {
    // The smallest product: little but the meeting of the threads.
    let w = weights(backend, DType::Q8_0, &[(32, 32)], Stacking::Rows);
    let (x, out) = (buffer(backend, 32), buffer(backend, 32));
    let (median, best) = time(|| {
        for _ in 0..1000 {
            backend.matmul_add(x, w, None, out, 1, &[]).unwrap();
        }
    });
    println!("  region {:.2} µs (best {:.2})", median * 1e3, best * 1e3);
}

const LAYERS: usize = 30;
const C: usize = 576;
const H: usize = 9;
const HK: usize = 3;
const D: usize = 64;
const F: usize = 1536;
const V: usize = 49_152;
const BLOCK: usize = 32;
const CONTEXT: usize = 2048;

const SPEC: Attention =
    Attention { n_heads: H, n_kv_heads: HK, head_dim: D, scale: 0.125, window: None };

fn cache(backend: &mut CpuBackend) -> KvId {
    let shape = KvShape {
        n_layers: LAYERS,
        n_blocks: CONTEXT / BLOCK,
        block_tokens: BLOCK,
        n_kv_heads: HK,
        head_dim: D,
        dtype: KvType::F16,
    };
    backend.kv_store(shape).unwrap()
}

fn with_step<T>(past: usize, n: usize, f: impl FnOnce(&StepRows<'_>) -> T) -> T {
    let positions: Vec<u32> = (past..past + n).map(|p| p as u32).collect();
    let blocks: Vec<u32> = (0..(CONTEXT / BLOCK) as u32).collect();
    let seqs = [SeqRows { first_row: 0, n_rows: n, past, blocks: &blocks, tree: None }];
    f(&StepRows { n_rows: n, positions: &positions, slots: &positions, seqs: &seqs })
}

fn attention(backend: &mut CpuBackend) {
    let kv = cache(backend);
    let width = (H + 2 * HK) * D;
    for (past, n) in [(0, 512), (1536, 512), (128, 1), (512, 1), (2000, 1)] {
        let (qkv, out) = (buffer(backend, n * width), buffer(backend, n * H * D));
        let rope = rope(None);
        with_step(past, n, |step| {
            let (rope_median, _) = time(|| backend.rope_store(qkv, &rope, kv, 0, step).unwrap());
            let (median, best) = time(|| backend.attention(qkv, &SPEC, kv, 0, step, out).unwrap());
            let macs = (2 * n * H * D) as f64 * (past as f64 + (n as f64 + 1.0) / 2.0);
            println!(
                "  attention past {past} rows {n}: {:.1} µs (best {:.1}), {:.1} GMAC/s; rope_store {:.1} µs",
                median * 1e6,
                best * 1e6,
                macs / median / 1e9,
                rope_median * 1e6,
            );
        });
    }
}

fn rope(inv_freq: Option<VectorId>) -> RopeStore {
    RopeStore {
        n_heads: H,
        n_kv_heads: HK,
        head_dim: D,
        style: RopeStyle::Interleaved,
        inv_freq,
        q_norm: None,
        k_norm: None,
        eps: 1e-5,
    }
}

/// A decoder of SmolLM2's shape.
struct Model {
    dtype: DType,
    backend: CpuBackend,
    layers: Vec<[MatrixId; 4]>,
    head: MatrixId,
    norm: VectorId,
    rope: RopeStore,
    kv: KvId,
    x: BufferId,
    qkv: BufferId,
    heads: BufferId,
    gated: BufferId,
    last: BufferId,
    logits: BufferId,
    /// Every duration of each stage.
    spent: [Vec<f64>; 8],
}

const STAGES: [&str; 8] = ["embed", "qkv", "rope", "attention", "o", "gate/up", "down", "head"];

impl Model {
    fn new(mut backend: CpuBackend, dtype: DType) -> Self {
        let start = Instant::now();
        let layers = (0..LAYERS)
            .map(|_| {
                let b = &mut backend;
                [
                    weights(b, dtype, &[(H * D, C), (HK * D, C), (HK * D, C)], Stacking::Rows),
                    weights(b, dtype, &[(C, H * D)], Stacking::Rows),
                    weights(b, dtype, &[(F, C), (F, C)], Stacking::GatedPair),
                    weights(b, dtype, &[(C, F)], Stacking::Rows),
                ]
            })
            .collect();
        let head = weights(&mut backend, DType::Q8_0, &[(V, C)], Stacking::Rows);
        println!(
            "  model {:5} laid out in {:.0} ms",
            dtype.name(),
            start.elapsed().as_secs_f64() * 1e3
        );
        let norm = backend.vector(&[1.0; C]).unwrap();
        let freqs: Vec<f32> = (0..D / 2).map(|i| 1e5f32.powf(-(i as f32) / 32.0)).collect();
        let inv_freq = backend.vector(&freqs).unwrap();
        let kv = cache(&mut backend);
        let mut buffer = |n: usize| backend.buffer(n).unwrap();
        let (x, qkv) = (buffer(512 * C), buffer(512 * (H + 2 * HK) * D));
        let (heads, gated) = (buffer(512 * H * D), buffer(512 * F));
        let (last, logits) = (buffer(C), buffer(V));
        Self {
            dtype,
            backend,
            layers,
            head,
            norm,
            rope: rope(Some(inv_freq)),
            kv,
            x,
            qkv,
            heads,
            gated,
            last,
            logits,
            spent: Default::default(),
        }
    }

    fn step(&mut self, past: usize, n: usize) -> u32 {
        let ids: Vec<u32> = (0..n as u32).map(|i| i * 7 % V as u32).collect();
        with_step(past, n, |step| self.forward(&ids, step))
    }

    fn forward(&mut self, ids: &[u32], step: &StepRows<'_>) -> u32 {
        let n = ids.len();
        let b = &mut self.backend;
        let spent = &mut self.spent;
        let mut last = Instant::now();
        let mut mark = |stage: usize| {
            let now = Instant::now();
            spent[stage].push((now - last).as_secs_f64());
            last = now;
        };
        b.embed(self.head, ids, self.x).unwrap();
        mark(0);
        for (layer, [qkv, o, gate_up, down]) in self.layers.iter().enumerate() {
            b.norm_matmul(self.x, self.norm, 1e-5, *qkv, None, self.qkv, n, &[]).unwrap();
            mark(1);
            b.rope_store(self.qkv, &self.rope, self.kv, layer, step).unwrap();
            mark(2);
            b.attention(self.qkv, &SPEC, self.kv, layer, step, self.heads).unwrap();
            mark(3);
            b.matmul_add(self.heads, *o, None, self.x, n, &[]).unwrap();
            mark(4);
            b.norm_gated(self.x, self.norm, 1e-5, *gate_up, Activation::Silu, self.gated, n, &[])
                .unwrap();
            mark(5);
            b.matmul_add(self.gated, *down, None, self.x, n, &[]).unwrap();
            mark(6);
        }
        b.gather(self.x, C, &[n as u32 - 1], self.last).unwrap();
        b.norm_matmul(self.last, self.norm, 1e-5, self.head, None, self.logits, 1, &[]).unwrap();
        let id = b.argmax(self.logits, V, 0, V, None).unwrap().unwrap();
        mark(7);
        id
    }

    fn measure(&mut self) {
        self.step(0, 512);
        self.spent = Default::default();
        let (median, best) = time(|| {
            self.step(0, 512);
        });
        let name = self.dtype.name();
        println!(
            "  model {name:5} prefill 512: {:.0} tokens/s (best {:.0})",
            512.0 / median,
            512.0 / best
        );
        self.shares(512);
        self.spent = Default::default();
        let mut past = 512;
        let (median, best) = time(|| {
            past = if past == 639 { 512 } else { past + 1 };
            self.step(past, 1);
        });
        println!("  model {name:5} decode: {:.0} tokens/s (best {:.0})", 1.0 / median, 1.0 / best);
        self.shares(1);
    }

    /// Where the time goes, by the fifth percentile of each stage: on a busy machine the sum says what a
    /// quiet one would do.
    fn shares(&mut self, n_tokens: usize) {
        let quiet = |times: &mut Vec<f64>, stage: usize| {
            times.sort_by(f64::total_cmp);
            let per_step = if (1..7).contains(&stage) { LAYERS } else { 1 };
            times[times.len() / 20] * per_step as f64
        };
        let mut times = [0.0; 8];
        for (stage, all) in self.spent.iter_mut().enumerate() {
            times[stage] = quiet(all, stage);
        }
        let total: f64 = times.iter().sum();
        let shares =
            STAGES.iter().zip(&times).map(|(stage, t)| format!("{stage} {:.0} µs", 1e6 * t));
        let shares = shares.collect::<Vec<_>>().join(", ");
        println!("    quiet: {:.0} tokens/s; {shares}", n_tokens as f64 / total);
    }
}
