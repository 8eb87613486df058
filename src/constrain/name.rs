//! The names a text may go on with, and the exact set of tokens that stays with them.
//!
//! # Place
//! Uses `base`, the token trie and the identifier rules. The monitor and the policies walk it; it knows
//! no Python beyond which bytes an identifier has.
//! # Invariants
//! - A token is allowed exactly when its bytes stay inside a name, or finish one and go on with a byte
//!   that cannot continue an identifier. What comes after that byte is not this automaton's business.
//! - An end token is allowed exactly where a name is complete.
//! - Names are compared in the spelling offered (which is NFKC-normalised).

use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;

use crate::base::limit;

use super::identifier::{is_identifier_byte, is_name};
use super::token_trie::NodeIdx;
use super::{TokenMask, TokenTrie};

/// Names as one sorted block of bytes; a trie that is never built, because a node is an interval.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NameSet {
    arena: Vec<u8>,
    starts: Vec<u32>, // [names + 1]
    n_dropped: usize,
    is_cut: bool,
}

impl NameSet {
    /// Keep what can be written as a name; drop and count the rest (empty, spaces, reserved words,
    /// over-long). Duplicates are merged silently.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self::with_words(names, &[])
    }

    /// As [`NameSet::new`], with words that are no names: keywords, and the letters before a string with
    /// its quote, after which anything may follow.
    pub(super) fn with_words<'a>(
        names: impl IntoIterator<Item = &'a str>,
        words: &[&'a str],
    ) -> Self {
        let mut n_dropped = 0;
        let mut kept: Vec<&str> = words.to_vec();
        for name in names {
            if name.len() <= limit::CANDIDATE_BYTES_MAX && is_name(name) {
                kept.push(name);
            } else {
                n_dropped += 1;
            }
        }
        if !kept.is_sorted() {
            kept.sort_unstable();
        }
        kept.dedup();
        let is_cut = kept.len() > limit::CANDIDATES_MAX;
        kept.truncate(limit::CANDIDATES_MAX);
        let mut set = Self { arena: Vec::new(), starts: vec![0], n_dropped, is_cut };
        for name in kept {
            set.arena.extend_from_slice(name.as_bytes());
            set.starts.push(set.arena.len() as u32);
        }
        set
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether no name is left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many offered names could not be used.
    pub fn n_dropped(&self) -> usize {
        self.n_dropped
    }

    /// Whether names were left out because there were too many: the set is then not complete.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// A name by its rank.
    pub fn name(&self, idx: usize) -> &[u8] {
        &self.arena[self.starts[idx] as usize..self.starts[idx + 1] as usize]
    }

    /// Nothing typed yet.
    pub fn start(&self) -> NameState {
        NameState { lo: 0, hi: self.len() as u32, depth: 0 }
    }

    /// The state after one more identifier byte, if some name goes on with it.
    pub fn step(&self, state: NameState, byte: u8) -> Option<NameState> {
        let (mut lo, hi, depth) = (state.lo as usize, state.hi as usize, state.depth as usize);
        if self.is_complete(state) {
            lo += 1; // the complete name sorts first, and only it has no byte here
        }
        lo += partition(hi - lo, |i| self.byte(lo + i, depth) < byte);
        let n = partition(hi - lo, |i| self.byte(lo + i, depth) <= byte);
        (n > 0).then_some(NameState { lo: lo as u32, hi: (lo + n) as u32, depth: state.depth + 1 })
    }

    /// Whether what is typed is one of the names.
    pub fn is_complete(&self, state: NameState) -> bool {
        state.lo < state.hi && self.name(state.lo as usize).len() == state.depth as usize
    }

    /// Whether a name is one of those that still fit.
    pub fn fits(&self, state: NameState, name: &[u8]) -> bool {
        let (lo, hi) = (state.lo as usize, state.hi as usize);
        let idx = lo + partition(hi - lo, |i| self.name(lo + i) < name);
        idx < hi && self.name(idx) == name
    }

    /// The names that still fit, in order.
    pub fn fitting(&self, state: NameState) -> impl Iterator<Item = &[u8]> {
        (state.lo as usize..state.hi as usize).map(|idx| self.name(idx))
    }

    /// What is typed.
    pub fn typed(&self, state: NameState) -> &[u8] {
        if state.lo == state.hi {
            return &[];
        }
        &self.name(state.lo as usize)[..state.depth as usize]
    }

    /// The bytes that must follow because no name goes another way; empty at a branch and where a
    /// name may end.
    pub fn forced(&self, state: NameState) -> &[u8] {
        let (lo, hi, depth) = (state.lo as usize, state.hi as usize, state.depth as usize);
        if lo == hi || self.is_complete(state) {
            return &[];
        }
        // Sorted: the first and the last name share exactly what all of them share.
        let (first, last) = (&self.name(lo)[depth..], &self.name(hi - 1)[depth..]);
        let n = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        &first[..n]
    }

    fn byte(&self, idx: usize, depth: usize) -> u8 {
        self.arena[self.starts[idx] as usize + depth]
    }
}

/// First index of `0..n` for which `before` is false; it is true on a prefix of the range. Gallops,
/// because the interval of a byte is usually short.
fn partition(n: usize, before: impl Fn(usize) -> bool) -> usize {
    let mut step = 1;
    let mut lo = 0;
    while lo + step <= n && before(lo + step - 1) {
        lo += step;
        step *= 2;
    }
    let mut hi = n.min(lo + step - 1);
    while lo < hi {
        let mid = lo + (hi - lo) / 2;
        if before(mid) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    lo
}

/// Where in a [`NameSet`] a name being typed stands: the names that still fit, and how much is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NameState {
    lo: u32,
    hi: u32,
    depth: u32,
}

impl NameState {
    /// Bytes typed.
    pub fn n_typed(self) -> usize {
        self.depth as usize
    }

    /// Names that still fit.
    pub fn n_names(self) -> usize {
        (self.hi - self.lo) as usize
    }
}

/// How a run of bytes relates to a set of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameStep {
    /// All bytes stay inside some name.
    Inside(NameState),
    /// A name is complete after `n_name` of the bytes (or none was required), and a byte that cannot
    /// continue it follows.
    Ended { n_name: usize, state: NameState },
    /// No name goes on like this.
    Forbidden,
}

/// A set of names over a vocabulary, with the masks already computed.
#[derive(Debug)]
pub struct NameAutomaton {
    trie: Arc<TokenTrie>,
    names: NameSet,
    start: NameStart,
    /// For every byte of every name, whether tokens exist that complete the name from before it.
    /// `None`: from everywhere, because each byte is a token.
    live: Option<Vec<bool>>, // [bytes of all names]
    masks: Mutex<FxHashMap<NameState, Arc<TokenMask>>>,
}

/// What may stand where a name is about to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NameStart {
    /// One of the names, at once.
    Required,
    /// One of the names, or anything that does not begin like a name (an operator, a number, white
    /// space), or the end.
    Optional,
}

/// Masks kept per set of names; a state past it is computed each time.
const MASKS_MAX: usize = 256;

impl NameAutomaton {
    /// Join names and vocabulary. Cheap: masks are computed when asked for.
    pub fn new(trie: Arc<TokenTrie>, names: NameSet, start: NameStart) -> Self {
        let live = find_live(&trie, &names);
        Self { trie, names, start, live, masks: Mutex::default() }
    }

    /// The names.
    pub fn names(&self) -> &NameSet {
        &self.names
    }

    /// The vocabulary.
    pub fn trie(&self) -> &Arc<TokenTrie> {
        &self.trie
    }

    /// What may stand where the name begins.
    pub fn start_rule(&self) -> NameStart {
        self.start
    }

    /// Follow bytes from a state.
    pub fn walk(&self, mut state: NameState, bytes: &[u8]) -> NameStep {
        for (i, &byte) in bytes.iter().enumerate() {
            match self.step(state, byte) {
                NameStep::Inside(next) => state = next,
                NameStep::Ended { state, .. } => return NameStep::Ended { n_name: i, state },
                NameStep::Forbidden => return NameStep::Forbidden,
            }
        }
        NameStep::Inside(state)
    }

    /// Follow one byte from a state.
    pub fn step(&self, state: NameState, byte: u8) -> NameStep {
        if is_quote(byte)
            && let Some(next) = self.names.step(state, byte)
        {
            return NameStep::Ended { n_name: 0, state: next };
        }
        let ends = !is_identifier_byte(byte) || self.is_free(state) && byte.is_ascii_digit();
        if !ends {
            let next = self.names.step(state, byte);
            next.map_or(NameStep::Forbidden, NameStep::Inside)
        } else if self.may_end(state) {
            NameStep::Ended { n_name: 0, state }
        } else {
            NameStep::Forbidden
        }
    }

    /// Whether the text may end, or go on with something else than the name, in a state.
    pub fn may_end(&self, state: NameState) -> bool {
        self.is_free(state) || self.names.is_complete(state)
    }

    /// Whether some name can be completed from a state with the tokens there are. A token may pass
    /// through a state that is not live, but must not end in one.
    pub fn is_live(&self, state: NameState) -> bool {
        let Some(live) = &self.live else {
            return true;
        };
        let is_live_name = |idx| live[self.names.starts[idx] as usize + state.depth as usize];
        self.may_end(state) || (state.lo as usize..state.hi as usize).any(is_live_name)
    }

    /// Nothing is typed and nothing need be.
    fn is_free(&self, state: NameState) -> bool {
        state.depth == 0 && self.start == NameStart::Optional
    }

    /// The tokens allowed in a state, from the cache when it was asked for before.
    pub fn mask(&self, state: NameState) -> Arc<TokenMask> {
        // A poisoned lock only means that another request panicked between two map operations.
        let lock = || self.masks.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(mask) = lock().get(&state) {
            return Arc::clone(mask);
        }
        let mask = Arc::new(self.compute_mask(state));
        let mut masks = lock();
        if masks.len() < MASKS_MAX {
            masks.insert(state, Arc::clone(&mask));
        }
        mask
    }

    /// The tokens that may follow a complete name: those that begin with a byte that cannot continue
    /// it, and the end tokens.
    pub fn end_tokens(&self) -> TokenMask {
        let mut mask = self.trie.delimiter_first().clone();
        for &id in self.trie.vocabulary().eos() {
            mask.allow(id);
        }
        mask
    }

    /// The tokens allowed in a state, computed.
    pub fn compute_mask(&self, state: NameState) -> TokenMask {
        let mut mask = if self.may_end(state) {
            self.end_tokens()
        } else {
            TokenMask::none(self.trie.vocabulary().len())
        };
        if self.is_free(state) {
            self.allow_numbers(TokenTrie::ROOT, &mut mask);
        }
        self.allow_inside(TokenTrie::ROOT, state, &mut mask);
        mask
    }

    /// Of the tokens that begin with the bytes of `node`, allow those whose rest is allowed in `state`
    /// and forbid the others.
    pub(super) fn restrict_below(&self, node: NodeIdx, state: NameState, mask: &mut TokenMask) {
        for &id in self.trie.below(node) {
            mask.forbid(id);
        }
        if self.is_live(state) {
            for &id in self.trie.own(node) {
                mask.allow(id);
            }
        }
        if self.may_end(state) {
            self.allow_delimiters(node, mask);
        }
        if self.is_free(state) {
            self.allow_numbers(node, mask);
        }
        self.allow_inside(node, state, mask);
    }

    /// Allow the tokens below `node` whose next byte is an identifier byte and whose rest fits.
    fn allow_inside(&self, node: NodeIdx, state: NameState, mask: &mut TokenMask) {
        let children = self.trie.children(node);
        if children.is_empty() {
            return;
        }
        let depth = state.depth as usize;
        let (mut lo, hi) = (state.lo as usize, state.hi as usize);
        if self.names.is_complete(state) {
            lo += 1;
        }
        while lo < hi {
            let byte = self.names.byte(lo, depth);
            let n = partition(hi - lo, |i| self.names.byte(lo + i, depth) <= byte);
            if let Some(child) = self.trie.child(node, byte) {
                let next = NameState { lo: lo as u32, hi: (lo + n) as u32, depth: state.depth + 1 };
                if is_quote(byte) {
                    for &id in self.trie.below(child) {
                        mask.allow(id);
                    }
                    lo += n;
                    continue;
                }
                if self.is_live(next) {
                    for &id in self.trie.own(child) {
                        mask.allow(id);
                    }
                }
                if self.names.is_complete(next) {
                    self.allow_delimiters(child, mask);
                }
                // As deep as the longest token that is part of a name: bounded by the name limit.
                self.allow_inside(child, next, mask);
            }
            lo += n;
        }
    }

    fn allow_delimiters(&self, node: NodeIdx, mask: &mut TokenMask) {
        let children = self.trie.children(node);
        for (child, &byte) in children.zip(self.trie.child_bytes(node)) {
            if !is_identifier_byte(byte) {
                for &id in self.trie.below(child) {
                    mask.allow(id);
                }
            }
        }
    }

    fn allow_numbers(&self, node: NodeIdx, mask: &mut TokenMask) {
        for digit in b'0'..=b'9' {
            if let Some(child) = self.trie.child(node, digit) {
                for &id in self.trie.below(child) {
                    mask.allow(id);
                }
            }
        }
    }
}

/// Whether a byte opens a string: a word that ends with it is complete at once.
const fn is_quote(byte: u8) -> bool {
    matches!(byte, b'\'' | b'"')
}

/// From which bytes of the names the rest can be written; `None` when from all of them.
fn find_live(trie: &TokenTrie, names: &NameSet) -> Option<Vec<bool>> {
    let mut is_used = [false; 256];
    for &byte in &names.arena {
        is_used[byte as usize] = true;
    }
    let is_token = |byte: u8| {
        let node = trie.child(TokenTrie::ROOT, byte);
        node.is_some_and(|node| !trie.own(node).is_empty())
    };
    if (0..=255).all(|byte| !is_used[byte as usize] || is_token(byte)) {
        return None;
    }
    let mut live = vec![false; names.arena.len()];
    for idx in 0..names.len() {
        let (name, base) = (names.name(idx), names.starts[idx] as usize);
        for from in (0..name.len()).rev() {
            let mut node = TokenTrie::ROOT;
            for to in from..name.len() {
                let Some(child) = trie.child(node, name[to]) else {
                    break;
                };
                node = child;
                let is_last = to + 1 == name.len();
                let ends_here = !trie.own(node).is_empty() && (is_last || live[base + to + 1])
                    || is_last && is_quote(name[to]);
                let runs_on = || trie.child_bytes(node).iter().any(|&b| !is_identifier_byte(b));
                if ends_here || is_last && runs_on() {
                    live[base + from] = true;
                    break;
                }
            }
        }
    }
    Some(live)
}
