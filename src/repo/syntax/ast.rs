//! The tree of one Python file: flat arenas of small nodes that refer to each other by index.
//!
//! # Place
//! Uses `name`. Made by the parser beside it, read by indexing, inference and everything above.
//! # Invariants
//! - Every id in a node is in bounds of the arena of the same [`Ast`].
//! - Children have smaller ids than their parents, except that a comprehension's parts are stored
//!   in source order.
//! # Shapes and units
//! Spans are byte offsets into the decoded text, `start..end`.

use crate::repo::name::Name;

macro_rules! id_type {
    ($(#[$doc:meta])* $id:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub(crate) struct $id(pub(crate) u32);
        impl $id {
            pub(crate) fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id_type!(
    /// An expression.
    ExprId
);
id_type!(
    /// A statement.
    StmtId
);
id_type!(
    /// A `def`.
    FuncId
);
id_type!(
    /// A `class`.
    ClassId
);
id_type!(
    /// A pattern of a `case`.
    PatId
);

impl ExprId {
    /// Stands for "no expression" where an option would cost four bytes.
    pub(crate) const NONE: Self = Self(u32::MAX);

    pub(crate) fn some(self) -> Option<Self> {
        (self != Self::NONE).then_some(self)
    }
}

/// A run of entries in one of the list arenas.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Run {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

impl Run {
    pub(crate) fn range(self) -> std::ops::Range<usize> {
        self.start as usize..(self.start + self.len) as usize
    }
    pub(crate) fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// Byte offsets `start..end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    pub(crate) fn contains(self, at: u32) -> bool {
        self.start <= at && at < self.end
    }
    pub(crate) fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Expr {
    pub(crate) kind: ExprKind,
    pub(crate) span: Span,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BinOp {
    Add,
    Sub,
    Mul,
    MatMul,
    Div,
    FloorDiv,
    Mod,
    Pow,
    LShift,
    RShift,
    And,
    Or,
    Xor,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UnaryOp {
    Not,
    Plus,
    Minus,
    Invert,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CmpOp {
    Eq,
    NotEq,
    Lt,
    LtE,
    Gt,
    GtE,
    Is,
    IsNot,
    In,
    NotIn,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CompKind {
    List,
    Set,
    Dict,
    Generator,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum ExprKind {
    /// What stands where an expression was expected and none was found.
    Missing,
    Name(Name),
    /// `value.name`; the name ends where the expression ends.
    Attribute {
        value: ExprId,
        name: Name,
    },
    Call {
        func: ExprId,
        args: Run,
    },
    Subscript {
        value: ExprId,
        index: ExprId,
    },
    /// The parts that are present, in order.
    Slice {
        parts: Run,
    },
    Int,
    Float,
    Complex,
    True,
    False,
    None,
    Ellipsis,
    Str,
    Bytes,
    /// The expressions in its fields.
    FString {
        fields: Run,
    },
    Tuple {
        items: Run,
    },
    List {
        items: Run,
    },
    Set {
        items: Run,
    },
    /// Keys and values in turn; the key of `**x` is [`ExprId::NONE`].
    Dict {
        items: Run,
    },
    Comp {
        kind: CompKind,
        comp: u32,
    },
    Binary {
        op: BinOp,
        left: ExprId,
        right: ExprId,
    },
    Unary {
        op: UnaryOp,
        operand: ExprId,
    },
    And {
        operands: Run,
    },
    Or {
        operands: Run,
    },
    Compare {
        op: CmpOp,
        left: ExprId,
        right: ExprId,
    },
    IfElse {
        test: ExprId,
        body: ExprId,
        orelse: ExprId,
    },
    Lambda {
        lambda: u32,
    },
    Await(ExprId),
    /// [`ExprId::NONE`] for a bare `yield`.
    Yield(ExprId),
    YieldFrom(ExprId),
    Starred(ExprId),
    /// `target := value`.
    Walrus {
        target: ExprId,
        value: ExprId,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ArgKind {
    Positional,
    Keyword(Name),
    Star,
    DoubleStar,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Arg {
    pub(crate) kind: ArgKind,
    pub(crate) value: ExprId,
    pub(crate) start: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clause {
    pub(crate) target: ExprId,
    pub(crate) iter: ExprId,
    pub(crate) conditions: Run,
    pub(crate) is_async: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Comp {
    pub(crate) element: ExprId,
    /// The value of a dict comprehension, else [`ExprId::NONE`].
    pub(crate) value: ExprId,
    pub(crate) clauses: Run,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Lambda {
    pub(crate) params: Run,
    pub(crate) body: ExprId,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ParamKind {
    PositionalOnly,
    Normal,
    VarArgs,
    KeywordOnly,
    VarKeywords,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Param {
    pub(crate) name: Name,
    pub(crate) kind: ParamKind,
    pub(crate) annotation: ExprId,
    pub(crate) default: ExprId,
    pub(crate) start: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct TypeParam {
    pub(crate) name: Name,
    pub(crate) bound: ExprId,
    pub(crate) default: ExprId,
    pub(crate) start: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: Name,
    pub(crate) name_start: u32,
    /// Decorators included.
    pub(crate) span: Span,
    /// Where `def` or `async` begins.
    pub(crate) def_start: u32,
    /// Just after the colon that ends the header.
    pub(crate) header_end: u32,
    pub(crate) params: Run,
    pub(crate) type_params: Run,
    pub(crate) returns: ExprId,
    pub(crate) decorators: Run,
    pub(crate) body: Run,
    pub(crate) docstring: Option<Span>,
    /// The expressions in it, header and body (not decorators).
    pub(crate) exprs: Run,
    pub(crate) is_async: bool,
    pub(crate) is_generator: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub(crate) name: Name,
    pub(crate) name_start: u32,
    pub(crate) span: Span,
    pub(crate) def_start: u32,
    pub(crate) header_end: u32,
    /// Bases and keywords.
    pub(crate) args: Run,
    pub(crate) type_params: Run,
    pub(crate) decorators: Run,
    pub(crate) body: Run,
    pub(crate) docstring: Option<Span>,
    /// The expressions in it, header and body (not decorators).
    pub(crate) exprs: Run,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Alias {
    /// The dotted name of `import a.b`, or the name of `from m import a`.
    pub(crate) name: Name,
    pub(crate) name_start: u32,
    pub(crate) as_name: Option<Name>,
    pub(crate) as_start: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ImportFrom {
    /// The dotted module after the dots; empty for `from . import`.
    pub(crate) module: Name,
    pub(crate) module_start: u32,
    pub(crate) level: u32,
    pub(crate) names: Run,
    pub(crate) star: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Branch {
    /// [`ExprId::NONE`] for `else`.
    pub(crate) test: ExprId,
    pub(crate) body: Run,
    pub(crate) span: Span,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Handler {
    pub(crate) kind: ExprId,
    pub(crate) name: Option<Name>,
    pub(crate) name_start: u32,
    pub(crate) body: Run,
    pub(crate) span: Span,
    pub(crate) is_star: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Try {
    pub(crate) body: Run,
    pub(crate) handlers: Run,
    pub(crate) orelse: Run,
    pub(crate) finally: Run,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct WithItem {
    pub(crate) value: ExprId,
    pub(crate) target: ExprId,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct For {
    pub(crate) target: ExprId,
    pub(crate) iter: ExprId,
    pub(crate) body: Run,
    pub(crate) orelse: Run,
    pub(crate) is_async: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) pattern: PatId,
    pub(crate) guard: ExprId,
    pub(crate) body: Run,
    pub(crate) span: Span,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern {
    pub(crate) kind: PatternKind,
    pub(crate) span: Span,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum PatternKind {
    /// `_` or a name.
    Capture(Option<Name>),
    /// A literal or a dotted name.
    Value(ExprId),
    /// Positional patterns, then keyword patterns with their names.
    Class {
        class: ExprId,
        patterns: Run,
        keywords: Run,
    },
    Sequence {
        patterns: Run,
    },
    Mapping {
        patterns: Run,
        rest: Option<Name>,
    },
    Star(Option<Name>),
    Or {
        patterns: Run,
    },
    As {
        pattern: PatId,
        name: Name,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Stmt {
    pub(crate) kind: StmtKind,
    pub(crate) span: Span,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum StmtKind {
    Expr(ExprId),
    Assign { targets: Run, value: ExprId },
    AugAssign { target: ExprId, op: BinOp, value: ExprId },
    AnnAssign { target: ExprId, annotation: ExprId, value: ExprId },
    Return(ExprId),
    Delete { targets: Run },
    Raise { exception: ExprId, cause: ExprId },
    Assert { test: ExprId, message: ExprId },
    Global { names: Run },
    Nonlocal { names: Run },
    Pass,
    Break,
    Continue,
    Import { names: Run },
    ImportFrom { from: u32 },
    TypeAlias { name: Name, value: ExprId, type_params: Run },
    If { branches: Run },
    While { test: ExprId, body: Run, orelse: Run },
    For { node: u32 },
    Try { node: u32 },
    With { items: Run, body: Run, is_async: bool },
    Match { subject: ExprId, cases: Run },
    Function(FuncId),
    Class(ClassId),
}

/// One place that does not parse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    pub(crate) span: Span,
    pub(crate) message: &'static str,
}

/// Where the completion cursor was met while parsing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CursorSite {
    /// At the start of a name that is an expression (`Name(CURSOR)`).
    Name { expr: ExprId, at_statement_start: bool },
    /// After a dot: `value.█`.
    Member { value: ExprId, at_statement_start: bool },
    /// `import a.b.█`: the dotted part typed so far (empty at the start).
    ImportModule { dotted: Name },
    /// `from ..a.█`.
    FromModule { level: u32, dotted: Name },
    /// `from ..a import █`.
    FromName { level: u32, module: Name },
    /// A name that is being defined (`def █`, `as █`, parameters), where nothing can be offered.
    Definition,
    /// In a pattern of a `case`.
    Pattern,
    /// In a string, a comment or a number.
    Literal,
}

/// The cursor, and what encloses it.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    pub(crate) site: CursorSite,
    /// Calls whose parentheses enclose the cursor, outermost first: the callee, and whether the cursor
    /// begins an argument (so that a keyword name may stand there).
    pub(crate) call: Option<CursorCall>,
    /// Comprehensions and lambdas around the cursor, outermost first.
    pub(crate) frames: Vec<ExprFrame>,
    /// Tests that hold (or not) where the cursor stands inside an expression.
    pub(crate) guards: Vec<(ExprId, bool)>,
}

#[derive(Clone, Debug)]
pub(crate) struct CursorCall {
    pub(crate) func: ExprId,
    pub(crate) args: Vec<Arg>,
    pub(crate) at_argument_start: bool,
}

/// An expression that opens a scope of its own.
#[derive(Clone, Debug)]
pub(crate) enum ExprFrame {
    /// The clauses parsed before the cursor. For a cursor in the element the list is filled from
    /// what follows it, if anything.
    Comp {
        clauses: Vec<Clause>,
    },
    Lambda {
        params: Run,
    },
}

/// The tree of one file.
#[derive(Default)]
pub(crate) struct Ast {
    pub(crate) exprs: Vec<Expr>,
    pub(crate) expr_lists: Vec<ExprId>,
    pub(crate) args: Vec<Arg>,
    pub(crate) comps: Vec<Comp>,
    pub(crate) clauses: Vec<Clause>,
    pub(crate) lambdas: Vec<Lambda>,
    pub(crate) params: Vec<Param>,
    pub(crate) type_params: Vec<TypeParam>,
    pub(crate) stmts: Vec<Stmt>,
    pub(crate) stmt_lists: Vec<StmtId>,
    pub(crate) functions: Vec<Function>,
    pub(crate) classes: Vec<Class>,
    pub(crate) aliases: Vec<Alias>,
    pub(crate) imports_from: Vec<ImportFrom>,
    pub(crate) branches: Vec<Branch>,
    pub(crate) handlers: Vec<Handler>,
    pub(crate) tries: Vec<Try>,
    pub(crate) with_items: Vec<WithItem>,
    pub(crate) fors: Vec<For>,
    pub(crate) cases: Vec<Case>,
    pub(crate) patterns: Vec<Pattern>,
    pub(crate) pattern_lists: Vec<PatId>,
    pub(crate) pattern_keywords: Vec<(Name, PatId)>,
    pub(crate) name_lists: Vec<Name>,
    pub(crate) body: Run,
    pub(crate) docstring: Option<Span>,
    /// `target := value` expressions in source order.
    pub(crate) walruses: Vec<ExprId>,
    /// Calls of names that look at or change attributes by name (`setattr`, `hasattr`, `vars`, …).
    pub(crate) reflective_calls: Vec<ExprId>,
    pub(crate) errors: Vec<SyntaxError>,
    pub(crate) cursor: Option<Box<Cursor>>,
}

impl Ast {
    pub(crate) fn expr(&self, id: ExprId) -> &Expr {
        &self.exprs[id.index()]
    }
    pub(crate) fn kind(&self, id: ExprId) -> ExprKind {
        self.exprs[id.index()].kind
    }
    pub(crate) fn stmt(&self, id: StmtId) -> &Stmt {
        &self.stmts[id.index()]
    }
    pub(crate) fn function(&self, id: FuncId) -> &Function {
        &self.functions[id.index()]
    }
    pub(crate) fn class(&self, id: ClassId) -> &Class {
        &self.classes[id.index()]
    }
    pub(crate) fn list(&self, run: Run) -> &[ExprId] {
        &self.expr_lists[run.range()]
    }
    pub(crate) fn args(&self, run: Run) -> &[Arg] {
        &self.args[run.range()]
    }
    pub(crate) fn block(&self, run: Run) -> &[StmtId] {
        &self.stmt_lists[run.range()]
    }
    pub(crate) fn params(&self, run: Run) -> &[Param] {
        &self.params[run.range()]
    }
    pub(crate) fn pattern(&self, id: PatId) -> &Pattern {
        &self.patterns[id.index()]
    }

    /// Bytes held by the arenas.
    pub(crate) fn n_bytes(&self) -> usize {
        fn of<T>(v: &Vec<T>) -> usize {
            v.capacity() * size_of::<T>()
        }
        of(&self.exprs)
            + of(&self.expr_lists)
            + of(&self.args)
            + of(&self.comps)
            + of(&self.clauses)
            + of(&self.lambdas)
            + of(&self.params)
            + of(&self.type_params)
            + of(&self.stmts)
            + of(&self.stmt_lists)
            + of(&self.functions)
            + of(&self.classes)
            + of(&self.aliases)
            + of(&self.imports_from)
            + of(&self.branches)
            + of(&self.handlers)
            + of(&self.tries)
            + of(&self.with_items)
            + of(&self.fors)
            + of(&self.cases)
            + of(&self.patterns)
            + of(&self.name_lists)
    }

    /// Give back what growth reserved beyond need.
    pub(crate) fn shrink(&mut self) {
        self.exprs.shrink_to_fit();
        self.expr_lists.shrink_to_fit();
        self.args.shrink_to_fit();
        self.params.shrink_to_fit();
        self.stmts.shrink_to_fit();
        self.stmt_lists.shrink_to_fit();
        self.functions.shrink_to_fit();
        self.classes.shrink_to_fit();
    }
}
