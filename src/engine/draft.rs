//! Guessing the next tokens, so that one pass can confirm several.
//!
//! # Place
//! Part of `engine`. A draft is fed behind the last token; every token of it is then chosen as if it had
//! not been fed, so a wrong guess costs rows and never changes the text.
//! # Sources
//! Speculative verification: Leviathan et al. 2023, arXiv:2211.17192. Drafts from the text itself:
//! prompt lookup decoding (Saxena 2023). Drafts from the names that fit are ours.

use super::Engine;
use super::sequence::Sequence;
use super::step::Encoder;
use crate::base::limit;
use crate::constrain::Constraint;
use rustc_hash::FxHashMap;

/// Longest run of tokens that is looked up.
const GRAM_MAX: usize = 4;
/// Shortest one: two tokens repeat too often to say what comes next.
const GRAM_MIN: usize = 3;
/// Names that fit, beyond which no guess is made.
const NAMES_MAX: usize = 4096;
/// What one more row costs, as a share of a pass of one row. Between 0.08 and 0.2 on processors and less on
/// a GPU; the best length hardly depends on it.
const ROW_COST: f64 = 0.15;

/// How often guesses of one kind were right lately.
#[derive(Clone, Copy, Debug)]
struct Luck {
    right: f64,
    tried: f64,
}

impl Luck {
    fn new(p: f64) -> Self {
        Self { right: 4.0 * p, tried: 4.0 }
    }

    /// Of `n` tokens guessed in a row the first `n_right` were right.
    fn learn(&mut self, n: usize, n_right: usize) {
        const KEEP: f64 = 0.9;
        let n_tried = (n_right + 1).min(n);
        self.right = self.right * KEEP + n_right as f64;
        self.tried = self.tried * KEEP + n_tried as f64;
    }

    /// Probability that the next guess is right.
    fn p(self) -> f64 {
        self.right / self.tried.max(1e-9)
    }

    /// The length of a guess for which a pass yields most tokens for its cost.
    fn best_len(self) -> usize {
        let p = self.p().clamp(0.0, 0.99);
        let value = |n: usize| {
            let expected = (1.0 - p.powi(n as i32 + 1)) / (1.0 - p);
            expected / (1.0 + ROW_COST * n as f64)
        };
        (0..=limit::DRAFT_TOKENS_MAX).max_by(|&a, &b| value(a).total_cmp(&value(b))).unwrap_or(0)
    }
}

/// What has been written so far, by its last few tokens.
#[derive(Clone, Debug)]
pub(super) struct Drafter {
    /// Hash of a run of tokens to the position right after its last occurrence. One map for each length.
    after: [FxHashMap<u64, u32>; GRAM_MAX - GRAM_MIN + 1],
    n_indexed: usize,
    /// Words of the prompt, and where each stands last.
    words: FxHashMap<Box<[u8]>, usize>,
    look_ups: Luck,
    names: Luck,
    /// Tokens at the front of the last draft that came from a name.
    n_named: usize,
    /// Look-ups left out since the last one, when they were hardly ever right.
    n_skipped: usize,
}

impl Drafter {
    /// For a prompt that spells `text`.
    pub(super) fn new(tokens: &[u32], text: &[u8]) -> Self {
        let mut drafter = Self {
            after: Default::default(),
            n_indexed: 0,
            words: words(text),
            look_ups: Luck::new(0.7),
            names: Luck::new(0.5),
            n_named: 0,
            n_skipped: 0,
        };
        drafter.index(tokens);
        drafter
    }

    /// Take in the tokens that came since the last call. The last position is left out: nothing
    /// follows it yet.
    fn index(&mut self, tokens: &[u32]) {
        for end in self.n_indexed.max(GRAM_MIN)..tokens.len() {
            for (n, map) in (GRAM_MIN..).zip(&mut self.after) {
                if end >= n {
                    map.insert(hash(&tokens[end - n..end]), end as u32);
                }
            }
        }
        self.n_indexed = tokens.len();
    }

    /// Go on as the text did after the longest run that ends it here; at most `n_max` tokens.
    fn look_up(&self, tokens: &[u32], n_max: usize) -> Vec<u32> {
        for n in (GRAM_MIN..=GRAM_MAX.min(tokens.len())).rev() {
            let run = &tokens[tokens.len() - n..];
            let Some(&at) = self.after[n - GRAM_MIN].get(&hash(run)) else {
                continue;
            };
            let at = at as usize;
            if at >= n && tokens.get(at - n..at) == Some(run) {
                return tokens[at..(at + n_max).min(tokens.len())].to_vec();
            }
        }
        Vec::new()
    }

    /// How many tokens are worth looking up now. Where luck is bad one is tried now and then.
    fn n_wanted(&mut self) -> usize {
        let n = self.look_ups.best_len();
        if n == 0 {
            self.n_skipped = (self.n_skipped + 1) % 8;
            return usize::from(self.n_skipped == 0);
        }
        n
    }

    /// A draft of `n` tokens was right for `n_taken`.
    pub(super) fn learn(&mut self, n: usize, n_taken: usize) {
        let n_named = self.n_named.min(n);
        if n_named > 0 {
            self.names.learn(1, n_taken.min(1));
        }
        if n > n_named && n_taken >= n_named {
            self.look_ups.learn(n - n_named, n_taken - n_named);
        }
    }
}

/// FNV-1a over the tokens; a collision is found when the runs are compared.
fn hash(tokens: &[u32]) -> u64 {
    tokens
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |h, &t| (h ^ u64::from(t)).wrapping_mul(0x0100_0000_01b3))
}

impl Engine {
    /// Guess for the sequences that generate, within the rows there are; the number of rows used.
    pub(super) fn draft(
        &mut self,
        picked: &[(usize, usize)],
        logit_rows: usize,
        rows: usize,
    ) -> usize {
        let mut left = logit_rows.min(rows).min(limit::DRAFT_ROWS_MAX);
        let mut n_rows = 0;
        let encode = self.encode.as_deref();
        for &(i, n) in picked {
            let seq = &mut self.seqs[i];
            if n != seq.n_to_feed() || n != 1 {
                continue;
            }
            // The last token that may come is never fed.
            let n_max = left.min((seq.n_tokens_max - 1).saturating_sub(seq.tokens.len()));
            seq.draft = seq.guess(n_max, encode);
            debug_assert!(seq.draft.len() <= n_max, "a draft keeps to the rows it was given");
            left -= seq.draft.len();
            n_rows += seq.draft.len();
        }
        n_rows
    }
}

impl Sequence {
    fn guess(&mut self, n_max: usize, encode: Option<&Encoder>) -> Vec<u32> {
        let mut draft: Vec<u32> = Vec::new();
        let encoded = |bytes: &[u8]| -> Vec<u32> {
            let ids = encode.map(|encode| encode(bytes)).unwrap_or_default();
            ids.into_iter().map(|id| id.0).take(n_max).collect()
        };
        // What must come is fed at once, whether or not anything is guessed.
        let forced = self.constraint.as_mut().map(|c| c.forced()).unwrap_or_default();
        if !forced.is_empty() {
            draft = encoded(&forced);
        }
        let Some(drafter) = &mut self.drafter else {
            return draft;
        };
        drafter.n_named = 0;
        if let (true, Some(constraint)) = (forced.is_empty(), &self.constraint) {
            let luck = drafter.names.p();
            let written = self.scan.text();
            let rest = likely_name(constraint.as_ref(), written, &drafter.words, luck);
            draft = encoded(&rest);
            drafter.n_named = draft.len();
        }
        drafter.index(&self.tokens);
        let n_left = (n_max - draft.len()).min(drafter.n_wanted());
        if n_left > 0 {
            let n_before = self.tokens.len();
            self.tokens.extend(&draft);
            let more = drafter.look_up(&self.tokens, n_left);
            self.tokens.truncate(n_before);
            draft.extend(more);
        }
        draft
    }
}

/// The rest of the name that is most likely being written: of those that fit the one that was written
/// last, or else the first one when something of it is written already. `luck` is how often such guesses
/// are right.
fn likely_name(
    constraint: &dyn Constraint,
    written: &[u8],
    prompt: &FxHashMap<Box<[u8]>, usize>,
    luck: f64,
) -> Vec<u8> {
    let Some((automaton, state)) = constraint.open_name() else {
        return Vec::new();
    };
    let (names, n_typed) = (automaton.names(), state.n_typed());
    if state.n_names() > NAMES_MAX || n_typed == 0 && luck < 0.25 {
        return Vec::new();
    }
    let before = &written[..written.len() - n_typed.min(written.len())];
    // What was written comes after everything in the prompt.
    let last_use = |name: &[u8]| {
        last_word(before, name).map(|at| (true, at)).or_else(|| Some((false, *prompt.get(name)?)))
    };
    let used = names.fitting(state).filter_map(|name| Some((last_use(name)?, name))).max();
    let name = match used {
        Some((_, name)) => Some(name),
        None if n_typed > 0 => names.fitting(state).find(|name| name.len() > n_typed),
        None => None,
    };
    name.map_or_else(Vec::new, |name| name[n_typed..].to_vec())
}

fn is_part(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80
}

/// The words of a text, and where each begins last.
fn words(text: &[u8]) -> FxHashMap<Box<[u8]>, usize> {
    let mut found = FxHashMap::default();
    let mut at = 0;
    for word in text.split(|b| !is_part(b)) {
        if !word.is_empty() {
            found.insert(word.into(), at);
        }
        at += word.len() + 1;
    }
    found
}

/// Where a word stands last in a text.
fn last_word(text: &[u8], word: &[u8]) -> Option<usize> {
    let mut end = text.len();
    while let Some(at) = text[..end].windows(word.len()).rposition(|w| w == word) {
        let is_whole = !text[..at].last().is_some_and(is_part)
            && !text.get(at + word.len()).is_some_and(is_part);
        if is_whole {
            return Some(at);
        }
        end = at + word.len() - 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_after_the_same_tokens_is_guessed_again() {
        let tokens = [1, 2, 3, 4, 5, 6, 7, 2, 3, 4];
        let mut drafter = Drafter::new(&tokens[..6], b"");
        drafter.index(&tokens);
        assert_eq!(drafter.look_up(&tokens, 2), [5, 6]);
        assert_eq!(drafter.look_up(&tokens, 20), [5, 6, 7, 2, 3, 4]);
        assert_eq!(drafter.look_up(&[9, 2, 3], 2), [0u32; 0], "two tokens say nothing");
    }

    #[test]
    fn the_latest_occurrence_wins_and_the_end_is_not_its_own_continuation() {
        let tokens = [1, 2, 3, 8, 1, 2, 3, 9, 1, 2, 3];
        let drafter = Drafter::new(&tokens, b"");
        assert_eq!(drafter.look_up(&tokens, 1), [9]);
        let run = [5u32; 6];
        let drafter = Drafter::new(&run, b"");
        assert_eq!(drafter.look_up(&run, 3), [5], "only what is written can be repeated");
    }

    #[test]
    fn drafts_grow_with_success_and_shrink_with_failure() {
        let mut drafter = Drafter::new(&[], b"");
        for _ in 0..40 {
            drafter.learn(3, 0);
        }
        let tries: Vec<usize> = (0..16).map(|_| drafter.n_wanted()).collect();
        assert_eq!(tries.iter().sum::<usize>(), 2, "one token is still tried now and then");
        for _ in 0..60 {
            drafter.learn(5, 5);
        }
        assert_eq!(drafter.n_wanted(), limit::DRAFT_TOKENS_MAX);
    }

    #[test]
    fn a_word_is_found_whole_and_last() {
        assert_eq!(last_word(b"item items item_x item", b"item"), Some(18));
        assert_eq!(last_word(b"items", b"item"), None);
        assert_eq!(last_word(b"", b"item"), None);
        let words = words(b"a.b(a, bc)");
        assert_eq!((words.len(), words[&b"a"[..]], words[&b"bc"[..]]), (3, 4, 7));
    }
}
