//! Statements and blocks.
//!
//! # Place
//! Adds to the parser what a module is made of.

use super::ast::*;
use super::lexer::T;
use super::parser::{Exprs, Parser, Stmts, run};
use crate::repo::name::Name;
use smallvec::SmallVec;

impl Parser<'_> {
    pub(super) fn statements_until_eof(&mut self) -> Run {
        let mut body: Stmts = SmallVec::new();
        while !self.at(T::Eof) {
            self.statement(&mut body);
            if self.at(T::Dedent) {
                self.advance();
            }
        }
        self.stmt_run(&body)
    }

    pub(super) fn push(&mut self, kind: StmtKind, start: u32) -> StmtId {
        let id = StmtId(self.ast.stmts.len() as u32);
        let end = self.prev_end.max(start);
        self.ast.stmts.push(Stmt { kind, span: Span { start, end } });
        id
    }

    /// One logical line or compound statement.
    pub(super) fn statement(&mut self, out: &mut Stmts) {
        match self.tok.kind {
            T::Newline => self.advance(),
            T::Indent => {
                // Unexpected indentation: its statements belong to the block around it.
                self.error("unexpected indentation");
                self.advance();
                if self.enter().is_none() {
                    self.skip_line();
                    return;
                }
                while !matches!(self.tok.kind, T::Dedent | T::Eof) {
                    self.statement(out);
                }
                self.leave();
                self.eat(T::Dedent);
            }
            T::KwIf => self.if_statement(out),
            T::KwFor => self.for_statement(out, false),
            T::KwWhile => self.while_statement(out),
            T::KwTry => self.try_statement(out),
            T::KwWith => self.with_statement(out, false),
            T::KwDef | T::KwClass | T::At => self.definition(out),
            T::KwAsync => {
                let start = self.tok.start;
                self.advance();
                match self.tok.kind {
                    T::KwDef => {
                        let decorators = Run::default();
                        let id = self.function(start, start, decorators, true);
                        out.push(id);
                    }
                    T::KwFor => self.for_statement(out, true),
                    T::KwWith => self.with_statement(out, true),
                    _ => {
                        self.error("expected 'def', 'for' or 'with' after 'async'");
                        self.skip_line();
                    }
                }
            }
            T::KwElif | T::KwElse | T::KwExcept | T::KwFinally => {
                self.error("this block has no statement that it belongs to");
                self.advance();
                self.skip_line();
            }
            T::Name if self.at_match() => self.match_statement(out),
            _ => self.simple_line(out),
        }
    }

    pub(super) fn at_match(&self) -> bool {
        if self.text(self.tok) != "match" {
            return false;
        }
        let bytes = self.lx.bytes();
        let mut p = self.tok.end as usize;
        while p < bytes.len() && matches!(bytes[p], b' ' | b'\t') {
            p += 1;
        }
        let next = bytes.get(p).copied().unwrap_or(b'\n');
        if matches!(
            next,
            b'=' | b'.' | b',' | b')' | b']' | b'}' | b':' | b';' | b'\n' | b'\r' | b'#'
        ) {
            return false;
        }
        self.lx.line_ends_with_colon()
    }

    /// Simple statements separated by semicolons.
    pub(super) fn simple_line(&mut self, out: &mut Stmts) {
        loop {
            let before = self.tok.start;
            let id = self.simple_statement();
            out.push(id);
            if self.eat(T::Semicolon) {
                if self.eat(T::Newline) || self.at(T::Eof) {
                    return;
                }
                continue;
            }
            if self.eat(T::Newline) || self.at(T::Eof) || self.at(T::Dedent) || self.at(T::Indent) {
                return;
            }
            self.error("expected the end of the statement");
            if self.tok.start == before {
                self.advance();
            }
            self.skip_line();
            self.eat(T::Newline);
            return;
        }
    }

    pub(super) fn simple_statement(&mut self) -> StmtId {
        let start = self.tok.start;
        self.target_start = u32::MAX;
        let kind = match self.tok.kind {
            T::KwPass => self.word(StmtKind::Pass),
            T::KwBreak => self.word(StmtKind::Break),
            T::KwContinue => self.word(StmtKind::Continue),
            T::KwReturn => {
                self.advance();
                let value = self.optional_list();
                StmtKind::Return(value)
            }
            T::KwRaise => {
                self.advance();
                let exception = if self.starts_expression() { self.test() } else { ExprId::NONE };
                if self.at(T::Comma) {
                    // Python 2: raise E, value
                    self.error("expected the end of the statement");
                }
                let cause = if self.eat(T::KwFrom) { self.test() } else { ExprId::NONE };
                StmtKind::Raise { exception, cause }
            }
            T::KwAssert => {
                self.advance();
                let test = self.test();
                let message = if self.eat(T::Comma) { self.test() } else { ExprId::NONE };
                StmtKind::Assert { test, message }
            }
            T::KwDel => {
                self.advance();
                let target = self.targets();
                let targets = self.expr_run(&[target]);
                StmtKind::Delete { targets }
            }
            T::KwGlobal => {
                let names = self.declared_names();
                StmtKind::Global { names }
            }
            T::KwNonlocal => {
                let names = self.declared_names();
                StmtKind::Nonlocal { names }
            }
            T::KwImport => self.import(),
            T::KwFrom => self.import_from(),
            T::Name if self.at_type_alias() => self.type_alias(),
            _ => self.expression_statement(),
        };
        self.push(kind, start)
    }

    pub(super) fn word(&mut self, kind: StmtKind) -> StmtKind {
        self.advance();
        kind
    }

    pub(super) fn optional_list(&mut self) -> ExprId {
        if self.starts_expression() { self.expression_list() } else { ExprId::NONE }
    }

    pub(super) fn declared_names(&mut self) -> Run {
        self.advance();
        let mut names: SmallVec<[Name; 4]> = SmallVec::new();
        loop {
            if self.cursor_defines() {
                break;
            }
            if !self.at(T::Name) {
                self.error("expected a name");
                break;
            }
            names.push(self.name_of(self.tok));
            self.advance();
            if !self.eat(T::Comma) {
                break;
            }
        }
        run(&mut self.ast.name_lists, &names)
    }

    pub(super) fn at_type_alias(&self) -> bool {
        if self.text(self.tok) != "type" {
            return false;
        }
        let mut ahead = self.lx.clone();
        ahead.next().kind == T::Name && matches!(ahead.next().kind, T::Assign | T::LBracket)
    }

    pub(super) fn type_alias(&mut self) -> StmtKind {
        self.advance();
        let name = self.name_of(self.tok);
        self.advance();
        let type_params = self.type_parameters();
        self.expect(T::Assign, "expected '='");
        let value = self.test();
        StmtKind::TypeAlias { name, value, type_params }
    }

    pub(super) fn expression_statement(&mut self) -> StmtKind {
        self.target_start = self.tok.start;
        let first = self.expression_list();
        self.target_start = u32::MAX;
        match self.tok.kind {
            T::Assign => {
                let mut targets: Exprs = SmallVec::new();
                let mut value = first;
                while self.eat(T::Assign) {
                    targets.push(value);
                    value = self.expression_list();
                }
                let targets = self.expr_run(&targets);
                StmtKind::Assign { targets, value }
            }
            T::Colon if self.is_annotatable(first) => {
                self.advance();
                let annotation = self.star_or_named();
                let value = if self.eat(T::Assign) { self.expression_list() } else { ExprId::NONE };
                StmtKind::AnnAssign { target: first, annotation, value }
            }
            T::AugAssign => {
                let op = self.lx.aug_op(self.tok);
                self.advance();
                let value = self.expression_list();
                StmtKind::AugAssign { target: first, op, value }
            }
            _ => StmtKind::Expr(first),
        }
    }

    pub(super) fn is_annotatable(&self, target: ExprId) -> bool {
        matches!(
            self.ast.kind(target),
            ExprKind::Name(_) | ExprKind::Attribute { .. } | ExprKind::Subscript { .. }
        )
    }

    /// `: block`, or nothing when the colon or the block is missing.
    pub(super) fn block(&mut self) -> Run {
        let mut body: Stmts = SmallVec::new();
        if !self.eat(T::Colon) {
            self.error("expected ':'");
            self.skip_line();
        }
        self.block_after_colon(&mut body);
        self.stmt_run(&body)
    }

    pub(super) fn block_after_colon(&mut self, body: &mut Stmts) {
        if !self.at(T::Newline) {
            if !matches!(self.tok.kind, T::Eof | T::Dedent) {
                self.simple_line(body);
            }
            return;
        }
        self.advance();
        if !self.at(T::Indent) {
            self.error("expected an indented block");
            return;
        }
        self.advance();
        if self.enter().is_none() {
            // Too deep: read the block without keeping it.
            let mut depth = 1;
            while depth > 0 && !self.at(T::Eof) {
                match self.tok.kind {
                    T::Indent => depth += 1,
                    T::Dedent => depth -= 1,
                    _ => {}
                }
                self.advance();
            }
            return;
        }
        while !matches!(self.tok.kind, T::Dedent | T::Eof) {
            self.statement(body);
        }
        self.leave();
        self.eat(T::Dedent);
    }

    pub(super) fn if_statement(&mut self, out: &mut Stmts) {
        let start = self.tok.start;
        let mut branches: SmallVec<[Branch; 4]> = SmallVec::new();
        let mut branch_start = start;
        self.advance();
        loop {
            let test = self.named();
            let body = self.block();
            branches.push(self.branch(test, body, branch_start));
            branch_start = self.tok.start;
            if self.eat(T::KwElif) {
                continue;
            }
            if self.eat(T::KwElse) {
                let body = self.block();
                branches.push(self.branch(ExprId::NONE, body, branch_start));
            }
            break;
        }
        let branches = run(&mut self.ast.branches, &branches);
        out.push(self.push(StmtKind::If { branches }, start));
    }

    pub(super) fn branch(&self, test: ExprId, body: Run, start: u32) -> Branch {
        let end = self.prev_end.max(start);
        Branch { test, body, span: Span { start, end } }
    }

    pub(super) fn optional_else(&mut self) -> Run {
        if self.eat(T::KwElse) { self.block() } else { Run::default() }
    }

    pub(super) fn while_statement(&mut self, out: &mut Stmts) {
        let start = self.tok.start;
        self.advance();
        let test = self.named();
        let body = self.block();
        let orelse = self.optional_else();
        out.push(self.push(StmtKind::While { test, body, orelse }, start));
    }

    pub(super) fn for_statement(&mut self, out: &mut Stmts, is_async: bool) {
        let start = self.tok.start;
        self.advance();
        let target = self.targets();
        let iter = if self.expect(T::KwIn, "expected 'in'") {
            self.expression_list()
        } else {
            self.missing()
        };
        let body = self.block();
        let orelse = self.optional_else();
        let node = self.ast.fors.len() as u32;
        self.ast.fors.push(For { target, iter, body, orelse, is_async });
        out.push(self.push(StmtKind::For { node }, start));
    }

    pub(super) fn try_statement(&mut self, out: &mut Stmts) {
        let start = self.tok.start;
        self.advance();
        let body = self.block();
        let mut handlers: SmallVec<[Handler; 2]> = SmallVec::new();
        let mut orelse = Run::default();
        let mut finally = Run::default();
        loop {
            let part = self.tok.start;
            match self.tok.kind {
                T::KwExcept => {
                    self.advance();
                    let is_star = self.eat(T::Star);
                    let kind = if self.starts_expression() {
                        self.expression_list()
                    } else {
                        ExprId::NONE
                    };
                    let (name, name_start) = self.as_name();
                    let body = self.block();
                    let span = Span { start: part, end: self.prev_end.max(part) };
                    handlers.push(Handler { kind, name, name_start, body, span, is_star });
                }
                T::KwElse => {
                    self.advance();
                    orelse = self.block();
                }
                T::KwFinally => {
                    self.advance();
                    finally = self.block();
                }
                _ => break,
            }
        }
        let handlers = run(&mut self.ast.handlers, &handlers);
        let node = self.ast.tries.len() as u32;
        self.ast.tries.push(Try { body, handlers, orelse, finally });
        out.push(self.push(StmtKind::Try { node }, start));
    }

    pub(super) fn with_statement(&mut self, out: &mut Stmts, is_async: bool) {
        let start = self.tok.start;
        self.advance();
        let mut items: SmallVec<[WithItem; 2]> = SmallVec::new();
        let bracket = self.at(T::LParen) && self.bracket_holds_items();
        if bracket {
            self.advance();
        }
        loop {
            if bracket && self.at(T::RParen) {
                break;
            }
            let value = self.named();
            let mut target = ExprId::NONE;
            if self.eat(T::KwAs) {
                self.target_start = self.tok.start;
                target = self.star_or_named();
                self.target_start = u32::MAX;
            }
            items.push(WithItem { value, target });
            if !self.eat(T::Comma) {
                break;
            }
        }
        if bracket {
            self.expect(T::RParen, "expected ')'");
        }
        let items = run(&mut self.ast.with_items, &items);
        let body = self.block();
        out.push(self.push(StmtKind::With { items, body, is_async }, start));
    }

    /// `with (a as b, c as d):` and `with (a, b):`, not `with (a, b).c:` or `with (a):`.
    pub(super) fn bracket_holds_items(&self) -> bool {
        let mut ahead = self.lx.clone();
        let mut depth = 1u32;
        let mut saw_as_or_comma = false;
        while depth > 0 {
            match ahead.next().kind {
                T::LParen | T::LBracket | T::LBrace => depth += 1,
                T::RParen | T::RBracket | T::RBrace => depth -= 1,
                T::KwAs | T::Comma if depth == 1 => saw_as_or_comma = true,
                T::KwFor | T::ColonEq if depth == 1 => return false,
                T::Cursor => return saw_as_or_comma,
                T::Newline | T::Eof | T::Indent | T::Dedent => return false,
                _ => {}
            }
        }
        saw_as_or_comma && ahead.next().kind == T::Colon
    }

    pub(super) fn match_statement(&mut self, out: &mut Stmts) {
        let start = self.tok.start;
        self.advance();
        let subject = self.expression_list();
        let mut cases: SmallVec<[Case; 4]> = SmallVec::new();
        self.expect(T::Colon, "expected ':'");
        self.eat(T::Newline);
        if self.eat(T::Indent) {
            while !matches!(self.tok.kind, T::Dedent | T::Eof) {
                if !(self.at(T::Name) && self.text(self.tok) == "case") {
                    if self.at(T::Newline) {
                        self.advance();
                        continue;
                    }
                    let mut lost: Stmts = SmallVec::new();
                    self.error("expected 'case'");
                    self.statement(&mut lost);
                    out.extend(lost);
                    continue;
                }
                let case_start = self.tok.start;
                self.advance();
                let pattern = self.case_pattern();
                let guard = if self.eat(T::KwIf) { self.named() } else { ExprId::NONE };
                let body = self.block();
                let span = Span { start: case_start, end: self.prev_end.max(case_start) };
                cases.push(Case { pattern, guard, body, span });
            }
            self.eat(T::Dedent);
        }
        let cases = run(&mut self.ast.cases, &cases);
        out.push(self.push(StmtKind::Match { subject, cases }, start));
    }
}
