//! Paged key/value bookkeeping: which block of the device's store holds which tokens of which sequence.
//!
//! # Place
//! Uses `base`. Used by `engine`, which allocates, and `model`, which hands block tables to the device.
//! Pure: it moves numbers, the memory behind a block belongs to `device`.
//! # Invariants
//! - A block with no references is in the free list exactly once; a block in a table has one
//!   reference for every table that holds it.
//! - A table only ever writes to blocks that it alone holds ([`BlockTable::make_writable`]).
//! # Sources
//! PagedAttention: Kwon et al. 2023, arXiv:2309.06180.

mod pool;
mod table;

pub use pool::{BlockPool, KvError};
pub use table::BlockTable;
