//! Which functions are for training, which for validation and which for the last test.
//!
//! # Place
//! Part of `augment`; pure.
//! # Invariants
//! - All functions of a repository are in one split (unless functions are split one by one).
//! - What is in the training data is in no other split, nor anything nearly the same; likewise test data
//!   and validation data.

use super::similar::{SimilarIndex, Sketch, hash_bytes};
use rustc_hash::FxHashSet;
use serde::Serialize;

/// Names of the splits, in the order of [`Part`].
pub(super) const PARTS: [&str; 3] = ["train", "valid", "test"];

/// A split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Part {
    Train,
    Valid,
    Test,
}

impl Part {
    pub(super) const fn as_str(self) -> &'static str {
        PARTS[self as usize]
    }
}

/// How functions are split.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SplitConfig {
    /// Share of functions that are kept for validation, and for the last test.
    pub valid_share: f64,
    pub test_share: f64,
    /// Split function by function: the same repository may be in several splits.
    pub by_function: bool,
    /// Functions at least this similar (0 to 1) are the same for the purpose of splitting; `None`: only equal
    /// ones are.
    pub similarity_min: Option<f64>,
    /// What equal means: the published pair of description and signature, or the code.
    pub by_pair: bool,
    pub seed: u64,
}

/// A repository's place, by its number of functions; in the order given.
pub(super) fn assign(repos: &[(String, u64)], config: &SplitConfig) -> Vec<Part> {
    let mut parts = vec![Part::Train; repos.len()];
    if config.by_function {
        return parts;
    }
    let total: u64 = repos.iter().map(|(_, n)| n).sum();
    let mut order: Vec<usize> = (0..repos.len()).filter(|&i| repos[i].1 > 0).collect();
    order.sort_by_key(|&i| keyed(config.seed, repos[i].0.as_bytes()));
    for (part, share) in [(Part::Test, config.test_share), (Part::Valid, config.valid_share)] {
        let target = total as f64 * share;
        let mut n = 0.0;
        let mut left: Vec<usize> =
            order.iter().copied().filter(|&i| parts[i] == Part::Train).collect();
        for &i in &left {
            // One repository always stays for training, whatever the shares.
            let n_train =
                parts.iter().zip(repos).filter(|(p, r)| **p == Part::Train && r.1 > 0).count();
            let size = repos[i].1 as f64;
            if n_train > 1 && n < target && n + size <= target * 1.5 {
                parts[i] = part;
                n += size;
            }
        }
        left.retain(|&i| parts[i] == Part::Train);
        // All are too large: the smallest is better than none.
        if n == 0.0 && share > 0.0 && left.len() > 1 {
            left.sort_by_key(|&i| repos[i].1);
            parts[left[0]] = part;
        }
    }
    parts
}

/// A number that depends on a seed and a name alone.
fn keyed(seed: u64, name: &[u8]) -> u64 {
    let mut bytes = seed.to_le_bytes().to_vec();
    bytes.extend_from_slice(name);
    hash_bytes(&bytes)
}

/// A function's place when functions are split one by one.
pub(super) fn part_of_function(config: &SplitConfig, place: &str) -> Part {
    let at = keyed(config.seed, place.as_bytes()) as f64 / u64::MAX as f64;
    if at < config.test_share {
        Part::Test
    } else if at < config.test_share + config.valid_share {
        Part::Valid
    } else {
        Part::Train
    }
}

/// What identifies a function.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) key: u64,
    pub(super) sketch: Option<Sketch>,
}

impl Identity {
    pub(super) fn of(config: &SplitConfig, description: &str, signature: &str, code: &str) -> Self {
        let key = if config.by_pair {
            hash_bytes(format!("{description}\0{signature}").as_bytes())
        } else {
            let lines: Vec<&str> = code.split_whitespace().collect();
            hash_bytes(lines.join(" ").as_bytes())
        };
        Self { key, sketch: config.similarity_min.map(|_| Sketch::of(code)) }
    }
}

/// What was let into which split.
#[derive(Debug, Default)]
pub(super) struct Gate {
    keys: FxHashSet<u64>,
    /// Of the splits that were finished before this one.
    before: SimilarIndex,
    now: Vec<Sketch>,
}

impl Gate {
    /// Begin the next split: the largest first, so that the others lose what they share with it.
    pub(super) fn next_split(&mut self) {
        for sketch in self.now.drain(..) {
            self.before.insert(&sketch);
        }
    }

    /// Why a function may not come into the split, if so.
    pub(super) fn refuse(
        &mut self,
        identity: &Identity,
        config: &SplitConfig,
    ) -> Option<&'static str> {
        if !self.keys.insert(identity.key) {
            return Some("equal");
        }
        if let (Some(sketch), Some(min)) = (&identity.sketch, config.similarity_min) {
            if self.before.has(sketch, min) {
                return Some("similar");
            }
            self.now.push(sketch.clone());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn config(valid_share: f64, test_share: f64) -> SplitConfig {
        SplitConfig {
            valid_share,
            test_share,
            by_function: false,
            similarity_min: Some(0.7),
            by_pair: false,
            seed: 42,
        }
    }

    fn repos(sizes: &[u64]) -> Vec<(String, u64)> {
        sizes.iter().enumerate().map(|(i, n)| (format!("r{i}"), *n)).collect()
    }

    #[test]
    fn three_repositories_fill_three_splits_and_the_largest_is_trained_on() {
        let parts = assign(&repos(&[900, 40, 60]), &config(0.05, 0.05));
        assert_eq!(parts[0], Part::Train);
        let mut rest = parts[1..].to_vec();
        rest.sort();
        assert_eq!(rest, [Part::Valid, Part::Test]);
        assert_eq!(assign(&repos(&[9]), &config(0.05, 0.05)), [Part::Train], "one is trained on");
    }

    proptest! {
        #[test]
        fn some_repository_is_always_trained_on(
            sizes in prop::collection::vec(0_u64..500, 1..30), valid in 0.0..0.5, test in 0.0..0.5,
        ) {
            let parts = assign(&repos(&sizes), &config(valid, test));
            let n_train = parts.iter().zip(&sizes).filter(|(p, n)| **p == Part::Train && **n > 0).count();
            prop_assert!(n_train > 0 || sizes.iter().all(|n| *n == 0));
        }
    }

    #[test]
    fn what_was_trained_on_comes_into_no_other_split() {
        let config = config(0.1, 0.1);
        let code = "def f(a):\n    b = a.load(1)\n    return [x for x in b if x.is_open()]\n";
        let identity = |code: &str| Identity::of(&config, "d", "s", code);
        let mut gate = Gate::default();
        assert_eq!(gate.refuse(&identity(code), &config), None);
        assert_eq!(gate.refuse(&identity(&code.replace("    ", "\t")), &config), Some("equal"));
        let near = code.replace("(1)", "(2)").replace("b = a", "b = a.c.d.e.f.g.h.i.j.k.l");
        assert_eq!(gate.refuse(&identity(&near), &config), None, "the same split may hold both");
        gate.next_split();
        assert_eq!(
            gate.refuse(&identity(&code.replace("(a)", "(a, *)")), &config),
            Some("similar")
        );
    }
}
