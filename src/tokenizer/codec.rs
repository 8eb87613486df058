//! The tokenizer of one model.
//!
//! # Place
//! Part of `tokenizer`; made by [`Tokenizer::from_gguf`] and [`Tokenizer::from_folder`].

use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use rustc_hash::FxHashMap;

use super::byte_pair::BytePair;
use super::chat::ChatTemplate;
use super::error::{BrokenTemplate, TokenizerError};
use super::role::{EOS_NAMES, EosSet, FIM_NAMES, FimTokens};
use super::sentencepiece::SentencePiece;
use super::stream::StreamDecoder;
use super::token_bytes::{Kind, TokenBytes};
use crate::base::{TokenId, limit};

/// What the names of special tokens in a text are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Specials {
    /// The tokens: for prompts that the program built, chat templates above all.
    Parse,
    /// Characters like any others: for text that somebody else wrote.
    AsText,
}

/// Whether a text begins with the beginning-of-text token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddBos {
    /// When the model wants it and the text does not begin with it already.
    Auto,
    /// Not added. A rendered chat template has its own, or none on purpose.
    Never,
}

/// Characters that every constraint on Python names needs to be able to write.
const NEEDED_BY_CONSTRAINTS: [char; 5] = [' ', '\n', '.', '(', '_'];

/// Text to ids and back, for one model.
pub struct Tokenizer {
    engine: Engine,
    token_bytes: Arc<TokenBytes>,
    hidden: Vec<bool>,
    /// The id of a token that is exactly one byte.
    byte_ids: Box<[Option<TokenId>; 256]>,
    special_ids: FxHashMap<String, TokenId>,
    special_texts: FxHashMap<TokenId, String>,
    bos: Option<TokenId>,
    add_bos: bool,
    eos: EosSet,
    fim: Option<FimTokens>,
    chat: Option<Result<ChatTemplate, BrokenTemplate>>,
    space_first: bool,
    /// Special tokens that the files of the model do not have.
    added: Option<Names>,
}

/// The algorithm behind a vocabulary.
pub(super) enum Engine {
    BytePair(Box<BytePair>),
    Pieces(Box<Pieces>),
}

/// SentencePiece with its special tokens.
pub(super) struct Pieces {
    pub(super) model: SentencePiece,
    /// Found in text when special tokens are parsed, and always.
    pub(super) all_names: Option<Names>,
    pub(super) user_names: Option<Names>,
}

/// What a file says about a tokenizer, before it is one.
pub(super) struct Parts {
    pub(super) engine: Engine,
    pub(super) token_bytes: TokenBytes,
    pub(super) kinds: Vec<Kind>,
    /// Spelling of the hidden and the user-defined tokens.
    pub(super) specials: Vec<(String, TokenId)>,
    pub(super) bos: Option<TokenId>,
    pub(super) add_bos: bool,
    /// Ids that the file's own fields call the end.
    pub(super) eos: Vec<TokenId>,
    pub(super) fim: Option<FimTokens>,
    pub(super) chat: Option<Result<ChatTemplate, BrokenTemplate>>,
    /// A space is put in front of a text.
    pub(super) space_first: bool,
}

impl Tokenizer {
    pub(super) fn assemble(parts: Parts) -> Self {
        let hidden: Vec<bool> = parts.kinds.iter().map(|k| *k == Kind::Hidden).collect();
        let mut byte_ids = Box::new([None; 256]);
        // Ordinary pieces win over byte tokens: they are what encoding gives.
        for wanted in [Kind::Text, Kind::UserDefined, Kind::Byte] {
            for (idx, _) in parts.kinds.iter().enumerate().filter(|(_, k)| **k == wanted) {
                if let &[byte] = parts.token_bytes.get(idx) {
                    byte_ids[usize::from(byte)].get_or_insert(TokenId(idx as u32));
                }
            }
        }
        let special_ids: FxHashMap<String, TokenId> = parts.specials.iter().cloned().collect();
        let is_hidden = |id: TokenId| hidden.get(id.index()).copied().unwrap_or(false);
        let known_ends = EOS_NAMES
            .iter()
            .filter_map(|name| special_ids.get(*name).copied())
            .filter(|id| is_hidden(*id));
        let eos = EosSet::new(parts.eos.iter().copied().chain(known_ends));
        let fim = parts.fim.or_else(|| {
            FIM_NAMES.iter().find_map(|[prefix, suffix, middle]| {
                Some(FimTokens {
                    prefix: *special_ids.get(*prefix)?,
                    suffix: *special_ids.get(*suffix)?,
                    middle: *special_ids.get(*middle)?,
                })
            })
        });
        let special_texts: FxHashMap<TokenId, String> =
            parts.specials.into_iter().map(|(text, id)| (id, text)).collect();
        let text_of = |id: Option<TokenId>| {
            id.and_then(|id| special_texts.get(&id).cloned()).unwrap_or_default()
        };
        let chat = parts
            .chat
            .or_else(|| ChatTemplate::known(|name| special_ids.contains_key(name)).map(Ok))
            .map(|chat| {
                chat.map(|c| c.with_tokens(text_of(parts.bos), text_of(parts.eos.first().copied())))
            });
        Self {
            engine: parts.engine,
            token_bytes: Arc::new(parts.token_bytes),
            hidden,
            byte_ids,
            special_ids,
            special_texts,
            bos: parts.bos,
            add_bos: parts.add_bos && parts.bos.is_some(),
            eos,
            fim,
            chat,
            space_first: parts.space_first,
            added: None,
        }
    }

    /// The same with more special tokens, which are never part of text. An id that the vocabulary has already must
    /// be a token of that kind; it gets one more spelling.
    ///
    /// # Errors
    /// When an id or a spelling means something else already.
    pub fn with_added(mut self, added: &[(String, TokenId)]) -> Result<Self, TokenizerError> {
        let fresh: Vec<_> = (added.iter())
            .filter(|(text, id)| self.special_ids.get(text) != Some(id))
            .cloned()
            .collect();
        for (text, id) in &fresh {
            let clash = |problem: String| TokenizerError::BadAddedToken {
                text: text.clone(),
                id: id.0,
                problem,
            };
            if let Some(other) = self.special_ids.get(text) {
                return Err(clash(format!("it is token {} of the model already", other.0)));
            }
            if text.is_empty() || id.index() >= limit::VOCAB_TOKENS_MAX {
                return Err(clash("a spelling and an id within a vocabulary were expected".into()));
            }
            if !self.is_control(*id) {
                let spelled = String::from_utf8_lossy(self.token_bytes(*id));
                return Err(clash(format!("that token is the text {spelled:?}")));
            }
            let token_bytes = Arc::make_mut(&mut self.token_bytes);
            while token_bytes.len() <= id.index() {
                token_bytes.push([]);
                self.hidden.push(true);
            }
            self.special_ids.insert(text.clone(), *id);
            self.special_texts.insert(*id, text.clone());
        }
        self.added = Names::new(fresh)?;
        Ok(self)
    }

    /// The ids of a text.
    ///
    /// # Errors
    /// When the vocabulary cannot write the text.
    pub fn encode(
        &self,
        text: &str,
        specials: Specials,
        bos: AddBos,
    ) -> Result<Vec<TokenId>, TokenizerError> {
        let mut ids = Vec::new();
        let mut done = 0;
        let added = self.added.as_ref().filter(|_| specials == Specials::Parse);
        for (found, id) in added.into_iter().flat_map(|names| names.find(text)) {
            self.encode_part(&text[done..found.start], specials, &mut ids)?;
            ids.push(id);
            done = found.end;
        }
        self.encode_part(&text[done..], specials, &mut ids)?;
        if bos == AddBos::Auto
            && self.add_bos
            && let Some(bos) = self.bos
            && ids.first() != Some(&bos)
        {
            ids.insert(0, bos);
        }
        Ok(ids)
    }

    fn encode_part(
        &self,
        text: &str,
        specials: Specials,
        ids: &mut Vec<TokenId>,
    ) -> Result<(), TokenizerError> {
        match (&self.engine, specials) {
            (Engine::BytePair(model), Specials::Parse) => ids.extend(model.encode(text)?),
            (Engine::BytePair(model), Specials::AsText) => ids.extend(model.encode_as_text(text)?),
            (Engine::Pieces(pieces), specials) => {
                let names = match specials {
                    Specials::Parse => &pieces.all_names,
                    Specials::AsText => &pieces.user_names,
                };
                pieces.encode(text, names.as_ref(), self.space_first, ids);
            }
        }
        Ok(())
    }

    /// The ids of bytes that continue a text: nothing is put in front, special tokens are text, bytes
    /// that are not UTF-8 become byte tokens. Never fails; a byte that the vocabulary cannot write is
    /// left out.
    pub fn encode_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        let mut ids = Vec::new();
        for chunk in bytes.utf8_chunks() {
            if !chunk.valid().is_empty() {
                match &self.engine {
                    Engine::BytePair(model) => match model.encode_unprefixed(chunk.valid()) {
                        Ok(more) => ids.extend(more),
                        Err(_) => self.push_bytes(chunk.valid().as_bytes(), &mut ids),
                    },
                    Engine::Pieces(pieces) => pieces.encode(chunk.valid(), None, false, &mut ids),
                }
            }
            self.push_bytes(chunk.invalid(), &mut ids);
        }
        ids
    }

    fn push_bytes(&self, bytes: &[u8], ids: &mut Vec<TokenId>) {
        ids.extend(bytes.iter().filter_map(|&b| self.byte_ids[usize::from(b)]));
    }

    /// The bytes that a token adds to the text; empty for tokens that are never part of it, and for
    /// ids outside the vocabulary.
    pub fn token_bytes(&self, id: TokenId) -> &[u8] {
        self.token_bytes.get(id.index())
    }

    /// The text of a whole sequence of ids, without the space that encoding put in front. Invalid
    /// bytes become U+FFFD.
    pub fn decode(&self, ids: &[TokenId]) -> String {
        let mut stream = self.stream_from_start();
        let mut text: String = ids.iter().map(|&id| stream.push(id)).collect();
        text += &stream.finish();
        text
    }

    /// A decoder for ids that continue a text.
    pub fn stream(&self) -> StreamDecoder {
        StreamDecoder::new(self.token_bytes.clone(), false)
    }

    /// A decoder for the ids of a whole text.
    pub fn stream_from_start(&self) -> StreamDecoder {
        StreamDecoder::new(self.token_bytes.clone(), self.space_first)
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.token_bytes.len()
    }

    /// Whether there are no tokens; never, of a tokenizer that loaded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a token is never part of text: control, unknown, unused, or not in the vocabulary.
    pub fn is_control(&self, id: TokenId) -> bool {
        self.hidden.get(id.index()).copied().unwrap_or(true)
    }

    /// The id of a special token by its spelling (`<|im_end|>`, a trigger token).
    pub fn special_id(&self, name: &str) -> Option<TokenId> {
        self.special_ids.get(name).copied()
    }

    /// The spelling of a special token, for messages.
    pub fn special_text(&self, id: TokenId) -> Option<&str> {
        self.special_texts.get(&id).map(String::as_str)
    }

    /// The token that is exactly this byte.
    pub fn byte_token(&self, byte: u8) -> Option<TokenId> {
        self.byte_ids[usize::from(byte)]
    }

    /// The tokens that end a text.
    pub fn eos(&self) -> &EosSet {
        &self.eos
    }

    /// The beginning-of-text token.
    pub fn bos(&self) -> Option<TokenId> {
        self.bos
    }

    /// Whether a text begins with [`Tokenizer::bos`] unless told otherwise.
    pub fn add_bos(&self) -> bool {
        self.add_bos
    }

    /// The tokens of infilling prompts, when the model has them.
    pub fn fim(&self) -> Option<FimTokens> {
        self.fim
    }

    /// The chat template: the file's own, or one for a kind of vocabulary that is known.
    ///
    /// # Errors
    /// When there is neither, or the file's own is not valid.
    pub fn chat_template(&self) -> Result<&ChatTemplate, TokenizerError> {
        match &self.chat {
            Some(Ok(chat)) => Ok(chat),
            Some(Err(broken)) => Err(broken.clone().into()),
            None => Err(TokenizerError::NoChatTemplate),
        }
    }

    /// That every token has a row in an embedding of `rows` rows. More rows than tokens are fine: they
    /// have no bytes, so nothing ever chooses them.
    ///
    /// # Errors
    /// When there are more tokens than rows.
    pub fn check_fits(&self, rows: usize) -> Result<(), TokenizerError> {
        if self.len() > rows {
            return Err(TokenizerError::LargerThanEmbedding { n_tokens: self.len(), rows });
        }
        Ok(())
    }

    /// That a constraint on names can be followed at all: space, newline, `.`, `(` and `_` each have
    /// a token of their own.
    ///
    /// # Errors
    /// With the first character that has none.
    pub fn check_constrainable(&self) -> Result<(), TokenizerError> {
        match NEEDED_BY_CONSTRAINTS.into_iter().find(|&c| self.byte_token(c as u8).is_none()) {
            Some(byte) => Err(TokenizerError::Uncovered { byte }),
            None => Ok(()),
        }
    }
}

/// Names of tokens to be found in a text, the longest where several begin.
pub(super) struct Names {
    finder: AhoCorasick,
    ids: Vec<TokenId>,
}

impl Names {
    /// `None` when there are no names.
    pub(super) fn new(
        names: impl IntoIterator<Item = (String, TokenId)>,
    ) -> Result<Option<Self>, TokenizerError> {
        let (names, ids): (Vec<String>, Vec<TokenId>) =
            names.into_iter().filter(|(name, _)| !name.is_empty()).unzip();
        if names.is_empty() {
            return Ok(None);
        }
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&names)
            .map_err(|e| TokenizerError::Encode { problem: e.to_string() })?;
        Ok(Some(Self { finder, ids }))
    }

    /// Where names are in a text, and their tokens.
    fn find(&self, text: &str) -> impl Iterator<Item = (std::ops::Range<usize>, TokenId)> {
        let matches = self.finder.find_iter(text);
        matches.map(|found| (found.range(), self.ids[found.pattern().as_usize()]))
    }
}

impl Pieces {
    /// A space goes in front of the text and of what follows each special token.
    fn encode(&self, text: &str, names: Option<&Names>, space_first: bool, ids: &mut Vec<TokenId>) {
        let plain = |part: &str, ids: &mut Vec<TokenId>| match part {
            "" => {}
            part if space_first => self.model.encode(&format!(" {part}"), ids),
            part => self.model.encode(part, ids),
        };
        let mut done = 0;
        for (found, id) in names.into_iter().flat_map(|names| names.find(text)) {
            plain(&text[done..found.start], ids);
            ids.push(id);
            done = found.end;
        }
        plain(&text[done..], ids);
    }
}
