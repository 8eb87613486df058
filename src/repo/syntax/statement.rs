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

    fn push(&mut self, kind: StmtKind, start: u32) -> StmtId {
        let id = StmtId(self.ast.stmts.len() as u32);
        let end = self.prev_end.max(start);
        self.ast.stmts.push(Stmt {
            kind,
            span: Span { start, end },
        });
        id
    }

    /// One logical line or compound statement.
    fn statement(&mut self, out: &mut Stmts) {
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
                self.skip_line();
            }
            T::Name if self.at_match() => self.match_statement(out),
            _ => self.simple_line(out),
        }
    }

    fn at_match(&self) -> bool {
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
    fn simple_line(&mut self, out: &mut Stmts) {
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
            if self.tok.start == before && !self.tok.first_on_line {
                self.advance();
            }
            self.skip_line();
            self.eat(T::Newline);
            return;
        }
    }

    fn simple_statement(&mut self) -> StmtId {
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
                let exception = if self.starts_expression() {
                    self.test()
                } else {
                    ExprId::NONE
                };
                if self.at(T::Comma) {
                    // Python 2: raise E, value
                    self.error("expected the end of the statement");
                }
                let cause = if self.eat(T::KwFrom) {
                    self.test()
                } else {
                    ExprId::NONE
                };
                StmtKind::Raise { exception, cause }
            }
            T::KwAssert => {
                self.advance();
                let test = self.test();
                let message = if self.eat(T::Comma) {
                    self.test()
                } else {
                    ExprId::NONE
                };
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

    fn word(&mut self, kind: StmtKind) -> StmtKind {
        self.advance();
        kind
    }

    fn optional_list(&mut self) -> ExprId {
        if self.starts_expression() {
            self.expression_list()
        } else {
            ExprId::NONE
        }
    }

    fn declared_names(&mut self) -> Run {
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

    fn at_type_alias(&self) -> bool {
        if self.text(self.tok) != "type" {
            return false;
        }
        let mut ahead = self.lx.clone();
        ahead.next().kind == T::Name && matches!(ahead.next().kind, T::Assign | T::LBracket)
    }

    fn type_alias(&mut self) -> StmtKind {
        self.advance();
        let name = self.name_of(self.tok);
        self.advance();
        let type_params = self.type_parameters();
        self.expect(T::Assign, "expected '='");
        let value = self.test();
        StmtKind::TypeAlias {
            name,
            value,
            type_params,
        }
    }

    fn expression_statement(&mut self) -> StmtKind {
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
                let value = if self.eat(T::Assign) {
                    self.expression_list()
                } else {
                    ExprId::NONE
                };
                StmtKind::AnnAssign {
                    target: first,
                    annotation,
                    value,
                }
            }
            T::AugAssign => {
                let op = self.lx.aug_op(self.tok);
                self.advance();
                let value = self.expression_list();
                StmtKind::AugAssign {
                    target: first,
                    op,
                    value,
                }
            }
            _ => StmtKind::Expr(first),
        }
    }

    fn is_annotatable(&self, target: ExprId) -> bool {
        matches!(
            self.ast.kind(target),
            ExprKind::Name(_) | ExprKind::Attribute { .. } | ExprKind::Subscript { .. }
        )
    }

    /// `a.b.c`; stops before the cursor.
    fn dotted_name(&mut self) -> Name {
        let mut dotted = String::new();
        while self.at(T::Name) {
            dotted.push_str(self.name_of(self.tok).as_str());
            self.advance();
            if !self.at(T::Dot) {
                break;
            }
            self.advance();
            dotted.push('.');
        }
        if dotted.ends_with('.') && !self.at(T::Cursor) {
            self.error("expected a name after '.'");
        }
        Name::new(dotted.trim_end_matches('.'))
    }

    fn as_name(&mut self) -> (Option<Name>, u32) {
        if !self.eat(T::KwAs) || self.cursor_defines() {
            return (None, 0);
        }
        if !self.at(T::Name) {
            self.error("expected a name after 'as'");
            return (None, 0);
        }
        let found = (Some(self.name_of(self.tok)), self.tok.start);
        self.advance();
        found
    }

    fn import(&mut self) -> StmtKind {
        self.advance();
        let mut names: SmallVec<[Alias; 4]> = SmallVec::new();
        loop {
            let name_start = self.tok.start;
            let name = self.dotted_name();
            if self.at(T::Cursor) {
                self.record_cursor(CursorSite::ImportModule { dotted: name });
                self.advance();
                break;
            }
            if name == Name::EMPTY {
                self.error("expected a module name");
                break;
            }
            let (as_name, as_start) = self.as_name();
            names.push(Alias {
                name,
                name_start,
                as_name,
                as_start,
            });
            if !self.eat(T::Comma) {
                break;
            }
        }
        let names = run(&mut self.ast.aliases, &names);
        StmtKind::Import { names }
    }

    fn import_from(&mut self) -> StmtKind {
        self.advance();
        let mut level = 0;
        loop {
            match self.tok.kind {
                T::Dot => level += 1,
                T::Dots3 => level += 3,
                _ => break,
            }
            self.advance();
        }
        let module_start = self.tok.start;
        let module = self.dotted_name();
        let mut names: SmallVec<[Alias; 8]> = SmallVec::new();
        let mut star = false;
        if self.at(T::Cursor) {
            self.record_cursor(CursorSite::FromModule {
                level,
                dotted: module,
            });
            self.advance();
        } else if self.expect(T::KwImport, "expected 'import'") {
            let parenthesised = self.eat(T::LParen);
            loop {
                match self.tok.kind {
                    T::Star => {
                        self.advance();
                        star = true;
                        break;
                    }
                    T::Cursor => {
                        self.record_cursor(CursorSite::FromName { level, module });
                        self.advance();
                        break;
                    }
                    T::Name => {
                        let (name, name_start) = (self.name_of(self.tok), self.tok.start);
                        self.advance();
                        let (as_name, as_start) = self.as_name();
                        names.push(Alias {
                            name,
                            name_start,
                            as_name,
                            as_start,
                        });
                    }
                    _ => {
                        if names.is_empty() || !parenthesised {
                            self.error("expected a name to import");
                        }
                        break;
                    }
                }
                if !self.eat(T::Comma) {
                    break;
                }
            }
            if parenthesised {
                self.expect(T::RParen, "expected ')'");
            }
        }
        let names = run(&mut self.ast.aliases, &names);
        let from = self.ast.imports_from.len() as u32;
        self.ast.imports_from.push(ImportFrom {
            module,
            module_start,
            level,
            names,
            star,
        });
        StmtKind::ImportFrom { from }
    }

    /// `: block`, or nothing when the colon or the block is missing.
    fn block(&mut self) -> Run {
        let mut body: Stmts = SmallVec::new();
        if !self.eat(T::Colon) {
            self.error("expected ':'");
            self.skip_line();
        }
        self.block_after_colon(&mut body);
        self.stmt_run(&body)
    }

    fn block_after_colon(&mut self, body: &mut Stmts) {
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

    fn if_statement(&mut self, out: &mut Stmts) {
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

    fn branch(&self, test: ExprId, body: Run, start: u32) -> Branch {
        let end = self.prev_end.max(start);
        Branch {
            test,
            body,
            span: Span { start, end },
        }
    }

    fn optional_else(&mut self) -> Run {
        if self.eat(T::KwElse) {
            self.block()
        } else {
            Run::default()
        }
    }

    fn while_statement(&mut self, out: &mut Stmts) {
        let start = self.tok.start;
        self.advance();
        let test = self.named();
        let body = self.block();
        let orelse = self.optional_else();
        out.push(self.push(StmtKind::While { test, body, orelse }, start));
    }

    fn for_statement(&mut self, out: &mut Stmts, is_async: bool) {
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
        self.ast.fors.push(For {
            target,
            iter,
            body,
            orelse,
            is_async,
        });
        out.push(self.push(StmtKind::For { node }, start));
    }

    fn try_statement(&mut self, out: &mut Stmts) {
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
                    let span = Span {
                        start: part,
                        end: self.prev_end.max(part),
                    };
                    handlers.push(Handler {
                        kind,
                        name,
                        name_start,
                        body,
                        span,
                        is_star,
                    });
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
        self.ast.tries.push(Try {
            body,
            handlers,
            orelse,
            finally,
        });
        out.push(self.push(StmtKind::Try { node }, start));
    }

    fn with_statement(&mut self, out: &mut Stmts, is_async: bool) {
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
        out.push(self.push(
            StmtKind::With {
                items,
                body,
                is_async,
            },
            start,
        ));
    }

    /// `with (a as b, c as d):` and `with (a, b):`, not `with (a, b).c:` or `with (a):`.
    fn bracket_holds_items(&self) -> bool {
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

    fn match_statement(&mut self, out: &mut Stmts) {
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
                let guard = if self.eat(T::KwIf) {
                    self.named()
                } else {
                    ExprId::NONE
                };
                let body = self.block();
                let span = Span {
                    start: case_start,
                    end: self.prev_end.max(case_start),
                };
                cases.push(Case {
                    pattern,
                    guard,
                    body,
                    span,
                });
            }
            self.eat(T::Dedent);
        }
        let cases = run(&mut self.ast.cases, &cases);
        out.push(self.push(StmtKind::Match { subject, cases }, start));
    }

    /// Decorators and the `def` or `class` below them.
    fn definition(&mut self, out: &mut Stmts) {
        let start = self.tok.start;
        let mut decorators: Exprs = SmallVec::new();
        while self.eat(T::At) {
            decorators.push(self.named());
            if !self.eat(T::Newline) {
                self.error("expected the end of the decorator");
                self.skip_line();
                self.eat(T::Newline);
            }
            while self.eat(T::Newline) {}
        }
        let decorators = self.expr_run(&decorators);
        let def_start = self.tok.start;
        let is_async = self.eat(T::KwAsync);
        match self.tok.kind {
            T::KwDef => out.push(self.function(start, def_start, decorators, is_async)),
            T::KwClass => out.push(self.class(start, def_start, decorators)),
            _ => {
                self.error("expected 'def' or 'class' after a decorator");
                let list: Exprs = self.ast.list(decorators).iter().copied().collect();
                for id in list {
                    let at = self.start_of(id);
                    out.push(self.push(StmtKind::Expr(id), at));
                }
            }
        }
    }

    fn function(&mut self, start: u32, def_start: u32, decorators: Run, is_async: bool) -> StmtId {
        let first_expr = self.ast.exprs.len() as u32;
        self.advance();
        let name_start = self.tok.start;
        let mut name = Name::EMPTY;
        if !self.cursor_defines() {
            if self.at(T::Name) {
                name = self.name_of(self.tok);
                self.advance();
            } else {
                self.error("expected a function name");
            }
        }
        let type_params = self.type_parameters();
        let mut params = Run::default();
        if self.expect(T::LParen, "expected '('") {
            params = self.parameters(T::RParen, true);
            self.expect(T::RParen, "expected ')'");
        }
        let returns = if self.eat(T::Arrow) {
            self.expression_list()
        } else {
            ExprId::NONE
        };
        // The function exists before its body: the body may define functions of its own.
        let id = FuncId(self.ast.functions.len() as u32);
        self.ast.functions.push(Function {
            name,
            name_start,
            span: Span { start, end: start },
            def_start,
            header_end: self.tok.end,
            params,
            type_params,
            returns,
            decorators,
            body: Run::default(),
            docstring: None,
            exprs: Run::default(),
            is_async,
            is_generator: false,
        });
        let outer_yield = std::mem::replace(&mut self.has_yield, false);
        let frames = std::mem::take(&mut self.frames);
        let body = self.block();
        self.frames = frames;
        let is_generator = std::mem::replace(&mut self.has_yield, outer_yield);
        let end = self.prev_end.max(start);
        let docstring = self.docstring(body);
        let n_exprs = self.ast.exprs.len() as u32;
        let function = &mut self.ast.functions[id.index()];
        function.span.end = end;
        function.body = body;
        function.docstring = docstring;
        function.is_generator = is_generator;
        function.exprs = Run {
            start: first_expr,
            len: n_exprs - first_expr,
        };
        self.push(StmtKind::Function(id), start)
    }

    fn class(&mut self, start: u32, def_start: u32, decorators: Run) -> StmtId {
        let first_expr = self.ast.exprs.len() as u32;
        self.advance();
        let name_start = self.tok.start;
        let mut name = Name::EMPTY;
        if !self.cursor_defines() {
            if self.at(T::Name) {
                name = self.name_of(self.tok);
                self.advance();
            } else {
                self.error("expected a class name");
            }
        }
        let type_params = self.type_parameters();
        let mut args = Run::default();
        if self.eat(T::LParen) {
            args = self.arguments(ExprId::NONE);
            self.expect(T::RParen, "expected ')'");
        }
        let id = ClassId(self.ast.classes.len() as u32);
        self.ast.classes.push(Class {
            name,
            name_start,
            span: Span { start, end: start },
            def_start,
            header_end: self.tok.end,
            args,
            type_params,
            decorators,
            body: Run::default(),
            docstring: None,
            exprs: Run::default(),
        });
        let body = self.block();
        let end = self.prev_end.max(start);
        let docstring = self.docstring(body);
        let n_exprs = self.ast.exprs.len() as u32;
        let class = &mut self.ast.classes[id.index()];
        class.span.end = end;
        class.body = body;
        class.docstring = docstring;
        class.exprs = Run {
            start: first_expr,
            len: n_exprs - first_expr,
        };
        self.push(StmtKind::Class(id), start)
    }
}
