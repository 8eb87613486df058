//! Adapters against what peft computes, and files that are wrong.
//!
//! # Place
//! Tests of `model::adapter`. Data: `tests/data/adapters`, made by `scripts/golden/adapters.py`.

mod golden;
mod wrong;
