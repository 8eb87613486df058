//! Real vocabularies against the reference's ids.
//!
//! # Place
//! Part of the tests of `tokenizer`; skipped where the data is not there.

use std::path::{Path, PathBuf};

use super::*;

/// The folder with data that is not part of the repository.
fn shared() -> Option<PathBuf> {
    let path = std::env::var_os("TETHER_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    if path.join("data/tokenizers").is_dir() {
        return Some(path);
    }
    println!("skipped: {} is not there", path.display());
    None
}

/// Texts and the ids that the reference gives for them.
fn vectors(folder: &Path, name: &str) -> Vec<(String, Vec<TokenId>)> {
    let read = |end: &str| {
        std::fs::read_to_string(folder.join(format!("ggml-vocab-{name}.gguf.{end}.txt"))).unwrap()
    };
    let (texts, ids) = (read("inp"), read("out"));
    let texts = texts.split("\n__ggml_vocab_test__\n").map(str::to_owned);
    let ids = ids
        .split('\n')
        .map(|line| line.split_whitespace().map(|id| TokenId(id.parse().unwrap())).collect());
    let vectors: Vec<_> = texts.zip(ids).collect();
    assert_eq!(vectors.len(), 47);
    vectors
}

/// That every vector's text has the reference's ids, and that the ids give the text back.
#[track_caller]
fn check_vectors(tokenizer: &Tokenizer, vectors: &[(String, Vec<TokenId>)]) {
    for (text, ids) in vectors {
        let got = tokenizer.encode(text, Specials::AsText, AddBos::Never).unwrap();
        assert_eq!(&got, ids, "{text:?}");
        assert_eq!(&tokenizer.decode(&got), text);
    }
}

#[test]
fn vocabularies_in_gguf_files_give_the_ids_of_the_reference() {
    let Some(shared) = shared() else { return };
    let folder = shared.join("data/tokenizers");
    for name in ["deepseek-coder", "falcon", "gpt-2", "refact", "starcoder"] {
        let file = GgufFile::open(&folder.join(format!("ggml-vocab-{name}.gguf"))).unwrap();
        let tokenizer = Tokenizer::from_gguf(file.metadata()).unwrap();
        check_vectors(&tokenizer, &vectors(&folder, name));
        tokenizer.check_constrainable().unwrap();
    }
}

#[test]
fn the_llama_2_vocabulary_gives_the_ids_of_the_reference() {
    let Some(shared) = shared() else { return };
    let folder = shared.join("data/tokenizers");
    let bytes = std::fs::read(folder.join("llama2-tokenizer.bin")).unwrap();
    let tokenizer = from_metadata(&llama2_metadata(&bytes)).unwrap();
    assert_eq!(tokenizer.len(), 32_000);
    check_vectors(&tokenizer, &vectors(&folder, "llama-spm"));
    tokenizer.check_constrainable().unwrap();
}

/// GGUF metadata of a vocabulary in llama2.c's format: the length of the longest piece, then score,
/// length and text of each. Spaces were unmarked there, and the first three pieces are special.
fn llama2_metadata(bytes: &[u8]) -> Vec<(&'static str, MetaValue)> {
    let number = |at: usize| <[u8; 4]>::try_from(&bytes[at..at + 4]).unwrap();
    let (mut pieces, mut scores, mut types) = (Vec::new(), Vec::new(), Vec::new());
    let mut at = 4;
    while at < bytes.len() {
        scores.push(f32::from_le_bytes(number(at)));
        let n = u32::from_le_bytes(number(at + 4)) as usize;
        let piece = std::str::from_utf8(&bytes[at + 8..at + 8 + n]).unwrap();
        let (piece, ty) = match pieces.len() {
            0 => ("<unk>".to_owned(), 2),
            1 => ("<s>".to_owned(), 3),
            2 => ("</s>".to_owned(), 3),
            3..259 => (piece.to_owned(), 6),
            _ => (piece.replace(' ', "▁"), 1),
        };
        pieces.push(piece);
        types.push(ty);
        at += 8 + n;
    }
    vec![
        ("tokenizer.ggml.model", MetaValue::Str("llama".to_owned())),
        ("tokenizer.ggml.tokens", MetaValue::Strings(pieces)),
        ("tokenizer.ggml.scores", MetaValue::F32s(scores)),
        ("tokenizer.ggml.token_type", MetaValue::I32s(types)),
        ("tokenizer.ggml.bos_token_id", MetaValue::U32(1)),
        ("tokenizer.ggml.eos_token_id", MetaValue::U32(2)),
        ("tokenizer.ggml.unknown_token_id", MetaValue::U32(0)),
    ]
}
