//! Atoms: names, literals, f-strings, bracketed displays and comprehensions, and assignment targets.
//!
//! # Place
//! Adds to the parser what expressions are built from.

use super::ast::*;
use super::lexer::{T, Token};
use super::parser::{Exprs, Parser, run};
use crate::repo::name::Name;
use smallvec::SmallVec;

impl Parser<'_> {
    pub(super) fn atom(&mut self) -> ExprId {
        let token = self.tok;
        let Token { start, end, .. } = token;
        let kind = match token.kind {
            T::Name => ExprKind::Name(self.name_of(token)),
            T::Cursor => {
                let at_statement_start = self.target_start == start;
                let id = self.expr(ExprKind::Name(Name::CURSOR), start, start);
                self.record_cursor(CursorSite::Name { expr: id, at_statement_start });
                self.advance();
                return id;
            }
            T::Int => ExprKind::Int,
            T::Float => ExprKind::Float,
            T::Complex => ExprKind::Complex,
            T::KwTrue => ExprKind::True,
            T::KwFalse => ExprKind::False,
            T::KwNone => ExprKind::None,
            T::Dots3 => ExprKind::Ellipsis,
            T::Str | T::Bytes | T::FStr => return self.strings(),
            T::LParen => return self.parenthesised(),
            T::LBracket => return self.list_display(),
            T::LBrace => return self.brace_display(),
            T::KwYield => return self.yield_expression(),
            _ => {
                self.error("expected an expression");
                return self.missing();
            }
        };
        self.advance();
        self.expr(kind, start, end)
    }

    /// One or more adjacent string literals.
    pub(super) fn strings(&mut self) -> ExprId {
        let start = self.tok.start;
        let mut kind = self.tok.kind;
        let mut fields: Exprs = SmallVec::new();
        let mut end = self.tok.end;
        while matches!(self.tok.kind, T::Str | T::Bytes | T::FStr) {
            end = self.tok.end;
            if self.tok.kind == T::FStr {
                kind = T::FStr;
                self.fstring_fields(self.tok, &mut fields);
            }
            self.advance();
        }
        let kind = match kind {
            T::Str => ExprKind::Str,
            T::Bytes => ExprKind::Bytes,
            _ => ExprKind::FString { fields: self.expr_run(&fields) },
        };
        self.expr(kind, start, end)
    }

    pub(super) fn fstring_fields(&mut self, token: Token, fields: &mut Exprs) {
        let bytes = self.lx.bytes();
        let mut p = token.start as usize;
        let mut end = token.end as usize;
        while p < end && !matches!(bytes[p], b'"' | b'\'') {
            p += 1;
        }
        if p >= end {
            return;
        }
        let quote = bytes[p];
        let triple = end - p >= 6 && bytes[p + 1] == quote && bytes[p + 2] == quote;
        let n_quotes = if triple { 3 } else { 1 };
        p += n_quotes;
        if end >= p + n_quotes && bytes[end - n_quotes..end].iter().all(|&b| b == quote) {
            end -= n_quotes;
        }
        let hole_here = !self.lx.cursor_in_literal && self.lx.at_hole();
        self.scan_fields(p, end, hole_here, 0, fields);
    }

    /// Fields in the text `from..end` of an f-string; returns where a closing brace at level `nested`
    /// was met.
    pub(super) fn scan_fields(
        &mut self,
        from: usize,
        end: usize,
        hole: bool,
        nested: u32,
        fields: &mut Exprs,
    ) -> usize {
        let bytes = self.lx.bytes();
        let mut p = from;
        while p < end {
            match bytes[p] {
                b'{' if nested == 0 && p + 1 < end && bytes[p + 1] == b'{' => p += 2,
                b'}' if nested > 0 => return p,
                b'\\' if nested == 0 => p += 2,
                b'{' => {
                    let hole_at = if hole { self.lx.hole() } else { None };
                    let stop = self.field(p + 1, end, hole_at, fields);
                    p = stop;
                    // After the expression: '=', '!r' and ':spec' up to the closing brace.
                    while p < end && !matches!(bytes[p], b':' | b'}') {
                        p += 1;
                    }
                    if p < end && bytes[p] == b':' && nested < 3 {
                        p = self.scan_fields(p + 1, end, hole, nested + 1, fields);
                    }
                    p += 1;
                }
                _ => p += 1,
            }
        }
        end
    }

    pub(super) fn field(
        &mut self,
        start: usize,
        end: usize,
        hole: Option<super::lexer::Hole>,
        fields: &mut Exprs,
    ) -> usize {
        let inner = self.lx.field(start, end, hole);
        let outer = std::mem::replace(&mut self.lx, inner);
        let (tok, prev_end, target) = (self.tok, self.prev_end, self.target_start);
        self.target_start = u32::MAX;
        let had_cursor = self.ast.cursor.is_some();
        self.tok = self.lx.next();
        if self.starts_expression() {
            let id = self.expression_list();
            fields.push(id);
        }
        let stop = match self.tok.kind {
            T::Eof | T::Newline => end,
            _ => self.tok.start as usize,
        };
        self.lx = outer;
        (self.tok, self.prev_end, self.target_start) = (tok, prev_end, target);
        if !had_cursor && self.ast.cursor.is_some() {
            self.lx.leave_hole();
        }
        stop.max(start)
    }

    pub(super) fn parenthesised(&mut self) -> ExprId {
        let start = self.tok.start;
        self.advance();
        if self.at(T::RParen) {
            self.advance();
            let end = self.prev_end;
            return self.expr(ExprKind::Tuple { items: Run::default() }, start, end);
        }
        if self.target_start == start {
            self.target_start = self.tok.start; // (a.b, c) = …
        }
        let first = self.star_or_named();
        if matches!(self.tok.kind, T::KwFor | T::KwAsync) {
            let id = self.comprehension(CompKind::Generator, first, ExprId::NONE, start);
            self.close(T::RParen);
            self.ast.exprs[id.index()].span.end = self.prev_end;
            return id;
        }
        if !self.at(T::Comma) {
            // The parentheses belong to no node.
            self.close(T::RParen);
            return first;
        }
        let items = self.display_rest(first, T::RParen);
        let end = self.prev_end;
        self.expr(ExprKind::Tuple { items }, start, end)
    }

    /// The rest of a bracketed list after its first element, closer included.
    pub(super) fn display_rest(&mut self, first: ExprId, closer: T) -> Run {
        let mut items: Exprs = SmallVec::new();
        items.push(first);
        loop {
            if !self.eat(T::Comma) {
                if self.at(closer) || matches!(self.tok.kind, T::Newline | T::Eof) {
                    break;
                }
                self.error("expected ',' or a closing bracket");
                if !self.recover_in_brackets(closer) {
                    break;
                }
            }
            if self.at(closer) {
                break;
            }
            if !self.starts_expression() {
                self.error("expected an expression");
                if self.tok.first_on_line || !self.recover_in_brackets(closer) {
                    break;
                }
                continue;
            }
            if self.target_start != u32::MAX {
                self.target_start = self.tok.start;
            }
            items.push(self.star_or_named());
        }
        self.close(closer);
        self.expr_run(&items)
    }

    pub(super) fn close(&mut self, closer: T) {
        self.expect(closer, "a bracket is not closed");
    }

    pub(super) fn list_display(&mut self) -> ExprId {
        let start = self.tok.start;
        self.advance();
        if self.at(T::RBracket) {
            self.advance();
            let end = self.prev_end;
            return self.expr(ExprKind::List { items: Run::default() }, start, end);
        }
        if self.target_start == start {
            self.target_start = self.tok.start;
        }
        let first = self.star_or_named();
        if matches!(self.tok.kind, T::KwFor | T::KwAsync) {
            let id = self.comprehension(CompKind::List, first, ExprId::NONE, start);
            self.close(T::RBracket);
            self.ast.exprs[id.index()].span.end = self.prev_end;
            return id;
        }
        let items = self.display_rest(first, T::RBracket);
        let end = self.prev_end;
        self.expr(ExprKind::List { items }, start, end)
    }

    pub(super) fn brace_display(&mut self) -> ExprId {
        let start = self.tok.start;
        self.advance();
        self.target_start = u32::MAX;
        if self.at(T::RBrace) {
            self.advance();
            let end = self.prev_end;
            return self.expr(ExprKind::Dict { items: Run::default() }, start, end);
        }
        let mut items: Exprs = SmallVec::new();
        let mut is_dict = false;
        let mut first = true;
        loop {
            if matches!(self.tok.kind, T::RBrace | T::Newline | T::Eof) {
                break;
            }
            if self.at(T::DoubleStar) {
                self.advance();
                is_dict = true;
                let value = self.or_expression();
                items.push(ExprId::NONE);
                items.push(value);
            } else if self.starts_expression() {
                let key = self.star_or_named();
                if self.at(T::Colon) && (first || is_dict) {
                    self.advance();
                    is_dict = true;
                    let value = self.test();
                    if first && matches!(self.tok.kind, T::KwFor | T::KwAsync) {
                        let id = self.comprehension(CompKind::Dict, key, value, start);
                        self.close(T::RBrace);
                        self.ast.exprs[id.index()].span.end = self.prev_end;
                        return id;
                    }
                    items.push(key);
                    items.push(value);
                } else if first && matches!(self.tok.kind, T::KwFor | T::KwAsync) {
                    let id = self.comprehension(CompKind::Set, key, ExprId::NONE, start);
                    self.close(T::RBrace);
                    self.ast.exprs[id.index()].span.end = self.prev_end;
                    return id;
                } else if is_dict {
                    // A key without its value (the cursor may stand in it).
                    items.push(key);
                    items.push(key);
                } else {
                    items.push(key);
                }
            } else {
                self.error("expected an expression");
                if !self.recover_in_brackets(T::RBrace) {
                    break;
                }
                continue;
            }
            first = false;
            if !self.eat(T::Comma) {
                if self.at(T::RBrace) {
                    break;
                }
                self.error("expected ',' or '}'");
                if !self.recover_in_brackets(T::RBrace) {
                    break;
                }
            }
        }
        self.close(T::RBrace);
        let items = self.expr_run(&items);
        let end = self.prev_end;
        let kind = if is_dict { ExprKind::Dict { items } } else { ExprKind::Set { items } };
        self.expr(kind, start, end)
    }

    /// `for … in … if …` after an element.
    pub(super) fn comprehension(
        &mut self,
        kind: CompKind,
        element: ExprId,
        value: ExprId,
        start: u32,
    ) -> ExprId {
        self.target_start = u32::MAX;
        self.frames.push(ExprFrame::Comp { clauses: Vec::new() });
        let n_guards = self.guards.len();
        let mut clauses: SmallVec<[Clause; 2]> = SmallVec::new();
        while matches!(self.tok.kind, T::KwFor | T::KwAsync) {
            let is_async = self.eat(T::KwAsync);
            if !self.expect(T::KwFor, "expected 'for'") {
                break;
            }
            let target = self.targets();
            let iter = if self.expect(T::KwIn, "expected 'in'") {
                self.or_test_or_lambda()
            } else {
                self.missing()
            };
            // The targets exist in the conditions.
            if let Some(ExprFrame::Comp { clauses }) = self.frames.last_mut() {
                clauses.push(Clause { target, iter, conditions: Run::default(), is_async });
            }
            let mut conditions: Exprs = SmallVec::new();
            while self.eat(T::KwIf) {
                let id = if self.at(T::KwLambda) { self.test() } else { self.condition() };
                self.guards.push((id, true));
                conditions.push(id);
            }
            let conditions = self.expr_run(&conditions);
            clauses.push(Clause { target, iter, conditions, is_async });
        }
        self.frames.pop();
        self.guards.truncate(n_guards);
        let clauses = run(&mut self.ast.clauses, &clauses);
        let comp = self.ast.comps.len() as u32;
        self.ast.comps.push(Comp { element, value, clauses });
        let end = self.prev_end;
        self.expr(ExprKind::Comp { kind, comp }, start, end)
    }

    pub(super) fn or_test_or_lambda(&mut self) -> ExprId {
        if self.at(T::KwLambda) { self.test() } else { self.or_test() }
    }

    pub(super) fn condition(&mut self) -> ExprId {
        let target = self.or_test();
        if self.at(T::ColonEq) && matches!(self.ast.kind(target), ExprKind::Name(_)) {
            self.advance();
            let value = self.or_test();
            let (start, end) = (self.start_of(target), self.end_of(value));
            let id = self.expr(ExprKind::Walrus { target, value }, start, end);
            self.ast.walruses.push(id);
            return id;
        }
        target
    }

    /// The targets of a `for`: primaries separated by commas.
    pub(super) fn targets(&mut self) -> ExprId {
        let start = self.tok.start;
        self.target_start = start;
        let first = self.target();
        let id = if self.at(T::Comma) {
            let mut items: Exprs = SmallVec::new();
            items.push(first);
            while self.eat(T::Comma) {
                if !self.starts_expression() {
                    break;
                }
                self.target_start = self.tok.start;
                items.push(self.target());
            }
            let items = self.expr_run(&items);
            let end = self.prev_end;
            self.expr(ExprKind::Tuple { items }, start, end)
        } else {
            first
        };
        self.target_start = u32::MAX;
        id
    }

    pub(super) fn target(&mut self) -> ExprId {
        if self.at(T::Star) {
            let start = self.tok.start;
            self.advance();
            let value = self.or_expression();
            let end = self.end_of(value);
            return self.expr(ExprKind::Starred(value), start, end);
        }
        self.or_expression()
    }
}
