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
/// How often names must be guessed right for a guess before anything of the name is written.
const NAME_LUCK_MIN: f64 = 0.25;
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
    words: Words,
    look_ups: Luck,
    names: Luck,
    front: Front,
    /// Look-ups left out since the last one, when they were hardly ever right.
    n_skipped: usize,
}

/// What a draft begins with, before what was looked up, in tokens.
#[derive(Clone, Copy, Debug)]
enum Front {
    /// What must come: no guess.
    Forced(usize),
    /// A likely name.
    Named(usize),
}

/// The words of a text that grows, and where each stands last.
#[derive(Clone, Debug)]
struct Words {
    last: FxHashMap<Box<[u8]>, usize>,
    /// Bytes before the text that grows.
    n_before: usize,
    /// Bytes of it that were read; a word begins there.
    n_read: usize,
}

impl Words {
    fn of(prompt: &[u8]) -> Self {
        let mut words = Self { last: FxHashMap::default(), n_before: 0, n_read: 0 };
        words.read(&[prompt, b"\n"].concat());
        Self { n_before: words.n_read, n_read: 0, ..words }
    }

    /// Read on in the text after the prompt; a word that may still grow is left for later.
    fn read(&mut self, text: &[u8]) {
        let is_part = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_' || *b >= 0x80;
        let end = text.iter().rposition(|b| !is_part(b)).map_or(0, |i| i + 1);
        if end <= self.n_read {
            return;
        }
        let mut at = self.n_before + self.n_read;
        for word in text[self.n_read..end - 1].split(|b| !is_part(b)) {
            if !word.is_empty() {
                self.last.insert(word.into(), at);
            }
            at += word.len() + 1;
        }
        self.n_read = end;
    }
}

impl Drafter {
    /// For a prompt that spells `text`.
    pub(super) fn new(tokens: &[u32], text: &[u8]) -> Self {
        let mut drafter = Self {
            after: Default::default(),
            n_indexed: 0,
            words: Words::of(text),
            look_ups: Luck::new(0.7),
            names: Luck::new(0.5),
            front: Front::Forced(0),
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

    /// The rest of the name that is most likely being written: of those that fit the one that was
    /// written last, or else the first one when something of it is written already.
    fn likely_name(&self, constraint: &dyn Constraint) -> Vec<u8> {
        let Some((automaton, state)) = constraint.open_name() else {
            return Vec::new();
        };
        let (names, n_typed) = (automaton.names(), state.n_typed());
        if state.n_names() > NAMES_MAX || n_typed == 0 && self.names.p() < NAME_LUCK_MIN {
            return Vec::new();
        }
        let used = names.fitting(state).filter_map(|name| Some((self.words.last.get(name)?, name)));
        let name = match used.max() {
            Some((_, name)) => Some(name),
            None if n_typed > 0 => names.fitting(state).find(|name| name.len() > n_typed),
            None => None,
        };
        name.map_or_else(Vec::new, |name| name[n_typed..].to_vec())
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
        let n_front = match self.front {
            Front::Forced(n_front) => n_front,
            Front::Named(n_front) => {
                self.names.learn(n_front.min(1), n_taken.min(1));
                n_front
            }
        };
        if n > n_front && n_taken >= n_front {
            self.look_ups.learn(n - n_front, n_taken - n_front);
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
        drafter.front = Front::Forced(draft.len());
        if let (true, Some(constraint)) = (forced.is_empty(), &self.constraint) {
            drafter.words.read(self.scan.text());
            draft = encoded(&drafter.likely_name(constraint.as_ref()));
            drafter.front = Front::Named(draft.len());
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
    fn words_are_read_whole_as_the_text_grows_and_the_last_one_counts() {
        let mut words = Words::of(b"a.b(a, bc)");
        let at = |words: &Words, word: &[u8]| words.last.get(word).copied();
        assert_eq!((at(&words, b"a"), at(&words, b"bc"), words.last.len()), (Some(4), Some(7), 3));
        words.read(b"a.it");
        assert_eq!((at(&words, b"a"), at(&words, b"it")), (Some(11), None), "`it` may grow");
        words.read(b"a.item.b");
        assert_eq!((at(&words, b"item"), at(&words, b"b")), (Some(13), Some(2)));
        assert_eq!(at(&words, b"it"), None);
    }

    #[test]
    fn what_had_to_come_says_nothing_about_luck() {
        let mut drafter = Drafter::new(&[], b"");
        let before = drafter.look_ups.p();
        drafter.front = Front::Forced(3);
        drafter.learn(3, 3);
        assert_eq!(drafter.look_ups.p(), before);
        drafter.learn(5, 3);
        assert!(drafter.look_ups.p() < before);
    }
}
