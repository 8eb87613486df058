//! A model's vocabulary as plain data: bytes by token id, and which ids are not text.
//!
//! # Place
//! Uses `base`. Filled from whatever tokenizer a model has; everything in `constrain` reads it. Keyed
//! by id, never by decoded text: different ids may have equal bytes, and bytes need not be UTF-8.

use crate::base::{TokenId, limit};

use super::ConstraintError;

/// Bytes of every token id.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    arena: Vec<u8>,
    /// `arena[starts[id]..starts[id + 1]]` are the bytes of `id`. `[V + 1]`
    starts: Vec<u32>,
    eos: Vec<TokenId>,
}

impl Vocabulary {
    /// Take the bytes of each id in order; control and unused ids have no bytes. `eos` are the ids
    /// that end a text: their bytes are ignored.
    ///
    /// # Errors
    /// When the vocabulary is larger than the limits allow or an end id lies outside it.
    pub fn new<'a>(
        tokens: impl IntoIterator<Item = &'a [u8]>,
        eos: &[TokenId],
    ) -> Result<Self, ConstraintError> {
        let mut arena = Vec::new();
        let mut starts = vec![0u32];
        for bytes in tokens {
            let id = starts.len() - 1;
            if id >= limit::VOCAB_TOKENS_MAX {
                return Err(ConstraintError::VocabularyTooLarge {
                    tokens_max: limit::VOCAB_TOKENS_MAX,
                });
            }
            if !eos.iter().any(|e| e.index() == id) {
                arena.extend_from_slice(bytes);
            }
            let end = u32::try_from(arena.len()).map_err(|_| {
                ConstraintError::VocabularyTooLarge { tokens_max: limit::VOCAB_TOKENS_MAX }
            })?;
            starts.push(end);
        }
        let n_tokens = starts.len() - 1;
        let mut eos = eos.to_vec();
        eos.sort_unstable();
        eos.dedup();
        match eos.last() {
            Some(last) if last.index() >= n_tokens => {
                Err(ConstraintError::NoSuchToken { token: last.0, n_tokens })
            }
            _ => Ok(Self { arena, starts, eos }),
        }
    }

    /// Number of ids.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether there is no id at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of an id; empty for control ids, end ids and ids outside the vocabulary.
    pub fn token_bytes(&self, id: TokenId) -> &[u8] {
        match (self.starts.get(id.index()), self.starts.get(id.index() + 1)) {
            (Some(&start), Some(&end)) => &self.arena[start as usize..end as usize],
            _ => &[],
        }
    }

    /// The ids that end a text, ascending.
    pub fn eos(&self) -> &[TokenId] {
        &self.eos
    }

    /// Whether an id ends a text.
    pub fn is_eos(&self, id: TokenId) -> bool {
        self.eos.binary_search(&id).is_ok()
    }
}
