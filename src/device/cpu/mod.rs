//! Backends that run on the processor: the plain reference and the SIMD one.
//!
//! # Place
//! Part of `device`. [`CpuBackend`] is what users run, [`ReferenceBackend`] what it is tested against;
//! `quant` reads the block formats for both. Does not know models, tokens or requests.

mod pool;
pub mod quant;
mod reference;
mod simd;
pub(super) mod source;

pub use reference::ReferenceBackend;
pub use simd::{CpuBackend, Isa};
