//! Automata shared by all sequences of a model: equal answers of a tool share their masks.
//!
//! # Place
//! Uses `base`, the token trie and the automaton. Owned by `runtime`, one per loaded model; guides hold
//! a reference. It keys by the names themselves, so a stale answer can never be served.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};

use rustc_hash::{FxHashMap, FxHasher};

use super::{NameAutomaton, NameSet, NameStart, TokenTrie};

/// Automata of one generation; two generations are kept.
const GENERATION_AUTOMATA_MAX: usize = 128;

/// A model's token trie and the automata built over it.
#[derive(Debug)]
pub struct NameStore {
    trie: Arc<TokenTrie>,
    generations: Mutex<Generations>,
}

type Automata = FxHashMap<u64, Arc<NameAutomaton>>;

#[derive(Debug, Default)]
struct Generations {
    young: Automata,
    old: Automata,
}

impl NameStore {
    /// A store without automata.
    pub fn new(trie: Arc<TokenTrie>) -> Self {
        Self { trie, generations: Mutex::default() }
    }

    /// The model's trie.
    pub fn trie(&self) -> &Arc<TokenTrie> {
        &self.trie
    }

    /// The automaton of a set of names, shared when an equal one is known.
    pub fn automaton(&self, names: NameSet, start: NameStart) -> Arc<NameAutomaton> {
        let mut hasher = FxHasher::default();
        (&names, start).hash(&mut hasher);
        let key = hasher.finish();
        // A poisoned lock only means that another request panicked between two map operations.
        let mut generations = self.generations.lock().unwrap_or_else(|e| e.into_inner());
        let known = generations.get(key);
        if let Some(known) = known.filter(|a| a.start_rule() == start && *a.names() == names) {
            return known;
        }
        let automaton = Arc::new(NameAutomaton::new(Arc::clone(&self.trie), names, start));
        generations.insert(key, Arc::clone(&automaton));
        automaton
    }
}

impl Generations {
    fn get(&mut self, key: u64) -> Option<Arc<NameAutomaton>> {
        if let Some(automaton) = self.young.get(&key) {
            return Some(Arc::clone(automaton));
        }
        let automaton = self.old.remove(&key)?;
        self.insert(key, Arc::clone(&automaton));
        Some(automaton)
    }

    fn insert(&mut self, key: u64, automaton: Arc<NameAutomaton>) {
        if self.young.len() >= GENERATION_AUTOMATA_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, automaton);
    }
}
