//! The named ways in which text is cut before byte-pair encoding.
//!
//! # Place
//! Part of `tokenizer`. A vocabulary was learned on pieces cut in one of these ways; any other way
//! gives other tokens and a silently worse model.
//! # Invariants
//! Each pattern cuts what the pattern before left whole, and keeps both matches and gaps.
//! # Sources
//! The pre-tokenizers in the models' own `tokenizer.json` files; the names are those that
//! `tokenizer.ggml.pre` uses. Checked against 47 vectors for five vocabularies.

use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{PreTokenizerWrapper, SplitDelimiterBehavior};

use super::error::TokenizerError;

/// Contractions, words, numbers and other runs, each with the space before it.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// As GPT-2, but a word takes any one character before it, and line ends stay with what is before.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// As Llama 3, digits one by one.
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const EACH_DIGIT: &str = r"\p{N}";
const LINE_END: &str = r"[\r\n]";
/// Ideographs; U+0800 up to them; Hangul and what follows it.
const EAST_ASIAN: &str = r"[\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+";

/// Where byte-pair pieces may not cross, and what is special about looking them up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Splitter {
    patterns: &'static [&'static str],
    /// A piece that is a token as a whole is taken as that token, whatever the merges say.
    pub(super) whole_pieces_first: bool,
    /// The beginning-of-text token is added unless the file says otherwise.
    pub(super) adds_bos: bool,
}

const fn plain(patterns: &'static [&'static str]) -> Splitter {
    Splitter {
        patterns,
        whole_pieces_first: false,
        adds_bos: false,
    }
}

const LLAMA3_SPLITTER: Splitter = Splitter {
    patterns: &[LLAMA3],
    whole_pieces_first: true,
    adds_bos: true,
};

/// Every splitter by the names it goes under.
const NAMED: [(&[&str], Splitter); 6] = [
    (&["gpt-2"], plain(&[GPT2])),
    (
        &["smollm", "starcoder", "refact"],
        plain(&[EACH_DIGIT, GPT2]),
    ),
    (&["llama-bpe", "llama3", "llama-v3"], LLAMA3_SPLITTER),
    (&["qwen2", "deepseek-r1-qwen"], plain(&[QWEN2])),
    (
        &["deepseek-coder"],
        plain(&[LINE_END, r"\s?\p{L}+", r"\s?\p{P}+", EAST_ASIAN, EACH_DIGIT]),
    ),
    (
        &["falcon"],
        plain(&[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, r"[0-9][0-9][0-9]"]),
    ),
];

impl Splitter {
    /// The splitter of that name.
    pub(super) fn named(name: &str) -> Result<Self, TokenizerError> {
        NAMED
            .iter()
            .find(|(names, _)| names.contains(&name))
            .map(|&(_, splitter)| splitter)
            .ok_or_else(|| TokenizerError::UnknownSplitter {
                name: name.to_owned(),
                supported: supported(),
            })
    }

    /// The splitter as the `tokenizers` crate runs it, with the change to the byte alphabet at its end.
    pub(super) fn build(&self) -> PreTokenizerWrapper {
        let mut steps: Vec<PreTokenizerWrapper> = Vec::new();
        for pattern in self.patterns {
            let pattern = SplitPattern::Regex((*pattern).to_owned());
            let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false)
                .expect("the patterns are constants; the tests build every one");
            steps.push(split.into());
        }
        steps.push(ByteLevel::new(false, false, false).into());
        PreTokenizerWrapper::Sequence(Sequence::new(steps))
    }
}

fn supported() -> String {
    let names: Vec<&str> = NAMED
        .iter()
        .flat_map(|(names, _)| *names)
        .copied()
        .collect();
    names.join(", ")
}
