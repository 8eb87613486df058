//! Every statement and expression of a file, each with the environment that it is read in.
//!
//! # Place
//! Uses `syntax`, `scope` and the environments of `infer`. Read by checks, definitions and tables.
//! # Invariants
//! - Each expression is visited at most once, whatever the nesting: the walk is linear in the tree and
//!   uses no recursion.
//! - Assignment targets are not loads: of `a.b = c` only `a` and `c` are visited.

use super::file::File;
use super::infer::{Env, FrameKind};
use super::name::Name;
use super::scope::ScopeId;
use super::syntax::*;
use std::sync::Arc;

/// What an enclosing statement says about the code inside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Around {
    pub(crate) catches_name: bool,
    pub(crate) catches_attribute: bool,
    pub(crate) catches_import: bool,
    pub(crate) catches_type: bool,
    /// Below a condition on the platform, the Python version or `TYPE_CHECKING`.
    pub(crate) guarded: bool,
    /// In a type annotation.
    pub(crate) annotation: bool,
}

pub(crate) trait Visitor {
    /// An expression that is read.
    fn load(&mut self, env: &Env, expr: ExprId, around: Around);
    /// An expression that is iterated over (it is also loaded).
    fn iterated(&mut self, _env: &Env, _expr: ExprId, _around: Around) {}
    /// A statement, before what is in it.
    fn statement(&mut self, _env: &Env, _stmt: StmtId, _around: Around) {}
    /// An attribute that is assigned or deleted.
    fn stored_attribute(&mut self, _env: &Env, _expr: ExprId, _around: Around) {}
}

/// Visit a whole file.
pub(crate) fn walk(file: &Arc<File>, visitor: &mut dyn Visitor) {
    let mut walk = Walk {
        file,
        visitor,
        seen: vec![false; file.ast.exprs.len()],
        blocks: Vec::new(),
        exprs: Vec::new(),
    };
    let env = Env::new(file.clone(), ScopeId::MODULE);
    walk.blocks.push((file.ast.body, env, Around::default()));
    while let Some((block, env, around)) = walk.blocks.pop() {
        for &stmt in file.ast.block(block) {
            walk.statement(stmt, &env, around);
            walk.drain();
        }
    }
}

struct Walk<'a> {
    file: &'a Arc<File>,
    visitor: &'a mut dyn Visitor,
    seen: Vec<bool>,
    blocks: Vec<(Run, Env, Around)>,
    exprs: Vec<(ExprId, Env, Around)>,
}

impl Walk<'_> {
    fn later(&mut self, expr: ExprId, env: &Env, around: Around) {
        if expr != ExprId::NONE {
            self.exprs.push((expr, env.clone(), around));
        }
    }

    fn drain(&mut self) {
        while let Some((expr, env, around)) = self.exprs.pop() {
            let seen = &mut self.seen[expr.index()];
            if !*seen {
                *seen = true;
                self.visitor.load(&env, expr, around);
                self.children(expr, &env, around);
            }
        }
    }

    fn iterate(&mut self, expr: ExprId, env: &Env, around: Around) {
        if expr != ExprId::NONE {
            self.visitor.iterated(env, expr, around);
            self.later(expr, env, around);
        }
    }

    fn list(&mut self, run: Run, env: &Env, around: Around) {
        let file = self.file.clone();
        for &item in file.ast.list(run) {
            self.later(item, env, around);
        }
    }

    fn arguments(&mut self, args: Run, env: &Env, around: Around) {
        let file = self.file.clone();
        for arg in file.ast.args(args) {
            match arg.kind {
                ArgKind::Star => self.iterate(arg.value, env, around),
                _ => self.later(arg.value, env, around),
            }
        }
    }

    fn children(&mut self, expr: ExprId, env: &Env, around: Around) {
        let file = self.file.clone();
        let ast = &file.ast;
        match ast.kind(expr) {
            ExprKind::Missing
            | ExprKind::Name(_)
            | ExprKind::Int
            | ExprKind::Float
            | ExprKind::Complex
            | ExprKind::True
            | ExprKind::False
            | ExprKind::None
            | ExprKind::Ellipsis
            | ExprKind::Str
            | ExprKind::Bytes => {}
            ExprKind::Attribute { value, .. } | ExprKind::Await(value) => {
                self.later(value, env, around);
            }
            ExprKind::Yield(value) => self.later(value, env, around),
            ExprKind::YieldFrom(value) => self.iterate(value, env, around),
            ExprKind::Starred(value) => self.iterate(value, env, around),
            ExprKind::Unary { operand, .. } => self.later(operand, env, around),
            ExprKind::Walrus { value, .. } => self.later(value, env, around),
            ExprKind::Call { func, args } => {
                self.later(func, env, around);
                self.arguments(args, env, around);
            }
            ExprKind::Subscript { value, index } => {
                self.later(value, env, around);
                self.later(index, env, around);
            }
            ExprKind::Slice { parts } => self.list(parts, env, around),
            ExprKind::FString { fields } => self.list(fields, env, around),
            ExprKind::Tuple { items }
            | ExprKind::List { items }
            | ExprKind::Set { items }
            | ExprKind::Dict { items } => self.list(items, env, around),
            ExprKind::Binary { left, right, .. } | ExprKind::Compare { left, right, .. } => {
                self.later(left, env, around);
                self.later(right, env, around);
            }
            ExprKind::And { operands } | ExprKind::Or { operands } => {
                let is_and = matches!(ast.kind(expr), ExprKind::And { .. });
                let mut here = env.clone();
                for &operand in ast.list(operands) {
                    self.later(operand, &here, around);
                    here = here.with_guard(operand, is_and);
                }
            }
            ExprKind::IfElse { test, body, orelse } => {
                self.later(test, env, around);
                self.later(body, &env.with_guard(test, true), around);
                self.later(orelse, &env.with_guard(test, false), around);
            }
            ExprKind::Lambda { lambda } => {
                let node = ast.lambdas[lambda as usize];
                for p in ast.params(node.params) {
                    self.later(p.default, env, around);
                }
                let frame = FrameKind::Lambda { params: node.params, args: Vec::new() };
                self.later(node.body, &env.with_frame(frame), around);
            }
            ExprKind::Comp { comp, .. } => self.comprehension(comp, env, around),
        }
    }

    fn comprehension(&mut self, comp: u32, env: &Env, around: Around) {
        let file = self.file.clone();
        let ast = &file.ast;
        let node = ast.comps[comp as usize];
        let clauses = ast.clauses[node.clauses.range()].to_vec();
        let mut here = env.with_frame(FrameKind::Comp(clauses.clone()));
        for clause in &clauses {
            match clause.is_async {
                true => self.later(clause.iter, &here, around),
                false => self.iterate(clause.iter, &here, around),
            }
            self.target(clause.target, &here, around);
            for &condition in ast.list(clause.conditions) {
                self.later(condition, &here, around);
                here = here.with_guard(condition, true);
            }
        }
        self.later(node.element, &here, around);
        self.later(node.value, &here, around);
    }

    /// The parts of a target that are read.
    fn target(&mut self, target: ExprId, env: &Env, around: Around) {
        let file = self.file.clone();
        let mut stack = vec![target];
        while let Some(expr) = stack.pop() {
            if expr == ExprId::NONE {
                continue;
            }
            match file.ast.kind(expr) {
                ExprKind::Tuple { items } | ExprKind::List { items } => {
                    stack.extend(file.ast.list(items).iter().copied());
                }
                ExprKind::Starred(inner) => stack.push(inner),
                ExprKind::Attribute { value, .. } => {
                    self.visitor.stored_attribute(env, expr, around);
                    self.later(value, env, around);
                }
                ExprKind::Subscript { value, index } => {
                    self.later(value, env, around);
                    self.later(index, env, around);
                }
                _ => {}
            }
        }
    }

    fn block(&mut self, body: Run, env: &Env, around: Around) {
        if !body.is_empty() {
            self.blocks.push((body, env.clone(), around));
        }
    }

    fn statement(&mut self, id: StmtId, env: &Env, around: Around) {
        self.visitor.statement(env, id, around);
        let file = self.file.clone();
        let ast = &file.ast;
        match ast.stmt(id).kind {
            StmtKind::Expr(value) | StmtKind::Return(value) => self.later(value, env, around),
            StmtKind::Assign { targets, value } => {
                self.later(value, env, around);
                for &target in ast.list(targets) {
                    self.target(target, env, around);
                }
            }
            StmtKind::AugAssign { target, value, .. } => {
                self.later(value, env, around);
                self.target(target, env, around);
            }
            StmtKind::AnnAssign { target, annotation, value } => {
                self.later(annotation, env, Around { annotation: true, ..around });
                self.later(value, env, around);
                self.target(target, env, around);
            }
            StmtKind::Delete { targets } => {
                for &target in ast.list(targets) {
                    self.target(target, env, around);
                }
            }
            StmtKind::Raise { exception, cause } => {
                self.later(exception, env, around);
                self.later(cause, env, around);
            }
            StmtKind::Assert { test, message } => {
                self.later(test, env, around);
                self.later(message, env, around);
            }
            StmtKind::TypeAlias { value, type_params, .. } => {
                if type_params.is_empty() {
                    self.later(value, env, Around { annotation: true, ..around });
                }
            }
            StmtKind::Function(func) => self.function(func, env, around),
            StmtKind::Class(class) => self.class(class, env, around),
            compound => self.compound(compound, env, around),
        }
    }

    /// Statements with blocks, those of definitions apart.
    fn compound(&mut self, kind: StmtKind, env: &Env, around: Around) {
        let file = self.file.clone();
        let ast = &file.ast;
        match kind {
            StmtKind::If { branches } => {
                let mut guarded = around.guarded;
                for branch in &ast.branches[branches.range()] {
                    self.later(branch.test, env, around);
                    guarded |= branch.test.some().is_some_and(|t| is_platform_test(ast, t));
                    self.block(branch.body, env, Around { guarded, ..around });
                }
            }
            StmtKind::While { test, body, orelse } => {
                self.later(test, env, around);
                self.block(body, env, around);
                self.block(orelse, env, around);
            }
            StmtKind::For { node } => {
                let node = ast.fors[node as usize];
                match node.is_async {
                    true => self.later(node.iter, env, around),
                    false => self.iterate(node.iter, env, around),
                }
                self.target(node.target, env, around);
                self.block(node.body, env, around);
                self.block(node.orelse, env, around);
            }
            StmtKind::Try { node } => self.try_statement(node, env, around),
            StmtKind::With { items, body, .. } => {
                let mut within = around;
                for item in &ast.with_items[items.range()] {
                    self.later(item.value, env, around);
                    self.target(item.target, env, around);
                    suppressed(ast, item.value, &mut within);
                }
                self.block(body, env, within);
            }
            StmtKind::Match { subject, cases } => {
                self.later(subject, env, around);
                for case in &ast.cases[cases.range()] {
                    self.pattern(case.pattern, env, around);
                    self.later(case.guard, env, around);
                    self.block(case.body, env, around);
                }
            }
            // The rest holds no expression.
            _ => {}
        }
    }

    fn try_statement(&mut self, node: u32, env: &Env, around: Around) {
        let file = self.file.clone();
        let ast = &file.ast;
        let node = ast.tries[node as usize];
        let mut caught = around;
        for handler in &ast.handlers[node.handlers.range()] {
            self.later(handler.kind, env, around);
            match handler.kind.some() {
                Some(kind) => catch(ast, kind, &mut caught),
                None => catch_all(&mut caught),
            }
            // The other half of `try: import x` is as uncertain as the first.
            let import = Around { catches_import: caught.catches_import, ..around };
            self.block(handler.body, env, import);
        }
        self.block(node.body, env, caught);
        self.block(node.orelse, env, around);
        self.block(node.finally, env, around);
    }

    fn pattern(&mut self, pattern: PatId, env: &Env, around: Around) {
        let file = self.file.clone();
        let ast = &file.ast;
        let mut stack = vec![pattern];
        while let Some(id) = stack.pop() {
            match ast.pattern(id).kind {
                PatternKind::Value(value) => self.later(value, env, around),
                PatternKind::Class { class, patterns, keywords } => {
                    self.later(class, env, around);
                    stack.extend(ast.pattern_lists[patterns.range()].iter().copied());
                    stack.extend(ast.pattern_keywords[keywords.range()].iter().map(|k| k.1));
                }
                PatternKind::Sequence { patterns }
                | PatternKind::Or { patterns }
                | PatternKind::Mapping { patterns, .. } => {
                    stack.extend(ast.pattern_lists[patterns.range()].iter().copied());
                }
                PatternKind::As { pattern, .. } => stack.push(pattern),
                PatternKind::Capture(_) | PatternKind::Star(_) => {}
            }
        }
    }

    fn function(&mut self, func: FuncId, env: &Env, around: Around) {
        let file = self.file.clone();
        let ast = &file.ast;
        let node = ast.function(func);
        let inside = env.in_scope(file.scopes.of_function(func));
        let header = if node.type_params.is_empty() { env } else { &inside };
        let annotation = Around { annotation: true, ..around };
        self.list(node.decorators, env, around);
        for p in ast.params(node.params) {
            self.later(p.annotation, header, annotation);
            self.later(p.default, env, around);
        }
        for p in &ast.type_params[node.type_params.range()] {
            self.later(p.bound, &inside, annotation);
            self.later(p.default, &inside, annotation);
        }
        self.later(node.returns, header, annotation);
        // What catches an error around a definition does not catch it where the function is called.
        let body = Around { guarded: around.guarded, ..Around::default() };
        self.block(node.body, &inside, body);
    }

    fn class(&mut self, class: ClassId, env: &Env, around: Around) {
        let file = self.file.clone();
        let ast = &file.ast;
        let node = ast.class(class);
        let inside = env.in_scope(file.scopes.of_class(class));
        let header = if node.type_params.is_empty() { env } else { &inside };
        self.list(node.decorators, env, around);
        self.arguments(node.args, header, around);
        for p in &ast.type_params[node.type_params.range()] {
            self.later(p.bound, &inside, Around { annotation: true, ..around });
        }
        self.block(node.body, &inside, around);
    }
}

/// The names that an `except` or `suppress` lists.
fn catch(ast: &Ast, kind: ExprId, around: &mut Around) {
    let names = match ast.kind(kind) {
        ExprKind::Tuple { items } => ast.list(items),
        _ => std::slice::from_ref(&kind),
    };
    for &name in names {
        let (ExprKind::Name(name) | ExprKind::Attribute { name, .. }) = ast.kind(name) else {
            continue;
        };
        match name.as_str() {
            "NameError" | "UnboundLocalError" => around.catches_name = true,
            "AttributeError" => around.catches_attribute = true,
            "ImportError" | "ModuleNotFoundError" => around.catches_import = true,
            "TypeError" => around.catches_type = true,
            "Exception" | "BaseException" => around.catches_import = true,
            _ => {}
        }
    }
}

fn catch_all(around: &mut Around) {
    around.catches_name = true;
    around.catches_attribute = true;
    around.catches_import = true;
    around.catches_type = true;
}

/// `with suppress(AttributeError):`
fn suppressed(ast: &Ast, value: ExprId, around: &mut Around) {
    if value == ExprId::NONE {
        return;
    }
    let ExprKind::Call { func, args } = ast.kind(value) else {
        return;
    };
    let (ExprKind::Name(name) | ExprKind::Attribute { name, .. }) = ast.kind(func) else {
        return;
    };
    // `pytest.raises` and `assertRaises` expect the error, too.
    if matches!(name.as_str(), "suppress" | "raises" | "assertRaises" | "assertRaisesRegex") {
        for arg in ast.args(args) {
            catch(ast, arg.value, around);
        }
    }
}

/// A condition on the interpreter: what is below it may be for another one.
fn is_platform_test(ast: &Ast, test: ExprId) -> bool {
    let mut stack = vec![test];
    let mut budget = 64;
    while let Some(id) = stack.pop() {
        budget -= 1;
        if budget == 0 {
            return true;
        }
        match ast.kind(id) {
            ExprKind::Name(name) => {
                let text = name.as_str();
                if name == Name::TYPE_CHECKING
                    || ["PY2", "PY3", "WIN", "WINDOWS", "PYPY", "JYTHON", "IRONPYTHON"]
                        .iter()
                        .any(|w| text.to_ascii_uppercase().trim_start_matches('_').starts_with(w))
                {
                    return true;
                }
            }
            ExprKind::Attribute { value, name } => {
                let of_sys = matches!(ast.kind(value), ExprKind::Name(Name::SYS));
                let of_os = matches!(ast.kind(value), ExprKind::Name(n) if n.as_str() == "os");
                if name == Name::TYPE_CHECKING
                    || (of_sys && matches!(name.as_str(), "version_info" | "platform" | "version"))
                    || (of_os && name == Name::NAME_WORD)
                    || matches!(name.as_str(), "PY2" | "PY3")
                {
                    return true;
                }
                stack.push(value);
            }
            ExprKind::Unary { operand, .. } => stack.push(operand),
            ExprKind::And { operands } | ExprKind::Or { operands } => {
                stack.extend(ast.list(operands).iter().copied());
            }
            ExprKind::Compare { left, right, .. } => stack.extend([left, right]),
            ExprKind::Subscript { value, .. } => stack.push(value),
            ExprKind::Call { func, .. } => stack.push(func),
            _ => {}
        }
    }
    false
}
