//! A set of allowed tokens, one bit per id, in the layout the devices read.
//!
//! # Place
//! Uses `base`. Made by the automata and grammars, read by `engine`, which hands the words to the device.
//! # Shapes and units
//! Bit `id % 32` of word `id / 32`. Bits past the last id are clear.

use crate::base::TokenId;

/// Allowed tokens of one sequence at one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenMask {
    words: Vec<u32>,
    n_tokens: usize,
}

impl TokenMask {
    /// Nothing allowed.
    pub fn none(n_tokens: usize) -> Self {
        Self { words: vec![0; n_tokens.div_ceil(32)], n_tokens }
    }

    /// Everything allowed.
    pub fn all(n_tokens: usize) -> Self {
        let mut words = vec![u32::MAX; n_tokens.div_ceil(32)];
        if let (Some(last), rest @ 1..) = (words.last_mut(), n_tokens % 32) {
            *last = (1 << rest) - 1;
        }
        Self { words, n_tokens }
    }

    /// From words in the same layout; missing words are clear, further ones and bits are dropped.
    pub fn from_words(words: &[u32], n_tokens: usize) -> Self {
        let mut mask = Self::all(n_tokens);
        for (i, word) in mask.words.iter_mut().enumerate() {
            *word &= words.get(i).copied().unwrap_or(0);
        }
        mask
    }

    /// The bits as words.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Number of ids the mask covers.
    pub fn n_tokens(&self) -> usize {
        self.n_tokens
    }

    /// Number of allowed ids.
    pub fn n_allowed(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether no id is allowed.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&w| w == 0)
    }

    /// Whether an id is allowed; ids outside the vocabulary are not.
    pub fn is_allowed(&self, id: TokenId) -> bool {
        self.words.get(id.index() / 32).is_some_and(|w| w >> (id.0 % 32) & 1 == 1)
    }

    /// Allow an id of the vocabulary.
    pub fn allow(&mut self, id: TokenId) {
        debug_assert!(id.index() < self.n_tokens, "ids come from the vocabulary");
        self.words[id.index() / 32] |= 1 << (id.0 % 32);
    }

    /// Forbid an id; ids outside the vocabulary are forbidden anyway.
    pub fn forbid(&mut self, id: TokenId) {
        if let Some(word) = self.words.get_mut(id.index() / 32) {
            *word &= !(1 << (id.0 % 32));
        }
    }

    /// Allow what either mask allows.
    pub fn union(&mut self, other: &Self) {
        debug_assert_eq!(self.n_tokens, other.n_tokens, "masks of one vocabulary");
        for (a, b) in self.words.iter_mut().zip(&other.words) {
            *a |= b;
        }
    }

    /// Forbid what the other mask allows.
    pub fn subtract(&mut self, other: &Self) {
        debug_assert_eq!(self.n_tokens, other.n_tokens, "masks of one vocabulary");
        for (a, b) in self.words.iter_mut().zip(&other.words) {
            *a &= !b;
        }
    }

    /// Allow only what both masks allow.
    pub fn intersect(&mut self, other: &Self) {
        debug_assert_eq!(self.n_tokens, other.n_tokens, "masks of one vocabulary");
        for (a, b) in self.words.iter_mut().zip(&other.words) {
            *a &= b;
        }
    }

    /// The allowed ids, ascending.
    pub fn ids(&self) -> impl Iterator<Item = TokenId> {
        self.words.iter().enumerate().flat_map(|(i, &word)| {
            std::iter::successors(Some(word), |w| Some(w & w.wrapping_sub(1)))
                .take_while(|&w| w != 0)
                .map(move |w| TokenId(i as u32 * 32 + w.trailing_zeros()))
        })
    }
}
