//! Newtypes for the ids that cross folders.
//!
//! # Place
//! Uses nothing.

/// Index into a model's vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId(pub u32);

impl TokenId {
    /// The id as an index into per-token tables.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One sequence (one running request, or one of its `n` choices) in the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeqId(pub u64);
