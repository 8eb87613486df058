//! The likeliest ids of a row of logits, without bringing the row to the host.
//!
//! # Place
//! Part of `device::cuda`, a piece of [`CudaBackend`].

use super::backend::CudaBackend;
use super::driver::{DevicePtr, Launch};
use super::kernel;
use super::params::TopParams;
use super::queue::Cost;
use super::staging::Section;
use crate::base::limit;
use crate::device::{BufferId, DeviceError, TopRow};

/// Ids of a block, and words before its list; see `kernels/top.cuh`.
const PART_IDS: usize = 2048;
const HEAD: usize = 8;
const N_SHARED: usize = 64 + 64;

fn words(k: usize) -> usize {
    HEAD + 2 * k
}

impl CudaBackend {
    /// Make room for lists out of `n_ids` ids.
    pub(super) fn reserve_top(&mut self, n_ids: usize) -> Result<(), DeviceError> {
        let n_parts = n_ids.div_ceil(PART_IDS);
        self.reserve(|s| &mut s.parts, n_parts * words(limit::LOGPROBS_MAX))?;
        self.reserve(|s| &mut s.best, words(limit::LOGPROBS_MAX))?;
        Ok(())
    }

    /// As [`crate::device::Backend::top`], of the row that begins at element `first`.
    pub(super) fn top_row(
        &mut self,
        logits: BufferId,
        first: usize,
        n_valid: usize,
        mask: Option<&[u32]>,
        k: usize,
    ) -> Result<TopRow, DeviceError> {
        assert!(mask.is_none_or(|m| m.len() * 32 >= n_valid), "the mask is too short");
        let k = k.min(limit::LOGPROBS_MAX);
        let n_parts = n_valid.div_ceil(PART_IDS);
        let parts = self.reserve(|s| &mut s.parts, n_parts * words(k))?;
        let out = self.reserve(|s| &mut s.best, words(k))?;
        let mask = match mask {
            Some(words) => self.queue.put(Section::Mask, bytemuck::cast_slice(words))?,
            None => DevicePtr::NONE,
        };
        let params = TopParams {
            logits: self.buffer_at(logits, first + n_valid).at(4 * first),
            mask,
            parts,
            out,
            n_valid: n_valid as u32,
            k: k as u32,
            n_parts: n_parts as u32,
            pad: 0,
        };
        let cost = Cost::bytes(4 * n_valid);
        self.queue.push(Launch::new(kernel::TOP_PART, [n_parts, 1, 1], N_SHARED, &params), cost);
        let cost = Cost::bytes(4 * n_parts * words(k));
        self.queue.push(Launch::new(kernel::TOP_MERGE, [1, 1, 1], N_SHARED, &params), cost);
        let mut found = vec![0u32; words(k)];
        self.queue.read(out, bytemuck::cast_slice_mut(&mut found))?;
        let float = |i: usize| f32::from_bits(found[i]);
        let pair = |i: usize| (found[i] != u32::MAX).then(|| (found[i], float(i + 1)));
        let largest = f64::from(float(2));
        Ok(TopRow {
            best: pair(0),
            log_sum: largest + f64::from(float(3)).ln(),
            log_sum_allowed: largest + f64::from(float(4)).ln(),
            likeliest: (0..k).filter_map(|i| pair(HEAD + 2 * i)).collect(),
        })
    }
}
