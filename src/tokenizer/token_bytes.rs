//! The bytes of every token, by id.
//!
//! # Place
//! Part of `tokenizer`. Made once at load; decoding and constraints read nothing else.
//! # Sources
//! The byte alphabet of GPT-2: printable Latin-1 stands for itself, the other bytes for U+0100 up.

/// The marker that stands for a space in SentencePiece vocabularies.
pub(super) const SPACE_MARK: char = '▁';

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A piece of text.
    Text,
    /// Matched before anything else, as it is spelled.
    UserDefined,
    /// One byte, for characters without a piece.
    Byte,
    /// Never part of text: control, unknown or unused.
    Hidden,
}

/// Bytes by token id, in one allocation.
#[derive(Clone, Debug)]
pub(super) struct TokenBytes {
    bytes: Vec<u8>,
    /// End of each token's bytes; its start is the end before.
    ends: Vec<u32>,
}

impl TokenBytes {
    pub(super) fn with_tokens(n: usize) -> Self {
        Self { bytes: Vec::with_capacity(8 * n), ends: Vec::with_capacity(n) }
    }

    pub(super) fn push(&mut self, bytes: impl IntoIterator<Item = u8>) {
        self.bytes.extend(bytes);
        // The file that the pieces come from is smaller than 4 GiB of vocabulary; past that, tokens
        // would only be cut off, never read out of range.
        self.ends.push(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn get(&self, idx: usize) -> &[u8] {
        let Some(&end) = self.ends.get(idx) else {
            return &[];
        };
        let start = idx.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..end as usize]
    }
}

/// The byte that a character of GPT-2's alphabet stands for.
pub(super) fn byte_of(c: char) -> Option<u8> {
    match c as u32 {
        code @ (0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF) => Some(code as u8),
        // 0x00 to 0x20 come first, then 0x7F to 0xA0, then 0xAD.
        code @ 0x100..=0x120 => Some((code - 0x100) as u8),
        code @ 0x121..=0x142 => Some((code - 0x121 + 0x7F) as u8),
        0x143 => Some(0xAD),
        _ => None,
    }
}

/// Bytes of a piece spelled in GPT-2's alphabet; a piece with any other character is spelled plainly.
pub(super) fn bytes_of_byte_level(piece: &str) -> Vec<u8> {
    piece
        .chars()
        .map(byte_of)
        .collect::<Option<Vec<u8>>>()
        .unwrap_or_else(|| piece.as_bytes().to_vec())
}

/// Bytes of a piece in which `▁` stands for a space.
pub(super) fn bytes_of_marked(piece: &str) -> Vec<u8> {
    piece.replace(SPACE_MARK, " ").into_bytes()
}

/// The byte of a piece spelled `<0xHH>`.
pub(super) fn byte_of_escape(piece: &str) -> Option<u8> {
    let hex = piece.strip_prefix("<0x")?.strip_suffix('>')?;
    if hex.len() != 2 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u8::from_str_radix(hex, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The character that stands for a byte in GPT-2's alphabet.
    fn char_of(byte: u8) -> char {
        let code = match byte {
            0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => u32::from(byte),
            0x00..=0x20 => 0x100 + u32::from(byte),
            0x7F..=0xA0 => 0x121 + u32::from(byte - 0x7F),
            0xAD => 0x143,
        };
        char::from_u32(code).expect("below the surrogates")
    }

    #[test]
    fn the_alphabet_of_gpt2_is_a_bijection_on_bytes() {
        for byte in 0..=255 {
            assert_eq!(byte_of(char_of(byte)), Some(byte));
        }
        assert_eq!((char_of(b' '), char_of(b'\n')), ('Ġ', 'Ċ'));
        assert_eq!(byte_of('\u{144}'), None);
        assert_eq!(byte_of(' '), None);
    }

    #[test]
    fn bytes_are_kept_by_id_even_when_they_are_the_same() {
        let mut table = TokenBytes::with_tokens(3);
        table.push([0xE2]);
        table.push([]);
        table.push([0xE2]);
        assert_eq!(table.len(), 3);
        assert_eq!(table.get(0), [0xE2]);
        assert_eq!(table.get(1), [0_u8; 0]);
        assert_eq!(table.get(2), [0xE2]);
        assert_eq!(table.get(3), [0_u8; 0]);
    }

    #[test]
    fn only_whole_byte_escapes_are_bytes() {
        assert_eq!(byte_of_escape("<0x0A>"), Some(b'\n'));
        assert_eq!(byte_of_escape("<0xfF>"), Some(255));
        for piece in ["<0x0A", "<0x+A>", "<0x0AB>", "0x0A", "<0x>"] {
            assert_eq!(byte_of_escape(piece), None, "{piece}");
        }
    }
}
