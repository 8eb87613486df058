//! The functions of a project, file by file, with LF line ends.
//!
//! # Place
//! Part of `augment`; reads `repo`.

use crate::base::{LineCol, LineIndex};
use crate::repo::{FunctionInfo, Snapshot, first_syntax_error};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A function and where its parts are, in the text with LF line ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) at: LineCol,
    /// From `def` (or `async`) to after the last statement.
    pub(super) range: Range<usize>,
    /// Bytes from the start up to and with the header's colon.
    pub(super) header_len: usize,
    /// From the start of the function.
    pub(super) docstring: Option<Range<usize>>,
    pub(super) is_async: bool,
}

/// A file of the project.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) path: Arc<Path>,
    pub(super) infos: Vec<FunctionInfo>,
}

/// Files with functions, by path.
pub(super) fn sources(snapshot: &Snapshot) -> Vec<Source> {
    let mut files: BTreeMap<Arc<Path>, Vec<FunctionInfo>> = BTreeMap::new();
    for info in snapshot.functions() {
        files.entry(Arc::clone(&info.path)).or_default().push(info);
    }
    files
        .into_iter()
        .map(|(path, mut infos)| {
            infos.sort_by_key(|i| i.header.start);
            Source { path, infos }
        })
        .collect()
}

/// Why a file is left out as a whole, if so.
pub(super) fn refuse_file(text: &str, lines_max: usize) -> Option<&'static str> {
    if text.split('\n').count() > lines_max {
        return Some("file_too_long");
    }
    first_syntax_error(text).map(|_| "file_does_not_parse")
}

/// A text with LF line ends.
pub(super) fn with_line_feeds(text: &str) -> Cow<'_, str> {
    if text.contains('\r') {
        text.replace("\r\n", "\n").replace('\r', "\n").into()
    } else {
        text.into()
    }
}

/// Where a function is after the line ends of `original` became those of `text`.
pub(super) fn found(info: &FunctionInfo, original: &str, text: &str, index: &LineIndex) -> Found {
    let has_moved = original.len() != text.len();
    let moved = |offset: usize| {
        let dropped = if has_moved { original[..offset].matches("\r\n").count() } else { 0 };
        offset - dropped
    };
    let end = info.body.end.max(info.header.end).max(info.docstring.as_ref().map_or(0, |d| d.end));
    let start = moved(info.header.start);
    let range = start..start + text[start..moved(end)].trim_end_matches('\n').len();
    let name = info.symbol.rsplit(['.', ':']).next().unwrap_or_default();
    Found {
        name: name.to_owned(),
        at: index.position(text, start),
        header_len: moved(info.header.end) - start,
        docstring: info.docstring.as_ref().map(|d| moved(d.start) - start..moved(d.end) - start),
        is_async: info.is_async,
        range,
    }
}
