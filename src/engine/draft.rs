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
use crate::base::{TokenId, limit};
use crate::constrain::Constraint;
use rustc_hash::FxHashMap;

/// Longest run of tokens that is looked up.
const GRAM_MAX: usize = 4;
/// Shortest one: two tokens repeat too often to say what comes next.
const GRAM_MIN: usize = 3;
/// Names that fit, beyond which no guess is made.
const NAMES_MAX: usize = 4096;

/// What has been written so far, by its last few tokens.
#[derive(Clone, Debug)]
pub(super) struct Drafter {
    /// Hash of a run of tokens to the position right after its last occurrence. One map for each length.
    after: [FxHashMap<u64, u32>; GRAM_MAX - GRAM_MIN + 1],
    n_indexed: usize,
    /// How many tokens of a draft are expected to be taken.
    expected: f64,
}

impl Drafter {
    pub(super) fn new(tokens: &[u32]) -> Self {
        let mut drafter = Self { after: Default::default(), n_indexed: 0, expected: 3.0 };
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

    /// How many tokens are worth guessing now.
    fn n_wanted(&self) -> usize {
        (self.expected.ceil() as usize + 1).clamp(1, limit::DRAFT_TOKENS_MAX)
    }

    /// A draft of `n` tokens was right for `n_taken`.
    pub(super) fn learn(&mut self, n: usize, n_taken: usize) {
        if n > 0 {
            // A draft that was taken whole says that a longer one might have been.
            let seen = if n_taken == n { n + 2 } else { n_taken };
            self.expected += 0.3 * (seen as f64 - self.expected);
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
            left -= seq.draft.len();
            n_rows += seq.draft.len();
        }
        n_rows
    }
}

impl Sequence {
    fn guess(
        &mut self,
        n_max: usize,
        encode: Option<&(dyn Fn(&[u8]) -> Vec<TokenId> + Send + Sync)>,
    ) -> Vec<u32> {
        let Some(drafter) = &mut self.drafter else {
            return Vec::new();
        };
        drafter.index(&self.tokens);
        let mut tokens = self.tokens.clone();
        let n_before = tokens.len();
        if let (Some(constraint), Some(encode)) = (&mut self.constraint, encode) {
            let text = self.scan.text();
            let rest = expected_bytes(constraint.as_mut(), text);
            tokens.extend(encode(&rest).into_iter().map(|id| id.0).take(n_max));
        }
        let n_named = tokens.len() - n_before;
        let n_left = n_max.saturating_sub(n_named).min(drafter.n_wanted());
        let more = drafter.look_up(&tokens, n_left);
        tokens.extend(more);
        tokens.split_off(n_before)
    }
}

/// The bytes that a constraint leads one to expect: what must come, or the rest of a name.
fn expected_bytes(constraint: &mut dyn Constraint, text: &[u8]) -> Vec<u8> {
    let forced = constraint.forced();
    if !forced.is_empty() {
        return forced;
    }
    let Some((automaton, state)) = constraint.open_name() else {
        return Vec::new();
    };
    let names = automaton.names();
    if state.n_names() > NAMES_MAX || state.n_typed() == 0 {
        return Vec::new(); // nothing is chosen yet: any of them
    }
    // Of the names that fit, the one that was written last.
    let last_use = |name: &[u8]| {
        let before = &text[..text.len() - state.n_typed().min(text.len())];
        before.windows(name.len()).rposition(|w| w == name)
    };
    let best = names.fitting(state).filter_map(|name| Some((last_use(name)?, name))).max();
    let name = best.map(|(_, name)| name).or_else(|| names.fitting(state).next());
    name.map_or_else(Vec::new, |name| name[state.n_typed()..].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_after_the_same_tokens_is_guessed_again() {
        let tokens = [1, 2, 3, 4, 5, 6, 7, 2, 3, 4];
        let mut drafter = Drafter::new(&tokens[..6]);
        drafter.index(&tokens);
        assert_eq!(drafter.look_up(&tokens, 2), [5, 6]);
        assert_eq!(drafter.look_up(&tokens, 20), [5, 6, 7, 2, 3, 4]);
        assert_eq!(drafter.look_up(&[9, 2, 3], 2), [0u32; 0], "two tokens say nothing");
    }

    #[test]
    fn the_latest_occurrence_wins_and_the_end_is_not_its_own_continuation() {
        let tokens = [1, 2, 3, 8, 1, 2, 3, 9, 1, 2, 3];
        let drafter = Drafter::new(&tokens);
        assert_eq!(drafter.look_up(&tokens, 1), [9]);
        let run = [5u32; 6];
        let drafter = Drafter::new(&run);
        assert_eq!(drafter.look_up(&run, 3), [5], "only what is written can be repeated");
    }

    #[test]
    fn drafts_grow_with_success_and_shrink_with_failure() {
        let mut drafter = Drafter::new(&[]);
        for _ in 0..20 {
            drafter.learn(drafter.n_wanted(), 0);
        }
        assert_eq!(drafter.n_wanted(), 2, "one token is still tried beyond nothing");
        for _ in 0..40 {
            let n = drafter.n_wanted();
            drafter.learn(n, n);
        }
        assert_eq!(drafter.n_wanted(), limit::DRAFT_TOKENS_MAX);
    }
}
