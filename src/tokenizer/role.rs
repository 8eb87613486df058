//! Tokens with a role: what ends a text, and what marks a hole in it.
//!
//! # Place
//! Part of `tokenizer`. `engine` stops at any of [`EosSet`]; `runtime` builds infilling prompts.

use crate::base::TokenId;

/// Names under which the end of a text or of a turn is known. Used only when the vocabulary holds
/// the name as a control token, so ordinary text that looks like it never counts.
pub(super) const EOS_NAMES: [&str; 13] = [
    "</s>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<end_of_turn>",
    "<|EOT|>",
    "<EOT>",
    "▁<EOT>",
    "<|end▁of▁sentence|>",
    "<｜end▁of▁sentence｜>",
];

/// The ids that end a text: the union of what configuration, generation configuration, tokenizer and
/// file metadata say, and of the known names that are control tokens of the vocabulary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EosSet {
    ids: Vec<TokenId>,
}

impl EosSet {
    pub(super) fn new(ids: impl IntoIterator<Item = TokenId>) -> Self {
        let mut ids: Vec<TokenId> = ids.into_iter().collect();
        ids.sort_unstable();
        ids.dedup();
        Self { ids }
    }

    /// Whether `id` ends a text.
    pub fn contains(&self, id: TokenId) -> bool {
        self.ids.binary_search(&id).is_ok()
    }

    /// The ids, ascending.
    pub fn ids(&self) -> &[TokenId] {
        &self.ids
    }
}

/// The tokens around the parts of an infilling prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FimTokens {
    pub prefix: TokenId,
    pub suffix: TokenId,
    pub middle: TokenId,
}

/// The names of the three tokens in the vocabularies that have them, in the order of the fields of
/// [`FimTokens`].
pub(super) const FIM_NAMES: [[&str; 3]; 6] = [
    ["<fim_prefix>", "<fim_suffix>", "<fim_middle>"],
    ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"],
    ["<fim-prefix>", "<fim-suffix>", "<fim-middle>"],
    ["▁<PRE>", "▁<SUF>", "▁<MID>"],
    ["<PRE>", "<SUF>", "<MID>"],
    // The text goes begin, prefix, hole, suffix, end: the hole stands where the suffix starts.
    ["<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"],
];
