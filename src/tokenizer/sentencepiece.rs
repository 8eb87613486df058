//! SentencePiece's byte-pair encoding by scores, with byte fallback.
//!
//! # Place
//! Part of `tokenizer`; for GGUF files whose tokenizer model is `llama`.
//! # Invariants
//! The best-scored pair of neighbours is merged first, the leftmost of equals; never the most
//! probable split of the whole text, which is another algorithm (unigram) on the same data.
//! # Shapes and units
//! O(n log n) in the length of the text: a merged symbol is a token, so no looked-up slice is longer
//! than two tokens.
//! # Sources
//! SentencePiece: Kudo and Richardson 2018, arXiv:1808.06226.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

use super::token_bytes::{Kind, SPACE_MARK, byte_of_escape};
use crate::base::TokenId;

/// Pieces with their scores.
pub(super) struct SentencePiece {
    ids: FxHashMap<Box<str>, u32>,
    scores: Vec<f32>,
    byte_ids: [Option<u32>; 256],
    unknown: Option<TokenId>,
    piece_bytes_max: usize,
}

/// A run of the text that is one token (or one character) so far.
#[derive(Clone, Copy)]
struct Symbol {
    start: usize,
    /// 0 once the symbol has been merged into the one on its left.
    n_bytes: usize,
    left: Option<usize>,
    right: Option<usize>,
}

/// Two neighbours that together are a token.
struct Pair {
    score: f32,
    left: usize,
    right: usize,
    n_bytes: usize,
}

impl Ord for Pair {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| other.left.cmp(&self.left))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Pair {}

impl SentencePiece {
    /// From the tokens in order of their ids.
    pub(super) fn new(
        pieces: &[&str],
        scores: Vec<f32>,
        kinds: &[Kind],
        unknown: Option<TokenId>,
    ) -> Self {
        let mut ids = FxHashMap::default();
        let mut byte_ids = [None; 256];
        let mut piece_bytes_max = 0;
        for (idx, (&piece, kind)) in pieces.iter().zip(kinds).enumerate() {
            let id = idx as u32;
            match kind {
                // Of pieces spelled the same, the first is the one that is used.
                Kind::Text | Kind::UserDefined => {
                    ids.entry(piece.into()).or_insert(id);
                    piece_bytes_max = piece_bytes_max.max(piece.len());
                }
                Kind::Byte => {
                    if let Some(byte) = byte_of_escape(piece) {
                        byte_ids[usize::from(byte)].get_or_insert(id);
                    }
                }
                Kind::Hidden => {}
            }
        }
        Self { ids, scores, byte_ids, unknown, piece_bytes_max }
    }

    /// Append the ids of `text`; spaces are marked here, nothing is put in front.
    pub(super) fn encode(&self, text: &str, out: &mut Vec<TokenId>) {
        let text = text.replace(' ', SPACE_MARK.encode_utf8(&mut [0; 4]));
        let symbols = self.merge(&text);
        for symbol in symbols.iter().filter(|s| s.n_bytes > 0) {
            let piece = &text[symbol.start..symbol.start + symbol.n_bytes];
            match self.ids.get(piece) {
                Some(&id) => out.push(TokenId(id)),
                None => self.push_bytes(piece.as_bytes(), out),
            }
        }
    }

    /// Append one token per byte: of a character without a piece.
    pub(super) fn push_bytes(&self, bytes: &[u8], out: &mut Vec<TokenId>) {
        for &byte in bytes {
            let id = self.byte_ids[usize::from(byte)].map(TokenId);
            out.extend(id.or(self.unknown));
        }
    }

    fn merge(&self, text: &str) -> Vec<Symbol> {
        let mut symbols: Vec<Symbol> = text
            .char_indices()
            .enumerate()
            .map(|(i, (start, c))| Symbol {
                start,
                n_bytes: c.len_utf8(),
                left: i.checked_sub(1),
                right: Some(i + 1),
            })
            .collect();
        if let Some(last) = symbols.last_mut() {
            last.right = None;
        }
        let mut queue = BinaryHeap::new();
        for right in 1..symbols.len() {
            queue.extend(self.pair(text, &symbols, right - 1, right));
        }
        while let Some(pair) = queue.pop() {
            let (left, right) = (symbols[pair.left], symbols[pair.right]);
            // One of the two has been merged since the pair was seen.
            if left.n_bytes == 0
                || right.n_bytes == 0
                || left.n_bytes + right.n_bytes != pair.n_bytes
            {
                continue;
            }
            symbols[pair.left].n_bytes = pair.n_bytes;
            symbols[pair.left].right = right.right;
            symbols[pair.right].n_bytes = 0;
            if let Some(next) = right.right {
                symbols[next].left = Some(pair.left);
                queue.extend(self.pair(text, &symbols, pair.left, next));
            }
            if let Some(before) = left.left {
                queue.extend(self.pair(text, &symbols, before, pair.left));
            }
        }
        symbols
    }

    fn pair(&self, text: &str, symbols: &[Symbol], left: usize, right: usize) -> Option<Pair> {
        let start = symbols[left].start;
        let n_bytes = symbols[left].n_bytes + symbols[right].n_bytes;
        if n_bytes > self.piece_bytes_max {
            return None;
        }
        let id = *self.ids.get(&text[start..start + n_bytes])?;
        Some(Pair { score: self.scores[id as usize], left, right, n_bytes })
    }
}
