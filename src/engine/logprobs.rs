//! How likely a chosen token was, before and after the constraint's mask, and what else was likely.
//!
//! # Place
//! Part of `engine`; pure.
//! # Shapes and units
//! Natural logarithms of probabilities at temperature 1, whatever the request samples at.

use crate::base::TokenId;
use crate::constrain::{Distribution, TokenMask};
use crate::device::TopRow;

/// The record of one token.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprobs {
    /// Over the whole vocabulary.
    pub log_prob: f64,
    /// Over the tokens that the constraint allowed; the same without a constraint.
    pub log_prob_allowed: f64,
    /// The likeliest tokens of the whole vocabulary, best first.
    pub top: Vec<TopToken>,
}

/// A likely token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TopToken {
    pub id: TokenId,
    pub log_prob: f64,
    /// `None`: the constraint forbade it.
    pub log_prob_allowed: Option<f64>,
}

impl TokenLogprobs {
    /// Of `token` in a row of logits, with the `n_top` best.
    pub(super) fn new(
        logits: &[f32],
        mask: Option<&TokenMask>,
        token: TokenId,
        n_top: usize,
    ) -> Self {
        let row = Distribution::new(logits);
        // The mass of what is allowed, as far as a sum over f32 terms can tell it from everything.
        let log_allowed = mask.map_or(0.0, |mask| row.log_mass(mask).min(0.0));
        let log_prob = row.log_prob(token);
        let mut order: Vec<u32> = Vec::new();
        if n_top > 0 {
            order.extend((0..logits.len() as u32).filter(|&id| !logits[id as usize].is_nan()));
            let better = |a: &u32, b: &u32| {
                logits[*b as usize].total_cmp(&logits[*a as usize]).then_with(|| a.cmp(b))
            };
            if n_top < order.len() {
                order.select_nth_unstable_by(n_top, better);
                order.truncate(n_top);
            }
            order.sort_unstable_by(better);
        }
        let top = order.into_iter().map(TokenId).map(|id| {
            let log_prob = row.log_prob(id);
            let is_allowed = mask.is_none_or(|mask| mask.is_allowed(id));
            TopToken {
                id,
                log_prob,
                log_prob_allowed: is_allowed.then(|| (log_prob - log_allowed).min(0.0)),
            }
        });
        Self { log_prob, log_prob_allowed: (log_prob - log_allowed).min(0.0), top: top.collect() }
    }

    /// The same from what a device found in a row: of the token with this logit, with the `n_top` best.
    pub(super) fn of_top(row: &TopRow, mask: Option<&TokenMask>, logit: f32, n_top: usize) -> Self {
        let log_allowed = mask.map_or(0.0, |_| (row.log_sum_allowed - row.log_sum).min(0.0));
        let log_prob = |logit: f32| match logit.is_finite() {
            true => (f64::from(logit) - row.log_sum).min(0.0),
            false => f64::NEG_INFINITY,
        };
        let allowed = |log_prob: f64| (log_prob - log_allowed).min(0.0);
        let top = row.likeliest.iter().take(n_top).map(|&(id, logit)| {
            let is_allowed = mask.is_none_or(|mask| mask.is_allowed(TokenId(id)));
            let log_prob = log_prob(logit);
            let log_prob_allowed = is_allowed.then(|| allowed(log_prob));
            TopToken { id: TokenId(id), log_prob, log_prob_allowed }
        });
        let log_prob = log_prob(logit);
        Self { log_prob, log_prob_allowed: allowed(log_prob), top: top.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_add_up_before_and_after_the_mask() {
        let logits = [0.0, 1.0, 2.0, 3.0];
        let mut mask = TokenMask::none(4);
        mask.allow(TokenId(0));
        mask.allow(TokenId(2));
        let free = TokenLogprobs::new(&logits, None, TokenId(3), 4);
        let sum: f64 = free.top.iter().map(|t| t.log_prob.exp()).sum();
        assert!((sum - 1.0).abs() < 1e-6);
        assert_eq!(free.log_prob, free.log_prob_allowed);
        assert_eq!(free.top.iter().map(|t| t.id.0).collect::<Vec<_>>(), [3, 2, 1, 0]);
        let held = TokenLogprobs::new(&logits, Some(&mask), TokenId(2), 9);
        let sum: f64 = held.top.iter().filter_map(|t| t.log_prob_allowed).map(f64::exp).sum();
        assert!((sum - 1.0).abs() < 1e-6);
        assert_eq!(held.top.iter().filter(|t| t.log_prob_allowed.is_none()).count(), 2);
        assert!(held.log_prob < held.log_prob_allowed);
    }

    #[test]
    fn rows_with_nan_and_ties_are_ordered_by_id() {
        let row = TokenLogprobs::new(&[1.0, f32::NAN, 1.0], None, TokenId(0), 3);
        assert_eq!(row.top.iter().map(|t| t.id.0).collect::<Vec<_>>(), [0, 2]);
    }
}
