//! The folder of a run: whose it is, and that nothing of somebody else's is written over.
//!
//! # Place
//! Part of `augment`.

use super::publish::write_json;
use super::shard::write_error;
use super::split::SplitConfig;
use super::{AugmentConfig, AugmentError};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

const RUN: &str = "run.json";

/// Make `dir` the folder of a run with these settings. A folder of the same run is gone on with.
///
/// # Errors
/// Folders with other files, or with data that was made otherwise (unless `force`d); triggers that cannot be
/// told from code.
pub fn claim(
    dir: &Path,
    config: &AugmentConfig,
    split: &SplitConfig,
    repos: &[PathBuf],
    force: bool,
) -> Result<(), AugmentError> {
    check_trigger(&config.trigger)?;
    let repos: Vec<String> = repos
        .iter()
        .map(|r| r.canonicalize().unwrap_or_else(|_| r.clone()).display().to_string())
        .collect();
    let settings = json!({ "settings": config, "split": split, "repos": repos });
    let path = dir.join(RUN);
    if let Ok(text) = fs::read_to_string(&path) {
        let before: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        match difference(&before, &settings) {
            Some(what) if !force => {
                return Err(AugmentError::OtherSettings { path: dir.to_owned(), what });
            }
            _ => {}
        }
    } else if fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(AugmentError::ForeignFolder { path: dir.to_owned() });
    }
    fs::create_dir_all(dir).map_err(|e| write_error(dir, e))?;
    write_json(&path, &settings)
}

/// The first setting that differs, with both values.
fn difference(before: &Value, now: &Value) -> Option<String> {
    for part in ["settings", "split", "repos"] {
        let (old, new) = (&before[part], &now[part]);
        if let (Value::Object(_), Value::Object(new)) = (old, new) {
            let changed = new.iter().find(|(key, value)| old.get(key) != Some(value));
            if let Some((key, value)) = changed {
                let old = old.get(key).unwrap_or(&Value::Null);
                return Some(format!("{key} was {old} and is {value}"));
            }
        } else if old != new {
            return Some(format!("other {part}"));
        }
    }
    None
}

fn check_trigger(trigger: &str) -> Result<(), AugmentError> {
    let bad = |reason| Err(AugmentError::BadTrigger { trigger: trigger.to_owned(), reason });
    if trigger.trim().is_empty() {
        return bad("is empty; expected a text such as <COMP>");
    }
    if trigger.contains(char::is_whitespace) {
        return bad("has white space in it; expected a text such as <COMP>");
    }
    let is_word = |c: char| c == '_' || c.is_alphanumeric();
    if trigger.starts_with(is_word) || trigger.ends_with(is_word) {
        return bad("would run into the name behind it; expected a text such as <COMP>");
    }
    Ok(())
}
