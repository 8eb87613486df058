//! Ids to text as they come, in whole characters.
//!
//! # Place
//! Part of `tokenizer`; one decoder belongs to one sequence.
//! # Invariants
//! What was returned plus what [`StreamDecoder::finish`] returns is the lossy decoding of all bytes.

use std::sync::Arc;

use super::token_bytes::TokenBytes;
use crate::base::TokenId;

/// Turns ids into text one by one; a character that is not complete yet is held back.
#[derive(Clone, Debug)]
pub struct StreamDecoder {
    token_bytes: Arc<TokenBytes>,
    /// Bytes of a character that may still be completed; at most 3 between calls.
    held: Vec<u8>,
    /// Drop one leading space: the one that encoding put in front of the text.
    drop_space: bool,
}

impl StreamDecoder {
    pub(super) fn new(token_bytes: Arc<TokenBytes>, drop_space: bool) -> Self {
        Self { token_bytes, held: Vec::new(), drop_space }
    }

    /// The text that is certain after one more token. Bytes that no continuation can make valid are
    /// replaced by U+FFFD at once; a token without bytes changes nothing.
    pub fn push(&mut self, id: TokenId) -> String {
        let token_bytes = Arc::clone(&self.token_bytes);
        self.push_bytes(token_bytes.get(id.index()))
    }

    /// As [`StreamDecoder::push`], for bytes that were looked up already.
    pub fn push_bytes(&mut self, bytes: &[u8]) -> String {
        let mut bytes = bytes;
        if self.drop_space && !bytes.is_empty() {
            self.drop_space = false;
            bytes = bytes.strip_prefix(b" ").unwrap_or(bytes);
        }
        self.held.extend_from_slice(bytes);
        let (text, n_used) = decode_certain(&self.held);
        self.held.drain(..n_used);
        text
    }

    /// What is left when no more tokens come: U+FFFD for an incomplete character.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.held).into_owned();
        self.held.clear();
        text
    }
}

/// The text of the longest prefix of `bytes` that no continuation can change, and its length.
fn decode_certain(bytes: &[u8]) -> (String, usize) {
    let mut text = String::new();
    let mut n_used = 0;
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        n_used += chunk.valid().len();
        if chunk.invalid().is_empty() {
            break;
        }
        // A character cut off by the end of the bytes is the last chunk and has no error length.
        let at_end = n_used + chunk.invalid().len() == bytes.len();
        let incomplete =
            at_end && std::str::from_utf8(chunk.invalid()).is_err_and(|e| e.error_len().is_none());
        if incomplete {
            break;
        }
        text.push(char::REPLACEMENT_CHARACTER);
        n_used += chunk.invalid().len();
    }
    (text, n_used)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoder(pieces: &[&[u8]]) -> StreamDecoder {
        let mut table = TokenBytes::with_tokens(pieces.len());
        for piece in pieces {
            table.push(piece.iter().copied());
        }
        StreamDecoder::new(Arc::new(table), false)
    }

    /// The chunks that come out for `pieces`, and what `finish` adds.
    #[track_caller]
    fn check(pieces: &[&[u8]], chunks: &[&str], rest: &str) {
        let mut decoder = decoder(pieces);
        let got: Vec<String> = (0..pieces.len() as u32).map(|i| decoder.push(TokenId(i))).collect();
        assert_eq!(got, chunks);
        assert_eq!(decoder.finish(), rest);
        assert_eq!(decoder.finish(), "");
    }

    #[test]
    fn a_character_over_three_tokens_comes_out_whole() {
        check(&[b" \xF0", b"\x9F\xA6", b"\x80"], &[" ", "", "\u{1F980}"], "");
        check(&[b"\xE2", b"\x82", b"\xAC"], &["", "", "€"], "");
    }

    #[test]
    fn an_incomplete_tail_is_replaced_only_at_the_end() {
        check(&[b" \xF0"], &[" "], "\u{FFFD}");
        check(&[b"\xF0\x9F", b"\xA6"], &["", ""], "\u{FFFD}");
    }

    #[test]
    fn bytes_that_cannot_become_a_character_are_replaced_at_once() {
        check(&[b"\xFF", b"a"], &["\u{FFFD}", "a"], "");
        check(&[b"\x80\x80"], &["\u{FFFD}\u{FFFD}"], "");
        check(&[b"\xE2\x82", b"a"], &["", "\u{FFFD}a"], "");
        check(&[b"\xC0", b"\xAF"], &["\u{FFFD}", "\u{FFFD}"], "");
    }

    #[test]
    fn an_id_outside_the_vocabulary_has_no_text() {
        assert_eq!(decoder(&[b"a"]).push(TokenId(77)), "");
    }

    proptest! {
        #[test]
        fn chunks_join_to_the_lossy_decoding_and_hold_back_at_most_three_bytes(
            pieces in prop::collection::vec(
                prop_oneof![
                    prop::collection::vec(any::<u8>(), 0..5),
                    "\\PC{0,2}".prop_map(String::into_bytes),
                ],
                0..12,
            ),
            cut in 1_usize..4,
        ) {
            let whole: Vec<u8> = pieces.concat();
            let parts: Vec<&[u8]> = whole.chunks(cut).collect();
            let mut decoder = decoder(&parts);
            let mut text = String::new();
            for i in 0..parts.len() as u32 {
                text += &decoder.push(TokenId(i));
                prop_assert!(decoder.held.len() <= 3);
            }
            text += &decoder.finish();
            prop_assert_eq!(text, String::from_utf8_lossy(&whole));
        }
    }
}
