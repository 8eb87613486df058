//! Where a name is surely read and where arguments begin, on texts by hand and on Python's own library.

use std::collections::HashSet;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::constrain::{PlaceKind, PythonLexer};

/// The text with `▸` where a name is surely read and `▹` where an argument may begin, before words only.
fn marked(text: &str) -> String {
    let mut lexer = PythonLexer::new();
    let mut out: Vec<u8> = Vec::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80 {
            match lexer.place() {
                Some(PlaceKind::Name) => out.extend("▸".as_bytes()),
                Some(PlaceKind::Keyword) => out.extend("▹".as_bytes()),
                _ => {}
            }
        }
        out.push(byte);
        lexer.push(byte);
    }
    String::from_utf8(out).expect("marks stand between characters")
}

#[track_caller]
fn check(expected: &str) {
    let text = expected.replace(['▸', '▹'], "");
    assert_eq!(marked(&text), expected);
}

#[test]
fn what_can_still_become_a_target_is_not_a_read() {
    for text in [
        "x = y = z\n",
        "a, b = c, d\n",
        "(a, [b, *c]) = d\n",
        "for a, (b, c) in ▸d: e\n",
        "async for a in ▸b, ▸c: pass\n",
        "if a := ▸b: pass\n",
        "while a := ▸b: pass\n",
        "x: T | U = y + z\n",
        "with ▸a as b, ▸c as d: pass\n",
        "import a; from b import c; global d; del e\n",
        "def f(a=b + c, *d: e, **g) -> h | i: return ▸j\n",
        "class A(B, metaclass=C + D): x = y + ▸z\n",
        "case a | b if c + d: e + f\n",
        "type X[T] = T | U\n",
        "x = lambda a: a + b\n",
        "try: pass\nexcept ▸A as b: raise ▸c from ▸d\n",
        "*a, b = c\n",
        "match x, y:\n  case B(c=d): e\n",
        "def f(a, b=c(d)): pass\n",
    ] {
        check(text);
    }
}

#[test]
fn operands_of_operators_and_of_statements_that_only_read_are_reads() {
    for text in [
        "x = y + ▸z * ▸w - ▸v\n",
        "x += ▸y\n",
        "x == ▸y <= ▸z != ▸w\n",
        "return ▸x, ▸y if ▸z else ▸w\n",
        "x = y if ▸z else ▸w\n",
        "assert ▸not ▸x and ▸y in ▸z, ▸w\n",
        "if not ▸x or ▸y is ▸not ▸z: return -▸w\n",
        "yield ▸from ▸x\n",
        "x = await ▸y ** ▸z\n",
        "return ▸x.y + ▸z.w[a, b + ▸c:▸d]\n",
        "x = f'{x} {y + ▸z!r:>{▸w}}' + ▸v\n",
    ] {
        check(text);
    }
}

#[test]
fn comprehensions_and_lambdas_may_bind_what_stands_in_their_bracket() {
    for text in [
        "x = [a + b for a, b in c + d if a + b]\n",
        "x = {a: b + c for a in d}\n",
        "x = f(▹a + b for a in c)\n",
        "x = [f(▹a, ▹b + c) for c in d]\n",
        "x = [a, b + ▸c]\n",
        "x = {a: b, c: ▸d}\n",
        "x = (f'{a + b}' for a in b)\n",
        "f(▹a, ▹key=▸lambda b, c=d: b + c, ▹d + e)\n",
        "f(▹a, (lambda b: b + c)(▹d), ▹e + ▸f)\n",
        "x = a[b + ▸c]\n",
    ] {
        check(text);
    }
}

#[test]
fn arguments_begin_in_the_parentheses_of_calls() {
    for text in [
        "f(▹a, ▹b=▸c, *d, **e)\n",
        "f(▹a == b, ▹c == ▸d)\n",
        "f(▹a==b, ▹c)\n",
        "f(\n  ▹a, # why\n  ▹b=▸c.d(▹e),\n)\n",
        "x.f(▹a)(▹b)[c](▹d)\n",
        "x = (a, b)\n",
        "print('a', ▹b)\n",
        "return ▸not (a)\n",
        "f'{g(▹a, ▹b=▸c)}'\n",
    ] {
        check(text);
    }
}

/// Every place found in the library is one by Python's own parser; most keyword arguments are found.
#[test]
fn python_agrees_about_every_place_in_its_own_library() {
    let script = include_str!("reads.py");
    let output = Command::new("python3")
        .args(["-I", "-W", "ignore", "-c", script])
        .stderr(Stdio::null())
        .output();
    let Some(output) = output.ok().filter(|o| o.status.success()) else {
        println!("SKIPPED: no python3 to ask");
        return;
    };
    let (mut n_reads, mut n_found, mut n_keywords, mut n_keywords_found) = (0, 0, 0, 0);
    let mut wrong = Vec::new();
    for line in output.stdout.split(|&b| b == b'\n').filter(|l| !l.is_empty()) {
        let file: Value = serde_json::from_slice(line).expect("a line of JSON");
        let text = std::fs::read(file["path"].as_str().expect("a path")).expect("just parsed");
        let offsets = |key: &str| -> HashSet<usize> {
            let list = file[key].as_array().expect("offsets").iter();
            list.map(|o| o.as_u64().expect("an offset") as usize).collect()
        };
        let (reads, keywords) = (offsets("reads"), offsets("keywords"));
        n_reads += reads.len();
        n_keywords += keywords.len();
        let mut lexer = PythonLexer::new();
        for (i, &byte) in text.iter().enumerate() {
            let place = lexer.place();
            lexer.push(byte);
            let is_start = byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80;
            match place {
                Some(PlaceKind::Keyword) if is_start => {
                    n_keywords_found += usize::from(keywords.contains(&i));
                    if names_argument(&text[i..]) && !keywords.contains(&i) {
                        wrong.push(excerpt(&file, &text, i));
                    }
                }
                Some(PlaceKind::Name) if is_start && !is_other_word(&text[i..]) => {
                    n_found += usize::from(reads.contains(&i));
                    if !reads.contains(&i) {
                        wrong.push(excerpt(&file, &text, i));
                    }
                }
                _ => {}
            }
        }
    }
    println!(
        "{n_found} of {n_reads} reads are sure, {n_keywords_found} of {n_keywords} keyword arguments found"
    );
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
    assert!(n_reads > 50_000 && n_found * 5 > n_reads, "{n_found} of {n_reads}");
    assert!(n_keywords_found * 100 > n_keywords * 98, "{n_keywords_found} of {n_keywords}");
}

fn word(text: &[u8]) -> &[u8] {
    let n = text.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_' || **b >= 0x80);
    &text[..n.count()]
}

/// Whether a word is a keyword that may stand where a name is read, or begins a string.
fn is_other_word(text: &[u8]) -> bool {
    let word = word(text);
    let keywords =
        ["None", "True", "False", "not", "lambda", "await", "yield", "in", "from", "if", "else"];
    keywords.iter().any(|k| k.as_bytes() == word)
        || matches!(text.get(word.len()), Some(b'\'' | b'"')) && word.len() <= 2
}

/// Whether a text begins with a name and a single equals sign.
fn names_argument(text: &[u8]) -> bool {
    let rest = &text[word(text).len()..];
    let rest = rest.trim_ascii_start();
    rest.starts_with(b"=") && !rest.starts_with(b"==")
}

fn excerpt(file: &Value, text: &[u8], at: usize) -> String {
    let start = text[..at].iter().rposition(|&b| b == b'\n').map_or(0, |n| n + 1);
    let end = text[at..].iter().position(|&b| b == b'\n').map_or(text.len(), |n| at + n);
    let path = file["path"].as_str().unwrap_or_default();
    let (before, after) = (&text[start..at], &text[at..end]);
    format!("{path}: {}▸{}", String::from_utf8_lossy(before), String::from_utf8_lossy(after))
}
