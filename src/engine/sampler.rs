//! Choosing a token from a row of logits on the host.
//!
//! # Place
//! Part of `engine`. Greedy rows without a penalty never come here: the device takes their arg-max.
//! # Invariants
//! - Order: repetition penalty, mask, temperature, top-k, top-p, min-p, draw. The best allowed token
//!   always survives, so an allowed row always yields a token.
//! - Ties go to the lowest id; a NaN logit is never chosen.

use super::SamplingParams;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The random stream and scratch space of one sequence.
#[derive(Debug)]
pub(super) struct Sampler {
    rng: ChaCha8Rng,
    order: Vec<u32>,
    weights: Vec<f32>,
}

impl Sampler {
    pub(super) fn new(seed: u64) -> Self {
        Self { rng: ChaCha8Rng::seed_from_u64(seed), order: Vec::new(), weights: Vec::new() }
    }

    /// A token among those allowed by `mask` (bit per id; all when `None`), or `None` when nothing is
    /// allowed. `logits` is changed. `seen` are the ids that the repetition penalty applies to.
    pub(super) fn sample(
        &mut self,
        logits: &mut [f32],
        params: &SamplingParams,
        seen: &[u32],
        mask: Option<&[u32]>,
    ) -> Option<u32> {
        penalise(logits, params.repetition_penalty, seen);
        self.order.clear();
        self.order.extend((0..logits.len() as u32).filter(|&id| {
            let allowed = mask.is_none_or(|m| m[id as usize / 32] >> (id % 32) & 1 == 1);
            allowed && !logits[id as usize].is_nan()
        }));
        let better = |a: &u32, b: &u32| {
            logits[*b as usize].total_cmp(&logits[*a as usize]).then_with(|| a.cmp(b))
        };
        if params.is_greedy() {
            return self.order.iter().copied().min_by(better);
        }
        if params.top_k > 0 && params.top_k < self.order.len() {
            self.order.select_nth_unstable_by(params.top_k, better);
            self.order.truncate(params.top_k);
        }
        let best =
            self.order.iter().map(|&id| logits[id as usize]).fold(f32::NEG_INFINITY, f32::max);
        if best == f32::NEG_INFINITY {
            return self.order.first().copied();
        }
        let scale = 1.0 / params.temperature;
        let weight = |id: u32| ((logits[id as usize] - best) * scale).exp();
        if params.top_p < 1.0 {
            let total: f64 = self.order.iter().map(|&id| f64::from(weight(id))).sum();
            let target = f64::from(params.top_p) * total;
            let keep = nucleus(&mut self.order, target, &better, &weight);
            self.order.truncate(keep);
        }
        self.weights.clear();
        self.weights.extend(self.order.iter().map(|&id| weight(id)));
        // Weights are relative to the best token, whose weight is 1.
        for w in &mut self.weights {
            if *w < params.min_p {
                *w = 0.0;
            }
        }
        let total: f64 = self.weights.iter().map(|&w| f64::from(w)).sum();
        let unit = self.rng.next_u64() as f64 / (u64::MAX as f64 + 1.0);
        let mut left = unit * total;
        let mut last = None;
        for (&id, &w) in self.order.iter().zip(&self.weights) {
            if w > 0.0 {
                last = Some(id);
                left -= f64::from(w);
                if left < 0.0 {
                    break;
                }
            }
        }
        last
    }
}

/// Move the most likely tokens to the front, in order, and say how many of them reach `target`.
/// Sorts a growing head instead of 50,000 tokens.
fn nucleus(
    order: &mut [u32],
    target: f64,
    better: &impl Fn(&u32, &u32) -> std::cmp::Ordering,
    weight: &impl Fn(u32) -> f32,
) -> usize {
    let mut n_sorted = 128.min(order.len());
    loop {
        if n_sorted < order.len() {
            order.select_nth_unstable_by(n_sorted, better);
        }
        order[..n_sorted].sort_unstable_by(better);
        let mut sum = 0.0;
        for (i, &id) in order[..n_sorted].iter().enumerate() {
            sum += f64::from(weight(id));
            if sum >= target {
                return i + 1;
            }
        }
        if n_sorted == order.len() {
            return n_sorted;
        }
        n_sorted = (n_sorted * 8).min(order.len());
    }
}

fn penalise(logits: &mut [f32], penalty: f32, seen: &[u32]) {
    if penalty == 1.0 {
        return;
    }
    let mut ids = seen.to_vec();
    ids.sort_unstable();
    ids.dedup();
    for id in ids {
        let Some(logit) = logits.get_mut(id as usize) else {
            continue;
        };
        *logit = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(
        logits: &[f32],
        params: &SamplingParams,
        mask: Option<&[u32]>,
        seed: u64,
    ) -> Option<u32> {
        Sampler::new(seed).sample(&mut logits.to_vec(), params, &[], mask)
    }

    fn params(temperature: f32) -> SamplingParams {
        SamplingParams { temperature, ..SamplingParams::greedy() }
    }

    #[test]
    fn greedy_by_temperature_by_top_k_and_by_tiny_top_p_agree_and_ties_go_to_the_lowest_id() {
        let logits = [2.0, 5.0, 5.0, 1.0];
        assert_eq!(sample(&logits, &params(0.0), None, 1), Some(1));
        assert_eq!(sample(&logits, &SamplingParams { top_k: 1, ..params(1.0) }, None, 1), Some(1));
        assert_eq!(
            sample(&logits, &SamplingParams { top_p: 0.0, ..params(1.0) }, None, 1),
            Some(1)
        );
    }

    #[test]
    fn a_mask_with_no_bit_gives_no_token() {
        assert_eq!(sample(&[1.0, 2.0], &params(1.0), Some(&[0]), 1), None);
        assert_eq!(sample(&[1.0, 2.0], &params(0.0), Some(&[0]), 1), None);
    }

    #[test]
    fn the_mask_is_applied_before_the_cuts() {
        let logits = [9.0, 8.0, 1.0, 0.5];
        let p = SamplingParams { top_k: 2, ..params(1.0) };
        for seed in 0..50 {
            let id = sample(&logits, &p, Some(&[0b1100]), seed).expect("two are allowed");
            assert!(id == 2 || id == 3);
        }
    }

    #[test]
    fn frequencies_follow_the_softmax() {
        let logits = [0.0, (3.0f32).ln()];
        let mut sampler = Sampler::new(7);
        let n = 4000;
        let ones = (0..n)
            .filter(|_| sampler.sample(&mut logits.to_vec(), &params(1.0), &[], None) == Some(1))
            .count();
        let share = ones as f64 / f64::from(n);
        assert!((share - 0.75).abs() < 0.03, "expected 0.75, saw {share}");
    }

    #[test]
    fn equal_seeds_repeat_and_different_seeds_differ() {
        let logits: Vec<f32> = (0..64).map(|i| (i % 7) as f32 * 0.1).collect();
        let draw = |seed| {
            let mut s = Sampler::new(seed);
            (0..20)
                .map(|_| s.sample(&mut logits.clone(), &params(1.0), &[], None))
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn min_p_and_the_penalty_change_what_can_be_drawn() {
        let logits = [4.0, 3.9, 0.0];
        let p = SamplingParams { min_p: 0.5, ..params(1.0) };
        assert!((0..100).all(|s| sample(&logits, &p, None, s) != Some(2)));
        let p = SamplingParams { repetition_penalty: 2.0, ..params(0.0) };
        let got = Sampler::new(0).sample(&mut logits.to_vec(), &p, &[0, 0], None);
        assert_eq!(got, Some(1), "the seen token was divided once");
    }

    #[test]
    fn nan_and_infinite_logits_are_survived() {
        assert_eq!(sample(&[f32::NAN, 1.0], &params(1.0), None, 3), Some(1));
        assert_eq!(sample(&[f32::NEG_INFINITY; 2], &params(1.0), None, 3), Some(0));
    }
}
