//! Words that every other folder shares: ids, element types, text positions, limits, and the ports
//! through which siblings meet without knowing each other.
//!
//! # Place
//! Uses nothing. Used by every folder. Does not know tensors, JSON, threads or the operating system.

mod dtype;
mod id;
pub mod limit;
mod port;
mod text;

pub use dtype::DType;
pub use id::{SeqId, TokenId};
pub use port::{
    Answer, Candidate, CandidateKind, CandidateSource, Candidates, DefinitionSite, NameRole,
    Origin, Query,
};
pub use text::{LineCol, LineIndex, PositionError};
