//! Kernel runs, summed up by kernel.
//!
//! # Place
//! Part of `profile`; pure.

use crate::device::KernelRun;

/// All runs of one kernel in one phase.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelSum {
    pub name: &'static str,
    pub n_runs: usize,
    pub us: f64,
    /// What its cost model says it had to move and to compute at least.
    pub bytes: u64,
    pub ops: u64,
}

impl KernelSum {
    /// Bytes moved in a second; absent where no time was measured.
    pub fn bytes_per_s(&self) -> Option<f64> {
        (self.us > 0.0).then(|| self.bytes as f64 / (self.us * 1e-6))
    }

    /// Operations in a second.
    pub fn ops_per_s(&self) -> Option<f64> {
        (self.us > 0.0 && self.ops > 0).then(|| self.ops as f64 / (self.us * 1e-6))
    }
}

/// Sums by kernel, the one that took longest first.
pub fn by_kernel(runs: &[KernelRun]) -> Vec<KernelSum> {
    let mut sums: Vec<KernelSum> = Vec::new();
    for run in runs {
        let i = sums.iter().position(|s| s.name == run.name).unwrap_or_else(|| {
            let name = run.name;
            sums.push(KernelSum { name, n_runs: 0, us: 0.0, bytes: 0, ops: 0 });
            sums.len() - 1
        });
        let sum = &mut sums[i];
        sum.n_runs += 1;
        sum.us += run.us;
        sum.bytes += run.bytes;
        sum.ops += run.ops;
    }
    sums.sort_by(|a, b| b.us.total_cmp(&a.us).then_with(|| a.name.cmp(b.name)));
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_a_kernel_are_added_up_and_the_slowest_comes_first() {
        let run = |name, us, bytes, ops| KernelRun { name, start_us: 0.0, us, bytes, ops };
        let sums = by_kernel(&[run("a", 1.0, 10, 0), run("b", 5.0, 1, 8), run("a", 2.0, 20, 0)]);
        assert_eq!(
            sums.iter().map(|s| (s.name, s.n_runs)).collect::<Vec<_>>(),
            [("b", 1), ("a", 2)]
        );
        assert_eq!(sums[1].bytes_per_s().map(f64::round), Some(1e7));
        assert_eq!((sums[1].ops_per_s(), sums[0].ops_per_s().map(f64::round)), (None, Some(1.6e6)));
        assert_eq!(by_kernel(&[run("c", 0.0, 1, 1)])[0].bytes_per_s(), None, "not infinite");
    }
}
