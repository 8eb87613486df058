//! Reading one Python file: what kind of thing it is, its size, its encoding.
//!
//! # Place
//! Uses `base`. Used by the project and the library. A fault is a [`SkipReason`].
//! # Invariants
//! - A FIFO, device or socket is never opened, and at most `PYTHON_FILE_BYTES_MAX` bytes are read.
//! # Sources
//! PEP 263 (coding cookies), PEP 3120 (UTF-8 by default).

use super::error::SkipReason;
use crate::base::limit::PYTHON_FILE_BYTES_MAX;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

/// Read and decode a file.
pub(crate) fn read(path: &Path) -> Result<Arc<str>, SkipReason> {
    let meta = std::fs::metadata(path).map_err(|e| io_reason(&e))?;
    if !meta.is_file() {
        return Err(SkipReason::NotAFile);
    }
    if meta.len() > PYTHON_FILE_BYTES_MAX {
        return Err(SkipReason::TooLarge { n_bytes: meta.len() });
    }
    let file = std::fs::File::open(path).map_err(|e| io_reason(&e))?;
    let mut bytes = Vec::with_capacity(meta.len() as usize + 1);
    // The file may grow between the two calls: the limit holds all the same.
    file.take(PYTHON_FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|e| io_reason(&e))?;
    if bytes.len() as u64 > PYTHON_FILE_BYTES_MAX {
        return Err(SkipReason::TooLarge { n_bytes: bytes.len() as u64 });
    }
    decode(bytes).map(Arc::from)
}

fn io_reason(error: &std::io::Error) -> SkipReason {
    match error.kind() {
        ErrorKind::NotFound => SkipReason::Vanished,
        _ => SkipReason::Unreadable { reason: error.to_string() },
    }
}

/// Decode the bytes of a Python file.
pub(crate) fn decode(bytes: Vec<u8>) -> Result<String, SkipReason> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(SkipReason::Undecodable { encoding: "UTF-8 (it begins as UTF-16)".to_owned() });
    }
    if bytes.contains(&0) {
        return Err(SkipReason::Binary);
    }
    let has_bom = bytes.starts_with(&[0xef, 0xbb, 0xbf]);
    let cookie = if has_bom { None } else { cookie(&bytes) };
    let encoding = cookie.unwrap_or_else(|| "utf-8".to_owned());
    match encoding.as_str() {
        "utf-8" | "utf8" | "u8" | "utf-8-sig" | "ascii" | "us-ascii" => String::from_utf8(bytes)
            .map_err(|_| SkipReason::Undecodable { encoding: "UTF-8".to_owned() }),
        "latin-1" | "latin1" | "iso-8859-1" | "iso8859-1" | "l1" | "iso-latin-1" => {
            Ok(bytes.into_iter().map(char::from).collect())
        }
        "cp1252" | "windows-1252" => Ok(bytes.into_iter().map(cp1252).collect()),
        "iso-8859-15" | "iso8859-15" | "latin-9" | "l9" => {
            Ok(bytes.into_iter().map(|b| if b == 0xa4 { '€' } else { char::from(b) }).collect())
        }
        _ => match String::from_utf8(bytes) {
            // Pure ASCII reads the same in every encoding that Python accepts for sources.
            Ok(text) if text.is_ascii() => Ok(text),
            _ => Err(SkipReason::Undecodable { encoding }),
        },
    }
}

fn cp1252(b: u8) -> char {
    const HIGH: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž',
        '\u{8f}', '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}',
        'ž', 'Ÿ',
    ];
    if (0x80..0xa0).contains(&b) { HIGH[b as usize - 0x80] } else { char::from(b) }
}

/// The encoding named by a comment in line 1, or in line 2 when line 1 is blank or a comment.
fn cookie(bytes: &[u8]) -> Option<String> {
    let head = &bytes[..bytes.len().min(1024)];
    for line in head.split(|&b| b == b'\n').take(2) {
        let text: &[u8] = line.trim_ascii();
        if text.is_empty() {
            continue;
        }
        if text[0] != b'#' {
            return None;
        }
        if let Some(at) = find(text, b"coding") {
            let rest = &text[at + 6..];
            if let Some((b':' | b'=', rest)) = rest.split_first().map(|(b, r)| (*b, r)) {
                let rest = rest.trim_ascii_start();
                let len = rest
                    .iter()
                    .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
                    .count();
                if len > 0 {
                    let name = String::from_utf8_lossy(&rest[..len])
                        .to_ascii_lowercase()
                        .replace('_', "-");
                    return Some(
                        name.trim_end_matches("-unix").trim_end_matches("-dos").to_owned(),
                    );
                }
            }
        }
    }
    None
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|w| w == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_counts_in_line_two_only_below_a_blank_or_comment() {
        let with = |head: &str| decode([head.as_bytes(), b"x = '\xe9'\n"].concat());
        assert_eq!(
            with("# -*- coding: latin-1 -*-\n").as_deref(),
            Ok("# -*- coding: latin-1 -*-\nx = 'é'\n")
        );
        assert!(with("#!/usr/bin/python\n# vim: set fileencoding=latin-1 :\n").is_ok());
        assert!(with("import os\n# coding: latin-1\n").is_err());
        assert!(with("").is_err());
    }

    #[test]
    fn what_is_not_text_is_named() {
        assert_eq!(decode(vec![b'a', 0, b'b']), Err(SkipReason::Binary));
        assert!(matches!(decode(vec![0xff, 0xfe, b'a', 0]), Err(SkipReason::Undecodable { .. })));
        assert!(decode(b"# coding: koi8-r\nx = 1\n".to_vec()).is_ok());
    }
}
