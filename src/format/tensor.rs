//! The view of a tensor that every file format gives.
//!
//! # Place
//! Part of `format`; implemented by [`super::GgufFile`] and [`super::Safetensors`].

use crate::base::DType;

/// A tensor as the file stores it.
#[derive(Clone, Copy, Debug)]
pub struct TensorView<'a> {
    pub dtype: DType,
    /// Row-major, outermost dimension first (GGUF's reversed order is normalised).
    pub shape: &'a [usize],
    /// The stored bytes, borrowed from the mapped file; no alignment is promised.
    pub data: &'a [u8],
}

impl TensorView<'_> {
    /// Number of elements; the reader has checked that the product fits.
    pub fn n_elements(&self) -> usize {
        self.shape.iter().product()
    }
}

/// Named tensors of one model, whatever file holds them.
pub trait Tensors: Send + Sync {
    /// The tensor of that name.
    fn tensor(&self, name: &str) -> Option<TensorView<'_>>;

    /// Every name, in the order of the file.
    fn names(&self) -> Vec<&str>;

    /// The tensor's bytes were copied elsewhere: its pages need not stay in memory.
    fn forget(&self, _name: &str) {}
}

/// A tensor's place: element type, shape, and bytes within some mapped range.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) dtype: DType,
    pub(super) shape: Vec<usize>,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Entry {
    pub(super) fn view<'a>(&'a self, bytes: &'a [u8]) -> TensorView<'a> {
        TensorView { dtype: self.dtype, shape: &self.shape, data: &bytes[self.start..self.end] }
    }
}

/// The shape in machine words and the bytes it takes, or why there can be no such tensor.
pub(super) fn checked_shape(dims: &[u64], dtype: DType) -> Result<(Vec<usize>, u64), &'static str> {
    let mut n = 1_u64;
    let mut shape = Vec::new();
    for &dim in dims {
        n = n.checked_mul(dim).ok_or("it has more elements than fit")?;
        shape.push(usize::try_from(dim).map_err(|_| "a dimension does not fit")?);
    }
    let row = dims.last().copied().unwrap_or(1);
    if !row.is_multiple_of(dtype.block_len() as u64) {
        return Err("a row is not a whole number of blocks");
    }
    let n_bytes = dtype.bytes_for(n).ok_or("it has more elements than fit")?;
    Ok((shape, n_bytes))
}
