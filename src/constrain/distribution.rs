//! Probabilities from a row of logits, and the mass of the tokens that end a name.
//!
//! # Place
//! Uses `base` and masks. Part of the policies that compare whole names; the sampler has its own.
//! # Invariants
//! Sums run in a fixed order over 32 lanes, so a row always gives the same numbers.

use crate::base::TokenId;

use super::TokenMask;

/// A softmax over one row of logits, as far as it is needed: log-probabilities of single tokens and the
/// mass of sets.
#[derive(Clone, Copy, Debug)]
pub struct Distribution<'a> {
    logits: &'a [f32],
    max: f32,
    /// Natural logarithm of the sum of `exp(logit - max)`.
    log_sum: f64,
}

impl<'a> Distribution<'a> {
    /// Read a row, one pass over it. Logits that are not numbers count as impossible.
    pub fn new(logits: &'a [f32]) -> Self {
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut row = Self { logits, max, log_sum: 0.0 };
        row.log_sum = row.sum_exp(|_| u32::MAX).ln();
        row
    }

    /// `ln p(token)`; negative infinity for tokens outside the row.
    pub fn log_prob(&self, token: TokenId) -> f64 {
        match self.logits.get(token.index()) {
            Some(&logit) if logit > f32::NEG_INFINITY && logit.is_finite() => {
                f64::from(logit - self.max) - self.log_sum
            }
            _ => f64::NEG_INFINITY,
        }
    }

    /// `p(token)`.
    pub fn prob(&self, token: TokenId) -> f64 {
        self.log_prob(token).exp()
    }

    /// `ln` of the probability that the next token is one of a set.
    pub fn log_mass(&self, set: &TokenMask) -> f64 {
        let words = set.words();
        self.sum_exp(|i| words.get(i).copied().unwrap_or(0)).ln() - self.log_sum
    }

    /// The most likely token; the lowest id of equals.
    pub fn best(&self) -> Option<TokenId> {
        let at = self.logits.iter().position(|&logit| logit == self.max)?;
        u32::try_from(at).ok().map(TokenId)
    }

    /// Sum of `exp(logit - max)` over the ids whose bit is set. Lanes keep the loop free of branches
    /// and dependencies; they are added in f64, so that 100,000 small terms are not lost.
    fn sum_exp(&self, word: impl Fn(usize) -> u32) -> f64 {
        let mut total = 0.0;
        for (i, chunk) in self.logits.chunks(32).enumerate() {
            let bits = word(i);
            if bits == 0 {
                continue;
            }
            let mut lanes = [0.0f32; 32];
            for (j, (lane, &logit)) in lanes.iter_mut().zip(chunk).enumerate() {
                let keep = (bits >> j & 1) as f32;
                *lane = exp(logit - self.max) * keep;
            }
            let mut sum = 0.0f32;
            for lane in lanes {
                sum += lane;
            }
            total += f64::from(sum);
        }
        total
    }
}

/// `exp(x)` for `x <= 0`, within 2 ulp, in a form that compiles to vector instructions: split into a
/// power of two and a polynomial on `[-ln 2 / 2, ln 2 / 2]`. Below -87, and for NaN, zero.
fn exp(x: f32) -> f32 {
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    // ln 2 in two parts, so that the product with a small integer is exact.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    /// Adding and subtracting it rounds to the nearest integer.
    const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23
    let is_zero = x.is_nan() || x <= -87.0;
    let x = if is_zero { 0.0 } else { x };
    let n = (x * LOG2_E + ROUND) - ROUND;
    let r = x - n * LN_2_HIGH - n * LN_2_LOW;
    // Taylor terms up to r^7: the error at |r| = 0.347 is below 1e-8.
    let p = 1.0 / 5040.0;
    let p = p * r + 1.0 / 720.0;
    let p = p * r + 1.0 / 120.0;
    let p = p * r + 1.0 / 24.0;
    let p = p * r + 1.0 / 6.0;
    let p = p * r + 0.5;
    let p = p * r + 1.0;
    let p = p * r + 1.0;
    let scale = f32::from_bits((((n as i32) + 127) as u32) << 23);
    if is_zero { 0.0 } else { p * scale }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_close_everywhere_it_is_used() {
        let mut x = 0.0f32;
        while x > -90.0 {
            let (got, want) = (f64::from(exp(x)), f64::from(x).exp());
            assert!((got - want).abs() <= 3e-7 * want + 1e-37, "{x}: {got} {want}");
            x -= 0.0137;
        }
        assert_eq!((exp(f32::NEG_INFINITY), exp(f32::NAN), exp(0.0)), (0.0, 0.0, 1.0));
    }

    #[test]
    fn probabilities_sum_to_one_and_masses_add_up() {
        let logits: Vec<f32> = (0..1000).map(|i| ((i * 7919 % 613) as f32) / 40.0 - 3.0).collect();
        let row = Distribution::new(&logits);
        let sum: f64 = (0..1000).map(|i| row.prob(TokenId(i))).sum();
        assert!((sum - 1.0).abs() < 1e-5, "{sum}");
        let mut set = TokenMask::none(1000);
        for id in [0, 31, 32, 700, 999] {
            set.allow(TokenId(id));
        }
        let mass: f64 = set.ids().map(|id| row.prob(id)).sum();
        assert!((row.log_mass(&set) - mass.ln()).abs() < 1e-5);
        assert_eq!(row.log_mass(&TokenMask::none(1000)), f64::NEG_INFINITY);
        assert_eq!(row.log_prob(TokenId(1000)), f64::NEG_INFINITY);
    }

    #[test]
    fn masked_rows_and_ties_are_harmless() {
        let row = Distribution::new(&[1.0, f32::NEG_INFINITY, 1.0, f32::NAN]);
        assert_eq!(row.best(), Some(TokenId(0)));
        assert!((row.prob(TokenId(2)) - 0.5).abs() < 1e-6);
        assert_eq!(row.prob(TokenId(1)), 0.0);
        assert_eq!(row.prob(TokenId(3)), 0.0);
    }
}
