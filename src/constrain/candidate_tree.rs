//! Token paths of all candidates as one tree, evaluated in a single forward pass behind the sequence.
//!
//! # Place
//! Uses `base`, the automaton and distributions. Policies build it; `engine` runs its rows with the
//! visibility the device's tree attention wants and feeds the logits back.

use crate::base::TokenId;

use super::identifier::is_identifier_byte;
use super::{Distribution, NameAutomaton, NameState, TokenMask, TokenTree, TokenTrie};

/// The tree of the names that fit at an open name.
#[derive(Clone, Debug)]
pub struct CandidateTree {
    tokens: TokenTree,
    names: Vec<Path>,
    /// Names whose tokens did not fit into the rows allowed.
    n_left_out: usize,
}

#[derive(Clone, Debug)]
struct Path {
    name: Box<[u8]>,
    /// What is still to be written.
    rest: Box<[u8]>,
    /// Rows from the first token to the last.
    nodes: Vec<u32>,
}

/// How the probabilities along a name become its score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normalisation {
    /// Probability of the whole name and of its end.
    Joint,
    /// Probability of the whole name, whatever follows.
    WithoutEnd,
    /// [`Normalisation::Joint`] to the power of one over the number of tokens, the end counted.
    PerToken,
    /// [`Normalisation::Joint`] to the power of one over the number of bytes still to be written.
    PerByte,
}

/// A name and how likely it is.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoredName {
    pub name: Vec<u8>,
    pub tokens: Vec<TokenId>,
    /// `ln p` of its tokens one after the other.
    pub log_prob: f64,
    /// `ln p` of the name and an end right after it, run-on tokens included.
    pub log_prob_end: f64,
    pub score: f64,
}

impl CandidateTree {
    /// Lay out the names that fit in `state`, at most `rows_max` rows. `encode` gives the tokens of what is
    /// still to be written as the model would have tokenised it here; names for which it gives
    /// nothing, or tokens that spell something else, are left out. Names come in the order given by
    /// `first` (log-probabilities of the first token), so that what does not fit is the least likely.
    pub fn new(
        automaton: &NameAutomaton,
        state: NameState,
        rows_max: usize,
        first: &Distribution<'_>,
        mut encode: impl FnMut(&[u8]) -> Vec<TokenId>,
    ) -> Self {
        let vocabulary = automaton.trie().vocabulary();
        let mut paths: Vec<(f64, Vec<TokenId>, &[u8])> = Vec::new();
        let mut n_left_out = 0;
        for name in automaton.names().fitting(state) {
            let rest = &name[state.n_typed()..];
            let tokens = encode(rest);
            let spelled = tokens.iter().flat_map(|t| vocabulary.token_bytes(*t));
            if tokens.is_empty() && !rest.is_empty() || !spelled.eq(rest) {
                n_left_out += 1;
                continue;
            }
            let rank = tokens.first().map_or(0.0, |t| first.log_prob(*t));
            paths.push((rank, tokens, name));
        }
        paths.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.2.cmp(b.2)));
        let mut tree = Self { tokens: TokenTree::new(), names: Vec::new(), n_left_out };
        for (_, tokens, name) in paths {
            if tree.tokens.nodes().len() + tree.tokens.n_missing(&tokens) > rows_max {
                tree.n_left_out += 1;
                continue;
            }
            let nodes = tree.tokens.insert(&tokens);
            let rest = name[state.n_typed()..].into();
            tree.names.push(Path { name: name.into(), rest, nodes });
        }
        tree
    }

    /// The rows of the pass.
    pub fn tokens(&self) -> &TokenTree {
        &self.tokens
    }

    /// Number of names in the tree.
    pub fn n_names(&self) -> usize {
        self.names.len()
    }

    /// Number of names that are not in the tree.
    pub fn n_left_out(&self) -> usize {
        self.n_left_out
    }

    /// Start reading the logits.
    pub fn scores<'a>(
        &'a self,
        automaton: &'a NameAutomaton,
        root: &Distribution<'_>,
    ) -> Scores<'a> {
        let n_nodes = self.tokens.nodes().len();
        let mut scores = Scores {
            tree: self,
            trie: automaton.trie(),
            ends: automaton.end_tokens(),
            children: vec![Vec::new(); n_nodes],
            through: vec![Vec::new(); n_nodes],
            log_probs: vec![f64::NEG_INFINITY; n_nodes],
            log_ends: vec![f64::NEG_INFINITY; self.names.len()],
        };
        let mut first = Vec::new();
        for (i, node) in (0..).zip(self.tokens.nodes()) {
            match node.parent {
                Some(parent) => scores.children[parent as usize].push(i),
                None => first.push(i),
            }
        }
        for (idx, path) in self.names.iter().enumerate() {
            for (n, &node) in path.nodes.iter().enumerate() {
                scores.through[node as usize].push((idx as u32, n as u32));
            }
        }
        for node in first {
            scores.log_probs[node as usize] =
                root.log_prob(self.tokens.nodes()[node as usize].token);
        }
        for (idx, path) in self.names.iter().enumerate() {
            let log_end = scores.log_end(&path.rest, root);
            scores.log_ends[idx] = log_end;
        }
        scores
    }
}

/// Log-probabilities of a tree's names, filled row by row.
#[derive(Clone, Debug)]
pub struct Scores<'a> {
    tree: &'a CandidateTree,
    trie: &'a TokenTrie,
    /// Tokens after a complete name.
    ends: TokenMask,
    children: Vec<Vec<u32>>,
    /// For every node the names that lead through it, and how many of their tokens come before it.
    through: Vec<Vec<(u32, u32)>>,
    log_probs: Vec<f64>, // [nodes]
    log_ends: Vec<f64>,  // [names]
}

impl Scores<'_> {
    /// Take the logits of a row. Rows come in order: a row's parent before it.
    pub fn row(&mut self, node: usize, row: &Distribution<'_>) {
        let here = self.log_probs[node];
        for i in 0..self.children[node].len() {
            let child = self.children[node][i] as usize;
            self.log_probs[child] = here + row.log_prob(self.tree.tokens.nodes()[child].token);
        }
        for i in 0..self.through[node].len() {
            let (idx, n_before) = self.through[node][i];
            let path = &self.tree.names[idx as usize];
            let written: usize =
                path.nodes[..=n_before as usize].iter().map(|n| self.token_bytes(*n).len()).sum();
            let log_end = here + self.log_end(&path.rest[written..], row);
            let sum = &mut self.log_ends[idx as usize];
            *sum = log_add(*sum, log_end);
        }
    }

    /// The names, best first; equals in the order of their text.
    pub fn ranked(&self, by: Normalisation) -> Vec<ScoredName> {
        let mut names: Vec<ScoredName> = self
            .tree
            .names
            .iter()
            .zip(&self.log_ends)
            .map(|(path, &log_prob_end)| {
                let log_prob = path.nodes.last().map_or(0.0, |n| self.log_probs[*n as usize]);
                let score = match by {
                    Normalisation::Joint => log_prob_end,
                    Normalisation::WithoutEnd => log_prob,
                    Normalisation::PerToken => log_prob_end / (path.nodes.len() + 1) as f64,
                    Normalisation::PerByte => log_prob_end / path.rest.len().max(1) as f64,
                };
                ScoredName {
                    name: path.name.to_vec(),
                    tokens: path
                        .nodes
                        .iter()
                        .map(|n| self.tree.tokens.nodes()[*n as usize].token)
                        .collect(),
                    log_prob,
                    log_prob_end,
                    score,
                }
            })
            .collect();
        names.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.name.cmp(&b.name)));
        names
    }

    fn token_bytes(&self, node: u32) -> &[u8] {
        self.trie.vocabulary().token_bytes(self.tree.tokens.nodes()[node as usize].token)
    }

    /// `ln` of the probability that the next token writes `rest` and goes on with something that ends
    /// the name.
    fn log_end(&self, rest: &[u8], row: &Distribution<'_>) -> f64 {
        if rest.is_empty() {
            return row.log_mass(&self.ends);
        }
        let Some(node) = self.trie.find(rest) else {
            return f64::NEG_INFINITY;
        };
        let children = self.trie.children(node).zip(self.trie.child_bytes(node));
        children
            .filter(|(_, byte)| !is_identifier_byte(**byte))
            .flat_map(|(child, _)| self.trie.below(child))
            .fold(f64::NEG_INFINITY, |sum, id| log_add(sum, row.log_prob(*id)))
    }
}

/// `ln(exp(a) + exp(b))`.
pub(super) fn log_add(a: f64, b: f64) -> f64 {
    let (high, low) = if a >= b { (a, b) } else { (b, a) };
    if low == f64::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}
