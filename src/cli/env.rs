//! The environment variables that the program reads, all of them.
//!
//! # Place
//! Part of `cli`; everything below gets typed configuration.

use crate::runtime::{AdapterShelf, Store, StoreConfig, StoreError};
use std::path::PathBuf;

/// What the environment says.
#[derive(Clone, Debug, Default)]
pub(super) struct Environment {
    /// `TETHER_HOME`: where models are kept instead of the platform's cache folder.
    pub(super) home: Option<PathBuf>,
    /// `TETHER_PYTHON`: the interpreter for fetching packages and for looking up installed modules.
    pub(super) python: Option<PathBuf>,
    /// `HF_ENDPOINT`: another hub than the public one.
    hub_endpoint: Option<String>,
    /// `HF_HOME`: where the hub's own tools keep files.
    hub_home: Option<PathBuf>,
    /// `HF_TOKEN`: for models that not everybody may see.
    hub_token: Option<String>,
    /// Where this program is.
    program: Option<PathBuf>,
}

impl Environment {
    pub(super) fn read() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
        let path = |name: &str| set(name).map(PathBuf::from);
        let text = |name: &str| set(name).and_then(|v| v.into_string().ok());
        Self {
            home: path("TETHER_HOME"),
            python: path("TETHER_PYTHON"),
            hub_endpoint: text("HF_ENDPOINT"),
            hub_home: path("HF_HOME"),
            hub_token: text("HF_TOKEN"),
            program: std::env::current_exe().ok(),
        }
    }

    /// Where adapters are found by name: beside the models, then `models/adapters` of the folder that the
    /// command runs in, then `adapters` or `models/adapters` around the program.
    pub(super) fn adapters(&self) -> Result<AdapterShelf, StoreError> {
        /// Folders above the program that are looked at: `target/release` of a clone is two below it.
        const ABOVE_MAX: usize = 4;
        let mut folders = vec![self.store(None)?.home().join("adapters")];
        folders.push(PathBuf::from("models/adapters"));
        let above = self.program.iter().flat_map(|p| p.ancestors().skip(1).take(ABOVE_MAX));
        for folder in above {
            folders.push(folder.join("adapters"));
            folders.push(folder.join("models/adapters"));
            folders.push(folder.join("share/tether/adapters"));
        }
        Ok(AdapterShelf { folders })
    }

    /// The models of this machine. `python` is what the command line says.
    pub(super) fn store(&self, python: Option<PathBuf>) -> Result<Store, StoreError> {
        Store::new(StoreConfig {
            home: self.home.clone(),
            python: python.or_else(|| self.python.clone()),
            hub_endpoint: self.hub_endpoint.clone(),
            hub_cache: self.hub_home.as_ref().map(|home| home.join("hub")),
            hub_token: self.hub_token.clone(),
        })
    }
}
