//! From a function of a file to a line of the data.
//!
//! # Place
//! Part of `augment`; puts its steps in order.

use super::clean::{Cleaned, clean};
use super::example::{
    Parts, Rejection, description, header_end, marked, parts, prefix, refuse_body, refuse_code,
    refuse_description,
};
use super::insert::{Insertion, Mark, PLACEHOLDER, Place, insert};
use super::source::{Found, with_line_feeds};
use super::tally::{Difference, Tally};
use super::{AugmentConfig, Mode, Record};
use crate::base::CandidateSource;
use crate::repo::FunctionInfo;
use std::collections::BTreeMap;
use std::path::Path;

/// What a model that was fine-tuned on this data is shown of a function that has documentation: its header
/// without comments, and the first sentence of the documentation.
pub fn prompt(text: &str, function: &FunctionInfo) -> Option<String> {
    let header = with_line_feeds(text.get(function.header.clone())?);
    let docstring = text.get(function.docstring.clone()?)?;
    let description = description(&with_line_feeds(docstring), Mode::Strict);
    let header = clean(&header, None, Mode::Strict).code();
    Some(prefix(header.trim_end(), &function.indent, &description))
}

/// What stands for a literal trigger in published data.
const UNKNOWN_TOKEN: &str = "<unk>";

/// The tools that are asked.
pub(super) struct Tools {
    pub(super) first: Box<dyn CandidateSource>,
    /// Asked the same, for comparison.
    pub(super) second: Option<Box<dyn CandidateSource>>,
}

/// A file that functions are taken from.
pub(super) struct Around<'a> {
    pub(super) repo: &'a str,
    /// Absolute.
    pub(super) path: &'a Path,
    /// From the root.
    pub(super) file_path: &'a str,
    pub(super) text: &'a str,
}

/// Counts tokens of a text.
pub(super) type CountTokens<'a> = Option<&'a (dyn Fn(&str) -> usize + Sync)>;

/// A function that is looked at.
struct Subject<'a> {
    config: &'a AugmentConfig,
    around: &'a Around<'a>,
    found: &'a Found,
}

/// Make one function's record. `None`: a rule refused it, which is counted (and the record of a refused
/// function is wanted only when `keep_rejected` says so).
pub(super) fn example(
    config: &AugmentConfig,
    around: &Around<'_>,
    found: &Found,
    tools: &mut Tools,
    count: CountTokens<'_>,
    tally: &mut Tally,
) -> Option<Record> {
    let subject = Subject { config, around, found };
    let text = &around.text[found.range.clone()];
    let cleaned = clean(text, found.docstring.as_ref(), config.mode);
    let code = cleaned.code();
    let description = description(&cleaned.docstring, config.mode);
    tally.functions_found += 1;
    let early = subject.refuse_unasked(&cleaned, &code, &description, count);
    // Whether the published augmentation has it at all, or only the data set made from it.
    let is_augmented = early.is_none_or(|why| config.keep_rejected && is_for_the_builder(why));
    if !is_augmented {
        tally.refuse(early?);
        return None;
    }
    let insertion = subject.ask(&cleaned, tools, tally);
    let header = header_end(&cleaned, &found.name, found.header_len, config.mode);
    let outcome = match (early, header) {
        (Some(why), _) => Err(why),
        (None, None) => Err(Rejection::NoSignature),
        (None, Some(end)) => subject.parts(&code, &insertion.marks, end, &description),
    };
    let mut record = subject.record(&cleaned, &code, &insertion);
    match outcome {
        Ok(parts) => {
            tally.keep(parts.n_triggers, &code, count);
            record.description = match config.mode {
                Mode::Compat => description.replace(&config.trigger, UNKNOWN_TOKEN),
                Mode::Strict => description,
            };
            record.fill(parts);
            Some(record)
        }
        Err(why) => {
            tally.refuse(why);
            record.rejected = Some(why);
            config.keep_rejected.then_some(record)
        }
    }
}

/// Rules of the published dataset builder, which runs after the augmentation.
fn is_for_the_builder(why: Rejection) -> bool {
    use Rejection as R;
    !matches!(why, R::Async | R::NoDocstring | R::TooManyLines | R::TooManyItems | R::TooManyTokens)
}

/// An example's parts, with and without triggers.
struct Both {
    plain: Parts,
    augmented: Parts,
    /// In the body.
    n_triggers: usize,
}

impl Subject<'_> {
    fn refuse_unasked(
        &self,
        cleaned: &Cleaned<'_>,
        code: &str,
        description: &str,
        count: CountTokens<'_>,
    ) -> Option<Rejection> {
        let config = self.config;
        if self.found.is_async && config.mode == Mode::Compat {
            return Some(Rejection::Async);
        }
        let is_quote = |c: char| c == '"' || c == '\'' || c.is_whitespace();
        if cleaned.docstring.trim_matches(is_quote).is_empty() {
            return Some(Rejection::NoDocstring);
        }
        if code.split('\n').count() > config.function_lines_max {
            return Some(Rejection::TooManyLines);
        }
        if cleaned.pieces.len() > config.items_max {
            return Some(Rejection::TooManyItems);
        }
        if let (Some(max), Some(count)) = (config.tokens_max, count)
            && count(code) > max
        {
            return Some(Rejection::TooManyTokens);
        }
        refuse_description(description).or_else(|| refuse_code(code)).or_else(|| {
            let is_strict = config.mode == Mode::Strict;
            let trigger = &config.trigger;
            let is_in_source = code.contains(trigger) || description.contains(trigger);
            if is_strict && is_in_source {
                return Some(Rejection::TriggerInSource);
            }
            (is_strict && self.shares_line()).then_some(Rejection::SharedLine)
        })
    }

    /// Does code go on behind the documentation?
    fn shares_line(&self) -> bool {
        let text = &self.around.text[self.found.range.clone()];
        self.found.docstring.as_ref().is_some_and(|d| {
            let rest = text[d.end..].lines().next().unwrap_or_default().trim_start();
            !rest.is_empty() && !rest.starts_with('#')
        })
    }

    fn place(&self) -> Place<'_> {
        Place {
            path: self.around.path,
            text: self.around.text,
            range: self.found.range.clone(),
            at: self.found.at,
            header_len: self.found.header_len,
        }
    }

    fn ask(&self, cleaned: &Cleaned<'_>, tools: &mut Tools, tally: &mut Tally) -> Insertion {
        let config = self.config;
        let place = self.place();
        let ask = |tool: &mut dyn CandidateSource| {
            insert(&place, cleaned, config.mode, tool, config.call_ms_max)
        };
        let insertion = ask(tools.first.as_mut());
        for asked in &insertion.asked {
            tally.ask(asked.answer, asked.is_known);
        }
        if let Some(second) = &mut tools.second {
            let other = ask(second.as_mut());
            let code = cleaned.code();
            for (first, second) in insertion.asked.iter().zip(&other.asked) {
                let difference =
                    Difference::between(self.around, &self.found.name, &code, first, second);
                tally.compare(first.is_known, second.is_known, difference);
            }
        }
        insertion
    }

    /// The example with and without triggers, or the rule that refuses it.
    fn parts(
        &self,
        code: &str,
        marks: &[Mark],
        header_end: usize,
        description: &str,
    ) -> Result<Both, Rejection> {
        let config = self.config;
        let (in_header, in_body): (Vec<&Mark>, Vec<&Mark>) =
            marks.iter().partition(|m| m.offset < header_end);
        // The published search for the header in the augmented code fails on a marked name.
        let name_is_marked =
            in_header.first().is_some_and(|m| m.word == self.found.name && m.offset == 4);
        if config.mode == Mode::Compat && name_is_marked {
            return Err(Rejection::NoSignature);
        }
        let mut plain = parts(code, header_end, description, config.mode);
        if let Some(why) = refuse_body(&plain.body) {
            return Err(why);
        }
        let shifted: Vec<Mark> = in_body
            .into_iter()
            .map(|m| Mark { offset: m.offset - header_end, ..m.clone() })
            .collect();
        let n_triggers = shifted.len();
        let rest = &code[header_end..];
        let rest = match config.mode {
            Mode::Compat => marked_as_published(rest, &shifted, &config.trigger),
            Mode::Strict => marked(rest, &shifted, &mut |_| config.trigger.clone()),
        };
        let text = format!("{}{rest}", &code[..header_end]);
        let mut augmented = parts(&text, header_end, description, config.mode);
        if config.mode == Mode::Compat {
            // A trigger that stands in the source would be taken for a real one.
            let unknown = |text: &mut String| *text = text.replace(&config.trigger, UNKNOWN_TOKEN);
            [&mut plain.header, &mut plain.signature, &mut plain.prefix, &mut plain.body]
                .into_iter()
                .for_each(unknown);
            unknown(&mut augmented.prefix);
        }
        Ok(Both { plain, augmented, n_triggers })
    }

    fn record(&self, cleaned: &Cleaned<'_>, code: &str, insertion: &Insertion) -> Record {
        let point = |i: usize| format!("<LSP-POINT-{}>", i + 1);
        let names = |m: &Mark| m.names.iter().map(|n| n.to_string()).collect();
        let dict = || -> BTreeMap<String, Vec<String>> {
            insertion.marks.iter().enumerate().map(|(i, m)| (point(i), names(m))).collect()
        };
        let text = self.around.text;
        let range = self.found.range.clone();
        let context = || match self.config.mode {
            Mode::Compat => text.replace(&text[range.clone()], PLACEHOLDER),
            Mode::Strict => {
                format!("{}{PLACEHOLDER}{}", &text[..range.start], &text[range.end..])
            }
        };
        Record {
            repo: self.around.repo.to_owned(),
            file_path: self.around.file_path.to_owned(),
            function_name: self.found.name.clone(),
            line: self.found.at.line,
            column: self.found.at.col - 1,
            docstring: cleaned.docstring.clone(),
            code: code.to_owned(),
            augmented_code: marked(code, &insertion.marks, &mut |i| point(i)),
            lsp_dict: self.config.keep_candidates.then(dict),
            context: self.config.keep_context.then(context),
            ..Record::default()
        }
    }
}

/// The text with triggers; the trigger's own spelling in it becomes the unknown token, and what looks like a
/// numbered marker goes, because no answer belongs to it.
fn marked_as_published(text: &str, marks: &[Mark], trigger: &str) -> String {
    let mut out = String::with_capacity(text.len() + marks.len() * trigger.len());
    let mut from = 0;
    for mark in marks {
        out.push_str(&as_published(&text[from..mark.offset], trigger));
        out.push_str(trigger);
        from = mark.offset;
    }
    out.push_str(&as_published(&text[from..], trigger));
    out
}

fn as_published(text: &str, trigger: &str) -> String {
    let mut parts = text.split("<LSP-POINT-");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        match rest.strip_prefix('>').filter(|_| rest.len() < part.len()) {
            Some(after) => out.push_str(after),
            None => {
                out.push_str("<LSP-POINT-");
                out.push_str(part);
            }
        }
    }
    out.replace(trigger, UNKNOWN_TOKEN)
}

impl Record {
    fn fill(&mut self, parts: Both) {
        let Both { plain, augmented, n_triggers } = parts;
        self.n_triggers = n_triggers;
        self.instruction = format!(
            "### Description:\n{}\n\n### Signature:\n{}",
            self.description, plain.signature
        );
        self.completion = format!("{}\n{}", plain.header, augmented.body);
        self.signature = plain.signature;
        self.prefix = plain.prefix;
        self.body = plain.body;
        self.augmented_prefix = augmented.prefix;
        self.augmented_body = augmented.body;
    }
}
