//! Beam search over the names at an open name: the most likely name whatever its tokenisation.
//!
//! # Place
//! Uses `base`, the automaton, distributions and token trees. `engine` runs one pass per step over the
//! rows of [`NameBeam::tree`].
//! # Invariants
//! The search ends when no unfinished path can overtake the best finished name: a path's probability
//! only falls.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::TokenId;

use super::candidate_tree::log_add;
use super::{Distribution, NameAutomaton, NameState, NameStep, ScoredName, TokenMask, TokenTree};

/// A running search.
#[derive(Clone, Debug)]
pub struct NameBeam {
    automaton: Arc<NameAutomaton>,
    ends: TokenMask,
    width: usize,
    live: Vec<Hypothesis>,
    /// Names with their end, over all paths found.
    finished: BTreeMap<Vec<u8>, Finished>,
}

#[derive(Clone, Debug)]
struct Hypothesis {
    tokens: Vec<TokenId>,
    state: NameState,
    log_prob: f64,
}

#[derive(Clone, Debug)]
struct Finished {
    /// The likeliest path; it stops before a token that runs on.
    tokens: Vec<TokenId>,
    log_prob: f64,
    log_prob_end: f64,
}

impl NameBeam {
    /// Begin at an open name with the logits of the sequence's last token; `width` paths are kept, at
    /// least one.
    pub fn new(
        automaton: Arc<NameAutomaton>,
        state: NameState,
        width: usize,
        root: &Distribution<'_>,
    ) -> Self {
        let mut beam = Self {
            ends: automaton.end_tokens(),
            automaton,
            width: width.max(1),
            live: Vec::new(),
            finished: BTreeMap::new(),
        };
        let start = Hypothesis { tokens: Vec::new(), state, log_prob: 0.0 };
        beam.extend(vec![(start, *root)]);
        beam
    }

    /// Whether the best name is known.
    pub fn is_done(&self) -> bool {
        let best_live = self.live.first().map_or(f64::NEG_INFINITY, |h| h.log_prob);
        let ends = self.finished.values().map(|f| f.log_prob_end);
        best_live <= ends.fold(f64::NEG_INFINITY, f64::max)
    }

    /// The rows of the next pass, and for each path the row whose logits [`NameBeam::advance`] wants.
    pub fn tree(&self) -> (TokenTree, Vec<u32>) {
        let mut tree = TokenTree::new();
        let paths = self.live.iter().map(|h| tree.insert(&h.tokens));
        // A path is at least one token long: the root's logits were given at the start.
        let rows = paths.filter_map(|path| path.last().copied()).collect();
        (tree, rows)
    }

    /// Take the logits of each path's last row, in the order of [`NameBeam::tree`].
    pub fn advance(&mut self, rows: &[Distribution<'_>]) {
        let live = std::mem::take(&mut self.live);
        self.extend(live.into_iter().zip(rows.iter().copied()).collect());
    }

    /// The names found, best first; equals in the order of their text.
    pub fn ranked(&self) -> Vec<ScoredName> {
        let mut names: Vec<ScoredName> = self
            .finished
            .iter()
            .map(|(name, f)| ScoredName {
                name: name.clone(),
                tokens: f.tokens.clone(),
                log_prob: f.log_prob,
                log_prob_end: f.log_prob_end,
                score: f.log_prob_end,
            })
            .collect();
        names.sort_by(|a, b| b.score.total_cmp(&a.score)); // stable: by text before
        names
    }

    fn extend(&mut self, from: Vec<(Hypothesis, Distribution<'_>)>) {
        let names = Arc::clone(&self.automaton);
        for (path, row) in from {
            let mut inside = (*names.mask(path.state)).clone();
            if names.names().is_complete(path.state) {
                inside.subtract(&self.ends);
                let log_end = path.log_prob + row.log_mass(&self.ends);
                self.finish(&path, path.state, log_end);
            }
            for token in inside.ids() {
                let log_prob = path.log_prob + row.log_prob(token);
                match names.walk(path.state, names.trie().vocabulary().token_bytes(token)) {
                    NameStep::Inside(state) => {
                        let mut tokens = path.tokens.clone();
                        tokens.push(token);
                        self.live.push(Hypothesis { tokens, state, log_prob });
                    }
                    NameStep::Ended { state, .. } => self.finish(&path, state, log_prob),
                    NameStep::Forbidden => {}
                }
            }
        }
        self.live.retain(|h| h.log_prob > f64::NEG_INFINITY);
        self.live.sort_by(|a, b| {
            b.log_prob.total_cmp(&a.log_prob).then_with(|| a.tokens.cmp(&b.tokens))
        });
        self.live.truncate(self.width);
    }

    fn finish(&mut self, path: &Hypothesis, state: NameState, log_end: f64) {
        let name = self.automaton.names().typed(state).to_vec();
        let finished = self.finished.entry(name).or_insert_with(|| Finished {
            tokens: path.tokens.clone(),
            log_prob: path.log_prob,
            log_prob_end: f64::NEG_INFINITY,
        });
        if path.log_prob > finished.log_prob {
            finished.log_prob = path.log_prob;
            finished.tokens.clone_from(&path.tokens);
        }
        finished.log_prob_end = log_add(finished.log_prob_end, log_end);
    }
}
