//! Medians and ratios of samples.
//!
//! # Place
//! Part of `bench::guided`; pure.

use super::{GuidedRun, Sample};
use serde::Serialize;

/// The middle of some numbers; `None` of nothing.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
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
pub(super) struct Ratio {
    /// Functions with at least two tokens under both.
    pub n: usize,
    /// Median of the ratios of time per token, function by function.
    pub of_medians: f64,
    /// All decoding time over all tokens, one against the other.
    pub of_sums: f64,
}

/// Time per written token under `setting` over that under `base`; `None` when no function has both.
pub(super) fn ratios(samples: &[Sample], setting: &str, base: &str) -> Option<Ratio> {
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

/// The functions written under one setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WritingRow {
    pub setting: &'static str,
    pub functions: usize,
    pub tokens: usize,
    pub ms_per_token_median: Option<f64>,
    pub ratio_to_unguided_median: Option<f64>,
    pub ratio_to_unguided_sums: Option<f64>,
    /// Tokens after the first, by passes after the prompt.
    pub tokens_per_pass: f64,
    pub wall_ms_median: Option<f64>,
    pub tool_ms_median: Option<f64>,
    pub asked: usize,
    pub closed: usize,
    pub changed: usize,
}

/// The accesses predicted under one setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemberRow {
    pub setting: &'static str,
    pub n: usize,
    pub right: usize,
    pub percent: f64,
    pub ms_median: Option<f64>,
}

impl GuidedRun {
    /// One row for each setting, in the order of the run.
    pub fn writing(&self) -> Vec<WritingRow> {
        let rows = labels(self.samples.iter().map(|s| s.setting)).into_iter().map(|setting| {
            let of = || self.samples.iter().filter(move |s| s.setting == setting);
            let ratio = ratios(&self.samples, setting, "unguided");
            let more = || of().filter(|s| s.n_tokens > 1);
            let n_passes: u64 = more().map(|s| s.n_passes).sum();
            let n_more: usize = more().map(|s| s.n_tokens - 1).sum();
            WritingRow {
                setting,
                functions: of().count(),
                tokens: of().map(|s| s.n_tokens).sum(),
                ms_per_token_median: median(of().filter_map(Sample::ms_per_token).collect()),
                ratio_to_unguided_median: ratio.map(|r| r.of_medians),
                ratio_to_unguided_sums: ratio.map(|r| r.of_sums),
                tokens_per_pass: n_more as f64 / n_passes.max(1) as f64,
                wall_ms_median: median(of().map(|s| s.wall_ms).collect()),
                tool_ms_median: median(of().map(|s| s.tool_ms).collect()),
                asked: of().map(|s| s.asked).sum(),
                closed: of().map(|s| s.closed).sum(),
                changed: of().map(|s| s.changed).sum(),
            }
        });
        rows.collect()
    }

    /// One row for each setting, in the order of the run.
    pub fn members(&self) -> Vec<MemberRow> {
        let rows = labels(self.accesses.iter().map(|a| a.setting)).into_iter().map(|setting| {
            let of = || self.accesses.iter().filter(move |a| a.setting == setting);
            let (n, right) = (of().count(), of().filter(|a| a.is_right).count());
            let percent = 100.0 * right as f64 / n.max(1) as f64;
            MemberRow {
                setting,
                n,
                right,
                percent,
                ms_median: median(of().map(|a| a.ms).collect()),
            }
        });
        rows.collect()
    }
}

/// Each label once, in order.
fn labels(all: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    let mut found = Vec::new();
    for label in all {
        if !found.contains(&label) {
            found.push(label);
        }
    }
    found
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
