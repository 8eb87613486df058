//! Measurements: readers of data sets, metrics, runs and reports.
//!
//! # Place
//! Uses everything below; nothing that the product needs is here.

pub mod completion;
pub mod guided;
