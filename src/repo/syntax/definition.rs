//! Statements that define names for others: imports, functions and classes.
//!
//! # Place
//! Adds to the parser what a module offers.

use super::ast::*;
use super::lexer::T;
use super::parser::{Exprs, Parser, Stmts, run};
use crate::repo::name::Name;
use smallvec::SmallVec;

impl Parser<'_> {
    /// `a.b.c`; stops before the cursor.
    pub(super) fn dotted_name(&mut self) -> Name {
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

    pub(super) fn as_name(&mut self) -> (Option<Name>, u32) {
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

    pub(super) fn import(&mut self) -> StmtKind {
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
            names.push(Alias { name, name_start, as_name, as_start });
            if !self.eat(T::Comma) {
                break;
            }
        }
        let names = run(&mut self.ast.aliases, &names);
        StmtKind::Import { names }
    }

    pub(super) fn import_from(&mut self) -> StmtKind {
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
        if level == 0 && module == Name::EMPTY && self.at(T::KwImport) {
            self.error("expected a module after 'from'");
        }
        let mut names: SmallVec<[Alias; 8]> = SmallVec::new();
        let mut star = false;
        if self.at(T::Cursor) {
            self.record_cursor(CursorSite::FromModule { level, dotted: module });
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
                        names.push(Alias { name, name_start, as_name, as_start });
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
        self.ast.imports_from.push(ImportFrom { module, module_start, level, names, star });
        StmtKind::ImportFrom { from }
    }

    /// Decorators and the `def` or `class` below them.
    pub(super) fn definition(&mut self, out: &mut Stmts) {
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

    pub(super) fn function(
        &mut self,
        start: u32,
        def_start: u32,
        decorators: Run,
        is_async: bool,
    ) -> StmtId {
        let first_expr = self.ast.exprs.len() as u32;
        self.advance();
        let (name, name_start) = self.defined_name("expected a function name");
        let type_params = self.type_parameters();
        let mut params = Run::default();
        if self.expect(T::LParen, "expected '('") {
            params = self.parameters(T::RParen, true);
            self.expect(T::RParen, "expected ')'");
        }
        let returns = if self.eat(T::Arrow) { self.expression_list() } else { ExprId::NONE };
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
        let guards = std::mem::take(&mut self.guards);
        let body = self.block();
        self.frames = frames;
        self.guards = guards;
        let is_generator = std::mem::replace(&mut self.has_yield, outer_yield);
        let end = self.prev_end.max(start);
        let docstring = self.docstring(body);
        let n_exprs = self.ast.exprs.len() as u32;
        let function = &mut self.ast.functions[id.index()];
        function.span.end = end;
        function.body = body;
        function.docstring = docstring;
        function.is_generator = is_generator;
        function.exprs = Run { start: first_expr, len: n_exprs - first_expr };
        self.push(StmtKind::Function(id), start)
    }

    /// The name after `def` or `class` and where it begins; empty where the cursor stands for it.
    fn defined_name(&mut self, missing: &'static str) -> (Name, u32) {
        let start = self.tok.start;
        let mut name = Name::EMPTY;
        if !self.cursor_defines() {
            if self.at(T::Name) {
                name = self.name_of(self.tok);
                self.advance();
            } else {
                self.error(missing);
            }
        }
        (name, start)
    }

    pub(super) fn class(&mut self, start: u32, def_start: u32, decorators: Run) -> StmtId {
        let first_expr = self.ast.exprs.len() as u32;
        self.advance();
        let (name, name_start) = self.defined_name("expected a class name");
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
        class.exprs = Run { start: first_expr, len: n_exprs - first_expr };
        self.push(StmtKind::Class(id), start)
    }
}
