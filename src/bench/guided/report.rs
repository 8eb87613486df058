//! Medians and ratios of samples.
//!
//! # Place
//! Part of `bench::guided`; pure.

use super::Sample;

/// The middle of some numbers; `None` of nothing.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.retain(|v| v.is_finite());
    values.sort_by(f64::total_cmp);
    let n = values.len();
    match n {
        0 => None,
        _ if n % 2 == 1 => Some(values[n / 2]),
        _ => Some((values[n / 2 - 1] + values[n / 2]) / 2.0),
    }
}

/// How one setting compares to another over the functions that both wrote.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Functions with at least two tokens under both.
    pub n: usize,
    /// Median of the ratios of time per token, function by function.
    pub of_medians: f64,
    /// All decoding time over all tokens, one against the other.
    pub of_sums: f64,
}

/// Time per written token under `setting` over that under `base`; `None` when no function has both.
pub fn ratios(samples: &[Sample], setting: &str, base: &str) -> Option<Ratio> {
    let of = |label: &str| samples.iter().filter(move |s| s.setting == label).collect::<Vec<_>>();
    let (tested, based) = (of(setting), of(base));
    let mut each = Vec::new();
    let mut sums = [0.0; 4];
    for (a, b) in tested.iter().zip(&based) {
        debug_assert_eq!(a.function, b.function, "samples come function by function");
        if let (Some(x), Some(y)) = (a.ms_per_token(), b.ms_per_token()) {
            each.push(x / y);
            let more = [a.decode_ms, (a.n_tokens - 1) as f64, b.decode_ms, (b.n_tokens - 1) as f64];
            sums.iter_mut().zip(more).for_each(|(sum, x)| *sum += x);
        }
    }
    let n = each.len();
    Some(Ratio { n, of_medians: median(each)?, of_sums: (sums[0] / sums[1]) / (sums[2] / sums[3]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_take_the_middle_and_leave_out_what_is_no_number() {
        assert_eq!(median(vec![3.0, 1.0, f64::NAN, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
    }
}
