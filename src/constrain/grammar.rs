//! Grammars: JSON schema, regular expressions, Lark, and lists of choices, compiled under limits.
//!
//! # Place
//! Uses `base`, the vocabulary and the `llguidance` crate, which nothing else in the program names.
//! `runtime` holds one compiler per model and may compile on any thread.
//! # Invariants
//! - What cannot be enforced is refused by name when the grammar is compiled, never dropped.
//! - Compiling is bounded by size, depth and work, so that hostile input costs milliseconds.
//! - White space between JSON tokens is bounded, so that a text cannot go on for ever.

use std::sync::Arc;

use llguidance::api::{ParserLimits, TopLevelGrammar};
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value, json};

use crate::base::TokenId;

use super::gbnf::to_lark;
use super::grammar_constraint::GrammarConstraint;
use super::repetition::{Notation, expanded_size};
use super::schema::prepare;
use super::{ConstraintError, Vocabulary};

/// Longest source of a grammar, in bytes.
const SOURCE_BYTES_MAX: usize = 1 << 20;
/// Deepest nesting of a schema.
const SCHEMA_DEPTH_MAX: usize = 128;
/// Deepest nesting of groups in a Lark grammar.
const LARK_DEPTH_MAX: usize = 100;
/// Most positions of a pattern whose counted repetitions are written out.
const EXPANDED_MAX: u64 = 100_000;
/// Most choices of a list.
const CHOICES_MAX: usize = 10_000;
/// Work for the regular expressions of one grammar before the first token; about 50,000 a millisecond.
const LEXER_FUEL_MAX: u64 = 1_000_000;
const TOO_LONG: &str = "more than 1 MiB of text";
const REPEATS: &str = "its counted repetitions multiply to too many positions";
/// White space allowed between two tokens of JSON.
const JSON_SPACE: &str = r"[\x20\x0A\x0D\x09]{0,16}";

/// What the text must match, from its first byte to its last.
#[derive(Clone, Debug, PartialEq)]
pub enum GrammarSource {
    /// JSON that is valid against a schema.
    JsonSchema(Value),
    /// A regular expression in the syntax of the `regex` crate, anchored at both ends.
    Regex(String),
    /// A grammar in the Lark dialect of `llguidance`, beginning at `start`.
    Lark(String),
    /// A grammar in the GBNF notation of llama.cpp, beginning at `root`.
    Gbnf(String),
    /// One of these texts.
    Choice(Vec<String>),
}

impl GrammarSource {
    /// A text that tells a source from every other.
    pub fn key(&self) -> String {
        let text = match self {
            Self::JsonSchema(schema) => schema.to_string(),
            Self::Choice(choices) => json!(choices).to_string(),
            Self::Regex(text) | Self::Lark(text) | Self::Gbnf(text) => text.clone(),
        };
        format!("{}: {text}", self.kind())
    }

    /// The word for messages.
    const fn kind(&self) -> &'static str {
        match self {
            Self::JsonSchema(_) => "JSON schema",
            Self::Regex(_) => "regular expression",
            Self::Lark(_) => "Lark grammar",
            Self::Gbnf(_) => "GBNF grammar",
            Self::Choice(_) => "list of choices",
        }
    }
}

/// Compiles grammars for one model's vocabulary.
pub struct GrammarCompiler {
    factory: ParserFactory,
    vocabulary: Arc<Vocabulary>,
}

impl GrammarCompiler {
    /// Prepare a vocabulary; takes about as long as building its trie.
    ///
    /// # Errors
    /// When the vocabulary is empty or has no end token: a finished text could then not be ended.
    pub fn new(vocabulary: Arc<Vocabulary>) -> Result<Self, ConstraintError> {
        let failed = |problem: String| ConstraintError::GrammarEngine { problem };
        let Some(eos) = vocabulary.eos().first() else {
            return Err(failed("the vocabulary has no end token".into()));
        };
        let words: Vec<Vec<u8>> =
            (0..vocabulary.len() as u32).map(|id| word(&vocabulary, TokenId(id))).collect();
        let info = TokRxInfo::new(vocabulary.len() as u32, eos.0);
        let eos: Vec<u32> = vocabulary.eos().iter().map(|t| t.0).collect();
        let trie = TokTrie::from(&info, &words).with_eos_tokens(&eos);
        let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let slices = llguidance::earley::SlicedBiasComputer::json_slices();
        let mut factory = ParserFactory::new(&env, InferenceCapabilities::default(), &slices)
            .map_err(|e| failed(e.to_string()))?;
        factory.quiet();
        *factory.limits_mut() = ParserLimits {
            initial_lexer_fuel: LEXER_FUEL_MAX,
            precompute_large_lexemes: false,
            verbose_errors: false,
            ..ParserLimits::default()
        };
        Ok(Self { factory, vocabulary })
    }

    /// Compile a grammar into the constraint of one sequence; clone it for more.
    ///
    /// # Errors
    /// When the source has a mistake (with its place), uses what cannot be enforced (by name), or is
    /// larger than the limits.
    pub fn compile(&self, source: &GrammarSource) -> Result<GrammarConstraint, ConstraintError> {
        let grammar = to_top_level(source)?;
        let parser =
            self.factory.create_parser(grammar).map_err(|e| explain(source, &format!("{e:#}")))?;
        let matcher = Matcher::new(Ok(parser));
        if let Some(problem) = matcher.get_error() {
            return Err(explain(source, &problem));
        }
        GrammarConstraint::new(matcher, Arc::clone(&self.vocabulary))
            .map_err(|problem| explain(source, &problem))
    }
}

/// The bytes `llguidance` sees for a token. Those it would take for its own marker of control tokens
/// are hidden; no text contains them, because they are not UTF-8.
fn word(vocabulary: &Vocabulary, id: TokenId) -> Vec<u8> {
    let bytes = vocabulary.token_bytes(id);
    if vocabulary.is_eos(id) {
        // It must have bytes to be known; they begin with the marker, which no grammar can produce.
        let mut marked = vec![TokTrie::SPECIAL_TOKEN_MARKER];
        marked.extend_from_slice(format!("<end {}>", id.0).as_bytes());
        marked
    } else if bytes.contains(&TokTrie::SPECIAL_TOKEN_MARKER) {
        Vec::new()
    } else {
        bytes.to_vec()
    }
}

fn to_top_level(source: &GrammarSource) -> Result<TopLevelGrammar, ConstraintError> {
    let too_large =
        |what: &'static str| ConstraintError::GrammarTooLarge { kind: source.kind(), what };
    let within = |n_bytes: usize| {
        if n_bytes <= SOURCE_BYTES_MAX { Ok(()) } else { Err(too_large(TOO_LONG)) }
    };
    match source {
        GrammarSource::JsonSchema(schema) => {
            if !is_shallow(schema, SCHEMA_DEPTH_MAX) {
                return Err(too_large("nested too deep"));
            }
            if spend_json_bytes(schema, SOURCE_BYTES_MAX).is_none() {
                return Err(too_large(TOO_LONG));
            }
            if patterns_expanded(schema) > EXPANDED_MAX {
                return Err(too_large(REPEATS));
            }
            if !has_short_lists(schema) {
                return Err(too_large("a list of more than 10,000 entries"));
            }
            let mut schema = match schema {
                Value::Object(_) => schema.clone(),
                // The options below need an object to stand in.
                Value::Bool(true) => json!({}),
                other => json!({ "allOf": [other] }),
            };
            prepare(&mut schema);
            if let Value::Object(object) = &mut schema {
                if object.contains_key("x-guidance") {
                    return Err(ConstraintError::UnsupportedSchema {
                        what: "\"x-guidance\"".into(),
                    });
                }
                object.insert("x-guidance".into(), json!({ "whitespace_pattern": JSON_SPACE }));
            }
            Ok(TopLevelGrammar::from_json_schema(schema))
        }
        GrammarSource::Regex(regex) => {
            within(regex.len())?;
            if expanded_size(regex, Notation::Regex) > EXPANDED_MAX {
                return Err(too_large(REPEATS));
            }
            if regex.is_empty() {
                return Err(explain(source, "it is empty"));
            }
            Ok(TopLevelGrammar::from_regex(regex))
        }
        GrammarSource::Lark(lark) => {
            within(lark.len())?;
            if lark_depth(lark) > LARK_DEPTH_MAX {
                return Err(too_large("nested too deep"));
            }
            if expanded_size(lark, Notation::Lark) > EXPANDED_MAX {
                return Err(too_large(REPEATS));
            }
            Ok(TopLevelGrammar::from_lark(lark.clone()))
        }
        GrammarSource::Gbnf(gbnf) => {
            within(gbnf.len())?;
            let lark = to_lark(gbnf)?;
            if expanded_size(&lark, Notation::Lark) > EXPANDED_MAX {
                return Err(too_large(REPEATS));
            }
            Ok(TopLevelGrammar::from_lark(lark))
        }
        GrammarSource::Choice(choices) => {
            within(choices.iter().map(String::len).sum())?;
            if choices.len() > CHOICES_MAX {
                return Err(too_large("more than 10,000 choices"));
            }
            if choices.is_empty() || choices.iter().any(String::is_empty) {
                return Err(explain(source, "it has no choice or an empty one"));
            }
            let quoted: Vec<String> = choices.iter().map(|c| json!(c).to_string()).collect();
            Ok(TopLevelGrammar::from_lark(format!("start: {}", quoted.join(" | "))))
        }
    }
}

/// Whether a value is nested at most `depth` deep. What follows may then recurse on it.
fn is_shallow(value: &Value, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else {
        return false;
    };
    match value {
        Value::Array(items) => items.iter().all(|item| is_shallow(item, depth)),
        Value::Object(entries) => entries.values().all(|item| is_shallow(item, depth)),
        _ => true,
    }
}

/// Whether no list or object has more entries than a list of choices may have.
fn has_short_lists(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.len() <= CHOICES_MAX && items.iter().all(has_short_lists),
        Value::Object(entries) => {
            entries.len() <= CHOICES_MAX && entries.values().all(has_short_lists)
        }
        _ => true,
    }
}

/// What is left of a budget of bytes after the text of a value, roughly; `None` when it is too long.
fn spend_json_bytes(value: &Value, budget: usize) -> Option<usize> {
    match value {
        Value::Array(items) => {
            items.iter().try_fold(budget, |left, item| spend_json_bytes(item, left.checked_sub(1)?))
        }
        Value::Object(entries) => entries.iter().try_fold(budget, |left, (key, item)| {
            spend_json_bytes(item, left.checked_sub(key.len() + 4)?)
        }),
        Value::String(text) => budget.checked_sub(text.len() + 2),
        Value::Null | Value::Bool(_) | Value::Number(_) => budget.checked_sub(5),
    }
}

/// Sizes of the regular expressions in a schema, written out.
fn patterns_expanded(value: &Value) -> u64 {
    let size = |regex: &str| expanded_size(regex, Notation::Regex);
    let sizes: Vec<u64> = match value {
        Value::Array(items) => items.iter().map(patterns_expanded).collect(),
        Value::Object(entries) => entries
            .iter()
            .map(|(key, value)| match (key.as_str(), value) {
                ("pattern", Value::String(regex)) => size(regex),
                ("patternProperties", Value::Object(patterns)) => patterns
                    .iter()
                    .map(|(regex, value)| size(regex).saturating_add(patterns_expanded(value)))
                    .fold(0, u64::saturating_add),
                _ => patterns_expanded(value),
            })
            .collect(),
        _ => Vec::new(),
    };
    sizes.into_iter().fold(0, u64::saturating_add)
}

/// Deepest nesting of brackets outside literals and regular expressions; the parser recurses on it.
fn lark_depth(lark: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    let mut quote = None;
    let mut bytes = lark.bytes();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (Some(_), b'\\') => {
                bytes.next();
            }
            (Some(q), _) if q == byte || byte == b'\n' => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'/') => quote = Some(byte),
            (None, b'(' | b'[' | b'{') => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            (None, b')' | b']' | b'}') => depth = depth.saturating_sub(1),
            (None, _) => {}
        }
    }
    deepest
}

/// Turn the text of an `llguidance` error into one of ours: what was refused, or where the mistake is.
fn explain(source: &GrammarSource, problem: &str) -> ConstraintError {
    let kind = source.kind();
    // The excerpt of the source and the parser's state that may follow are not for users.
    let first = problem.lines().next().unwrap_or_default().trim();
    let text = first.trim_end_matches("<non-verbose/>").trim();
    if let Some(what) = unsupported(text) {
        return ConstraintError::UnsupportedSchema { what };
    }
    if ["fuel", "too large", "too complex", "too many", "limit"]
        .iter()
        .any(|word| text.to_ascii_lowercase().contains(word))
    {
        return ConstraintError::GrammarTooLarge { kind, what: "more work than the limits allow" };
    }
    let (line, column, text) = match source {
        // Its position is the one in our own wrapping.
        GrammarSource::Regex(_) => {
            let detail = problem.lines().find_map(|l| l.trim().strip_prefix("error: "));
            (None, None, detail.unwrap_or(text))
        }
        _ => split_position(text),
    };
    // A header alone says nothing; what it heads comes in a later line.
    let detail = problem.lines().find_map(|l| l.trim().strip_prefix("error: "));
    let text = match (text.strip_suffix("regex parse error:"), detail) {
        (Some(head), Some(detail)) => &format!("{head}{detail}"),
        _ => text,
    };
    ConstraintError::Grammar { kind, line, column, problem: text.to_owned() }
}

/// What a schema asks for that the engine does not enforce, in the words of our message.
fn unsupported(text: &str) -> Option<String> {
    if let Some((_, keys)) = text.split_once("Unimplemented keys: ") {
        let keys = keys.trim_start_matches('[');
        return Some(keys.split(']').next().unwrap_or(keys).to_owned());
    }
    if let Some((_, format)) = text.split_once("Unknown format: ") {
        return Some(format!("the format \"{format}\""));
    }
    if text.contains("oneOf constraints are not supported") {
        return Some("\"oneOf\" with alternatives that may hold together".to_owned());
    }
    if text.contains("are not disjoint") {
        return Some("\"patternProperties\" that may match one name together".to_owned());
    }
    let (_, rest) = text.split_once("Resource '")?;
    let (place, _) = rest.split_once("' is not present")?;
    Some(format!("a reference to {place}"))
}

/// Split `LINE(COLUMN): ` or `at LINE(COLUMN): ` off a message.
fn split_position(text: &str) -> (Option<u32>, Option<u32>, &str) {
    let split = || {
        let (line, rest) = text.strip_prefix("at ").unwrap_or(text).split_once('(')?;
        let (column, rest) = rest.split_once("): ")?;
        Some((line.parse().ok()?, column.parse().ok()?, rest))
    };
    match split() {
        Some((line, column, rest)) => (Some(line), Some(column), rest),
        None => (None, None, text),
    }
}
