//! The arguments that say which adapters a model runs with.
//!
//! # Place
//! Part of `cli`; shared by the verbs that run a model.

use super::env::Environment;
use crate::runtime::{AdapterPlan, AdapterUse, Model, OpenAdapter};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Which adapters, and how they are put to use.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Adapters")]
pub(super) struct AdapterArgs {
    /// A LoRA adapter: a name from `tether adapters`, a folder that peft saved, or a GGUF file. Its terms are
    /// multiplied with SCALE. Several are added together, with --merge.
    #[arg(long, value_name = "[NAME=]ADAPTER[:SCALE]")]
    adapter: Vec<AdapterSpec>,
    /// Merge the adapters into the weights while loading, instead of computing them beside each product.
    #[arg(long, requires = "adapter")]
    merge: bool,
    /// Take an adapter whose manifest names other weights than these.
    #[arg(long, requires = "adapter")]
    adapter_force: bool,
}

/// `[NAME=]ADAPTER[:SCALE]`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AdapterSpec {
    name: Option<String>,
    place: String,
    scale: f32,
}

impl FromStr for AdapterSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let whole = |place: &str| Self { name: None, place: place.to_owned(), scale: 1.0 };
        if text.is_empty() {
            return Err("a name or a path was expected".to_owned());
        }
        if Path::new(text).exists() {
            return Ok(whole(text));
        }
        let (name, rest) = match text.split_once('=') {
            Some((name, rest)) if !name.is_empty() && !name.contains(['/', '\\']) => {
                (Some(name.to_owned()), rest)
            }
            _ => (None, text),
        };
        let (place, scale) = match rest.rsplit_once(':').map(|(p, s)| (p, s.parse::<f32>())) {
            Some((place, Ok(scale))) if !Path::new(rest).exists() => (place, scale),
            _ => (rest, 1.0),
        };
        if place.is_empty() {
            return Err(format!("'{text}' names no adapter; expected [NAME=]ADAPTER[:SCALE]"));
        }
        if !scale.is_finite() {
            return Err(format!("'{text}' has the scale {scale}; a number was expected"));
        }
        Ok(Self { name, place: place.to_owned(), scale })
    }
}

impl AdapterSpec {
    /// Its name, and where it is.
    pub(super) fn find(&self, env: &Environment) -> anyhow::Result<(String, PathBuf)> {
        let (found, path) = env.adapters()?.find(&self.place)?;
        Ok((self.name.clone().unwrap_or(found), path))
    }

    /// Find and read it.
    fn open(&self, env: &Environment) -> anyhow::Result<OpenAdapter> {
        let (name, path) = self.find(env)?;
        Ok(OpenAdapter::open(&name, &path)?.scaled(self.scale)?)
    }
}

impl AdapterArgs {
    /// Read the adapters.
    pub(super) fn open(&self, env: &Environment) -> anyhow::Result<Vec<OpenAdapter>> {
        let adapters: Vec<OpenAdapter> =
            self.adapter.iter().map(|spec| spec.open(env)).collect::<anyhow::Result<_>>()?;
        anyhow::ensure!(
            adapters.len() < 2 || self.merge,
            "a text is written with one adapter; add several together with --merge"
        );
        Ok(adapters)
    }

    /// What to do with them.
    pub(super) fn plan<'a>(&self, adapters: &'a [OpenAdapter]) -> AdapterPlan<'a> {
        let usage = if self.merge { AdapterUse::Merged } else { AdapterUse::PerRequest };
        AdapterPlan { adapters, usage, is_forced: self.adapter_force }
    }

    /// Let every text be written with the adapter that was loaded beside the weights.
    pub(super) fn apply(&self, model: &mut Model) -> anyhow::Result<()> {
        if self.merge {
            return Ok(());
        }
        let name = model.adapters().next().map(|a| a.name().to_owned());
        if let Some(name) = name {
            let id = model.adapter(&name)?;
            model.use_adapter(Some(id));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, name: Option<&str>, place: &str, scale: f32) {
        let spec: AdapterSpec = text.parse().unwrap();
        let expected =
            AdapterSpec { name: name.map(str::to_owned), place: place.to_owned(), scale };
        assert_eq!(spec, expected, "{text}");
    }

    #[test]
    fn specs_have_an_optional_name_and_scale() {
        check("smollm2-toolgen", None, "smollm2-toolgen", 1.0);
        check("smollm2-toolgen:0.5", None, "smollm2-toolgen", 0.5);
        check("a=out/x:-2", Some("a"), "out/x", -2.0);
        check("out/a=b", None, "out/a=b", 1.0);
        check("C:\\adapters\\x", None, "C:\\adapters\\x", 1.0);
        for bad in ["", "a=", "x:inf", ":2"] {
            assert!(bad.parse::<AdapterSpec>().is_err(), "{bad}");
        }
    }
}
