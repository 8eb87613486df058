//! The backend that runs on the processor's vector instructions.
//!
//! # Place
//! Implements `device::Backend`; tested against the reference backend. `lanes` hides the instruction
//! set, `weight`, `rows` and `cache` are memory layouts, `dot`, `attention`, `rope` and `select` the
//! arithmetic, `matmul` and this file divide it between the threads of the pool.
//! # Invariants
//! - Weights are laid out once, at load, at the size they have in the file; a tied head and embedding are one copy.
//! - Every result has the same bits for any number of threads, any batch, and any instruction set.
//! - Activations that meet quantised weights are rounded to 8 bits per 32 columns.

mod attention;
mod cache;
mod codes;
mod dot;
mod finish;
mod lanes;
mod low_rank;
mod machine;
mod matmul;
mod memory;
mod rope;
mod rows;
mod select;
mod weight;

mod backend;

pub use backend::CpuBackend;
pub use lanes::Isa;

#[cfg(test)]
mod tests;
