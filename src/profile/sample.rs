//! Repeated measurements of one quantity.
//!
//! # Place
//! Part of `profile`; pure.

/// All samples of a quantity, in the order they were taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples(pub Vec<f64>);

impl Samples {
    /// The middle value (mean of the two middle ones); `None` without samples.
    pub fn median(&self) -> Option<f64> {
        self.percentile(50.0)
    }

    /// Linear interpolation between the closest ranks; `None` without samples.
    pub fn percentile(&self, p: f64) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = p.clamp(0.0, 100.0) / 100.0 * last as f64;
        let (low, share) = (at.floor() as usize, at.fract());
        let high = (low + 1).min(last);
        Some(sorted[low] + (sorted[high] - sorted[low]) * share)
    }
}

#[cfg(test)]
mod tests {
    use super::Samples;

    #[test]
    fn percentiles_interpolate_and_nothing_has_none() {
        let s = Samples(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!(s.median(), Some(2.5));
        assert_eq!((s.percentile(0.0), s.percentile(100.0)), (Some(1.0), Some(4.0)));
        assert_eq!(Samples(vec![7.0]).percentile(99.0), Some(7.0));
        assert_eq!(Samples::default().median(), None);
    }
}
