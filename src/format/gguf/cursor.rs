//! Reading little-endian numbers and strings from bytes that may end anywhere.
//!
//! # Place
//! Part of the GGUF reader.
//! # Invariants
//! Nothing is read and nothing is reserved before the length has been compared with what is left.

use super::super::error::FormatProblem;

/// A position in the bytes of a file.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next `n` bytes.
    pub(super) fn take(
        &mut self,
        n: u64,
        what: impl FnOnce() -> String,
    ) -> Result<&'a [u8], FormatProblem> {
        if n > self.left() as u64 {
            return Err(FormatProblem::Truncated {
                what: what(),
                at: self.at as u64,
                need: n,
                left: self.left() as u64,
            });
        }
        let start = self.at;
        self.at += n as usize;
        Ok(&self.bytes[start..self.at])
    }

    fn array<const N: usize>(
        &mut self,
        what: impl FnOnce() -> String,
    ) -> Result<[u8; N], FormatProblem> {
        let bytes = self.take(N as u64, what)?;
        Ok(bytes.try_into().expect("take returns as many bytes as asked"))
    }

    pub(super) fn u32(&mut self, what: impl FnOnce() -> String) -> Result<u32, FormatProblem> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u64(&mut self, what: impl FnOnce() -> String) -> Result<u64, FormatProblem> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A length and as many bytes of UTF-8, at most `max` bytes.
    pub(super) fn string(
        &mut self,
        max: u64,
        what: impl Fn() -> String,
    ) -> Result<&'a str, FormatProblem> {
        let n = self.u64(&what)?;
        if n > max && n <= self.left() as u64 {
            return Err(FormatProblem::TooLong { what: what(), got: n, max });
        }
        let bytes = self.take(n, &what)?;
        std::str::from_utf8(bytes).map_err(|_| FormatProblem::NotUtf8 { what: what() })
    }
}
