//! `# pylint: disable=…` comments: which findings the author does not want to hear of.
//!
//! # Place
//! Reads the text of one file and its tree (a comment counts for the block that it stands in).
//! # Sources
//! pylint user guide, "Messages control" (4.1, read 2026-11-30).

use super::message::{Message, MessageSet};
use crate::repo::file::File;
use crate::repo::syntax::*;

/// What is silenced in one file.
#[derive(Debug, Default)]
pub(super) struct Suppressions {
    /// Lines `from..=to` (from 1), in the order of the comments: later ones win.
    ranges: Vec<(u32, u32, MessageSet, bool)>,
    pub(super) skip_file: bool,
}

impl Suppressions {
    pub(super) fn of(file: &File) -> Self {
        let mut out = Self::default();
        let mut at = 0;
        while let Some(found) = file.text[at..].find("pylint:") {
            let start = at + found;
            at = start + "pylint:".len();
            let line_start = file.text[..start].rfind(['\n', '\r']).map_or(0, |n| n + 1);
            let before = &file.text[line_start..start];
            let Some(hash) = before.rfind('#') else {
                continue;
            };
            if !before[hash + 1..].trim().is_empty()
                || is_in_string(file, (line_start + hash) as u32)
            {
                continue;
            }
            let rest = &file.text[at..];
            let rest = &rest[..rest.find(['\n', '\r', '#']).unwrap_or(rest.len())];
            let alone = before[..hash].trim().is_empty();
            out.directives(file, rest, start as u32, alone);
        }
        out
    }

    /// `disable=a,b; enable=c`
    fn directives(&mut self, file: &File, text: &str, at: u32, alone: bool) {
        for part in text.split(';') {
            let part = part.trim();
            if part.split_whitespace().next() == Some("skip-file") {
                self.skip_file = true;
            }
            let Some((verb, list)) = part.split_once('=') else {
                continue;
            };
            let mut set = MessageSet::EMPTY;
            for word in list.split([',', ' ']).map(str::trim) {
                MessageSet::named(word).iter().for_each(|m| set.insert(m));
            }
            let line = file.position(at).line;
            let (from, to) = match verb.trim() {
                "disable-next" => (line + 1, line + 1),
                "disable" | "enable" | "disable-msg" => reach(file, line, alone),
                _ => continue,
            };
            self.ranges.push((from, to, set, verb.trim() != "enable"));
        }
    }

    pub(super) fn silences(&self, line: u32, message: Message) -> bool {
        let mut silent = false;
        for (from, to, set, disables) in &self.ranges {
            if (*from..=*to).contains(&line) && set.contains(message) {
                silent = *disables;
            }
        }
        silent
    }
}

fn is_in_string(file: &File, at: u32) -> bool {
    let is_text =
        |k: ExprKind| matches!(k, ExprKind::Str | ExprKind::Bytes | ExprKind::FString { .. });
    file.ast.exprs.iter().any(|e| e.span.contains(at) && is_text(e.kind))
}

/// The lines that a comment is about: the rest of its block when it stands alone; the statement whose
/// line it ends; the whole block when that statement is a header.
fn reach(file: &File, line: u32, alone: bool) -> (u32, u32) {
    let ast = &file.ast;
    let line_of = |pos: u32| file.position(pos).line;
    let last_line = line_of(file.text.len() as u32);
    let mut best: Option<(u32, u32)> = None;
    let mut blocks = vec![(ast.body, 1, last_line)];
    while let Some((block, from, to)) = blocks.pop() {
        let stmts = ast.block(block);
        for (i, &id) in stmts.iter().enumerate() {
            let span = ast.stmt(id).span;
            let first = line_of(span.start);
            // A comment after the last statement of a block belongs to the statement's block.
            let end = match stmts.get(i + 1) {
                Some(next) => line_of(ast.stmt(*next).span.start).saturating_sub(1),
                None => to,
            };
            if line < first || line > end.max(line_of(span.end)) {
                continue;
            }
            let statement_end = line_of(span.end);
            let inner = inner_blocks(ast, id);
            if inner.is_empty() {
                if !alone && line <= statement_end {
                    best = Some((line, statement_end));
                }
                continue;
            }
            for (body, header) in inner {
                let body_start =
                    ast.block(body).first().map_or(span.end, |s| ast.stmt(*s).span.start);
                let body_end = ast.block(body).last().map_or(span.end, |s| ast.stmt(*s).span.end);
                let (from_line, to_line) = (line_of(header), line_of(body_end));
                let on_header = line >= from_line && line < line_of(body_start);
                if on_header && !alone {
                    best = Some((from_line, to_line));
                } else if (from_line..=to_line).contains(&line) {
                    blocks.push((body, from_line, to_line));
                }
            }
        }
        if alone && (from..=to).contains(&line) {
            // The innermost block ends first.
            let end = best.map_or(to, |(_, end)| end.min(to));
            best = Some((line, end));
        }
    }
    best.unwrap_or((line, if alone { last_line } else { line }))
}

/// The blocks in a statement, each with the place where its header begins.
fn inner_blocks(ast: &Ast, id: StmtId) -> Vec<(Run, u32)> {
    let stmt = ast.stmt(id);
    let start = stmt.span.start;
    match stmt.kind {
        StmtKind::Function(func) => vec![(ast.function(func).body, start)],
        StmtKind::Class(class) => vec![(ast.class(class).body, start)],
        StmtKind::If { branches } => {
            ast.branches[branches.range()].iter().map(|b| (b.body, b.span.start)).collect()
        }
        StmtKind::While { body, orelse, .. } => {
            vec![(body, start), (orelse, end_of(ast, body, start))]
        }
        StmtKind::For { node } => {
            let node = ast.fors[node as usize];
            vec![(node.body, start), (node.orelse, end_of(ast, node.body, start))]
        }
        StmtKind::Try { node } => {
            let node = ast.tries[node as usize];
            let mut out = vec![(node.body, start)];
            out.extend(ast.handlers[node.handlers.range()].iter().map(|h| (h.body, h.span.start)));
            out.push((node.orelse, end_of(ast, node.orelse, start)));
            out.push((node.finally, end_of(ast, node.finally, start)));
            out
        }
        StmtKind::With { body, .. } => vec![(body, start)],
        StmtKind::Match { cases, .. } => {
            ast.cases[cases.range()].iter().map(|c| (c.body, c.span.start)).collect()
        }
        _ => Vec::new(),
    }
    .into_iter()
    .filter(|(body, _)| !body.is_empty())
    .collect()
}

/// Where a block without a header of its own in the tree begins.
fn end_of(ast: &Ast, block: Run, or: u32) -> u32 {
    ast.block(block).first().map_or(or, |s| ast.stmt(*s).span.start)
}
