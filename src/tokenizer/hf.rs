//! A tokenizer from a Hugging Face folder.
//!
//! # Place
//! Part of `tokenizer`.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokenizers::Tokenizer as Pipeline;

use super::byte_pair::{BytePair, Unprefixed};
use super::chat::{ChatTemplate, TemplateSource};
use super::codec::{Engine, Parts, Tokenizer};
use super::error::{BrokenTemplate, TokenizerError};
use super::token_bytes::{Kind, TokenBytes, byte_of_escape, bytes_of_byte_level, bytes_of_marked};
use crate::base::{TokenId, limit};

impl Tokenizer {
    /// The tokenizer of a model folder: `tokenizer.json`, and what `tokenizer_config.json`,
    /// `config.json`, `generation_config.json` and `chat_template.jinja` add where they exist.
    ///
    /// # Errors
    /// When a file cannot be read or is not what it should be.
    pub fn from_folder(folder: &Path) -> Result<Self, TokenizerError> {
        let path = folder.join("tokenizer.json");
        let bytes = std::fs::read(&path)
            .map_err(|source| TokenizerError::Io { path: path.clone(), source })?;
        let pipeline = read_pipeline(&bytes, &path)?;
        let config = Configs::read(folder)?;
        let vocabulary = Vocabulary::read(&pipeline, &path)?;
        let chat = config.chat_template()?;
        let hidden_names: Vec<String> = vocabulary
            .specials
            .iter()
            .filter(|(_, id)| vocabulary.kinds[id.index()] == Kind::Hidden)
            .map(|(name, _)| name.clone())
            .collect();
        let (bos, add_bos) = config.bos(&pipeline, &path)?;
        let eos = config.eos(&pipeline);
        let prefix = unprefixed(&pipeline, &path)?;
        let space_first = prefix.is_some();
        let engine = BytePair::from_pipeline(pipeline, &hidden_names, prefix)?;
        Ok(Self::assemble(Parts {
            engine: Engine::BytePair(Box::new(engine)),
            token_bytes: vocabulary.token_bytes,
            kinds: vocabulary.kinds,
            specials: vocabulary.specials,
            bos,
            add_bos,
            eos,
            fim: None,
            chat,
            space_first,
        }))
    }
}

fn bad(path: &Path, problem: &dyn std::fmt::Display) -> TokenizerError {
    TokenizerError::BadFile { path: path.to_owned(), problem: problem.to_string() }
}

/// The part of `tokenizer.json` that the `tokenizers` crate does not take at its word.
#[derive(serde::Deserialize)]
struct Declared {
    #[serde(default)]
    added_tokens: Vec<DeclaredToken>,
}

#[derive(serde::Deserialize)]
struct DeclaredToken {
    id: u32,
    content: String,
}

impl Declared {
    /// A token that `pipeline` knows under another id.
    fn misplaced(&self, pipeline: &Pipeline) -> Option<&DeclaredToken> {
        let elsewhere = |t: &&DeclaredToken| pipeline.token_to_id(&t.content) != Some(t.id);
        self.added_tokens.iter().find(elsewhere)
    }
}

/// The pipeline with every added token under the id that the file gives it. The crate numbers added
/// tokens on from the end of the vocabulary, which is wrong when there is a hole between the two;
/// then they are written into the vocabulary first.
fn read_pipeline(bytes: &[u8], path: &Path) -> Result<Pipeline, TokenizerError> {
    let pipeline = Pipeline::from_bytes(bytes).map_err(|e| bad(path, &e))?;
    let declared: Declared = serde_json::from_slice(bytes).map_err(|e| bad(path, &e))?;
    let Some(token) = declared.misplaced(&pipeline) else {
        return Ok(pipeline);
    };
    let contradiction = |token: &DeclaredToken| {
        let DeclaredToken { id, content } = token;
        bad(path, &format_args!("the id of the added token {content:?} cannot be {id}"))
    };
    let mut json: Value = serde_json::from_slice(bytes).map_err(|e| bad(path, &e))?;
    let vocab = json["model"]["vocab"].as_object_mut();
    let vocab = vocab.ok_or_else(|| contradiction(token))?;
    for token in &declared.added_tokens {
        vocab.insert(token.content.clone(), token.id.into());
    }
    let pipeline = Pipeline::from_bytes(json.to_string()).map_err(|e| bad(path, &e))?;
    match declared.misplaced(&pipeline) {
        Some(token) => Err(contradiction(token)),
        None => Ok(pipeline),
    }
}

/// How a vocabulary spells bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spelling {
    ByteLevel,
    Marked,
}

struct Vocabulary {
    token_bytes: TokenBytes,
    kinds: Vec<Kind>,
    specials: Vec<(String, TokenId)>,
}

impl Vocabulary {
    fn read(pipeline: &Pipeline, path: &Path) -> Result<Self, TokenizerError> {
        let spelling = spelling(pipeline, path)?;
        let ids = pipeline.get_vocab(true);
        let n = ids.values().max().map_or(0, |&max| max as usize + 1);
        if n == 0 || n > limit::VOCAB_TOKENS_MAX {
            return Err(TokenizerError::VocabularySize { n, max: limit::VOCAB_TOKENS_MAX });
        }
        // An id that no token has is a hole: hidden, without bytes.
        let mut pieces: Vec<Option<&str>> = vec![None; n];
        for (piece, &id) in &ids {
            pieces[id as usize] = Some(piece);
        }
        let added = pipeline.get_added_tokens_decoder();
        let mut kinds = Vec::with_capacity(n);
        let mut token_bytes = TokenBytes::with_tokens(n);
        let mut specials = Vec::new();
        for (idx, piece) in pieces.into_iter().enumerate() {
            let id = idx as u32;
            let (kind, bytes) = match (added.get(&id), piece) {
                (Some(token), _) => {
                    specials.push((token.content.clone(), TokenId(id)));
                    if token.special {
                        (Kind::Hidden, Vec::new())
                    } else {
                        (Kind::UserDefined, token.content.clone().into_bytes())
                    }
                }
                (None, None) => (Kind::Hidden, Vec::new()),
                (None, Some(piece)) if spelling == Spelling::ByteLevel => {
                    (Kind::Text, bytes_of_byte_level(piece))
                }
                (None, Some(piece)) => match byte_of_escape(piece) {
                    Some(byte) => (Kind::Byte, vec![byte]),
                    None => (Kind::Text, bytes_of_marked(piece)),
                },
            };
            kinds.push(kind);
            token_bytes.push(bytes);
        }
        Ok(Self { token_bytes, kinds, specials })
    }
}

/// The spelling, from the step that undoes it.
fn spelling(pipeline: &Pipeline, path: &Path) -> Result<Spelling, TokenizerError> {
    let steps = serde_json::to_value(pipeline.get_decoder()).map_err(|e| bad(path, &e))?;
    if mentions(&steps, "type", "ByteLevel") {
        Ok(Spelling::ByteLevel)
    } else if mentions(&steps, "type", "ByteFallback") || mentions(&steps, "type", "Metaspace") {
        Ok(Spelling::Marked)
    } else {
        Err(bad(
            path,
            &"its decoder has none of the steps ByteLevel, ByteFallback and Metaspace, so the bytes of its tokens are not known",
        ))
    }
}

/// Whether some object inside `json` has `key` with the string `value`.
fn mentions(json: &Value, key: &str, value: &str) -> bool {
    match json {
        Value::Object(object) => {
            object.get(key).and_then(Value::as_str) == Some(value)
                || object.values().any(|v| mentions(v, key, value))
        }
        Value::Array(items) => items.iter().any(|v| mentions(v, key, value)),
        _ => false,
    }
}

/// The pipeline's steps with whatever puts something in front of a text taken out; `None` when
/// nothing does.
fn unprefixed(pipeline: &Pipeline, path: &Path) -> Result<Option<Unprefixed>, TokenizerError> {
    let to_json = |e: serde_json::Result<Value>| e.map_err(|e| bad(path, &e));
    let mut normalizer = to_json(serde_json::to_value(pipeline.get_normalizer()))?;
    let mut pre_tokenizer = to_json(serde_json::to_value(pipeline.get_pre_tokenizer()))?;
    let changed = [strip_prefix(&mut normalizer), strip_prefix(&mut pre_tokenizer)];
    if !changed.contains(&true) {
        return Ok(None);
    }
    fn from_json<T: DeserializeOwned>(json: Value, path: &Path) -> Result<T, TokenizerError> {
        serde_json::from_value(json).map_err(|e| bad(path, &e))
    }
    Ok(Some(Unprefixed {
        normalizer: from_json(normalizer, path)?,
        pre_tokenizer: from_json(pre_tokenizer, path)?,
    }))
}

/// Take prefixes out of a step and the steps inside it; whether there was one.
fn strip_prefix(step: &mut Value) -> bool {
    match step {
        Value::Array(steps) => {
            let n_before = steps.len();
            steps.retain(|s| s.get("type").and_then(Value::as_str) != Some("Prepend"));
            let mut changed = steps.len() != n_before;
            for step in steps {
                changed |= strip_prefix(step);
            }
            changed
        }
        Value::Object(object) => {
            let ty = object.get("type").and_then(Value::as_str).unwrap_or_default();
            if ty == "Prepend" {
                *step = Value::Null;
                return true;
            }
            let mut changed = false;
            if ty == "Metaspace" && object.get("prepend_scheme").is_some_and(|s| s != "never") {
                object.insert("prepend_scheme".to_owned(), "never".into());
                changed = true;
            }
            if object.get("add_prefix_space") == Some(&Value::Bool(true)) {
                object.insert("add_prefix_space".to_owned(), false.into());
                changed = true;
            }
            for value in object.values_mut() {
                changed |= strip_prefix(value);
            }
            changed
        }
        _ => false,
    }
}

type CompiledChat = Result<ChatTemplate, BrokenTemplate>;

/// The JSON files beside `tokenizer.json`; `Null` where one is absent.
struct Configs {
    folder: PathBuf,
    tokenizer: Value,
    model: Value,
    generation: Value,
    jinja: Option<String>,
}

impl Configs {
    fn read(folder: &Path) -> Result<Self, TokenizerError> {
        let text = |name: &str| -> Result<Option<String>, TokenizerError> {
            let path = folder.join(name);
            match std::fs::read_to_string(&path) {
                Ok(text) => Ok(Some(text)),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(source) => Err(TokenizerError::Io { path, source }),
            }
        };
        let json = |name: &str| -> Result<Value, TokenizerError> {
            let text = text(name)?;
            text.map_or(Ok(Value::Null), |text| {
                serde_json::from_str(&text).map_err(|e| bad(&folder.join(name), &e))
            })
        };
        Ok(Self {
            folder: folder.to_owned(),
            tokenizer: json("tokenizer_config.json")?,
            model: json("config.json")?,
            generation: json("generation_config.json")?,
            jinja: text("chat_template.jinja")?,
        })
    }

    /// A token of `tokenizer_config.json`: a string, or an object with `content`.
    fn named_token(&self, pipeline: &Pipeline, key: &str) -> Option<TokenId> {
        let token = &self.tokenizer[key];
        let name = token.as_str().or_else(|| token["content"].as_str())?;
        pipeline.token_to_id(name).map(TokenId)
    }

    /// The beginning-of-text token and whether it is added: as the configuration says, otherwise as
    /// the pipeline itself does.
    fn bos(
        &self,
        pipeline: &Pipeline,
        path: &Path,
    ) -> Result<(Option<TokenId>, bool), TokenizerError> {
        let first = |specials| -> Result<(Option<u32>, usize), TokenizerError> {
            let encoding = pipeline.encode("a", specials).map_err(|e| bad(path, &e))?;
            Ok((encoding.get_ids().first().copied(), encoding.len()))
        };
        let ((plain, n_plain), (with, n_with)) = (first(false)?, first(true)?);
        let added = with.filter(|_| with != plain && n_with > n_plain).map(TokenId);
        let bos = self.named_token(pipeline, "bos_token").or(added);
        let add_bos = self.tokenizer["add_bos_token"].as_bool();
        Ok((bos, add_bos.unwrap_or(added.is_some())))
    }

    /// Every id that any of the files calls the end; the tokenizer's own first.
    fn eos(&self, pipeline: &Pipeline) -> Vec<TokenId> {
        let mut eos: Vec<TokenId> = self.named_token(pipeline, "eos_token").into_iter().collect();
        for config in [&self.generation, &self.model] {
            let ids = &config["eos_token_id"];
            let ids = ids.as_array().map_or(std::slice::from_ref(ids), Vec::as_slice);
            let ids = ids.iter().filter_map(Value::as_u64);
            eos.extend(ids.filter_map(|id| u32::try_from(id).ok()).map(TokenId));
        }
        eos
    }

    /// The template: its own file, or `tokenizer_config.json` as a string or as a list with one named
    /// `default`.
    fn chat_template(&self) -> Result<Option<CompiledChat>, TokenizerError> {
        if let Some(source) = &self.jinja {
            return Ok(Some(ChatTemplate::new(source, TemplateSource::JinjaFile)));
        }
        let source = match &self.tokenizer["chat_template"] {
            Value::Null => return Ok(None),
            Value::String(source) => source,
            Value::Array(named) => named
                .iter()
                .find(|t| t["name"] == "default")
                .and_then(|t| t["template"].as_str())
                .ok_or_else(|| self.bad_template("a list without a template named \"default\""))?,
            _ => return Err(self.bad_template("neither a string nor a list")),
        };
        Ok(Some(ChatTemplate::new(source, TemplateSource::TokenizerConfig)))
    }

    fn bad_template(&self, problem: &str) -> TokenizerError {
        let path = self.folder.join("tokenizer_config.json");
        bad(&path, &format_args!("chat_template is {problem}"))
    }
}
