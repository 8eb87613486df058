//! Rotation, the cache and attention: few rows and many, windows, trees, scattered blocks, several sequences.
//!
//! # Place
//! Tests of `kernels/rope_store.cuh` and `kernels/attend_*.cuh`.

use super::*;
use crate::device::cpu::quant::quantise_head;
use crate::device::{
    Attention, KvShape, KvType, ReferenceBackend, RopeStore, RopeStyle, SeqRows, StepRows,
};
use half::f16;

const BLOCK_TOKENS: usize = 16;

/// One sequence of a step.
#[derive(Clone, Copy)]
struct Seq {
    past: usize,
    n_rows: usize,
    is_tree: bool,
}

const fn seq(past: usize, n_rows: usize) -> Seq {
    Seq { past, n_rows, is_tree: false }
}

#[derive(Clone)]
struct Case {
    heads: (usize, usize),
    d: usize,
    kv_type: KvType,
    window: Option<usize>,
    style: RopeStyle,
    has_norms: bool,
    seqs: Vec<Seq>,
}

/// A sequence laid out: blocks, positions and slots of all its tokens, tree mask.
struct Laid {
    blocks: Vec<u32>,
    tree: Option<Vec<u64>>,
    positions: Vec<u32>,
    slots: Vec<u32>,
}

impl Case {
    fn new(heads: (usize, usize), d: usize, kv_type: KvType, seqs: &[Seq]) -> Self {
        Self {
            heads,
            d,
            kv_type,
            window: None,
            style: RopeStyle::Halves,
            has_norms: false,
            seqs: seqs.to_vec(),
        }
    }

    fn width(&self) -> usize {
        (self.heads.0 + 2 * self.heads.1) * self.d
    }

    fn n_blocks(&self) -> usize {
        self.seqs.iter().map(|s| (s.past + s.n_rows).div_ceil(BLOCK_TOKENS)).sum()
    }

    /// Blocks are dealt to the sequences in turn, so that none has neighbours.
    fn lay_out(&self) -> Vec<Laid> {
        let n_blocks = self.n_blocks();
        let step = (0..n_blocks).find(|s| s % 7 == 5 && gcd(*s, n_blocks) == 1).unwrap_or(1);
        let mut next = (0..n_blocks).map(|i| (i * step % n_blocks) as u32);
        let lay = |s: &Seq| {
            let n = s.past + s.n_rows;
            let blocks: Vec<u32> = next.by_ref().take(n.div_ceil(BLOCK_TOKENS)).collect();
            let bt = BLOCK_TOKENS as u32;
            let slots = (0..n as u32).map(|p| blocks[(p / bt) as usize] * bt + p % bt).collect();
            let mut positions: Vec<u32> = (0..n as u32).collect();
            let tree = s.is_tree.then(|| {
                // Row i hangs under row (i - 1) / 2.
                let words = s.n_rows.div_ceil(64);
                let mut tree = vec![0u64; s.n_rows * words];
                for i in 0..s.n_rows {
                    let (mut at, mut depth) = (i, 0);
                    loop {
                        tree[i * words + at / 64] |= 1 << (at % 64);
                        if at == 0 {
                            break;
                        }
                        (at, depth) = ((at - 1) / 2, depth + 1);
                    }
                    positions[s.past + i] = (s.past + depth) as u32;
                }
                tree
            });
            Laid { blocks, tree, positions, slots }
        };
        self.seqs.iter().map(lay).collect()
    }

    fn kv_shape(&self) -> KvShape {
        KvShape {
            n_layers: 2,
            n_blocks: self.n_blocks(),
            block_tokens: BLOCK_TOKENS,
            n_kv_heads: self.heads.1,
            head_dim: self.d,
            dtype: self.kv_type,
        }
    }

    fn rope(&self, backend: &mut dyn Backend) -> RopeStore {
        let mut numbers = Numbers::new(11);
        let inv_freq: Vec<f32> =
            (0..self.d / 4).map(|i| 10000f32.powf(-2.0 * i as f32 / self.d as f32)).collect();
        RopeStore {
            n_heads: self.heads.0,
            n_kv_heads: self.heads.1,
            head_dim: self.d,
            style: self.style,
            inv_freq: Some(backend.vector(&inv_freq).unwrap()),
            q_norm: self.has_norms.then(|| backend.vector(&numbers.many(self.d)).unwrap()),
            k_norm: self.has_norms.then(|| backend.vector(&numbers.many(self.d)).unwrap()),
            eps: 1e-5,
        }
    }

    /// Queries, keys and values of all tokens of each sequence.
    fn rows(&self) -> Vec<Vec<f32>> {
        let mut numbers = Numbers::new(12);
        let of = |s: &Seq| {
            numbers.many((s.past + s.n_rows) * self.width()).iter().map(|v| 2.0 * v).collect()
        };
        self.seqs.iter().map(of).collect()
    }

    /// The same after norm and rotation, by the reference.
    fn rotated(&self) -> Vec<Vec<f32>> {
        let mut backend = ReferenceBackend::new();
        let kv = backend.kv_store(self.kv_shape()).unwrap();
        let rope = self.rope(&mut backend);
        let mut rotate = |(laid, rows): (Laid, Vec<f32>)| {
            let n = laid.positions.len();
            let seqs =
                [SeqRows { first_row: 0, n_rows: n, past: 0, blocks: &laid.blocks, tree: None }];
            let step =
                StepRows { n_rows: n, positions: &laid.positions, slots: &laid.slots, seqs: &seqs };
            let qkv = write(&mut backend, &rows);
            backend.rope_store(qkv, &rope, kv, 0, &step).unwrap();
            read(&mut backend, qkv, rows.len())
        };
        self.lay_out().into_iter().zip(self.rows()).map(&mut rotate).collect()
    }

    /// Cache the past tokens, then run the step, `chunk` rows of each sequence at a time. Returns the attention of
    /// the new rows.
    fn run(&self, backend: &mut dyn Backend, chunk: usize) -> Vec<f32> {
        let laid = self.lay_out();
        let kv = backend.kv_store(self.kv_shape()).unwrap();
        let rope = self.rope(backend);
        let spec = Attention {
            n_heads: self.heads.0,
            n_kv_heads: self.heads.1,
            head_dim: self.d,
            scale: 1.0 / (self.d as f32).sqrt(),
            window: self.window,
        };
        let rows = self.rows();
        let out_width = self.heads.0 * self.d;
        let mut result: Vec<Vec<f32>> = vec![Vec::new(); self.seqs.len()];
        // The past all at once, then the new rows in chunks: (first token, tokens) of every sequence in each step.
        let n_rows_max = self.seqs.iter().map(|s| s.n_rows).max().unwrap_or(0);
        let mut steps: Vec<Vec<(usize, usize)>> =
            vec![self.seqs.iter().map(|s| (0, s.past)).collect()];
        for first in (0..n_rows_max).step_by(chunk) {
            let of =
                |s: &Seq| (s.past + first.min(s.n_rows), chunk.min(s.n_rows.saturating_sub(first)));
            steps.push(self.seqs.iter().map(of).collect());
        }
        for (i, step) in steps.iter().enumerate() {
            let total: usize = step.iter().map(|s| s.1).sum();
            if total == 0 {
                continue;
            }
            let (mut qkv, mut positions, mut slots) = (Vec::new(), Vec::new(), Vec::new());
            let mut seqs = Vec::new();
            for ((&(first, n), laid), rows) in step.iter().zip(&laid).zip(&rows) {
                if n == 0 {
                    continue;
                }
                seqs.push(SeqRows {
                    first_row: positions.len(),
                    n_rows: n,
                    past: first,
                    blocks: &laid.blocks,
                    tree: if i > 0 { laid.tree.as_deref() } else { None },
                });
                qkv.extend(&rows[first * self.width()..(first + n) * self.width()]);
                positions.extend(&laid.positions[first..first + n]);
                slots.extend(&laid.slots[first..first + n]);
            }
            let rows =
                StepRows { n_rows: total, positions: &positions, slots: &slots, seqs: &seqs };
            let qkv = write(backend, &qkv);
            backend.rope_store(qkv, &rope, kv, 1, &rows).unwrap();
            if i == 0 {
                continue;
            }
            let out = backend.buffer(total * out_width).unwrap();
            backend.attention(qkv, &spec, kv, 1, &rows, out).unwrap();
            let out = read(backend, out, total * out_width);
            let mut at = 0;
            for (&(_, n), result) in step.iter().zip(&mut result) {
                result.extend(&out[at..at + n * out_width]);
                at += n * out_width;
            }
        }
        result.concat()
    }

    /// The same in the cache's precision, one key after the other: queries, keys, values and weights are rounded
    /// to it, sums are f32.
    fn plain(&self) -> Vec<f32> {
        let round = |v: f32| match self.kv_type {
            KvType::F32 => v,
            KvType::F16 | KvType::Q8 => f16::from_f32(v).to_f32(),
            KvType::BF16 => to_bf16(v),
        };
        // Keys and values go through codes first, as they do in the reference.
        let through_codes = |mut row: Vec<f32>| {
            for head in row[self.heads.0 * self.d..].chunks_mut(self.d) {
                let mut codes = vec![0; self.d];
                let scale = quantise_head(head, &mut codes);
                head.iter_mut().zip(codes).for_each(|(v, code)| *v = f32::from(code) * scale);
            }
            row
        };
        let mut out = Vec::new();
        for ((seq, laid), rows) in self.seqs.iter().zip(self.lay_out()).zip(self.rotated()) {
            let rows: Vec<f32> = if self.kv_type == KvType::Q8 {
                rows.chunks(self.width()).flat_map(|r| through_codes(r.to_vec())).collect()
            } else {
                rows
            };
            let rows: Vec<f32> = rows.into_iter().map(round).collect();
            let at =
                |token: usize, head: usize| &rows[token * self.width() + head * self.d..][..self.d];
            for row in 0..seq.n_rows {
                for head in 0..self.heads.0 {
                    let kv_head = head / (self.heads.0 / self.heads.1);
                    let query = at(seq.past + row, head);
                    let mut weights = Vec::new();
                    for key in 0..seq.past + seq.n_rows {
                        if !self.sees(seq, &laid, row, key) {
                            continue;
                        }
                        let k = at(key, self.heads.0 + kv_head);
                        let score: f32 = query.iter().zip(k).map(|(q, k)| q * k).sum();
                        weights.push((key, score / (self.d as f32).sqrt()));
                    }
                    let largest = weights.iter().fold(f32::NEG_INFINITY, |m, w| m.max(w.1));
                    weights.iter_mut().for_each(|w| w.1 = (w.1 - largest).exp());
                    let total: f32 = weights.iter().map(|w| w.1).sum();
                    out.extend((0..self.d).map(|i| {
                        let value = |key: usize| at(key, self.heads.0 + self.heads.1 + kv_head)[i];
                        weights.iter().map(|&(key, w)| round(w) * value(key)).sum::<f32>() / total
                    }));
                }
            }
        }
        out
    }

    fn sees(&self, seq: &Seq, laid: &Laid, row: usize, key: usize) -> bool {
        let own = key.checked_sub(seq.past);
        let shown = own.is_none_or(|own| match &laid.tree {
            Some(tree) => tree[row * seq.n_rows.div_ceil(64) + own / 64] >> (own % 64) & 1 == 1,
            None => own <= row,
        });
        let (position, key_position) = (laid.positions[seq.past + row], laid.positions[key]);
        shown && self.window.is_none_or(|w| (position as usize) < key_position as usize + w)
    }

    fn n_rows_max(&self) -> usize {
        self.seqs.iter().map(|s| s.n_rows).max().unwrap_or(1)
    }

    #[track_caller]
    fn check(&self, orders: &[Order]) -> Vec<f32> {
        let all = self.n_rows_max();
        let want = self.run(&mut ReferenceBackend::new(), all);
        let plain = self.plain();
        let mut first: Option<Vec<f32>> = None;
        for &order in orders {
            let got = self.run(&mut emulated(order), all);
            let what = format!("{:?} × {} {:?} {order:?}", self.heads, self.d, self.kv_type);
            check(&what, &got, &want, &plain);
            assert!(
                first.get_or_insert_with(|| got.clone()) == &got,
                "{what}: another order, other bits"
            );
        }
        first.unwrap_or_default()
    }

    /// The rows one by one, in pairs, and all at once have the same bits.
    #[track_caller]
    fn check_chunks(&self) {
        let whole = self.run(&mut emulated(Order::Ascending), self.n_rows_max());
        for chunk in [1, 5, 24] {
            let parts = self.run(&mut emulated(Order::Ascending), chunk);
            assert!(parts == whole, "chunks of {chunk} gave other bits");
        }
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

const NARROW: [KvType; 3] = [KvType::BF16, KvType::F16, KvType::Q8];
const ALL: [KvType; 4] = [KvType::BF16, KvType::F16, KvType::Q8, KvType::F32];

#[test]
fn one_new_row_sees_its_whole_past() {
    for kv_type in ALL {
        for past in [0, 1, 31, 32, 127, 128, 300] {
            Case::new((4, 2), 16, kv_type, &[seq(past, 1)]).check(&[Order::Ascending]);
        }
    }
}

#[test]
fn heads_of_every_size_are_padded_right() {
    for kv_type in NARROW {
        for (heads, d) in [((2, 2), 8), ((6, 2), 24), ((3, 1), 64), ((2, 1), 80), ((4, 4), 128)] {
            Case::new(heads, d, kv_type, &[seq(37, 2)]).check(&[Order::Ascending]);
        }
    }
    for d in [4, 100, 256] {
        Case::new((2, 1), d, KvType::F32, &[seq(37, 2)]).check(&[Order::Ascending]);
    }
}

#[test]
fn many_rows_of_several_sequences_are_right_in_every_order() {
    for kv_type in ALL {
        let seqs = [seq(5, 40), seq(150, 1), seq(0, 3)];
        let mut case = Case::new((4, 2), 16, kv_type, &seqs);
        case.has_norms = true;
        case.style = RopeStyle::Interleaved;
        case.check(&Order::ALL);
    }
}

#[test]
fn windows_and_trees_hide_what_they_should() {
    for kv_type in [KvType::BF16, KvType::F32] {
        for window in [Some(1), Some(20), Some(500), None] {
            let seqs = [
                seq(150, 1),
                seq(140, 40),
                Seq { past: 70, n_rows: 7, is_tree: true },
                Seq { past: 3, n_rows: 70, is_tree: true },
            ];
            let mut case = Case::new((4, 2), 16, kv_type, &seqs);
            case.window = window;
            case.check(&[Order::Descending]);
        }
    }
}

#[test]
fn a_row_has_the_same_bits_whether_its_text_comes_at_once_or_in_pieces() {
    for kv_type in ALL {
        for window in [None, Some(30)] {
            let mut case = Case::new((4, 2), 16, kv_type, &[seq(120, 70), seq(3, 2)]);
            case.window = window;
            case.check_chunks();
        }
    }
}

#[test]
fn head_sizes_that_no_kernel_knows_are_refused_by_name() {
    let mut backend = emulated(Order::Ascending);
    let shape = KvShape {
        n_layers: 1,
        n_blocks: 1,
        block_tokens: 16,
        n_kv_heads: 1,
        head_dim: 192,
        dtype: KvType::F16,
    };
    let text = backend.kv_store(shape).unwrap_err().to_string();
    assert!(text.contains("192") && text.contains("up to 128") && text.contains("cpu"), "{text}");
}

#[test]
fn an_eight_bit_cache_is_off_by_about_a_hundredth() {
    let exact = Case::new((4, 2), 64, KvType::F32, &[seq(200, 3)]);
    let want = exact.run(&mut ReferenceBackend::new(), 3);
    let size = error(&want, &vec![0.0; want.len()]);
    let off = |kv_type: KvType| {
        let got = Case { kv_type, ..exact.clone() }.run(&mut emulated(Order::Ascending), 3);
        error(&got, &want) / size
    };
    let (eight, half) = (off(KvType::Q8), off(KvType::F16));
    assert!(eight < 1.5e-2, "{eight}");
    assert!(half < 1e-3 && half < eight / 4.0, "{half} with f16");
}
