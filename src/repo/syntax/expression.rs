//! Expressions.
//!
//! # Place
//! Adds to the parser what lies below statements.

use super::ast::*;
use super::lexer::T;
use super::parser::{Exprs, Parser, run};
use crate::repo::name::Name;
use smallvec::SmallVec;

fn is_reflective(name: Name) -> bool {
    matches!(
        name,
        Name::SETATTR
            | Name::GETATTR
            | Name::HASATTR
            | Name::DELATTR
            | Name::VARS
            | Name::GLOBALS
            | Name::LOCALS
            | Name::EXEC
    )
}

/// Precedence of a binary operator, and whether it is one.
fn binary(kind: T) -> Option<(u8, BinOp)> {
    Some(match kind {
        T::Pipe => (1, BinOp::Or),
        T::Caret => (2, BinOp::Xor),
        T::Amp => (3, BinOp::And),
        T::LShift => (4, BinOp::LShift),
        T::RShift => (4, BinOp::RShift),
        T::Plus => (5, BinOp::Add),
        T::Minus => (5, BinOp::Sub),
        T::Star => (6, BinOp::Mul),
        T::Slash => (6, BinOp::Div),
        T::DoubleSlash => (6, BinOp::FloorDiv),
        T::Percent => (6, BinOp::Mod),
        T::At => (6, BinOp::MatMul),
        T::DoubleStar => (8, BinOp::Pow),
        _ => return None,
    })
}

impl Parser<'_> {
    pub(super) fn starts_expression(&self) -> bool {
        matches!(
            self.tok.kind,
            T::Cursor
                | T::Name
                | T::Int
                | T::Float
                | T::Complex
                | T::Str
                | T::Bytes
                | T::FStr
                | T::LParen
                | T::LBracket
                | T::LBrace
                | T::Dots3
                | T::Plus
                | T::Minus
                | T::Tilde
                | T::Star
                | T::KwFalse
                | T::KwNone
                | T::KwTrue
                | T::KwAwait
                | T::KwLambda
                | T::KwNot
                | T::KwYield
        )
    }

    /// Expressions separated by commas; a tuple when there is a comma.
    pub(super) fn expression_list(&mut self) -> ExprId {
        let start = self.tok.start;
        let first = self.star_or_named();
        if !self.at(T::Comma) {
            return first;
        }
        let mut items: Exprs = SmallVec::new();
        items.push(first);
        while self.eat(T::Comma) {
            if !self.starts_expression() {
                break;
            }
            if self.target_start != u32::MAX {
                self.target_start = self.tok.start;
            }
            items.push(self.star_or_named());
        }
        let items = self.expr_run(&items);
        let end = self.prev_end;
        self.expr(ExprKind::Tuple { items }, start, end)
    }

    pub(super) fn star_or_named(&mut self) -> ExprId {
        if self.at(T::Star) {
            let start = self.tok.start;
            self.advance();
            if self.target_start != u32::MAX {
                self.target_start = self.tok.start;
            }
            let value = self.or_expression();
            let end = self.end_of(value);
            return self.expr(ExprKind::Starred(value), start, end);
        }
        if self.at(T::KwYield) {
            return self.yield_expression();
        }
        self.named()
    }

    /// `test` or `name := test`.
    pub(super) fn named(&mut self) -> ExprId {
        let target = self.test();
        if self.at(T::ColonEq) && matches!(self.ast.kind(target), ExprKind::Name(_)) {
            self.advance();
            let value = self.test();
            let (start, end) = (self.start_of(target), self.end_of(value));
            let id = self.expr(ExprKind::Walrus { target, value }, start, end);
            self.ast.walruses.push(id);
            return id;
        }
        target
    }

    pub(super) fn yield_expression(&mut self) -> ExprId {
        let start = self.tok.start;
        self.advance();
        self.has_yield = true;
        self.target_start = u32::MAX;
        if self.eat(T::KwFrom) {
            let value = self.test();
            let end = self.end_of(value);
            return self.expr(ExprKind::YieldFrom(value), start, end);
        }
        let value = if self.starts_expression() { self.expression_list() } else { ExprId::NONE };
        let end = self.prev_end;
        self.expr(ExprKind::Yield(value), start, end)
    }

    pub(super) fn test(&mut self) -> ExprId {
        if self.enter().is_none() {
            let id = self.missing();
            self.skip_nested();
            return id;
        }
        let id = self.test_inner();
        self.leave();
        id
    }

    /// Too deep: skip to the token that may end the enclosing construct.
    pub(super) fn skip_nested(&mut self) {
        let mut depth = 0u32;
        loop {
            match self.tok.kind {
                T::Newline | T::Eof | T::Indent | T::Dedent | T::Cursor => return,
                T::LParen | T::LBracket | T::LBrace => depth += 1,
                T::RParen | T::RBracket | T::RBrace => {
                    if depth == 0 {
                        return;
                    }
                    depth -= 1;
                }
                _ => {}
            }
            self.advance();
        }
    }

    pub(super) fn test_inner(&mut self) -> ExprId {
        if self.at(T::KwLambda) {
            return self.lambda();
        }
        let body = self.or_test();
        if !self.at(T::KwIf) {
            return body;
        }
        self.advance();
        self.target_start = u32::MAX;
        let test = self.or_test();
        let orelse = if self.eat(T::KwElse) {
            self.guards.push((test, false));
            let orelse = self.test();
            self.guards.pop();
            orelse
        } else {
            self.error("expected 'else' in a conditional expression");
            self.missing()
        };
        let (start, end) = (self.start_of(body), self.end_of(orelse));
        self.expr(ExprKind::IfElse { test, body, orelse }, start, end)
    }

    pub(super) fn lambda(&mut self) -> ExprId {
        let start = self.tok.start;
        self.advance();
        self.target_start = u32::MAX;
        let params = self.parameters(T::Colon, false);
        self.expect(T::Colon, "expected ':' after the parameters of a lambda");
        self.frames.push(ExprFrame::Lambda { params });
        let outer_yield = self.has_yield;
        let body = self.test();
        self.has_yield = outer_yield;
        self.frames.pop();
        let lambda = self.ast.lambdas.len() as u32;
        self.ast.lambdas.push(Lambda { params, body });
        let end = self.end_of(body);
        self.expr(ExprKind::Lambda { lambda }, start, end)
    }

    pub(super) fn or_test(&mut self) -> ExprId {
        let first = self.and_test();
        if !self.at(T::KwOr) {
            return first;
        }
        let mut operands: Exprs = SmallVec::new();
        operands.push(first);
        let n_guards = self.guards.len();
        while self.eat(T::KwOr) {
            self.target_start = u32::MAX;
            let test = operands[operands.len() - 1];
            self.guards.push((test, false));
            operands.push(self.and_test());
        }
        self.guards.truncate(n_guards);
        let (start, end) = (self.start_of(first), self.prev_end);
        let operands = self.expr_run(&operands);
        self.expr(ExprKind::Or { operands }, start, end)
    }

    pub(super) fn and_test(&mut self) -> ExprId {
        let first = self.not_test();
        if !self.at(T::KwAnd) {
            return first;
        }
        let mut operands: Exprs = SmallVec::new();
        operands.push(first);
        let n_guards = self.guards.len();
        while self.eat(T::KwAnd) {
            self.target_start = u32::MAX;
            let test = operands[operands.len() - 1];
            self.guards.push((test, true));
            operands.push(self.not_test());
        }
        self.guards.truncate(n_guards);
        let (start, end) = (self.start_of(first), self.prev_end);
        let operands = self.expr_run(&operands);
        self.expr(ExprKind::And { operands }, start, end)
    }

    pub(super) fn not_test(&mut self) -> ExprId {
        let mut starts: SmallVec<[u32; 4]> = SmallVec::new();
        while self.at(T::KwNot) {
            starts.push(self.tok.start);
            self.advance();
            self.target_start = u32::MAX;
        }
        let mut id = self.comparison();
        let end = self.end_of(id);
        for start in starts.into_iter().rev() {
            id = self.expr(ExprKind::Unary { op: UnaryOp::Not, operand: id }, start, end);
        }
        id
    }

    pub(super) fn comparison(&mut self) -> ExprId {
        let first = self.or_expression();
        let Some(op) = self.comparison_operator() else {
            return first;
        };
        self.target_start = u32::MAX;
        let right = self.or_expression();
        let start = self.start_of(first);
        let end = self.end_of(right);
        let id = self.expr(ExprKind::Compare { op, left: first, right }, start, end);
        let mut last = right;
        let mut operands: Exprs = SmallVec::new();
        operands.push(id);
        // a < b < c is (a < b) and (b < c), with b evaluated once.
        while let Some(op) = self.comparison_operator() {
            let right = self.or_expression();
            let (start, end) = (self.start_of(last), self.end_of(right));
            operands.push(self.expr(ExprKind::Compare { op, left: last, right }, start, end));
            last = right;
        }
        if operands.len() == 1 {
            return id;
        }
        let end = self.end_of(last);
        let operands = self.expr_run(&operands);
        self.expr(ExprKind::And { operands }, start, end)
    }

    pub(super) fn comparison_operator(&mut self) -> Option<CmpOp> {
        let op = match self.tok.kind {
            T::EqEq => CmpOp::Eq,
            T::NotEq => CmpOp::NotEq,
            T::Lt => CmpOp::Lt,
            T::LtE => CmpOp::LtE,
            T::Gt => CmpOp::Gt,
            T::GtE => CmpOp::GtE,
            T::KwIn => CmpOp::In,
            T::KwIs => {
                self.advance();
                return Some(if self.eat(T::KwNot) { CmpOp::IsNot } else { CmpOp::Is });
            }
            T::KwNot => {
                self.advance();
                self.expect(T::KwIn, "expected 'in' after 'not'");
                return Some(CmpOp::NotIn);
            }
            _ => return None,
        };
        self.advance();
        Some(op)
    }

    /// A binary expression (what may stand on either side of a comparison).
    pub(super) fn or_expression(&mut self) -> ExprId {
        self.binary_from(1)
    }

    /// A binary expression without `|`, which separates alternatives in patterns.
    pub(super) fn sum_without_bar(&mut self) -> ExprId {
        self.binary_from(2)
    }

    pub(super) fn binary_from(&mut self, min: u8) -> ExprId {
        let mut left = self.unary();
        while let Some((precedence, op)) = binary(self.tok.kind) {
            if precedence < min || op == BinOp::Pow {
                break;
            }
            self.advance();
            self.target_start = u32::MAX;
            let right = self.binary_from(precedence + 1);
            let (start, end) = (self.start_of(left), self.end_of(right));
            left = self.expr(ExprKind::Binary { op, left, right }, start, end);
        }
        left
    }

    pub(super) fn unary(&mut self) -> ExprId {
        let mut prefix: SmallVec<[(UnaryOp, u32); 4]> = SmallVec::new();
        loop {
            let op = match self.tok.kind {
                T::Plus => UnaryOp::Plus,
                T::Minus => UnaryOp::Minus,
                T::Tilde => UnaryOp::Invert,
                _ => break,
            };
            prefix.push((op, self.tok.start));
            self.advance();
            self.target_start = u32::MAX;
        }
        let mut id = self.power();
        let end = self.end_of(id);
        for (op, start) in prefix.into_iter().rev() {
            id = self.expr(ExprKind::Unary { op, operand: id }, start, end);
        }
        id
    }

    pub(super) fn power(&mut self) -> ExprId {
        let start = self.tok.start;
        let base = if self.at(T::KwAwait) {
            self.advance();
            self.target_start = u32::MAX;
            let value = self.primary();
            let end = self.end_of(value);
            self.expr(ExprKind::Await(value), start, end)
        } else {
            self.primary()
        };
        if !self.at(T::DoubleStar) {
            return base;
        }
        self.advance();
        self.target_start = u32::MAX;
        if self.enter().is_none() {
            let id = self.missing();
            self.skip_nested();
            return id;
        }
        let right = self.unary();
        self.leave();
        let end = self.end_of(right);
        self.expr(ExprKind::Binary { op: BinOp::Pow, left: base, right }, start, end)
    }

    pub(super) fn primary(&mut self) -> ExprId {
        let mut id = self.atom();
        loop {
            let start = self.start_of(id);
            match self.tok.kind {
                T::Dot => {
                    let after_dot = self.tok.end;
                    self.advance();
                    match self.tok.kind {
                        T::Name => {
                            let name = self.name_of(self.tok);
                            let end = self.tok.end;
                            self.advance();
                            id = self.expr(ExprKind::Attribute { value: id, name }, start, end);
                        }
                        T::Cursor => {
                            let at_statement_start = self.target_start == start;
                            self.record_cursor(CursorSite::Member {
                                value: id,
                                at_statement_start,
                            });
                            let end = self.tok.start;
                            self.advance();
                            id = self.expr(
                                ExprKind::Attribute { value: id, name: Name::CURSOR },
                                start,
                                end,
                            );
                        }
                        kind => {
                            self.error("expected a name after '.'");
                            // A keyword on the same line was meant as the name.
                            let same_line = kind.is_keyword() && !self.tok.first_on_line;
                            let name = if same_line && self.tok.start == after_dot {
                                let name = self.name_of(self.tok);
                                self.advance();
                                name
                            } else {
                                Name::EMPTY
                            };
                            let end = self.prev_end;
                            id = self.expr(ExprKind::Attribute { value: id, name }, start, end);
                        }
                    }
                }
                T::LParen => {
                    let outer = std::mem::replace(&mut self.target_start, u32::MAX);
                    self.advance();
                    let args = self.arguments(id);
                    self.expect(T::RParen, "expected ')'");
                    let end = self.prev_end;
                    let func = id;
                    id = self.expr(ExprKind::Call { func, args }, start, end);
                    self.target_start = outer;
                    if let ExprKind::Name(name) = self.ast.kind(func)
                        && is_reflective(name)
                    {
                        self.ast.reflective_calls.push(id);
                    }
                }
                T::LBracket => {
                    let outer = std::mem::replace(&mut self.target_start, u32::MAX);
                    self.advance();
                    let index = self.subscript_index();
                    self.expect(T::RBracket, "expected ']'");
                    let end = self.prev_end;
                    id = self.expr(ExprKind::Subscript { value: id, index }, start, end);
                    self.target_start = outer;
                }
                _ => return id,
            }
        }
    }

    pub(super) fn subscript_index(&mut self) -> ExprId {
        let start = self.tok.start;
        let first = self.subscript_item();
        if !self.at(T::Comma) {
            return first;
        }
        let mut items: Exprs = SmallVec::new();
        items.push(first);
        while self.eat(T::Comma) {
            if !self.starts_expression() && !self.at(T::Colon) {
                break;
            }
            items.push(self.subscript_item());
        }
        let items = self.expr_run(&items);
        let end = self.prev_end;
        self.expr(ExprKind::Tuple { items }, start, end)
    }

    pub(super) fn subscript_item(&mut self) -> ExprId {
        let start = self.tok.start;
        let mut parts: Exprs = SmallVec::new();
        if !self.at(T::Colon) {
            if !self.starts_expression() {
                self.error("expected an index");
                return self.missing();
            }
            let value = self.star_or_named();
            if !self.at(T::Colon) {
                return value;
            }
            parts.push(value);
        }
        while self.eat(T::Colon) {
            if self.starts_expression() {
                parts.push(self.test());
            }
        }
        let parts = self.expr_run(&parts);
        let end = self.prev_end;
        self.expr(ExprKind::Slice { parts }, start, end)
    }

    /// Arguments up to (not including) the closing parenthesis. `func` is what is called.
    pub(super) fn arguments(&mut self, func: ExprId) -> Run {
        let mut args: SmallVec<[Arg; 8]> = SmallVec::new();
        loop {
            let start = self.tok.start;
            let at_cursor = self.at(T::Cursor);
            let (kind, value) = match self.tok.kind {
                T::RParen | T::Newline | T::Eof | T::Indent | T::Dedent => break,
                T::Star => {
                    self.advance();
                    (ArgKind::Star, self.test())
                }
                T::DoubleStar => {
                    self.advance();
                    (ArgKind::DoubleStar, self.test())
                }
                _ if !self.starts_expression() => {
                    self.error("expected an argument");
                    if !self.recover_in_brackets(T::RParen) {
                        break;
                    }
                    continue;
                }
                _ => {
                    let value = self.named();
                    match self.ast.kind(value) {
                        ExprKind::Name(name) if self.at(T::Assign) => {
                            self.advance();
                            (ArgKind::Keyword(name), self.test())
                        }
                        _ if matches!(self.tok.kind, T::KwFor | T::KwAsync) => {
                            let id =
                                self.comprehension(CompKind::Generator, value, ExprId::NONE, start);
                            (ArgKind::Positional, id)
                        }
                        _ => (ArgKind::Positional, value),
                    }
                }
            };
            if at_cursor
                && let Some(cursor) = &mut self.ast.cursor
                && cursor.call.is_none()
            {
                let args = args.to_vec();
                cursor.call = Some(CursorCall { func, args, at_argument_start: true });
            }
            args.push(Arg { kind, value, start });
            if self.eat(T::Comma) {
                continue;
            }
            if self.at(T::RParen) {
                break;
            }
            self.error("expected ',' or ')'");
            if !self.recover_in_brackets(T::RParen) {
                break;
            }
        }
        run(&mut self.ast.args, &args)
    }

    /// After a fault between brackets: go to the next comma (taken) or stop before the closer or the
    /// end of the line. True when a comma was found.
    pub(super) fn recover_in_brackets(&mut self, closer: T) -> bool {
        let mut depth = 0u32;
        loop {
            match self.tok.kind {
                T::Newline | T::Eof | T::Indent | T::Dedent | T::Cursor => return false,
                _ if self.tok.first_on_line => return false,
                kind if kind == closer && depth == 0 => return false,
                T::Comma if depth == 0 => {
                    self.advance();
                    return true;
                }
                T::LParen | T::LBracket | T::LBrace => depth += 1,
                T::RParen | T::RBracket | T::RBrace => {
                    if depth == 0 {
                        return false;
                    }
                    depth -= 1;
                }
                _ => {}
            }
            self.advance();
        }
    }
}
