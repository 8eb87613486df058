//! How messages are cut out of a tool's byte stream, with every length bounded.
//!
//! # Place
//! Part of `complete::process`. Knows no process and no JSON.
//! # Sources
//! Language Server Protocol 3.17, base protocol: header part and content part (read 2025-11).

use std::io::{self, BufRead};

use crate::base::limit::{TOOL_FRAME_BYTES_MAX, TOOL_HEADER_BYTES_MAX};

/// Which framing a tool speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::complete) enum Framing {
    /// Four bytes of little-endian length, then the message.
    Length,
    /// `Content-Length: N` header lines, an empty line, then the message.
    Headers,
}

/// Why no further message can be read.
#[derive(Debug, thiserror::Error)]
pub(in crate::complete) enum FrameError {
    #[error("its output cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("its output ended in the middle of a message")]
    Truncated,
    #[error("it announced a message of {n_bytes} bytes; the most is {TOOL_FRAME_BYTES_MAX}")]
    TooLarge { n_bytes: u64 },
    #[error("it wrote something that is not a message header: {shown:?}")]
    NotAHeader { shown: String },
}

impl Framing {
    /// `message` with its header.
    pub(in crate::complete) fn encode(self, message: &[u8]) -> Vec<u8> {
        let mut out = match self {
            Self::Length => u32::try_from(message.len())
                .expect("messages are bounded by the largest file, far below 4 GiB")
                .to_le_bytes()
                .to_vec(),
            Self::Headers => format!("Content-Length: {}\r\n\r\n", message.len()).into_bytes(),
        };
        out.extend_from_slice(message);
        out
    }

    /// The next message, or `None` at a clean end.
    pub(in crate::complete) fn read(
        self,
        from: &mut impl BufRead,
    ) -> Result<Option<Vec<u8>>, FrameError> {
        let n_bytes = match self {
            Self::Length => {
                let mut header = [0_u8; 4];
                match read_up_to(from, &mut header)? {
                    0 => return Ok(None),
                    4 => u64::from(u32::from_le_bytes(header)),
                    _ => return Err(FrameError::Truncated),
                }
            }
            Self::Headers => match content_length(from)? {
                Some(n) => n,
                None => return Ok(None),
            },
        };
        let n = usize::try_from(n_bytes).unwrap_or(usize::MAX);
        if n > TOOL_FRAME_BYTES_MAX {
            return Err(FrameError::TooLarge { n_bytes });
        }
        let mut message = vec![0; n];
        if read_up_to(from, &mut message)? < n {
            return Err(FrameError::Truncated);
        }
        Ok(Some(message))
    }
}

/// Fill `buffer` as far as the stream goes.
fn read_up_to(from: &mut impl BufRead, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

/// The length announced by the header lines; `None` when the stream ends before the first of them.
fn content_length(from: &mut impl BufRead) -> Result<Option<u64>, FrameError> {
    let mut length = None;
    let mut n_header_bytes = 0;
    loop {
        let mut line = Vec::new();
        let room = TOOL_HEADER_BYTES_MAX - n_header_bytes;
        read_line(from, &mut line, room)?;
        n_header_bytes += line.len();
        if line.last() != Some(&b'\n') {
            return match (line.is_empty(), n_header_bytes < TOOL_HEADER_BYTES_MAX) {
                (true, true) if n_header_bytes == 0 => Ok(None),
                (_, true) => Err(FrameError::Truncated),
                _ => Err(not_a_header(&line)),
            };
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\r', '\n']);
        if text.is_empty() {
            // Some servers write empty lines before the header: harmless.
            match length {
                Some(n) => return Ok(Some(n)),
                None => continue,
            }
        }
        let (key, value) = text.split_once(':').ok_or_else(|| not_a_header(&line))?;
        if key.trim().eq_ignore_ascii_case("content-length") {
            let n = value.trim().parse().map_err(|_| not_a_header(&line))?;
            length = Some(n);
        } else if !key.trim().eq_ignore_ascii_case("content-type") {
            // The protocol has no third header; `INFO: starting` is a log line gone astray.
            return Err(not_a_header(&line));
        }
    }
}

/// Append bytes up to and including a line feed, at most `room` of them.
fn read_line(from: &mut impl BufRead, line: &mut Vec<u8>, room: usize) -> io::Result<()> {
    let mut limited = io::Read::take(from, room as u64);
    limited.read_until(b'\n', line)?;
    Ok(())
}

fn not_a_header(line: &[u8]) -> FrameError {
    let shown = &line[..line.len().min(60)];
    FrameError::NotAHeader { shown: String::from_utf8_lossy(shown).into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(framing: Framing, stream: &[u8], expected: &[&str], ends: &str) {
        let mut from = stream;
        for message in expected {
            let got = framing.read(&mut from).expect("a message").expect("not the end");
            assert_eq!(String::from_utf8_lossy(&got), *message);
        }
        let got = match framing.read(&mut from) {
            Ok(None) => "end".to_owned(),
            Ok(Some(more)) => format!("one more message of {} bytes", more.len()),
            Err(e) => e.to_string(),
        };
        assert!(got.contains(ends), "{got:?} does not contain {ends:?}");
    }

    #[test]
    fn messages_are_cut_out_whatever_the_headers_look_like() {
        let two = b"Content-Length: 2\r\n\r\n{}\r\ncontent-length:4\r\nContent-Type: x\r\n\r\nnull";
        check(Framing::Headers, two, &["{}", "null"], "end");
        check(Framing::Headers, b"Content-Length: 1\n\n7", &["7"], "end");
        check(Framing::Length, b"\x02\0\0\0{}\0\0\0\0", &["{}", ""], "end");
    }

    #[test]
    fn garbage_and_cut_streams_are_errors() {
        check(Framing::Headers, b"Traceback (most\n", &[], "not a message header");
        check(Framing::Headers, b"Content-Length: -3\r\n\r\n", &[], "not a message header");
        check(Framing::Headers, b"Content-Length: 9\r\n\r\n{}", &[], "middle of a message");
        check(Framing::Headers, b"Content-Length: 9", &[], "middle of a message");
        check(Framing::Headers, &[b'x'; 100_000], &[], "not a message header");
        check(Framing::Headers, &[b'\n'; 100_000], &[], "not a message header");
        check(Framing::Headers, b"Content-Length: 99999999999\r\n\r\n", &[], "99999999999 bytes");
        check(Framing::Length, b"Trac", &[], "announced a message of");
        check(Framing::Length, b"\x05\0", &[], "middle of a message");
    }

    proptest! {
        #[test]
        fn any_bytes_end_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            for framing in [Framing::Length, Framing::Headers] {
                let mut from = bytes.as_slice();
                while let Ok(Some(message)) = framing.read(&mut from) {
                    prop_assert!(message.len() <= bytes.len());
                }
            }
        }

        #[test]
        fn what_is_encoded_is_read_back(messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 0..5)) {
            for framing in [Framing::Length, Framing::Headers] {
                let stream: Vec<u8> = messages.iter().flat_map(|m| framing.encode(m)).collect();
                let mut from = stream.as_slice();
                for message in &messages {
                    let back = framing.read(&mut from).unwrap();
                    prop_assert_eq!(back.as_ref(), Some(message));
                }
                prop_assert!(framing.read(&mut from).unwrap().is_none());
            }
        }
    }
}
