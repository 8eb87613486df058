//! The environment variables that the program reads, all of them.
//!
//! # Place
//! Part of `cli`; everything below gets typed configuration.

use std::path::PathBuf;

/// What the environment says.
#[derive(Clone, Debug, Default)]
pub(super) struct Environment {
    /// `TETHER_HOME`: where models are kept instead of the platform's cache folder.
    pub(super) home: Option<PathBuf>,
    /// `TETHER_PYTHON`: the interpreter for fetching packages and for looking up installed modules.
    pub(super) python: Option<PathBuf>,
}

impl Environment {
    pub(super) fn read() -> Self {
        let path = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        Self { home: path("TETHER_HOME"), python: path("TETHER_PYTHON") }
    }
}
