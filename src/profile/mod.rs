//! Latency measurement: prefill and decode rates, time to first token, and where the time goes.
//!
//! # Place
//! Uses `engine` and `runtime`. Used by `bench` and `cli`.
//! # Invariants
//! - Only generated tokens count in the decode rate, only prompt tokens in the prefill rate, and a
//!   rate over fewer than two tokens is absent rather than infinite.
//! - A warm-up of the same shape runs first and is reported apart as the cold start.
//! - Every sample is kept.
//! - Kernels are timed in a repetition of their own: timing makes them wait for each other.
//! # Shapes and units
//! Milliseconds and tokens per second; medians of the samples.

mod kernels;
mod run;
mod sample;
mod trace;

pub use kernels::{KernelSum, by_kernel};
pub use run::{ProfileConfig, ProfileReport, StepSpan, TimeSplit, Timeline, profile};
pub use sample::Samples;
pub use trace::chrome_trace;
