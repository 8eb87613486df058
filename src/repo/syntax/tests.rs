use super::*;
use proptest::prelude::*;
use std::time::{Duration, Instant};

fn parse_all(text: &str) -> Ast {
    parse(text, &Region::whole(text))
}

/// Definitions in order, and how many faults there are.
#[track_caller]
fn check(text: &str, outline: &str, n_errors: usize) {
    let ast = parse_all(text);
    validate(&ast, text);
    let mut found: Vec<(u32, String)> = Vec::new();
    for f in &ast.functions {
        found.push((f.name_start, f.name.to_string()));
    }
    for c in &ast.classes {
        found.push((c.name_start, c.name.to_string()));
    }
    found.sort();
    let names: Vec<String> = found.into_iter().map(|(_, n)| n).collect();
    assert_eq!(names.join(" "), outline);
    assert_eq!(ast.errors.len(), n_errors, "{:?}", ast.errors);
}

/// Every id in bounds, every span in the text and in order.
fn validate(ast: &Ast, text: &str) {
    let n = ast.exprs.len() as u32;
    let ok = |e: ExprId| assert!(e == ExprId::NONE || e.0 < n);
    for expr in &ast.exprs {
        assert!(
            expr.span.start <= expr.span.end && expr.span.end as usize <= text.len(),
            "{expr:?}"
        );
        match expr.kind {
            ExprKind::Attribute { value, .. }
            | ExprKind::Await(value)
            | ExprKind::Starred(value) => ok(value),
            ExprKind::Call { func, args } => {
                ok(func);
                ast.args(args).iter().for_each(|a| ok(a.value));
            }
            ExprKind::Tuple { items }
            | ExprKind::List { items }
            | ExprKind::Set { items }
            | ExprKind::Dict { items } => {
                ast.list(items).iter().for_each(|i| ok(*i));
            }
            ExprKind::Comp { comp, .. } => {
                let comp = ast.comps[comp as usize];
                ok(comp.element);
                ast.clauses[comp.clauses.range()].iter().for_each(|c| {
                    ok(c.target);
                    ok(c.iter);
                });
            }
            ExprKind::Lambda { lambda } => ok(ast.lambdas[lambda as usize].body),
            _ => {}
        }
    }
    for run in ast.stmt_lists.chunks(1) {
        assert!((run[0].index()) < ast.stmts.len());
    }
    for stmt in &ast.stmts {
        assert!(stmt.span.start <= stmt.span.end && stmt.span.end as usize <= text.len());
        if let StmtKind::If { branches } = stmt.kind {
            ast.branches[branches.range()].iter().for_each(|b| ok(b.test));
        }
    }
    for f in &ast.functions {
        assert!(f.span.start <= f.def_start && f.header_end as usize <= text.len() + 1);
        let _ = (ast.params(f.params), ast.block(f.body), &ast.exprs[f.exprs.range()]);
    }
}

#[test]
fn every_kind_of_statement_parses() {
    check(
        "import a.b as c, d\nfrom . import (x, y as z,)\nfrom ..m import *\nx: int = 3\nx += 1\na = b = c, *d = 1, 2\n\
         del x, y[0]\nassert x, 'm'\nglobal g\npass; break; continue\nraise E from e\nreturn\n\
         @dec(1)\n@other\nasync def f[T: int, *Ts, **P](a, /, b: int = 2, *c, d, **e) -> T: return await a\n\
         class K(Base, metaclass=M):\n    'doc'\n    def m(self): yield from self.x\n\
         while x: pass\nelse: pass\nfor i, (j, k) in xs: pass\nelse: pass\n\
         try: pass\nexcept (A, B) as e: pass\nexcept* C: pass\nelse: pass\nfinally: pass\n\
         with a as b, c as d: pass\nwith (a as b, c as d,): pass\nasync with a: pass\nasync for i in x: pass\n\
         type X[T] = list[T]\ntype = 3\nmatch = 4\nmatch(x)\nmatch.y = 1\nmatch[x]: int = 2\nprint(match)\n",
        "f K m",
        0,
    );
}

#[test]
fn every_kind_of_expression_parses() {
    check(
        "x = [a for b in c if d for e in f if g]\ny = {k: v for k, v in z}\nw = {*a, b}\nd = {**a, 'b': 1, c: d,}\n\
         l = lambda a, *b, c=1, **d: (yield)\nt = a if b else c if d else e\nn = not a < b <= c is not d not in e\n\
         p = -a ** -b // c @ d % e << f & g | h ^ ~i\ns = a[1:2, ::3, ..., *b]\ng = (i for i in j)\nf(*a, **b, c=d, e=f)\n\
         u = (a := 1, b)\ne = 'a' \"b\" '''c''' rb'd' f'{x!r:>{width}} {y=} {{no}}' f\"{d['k']}\" f'{a:{b}{c}}'\n\
         i = 0x1F + 1_000 + 1.5e-3j + .5 + 1. + 0o7\nq = await_ .z\nr = a.b.c(d)(e)[f].g\n",
        "",
        0,
    );
}

#[test]
fn match_statements_parse() {
    check(
        "match a, *b:\n    case 1 | -2 | 1+2j | 'x' 'y' | None | True: pass\n    case [a, *_, b] | (c,): pass\n    \
         case {'k': v, **rest} if v: pass\n    case a.B(1, x=P() as q): pass\n    case str(): pass\n    case _: pass\n\
         match x:\n    case (y): pass\nmatch (x):\n    case _:\n        def inner(): ...\n",
        "inner",
        0,
    );
}

#[test]
fn one_bad_line_costs_one_line() {
    check(
        "def a(): ...\nx = = 3\ndef b(: ...\ny = 1 2\ndef c(): ...\n)\nclass D: ...\n",
        "a b c D",
        4,
    );
}

#[test]
fn an_unclosed_bracket_ends_at_the_next_statement() {
    check("x = foo(1,\ndef a(): ...\nprint((z\ny = 1\ndef b(): ...\n", "a b", 2);
}

#[test]
fn blocks_may_be_missing() {
    check("def a():\n\nclass B:\ndef c():\n    if x:\n    return 1\nif y:\n", "a B c", 4);
}

#[test]
fn odd_indentation_keeps_the_statements() {
    check("def a():\n        x = 1\n    y = 2\n  def b(): ...\ndef c(): ...\n", "a b c", 1);
    check("x = 1\n    def a(): ...\n", "a", 1);
}

#[test]
fn python_2_is_skipped_line_by_line() {
    check(
        "print 'a'\nexec 'b'\nraise E, 'c'\ndef a(): ...\ntry:\n    pass\nexcept E, e:\n    pass\n",
        "a",
        3,
    );
}

#[test]
fn line_ends_of_every_kind_count() {
    check("def a(): ...\rdef b(): ...\r\ndef c():\r\n\treturn 1\rdef d(): ...", "a b c d", 0);
}

#[test]
fn decorators_and_docstrings_have_their_spans() {
    let text = "class K:\n    @dec\n    def m(self):\n        'doc'\n        return 1\n";
    let ast = parse_all(text);
    let f = &ast.functions[0];
    assert_eq!(&text[f.span.range()], "@dec\n    def m(self):\n        'doc'\n        return 1");
    assert_eq!(&text[f.def_start as usize..f.header_end as usize], "def m(self):");
    assert_eq!(&text[f.docstring.unwrap().range()], "'doc'");
}

#[test]
fn generators_are_told_from_their_nested_functions() {
    let ast = parse_all(
        "def a():\n    def b(): yield\n    lambda: (yield)\n    return 1\ndef c():\n    x = yield\n",
    );
    let flags: Vec<bool> = ast.functions.iter().map(|f| f.is_generator).collect();
    assert_eq!(flags, [false, true, true]);
}

#[test]
fn deep_nesting_takes_bounded_stack_and_time() {
    for text in [
        "(".repeat(10_000),
        format!("x = {}1{}", "(".repeat(5_000), ")".repeat(5_000)),
        "[".repeat(10_000) + "\n" + &"def f(): ...\n".repeat(3),
        "not ".repeat(50_000) + "x",
        "-".repeat(50_000) + "x",
        "lambda: ".repeat(10_000) + "x",
        "x if y else ".repeat(10_000) + "z",
        format!("x = {}", vec!["a"; 50_000].join(" + ")),
        format!("x = a{}", ".b()".repeat(20_000)),
        format!("x = {}", vec!["a"; 20_000].join(" ** ")),
        (0..400).map(|i| format!("{}if x:\n", " ".repeat(i))).collect(),
        "elif x:\n    pass\n".repeat(5_000),
        "if x:\n    pass\n".to_owned() + &"elif x:\n    pass\n".repeat(5_000),
        "f'{".repeat(3_000),
        "f'{x:".repeat(3_000) + "'",
        "'''".to_owned() + &"a\n".repeat(50_000),
        "match x:\n".repeat(2_000),
        "with (".repeat(2_000),
        "@a\n".repeat(10_000),
        "case (".repeat(5_000),
    ] {
        let started = Instant::now();
        println!("case {:?}", &text[..20]);
        let ast = parse_all(&text);
        validate(&ast, &text);
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "{} took {:?}",
            &text[..20],
            started.elapsed()
        );
    }
}

#[track_caller]
fn cursor_of(text: &str) -> CursorSite {
    let at = text.find('█').unwrap();
    let whole = text.replace('█', "");
    let resume = whole[at..].find('\n').map_or(whole.len(), |n| at + n);
    let ast =
        parse(&whole, &Region { hole: Some(Hole { start: at, resume }), ..Region::whole(&whole) });
    validate(&ast, &whole);
    ast.cursor.expect("there is a cursor").site
}

#[test]
fn the_cursor_knows_what_kind_of_place_it_is_in() {
    let member =
        |text: &str| assert!(matches!(cursor_of(text), CursorSite::Member { .. }), "{text}");
    let literal = |text: &str| assert_eq!(cursor_of(text), CursorSite::Literal, "{text}");
    let name = |text: &str| assert!(matches!(cursor_of(text), CursorSite::Name { .. }), "{text}");
    let defines = |text: &str| assert_eq!(cursor_of(text), CursorSite::Definition, "{text}");
    member("x.█");
    member("f(a, [b.█\ny = 1");
    member("f'{a.█}'");
    member("f'''{a.█\n}'''");
    member("f\"{a['x'].█");
    member("if a and b.█");
    member("case_ = x.█");
    member("match x:\n    case a.█");
    literal("# a.█");
    literal("'a.█'");
    literal("'''a\nb.█\n'''");
    literal("f'a.█ {b}'");
    literal("f'{a[\"b.█\"]}'");
    literal("3.█");
    literal("x = 1.5█");
    name("█");
    name("f(█");
    name("x = [█ for y in z]");
    name("f'{█}'");
    name("return █");
    name("print('a', █");
    defines("def █");
    defines("class █");
    defines("import a as █");
    defines("def f(█");
    defines("try: pass\nexcept E as █");
}

const SAMPLE: &str = include_str!("sample.txt");

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn mutated_sources_parse_without_fault(
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..40, "[ -~\n\t\r{}()\\[\\]'\":.,é█]{0,6}"), 0..12),
        hole in any::<Option<prop::sample::Index>>(),
    ) {
        let mut text = SAMPLE.to_owned();
        for (at, len, insert) in edits {
            let mut start = at.index(text.len() + 1);
            while !text.is_char_boundary(start) { start -= 1; }
            let mut end = (start + len).min(text.len());
            while !text.is_char_boundary(end) { end += 1; }
            text.replace_range(start..end, &insert);
        }
        let hole = hole.map(|h| {
            let mut start = h.index(text.len() + 1);
            while !text.is_char_boundary(start) { start -= 1; }
            let resume = text[start..].find('\n').map_or(text.len(), |n| start + n);
            Hole { start, resume }
        });
        let started = Instant::now();
        let ast = parse(&text, &Region { hole, ..Region::whole(&text) });
        validate(&ast, &text);
        prop_assert_eq!(ast.cursor.is_some(), hole.is_some());
        let scopes = crate::repo::scope::index(&ast, text.len() as u32, None);
        prop_assert!(scopes.bindings.len() <= text.len());
        prop_assert!(started.elapsed() < Duration::from_secs(2));
    }

    #[test]
    fn any_text_parses_without_fault(text in "[a-z=:.,()\\[\\]{}'\"# \n\t\\\\@*]{0,200}") {
        let ast = parse_all(&text);
        validate(&ast, &text);
    }
}
