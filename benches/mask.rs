//! Time of a mask for a state of a set of names, over synthetic vocabularies of two sizes.
//!
//! # Place
//! Uses the library only. `cargo bench --bench mask` prints medians in microseconds; `--test` runs each
//! case once.

#![allow(clippy::print_stdout)] // a benchmark reports on standard output

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tether::base::{Answer, Candidate, CandidateKind, Candidates, Origin, TokenId};
use tether::constrain::{
    Constraint, Monitor, MonitorLevels, NameAutomaton, NameSet, NameStart, NameState, NameStore,
    Need, TokenTrie, Vocabulary,
};

fn main() {
    let is_test = std::env::args().any(|a| a == "--test");
    let n_rounds = if is_test { 1 } else { 300 };
    for n_tokens in [49_152, 128_256] {
        measure(n_tokens, n_rounds);
    }
}

fn measure(n_tokens: usize, n_rounds: usize) {
    let mut words = Words::new(7);
    let tokens = vocabulary(&mut words, n_tokens);
    let began = Instant::now();
    let vocabulary = Vocabulary::new(tokens.iter().map(Vec::as_slice), &[TokenId(0)])
        .expect("a vocabulary within the limits");
    let trie = Arc::new(TokenTrie::new(vocabulary));
    print(n_tokens, "build the token trie", &mut [began.elapsed()]);

    for n_names in [1, 20, 200, 2_000, 20_000] {
        let names = words.names(n_names);
        let mut build = Vec::new();
        let mut root = Vec::new();
        let mut inside = Vec::new();
        let mut end = Vec::new();
        let mut cached = Vec::new();
        for round in 0..n_rounds.div_ceil(1 + n_names / 2_000) {
            let began = Instant::now();
            let set = NameSet::new(names.iter().map(String::as_str));
            let automaton = NameAutomaton::new(Arc::clone(&trie), set, NameStart::Required);
            build.push(began.elapsed());
            let name = names[round * 31 % names.len()].as_bytes();
            let at = |n: usize| -> NameState {
                let start = automaton.names().start();
                name[..n].iter().fold(start, |state, &byte| {
                    automaton.names().step(state, byte).expect("inside a name")
                })
            };
            for (depth, samples) in [(0, &mut root), (2, &mut inside), (name.len(), &mut end)] {
                let state = at(depth);
                let began = Instant::now();
                black_box(automaton.compute_mask(black_box(state)));
                samples.push(began.elapsed());
            }
            black_box(automaton.mask(at(0)));
            let state = at(0);
            let began = Instant::now();
            for _ in 0..100 {
                black_box(automaton.mask(black_box(state)));
            }
            cached.push(began.elapsed() / 100);
        }
        print(n_tokens, &format!("{n_names} names: make the automaton"), &mut build);
        print(n_tokens, &format!("{n_names} names: mask at the start, cold"), &mut root);
        print(n_tokens, &format!("{n_names} names: mask inside, cold"), &mut inside);
        print(n_tokens, &format!("{n_names} names: mask at an end, cold"), &mut end);
        print(n_tokens, &format!("{n_names} names: mask, cached"), &mut cached);
    }
    measure_monitor(n_tokens, n_rounds, &trie, &mut words);
}

/// The cost of watching: unconstrained tokens, and a whole constrained name.
fn measure_monitor(n_tokens: usize, n_rounds: usize, trie: &Arc<TokenTrie>, words: &mut Words) {
    let store = Arc::new(NameStore::new(Arc::clone(trie)));
    let levels = MonitorLevels::MEMBERS;
    let names = words.names(200);
    let answer = Candidates {
        answer: Answer::Closed,
        names: names
            .iter()
            .map(|n| Candidate::new(n.as_str(), CandidateKind::Method, Origin::Project))
            .collect(),
        start_byte: 0,
        reason: None,
    };
    let mut free = Vec::new();
    let mut name = Vec::new();
    for _ in 0..n_rounds {
        let mut monitor = Monitor::new(Arc::clone(&store), levels, b"def f(x):\n    return ");
        let x = TokenId(u32::from(b'x') + 1);
        let began = Instant::now();
        for _ in 0..100 {
            black_box(monitor.next());
            black_box(monitor.check(x));
            monitor.accept(x).expect("nothing is constrained");
        }
        free.push(began.elapsed() / 100);
        let dot = TokenId(u32::from(b'.') + 1);
        monitor.check(dot);
        monitor.accept(dot).expect("a dot after a name");
        let began = Instant::now();
        monitor.next();
        monitor.supply(&answer, Duration::ZERO);
        let first = match monitor.next() {
            Need::Mask(mask) => mask.ids().next().expect("some name begins"),
            _ => panic!("a closed answer constrains"),
        };
        monitor.check(first);
        monitor.accept(first).expect("allowed");
        name.push(began.elapsed());
    }
    print(n_tokens, "monitor: a token outside names", &mut free);
    print(n_tokens, "monitor: answer of 200 names to first token", &mut name);
}

fn print(n_tokens: usize, what: &str, samples: &mut [Duration]) {
    samples.sort_unstable();
    let median = samples[samples.len() / 2];
    let micros = median.as_secs_f64() * 1e6;
    println!("V={n_tokens:>6}  {what:<48} {micros:>10.2} µs");
}

/// The first 257 ids are an end token and all bytes; the rest are pieces of code, half of them with a
/// leading space, some with brackets and dots, as byte-level vocabularies have them.
fn vocabulary(words: &mut Words, n_tokens: usize) -> Vec<Vec<u8>> {
    let mut tokens: Vec<Vec<u8>> = vec![b"<end>".to_vec()];
    tokens.extend((0..=255u8).map(|b| vec![b]));
    let mut seen: std::collections::HashSet<Vec<u8>> = tokens.iter().cloned().collect();
    while tokens.len() < n_tokens {
        let word = words.word();
        let token = match words.below(20) {
            0..10 => format!(" {word}"),
            10..17 => word,
            17 => format!(".{word}"),
            18 => format!("{word}("),
            _ => format!("_{word}"),
        };
        if seen.insert(token.clone().into_bytes()) {
            tokens.push(token.into_bytes());
        }
    }
    tokens
}

/// Pronounceable pseudo-random words from a fixed seed.
struct Words {
    state: u64,
}

impl Words {
    fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    fn below(&mut self, n: usize) -> usize {
        // Splitmix64 (Steele, Lea and Flood 2014).
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }

    fn word(&mut self) -> String {
        let n = 1 + self.below(4);
        let mut word = String::new();
        for _ in 0..n {
            word.push(char::from(b"bcdfghklmnprstvwz"[self.below(17)]));
            word.push(char::from(b"aeiou"[self.below(5)]));
            if self.below(3) == 0 {
                word.push(char::from(b"nrstl"[self.below(5)]));
            }
        }
        word
    }

    fn names(&mut self, n: usize) -> Vec<String> {
        let mut names = std::collections::BTreeSet::new();
        while names.len() < n {
            let name = match self.below(3) {
                0 => self.word(),
                1 => format!("{}_{}", self.word(), self.word()),
                _ => format!("_{}_{}", self.word(), self.word()),
            };
            names.insert(name);
        }
        names.into_iter().collect()
    }
}
