//! The composition root: files and settings in, a running model out, questions answered by a tool.
//!
//! # Place
//! Uses everything below it. Used by `profile`, `bench` and `cli`. It parses no arguments and prints
//! nothing.

mod adapter;
mod ask;
mod body;
mod ceiling;
mod complete;
mod device;
mod drive;
mod error;
mod grammar;
mod lint;
mod memory;
mod model;
mod prompt;
mod store;
mod syntax;
mod synth;
mod tool;

pub use adapter::{
    AdapterBase, AdapterManifest, AdapterPlan, AdapterShelf, AdapterTrigger, AdapterUse,
    OpenAdapter, check_adapter,
};
pub use ask::ToolTimes;
pub use ceiling::{Ceilings, ceilings};
pub use complete::{CompleteConfig, Completion, GuideMode, PromptStyle, Target};
pub use device::{DeviceChoice, DeviceReport, devices};
pub use drive::{Output, Surroundings, Timings};
pub use error::RuntimeError;
pub use grammar::GrammarPool;
pub use lint::{PylintConfig, run_pylint};
pub use memory::MemoryPlan;
pub use model::{LoadConfig, Model, ModelFiles, Prompt};
pub use store::{
    Listed, Manifest, ModelLocation, PullProgress, PullStep, PypiSource, Source, State, Store,
    StoreConfig, StoreError,
};
pub use syntax::{Syntax, check_syntax};
pub use synth::{SynthShape, write_synthetic};
pub use tool::{Repository, ToolChoice};
