//! The policies over made-up models: a row of logits is a fixed function of the tokens before it.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use crate::base::TokenId;
use crate::constrain::{
    CandidateTree, Distribution, NameAutomaton, NameBeam, NameSet, NameStart, NameStep,
    Normalisation, TokenTrie, Vocabulary,
};

const TOKENS: [&str; 14] =
    ["", "a", "b", "ab", "ba", "aa", "_", "a(", ".", "b.", " ", "ab_", "1", "_a"];

fn automaton(names: &[String]) -> Arc<NameAutomaton> {
    let vocabulary = Vocabulary::new(TOKENS.iter().map(|t| t.as_bytes()), &[TokenId(0)]);
    let trie = TokenTrie::new(vocabulary.expect("a small vocabulary"));
    let names = NameSet::new(names.iter().map(String::as_str));
    Arc::new(NameAutomaton::new(Arc::new(trie), names, NameStart::Required))
}

/// Logits after some tokens: pseudo-random, spiky, the same every time.
fn logits(seed: u64, tokens: &[TokenId]) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for token in tokens {
        state = (state ^ u64::from(token.0 + 1)).wrapping_mul(0x0100_0000_01b3);
    }
    (0..TOKENS.len())
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / 4e6
        })
        .collect()
}

/// The longest token first, as a greedy tokenizer would.
fn encode(text: &[u8]) -> Vec<TokenId> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (id, token) = (0u32..)
            .zip(TOKENS)
            .filter(|(_, t)| !t.is_empty() && rest.starts_with(t.as_bytes()))
            .max_by_key(|(_, t)| t.len())
            .expect("every byte is a token");
        tokens.push(TokenId(id));
        rest = &rest[token.len()..];
    }
    tokens
}

fn names() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[ab_][ab_1]{0,4}", 1..6)
}

/// `p` of a path and then a token that ends the name at once or after writing the rest of it.
fn end_of(seed: u64, name: &str, path: &[TokenId]) -> f64 {
    let row = logits(seed, path);
    let row = Distribution::new(&row);
    let written: usize = path.iter().map(|t| TOKENS[t.index()].len()).sum();
    (0u32..)
        .zip(TOKENS)
        .filter(|(id, token)| {
            let rest = &name[written..];
            *id == 0 && rest.is_empty()
                || token
                    .strip_prefix(rest)
                    .and_then(|t| t.chars().next())
                    .is_some_and(|c| !c.is_alphanumeric() && c != '_')
        })
        .map(|(id, _)| row.prob(TokenId(id)))
        .sum()
}

fn path_prob(seed: u64, path: &[TokenId]) -> f64 {
    (0..path.len()).map(|n| Distribution::new(&logits(seed, &path[..n])).prob(path[n])).product()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whole_name_scores_are_the_probabilities_of_their_paths(names in names(), seed in 1u64..1000) {
        let automaton = automaton(&names);
        let root = logits(seed, &[]);
        let root = Distribution::new(&root);
        let start = automaton.names().start();
        let tree = CandidateTree::new(&automaton, start, 512, &root, encode);
        prop_assert_eq!((tree.n_names(), tree.n_left_out()), (automaton.names().len(), 0));
        let mut scores = tree.scores(&automaton, &root);
        let nodes = tree.tokens().nodes();
        let visible = tree.tokens().visible();
        let words = nodes.len().div_ceil(64);
        for i in 0..nodes.len() {
            // The row sees its ancestors and itself, whose tokens in order are its text.
            let seen: Vec<TokenId> = (0..nodes.len())
                .filter(|j| visible[i * words + j / 64] >> (j % 64) & 1 == 1)
                .map(|j| nodes[j].token)
                .collect();
            prop_assert_eq!(nodes[i].depth as usize + 1, seen.len());
            scores.row(i, &Distribution::new(&logits(seed, &seen)));
        }
        for scored in scores.ranked(Normalisation::Joint) {
            let name = String::from_utf8(scored.name.clone()).expect("text");
            let path = encode(name.as_bytes());
            prop_assert_eq!(&scored.tokens, &path);
            prop_assert!((scored.log_prob - path_prob(seed, &path).ln()).abs() < 1e-4);
            let end: f64 = (0..=path.len())
                .map(|n| path_prob(seed, &path[..n]) * end_of(seed, &name, &path[..n]))
                .sum();
            prop_assert!((scored.log_prob_end - end.ln()).abs() < 1e-4, "{} {}", name, end);
        }
        for by in [Normalisation::WithoutEnd, Normalisation::PerToken, Normalisation::PerByte] {
            let ranked = scores.ranked(by);
            prop_assert!(ranked.is_sorted_by(|a, b| a.score >= b.score));
        }
    }

    #[test]
    fn a_wide_beam_finds_the_most_likely_name_over_all_tokenisations(
        names in names(),
        seed in 1u64..1000,
    ) {
        let automaton = automaton(&names);
        // Every path by brute force.
        let mut ends: BTreeMap<String, f64> = BTreeMap::new();
        let mut pending = vec![Vec::new()];
        while let Some(path) = pending.pop() {
            let bytes: String = path.iter().map(|t: &TokenId| TOKENS[t.index()]).collect();
            for name in &names {
                if name.starts_with(&bytes) {
                    let end = path_prob(seed, &path) * end_of(seed, name, &path);
                    if end > 0.0 {
                        // Equal names are one name.
                        let is_first = names.iter().position(|n| n == name)
                            == names.iter().position(|n| std::ptr::eq(n, name));
                        if is_first {
                            *ends.entry(name.clone()).or_default() += end;
                        }
                    }
                }
            }
            for (id, token) in (0u32..).zip(TOKENS) {
                let longer = format!("{bytes}{token}");
                if !token.is_empty() && names.iter().any(|n| n.starts_with(&longer)) {
                    pending.push([&path[..], &[TokenId(id)]].concat());
                }
            }
        }
        let root = logits(seed, &[]);
        let start = automaton.names().start();
        let mut beam = NameBeam::new(Arc::clone(&automaton), start, 10_000, &Distribution::new(&root));
        let mut n_steps = 0;
        loop {
            let (tree, rows) = beam.tree();
            if rows.is_empty() {
                break; // past `is_done`, so that every path is counted
            }
            n_steps += 1;
            prop_assert!(n_steps < 10);
            let rows: Vec<Vec<f32>> = rows
                .iter()
                .map(|&row| {
                    let mut path = Vec::new();
                    let mut at = Some(row);
                    while let Some(i) = at {
                        path.push(tree.nodes()[i as usize].token);
                        at = tree.nodes()[i as usize].parent;
                    }
                    path.reverse();
                    logits(seed, &path)
                })
                .collect();
            let rows: Vec<Distribution<'_>> = rows.iter().map(|r| Distribution::new(r)).collect();
            beam.advance(&rows);
        }
        prop_assert!(beam.is_done());
        let ranked = beam.ranked();
        prop_assert_eq!(ranked.len(), ends.len());
        for scored in &ranked {
            let name = String::from_utf8(scored.name.clone()).expect("text");
            prop_assert!((scored.log_prob_end - ends[&name].ln()).abs() < 1e-4, "{}", name);
        }
    }

    #[test]
    fn a_narrow_beam_ends_with_a_candidate(names in names(), seed in 1u64..1000, width in 0usize..4) {
        let automaton = automaton(&names);
        let root = logits(seed, &[]);
        let start = automaton.names().start();
        let mut beam = NameBeam::new(Arc::clone(&automaton), start, width, &Distribution::new(&root));
        while !beam.is_done() {
            let (tree, rows) = beam.tree();
            prop_assert!(rows.len() <= width.max(1));
            let rows: Vec<Vec<f32>> = rows.iter().map(|&r| {
                logits(seed, &[tree.nodes()[r as usize].token])
            }).collect();
            let rows: Vec<Distribution<'_>> = rows.iter().map(|r| Distribution::new(r)).collect();
            beam.advance(&rows);
        }
        let best = beam.ranked().into_iter().next().expect("a name");
        prop_assert!(names.iter().any(|n| n.as_bytes() == best.name));
        let mut state = start;
        for token in &best.tokens {
            match automaton.walk(state, TOKENS[token.index()].as_bytes()) {
                NameStep::Inside(next) => state = next,
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }
}

#[test]
fn the_least_likely_names_are_left_out_when_rows_are_short() {
    let names: Vec<String> = ["aa", "ab", "ba", "b_"].map(str::to_owned).to_vec();
    let automaton = automaton(&names);
    let mut root = vec![0.0; TOKENS.len()];
    root[4] = 9.0; // `ba`
    root[2] = 5.0; // `b`, which begins `b_`
    let root = Distribution::new(&root);
    let tree = CandidateTree::new(&automaton, automaton.names().start(), 3, &root, encode);
    assert_eq!((tree.n_names(), tree.n_left_out()), (2, 2));
    let tokens: Vec<u32> = tree.tokens().nodes().iter().map(|n| n.token.0).collect();
    assert_eq!(tokens, [4, 2, 6]);
}

#[test]
fn a_tokenizer_that_spells_something_else_is_not_believed() {
    let automaton = automaton(&["ab".to_owned(), "ba".to_owned()]);
    let root = vec![0.0; TOKENS.len()];
    let root = Distribution::new(&root);
    let lie = |_: &[u8]| vec![TokenId(3)];
    let tree = CandidateTree::new(&automaton, automaton.names().start(), 100, &root, lie);
    assert_eq!((tree.n_names(), tree.n_left_out()), (1, 1));
}
