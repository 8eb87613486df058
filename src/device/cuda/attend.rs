//! Which blocks of attention run for the rows of a step.
//!
//! # Place
//! Part of `device::cuda`. Pure: from the step's sequences to work lists and array contents.
//! # Invariants
//! - What a block computes for a row does not depend on which list it came from (`kernels/common/attention.cuh`);
//!   the choice is only about speed.

use super::params::{AttendItem, SeqView};
use crate::base::limit::ATTENTION_PARTIALS_MAX;
use crate::device::{Attention, StepRows};

/// Keys of a split; see `kernels/common/attention.cuh`.
pub(super) const SPLIT_KEYS: usize = 128;
/// Query pairs (row, head of a key-value head) of an item of `attend_split` and of `attend_rows`.
const SPLIT_PAIRS: usize = 16;
const ROW_PAIRS: usize = 64;
const NO_TREE: u32 = u32::MAX;

/// The arrays that describe a step's sequences. They are the same for every layer.
#[derive(Debug, Default, PartialEq)]
pub(super) struct StepArrays {
    pub(super) seqs: Vec<SeqView>,
    pub(super) row_seqs: Vec<u32>,
    pub(super) blocks: Vec<u32>,
    pub(super) tree: Vec<u64>,
}

impl PartialEq for SeqView {
    fn eq(&self, other: &Self) -> bool {
        bytemuck::bytes_of(self) == bytemuck::bytes_of(other)
    }
}

/// Work lists of one layer's attention.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Few rows over splits in parallel.
    pub(super) split: Vec<AttendItem>,
    /// Most splits of an item, rounded up to a power of two so that growing texts keep one launch shape.
    pub(super) splits_max: usize,
    /// Many rows, all splits in turn.
    pub(super) rows: Vec<AttendItem>,
    pub(super) split_load: Load,
    pub(super) rows_load: Load,
}

/// What the items of a list read and multiply, for each key-value head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// Keys, counted once for each item.
    pub(super) keys: usize,
    /// Keys times query pairs.
    pub(super) scores: usize,
}

/// Describe the sequences of a step. `group`: query heads of a key-value head.
pub(super) fn arrays(step: &StepRows<'_>, group: usize) -> (StepArrays, Vec<bool>) {
    let mut arrays = StepArrays::default();
    let mut is_split = Vec::with_capacity(step.seqs.len());
    let mut n_partials = 0;
    for (i, seq) in step.seqs.iter().enumerate() {
        let n_splits = (seq.past + seq.n_rows).div_ceil(SPLIT_KEYS);
        let fits = n_partials + seq.n_rows * n_splits <= ATTENTION_PARTIALS_MAX;
        let few = seq.n_rows * group <= ROW_PAIRS && fits;
        is_split.push(few);
        arrays.seqs.push(SeqView {
            first_row: seq.first_row as u32,
            n_rows: seq.n_rows as u32,
            past: seq.past as u32,
            first_block: arrays.blocks.len() as u32,
            first_word: seq.tree.map_or(NO_TREE, |_| arrays.tree.len() as u32),
            first_partial: if few { n_partials as u32 } else { 0 },
            n_splits: n_splits as u32,
            pad: 0,
        });
        if few {
            n_partials += seq.n_rows * n_splits;
        }
        arrays.row_seqs.extend(std::iter::repeat_n(i as u32, seq.n_rows));
        arrays.blocks.extend_from_slice(seq.blocks);
        arrays.tree.extend(seq.tree.unwrap_or_default());
    }
    (arrays, is_split)
}

/// The items of every sequence under the layer's window.
pub(super) fn work(
    step: &StepRows<'_>,
    arrays: &StepArrays,
    is_split: &[bool],
    spec: &Attention,
) -> Work {
    let group = spec.n_heads / spec.n_kv_heads;
    let mut work = Work::default();
    for (i, seq) in step.seqs.iter().enumerate() {
        let (pairs, list, load) = if is_split[i] {
            (SPLIT_PAIRS, &mut work.split, &mut work.split_load)
        } else {
            (ROW_PAIRS, &mut work.rows, &mut work.rows_load)
        };
        for first_pair in (0..seq.n_rows * group).step_by(pairs) {
            let rows = first_pair / group..(first_pair + pairs).div_ceil(group).min(seq.n_rows);
            let positions = &step.positions[seq.first_row + rows.start..seq.first_row + rows.end];
            let first_key = spec.window.map_or(0, |window| {
                let lowest = positions.iter().min().map_or(0, |&p| p as usize);
                (lowest + 1).saturating_sub(window).min(seq.past)
            });
            let end_key =
                if seq.tree.is_some() { seq.past + seq.n_rows } else { seq.past + rows.end };
            let n_keys = end_key.saturating_sub(first_key / SPLIT_KEYS * SPLIT_KEYS);
            load.keys += n_keys;
            load.scores += n_keys * pairs.min(seq.n_rows * group - first_pair);
            list.push(AttendItem {
                seq: i as u32,
                first_pair: first_pair as u32,
                first_split: (first_key / SPLIT_KEYS) as u32,
                end_split: (end_key.div_ceil(SPLIT_KEYS) as u32).min(arrays.seqs[i].n_splits),
            });
        }
    }
    let splits = work.split.iter().map(|item| (item.end_split - item.first_split) as usize);
    work.splits_max = splits.max().unwrap_or(0).next_power_of_two();
    work
}
