//! From a server's completion items to candidates.
//!
//! # Place
//! Part of `complete::lsp`. Pure: text in, names out.
//! # Sources
//! Language Server Protocol 3.17, "Completion Request" (read 2025-11).

use std::fmt;

use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use unicode_normalization::UnicodeNormalization;

use super::super::cursor::{Typed, is_name, is_name_char};
use super::encoding::{Encoding, Position};
use crate::base::limit::{CANDIDATE_BYTES_MAX, CANDIDATES_MAX};
use crate::base::{Candidate, CandidateKind, LineIndex, Origin};

/// The answer to a completion request: `null`, a list of items, or an object with them.
#[derive(Debug, Default)]
pub(super) struct Completions {
    pub items: Vec<Item>,
    /// The server says itself that there are more.
    pub is_incomplete: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Item {
    label: String,
    kind: Option<u32>,
    insert_text: Option<String>,
    insert_text_format: Option<u32>,
    text_edit: Option<TextEdit>,
    /// Edits elsewhere in the file: an import that the name needs.
    additional_text_edits: Option<Vec<IgnoredAny>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TextEdit {
    new_text: String,
    range: Option<Range>,
    insert: Option<Range>,
}

#[derive(Debug, Deserialize)]
struct Range {
    start: Position,
}

/// The text around the cursor that items refer to.
pub(super) struct Around<'a> {
    pub text: &'a str,
    pub index: &'a LineIndex,
    pub offset: usize,
    pub typed: &'a Typed,
    pub encoding: Encoding,
    /// Python compares names in NFKC; other languages compare what is written.
    pub is_python: bool,
}

/// Names sorted, unique and beginning with what is typed, and how many items gave none.
pub(super) fn candidates(items: &[Item], around: &Around<'_>) -> (Vec<Candidate>, u64) {
    let raw = &around.text[around.typed.start_byte..around.offset];
    let prefix = if around.is_python { &around.typed.prefix } else { raw };
    let mut names: Vec<Candidate> = items
        .iter()
        .filter_map(|item| candidate(item, around))
        .filter(|c| c.name.starts_with(prefix))
        .collect();
    names.sort_by(|a, b| (&a.name, a.kind).cmp(&(&b.name, b.kind)));
    names.dedup_by(|a, b| a.name == b.name);
    names.truncate(CANDIDATES_MAX);
    let n_dropped = (items.len() - names.len()) as u64;
    (names, n_dropped)
}

fn candidate(item: &Item, around: &Around<'_>) -> Option<Candidate> {
    let kind = kind_of(item.kind)?;
    if item.additional_text_edits.as_ref().is_some_and(|e| !e.is_empty()) {
        return None;
    }
    let edited = item.text_edit.as_ref().and_then(|edit| around.whole_name(edit));
    let written = edited.or_else(|| item.insert_text.clone());
    let name = match &written {
        Some(text) if item.insert_text_format == Some(2) => first_name(&plain_part(text)),
        Some(text) => first_name(text),
        None => None,
    };
    let name = name.or_else(|| first_name(&item.label))?;
    let (name, is_keyword) = (name.0, name.1 || item.label.ends_with('='));
    let name: String = match around.is_python {
        true => name.nfkc().collect(),
        false => name,
    };
    let kind = if is_keyword { CandidateKind::Keyword } else { kind };
    (is_name(&name) && name.len() <= CANDIDATE_BYTES_MAX)
        .then(|| Candidate::new(name, kind, Origin::Unknown))
}

impl Around<'_> {
    /// The name that stands at the cursor once the edit is made, from its first character on; `None`
    /// when the edit changes what stands before the name.
    fn whole_name(&self, edit: &TextEdit) -> Option<String> {
        let range = edit.insert.as_ref().or(edit.range.as_ref())?;
        let from = self.encoding.offset(self.text, self.index, range.start)?;
        let start = self.typed.start_byte;
        if from <= start {
            let kept = edit.new_text.strip_prefix(&self.text[from..start])?;
            return Some(kept.to_owned());
        }
        let already = self.text.get(start..from).filter(|_| from <= self.offset)?;
        Some(format!("{already}{}", edit.new_text))
    }
}

/// A snippet up to its first placeholder, with escapes resolved.
fn plain_part(snippet: &str) -> String {
    let mut plain = String::new();
    let mut chars = snippet.chars();
    while let Some(c) = chars.next() {
        match c {
            '$' => break,
            '\\' => plain.extend(chars.next()),
            c => plain.push(c),
        }
    }
    plain
}

/// The name a text begins with, and whether `=` follows (a keyword argument). Text that goes on in
/// another way than a name may (`foo.bar`, `for … in`) is no name.
fn first_name(text: &str) -> Option<(String, bool)> {
    let end = text.find(|c| !is_name_char(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let goes_on_as_a_name = rest.is_empty() || rest.starts_with(['(', '=', '<', '[', '{', '!']);
    let is_keyword = rest.starts_with('=') && !rest.starts_with("==");
    (!name.is_empty() && goes_on_as_a_name).then(|| (name.to_owned(), is_keyword))
}

/// The kind of an item, or `None` for what is no name: words of the language, snippets, files.
fn kind_of(kind: Option<u32>) -> Option<CandidateKind> {
    Some(match kind {
        Some(2) => CandidateKind::Method,
        Some(3) => CandidateKind::Function,
        Some(5 | 20 | 23) => CandidateKind::Attribute,
        Some(6 | 12 | 21 | 25) => CandidateKind::Variable,
        Some(4 | 7 | 8 | 13 | 22) => CandidateKind::Class,
        Some(9) => CandidateKind::Module,
        Some(10) => CandidateKind::Property,
        // Text, unit, keyword, snippet, colour, file, folder, operator.
        Some(1 | 11 | 14 | 15 | 16 | 17 | 19 | 24) => return None,
        _ => CandidateKind::Unknown,
    })
}

impl<'de> Deserialize<'de> for Completions {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(CompletionsVisitor)
    }
}

struct CompletionsVisitor;

impl<'de> Visitor<'de> for CompletionsVisitor {
    type Value = Completions;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("null, a list of completion items, or an object with `items`")
    }

    fn visit_unit<E>(self) -> Result<Completions, E> {
        Ok(Completions::default())
    }

    /// Past the limit items are read over, so that a long list costs no memory.
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Completions, A::Error> {
        let mut completions = Completions::default();
        while completions.items.len() < CANDIDATES_MAX {
            match seq.next_element()? {
                Some(item) => completions.items.push(item),
                None => return Ok(completions),
            }
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {
            completions.is_incomplete = true;
        }
        Ok(completions)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Completions, A::Error> {
        let mut completions = Completions::default();
        let mut is_incomplete = false;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "items" => completions = map.next_value()?,
                "isIncomplete" => is_incomplete = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        completions.is_incomplete |= is_incomplete;
        Ok(completions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::complete::cursor::typed;

    /// The names that `items` give at the `|` of a text, as `name:kind`.
    #[track_caller]
    fn check(marked: &str, items: &str, expected: &[&str]) {
        let offset = marked.find('|').expect("a cursor");
        let text = marked.replacen('|', "", 1);
        let completions: Completions = serde_json::from_str(items).expect("completions");
        let around = Around {
            text: &text,
            index: &LineIndex::new(&text),
            offset,
            typed: &typed(&text, offset).expect("a position"),
            encoding: Encoding::Utf16,
            is_python: !marked.contains("//js"),
        };
        let (names, n_dropped) = candidates(&completions.items, &around);
        let got: Vec<String> =
            names.iter().map(|c| format!("{}:{}", c.name, c.kind.as_str())).collect();
        assert_eq!(got, expected);
        assert_eq!(n_dropped as usize, completions.items.len() - names.len());
    }

    #[test]
    fn names_come_from_the_edit_the_inserted_text_or_the_label() {
        let edit = r#"{"range":{"start":{"line":0,"character":2},"end":{"line":0,"character":3}},"newText":"append"}"#;
        check(
            "x.a|",
            &format!(r#"[{{"label":"zzz","kind":2,"textEdit":{edit}}}]"#),
            &["append:method"],
        );
        check("x.a|", r#"[{"label":"zzz","kind":2,"insertText":"append"}]"#, &["append:method"]);
        check("x.a|", r#"[{"label":"append(object)","kind":2}]"#, &["append:method"]);
        check("x.a|", r#"{"isIncomplete":true,"items":[{"label":"append"}]}"#, &["append:unknown"]);
        check("x.a|", "null", &[]);
    }

    #[test]
    fn edits_that_start_elsewhere_still_give_the_whole_name() {
        let item = |start: u32, new: &str| {
            format!(
                r#"[{{"label":"append","kind":2,"textEdit":{{"insert":{{"start":{{"line":0,"character":{start}}}}},"newText":"{new}"}}}}]"#
            )
        };
        check("x.app|", &item(5, "end"), &["append:method"]);
        check("x.app|", &item(1, ".append"), &["append:method"]);
        // An edit that changes the dot is judged by its label.
        check("x.app|", &item(1, "?.append"), &["append:method"]);
        check("'🦀'.app|", &item(5, "append"), &["append:method"]);
    }

    #[test]
    fn snippets_call_parentheses_and_equals_signs_are_cut() {
        check("f(|", r#"[{"label":"width=","kind":6}]"#, &["width:keyword"]);
        check(
            "x.|",
            r#"[{"label":"go","kind":2,"insertTextFormat":2,"insertText":"go(${1:a}, $2)$0"}]"#,
            &["go:method"],
        );
        check(
            "x.|",
            r#"[{"label":"go","kind":2,"insertTextFormat":2,"insertText":"go$0"}]"#,
            &["go:method"],
        );
        check(
            "//js\n|",
            r#"[{"label":"$el","kind":6,"insertTextFormat":2,"insertText":"\\$el"}]"#,
            &["$el:variable"],
        );
        check("|", r#"[{"label":"println!(…)","kind":3}]"#, &["println:function"]);
    }

    #[test]
    fn what_is_no_name_is_dropped() {
        check(
            "|",
            r#"[{"label":"while","kind":14},{"label":"main","kind":15},{"label":"word","kind":1},
            {"label":"src","kind":19},{"label":"a b"},{"label":"os.path","kind":9},{"label":"1x"},{"label":""}]"#,
            &[],
        );
        let import =
            r#"[{"label":"Path","kind":7,"additionalTextEdits":[{"newText":"import pathlib\n"}]}]"#;
        check("Pa|", import, &[]);
    }

    #[test]
    fn names_are_exact_in_case_sorted_unique_and_normalised() {
        check(
            "x.sha|",
            r#"[{"label":"share"},{"label":"Shade"},{"label":"shard"},{"label":"shard","kind":2}]"#,
            &["shard:method", "share:unknown"],
        );
        check("x.|", "[{\"label\":\"\u{fb01}eld\",\"kind\":5}]", &["field:attribute"]);
        check("//js\nx.|", "[{\"label\":\"\u{fb01}eld\",\"kind\":5}]", &["\u{fb01}eld:attribute"]);
    }

    #[test]
    fn a_list_without_end_is_cut_and_called_incomplete() {
        let n = CANDIDATES_MAX + 10;
        let items = format!("[{}]", vec![r#"{"label":"a"}"#; n].join(","));
        let completions: Completions = serde_json::from_str(&items).expect("completions");
        assert_eq!(completions.items.len(), CANDIDATES_MAX);
        assert!(completions.is_incomplete);
    }

    #[test]
    fn another_shape_is_an_error() {
        for shape in ["7", "\"x\"", r#"[{"kind":2}]"#, r#"{"items":7}"#, "[[]]"] {
            assert!(serde_json::from_str::<Completions>(shape).is_err(), "{shape}");
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_a_server_offers_candidates_are_names_that_begin_with_what_is_typed(
            text in "[ab.é🦀 ]{0,8}",
            cut in 0_usize..16,
            label in "[ab.=($é🦀 ]{0,8}",
            inserted in "[ab.=(${}\\\\é🦀 ]{0,8}",
            at in 0_u32..8,
            format in 0_u32..3,
        ) {
            let Some(typed) = typed(&text, cut) else { return Ok(()) };
            let item: Item = serde_json::from_value(serde_json::json!({
                "label": label,
                "insertTextFormat": format,
                "textEdit": {"newText": inserted, "range": {"start": {"line": 0, "character": at}}},
            }))
            .expect("an item");
            let around = Around {
                text: &text,
                index: &LineIndex::new(&text),
                offset: cut,
                typed: &typed,
                encoding: Encoding::Utf16,
                is_python: true,
            };
            for candidate in candidates(&[item], &around).0 {
                proptest::prop_assert!(is_name(&candidate.name));
                proptest::prop_assert!(candidate.name.starts_with(&typed.prefix));
            }
        }
    }
}
