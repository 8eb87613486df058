//! Which documents a server has open, and in which version.
//!
//! # Place
//! Part of `complete::lsp`. Pure: says which notifications bring the server up to date.
//! # Invariants
//! What the server holds of a document is exactly the text of the last question about it: an answer
//! never comes from an older one. At most [`LSP_DOCUMENTS_MAX`] are open.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::language::language_id;
use super::wire::uri;
use crate::base::limit::LSP_DOCUMENTS_MAX;

struct Document {
    path: PathBuf,
    version: u32,
    text_hash: u64,
}

/// The open documents, the least recently used first.
#[derive(Default)]
pub(super) struct Documents(Vec<Document>);

impl Documents {
    /// The notifications (method and parameters) after which the server has `text` for `path`.
    pub(super) fn show(&mut self, path: &Path, text: &str) -> Vec<(&'static str, Value)> {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let text_hash = hasher.finish();
        let mut told = Vec::new();
        if let Some(i) = self.0.iter().position(|d| d.path == path) {
            let mut document = self.0.remove(i);
            if document.text_hash != text_hash {
                document.version += 1;
                document.text_hash = text_hash;
                let id = json!({"uri": uri(path), "version": document.version});
                let params = json!({"textDocument": id, "contentChanges": [{"text": text}]});
                told.push(("textDocument/didChange", params));
            }
            self.0.push(document);
            return told;
        }
        if self.0.len() >= LSP_DOCUMENTS_MAX {
            let oldest = self.0.remove(0);
            let params = json!({"textDocument": {"uri": uri(&oldest.path)}});
            told.push(("textDocument/didClose", params));
        }
        let document = Document { path: path.to_owned(), version: 1, text_hash };
        let item = json!({"uri": uri(path), "languageId": language_id(path), "version": document.version, "text": text});
        told.push(("textDocument/didOpen", json!({"textDocument": item})));
        self.0.push(document);
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(documents: &mut Documents, path: &str, text: &str, expected: &[&str]) {
        let told = documents.show(Path::new(path), text);
        let methods: Vec<&str> = told.iter().map(|(method, _)| *method).collect();
        assert_eq!(methods, expected);
        for (_, params) in told {
            let shown = params["textDocument"]["text"].as_str();
            let changed = params["contentChanges"][0]["text"].as_str();
            assert!(shown.or(changed).is_none_or(|t| t == text));
        }
    }

    #[test]
    fn a_document_is_opened_once_and_changed_only_when_it_changed() {
        let documents = &mut Documents::default();
        check(documents, "/a.py", "1", &["textDocument/didOpen"]);
        check(documents, "/a.py", "1", &[]);
        check(documents, "/a.py", "2", &["textDocument/didChange"]);
        check(documents, "/b.py", "2", &["textDocument/didOpen"]);
        check(documents, "/a.py", "1", &["textDocument/didChange"]);
        assert_eq!(documents.0[1].version, 3);
    }

    #[test]
    fn the_least_recently_used_document_is_closed_when_there_are_too_many() {
        let documents = &mut Documents::default();
        for i in 0..LSP_DOCUMENTS_MAX {
            check(documents, &format!("/{i}.py"), "", &["textDocument/didOpen"]);
        }
        check(documents, "/0.py", "", &[]);
        check(documents, "/new.py", "", &["textDocument/didClose", "textDocument/didOpen"]);
        check(documents, "/0.py", "", &[]);
        check(documents, "/1.py", "", &["textDocument/didClose", "textDocument/didOpen"]);
    }
}
