//! Byte-pair encoding through the `tokenizers` crate.
//!
//! # Place
//! Part of `tokenizer`; for `tokenizer.json` and for GGUF files whose tokenizer model is `gpt2`.
//! # Invariants
//! Special tokens are found in text only when asked for.

use std::sync::OnceLock;

use aho_corasick::AhoCorasick;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::{AddedToken, NormalizerWrapper, PreTokenizerWrapper, Tokenizer as Pipeline};

use super::error::TokenizerError;
use super::splitter::Splitter;
use super::token_bytes::Kind;
use crate::base::TokenId;

/// Normaliser and splitter that put nothing in front of a text.
pub(super) struct Unprefixed {
    pub(super) normalizer: Option<NormalizerWrapper>,
    pub(super) pre_tokenizer: Option<PreTokenizerWrapper>,
}

/// A pipeline of the `tokenizers` crate, and the variants of it that are made when first needed.
pub(super) struct BytePair {
    /// Finds special tokens, puts in front what the model wants there.
    parsing: Pipeline,
    /// Takes special tokens as text. Made only when a text holds the name of one: it is a second copy
    /// of the vocabulary.
    as_text: OnceLock<Pipeline>,
    /// As `as_text`, with nothing put in front of the text.
    unprefixed: Option<(Unprefixed, OnceLock<Pipeline>)>,
    special_names: Option<AhoCorasick>,
}

impl BytePair {
    /// From a whole pipeline, as `tokenizer.json` describes it.
    pub(super) fn from_pipeline(
        mut pipeline: Pipeline,
        special_names: &[String],
        unprefixed: Option<Unprefixed>,
    ) -> Result<Self, TokenizerError> {
        // Both are habits of training runs that were saved with the file.
        pipeline.with_padding(None);
        pipeline.with_truncation(None).map_err(|e| encode_error(&*e))?;
        let special_names = match special_names {
            [] => None,
            names => Some(AhoCorasick::new(names).map_err(|e| encode_error(&e))?),
        };
        Ok(Self {
            parsing: pipeline,
            as_text: OnceLock::new(),
            unprefixed: unprefixed.map(|u| (u, OnceLock::new())),
            special_names,
        })
    }

    /// From pieces in GPT-2's byte alphabet in order of their ids, and merges.
    pub(super) fn from_pieces(
        pieces: &[&str],
        kinds: &[Kind],
        merges: &[&str],
        splitter: Splitter,
    ) -> Result<Self, TokenizerError> {
        let mut vocab = Vocab::with_capacity(pieces.len());
        for (idx, &piece) in pieces.iter().enumerate() {
            // Of pieces spelled the same, the first is the one that is used.
            vocab.entry(piece.to_owned()).or_insert(idx as u32);
        }
        let mut pairs = Vec::with_capacity(merges.len());
        for (index, merge) in merges.iter().enumerate() {
            let (left, right) = merge
                .split_once(' ')
                .ok_or_else(|| TokenizerError::BadMerge { index, merge: (*merge).to_owned() })?;
            pairs.push((left.to_owned(), right.to_owned()));
        }
        let model = BPE::builder()
            .vocab_and_merges(vocab, pairs)
            .ignore_merges(splitter.whole_pieces_first)
            .build()
            .map_err(|e| TokenizerError::BadMerges { problem: e.to_string() })?;
        let mut pipeline = Pipeline::new(model);
        pipeline.with_pre_tokenizer(Some(splitter.build()));
        let added = |wanted: Kind, special| -> Vec<AddedToken> {
            let of_kind = pieces.iter().zip(kinds).filter(|(_, kind)| **kind == wanted);
            of_kind.map(|(piece, _)| AddedToken::from(*piece, special).normalized(false)).collect()
        };
        let hidden = added(Kind::Hidden, true);
        let names: Vec<String> = hidden.iter().map(|token| token.content.clone()).collect();
        pipeline.add_special_tokens(&hidden);
        pipeline.add_tokens(&added(Kind::UserDefined, false));
        Self::from_pipeline(pipeline, &names, None)
    }

    /// Ids of `text`, in which special tokens are found.
    pub(super) fn encode(&self, text: &str) -> Result<Vec<TokenId>, TokenizerError> {
        run(&self.parsing, text)
    }

    /// Ids of `text`, in which the names of special tokens are text like any other.
    pub(super) fn encode_as_text(&self, text: &str) -> Result<Vec<TokenId>, TokenizerError> {
        let pipeline = match &self.special_names {
            Some(names) if names.is_match(text) => {
                self.as_text.get_or_init(|| as_text(&self.parsing))
            }
            _ => &self.parsing,
        };
        run(pipeline, text)
    }

    /// As [`BytePair::encode_as_text`], with nothing put in front.
    pub(super) fn encode_unprefixed(&self, text: &str) -> Result<Vec<TokenId>, TokenizerError> {
        let Some((steps, pipeline)) = &self.unprefixed else {
            return self.encode_as_text(text);
        };
        let pipeline = pipeline.get_or_init(|| {
            let mut pipeline = as_text(&self.parsing);
            pipeline.with_normalizer(steps.normalizer.clone());
            pipeline.with_pre_tokenizer(steps.pre_tokenizer.clone());
            pipeline
        });
        run(pipeline, text)
    }
}

fn as_text(pipeline: &Pipeline) -> Pipeline {
    let mut pipeline = pipeline.clone();
    pipeline.set_encode_special_tokens(true);
    pipeline
}

fn run(pipeline: &Pipeline, text: &str) -> Result<Vec<TokenId>, TokenizerError> {
    let encoding = pipeline.encode_fast(text, false).map_err(|e| encode_error(&*e))?;
    Ok(encoding.get_ids().iter().map(|&id| TokenId(id)).collect())
}

fn encode_error(error: &(dyn std::error::Error + 'static)) -> TokenizerError {
    TokenizerError::Encode { problem: error.to_string() }
}
