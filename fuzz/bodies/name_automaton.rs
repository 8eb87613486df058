//! A drawn vocabulary and drawn names: the mask of every state that is reached is what the rule says,
//! token by token, and a text that follows the masks never gets stuck.

use std::sync::Arc;

use tether::base::TokenId;
use tether::constrain::{NameAutomaton, NameSet, NameStart, NameStep, TokenTrie, Vocabulary};

/// Few letters, so that names and tokens overlap; a delimiter, a digit and half a character.
const ALPHABET: [u8; 8] = [b'a', b'b', b'c', b'_', b'1', b'.', b'(', 0xC3];

/// Words of the drawn bytes: three bits a letter, a high bit ends the word.
fn words(data: &[u8]) -> Vec<Vec<u8>> {
    data.split_inclusive(|byte| byte & 0x80 != 0)
        .map(|word| word.iter().take(12).map(|byte| ALPHABET[usize::from(byte & 7)]).collect())
        .collect()
}

/// Returns the number of states visited.
pub fn run(data: &[u8]) -> usize {
    let [rule, n_names, choices @ .., _] = data else {
        return 0;
    };
    let start = if rule & 1 == 0 { NameStart::Required } else { NameStart::Optional };
    let (names, tokens) = choices.split_at((*n_names as usize).min(choices.len()));
    let names: Vec<String> = words(names)
        .into_iter()
        .filter_map(|word| String::from_utf8(word).ok())
        .map(|word| word.replace(['.', '('], "_"))
        .filter(|word| word.starts_with(|c: char| !c.is_ascii_digit()))
        .collect();
    if names.is_empty() {
        return 0; // no constraint is made from no names
    }
    let mut tokens = words(tokens);
    tokens.truncate(64);
    tokens.push(Vec::new()); // the end of the text
    let eos = TokenId(tokens.len() as u32 - 1);
    let vocabulary = Vocabulary::new(tokens.iter().map(Vec::as_slice), &[eos]).expect("small");
    let trie = Arc::new(TokenTrie::new(vocabulary));
    let set = NameSet::new(names.iter().map(String::as_str));
    let automaton = NameAutomaton::new(trie, set, start);

    let mut state = automaton.names().start();
    let mut choices = choices.iter().cycle();
    for n_visited in 1.. {
        let mask = automaton.mask(state);
        let mut inside = Vec::new();
        for (id, bytes) in tokens.iter().enumerate() {
            let id = TokenId(id as u32);
            let expected = match automaton.walk(state, bytes) {
                _ if id == eos => automaton.may_end(state),
                _ if bytes.is_empty() => false,
                NameStep::Ended { .. } => true,
                NameStep::Inside(next) => automaton.is_live(next),
                NameStep::Forbidden => false,
            };
            assert_eq!(mask.is_allowed(id), expected, "{id:?} {bytes:?} of {names:?}");
            if let (true, NameStep::Inside(next)) =
                (expected && id != eos, automaton.walk(state, bytes))
            {
                inside.push(next);
            }
        }
        assert!(
            !mask.is_empty() || !automaton.is_live(state),
            "a live state has a way on: {names:?}"
        );
        let choice = usize::from(*choices.next().unwrap_or(&0));
        match inside.get(choice % inside.len().max(1)) {
            Some(next) if n_visited < 32 => state = *next,
            _ => return n_visited,
        }
    }
    unreachable!("the loop returns")
}
