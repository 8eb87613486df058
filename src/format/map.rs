//! A file's bytes, memory-mapped: the only file of this folder that opens `unsafe`.
//!
//! # Place
//! Part of `format`; the readers borrow from it.
#![allow(unsafe_code)] // mapping a file is unsafe in the type system of Rust; see `FileMap::open`

use std::fs::File;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use super::error::{FormatError, FormatProblem};

/// A Git LFS pointer begins with this; whoever cloned without LFS has such files.
const LFS_POINTER: &[u8] = b"version https://git-lfs";

/// The bytes of one file. Cheap to clone.
#[derive(Clone)]
pub struct FileMap(Arc<Bytes>);

enum Bytes {
    Mapped(memmap2::Mmap),
    Owned(Vec<u8>),
}

impl FileMap {
    /// Map the file at `path`.
    ///
    /// # Errors
    /// When it cannot be opened or mapped, or is a Git LFS pointer.
    pub fn open(path: &Path) -> Result<Self, FormatError> {
        let map = || -> Result<Self, FormatProblem> {
            let file = File::open(path)?;
            let metadata = file.metadata()?;
            if !metadata.is_file() {
                return Err(std::io::Error::other("not a file").into());
            }
            // A mapping of length 0 is an error on some systems; every reader refuses it anyway.
            if metadata.len() == 0 {
                return Ok(Self::from_vec(Vec::new()));
            }
            // SAFETY: the mapping is read-only and private to this value. Its contract, that nobody
            // shrinks or rewrites the file while it is mapped, cannot be checked; we hold it for our
            // own files, which are renamed into place and never written again, and a user who edits
            // a model file under a running process gets what every mmap-based loader gives.
            let mapped = unsafe { memmap2::Mmap::map(&file)? };
            Ok(Self(Arc::new(Bytes::Mapped(mapped))))
        };
        let map = map().map_err(|problem| FormatError::new(path, problem))?;
        if map.starts_with(LFS_POINTER) {
            return Err(FormatError::new(path, FormatProblem::LfsPointer));
        }
        Ok(map)
    }

    /// These bytes are not needed any more: their pages need not stay in memory (they are read again
    /// from the file if they are used after all).
    pub(super) fn forget(&self, range: std::ops::Range<usize>) {
        #[cfg(unix)]
        if let Bytes::Mapped(map) = &*self.0
            && !range.is_empty()
        {
            let advice = memmap2::UncheckedAdvice::DontNeed;
            // SAFETY: the mapping is read-only and backed by the file, so dropping its pages changes
            // no byte that anybody can see: the next access reads them from the file again.
            let told = unsafe { map.unchecked_advise_range(advice, range.start, range.len()) };
            // Advice: when it is refused the pages just stay.
            let _ = told;
        }
        #[cfg(not(unix))]
        let _ = range;
    }

    /// Bytes that are in memory already.
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Bytes::Owned(bytes)))
    }
}

impl Deref for FileMap {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &*self.0 {
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}
