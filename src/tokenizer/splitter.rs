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

/// Letters with case, as of the Unicode version of that vocabulary: later additions stay outside.
const CASED_WORD: &str = concat!(
    r"\s?[",
    r"\x{41}-\x{5A}\x{61}-\x{7A}\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}",
    r"\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}",
    r"\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}",
    r"\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}",
    r"\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}",
    r"\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}",
    r"\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}",
    r"\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}",
    r"\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}",
    r"\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}",
    r"\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}",
    r"\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}",
    r"\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}",
    r"\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}",
    r"\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}",
    r"\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}",
    r"\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}",
    r"]+"
);
/// ASCII from `!` on without digits, its full-width forms, and general and ideographic punctuation.
const MARKS: &str =
    r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+";

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
    Splitter { patterns, whole_pieces_first: false, adds_bos: false }
}

const LLAMA3_SPLITTER: Splitter =
    Splitter { patterns: &[LLAMA3], whole_pieces_first: true, adds_bos: true };

/// Every splitter by the names it goes under.
const NAMED: [(&[&str], Splitter); 7] = [
    (&["gpt-2"], plain(&[GPT2])),
    (&["smollm", "starcoder", "refact"], plain(&[EACH_DIGIT, GPT2])),
    (&["llama-bpe", "llama3", "llama-v3"], LLAMA3_SPLITTER),
    (&["qwen2", "deepseek-r1-qwen"], plain(&[QWEN2])),
    (&["deepseek-coder"], plain(&[LINE_END, r"\s?\p{L}+", r"\s?\p{P}+", EAST_ASIAN, EACH_DIGIT])),
    (&["deepseek-llm"], plain(&[LINE_END, CASED_WORD, MARKS, r"\s+$", EAST_ASIAN, r"\p{N}+"])),
    (&["falcon"], plain(&[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, r"[0-9][0-9][0-9]"])),
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
    let names: Vec<&str> = NAMED.iter().flat_map(|(names, _)| *names).copied().collect();
    names.join(", ")
}
