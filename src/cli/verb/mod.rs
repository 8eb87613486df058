//! One file for each verb: its arguments, what it runs, what it prints.
//!
//! # Place
//! Part of `cli`. Verbs share arguments and printing through `cli`, never through each other.

pub(super) mod adapters;
pub(super) mod augment;
pub(super) mod bench;
pub(super) mod candidates;
pub(super) mod check;
pub(super) mod complete;
pub(super) mod definition;
pub(super) mod devices;
pub(super) mod generate;
pub(super) mod index;
pub(super) mod models;
pub(super) mod profile;
pub(super) mod pull;
pub(super) mod query;
pub(super) mod symbols;
pub(super) mod synth;
