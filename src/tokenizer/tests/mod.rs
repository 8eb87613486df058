//! Tests over whole tokenizers.
//!
//! # Place
//! Part of `tokenizer`.

mod folder;
mod small;
mod vectors;

use std::path::Path;

use super::*;
use crate::base::TokenId;
use crate::format::{FileMap, GgufFile, MetaValue, write_gguf};

/// The tokenizer of a GGUF file with this metadata.
fn from_metadata(metadata: &[(&str, MetaValue)]) -> Result<Tokenizer, TokenizerError> {
    let map = FileMap::from_vec(write_gguf(metadata, &[]));
    let file = GgufFile::from_map(Path::new("m.gguf"), map).expect("a file of our own");
    Tokenizer::from_gguf(file.metadata())
}

/// A vocabulary in GPT-2's byte alphabet: every byte by its own id, then pieces in the order of their
/// merges, then the pieces of `extra` with their type numbers.
fn byte_level(pre: &str, merges: &[&str], extra: &[(&str, i32)]) -> Vec<(&'static str, MetaValue)> {
    let mut alphabet: Vec<(u8, char)> =
        ('\u{21}'..='\u{143}').filter_map(|c| Some((super::token_bytes::byte_of(c)?, c))).collect();
    alphabet.sort_unstable();
    let mut pieces: Vec<String> = alphabet.iter().map(|(_, c)| c.to_string()).collect();
    assert_eq!(pieces.len(), 256);
    pieces.extend(merges.iter().map(|merge| merge.replace(' ', "")));
    let mut types = vec![1; pieces.len()];
    for (piece, ty) in extra {
        pieces.push((*piece).to_owned());
        types.push(*ty);
    }
    let merges = merges.iter().map(|&merge| merge.to_owned()).collect();
    vec![
        ("tokenizer.ggml.model", MetaValue::Str("gpt2".to_owned())),
        ("tokenizer.ggml.pre", MetaValue::Str(pre.to_owned())),
        ("tokenizer.ggml.tokens", MetaValue::Strings(pieces)),
        ("tokenizer.ggml.token_type", MetaValue::I32s(types)),
        ("tokenizer.ggml.merges", MetaValue::Strings(merges)),
    ]
}

/// A SentencePiece vocabulary: unknown, begin, end, every byte, then pieces with their scores.
fn marked(pieces: &[(&str, f32)]) -> Vec<(&'static str, MetaValue)> {
    let mut all =
        vec![("<unk>".to_owned(), 0.0, 2), ("<s>".to_owned(), 0.0, 3), ("</s>".to_owned(), 0.0, 3)];
    all.extend((0..=255).map(|byte| (format!("<0x{byte:02X}>"), 0.0, 6)));
    all.extend(pieces.iter().map(|&(piece, score)| (piece.to_owned(), score, 1)));
    vec![
        ("tokenizer.ggml.model", MetaValue::Str("llama".to_owned())),
        ("tokenizer.ggml.tokens", MetaValue::Strings(all.iter().map(|p| p.0.clone()).collect())),
        ("tokenizer.ggml.scores", MetaValue::F32s(all.iter().map(|p| p.1).collect())),
        ("tokenizer.ggml.token_type", MetaValue::I32s(all.iter().map(|p| p.2).collect())),
        ("tokenizer.ggml.bos_token_id", MetaValue::U32(1)),
        ("tokenizer.ggml.eos_token_id", MetaValue::U32(2)),
        ("tokenizer.ggml.unknown_token_id", MetaValue::U32(0)),
    ]
}

/// `metadata` with one value replaced or added.
fn with(
    mut metadata: Vec<(&'static str, MetaValue)>,
    key: &'static str,
    value: MetaValue,
) -> Vec<(&'static str, MetaValue)> {
    metadata.retain(|(k, _)| *k != key);
    metadata.push((key, value));
    metadata
}

/// The bytes of some ids, one after the other.
fn bytes_of(tokenizer: &Tokenizer, ids: &[TokenId]) -> Vec<u8> {
    ids.iter().flat_map(|&id| tokenizer.token_bytes(id)).copied().collect()
}
