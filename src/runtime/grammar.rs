//! Compiled grammars of one model: each source is compiled once, a few at a time, and kept.
//!
//! # Place
//! Part of `runtime`; owned by a loaded model and shared by whoever writes with it. Compiling happens on the
//! caller's thread, but no more than a few callers compile at once, and no more than some wait.
//! # Invariants
//! - A source that is being compiled is not compiled a second time: others wait for it.
//! - What was refused is remembered too, so that asking again costs nothing.
//! - A panic while compiling is an error of that source alone.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};

use rustc_hash::FxHashMap;

use crate::base::limit;
use crate::constrain::{
    ConstraintError, GrammarCompiler, GrammarConstraint, GrammarSource, Vocabulary,
};

type Compiled = Result<GrammarConstraint, ConstraintError>;

/// Grammars over one vocabulary.
pub struct GrammarPool {
    vocabulary: Arc<Vocabulary>,
    compiler: OnceLock<Result<GrammarCompiler, ConstraintError>>,
    state: Mutex<State>,
    /// A compilation ended.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    /// Two generations: what was not asked for during a whole one is forgotten.
    young: FxHashMap<String, Compiled>,
    old: FxHashMap<String, Compiled>,
    /// Being compiled.
    running: HashSet<String>,
    n_waiting: usize,
}

impl GrammarPool {
    /// An empty pool; the vocabulary is prepared at the first use.
    pub fn new(vocabulary: Arc<Vocabulary>) -> Self {
        Self {
            vocabulary,
            compiler: OnceLock::new(),
            state: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    /// The constraint of a text that follows a grammar, from its first byte.
    ///
    /// # Errors
    /// When the source has a mistake, uses what cannot be enforced, or is larger than the limits; when
    /// too many others wait for theirs.
    pub fn compile(&self, source: &GrammarSource) -> Compiled {
        let key = source.key();
        let mut state = self.lock();
        loop {
            if let Some(known) = state.get(&key) {
                return known;
            }
            let is_free = state.running.len() < limit::GRAMMARS_COMPILING_MAX;
            if is_free && !state.running.contains(&key) {
                break;
            }
            if state.n_waiting >= limit::GRAMMARS_WAITING_MAX {
                return Err(ConstraintError::TooManyGrammars {
                    waiting_max: limit::GRAMMARS_WAITING_MAX,
                });
            }
            state.n_waiting += 1;
            state = self.ended.wait(state).unwrap_or_else(|e| e.into_inner());
            state.n_waiting -= 1;
        }
        state.running.insert(key.clone());
        drop(state);
        let compiled = self.compile_now(source);
        let mut state = self.lock();
        state.running.remove(&key);
        state.insert(key, compiled.clone());
        drop(state);
        self.ended.notify_all();
        compiled
    }

    fn compile_now(&self, source: &GrammarSource) -> Compiled {
        let make = || GrammarCompiler::new(Arc::clone(&self.vocabulary));
        let compile = || match self.compiler.get_or_init(make) {
            Ok(compiler) => compiler.compile(source),
            Err(error) => Err(error.clone()),
        };
        catch_unwind(AssertUnwindSafe(compile)).unwrap_or_else(|_| {
            let problem = "the compiler failed on this source".to_owned();
            Err(ConstraintError::GrammarEngine { problem })
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that panics runs under the lock.
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl State {
    fn get(&mut self, key: &str) -> Option<Compiled> {
        if let Some(known) = self.young.get(key) {
            return Some(known.clone());
        }
        let (key, known) = self.old.remove_entry(key)?;
        self.insert(key, known.clone());
        Some(known)
    }

    fn insert(&mut self, key: String, compiled: Compiled) {
        if self.young.len() >= limit::GRAMMARS_KEPT_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, compiled);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::TokenId;
    use crate::constrain::{Constraint, Need};

    fn pool() -> GrammarPool {
        let single: Vec<[u8; 1]> = (0..=255u8).map(|b| [b]).collect();
        let tokens = std::iter::once(&b""[..]).chain(single.iter().map(|b| &b[..]));
        GrammarPool::new(Arc::new(Vocabulary::new(tokens, &[TokenId(0)]).expect("small")))
    }

    fn regex(text: &str) -> GrammarSource {
        GrammarSource::Regex(text.to_owned())
    }

    #[test]
    fn a_source_is_compiled_once_and_every_user_gets_a_state_of_its_own() {
        let pool = pool();
        let mut first = pool.compile(&regex("ab")).expect("a grammar");
        first.accept(TokenId(u32::from(b'a') + 1)).expect("allowed");
        let mut second = pool.compile(&regex("ab")).expect("a grammar");
        let Need::Mask(mask) = second.next() else { panic!("a mask") };
        assert!(mask.is_allowed(TokenId(u32::from(b'a') + 1)));
        assert_eq!(pool.lock().young.len(), 1);
    }

    #[test]
    fn different_kinds_with_equal_text_are_different_grammars() {
        let pool = pool();
        assert!(pool.compile(&regex("a")).is_ok());
        assert!(pool.compile(&GrammarSource::Lark("a".to_owned())).is_err());
        assert!(pool.compile(&GrammarSource::Choice(vec!["a".to_owned()])).is_ok());
        assert_eq!(pool.lock().young.len(), 3);
    }

    #[test]
    fn many_threads_with_many_sources_all_get_their_answer() {
        let pool = Arc::new(pool());
        let threads: Vec<_> = (0..16)
            .map(|t| {
                let pool = Arc::clone(&pool);
                std::thread::spawn(move || {
                    (0..8)
                        .filter(|i| {
                            pool.compile(&regex(&format!("a{{{}}}", (t + i) % 8 + 1))).is_ok()
                        })
                        .count()
                })
            })
            .collect();
        let n_ok: usize = threads.into_iter().map(|t| t.join().expect("no panic")).sum();
        assert_eq!(n_ok, 128);
        let state = pool.lock();
        assert_eq!((state.young.len(), state.running.len(), state.n_waiting), (8, 0, 0));
    }

    #[test]
    fn refusals_are_remembered_and_old_grammars_are_forgotten() {
        let pool = pool();
        let error = pool.compile(&regex("a(")).err();
        assert_eq!(pool.compile(&regex("a(")).err(), error);
        for i in 0..3 * limit::GRAMMARS_KEPT_MAX {
            pool.compile(&regex(&format!("x{i}"))).expect("a grammar");
        }
        let state = pool.lock();
        assert!(state.young.len() + state.old.len() <= 2 * limit::GRAMMARS_KEPT_MAX);
        assert!(!state.young.contains_key(&regex("a(").key()));
    }
}
