//! What can go wrong on a device.
//!
//! # Place
//! Part of `device`.

use crate::base::DType;

/// A device could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    #[error("the {device} backend cannot use {what} of type {dtype}; it supports {supported}")]
    UnsupportedType { device: &'static str, what: String, dtype: DType, supported: &'static str },
    #[error("the {device} backend cannot use {what}: {problem}")]
    UnsupportedShape { device: &'static str, what: String, problem: String },
    #[error("out of memory on {device}: {need_bytes} bytes needed for {what}, {free_bytes} free")]
    OutOfMemory { device: &'static str, what: String, need_bytes: u64, free_bytes: u64 },
    #[error(
        "adapters applied per request are not supported on the {device} device; merge the adapter into the weights (--merge), or use --device cpu"
    )]
    NoLowRank { device: &'static str },
    #[error("the {device} device cannot be used: {problem}")]
    Unavailable { device: &'static str, problem: String },
    #[error("the {device} device was lost: {problem}; restart to use it again")]
    Lost { device: &'static str, problem: String },
}
