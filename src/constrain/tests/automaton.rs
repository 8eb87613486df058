//! The automaton against its specification, tried exhaustively on random small vocabularies.

use std::sync::Arc;

use proptest::prelude::*;

use crate::base::TokenId;
use crate::constrain::{
    NameAutomaton, NameSet, NameStart, NameState, NameStep, TokenMask, TokenTrie, Vocabulary,
};

/// The rules as sentences over whole strings: no trie, no state.
struct Specification<'a> {
    tokens: &'a [Vec<u8>],
    names: Vec<&'a [u8]>,
}

impl Specification<'_> {
    fn is_delimiter(byte: u8) -> bool {
        byte < 0x80 && !byte.is_ascii_alphanumeric() && byte != b'_'
    }

    /// Whether tokens exist that turn what is typed into a name.
    fn can_complete(&self, typed: &[u8]) -> bool {
        self.names.contains(&typed)
            || self.tokens.iter().any(|token| {
                let stays = !token.is_empty()
                    && self.names.iter().any(|n| n.starts_with(&[typed, token].concat()));
                self.finishes(typed, token) || stays && self.can_complete(&[typed, token].concat())
            })
    }

    fn finishes(&self, typed: &[u8], token: &[u8]) -> bool {
        (0..token.len()).any(|k| {
            Self::is_delimiter(token[k]) && self.names.contains(&&[typed, &token[..k]].concat()[..])
        })
    }

    fn allows(&self, typed: &[u8], token: &[u8]) -> bool {
        if token.is_empty() {
            return false;
        }
        let text = [typed, token].concat();
        let stays = self.names.iter().any(|n| n.starts_with(&text));
        stays && self.can_complete(&text) || self.finishes(typed, token)
    }
}

fn token() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        4 => prop::sample::select(b"ab_1".to_vec()),
        2 => prop::sample::select(b".( ".to_vec()),
        1 => prop::sample::select("éπ".as_bytes().to_vec()),
    ];
    prop::collection::vec(byte, 0..5)
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => "[ab_][ab_1]{0,4}",
        2 => "[abéπ]{1,3}",
        1 => "[ab .(1]{0,3}",
    ]
}

fn automaton(tokens: &[Vec<u8>], names: &[String]) -> NameAutomaton {
    // The first id ends the text; its bytes must not matter.
    let bytes = std::iter::once(&b"a"[..]).chain(tokens.iter().map(Vec::as_slice));
    let vocabulary = Vocabulary::new(bytes, &[TokenId(0)]).expect("a small vocabulary");
    let names = NameSet::new(names.iter().map(String::as_str));
    NameAutomaton::new(Arc::new(TokenTrie::new(vocabulary)), names, NameStart::Required)
}

fn usable(names: &[String]) -> Vec<&[u8]> {
    let is_usable = |n: &&String| {
        !n.is_empty()
            && !n.as_bytes()[0].is_ascii_digit()
            && !n.bytes().any(Specification::is_delimiter)
    };
    names.iter().filter(is_usable).map(|n| n.as_bytes()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn masks_equal_the_specification_in_every_state(
        mut tokens in prop::collection::vec(token(), 1..14),
        names in prop::collection::vec(name(), 0..8),
        has_all_bytes in any::<bool>(),
    ) {
        if has_all_bytes {
            tokens.extend("ab_1éπ".bytes().map(|b| vec![b]));
        }
        let automaton = automaton(&tokens, &names);
        let spec = Specification { tokens: &tokens, names: usable(&names) };
        let unique: std::collections::BTreeSet<_> = spec.names.iter().collect();
        prop_assert_eq!(automaton.names().len(), unique.len());
        for name in &spec.names {
            for n in 0..=name.len() {
                let typed = &name[..n];
                let mask = automaton.compute_mask(state(&automaton, typed));
                let mut expected = TokenMask::none(tokens.len() + 1);
                if spec.names.contains(&typed) {
                    expected.allow(TokenId(0));
                }
                for (id, token) in (1u32..).zip(&tokens) {
                    if spec.allows(typed, token) {
                        expected.allow(TokenId(id));
                    }
                }
                prop_assert_eq!(
                    mask.ids().collect::<Vec<_>>(),
                    expected.ids().collect::<Vec<_>>(),
                    "after {:?}", String::from_utf8_lossy(typed)
                );
                prop_assert_eq!(mask.n_allowed(), expected.n_allowed());
            }
        }
    }

    #[test]
    fn whatever_is_sampled_under_the_masks_is_a_name(
        tokens in prop::collection::vec(token(), 1..14),
        names in prop::collection::vec(name(), 1..8),
        choices in prop::collection::vec(any::<prop::sample::Index>(), 12),
    ) {
        let automaton = automaton(&tokens, &names);
        let names = usable(&names);
        let mut state = automaton.names().start();
        let mut text: Vec<u8> = Vec::new();
        for choice in choices {
            let allowed: Vec<TokenId> = automaton.mask(state).ids().collect();
            if allowed.is_empty() {
                // Only before anything is written, or where a name is complete and no token follows.
                prop_assert!(text.is_empty() || names.contains(&&text[..]));
                break;
            }
            let token = *choice.get(&allowed);
            let bytes = automaton.trie().vocabulary().token_bytes(token);
            if bytes.is_empty() {
                prop_assert!(names.contains(&&text[..]), "ended inside a name");
                break;
            }
            match automaton.walk(state, bytes) {
                NameStep::Inside(next) => {
                    text.extend_from_slice(bytes);
                    state = next;
                    prop_assert_eq!(automaton.names().typed(state), &text[..]);
                }
                NameStep::Ended { n_name, .. } => {
                    text.extend_from_slice(&bytes[..n_name]);
                    prop_assert!(names.contains(&&text[..]));
                    break;
                }
                NameStep::Forbidden => prop_assert!(false, "the mask allowed {token:?}"),
            }
        }
    }

    #[test]
    fn forced_bytes_are_what_all_names_share(
        names in prop::collection::vec("[ab]{1,5}", 1..5),
    ) {
        let automaton = automaton(&[], &names);
        let names = usable(&names);
        for name in &names {
            for n in 0..name.len() {
                let typed = &name[..n];
                let rest: Vec<&[u8]> =
                    names.iter().filter_map(|m| m.strip_prefix(typed)).collect();
                let shared = (0..=rest[0].len())
                    .rev()
                    .find(|&k| rest.iter().all(|r| r.starts_with(&rest[0][..k])))
                    .expect("the empty string");
                let forced = automaton.names().forced(state(&automaton, typed));
                prop_assert_eq!(forced, &rest[0][..shared]);
            }
        }
    }
}

fn state(automaton: &NameAutomaton, typed: &[u8]) -> NameState {
    typed.iter().fold(automaton.names().start(), |state, &byte| {
        automaton.names().step(state, byte).expect("a prefix of a name")
    })
}

#[test]
fn weird_names_are_dropped_and_counted() {
    let long = "a".repeat(1 << 20);
    let names = ["", "a b", "1a", "class", "None", "a\u{a0}b", "a.b", "ok", "ok", &long];
    let set = NameSet::new(names);
    assert_eq!((set.len(), set.n_dropped()), (1, 8));
    assert_eq!(set.name(0), b"ok");
}

#[test]
fn twenty_thousand_names_take_no_time() {
    let names: Vec<String> = (0..20_000).map(|i| format!("name_{i:x}_{}", i * 7919)).collect();
    let tokens: Vec<Vec<u8>> = (0..=255u8).map(|b| vec![b]).collect();
    let began = std::time::Instant::now();
    let automaton = automaton(&tokens, &names);
    assert_eq!(automaton.names().len(), 20_000);
    assert_eq!(automaton.mask(automaton.names().start()).n_allowed(), 1);
    assert_eq!(automaton.names().forced(automaton.names().start()), b"name_");
    assert!(began.elapsed().as_millis() < 500, "{:?}", began.elapsed());
}

#[test]
fn more_names_than_the_limit_are_no_longer_complete() {
    let names: Vec<String> = (0..50_001).map(|i| format!("n{i}")).collect();
    let set = NameSet::new(names.iter().map(String::as_str));
    assert!(set.is_cut());
    assert_eq!(set.len(), crate::base::limit::CANDIDATES_MAX);
}
