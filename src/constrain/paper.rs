//! ToolGen's decoding rule, step by step as its artifact does it, for comparisons.
//!
//! # Place
//! Uses `base` and distributions. Driven by `engine` through [`Constraint`]: it chooses each token itself
//! ([`Constraint::choose`]) and never masks. New work should use the exact policies instead.
//! # Invariants
//! - Candidates are matched as token sequences, in the tokenisation of the text with the candidate behind
//!   it; a candidate's tokens are computed once per text of the candidate.
//! - Probabilities are those of the full vocabulary, never renormalised.
//! # Sources
//! ToolGen: Wang et al. 2024, arXiv:2401.06391, and its artifact's decoding loop, whose rules the paper does
//! not give: the confidence threshold, the rule of mean probabilities, the trimmed trigger test.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::base::{Answer, Candidates, TokenId};

use super::constraint::{AskAt, Constraint, GuideReport, Need, Verdict};
use super::place::ROLLBACK_TOKENS_MAX;
use super::{
    ConstraintError, Distribution, GuideEvent, GuideStats, PlaceKind, Vocabulary, is_skipped,
};

/// The confidence below which a trigger is ignored, as in the artifact's evaluation scripts.
pub const PAPER_CONFIDENCE: f64 = 0.5;

/// Tokenises text as the model's tokenizer does, without special tokens around it.
pub type Encode = Arc<dyn Fn(&str) -> Vec<TokenId> + Send + Sync>;

/// Tokens by the text of a candidate, shared by all sequences of a run as in the artifact, where the first
/// context a candidate was met in decides.
#[derive(Clone, Default)]
pub struct PaperCache(Arc<Mutex<FxHashMap<String, Vec<TokenId>>>>);

/// What does not change during a request.
#[derive(Clone)]
pub struct PaperConfig {
    pub vocabulary: Arc<Vocabulary>,
    pub trigger: TokenId,
    /// How the trigger is spelled in text.
    pub trigger_text: String,
    /// See [`PAPER_CONFIDENCE`].
    pub confidence: f64,
    pub encode: Encode,
    pub cache: PaperCache,
}

/// ToolGen's rule for one sequence.
#[derive(Clone)]
pub struct PaperGuide {
    config: Arc<PaperConfig>,
    state: State,
    history: VecDeque<(State, usize)>,
    events: Vec<Arc<GuideEvent>>,
    /// Generated text, triggers included.
    text: Vec<u8>,
    /// The token chosen last and its probability, until it is accepted.
    chosen: Option<(TokenId, f64, Move)>,
}

#[derive(Clone)]
struct State {
    /// Bytes of the whole text without triggers.
    offset: usize,
    n_text: usize,
    /// The text, trimmed, ends with the trigger.
    ends_with_trigger: bool,
    is_asked: bool,
    last_prob: f64,
    /// Where in the candidates.
    cursor: Option<Cursor>,
    event: Option<Arc<GuideEvent>>,
}

#[derive(Clone)]
struct Cursor {
    trie: Arc<Trie>,
    node: usize,
    sum: f64,
    n: usize,
    written: Vec<u8>,
}

/// What accepting the chosen token does to the cursor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Move {
    Clear,
    To(usize),
}

/// Candidates by token. Node 0 is the root.
#[derive(Default)]
struct Trie {
    nodes: Vec<TrieNode>,
}

#[derive(Default)]
struct TrieNode {
    /// In the order the candidates were given: of equal probabilities the first one wins.
    children: Vec<(TokenId, usize)>,
    is_end: bool,
}

impl PaperGuide {
    /// A guide for a text that begins with `n_prefix` bytes of prompt.
    pub fn new(config: PaperConfig, n_prefix: usize) -> Self {
        Self {
            config: Arc::new(config),
            state: State {
                offset: n_prefix,
                n_text: 0,
                ends_with_trigger: false,
                is_asked: false,
                last_prob: 0.0,
                cursor: None,
                event: None,
            },
            history: VecDeque::new(),
            events: Vec::new(),
            text: Vec::new(),
            chosen: None,
        }
    }

    fn wants_tool(&self) -> bool {
        self.state.ends_with_trigger
            && !self.state.is_asked
            && self.state.last_prob >= self.config.confidence
    }

    /// The tokens of a candidate behind the text.
    fn tokens(&self, candidate: &str) -> Vec<TokenId> {
        let lock = || self.config.cache.0.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(tokens) = lock().get(candidate) {
            return tokens.clone();
        }
        let text = String::from_utf8_lossy(&self.text);
        let n_text = (self.config.encode)(&text).len();
        let mut tokens = (self.config.encode)(&format!("{text}{candidate}"));
        tokens.drain(..n_text.min(tokens.len()));
        lock().insert(candidate.to_owned(), tokens.clone());
        tokens
    }

    /// The best child and its probability, or `None` to leave the candidates.
    fn next_in_trie(&self, row: &Distribution<'_>) -> Option<(TokenId, f64, usize)> {
        let cursor = self.state.cursor.as_ref()?;
        let node = &cursor.trie.nodes[cursor.node];
        let mut best: Option<(TokenId, f64, usize)> = None;
        for &(token, child) in &node.children {
            let prob = self.prob(row, token);
            if best.is_none_or(|(_, p, _)| prob > p) {
                best = Some((token, prob, child));
            }
        }
        let (token, prob, child) = best?;
        if node.is_end && cursor.node != 0 {
            let mean = cursor.sum / cursor.n as f64;
            let longer = (cursor.sum + prob) / (cursor.n + 1) as f64;
            if mean > longer {
                return None;
            }
        }
        Some((token, prob, child))
    }

    fn prob(&self, row: &Distribution<'_>, token: TokenId) -> f64 {
        if token == self.config.trigger && self.state.ends_with_trigger {
            0.0
        } else {
            row.prob(token)
        }
    }
}

impl Constraint for PaperGuide {
    fn next(&mut self) -> Need<'_> {
        if self.wants_tool() {
            return Need::Ask(AskAt {
                kind: PlaceKind::Trigger,
                offset: self.state.offset,
                pending: Vec::new(),
                typed: Vec::new(),
            });
        }
        Need::Free
    }

    fn decides(&self) -> bool {
        true
    }

    fn choose(&mut self, logits: &[f32]) -> Option<TokenId> {
        let row = Distribution::new(logits);
        if let Some((token, prob, child)) = self.next_in_trie(&row) {
            self.chosen = Some((token, prob, Move::To(child)));
            return Some(token);
        }
        let trigger = self.config.trigger;
        let best = row.best()?;
        let token = if self.state.ends_with_trigger && best == trigger {
            let mut without = logits.to_vec();
            *without.get_mut(trigger.index())? = f32::NEG_INFINITY;
            Distribution::new(&without).best()?
        } else {
            best
        };
        self.chosen = Some((token, self.prob(&row, token), Move::Clear));
        Some(token)
    }

    fn check(&mut self, _token: TokenId) -> Verdict {
        Verdict::Accept
    }

    fn accept(&mut self, token: TokenId) -> Result<(), ConstraintError> {
        let config = Arc::clone(&self.config);
        let (prob, step) = match self.chosen.take() {
            Some((chosen, prob, step)) if chosen == token => (prob, step),
            _ => (0.0, Move::Clear), // sampled by someone else: outside the rule
        };
        if self.history.len() == ROLLBACK_TOKENS_MAX {
            self.history.pop_front();
        }
        self.history.push_back((self.state.clone(), self.events.len()));
        let state = &mut self.state;
        let bytes: &[u8] = if token == config.trigger {
            config.trigger_text.as_bytes()
        } else {
            config.vocabulary.token_bytes(token)
        };
        match (step, &mut state.cursor) {
            (Move::To(child), Some(cursor)) => {
                cursor.node = child;
                cursor.sum += prob;
                cursor.n += 1;
                cursor.written.extend_from_slice(bytes);
            }
            _ => {
                if let Some(event) = state.event.take() {
                    let name = state.cursor.take().map(|c| c.written);
                    self.events.push(with_name(&event, name));
                }
                state.cursor = None;
            }
        }
        if token == config.trigger {
            state.ends_with_trigger = true;
        } else {
            state.ends_with_trigger &= bytes.iter().all(u8::is_ascii_whitespace);
            state.offset += bytes.len();
        }
        state.is_asked = false;
        state.last_prob = prob;
        self.text.extend_from_slice(bytes);
        self.state.n_text = self.text.len();
        Ok(())
    }

    fn supply(&mut self, candidates: &Candidates, took: Duration) {
        self.state.is_asked = true;
        let names: Vec<&str> = candidates
            .names
            .iter()
            .map(|c| c.name.trim())
            .filter(|name| !name.is_empty())
            .collect();
        let is_empty = names.iter().all(|name| is_skipped(name));
        let event = GuideEvent {
            kind: PlaceKind::Trigger,
            offset: self.state.offset,
            answer: if is_empty && candidates.answer == Answer::Closed {
                Answer::Unknown
            } else {
                candidates.answer
            },
            n_names: names.len(),
            n_dropped: candidates.names.len() - names.len(),
            reason: candidates.reason.clone(),
            typed: Vec::new(),
            name: None,
            wanted: None,
            chance: None,
            took,
        };
        if is_empty {
            self.events.push(Arc::new(event));
            return;
        }
        let mut trie = Trie { nodes: vec![TrieNode::default()] };
        for name in names {
            let tokens = self.tokens(name);
            trie.insert(&tokens);
        }
        self.state.event = Some(Arc::new(event));
        self.state.cursor =
            Some(Cursor { trie: Arc::new(trie), node: 0, sum: 0.0, n: 0, written: Vec::new() });
    }

    fn note_wanted(&mut self, token: TokenId) {
        if let Some(event) = &mut self.state.event {
            Arc::make_mut(event).wanted.get_or_insert(token);
        }
    }

    fn rollback(&mut self, n_tokens: usize) -> Result<(), ConstraintError> {
        let kept = self.history.len();
        let Some(keep) = kept.checked_sub(n_tokens) else {
            return Err(ConstraintError::RollbackTooFar { n_tokens, kept });
        };
        if let Some((state, n_events)) = self.history.drain(keep..).next() {
            self.state = state;
            self.events.truncate(n_events);
            self.text.truncate(self.state.n_text);
        }
        self.chosen = None;
        Ok(())
    }

    fn rollback_max(&self) -> usize {
        self.history.len()
    }

    fn inside_name(&self) -> bool {
        let is_inside = |c: &Cursor| !c.trie.nodes[c.node].is_end;
        self.state.cursor.as_ref().is_some_and(is_inside)
    }

    fn forced(&mut self) -> Vec<u8> {
        Vec::new() // the rule looks at the probability of every token
    }

    fn hides(&self, token: TokenId) -> bool {
        token == self.config.trigger
    }

    fn report(&self) -> GuideReport {
        let mut events = self.events.clone();
        if let Some(event) = &self.state.event {
            let name = self.state.cursor.as_ref().map(|c| c.written.clone());
            events.push(with_name(event, name));
        }
        let stats = GuideStats::of(events.iter().map(|e| &**e));
        GuideReport { events, stats }
    }

    fn clone_box(&self) -> Box<dyn Constraint> {
        Box::new(self.clone())
    }
}

fn with_name(event: &Arc<GuideEvent>, name: Option<Vec<u8>>) -> Arc<GuideEvent> {
    let mut event = Arc::clone(event);
    if let Some(name) = name.filter(|n| !n.is_empty()) {
        Arc::make_mut(&mut event).name = Some(name);
    }
    event
}

impl Trie {
    fn insert(&mut self, tokens: &[TokenId]) {
        let mut at = 0;
        for &token in tokens {
            let known = self.nodes[at].children.iter().find(|(t, _)| *t == token);
            at = match known {
                Some(&(_, child)) => child,
                None => {
                    let child = self.nodes.len();
                    self.nodes.push(TrieNode::default());
                    self.nodes[at].children.push((token, child));
                    child
                }
            };
        }
        if at != 0 {
            self.nodes[at].is_end = true; // the root is never an end
        }
    }
}
