//! The parser's state and the small steps that every construct is made of.
//!
//! # Place
//! Uses the lexer and the tree. `statement`, `expression` and `pattern` add the grammar.

use super::ast::*;
use super::lexer::{Hole, Lexer, T, Token};
use crate::repo::name::Name;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Deepest nesting of expressions and blocks together; CPython gives up earlier.
const DEPTH_MAX: u32 = 220;
/// Syntax errors kept per file.
const ERRORS_MAX: usize = 100;

pub(super) type Exprs = SmallVec<[ExprId; 8]>;
pub(super) type Stmts = SmallVec<[StmtId; 16]>;

/// What part of a text is parsed.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub(crate) range: std::ops::Range<usize>,
    /// The completion cursor, when there is one.
    pub(crate) hole: Option<Hole>,
}

impl Region {
    pub(crate) fn whole(text: &str) -> Self {
        Self { range: 0..text.len(), hole: None }
    }
}

/// Parse a region of `text` as a module.
pub(crate) fn parse(text: &str, region: &Region) -> Ast {
    let n_bytes = region.range.len();
    let mut ast = Ast::default();
    // Measured over large packages: one expression per 7 bytes, one statement per 40.
    ast.exprs.reserve(n_bytes / 8);
    ast.stmts.reserve(n_bytes / 40);
    let mut parser = Parser {
        lx: Lexer::new(text, region.range.clone(), region.hole),
        src: text,
        tok: Token { kind: T::Newline, start: 0, end: 0, first_on_line: false },
        prev_end: 0,
        ast,
        names: FxHashMap::default(),
        depth: 0,
        has_yield: false,
        frames: Vec::new(),
        guards: Vec::new(),
        target_start: u32::MAX,
        last_break: u32::MAX,
    };
    parser.advance();
    let body = parser.statements_until_eof();
    parser.ast.body = body;
    parser.ast.docstring = parser.docstring(body);
    if parser.ast.cursor.is_none() && region.hole.is_some() {
        parser.record_cursor(CursorSite::Literal);
    }
    parser.ast.shrink();
    parser.ast
}

pub(super) struct Parser<'s> {
    pub(super) lx: Lexer<'s>,
    pub(super) src: &'s str,
    pub(super) tok: Token,
    /// End of the last token that was taken.
    pub(super) prev_end: u32,
    pub(super) ast: Ast,
    names: FxHashMap<&'s str, Name>,
    depth: u32,
    /// A `yield` was met in the function being parsed.
    pub(super) has_yield: bool,
    pub(super) frames: Vec<ExprFrame>,
    /// Tests that were passed before the place in the expression being read.
    pub(super) guards: Vec<(ExprId, bool)>,
    /// Start of an expression that may turn out to be assigned to.
    pub(super) target_start: u32,
    /// Where brackets were last given up.
    last_break: u32,
}

impl<'s> Parser<'s> {
    pub(super) fn advance(&mut self) {
        if !matches!(self.tok.kind, T::Newline | T::Indent | T::Dedent) {
            self.prev_end = self.tok.end;
        }
        self.tok = self.lx.next();
    }

    pub(super) fn at(&self, kind: T) -> bool {
        self.tok.kind == kind
    }

    pub(super) fn eat(&mut self, kind: T) -> bool {
        let found = self.tok.kind == kind;
        if found {
            self.advance();
        }
        found
    }

    pub(super) fn expect(&mut self, kind: T, message: &'static str) -> bool {
        let found = self.eat(kind);
        if !found {
            self.error(message);
        }
        found
    }

    /// Report a fault at the current token, the first of its line: those after it follow from it. The
    /// cursor itself is no fault.
    pub(super) fn error(&mut self, message: &'static str) {
        if self.tok.kind == T::Cursor || self.ast.errors.len() >= ERRORS_MAX {
            return;
        }
        let span = self.tok.span();
        let on_new_line = |last: &SyntaxError| {
            let between = self.src.as_bytes().get(last.span.start as usize..span.start as usize);
            between.is_none_or(|b| b.iter().any(|c| matches!(c, b'\n' | b'\r')))
        };
        if self.ast.errors.last().is_none_or(on_new_line) {
            self.ast.errors.push(SyntaxError { span, message });
        }
    }

    pub(super) fn text(&self, token: Token) -> &'s str {
        // Tokens begin and end at ASCII bytes or at the ends of runs of non-ASCII ones.
        self.src.get(token.start as usize..token.end as usize).unwrap_or("")
    }

    pub(super) fn name_of(&mut self, token: Token) -> Name {
        let text = self.text(token);
        if let Some(&name) = self.names.get(text) {
            return name;
        }
        let name = Name::new(text);
        self.names.insert(text, name);
        name
    }

    pub(super) fn expr(&mut self, kind: ExprKind, start: u32, end: u32) -> ExprId {
        let id = ExprId(self.ast.exprs.len() as u32);
        self.ast.exprs.push(Expr { kind, span: Span { start, end } });
        id
    }

    pub(super) fn missing(&mut self) -> ExprId {
        let at = self.tok.start;
        self.expr(ExprKind::Missing, at, at)
    }

    pub(super) fn start_of(&self, id: ExprId) -> u32 {
        self.ast.exprs[id.index()].span.start
    }

    pub(super) fn end_of(&self, id: ExprId) -> u32 {
        self.ast.exprs[id.index()].span.end
    }

    pub(super) fn expr_run(&mut self, items: &[ExprId]) -> Run {
        run(&mut self.ast.expr_lists, items)
    }

    pub(super) fn stmt_run(&mut self, items: &[StmtId]) -> Run {
        run(&mut self.ast.stmt_lists, items)
    }

    /// Enter one level of nesting; `None` when it is too deep.
    pub(super) fn enter(&mut self) -> Option<()> {
        if self.depth >= DEPTH_MAX {
            self.error("too deeply nested");
            return None;
        }
        self.depth += 1;
        Some(())
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    pub(super) fn record_cursor(&mut self, site: CursorSite) {
        let frames = self.frames.clone();
        let guards = self.guards.clone();
        self.ast.cursor = Some(Box::new(Cursor { site, call: None, frames, guards }));
    }

    /// At the cursor where only a new name may stand: note it and go on.
    pub(super) fn cursor_defines(&mut self) -> bool {
        if self.at(T::Cursor) {
            self.record_cursor(CursorSite::Definition);
            self.advance();
            return true;
        }
        false
    }

    /// Skip the rest of a logical line that did not parse. Inside brackets the next physical line is
    /// taken for a new statement.
    pub(super) fn skip_line(&mut self) {
        loop {
            match self.tok.kind {
                T::Newline | T::Eof | T::Indent | T::Dedent => return,
                T::Cursor => {
                    let start = self.tok.start;
                    let id = self.expr(ExprKind::Name(Name::CURSOR), start, start);
                    self.record_cursor(CursorSite::Name { expr: id, at_statement_start: false });
                }
                // Once at each place: whatever the grammar does, the text is used up.
                _ if self.tok.first_on_line && self.tok.start != self.last_break => {
                    self.last_break = self.tok.start;
                    self.lx.break_brackets(self.tok.start as usize);
                    self.tok = Token { kind: T::Newline, first_on_line: false, ..self.tok };
                    return;
                }
                _ => {}
            }
            self.advance();
        }
    }

    pub(super) fn docstring(&self, body: Run) -> Option<Span> {
        let first = *self.ast.stmt_lists.get(body.range())?.first()?;
        let StmtKind::Expr(expr) = self.ast.stmts[first.index()].kind else {
            return None;
        };
        let expr = &self.ast.exprs[expr.index()];
        matches!(expr.kind, ExprKind::Str).then_some(expr.span)
    }
}

/// Append `items` to a list arena.
pub(super) fn run<I: Copy>(arena: &mut Vec<I>, items: &[I]) -> Run {
    let start = arena.len() as u32;
    arena.extend_from_slice(items);
    Run { start, len: items.len() as u32 }
}
