//! Guided decoding measured: real functions written under several settings, and real member accesses
//! predicted from the text before them.
//!
//! # Place
//! Part of `bench`. Uses `runtime` for everything that is measured; positions and projects are those of
//! `bench::completion`.
//! # Invariants
//! - All settings see the same functions, one after the other within a function, in an order that
//!   rotates from function to function: noise of the machine falls on all of them.
//! - Every sample is kept.

mod accuracy;
mod error;
mod functions;
mod report;
mod run;

pub use accuracy::Access;
pub use error::GuidedBenchError;
pub use functions::Sample;
pub use report::{MemberRow, WritingRow};
pub use run::{GuidedRun, PeerTask, Plan};
