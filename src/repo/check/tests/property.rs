//! Whatever the source is, checking it ends and does not panic.

use proptest::prelude::*;

const SEED: &str = "\
from __future__ import annotations
import os, sys as s, collections.abc
from pk.sub import *
from .x import (a as b, c,)
class K(Base, metaclass=M):
    __slots__ = ('p', 'q')
    x: int = 3
    def __init__(self, a, *args, k=1, **kw):
        self.a = a; self.b, (self.c, *self.d) = args
    @property
    def size(self): return len(self.a) if self.a else self.b[0].c
    async def go(self, n: list[int] | None = None, /) -> 'K':
        async with self as t, open(f'{n!r:>{self.w}}') as (u, v):
            yield [i.z async for i in t if (y := await i.q) and y < 3 < u]
def f(x, y=lambda q, *r: q.s(r)):
    global g
    try:
        del x.y, x[0]; g += {**x, 'k': [*y]}['k'](*x, k=1, **y)
    except (ValueError, KeyError) as e:
        raise X(e) from e
    else:
        match x:
            case {'a': K(p, q=1) as z, **rest} | [1, *_, z] if z:
                return z.rest, rest
            case _: pass
    finally:
        assert isinstance(x, K), x
    for i, j in zip(x, y):
        while i: break
    return f(1)(2).three[4:5:6, ...]
type A[T] = dict[str, T]  # pylint: disable=all
x = K(1).go().size.nothing()()
";

fn checked(text: &str) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("m.py"), text).unwrap();
    let mut config = crate::repo::ProjectConfig::new(dir.path());
    config.python = crate::repo::PythonChoice::Without;
    config.n_threads = 1;
    let Ok((project, _)) = crate::repo::Project::open(config) else { return };
    let report = super::run_check(&project.snapshot(), &[], &super::config()).unwrap();
    for finding in report.findings {
        assert!(finding.start <= finding.end, "{finding}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn checking_mutated_source_ends_without_panic(
        cuts in prop::collection::vec((0..SEED.len(), 0..40_usize, ".{0,6}"), 1..6),
    ) {
        let mut text = SEED.to_owned();
        for (at, len, insert) in cuts {
            let at = at.min(text.len());
            let end = (at + len).min(text.len());
            if text.is_char_boundary(at) && text.is_char_boundary(end) {
                text.replace_range(at..end, &insert);
            }
        }
        checked(&text);
    }

    #[test]
    fn checking_moved_lines_ends_without_panic(order in prop::collection::vec(0..38_usize, 1..60)) {
        let lines: Vec<&str> = SEED.lines().collect();
        let text: Vec<&str> = order.into_iter().map(|i| lines[i % lines.len()]).collect();
        checked(&text.join("\n"));
    }
}

#[test]
fn the_seed_itself_parses() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("m.py"), SEED).unwrap();
    let report = super::checked(dir.path());
    let ids: Vec<&str> = report.findings.iter().map(|f| f.message.id()).collect();
    assert!(!ids.contains(&"E0001"), "{:?}", report.findings);
}

#[test]
fn deep_and_long_sources_end() {
    let mut texts = vec!["(".repeat(10_000), "a.".repeat(20_000), "f(".repeat(3_000)];
    texts.push(format!("x = {}1{}\n", "[".repeat(1_500), "]".repeat(1_500)));
    texts.push(format!("x = {}\n", ["y"; 20_000].join(" + ")));
    texts.push(format!("x = {}\n", ["y"; 5_000].join(" < ")));
    texts.push((0..3_000).map(|i| format!("def f{i}(): return f{}().a\n", i + 1)).collect());
    let methods: String =
        (0..20_000).map(|i| format!("    def m{i}(self): return self.n{i}\n")).collect();
    texts.push(format!("class K:\n{methods}"));
    for text in texts {
        checked(&text);
    }
}
