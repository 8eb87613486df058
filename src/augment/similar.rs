//! Functions that are nearly the same, found without comparing each with each.
//!
//! # Place
//! Part of `augment`; pure.
//! # Sources
//! MinHash estimates of Jaccard similarity with banding: Broder, "On the resemblance and containment of
//! documents", 1997; Leskovec et al., "Mining of Massive Datasets", chapter 3.

use super::items::{Kind, items};
use rustc_hash::FxHashMap;

/// Lexer items of a shingle.
const SHINGLE: usize = 5;
/// Hash functions: the standard error of an estimate near 0.7 is 0.06.
const N_HASHES: usize = 64;
/// Hash functions of a band. Of pairs at similarity 0.7, bands of 4 find 99 %.
const BAND: usize = 4;

/// The shingles of a text in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sketch([u32; N_HASHES]);

impl Sketch {
    /// Of code: its names, numbers, strings and operators; its white space does not count.
    pub(super) fn of(code: &str) -> Self {
        let words: Vec<u64> = items(code)
            .iter()
            .filter(|i| !i.text.trim().is_empty() && i.kind != Kind::Comment)
            .map(|i| hash_bytes(i.text.as_bytes()))
            .collect();
        let mut least = [u32::MAX; N_HASHES];
        for shingle in words.windows(SHINGLE.min(words.len()).max(1)) {
            let shingle = shingle.iter().fold(0, |h: u64, w| mix(h.rotate_left(5) ^ w));
            for (i, least) in least.iter_mut().enumerate() {
                *least = (*least).min((mix(shingle ^ mix(i as u64 + 1)) >> 32) as u32);
            }
        }
        Self(least)
    }

    /// Estimated share of shingles that two texts have in common.
    pub(super) fn similarity(&self, other: &Self) -> f64 {
        let same = self.0.iter().zip(&other.0).filter(|(a, b)| a == b).count();
        same as f64 / N_HASHES as f64
    }

    fn bands(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.0.chunks_exact(BAND).enumerate().map(|(i, band)| {
            (i, band.iter().fold(mix(i as u64), |h, least| mix(h ^ u64::from(*least))))
        })
    }
}

/// Sketches that can be looked up by what is similar to them.
#[derive(Debug, Default)]
pub(super) struct SimilarIndex {
    sketches: Vec<Sketch>,
    bands: FxHashMap<(usize, u64), Vec<u32>>,
}

impl SimilarIndex {
    pub(super) fn insert(&mut self, sketch: &Sketch) {
        let id = self.sketches.len() as u32;
        for band in sketch.bands() {
            self.bands.entry(band).or_default().push(id);
        }
        self.sketches.push(sketch.clone());
    }

    /// Is something at least this similar in the index?
    pub(super) fn has(&self, sketch: &Sketch, similarity_min: f64) -> bool {
        sketch
            .bands()
            .filter_map(|band| self.bands.get(&band))
            .flatten()
            .any(|&id| self.sketches[id as usize].similarity(sketch) >= similarity_min)
    }
}

/// FNV-1a, finished by [`mix`]: the same on every machine.
pub(super) fn hash_bytes(bytes: &[u8]) -> u64 {
    let fnv = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3));
    mix(fnv)
}

/// The finaliser of SplitMix64.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(names: &[&str]) -> String {
        let lines: Vec<String> =
            names.iter().map(|n| format!("    {n} = load({n}, 'x') + other({n})\n")).collect();
        format!("def f(a):\n{}", lines.concat())
    }

    #[test]
    fn a_renamed_line_is_similar_and_other_code_is_not() {
        let all: Vec<String> = (0..12).map(|i| format!("name{i}")).collect();
        let mut names: Vec<&str> = all.iter().map(String::as_str).collect();
        let whole = Sketch::of(&code(&names));
        assert_eq!(whole.similarity(&Sketch::of(&code(&names).replace("    ", "\t"))), 1.0);
        names[3] = "renamed";
        let renamed = Sketch::of(&code(&names));
        assert!(whole.similarity(&renamed) > 0.7, "{}", whole.similarity(&renamed));
        let other = Sketch::of(
            "def g():\n    for i in range(10):\n        print(i * 2)\n    return None\n",
        );
        assert!(whole.similarity(&other) < 0.2);
        let mut index = SimilarIndex::default();
        index.insert(&whole);
        assert!(index.has(&renamed, 0.7) && !index.has(&other, 0.3));
    }

    #[test]
    fn texts_shorter_than_a_shingle_are_still_told_apart() {
        assert!(Sketch::of("a").similarity(&Sketch::of("b")) < 0.2);
        assert_eq!(Sketch::of("a b").similarity(&Sketch::of("a  b")), 1.0);
        assert_eq!(Sketch::of("").similarity(&Sketch::of("")), 1.0);
    }
}
