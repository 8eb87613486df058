//! Manifests: what a model is and where it comes from.
//!
//! # Place
//! Part of the model store; the texts are `models/*.toml`, compiled in.

use std::sync::LazyLock;

use serde::Deserialize;

/// A model that is known by name.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub name: String,
    pub description: String,
    /// An SPDX expression.
    pub license: String,
    /// Whether the model was tuned to follow instructions in its chat template.
    pub chat: bool,
    /// The token with which a fine-tuned model asks for candidates.
    pub trigger: Option<String>,
    pub source: Source,
}

/// Where a model comes from.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Source {
    /// A file inside a wheel.
    Pypi(PypiSource),
    /// A repository of the Hugging Face hub.
    Hf {
        repo: String,
        /// A commit, so that the name always means the same weights.
        revision: String,
    },
}

/// A file inside a wheel of the Python package index.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct PypiSource {
    pub package: String,
    pub version: String,
    /// Path inside the wheel.
    pub member: String,
    pub bytes: u64,
    /// 64 lower-case hexadecimal digits.
    pub sha256: String,
}

impl PypiSource {
    /// The member's own name.
    pub(super) fn file_name(&self) -> &str {
        self.member.rsplit('/').next().unwrap_or(&self.member)
    }
}

/// File name and text of every manifest.
const TEXTS: [(&str, &str); 1] = [("smollm2.toml", include_str!("../../../models/smollm2.toml"))];

static KNOWN: LazyLock<Vec<Manifest>> = LazyLock::new(|| {
    let parse = |(file, text): &(&str, &str)| {
        toml::from_str(text).unwrap_or_else(|e| panic!("models/{file}, compiled in: {e}"))
    };
    TEXTS.iter().map(parse).collect()
});

/// Every model that is known by name.
pub(super) fn known() -> &'static [Manifest] {
    &KNOWN
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_manifest_is_compiled_in_and_says_what_it_should() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("models");
        let on_disk: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".toml"))
            .collect();
        let compiled: BTreeSet<String> = TEXTS.iter().map(|(file, _)| (*file).to_owned()).collect();
        assert_eq!(on_disk, compiled);
        for (manifest, (file, _)) in known().iter().zip(TEXTS) {
            assert_eq!(format!("{}.toml", manifest.name), file);
            match &manifest.source {
                Source::Pypi(source) => {
                    assert_eq!(source.sha256.len(), 64, "{file}");
                    assert!(source.bytes > 0 && source.file_name().ends_with(".gguf"), "{file}");
                }
                Source::Hf { revision, .. } => assert_eq!(revision.len(), 40, "{file}"),
            }
        }
    }

    #[test]
    fn a_field_that_is_misspelled_or_missing_is_refused() {
        let text = TEXTS[0].1;
        assert!(toml::from_str::<Manifest>(text).is_ok());
        for bad in [
            text.replace("license", "licence"),
            text.replace("chat = true\n", ""),
            text.replace("member", "file"),
            text.replace("\"pypi\"", "\"ftp\""),
        ] {
            assert!(toml::from_str::<Manifest>(&bad).is_err(), "{bad}");
        }
    }
}
