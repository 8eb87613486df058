//! Patterns of `match` statements, parameters, and type parameters.
//!
//! # Place
//! Adds to the parser what binds names without being an assignment.

use super::ast::*;
use super::lexer::T;
use super::parser::{Parser, run};
use crate::repo::name::Name;
use smallvec::SmallVec;

type Patterns = SmallVec<[PatId; 4]>;

impl Parser<'_> {
    fn pattern_node(&mut self, kind: PatternKind, start: u32) -> PatId {
        let id = PatId(self.ast.patterns.len() as u32);
        let end = self.prev_end.max(start);
        self.ast.patterns.push(Pattern { kind, span: Span { start, end } });
        id
    }

    /// The pattern after `case`: an open sequence when there is a comma.
    pub(super) fn case_pattern(&mut self) -> PatId {
        let start = self.tok.start;
        let first = self.as_pattern();
        if !self.at(T::Comma) {
            return first;
        }
        let mut items: Patterns = SmallVec::new();
        items.push(first);
        while self.eat(T::Comma) {
            if matches!(self.tok.kind, T::Colon | T::KwIf | T::Newline | T::Eof) {
                break;
            }
            items.push(self.as_pattern());
        }
        let patterns = run(&mut self.ast.pattern_lists, &items);
        self.pattern_node(PatternKind::Sequence { patterns }, start)
    }

    fn as_pattern(&mut self) -> PatId {
        let start = self.tok.start;
        if self.enter().is_none() {
            self.skip_line();
            return self.pattern_node(PatternKind::Capture(None), start);
        }
        let pattern = self.or_pattern();
        self.leave();
        if !self.eat(T::KwAs) {
            return pattern;
        }
        if self.cursor_defines() {
            return pattern;
        }
        if !self.at(T::Name) {
            self.error("expected a name after 'as'");
            return pattern;
        }
        let name = self.name_of(self.tok);
        self.advance();
        self.pattern_node(PatternKind::As { pattern, name }, start)
    }

    fn or_pattern(&mut self) -> PatId {
        let start = self.tok.start;
        let first = self.closed_pattern();
        if !self.at(T::Pipe) {
            return first;
        }
        let mut items: Patterns = SmallVec::new();
        items.push(first);
        while self.eat(T::Pipe) {
            items.push(self.closed_pattern());
        }
        let patterns = run(&mut self.ast.pattern_lists, &items);
        self.pattern_node(PatternKind::Or { patterns }, start)
    }

    fn closed_pattern(&mut self) -> PatId {
        let start = self.tok.start;
        match self.tok.kind {
            T::Name => self.name_pattern(),
            T::Cursor => {
                self.record_cursor(CursorSite::Pattern);
                self.advance();
                self.pattern_node(PatternKind::Capture(None), start)
            }
            T::Star => {
                self.advance();
                let name = self.capture_name();
                self.pattern_node(PatternKind::Star(name), start)
            }
            T::LParen | T::LBracket => {
                let closer = if self.at(T::LParen) { T::RParen } else { T::RBracket };
                self.advance();
                let mut items: Patterns = SmallVec::new();
                let mut comma = false;
                while !matches!(self.tok.kind, T::RParen | T::RBracket | T::Newline | T::Eof) {
                    items.push(self.as_pattern());
                    if !self.eat(T::Comma) {
                        break;
                    }
                    comma = true;
                }
                self.expect(closer, "a bracket is not closed");
                if closer == T::RParen && items.len() == 1 && !comma {
                    return items[0];
                }
                let patterns = run(&mut self.ast.pattern_lists, &items);
                self.pattern_node(PatternKind::Sequence { patterns }, start)
            }
            T::LBrace => self.mapping_pattern(),
            _ => {
                let value = self.or_pattern_value();
                self.pattern_node(PatternKind::Value(value), start)
            }
        }
    }

    /// A literal: signed and complex numbers are sums, so `|` must not be taken for an operator.
    fn or_pattern_value(&mut self) -> ExprId {
        let before = self.tok.start;
        let value = self.sum_without_bar();
        if self.tok.start == before && !matches!(self.tok.kind, T::Newline | T::Eof | T::Colon) {
            self.advance();
        }
        value
    }

    fn capture_name(&mut self) -> Option<Name> {
        if self.cursor_defines() {
            return None;
        }
        if !self.at(T::Name) {
            self.error("expected a name");
            return None;
        }
        let name = self.name_of(self.tok);
        self.advance();
        (name != Name::UNDERSCORE).then_some(name)
    }

    fn name_pattern(&mut self) -> PatId {
        let start = self.tok.start;
        let name = self.name_of(self.tok);
        let end = self.tok.end;
        self.advance();
        if !matches!(self.tok.kind, T::Dot | T::LParen) {
            let capture = (name != Name::UNDERSCORE).then_some(name);
            return self.pattern_node(PatternKind::Capture(capture), start);
        }
        let mut class = self.expr(ExprKind::Name(name), start, end);
        while self.eat(T::Dot) {
            if self.at(T::Cursor) {
                self.record_cursor(CursorSite::Member { value: class, at_statement_start: false });
                self.advance();
                break;
            }
            if !self.at(T::Name) {
                self.error("expected a name after '.'");
                break;
            }
            let name = self.name_of(self.tok);
            let end = self.tok.end;
            self.advance();
            class = self.expr(ExprKind::Attribute { value: class, name }, start, end);
        }
        if !self.eat(T::LParen) {
            return self.pattern_node(PatternKind::Value(class), start);
        }
        let mut positional: Patterns = SmallVec::new();
        let mut keywords: SmallVec<[(Name, PatId); 4]> = SmallVec::new();
        while !matches!(self.tok.kind, T::RParen | T::Newline | T::Eof) {
            let pattern = self.as_pattern();
            let captured = match self.ast.pattern(pattern).kind {
                PatternKind::Capture(name) => name,
                _ => None,
            };
            if self.eat(T::Assign) {
                let value = self.as_pattern();
                if let Some(name) = captured {
                    keywords.push((name, value));
                }
            } else {
                positional.push(pattern);
            }
            if !self.eat(T::Comma) {
                break;
            }
        }
        self.expect(T::RParen, "expected ')'");
        let patterns = run(&mut self.ast.pattern_lists, &positional);
        let keywords = run(&mut self.ast.pattern_keywords, &keywords);
        self.pattern_node(PatternKind::Class { class, patterns, keywords }, start)
    }

    fn mapping_pattern(&mut self) -> PatId {
        let start = self.tok.start;
        self.advance();
        let mut values: Patterns = SmallVec::new();
        let mut rest = None;
        while !matches!(self.tok.kind, T::RBrace | T::Newline | T::Eof) {
            if self.eat(T::DoubleStar) {
                rest = self.capture_name();
            } else {
                let _key = self.sum_without_bar();
                if !self.expect(T::Colon, "expected ':' in a mapping pattern") {
                    break;
                }
                values.push(self.as_pattern());
            }
            if !self.eat(T::Comma) {
                break;
            }
        }
        self.expect(T::RBrace, "expected '}'");
        let patterns = run(&mut self.ast.pattern_lists, &values);
        self.pattern_node(PatternKind::Mapping { patterns, rest }, start)
    }

    /// Parameters up to (not including) `closer`.
    pub(super) fn parameters(&mut self, closer: T, annotated: bool) -> Run {
        let mut params: SmallVec<[Param; 8]> = SmallVec::new();
        let mut kind = ParamKind::Normal;
        while !self.at(closer) {
            let start = self.tok.start;
            match self.tok.kind {
                T::Slash => {
                    self.advance();
                    for param in &mut params {
                        if param.kind == ParamKind::Normal {
                            param.kind = ParamKind::PositionalOnly;
                        }
                    }
                }
                T::Star => {
                    self.advance();
                    kind = ParamKind::KeywordOnly;
                    if self.at(T::Name) {
                        params.push(self.parameter(ParamKind::VarArgs, annotated));
                    } else if self.cursor_defines() {
                        break;
                    }
                }
                T::DoubleStar => {
                    self.advance();
                    if self.at(T::Name) {
                        params.push(self.parameter(ParamKind::VarKeywords, annotated));
                    } else if self.cursor_defines() {
                        break;
                    }
                }
                T::Name => params.push(self.parameter(kind, annotated)),
                T::Cursor => {
                    self.cursor_defines();
                    break;
                }
                T::Newline | T::Eof | T::Indent | T::Dedent => break,
                _ => {
                    self.error("expected a parameter");
                    if self.tok.first_on_line || self.at(T::RParen) || self.at(T::Colon) {
                        break;
                    }
                    self.advance();
                }
            }
            if !self.eat(T::Comma) {
                if self.at(closer) || self.at(T::Cursor) {
                    break;
                }
                self.error("expected ',' between parameters");
                if self.tok.start == start || self.tok.first_on_line || self.tok.kind.is_keyword() {
                    break;
                }
            }
        }
        run(&mut self.ast.params, &params)
    }

    fn parameter(&mut self, kind: ParamKind, annotated: bool) -> Param {
        let start = self.tok.start;
        let name = self.name_of(self.tok);
        self.advance();
        let annotation =
            if annotated && self.eat(T::Colon) { self.star_or_named() } else { ExprId::NONE };
        let default = if self.eat(T::Assign) { self.test() } else { ExprId::NONE };
        Param { name, kind, annotation, default, start }
    }

    /// `[T: bound = default, *Ts, **P]`, when it is there.
    pub(super) fn type_parameters(&mut self) -> Run {
        if !self.eat(T::LBracket) {
            return Run::default();
        }
        let mut params: SmallVec<[TypeParam; 4]> = SmallVec::new();
        loop {
            if matches!(self.tok.kind, T::Star | T::DoubleStar) {
                self.advance();
            }
            if !self.at(T::Name) {
                break;
            }
            let (name, start) = (self.name_of(self.tok), self.tok.start);
            self.advance();
            let bound = if self.eat(T::Colon) { self.test() } else { ExprId::NONE };
            let default = if self.eat(T::Assign) { self.test() } else { ExprId::NONE };
            params.push(TypeParam { name, bound, default, start });
            if !self.eat(T::Comma) {
                break;
            }
        }
        self.expect(T::RBracket, "expected ']'");
        run(&mut self.ast.type_params, &params)
    }
}
