//! Which bindings of a name reach a place, and which conditions hold there.
//!
//! # Place
//! Uses `scope` and `syntax` only: no types. Used by name lookup and narrowing.
//! # Invariants
//! - The bindings returned are a superset of those that can reach the place at run time: whatever
//!   is not understood lets a binding through.
//! # Sources
//! Structural reaching definitions over Python's statements, which have no jumps into blocks.

use crate::repo::name::Name;
use crate::repo::scope::{BindKind, Binding};
use crate::repo::syntax::*;
use smallvec::SmallVec;

/// A condition that holds between a binding and the place, newest first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Constraint {
    Test {
        test: ExprId,
        holds: bool,
    },
    /// The subject of a match statement is matched by this case's pattern.
    Case {
        stmt: StmtId,
        case: u32,
    },
}

pub(super) type Constraints = SmallVec<[Constraint; 4]>;

#[derive(Debug, Default)]
pub(super) struct Reaching {
    pub(super) bindings: SmallVec<[(Binding, Constraints); 2]>,
    /// Nothing between the start of the scope and the place binds the name for certain; with the
    /// conditions on that way.
    pub(super) from_start: Option<Constraints>,
}

/// What is narrowed: a name, or a dotted path that begins with one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Path(pub(super) SmallVec<[Name; 3]>);

impl Path {
    pub(super) fn name(name: Name) -> Self {
        Self(SmallVec::from_slice(&[name]))
    }

    /// The path that an expression is, if it is one.
    pub(super) fn of(ast: &Ast, expr: ExprId) -> Option<Self> {
        let mut names: SmallVec<[Name; 3]> = SmallVec::new();
        let mut at = expr;
        loop {
            match ast.kind(at) {
                ExprKind::Name(name) => {
                    names.push(name);
                    names.reverse();
                    return Some(Self(names));
                }
                ExprKind::Attribute { value, name } if names.len() < 6 => {
                    names.push(name);
                    at = value;
                }
                _ => return None,
            }
        }
    }

    pub(super) fn is(&self, ast: &Ast, expr: ExprId) -> bool {
        let mut at = expr;
        for &part in self.0[1..].iter().rev() {
            match ast.kind(at) {
                ExprKind::Attribute { value, name } if name == part => at = value,
                _ => return false,
            }
        }
        matches!(ast.kind(at), ExprKind::Name(name) if name == self.0[0])
    }
}

/// One level of blocks around a place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    pub(crate) block: Run,
    /// The statement of the block that holds the place, or the number of statements before it.
    pub(crate) index: usize,
    /// How the block belongs to the statement one level up.
    pub(crate) role: Role,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Body,
    Branch(u32),
    Loop,
    LoopElse,
    Try,
    Handler(u32),
    TryElse,
    Finally,
    With,
    Case(u32),
}

/// The blocks around `pos` below `body`, outermost first.
pub(crate) fn enclosing_path(ast: &Ast, body: Run, pos: u32) -> SmallVec<[Level; 6]> {
    let mut path = SmallVec::new();
    let mut block = body;
    let mut role = Role::Body;
    loop {
        let stmts = ast.block(block);
        let upto = stmts.partition_point(|s| ast.stmt(*s).span.start <= pos);
        let inside = upto > 0 && pos <= ast.stmt(stmts[upto - 1]).span.end;
        let index = if inside { upto - 1 } else { upto };
        path.push(Level { block, index, role });
        if !inside {
            return path;
        }
        match inner_block(ast, stmts[index], pos) {
            Some((inner, inner_role)) => (block, role) = (inner, inner_role),
            None => return path,
        }
    }
}

fn covers(ast: &Ast, block: Run, pos: u32) -> bool {
    let stmts = ast.block(block);
    match (stmts.first(), stmts.last()) {
        (Some(first), Some(last)) => {
            ast.stmt(*first).span.start <= pos && pos <= ast.stmt(*last).span.end
        }
        _ => false,
    }
}

fn inner_block(ast: &Ast, stmt: StmtId, pos: u32) -> Option<(Run, Role)> {
    blocks_of(ast, stmt).into_iter().find(|(block, _)| covers(ast, *block, pos))
}

/// The blocks of a compound statement (not of definitions).
pub(super) fn blocks_of(ast: &Ast, stmt: StmtId) -> SmallVec<[(Run, Role); 4]> {
    let mut out = SmallVec::new();
    match ast.stmt(stmt).kind {
        StmtKind::If { branches } => {
            for i in branches.range() {
                out.push((ast.branches[i].body, Role::Branch(i as u32)));
            }
        }
        StmtKind::While { body, orelse, .. } => {
            out.push((body, Role::Loop));
            out.push((orelse, Role::LoopElse));
        }
        StmtKind::For { node } => {
            let node = &ast.fors[node as usize];
            out.push((node.body, Role::Loop));
            out.push((node.orelse, Role::LoopElse));
        }
        StmtKind::Try { node } => {
            let node = &ast.tries[node as usize];
            out.push((node.body, Role::Try));
            for i in node.handlers.range() {
                out.push((ast.handlers[i].body, Role::Handler(i as u32)));
            }
            out.push((node.orelse, Role::TryElse));
            out.push((node.finally, Role::Finally));
        }
        StmtKind::With { body, .. } => out.push((body, Role::With)),
        StmtKind::Match { cases, .. } => {
            for i in cases.range() {
                out.push((ast.cases[i].body, Role::Case(i as u32)));
            }
        }
        _ => {}
    }
    out
}

/// Does a block never reach its end?
pub(super) fn never_ends(ast: &Ast, block: Run) -> bool {
    let Some(&last) = ast.block(block).last() else {
        return false;
    };
    match ast.stmt(last).kind {
        StmtKind::Return(_) | StmtKind::Raise { .. } | StmtKind::Continue | StmtKind::Break => true,
        StmtKind::If { branches } => {
            let list = &ast.branches[branches.range()];
            list.last().is_some_and(|b| b.test == ExprId::NONE)
                && list.iter().all(|b| never_ends(ast, b.body))
        }
        StmtKind::With { body, .. } => never_ends(ast, body),
        StmtKind::Try { node } => {
            let node = &ast.tries[node as usize];
            let handlers = &ast.handlers[node.handlers.range()];
            never_ends(ast, node.finally)
                || ((never_ends(ast, node.body) || never_ends(ast, node.orelse))
                    && handlers.iter().all(|h| never_ends(ast, h.body)))
        }
        StmtKind::Expr(call) => is_exit_call(ast, call),
        _ => false,
    }
}

fn is_exit_call(ast: &Ast, expr: ExprId) -> bool {
    let ExprKind::Call { func, .. } = ast.kind(expr) else {
        return false;
    };
    match ast.kind(func) {
        ExprKind::Name(name) => matches!(name.as_str(), "exit" | "quit"),
        ExprKind::Attribute { value, name } => {
            matches!(ast.kind(value), ExprKind::Name(Name::SYS)) && name.as_str() == "exit"
        }
        _ => false,
    }
}

struct Walk<'a> {
    ast: &'a Ast,
    /// Bindings of the name in this scope, by position.
    bindings: &'a [Binding],
    /// Conditions are collected only in functions: a module is long and hardly narrows.
    with_conditions: bool,
    /// Paths that a condition must mention to be kept.
    root: Name,
    found: Reaching,
}

impl<'a> Walk<'a> {
    fn within(&self, start: u32, end: u32) -> &'a [Binding] {
        let from = self.bindings.partition_point(|b| b.pos < start);
        let to = self.bindings.partition_point(|b| b.pos <= end);
        &self.bindings[from..to.max(from)]
    }

    fn add(&mut self, binding: Binding, constraints: &Constraints) {
        if matches!(binding.kind, BindKind::Deleted) {
            return;
        }
        if !self.found.bindings.iter().any(|(b, c)| b.pos == binding.pos && c == constraints) {
            self.found.bindings.push((binding, constraints.clone()));
        }
    }

    fn add_all(&mut self, bindings: &[Binding], constraints: &Constraints) {
        for b in bindings {
            self.add(*b, constraints);
        }
    }

    /// Statements before `index`, last first. True when the name is bound for certain.
    fn siblings(&mut self, block: Run, index: usize, constraints: &mut Constraints) -> bool {
        let stmts = self.ast.block(block);
        let mut i = index.min(stmts.len());
        while i > 0 {
            if !self.with_conditions {
                // Jump to the last statement that binds the name.
                let end = match stmts.get(i) {
                    Some(next) => self.ast.stmt(*next).span.start,
                    None => self.ast.stmt(stmts[i - 1]).span.end.saturating_add(1),
                };
                let before = self.bindings.partition_point(|b| b.pos < end);
                let Some(last) = before.checked_sub(1).map(|b| self.bindings[b].pos) else {
                    return false;
                };
                let at = stmts.partition_point(|s| self.ast.stmt(*s).span.start <= last);
                if at == 0 || last > self.ast.stmt(stmts[at - 1]).span.end {
                    return false;
                }
                i = i.min(at);
            }
            i -= 1;
            if self.statement(stmts[i], constraints) {
                return true;
            }
        }
        false
    }

    /// One whole statement that was executed before. True when it binds the name for certain.
    fn statement(&mut self, id: StmtId, constraints: &mut Constraints) -> bool {
        let ast = self.ast;
        let stmt = ast.stmt(id);
        let inside = self.within(stmt.span.start, stmt.span.end);
        match stmt.kind {
            StmtKind::Assert { test, .. } if inside.is_empty() => {
                self.constrain(constraints, test, true);
                false
            }
            StmtKind::If { branches } => self.if_statement(branches, inside, constraints),
            _ if inside.is_empty() => false,
            StmtKind::While { test, body, orelse } => {
                let test_span = ast.expr(test).span;
                let in_test = self.within(test_span.start, test_span.end);
                self.block_exit(body, constraints);
                let killed = self.block_exit(orelse, constraints);
                if let Some(last) = in_test.last() {
                    self.add(*last, constraints);
                    return true;
                }
                // `while True:` is left from inside its body only.
                killed
                    || (matches!(ast.kind(test), ExprKind::True) && self.bound_before_breaks(body))
            }
            StmtKind::For { node } => {
                let node = &ast.fors[node as usize];
                let all = self.within(stmt.span.start, stmt.span.end);
                let body_start =
                    ast.block(node.body).first().map_or(stmt.span.end, |s| ast.stmt(*s).span.start);
                let killed = self.block_exit(node.orelse, constraints);
                // A loop may be left from anywhere in its body.
                self.block_any(node.body, constraints);
                let head: SmallVec<[Binding; 2]> =
                    all.iter().filter(|b| b.pos < body_start).copied().collect();
                let is_target = !head.is_empty();
                self.add_all(&head, constraints);
                killed || is_target
            }
            StmtKind::Try { node } => {
                let node = ast.tries[node as usize];
                if self.block_exit(node.finally, constraints) {
                    return true;
                }
                let mut killed = self.block_exit(node.orelse, constraints);
                let body_ends = !never_ends(ast, node.body) && !never_ends(ast, node.orelse);
                if body_ends {
                    killed |= self.block_exit(node.body, constraints);
                } else {
                    killed = true;
                }
                for handler in &ast.handlers[node.handlers.range()] {
                    if never_ends(ast, handler.body) {
                        continue;
                    }
                    let mut inner = constraints.clone();
                    if !self.block_exit(handler.body, &mut inner) {
                        killed = false;
                        self.block_any(node.body, constraints);
                    }
                }
                killed
            }
            StmtKind::With { body, .. } => {
                if self.block_exit(body, constraints) {
                    return true;
                }
                let body_start =
                    ast.block(body).first().map_or(stmt.span.end, |s| ast.stmt(*s).span.start);
                match inside.iter().rfind(|b| b.pos < body_start) {
                    Some(last) => {
                        self.add(*last, constraints);
                        true
                    }
                    None => false,
                }
            }
            StmtKind::Match { cases, .. } => {
                for case in &ast.cases[cases.range()] {
                    let mut inner = constraints.clone();
                    if !never_ends(ast, case.body) && !self.block_exit(case.body, &mut inner) {
                        let body_start = ast
                            .block(case.body)
                            .first()
                            .map_or(case.span.end, |s| ast.stmt(*s).span.start);
                        let captured = self.within(case.span.start, body_start);
                        self.add_all(captured, constraints);
                    }
                }
                false
            }
            StmtKind::Function(_) | StmtKind::Class(_) => {
                // Bindings inside belong to other scopes, except those of `global` declarations.
                let name_binding = inside
                    .iter()
                    .find(|b| matches!(b.kind, BindKind::Function(_) | BindKind::Class(_)));
                match name_binding {
                    Some(b) => {
                        self.add(*b, constraints);
                        true
                    }
                    None => {
                        self.add_all(inside, constraints);
                        false
                    }
                }
            }
            _ => {
                // A simple statement: its last binding of the name is the one that stays.
                let Some(last) = inside.last() else {
                    return false;
                };
                self.add(*last, constraints);
                !matches!(last.kind, BindKind::Walrus(_)) || inside.len() == 1
            }
        }
    }

    fn if_statement(
        &mut self,
        branches: Run,
        inside: &[Binding],
        constraints: &mut Constraints,
    ) -> bool {
        let ast = self.ast;
        let list = &ast.branches[branches.range()];
        let has_else = list.last().is_some_and(|b| b.test == ExprId::NONE);
        let mut all_killed = has_else;
        let mut leaving: SmallVec<[(usize, bool); 4]> = SmallVec::new();
        for (i, branch) in list.iter().enumerate() {
            if never_ends(ast, branch.body) {
                leaving.push((i, true));
                continue;
            }
            if inside.is_empty() {
                all_killed = false;
                continue;
            }
            let mut inner = constraints.clone();
            if !self.block_exit(branch.body, &mut inner) {
                all_killed = false;
            }
        }
        if all_killed && !inside.is_empty() {
            return true;
        }
        // Bindings in the conditions (walrus): the first test is always evaluated.
        if let Some(first) = list.first() {
            let span = ast.expr(first.test).span;
            if let Some(last) = self.within(span.start, span.end).last() {
                self.add(*last, constraints);
                return true;
            }
            for branch in &list[1..] {
                if let Some(test) = branch.test.some() {
                    let span = ast.expr(test).span;
                    let found = self.within(span.start, span.end);
                    self.add_all(found, constraints);
                }
            }
        }
        // Only the paths that go on matter for what was bound before.
        let open: SmallVec<[usize; 4]> =
            (0..list.len()).filter(|i| !leaving.iter().any(|(l, _)| l == i)).collect();
        if inside.is_empty() {
            if open.is_empty() && !has_else {
                // Every condition led away: none of them holds here.
                for branch in list {
                    self.constrain(constraints, branch.test, false);
                }
            } else if let [only] = open[..]
                && has_else
            {
                for branch in &list[..only] {
                    self.constrain(constraints, branch.test, false);
                }
                if let Some(test) = list[only].test.some() {
                    self.constrain(constraints, test, true);
                }
            } else if !has_else {
                // Conditions before the first branch that goes on.
                for branch in list.iter().take_while(|b| never_ends(ast, b.body)) {
                    self.constrain(constraints, branch.test, false);
                }
            }
        }
        false
    }

    fn constrain(&self, constraints: &mut Constraints, test: ExprId, holds: bool) {
        if self.with_conditions
            && let Some(test) = test.some()
            && constraints.len() < 16
            && mentions(self.ast, test, self.root)
        {
            constraints.push(Constraint::Test { test, holds });
        }
    }

    /// What a block leaves behind at its end. True when it binds the name for certain.
    fn block_exit(&mut self, block: Run, constraints: &mut Constraints) -> bool {
        let n = self.ast.block(block).len();
        n > 0 && self.siblings(block, n, constraints)
    }

    /// Every binding inside a block (it may be left anywhere).
    fn block_any(&mut self, block: Run, constraints: &Constraints) {
        let stmts = self.ast.block(block);
        if let (Some(first), Some(last)) = (stmts.first(), stmts.last()) {
            let found =
                self.within(self.ast.stmt(*first).span.start, self.ast.stmt(*last).span.end);
            self.add_all(found, constraints);
        }
    }

    /// Is the name bound by a top-level statement of the body before any `break`?
    fn bound_before_breaks(&self, body: Run) -> bool {
        let ast = self.ast;
        for &id in ast.block(body) {
            let stmt = ast.stmt(id);
            let simple = matches!(
                stmt.kind,
                StmtKind::Assign { .. }
                    | StmtKind::AnnAssign { .. }
                    | StmtKind::Import { .. }
                    | StmtKind::ImportFrom { .. }
            );
            if simple && !self.within(stmt.span.start, stmt.span.end).is_empty() {
                return true;
            }
            if !blocks_of(ast, id).is_empty() || matches!(stmt.kind, StmtKind::Break) {
                return false;
            }
        }
        false
    }

    /// From the place outwards to the start of the scope.
    fn outwards(&mut self, path: &[Level]) {
        let mut constraints = Constraints::new();
        for (depth, level) in path.iter().enumerate().rev() {
            if self.siblings(level.block, level.index, &mut constraints) {
                return;
            }
            if depth == 0 {
                break;
            }
            let outer = &path[depth - 1];
            let stmt = self.ast.block(outer.block)[outer.index];
            if self.header(stmt, level, &mut constraints) {
                return;
            }
        }
        self.found.from_start = Some(constraints);
    }

    /// The part of a compound statement that runs before one of its blocks.
    fn header(&mut self, id: StmtId, level: &Level, constraints: &mut Constraints) -> bool {
        let ast = self.ast;
        let stmt = ast.stmt(id);
        let block_start =
            ast.block(level.block).first().map_or(stmt.span.end, |s| ast.stmt(*s).span.start);
        let block_end =
            ast.block(level.block).last().map_or(stmt.span.end, |s| ast.stmt(*s).span.end);
        match (stmt.kind, level.role) {
            (StmtKind::If { branches }, Role::Branch(at)) => {
                for i in branches.range().rev().filter(|i| *i <= at as usize) {
                    let Some(test) = ast.branches[i].test.some() else {
                        continue;
                    };
                    self.constrain(constraints, test, i == at as usize);
                    let span = ast.expr(test).span;
                    if let Some(last) = self.within(span.start, span.end).last() {
                        self.add(*last, constraints);
                        return true;
                    }
                }
                false
            }
            (StmtKind::While { test, .. }, Role::Loop) => {
                // Bindings of earlier rounds, met by the condition again.
                self.constrain(constraints, test, true);
                let found = self.within(block_start, block_end);
                self.add_all(found, constraints);
                let span = ast.expr(test).span;
                if let Some(last) = self.within(span.start, span.end).last() {
                    self.add(*last, constraints);
                    return true;
                }
                false
            }
            (StmtKind::For { .. }, Role::Loop) => {
                let head = self.within(stmt.span.start, block_start.saturating_sub(1));
                if !head.is_empty() {
                    let head: SmallVec<[Binding; 2]> = head.iter().copied().collect();
                    self.add_all(&head, constraints);
                    return true;
                }
                let found = self.within(block_start, block_end);
                self.add_all(found, constraints);
                false
            }
            (StmtKind::While { body, .. }, Role::LoopElse) => {
                self.block_any(body, constraints);
                false
            }
            (StmtKind::For { node }, Role::LoopElse) => {
                self.block_any(ast.fors[node as usize].body, constraints);
                let head = self.within(stmt.span.start, block_start.saturating_sub(1));
                self.add_all(head, constraints);
                false
            }
            (StmtKind::Try { node }, role) => {
                let node = ast.tries[node as usize];
                match role {
                    Role::Handler(at) => {
                        let handler = &ast.handlers[at as usize];
                        let head = self.within(handler.span.start, block_start.saturating_sub(1));
                        if let Some(last) = head.last() {
                            self.add(*last, constraints);
                            return true;
                        }
                        self.block_any(node.body, constraints);
                        false
                    }
                    Role::TryElse => self.block_exit(node.body, constraints),
                    Role::Finally => {
                        self.block_any(node.body, constraints);
                        self.block_any(node.orelse, constraints);
                        for handler in node.handlers.range() {
                            self.block_any(ast.handlers[handler].body, constraints);
                        }
                        false
                    }
                    _ => false,
                }
            }
            (StmtKind::With { .. }, Role::With) => {
                let head = self.within(stmt.span.start, block_start.saturating_sub(1));
                match head.last() {
                    Some(last) => {
                        self.add(*last, constraints);
                        true
                    }
                    None => false,
                }
            }
            (StmtKind::Match { subject, .. }, Role::Case(at)) => {
                let case = &ast.cases[at as usize];
                let head = self.within(case.span.start, block_start.saturating_sub(1));
                if !head.is_empty() {
                    self.add_all(head, constraints);
                    return true;
                }
                if self.with_conditions && mentions(ast, subject, self.root) {
                    constraints.push(Constraint::Case { stmt: id, case: at });
                }
                false
            }
            _ => false,
        }
    }
}

/// Does a condition look at a path that begins with `name`?
fn mentions(ast: &Ast, test: ExprId, name: Name) -> bool {
    let mut stack: SmallVec<[ExprId; 16]> = SmallVec::from_slice(&[test]);
    let mut budget = 64;
    while let Some(id) = stack.pop() {
        budget -= 1;
        if budget == 0 {
            return true;
        }
        match ast.kind(id) {
            ExprKind::Name(n) if n == name => return true,
            ExprKind::Attribute { value, .. } | ExprKind::Unary { operand: value, .. } => {
                stack.push(value)
            }
            ExprKind::And { operands } | ExprKind::Or { operands } => {
                stack.extend(ast.list(operands).iter().copied());
            }
            ExprKind::Compare { left, right, .. } => stack.extend([left, right]),
            ExprKind::Walrus { target, value } => stack.extend([target, value]),
            ExprKind::Call { args, .. } => stack.extend(ast.args(args).iter().map(|a| a.value)),
            ExprKind::Tuple { items } => stack.extend(ast.list(items).iter().copied()),
            _ => {}
        }
    }
    false
}

/// The bindings of a name that reach `pos` in a scope with this body.
pub(super) fn reaching(
    ast: &Ast,
    body: Run,
    bindings: &[Binding],
    root: Name,
    pos: u32,
    with_conditions: bool,
) -> Reaching {
    let mut walk = Walk { ast, bindings, with_conditions, root, found: Reaching::default() };
    let path = enclosing_path(ast, body, pos);
    // Bindings earlier in the very statement (a walrus).
    if let Some(level) = path.last()
        && let Some(&stmt) = ast.block(level.block).get(level.index)
    {
        let span = ast.stmt(stmt).span;
        if span.start < pos {
            let own: SmallVec<[Binding; 2]> = walk
                .within(span.start, pos - 1)
                .iter()
                .filter(|b| matches!(b.kind, BindKind::Walrus(_)))
                .copied()
                .collect();
            walk.add_all(&own, &Constraints::new());
        }
    }
    walk.outwards(&path);
    walk.found
}

/// The bindings of a name that are in force when its scope's body has run.
pub(super) fn at_exit(ast: &Ast, body: Run, bindings: &[Binding], root: Name) -> Reaching {
    let mut walk = Walk { ast, bindings, with_conditions: false, root, found: Reaching::default() };
    let mut constraints = Constraints::new();
    let n = ast.block(body).len();
    if !walk.siblings(body, n, &mut constraints) {
        walk.found.from_start = Some(constraints);
    }
    walk.found
}

/// Conditions that hold at `pos` on a dotted path whose first name is bound elsewhere.
pub(super) fn conditions(ast: &Ast, body: Run, root: Name, pos: u32) -> Constraints {
    let found = reaching(ast, body, &[], root, pos, true);
    found.from_start.unwrap_or_default()
}
