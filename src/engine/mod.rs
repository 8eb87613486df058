//! The inference engine: sequences in, events out, one step at a time.
//!
//! # Place
//! Uses `base`, `device`, `kv`, `model`, `constrain` and `tokenizer` (bytes of tokens). Used by
//! `runtime`. Knows no repository, no completion tool, no file and no JSON: a sequence that needs
//! names emits [`Event::Ask`] and waits for [`Engine::supply`] while the others go on.
//! # Invariants
//! - A sequence's tokens do not depend on which other sequences run beside it.
//! - A step never waits for a tool. A failure inside one request ends that request only.
//! - A finished or cancelled sequence holds no cache blocks after the call that ended it.

mod choose;
mod draft;
mod error;
mod logprobs;
mod params;
mod policy;
mod sampler;
mod score;
mod sequence;
mod step;
mod stop;

#[cfg(test)]
mod tests;

pub use error::EngineError;
pub use logprobs::{TokenLogprobs, TopToken};
pub use params::SamplingParams;
pub use policy::Selection;
pub use score::Scored;
pub use sequence::{FinishReason, Request};
pub use step::{Encode, Engine, EngineConfig, Event, Progress, StepTimes};
pub use stop::StopRule;
