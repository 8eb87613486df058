//! Content hashes: SHA-256 of a whole file, and a cheap fingerprint for cache keys.
//!
//! # Place
//! Part of `format`. The full hash decides whether a download is the right file; the fingerprint
//! decides whether two cached results belong to the same weights.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::error::FormatError;
use super::map::FileMap;

/// A SHA-256, shown as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sha256Hex(pub [u8; 32]);

impl fmt::Display for Sha256Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What identifies a model's weights: [`FileMap::fingerprint`].
pub type Fingerprint = Sha256Hex;

const HEAD_BYTES: usize = 1 << 20;
const SAMPLE_BYTES: usize = 4096;
const N_SAMPLES: usize = 256;

impl FileMap {
    /// SHA-256 over the length, the first MiB (headers and metadata begin there), and 256 pieces of
    /// 4 KiB spread evenly over the rest, the last bytes included.
    ///
    /// It reads 2 MiB of any file, where the full hash would read gigabytes at every start. A file
    /// that was trained, quantised or converted differently changes every piece; a single flipped
    /// bit between two pieces is not seen, which is what checking a download is for.
    pub fn fingerprint(&self) -> Fingerprint {
        let bytes: &[u8] = self;
        let mut hash = Sha256::new();
        hash.update((bytes.len() as u64).to_le_bytes());
        let (head, rest) = bytes.split_at(bytes.len().min(HEAD_BYTES));
        hash.update(head);
        if rest.len() <= SAMPLE_BYTES * N_SAMPLES {
            hash.update(rest);
        } else {
            let last_start = rest.len() - SAMPLE_BYTES;
            for i in 0..N_SAMPLES {
                // u128: the product does not fit 64 bits for files past 2^56 bytes.
                let start = (last_start as u128 * i as u128 / (N_SAMPLES as u128 - 1)) as usize;
                hash.update(&rest[start..start + SAMPLE_BYTES]);
            }
        }
        Sha256Hex(hash.finalize().into())
    }
}

/// [`FileMap::fingerprint`] of the file at `path`.
///
/// # Errors
/// When the file cannot be read.
pub fn fingerprint_file(path: &Path) -> Result<Fingerprint, FormatError> {
    Ok(FileMap::open(path)?.fingerprint())
}

/// SHA-256 of a whole file, reporting how many bytes are done after each piece.
///
/// # Errors
/// When the file cannot be read.
pub fn sha256_file(path: &Path, progress: &mut dyn FnMut(u64)) -> Result<Sha256Hex, FormatError> {
    let at = |e: std::io::Error| FormatError::new(path, e);
    let mut file = File::open(path).map_err(at)?;
    let mut hash = Sha256::new();
    let mut piece = vec![0; 1 << 20];
    let mut n_done = 0;
    loop {
        let n = match file.read(&mut piece) {
            Ok(0) => return Ok(Sha256Hex(hash.finalize().into())),
            Ok(n) => n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(at(e)),
        };
        hash.update(&piece[..n]);
        n_done += n as u64;
        progress(n_done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fingerprint_sees_the_length_the_head_and_the_tail() {
        let base = vec![7_u8; 8 << 20];
        let print = |edit: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = base.clone();
            edit(&mut bytes);
            FileMap::from_vec(bytes).fingerprint()
        };
        let plain = print(&|_| ());
        assert_eq!(plain, print(&|_| ()));
        assert_ne!(plain, print(&|b| b.push(7)));
        assert_ne!(plain, print(&|b| b[0] = 8));
        assert_ne!(plain, print(&|b| *b.last_mut().expect("not empty") = 8));
        assert_ne!(plain, print(&|b| b[4 << 20..5 << 20].fill(8)));
    }

    #[test]
    fn the_full_hash_is_sha256() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("abc");
        std::fs::write(&path, "abc").unwrap();
        let mut done = 0;
        let hash = sha256_file(&path, &mut |n| done = n).unwrap();
        assert_eq!(done, 3);
        assert_eq!(
            hash.to_string(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
