//! A tokenizer from GGUF metadata.
//!
//! # Place
//! Part of `tokenizer`.

use super::byte_pair::BytePair;
use super::chat::{ChatTemplate, TemplateSource};
use super::codec::{Engine, Names, Parts, Pieces, Tokenizer};
use super::error::TokenizerError;
use super::role::FimTokens;
use super::sentencepiece::SentencePiece;
use super::splitter::Splitter;
use super::token_bytes::{Kind, TokenBytes, byte_of_escape, bytes_of_byte_level, bytes_of_marked};
use crate::base::{TokenId, limit};
use crate::format::Metadata;

/// Some converters write this where a model has no such token.
const NO_TOKEN: u64 = u32::MAX as u64;

impl Tokenizer {
    /// The tokenizer that a GGUF file describes.
    ///
    /// # Errors
    /// When the description is incomplete, contradicts itself, or names an algorithm or splitter that
    /// is not supported.
    pub fn from_gguf(meta: &Metadata) -> Result<Self, TokenizerError> {
        let key = "tokenizer.ggml.model";
        let model = meta.need(key, meta.str(key)?)?;
        let key = "tokenizer.ggml.tokens";
        let pieces = meta.need(key, meta.strings(key)?)?;
        if pieces.is_empty() || pieces.len() > limit::VOCAB_TOKENS_MAX {
            return Err(TokenizerError::VocabularySize {
                n: pieces.len(),
                max: limit::VOCAB_TOKENS_MAX,
            });
        }
        let kinds = kinds(meta, pieces.len())?;
        match model {
            "gpt2" => byte_pair(meta, &pieces, kinds),
            "llama" => sentencepiece(meta, &pieces, kinds),
            other => Err(TokenizerError::UnknownModel { name: other.to_owned() }),
        }
    }
}

fn byte_pair(
    meta: &Metadata,
    pieces: &[&str],
    kinds: Vec<Kind>,
) -> Result<Tokenizer, TokenizerError> {
    let name = meta.str("tokenizer.ggml.pre")?;
    let splitter = Splitter::named(name.ok_or(TokenizerError::NoSplitter)?)?;
    let key = "tokenizer.ggml.merges";
    let merges = meta.need(key, meta.strings(key)?)?;
    let engine = BytePair::from_pieces(pieces, &kinds, &merges, splitter)?;
    let engine = Engine::BytePair(Box::new(engine));
    finish(meta, pieces, kinds, engine, splitter.adds_bos, false)
}

fn sentencepiece(
    meta: &Metadata,
    pieces: &[&str],
    kinds: Vec<Kind>,
) -> Result<Tokenizer, TokenizerError> {
    let key = "tokenizer.ggml.scores";
    let scores = meta.need(key, meta.f32s(key)?)?;
    if scores.len() != pieces.len() {
        return Err(TokenizerError::WrongLength {
            what: key,
            n: scores.len(),
            n_tokens: pieces.len(),
        });
    }
    let space_first = meta.bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
    let unknown = token(meta, "tokenizer.ggml.unknown_token_id", pieces.len())?;
    let model = SentencePiece::new(pieces, scores, &kinds, unknown);
    let specials = specials(pieces, &kinds);
    let user = specials.iter().filter(|(_, id)| kinds[id.index()] == Kind::UserDefined).cloned();
    let engine = Engine::Pieces(Box::new(Pieces {
        model,
        user_names: Names::new(user)?,
        all_names: Names::new(specials)?,
    }));
    finish(meta, pieces, kinds, engine, true, space_first)
}

/// What both kinds of vocabulary have.
fn finish(
    meta: &Metadata,
    pieces: &[&str],
    kinds: Vec<Kind>,
    engine: Engine,
    add_bos_default: bool,
    space_first: bool,
) -> Result<Tokenizer, TokenizerError> {
    let n = pieces.len();
    let byte_level = matches!(engine, Engine::BytePair(_));
    let mut token_bytes = TokenBytes::with_tokens(n);
    for (piece, kind) in pieces.iter().zip(&kinds) {
        token_bytes.push(match kind {
            Kind::Text if byte_level => bytes_of_byte_level(piece),
            Kind::Text => bytes_of_marked(piece),
            Kind::UserDefined => piece.as_bytes().to_vec(),
            Kind::Byte => byte_of_escape(piece).into_iter().collect(),
            Kind::Hidden => Vec::new(),
        });
    }
    let mut eos = Vec::new();
    for name in ["eos", "eot", "eom"] {
        eos.extend(token(meta, &format!("tokenizer.ggml.{name}_token_id"), n)?);
    }
    let add_bos = meta.bool("tokenizer.ggml.add_bos_token")?;
    let chat = meta.str("tokenizer.chat_template")?;
    Ok(Tokenizer::assemble(Parts {
        engine,
        token_bytes,
        specials: specials(pieces, &kinds),
        kinds,
        bos: token(meta, "tokenizer.ggml.bos_token_id", n)?,
        add_bos: add_bos.unwrap_or(add_bos_default),
        eos,
        fim: fim(meta, n)?,
        chat: chat.map(|source| ChatTemplate::new(source, TemplateSource::Gguf)),
        space_first,
    }))
}

/// Kinds from `token_type`; without it every token is text.
fn kinds(meta: &Metadata, n_tokens: usize) -> Result<Vec<Kind>, TokenizerError> {
    let key = "tokenizer.ggml.token_type";
    let Some(types) = meta.i64s(key)? else {
        return Ok(vec![Kind::Text; n_tokens]);
    };
    if types.len() != n_tokens {
        return Err(TokenizerError::WrongLength { what: key, n: types.len(), n_tokens });
    }
    let kind = |(id, ty)| match ty {
        1 => Ok(Kind::Text),
        // Unknown, control, unused.
        2 | 3 | 5 => Ok(Kind::Hidden),
        4 => Ok(Kind::UserDefined),
        6 => Ok(Kind::Byte),
        got => Err(TokenizerError::BadTokenType { id, got }),
    };
    types.into_iter().enumerate().map(kind).collect()
}

fn specials(pieces: &[&str], kinds: &[Kind]) -> Vec<(String, TokenId)> {
    pieces
        .iter()
        .zip(kinds)
        .enumerate()
        .filter(|(_, (_, kind))| matches!(kind, Kind::Hidden | Kind::UserDefined))
        .map(|(idx, (piece, _))| ((*piece).to_owned(), TokenId(idx as u32)))
        .collect()
}

/// The token that a key names, if any.
fn token(meta: &Metadata, key: &str, n_tokens: usize) -> Result<Option<TokenId>, TokenizerError> {
    match meta.u64(key)? {
        None | Some(NO_TOKEN) => Ok(None),
        Some(id) if id < n_tokens as u64 => Ok(Some(TokenId(id as u32))),
        Some(id) => Err(TokenizerError::NoSuchToken { what: key.to_owned(), id, n_tokens }),
    }
}

/// Infilling tokens by their keys, of which there are two spellings.
fn fim(meta: &Metadata, n_tokens: usize) -> Result<Option<FimTokens>, TokenizerError> {
    for [prefix, suffix, middle] in
        [["fim_pre", "fim_suf", "fim_mid"], ["prefix", "suffix", "middle"]]
    {
        let id = |name| token(meta, &format!("tokenizer.ggml.{name}_token_id"), n_tokens);
        if let (Some(prefix), Some(suffix), Some(middle)) = (id(prefix)?, id(suffix)?, id(middle)?)
        {
            return Ok(Some(FimTokens { prefix, suffix, middle }));
        }
    }
    Ok(None)
}
