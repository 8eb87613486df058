//! The block formats of quantised weights: how to read every one of them, and how to write three.
//!
//! # Place
//! Uses `base`. Used by the reference backend (whole rows as f32), by the SIMD backend (codes and
//! scales, to lay them out anew) and by benchmarks (requantising a file). Does not know matrices.
//! # Invariants
//! - Every format is seen as 32 columns of `w = d · (q − zero) + m` with unsigned codes `q`.
//! - Data shorter than the blocks it should hold is refused by slice bounds, never read past.
//! # Sources
//! The GGUF specification and ggml's block definitions and `dequantize_row_*` (read as facts).

mod head;
mod quantise;
mod random;
mod unpack;

pub(in crate::device) use head::quantise_head;
pub use quantise::quantise;
pub use random::{RandomBits, random_weights};
pub(in crate::device) use unpack::scale_min_k;
pub use unpack::{Columns32, dequantise, dequantise_row, unpack32};

#[cfg(test)]
mod tests;
