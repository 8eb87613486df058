//! Grammars through the `Constraint` trait, over the vocabulary of all single bytes and a few merges.

use std::sync::Arc;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::base::TokenId;
use crate::constrain::{
    Constraint, ConstraintError, GrammarCompiler, GrammarConstraint, GrammarSource, Need, Verdict,
    Vocabulary,
};

const EOS: TokenId = TokenId(0);

fn compiler() -> GrammarCompiler {
    let single: Vec<[u8; 1]> = (0..=255u8).map(|b| [b]).collect();
    let merged = ["\":", "\": ", "{\"", "true", "ab", "  ", "é"];
    let tokens = std::iter::once(&b""[..])
        .chain(single.iter().map(|b| &b[..]))
        .chain(merged.iter().map(|m| m.as_bytes()));
    let vocabulary = Vocabulary::new(tokens, &[EOS]).expect("a small vocabulary");
    GrammarCompiler::new(Arc::new(vocabulary)).expect("a vocabulary with an end")
}

fn compile(source: &GrammarSource) -> Result<GrammarConstraint, ConstraintError> {
    compiler().compile(source)
}

/// Feed a text byte by byte: how far it is accepted, and whether it may end there.
fn feed(constraint: &mut GrammarConstraint, text: &str) -> (usize, bool) {
    for (i, byte) in text.bytes().enumerate() {
        let token = TokenId(u32::from(byte) + 1);
        if constraint.check(token) != Verdict::Accept {
            return (i, false);
        }
        constraint.accept(token).expect("checked");
    }
    let may_end = match constraint.next() {
        Need::Mask(mask) => mask.is_allowed(EOS),
        _ => false,
    };
    (text.len(), may_end)
}

#[track_caller]
fn check(source: &GrammarSource, accepted: &[&str], refused: &[(&str, usize)]) {
    let constraint = compile(source).expect("a grammar");
    for text in accepted {
        let end = feed(&mut constraint.clone(), text);
        assert_eq!(end, (text.len(), true), "{text:?} is in the language");
    }
    for (text, at) in refused {
        let end = feed(&mut constraint.clone(), text);
        assert_eq!(end, (*at, false), "{text:?} is not in the language");
    }
}

#[track_caller]
fn check_refused(source: &GrammarSource, expect: Expect) {
    let compiler = compiler();
    let began = std::time::Instant::now();
    let error = compiler.compile(source).err();
    // Fifty on a quiet machine; these take less than one.
    assert!(began.elapsed().as_millis() < 250, "{:?}", began.elapsed());
    expect.assert_eq(&error.expect("refused").to_string());
}

fn regex(text: &str) -> GrammarSource {
    GrammarSource::Regex(text.into())
}

#[test]
fn a_regular_expression_holds_from_first_to_last_byte() {
    check(&regex("[0-9]+"), &["1", "123"], &[("", 0), ("a", 0), ("1a", 1)]);
    check(&regex("a a"), &["a a"], &[("a  a", 2), ("aa", 1)]);
    check(&regex("(yes|no)/\n?"), &["yes/", "no/\n"], &[("yeah", 2)]);
}

#[test]
fn a_negated_class_takes_whole_characters_and_no_broken_ones() {
    let constraint = compile(&regex("[^x]")).expect("a grammar");
    for text in ["é", "🦀", "y"] {
        assert_eq!(feed(&mut constraint.clone(), text), (text.len(), true));
    }
    for byte in [0xc0u8, b'x', 0xff] {
        let token = TokenId(u32::from(byte) + 1);
        assert_eq!(constraint.clone().check(token), Verdict::Reject, "{byte:x}");
    }
}

#[test]
fn a_list_of_choices_takes_one_of_them_and_forces_what_they_share() {
    let source = GrammarSource::Choice(vec!["alpha".into(), "alp\"ine\n".into(), "alp".into()]);
    check(&source, &["alpha", "alp\"ine\n", "alp"], &[("al", 2), ("beta", 0)]);
    let mut constraint = compile(&source).expect("a grammar");
    assert_eq!(constraint.forced(), b"alp");
}

#[test]
fn a_schema_is_enforced_and_ends_only_when_it_is_complete() {
    let schema = json!({
        "type": "object",
        "properties": { "a": { "type": "integer", "minimum": 3 }, "b": { "enum": ["x", null] } },
        "required": ["a"],
        "additionalProperties": false,
    });
    check(
        &GrammarSource::JsonSchema(schema),
        &["{\"a\":3}", "{ \"a\" : 12, \"b\":null}"],
        &[("{\"a\":2}", 6), ("{\"c\"", 2), ("{\"a\":3", 6), ("[", 0), ("{}", 1)],
    );
}

#[test]
fn white_space_in_json_is_bounded() {
    let source = GrammarSource::JsonSchema(json!({ "type": "array" }));
    let mut constraint = compile(&source).expect("a grammar");
    let (n, _) = feed(&mut constraint, &format!("[{}", " ".repeat(100)));
    assert_eq!(n, 17);
}

#[test]
fn after_a_backslash_only_json_escapes_follow() {
    let source = GrammarSource::JsonSchema(json!({ "type": "string" }));
    let mut constraint = compile(&source).expect("a grammar");
    feed(&mut constraint, "\"a\\");
    let Need::Mask(mask) = constraint.next() else {
        panic!("a mask");
    };
    let allowed: Vec<u8> = mask.ids().filter_map(|t| u8::try_from(t.0 - 1).ok()).collect();
    assert_eq!(String::from_utf8_lossy(&allowed), "\"\\bfnrtu");
}

#[test]
fn lark_and_gbnf_describe_the_same_language() {
    let lark = GrammarSource::Lark(
        "start: item (\",\" item)*\nitem: /[a-c]/ | \"(\" start \")\"\n".into(),
    );
    let gbnf = GrammarSource::Gbnf(
        "# a list\nroot ::= the-item (\",\" the-item)*\nthe-item ::= [a-c]\n  | \"(\" root \")\"  # nested\n"
            .into(),
    );
    for source in [lark, gbnf] {
        check(&source, &["a", "a,b", "(a,(c)),b"], &[("d", 0), ("a,,", 2), ("(a", 2)]);
    }
    let source =
        GrammarSource::Gbnf("root ::= [^\"\\\\\\n-] [-+] \"\\x41\\\"\\u00e9\"{1,2} .?".into());
    check(&source, &["x-A\"é", "é+A\"éA\"é", "/-A\"é\n"], &[("\"", 0), ("-", 0), ("x-B", 2)]);
}

#[test]
fn tokens_are_taken_back_and_forks_are_independent() {
    let mut constraint = compile(&regex("ab(c|d)e")).expect("a grammar");
    feed(&mut constraint, "ab");
    let mut fork = constraint.clone_box();
    assert_eq!(feed(&mut constraint, "ce"), (2, true));
    constraint.rollback(2).expect("two tokens are remembered");
    assert_eq!(feed(&mut constraint, "de"), (2, true));
    constraint.accept(EOS).expect("complete");
    assert!(constraint.accept(EOS).is_err(), "a second end is detected");
    constraint.rollback(1).expect("the end can be taken back");
    assert_eq!(feed(&mut constraint, ""), (0, true));
    assert!(constraint.rollback(99).is_err());
    assert_eq!(fork.check(TokenId(u32::from(b'c') + 1)), Verdict::Accept);
    assert_eq!(fork.check(TokenId(u32::from(b'a') + 1)), Verdict::Reject);
}

#[test]
fn a_token_that_does_not_fit_is_an_error_and_the_grammar_goes_on() {
    let mut constraint = compile(&regex("\\{\\}")).expect("a grammar");
    feed(&mut constraint, "{");
    let x = TokenId(u32::from(b'x') + 1);
    assert!(matches!(constraint.accept(x), Err(ConstraintError::Forbidden { offset: 1, .. })));
    assert_eq!(feed(&mut constraint, "}"), (1, true));
}

#[test]
fn mistakes_name_their_place() {
    check_refused(
        &GrammarSource::Gbnf("root ::=".into()),
        expect![
            "the GBNF grammar has a mistake at line 1, column 9: expected a literal, a class, a group or a rule"
        ],
    );
    check_refused(
        &GrammarSource::Gbnf("root ::= \"a\n".into()),
        expect!["the GBNF grammar has a mistake at line 1, column 12: the literal is not closed"],
    );
    check_refused(
        &GrammarSource::Gbnf("list ::= \"a\"".into()),
        expect!["the GBNF grammar has a mistake at line 1, column 13: there is no rule `root`"],
    );
    check_refused(
        &GrammarSource::Lark("start: \"a\"\n  b: :".into()),
        expect![[
            r#"the Lark grammar has a mistake at line 2, column 6: Expected value (at ":" (':'))"#
        ]],
    );
    check_refused(
        &GrammarSource::Lark("start: missing".into()),
        expect![[r#"the Lark grammar has a mistake at line 1, column 8: unknown name: "missing""#]],
    );
    check_refused(
        &GrammarSource::Lark(String::new()),
        expect!["the Lark grammar has a mistake: no start rule found"],
    );
    check_refused(&regex("a(b"), expect!["the regular expression has a mistake: unclosed group"]);
    check_refused(&regex(""), expect!["the regular expression has a mistake: it is empty"]);
    check_refused(
        &GrammarSource::Choice(vec![]),
        expect!["the list of choices has a mistake: it has no choice or an empty one"],
    );
}

#[test]
fn what_a_schema_asks_for_and_cannot_get_is_refused_by_name() {
    for (schema, expect) in [
        (
            json!({ "not": { "type": "string" } }),
            expect![[
                r#"the JSON schema uses "not", which cannot be enforced; remove it or check the result afterwards"#
            ]],
        ),
        (
            json!({ "type": "array", "uniqueItems": true }),
            expect![[
                r#"the JSON schema uses "uniqueItems", which cannot be enforced; remove it or check the result afterwards"#
            ]],
        ),
        (
            json!({ "type": "string", "format": "no-such-format" }),
            expect![[
                r#"the JSON schema uses the format "no-such-format", which cannot be enforced; remove it or check the result afterwards"#
            ]],
        ),
        (
            json!({ "type": "object", "properties": { "a": { "if": true, "then": {} } } }),
            expect![[
                r#"the JSON schema uses "if", "then", which cannot be enforced; remove it or check the result afterwards"#
            ]],
        ),
        (
            json!({ "$ref": "https://example.com/schema" }),
            expect![
                "the JSON schema uses a reference to https://example.com/schema, which cannot be enforced; remove it or check the result afterwards"
            ],
        ),
        (json!({ "type": "strin" }), expect!["the JSON schema has a mistake: Invalid type: strin"]),
        (json!(3), expect!["the JSON schema has a mistake: schema must be an object or boolean"]),
        (
            json!(false),
            expect!["the JSON schema has a mistake: Unsatisfiable schema: schema is false"],
        ),
        (
            json!({ "x-guidance": {} }),
            expect![[
                r#"the JSON schema uses "x-guidance", which cannot be enforced; remove it or check the result afterwards"#
            ]],
        ),
    ] {
        check_refused(&GrammarSource::JsonSchema(schema), expect);
    }
}

#[test]
fn hostile_grammars_are_refused_in_no_time() {
    let deep = (0..500).fold(json!(true), |inner, _| json!({ "items": inner }));
    let wide: Value = (0..200_000).map(|i| (format!("k{i}"), json!({ "type": "null" }))).collect();
    let pattern = json!({ "items": { "type": "string", "pattern": "^(a{1,500}){1,500}$" } });
    let lark = "start: (\"a\"{1,500}){1,500}";
    for (source, expect) in [
        (
            GrammarSource::JsonSchema(pattern),
            expect![
                "the JSON schema is too large: its counted repetitions multiply to too many positions; make it smaller"
            ],
        ),
        (
            GrammarSource::Lark(lark.into()),
            expect![
                "the Lark grammar is too large: its counted repetitions multiply to too many positions; make it smaller"
            ],
        ),
        (
            GrammarSource::Gbnf(lark.replace("start:", "root ::=")),
            expect![
                "the GBNF grammar is too large: its counted repetitions multiply to too many positions; make it smaller"
            ],
        ),
        (
            regex("(a{1,500}){1,500}"),
            expect![
                "the regular expression is too large: its counted repetitions multiply to too many positions; make it smaller"
            ],
        ),
        (
            regex("((a{1,50}){1,50}b){1,50}"),
            expect![
                "the regular expression is too large: its counted repetitions multiply to too many positions; make it smaller"
            ],
        ),
        (
            GrammarSource::JsonSchema(deep),
            expect!["the JSON schema is too large: nested too deep; make it smaller"],
        ),
        (
            GrammarSource::JsonSchema(json!({ "properties": wide })),
            expect!["the JSON schema is too large: more than 1 MiB of text; make it smaller"],
        ),
        (
            GrammarSource::JsonSchema(json!({ "enum": (0..20_000).collect::<Vec<_>>() })),
            expect![
                "the JSON schema is too large: a list of more than 10,000 entries; make it smaller"
            ],
        ),
        (
            GrammarSource::Gbnf(format!("root ::= {}", "(".repeat(100_000))),
            expect![
                "the GBNF grammar has a mistake at line 1, column 111: groups are nested too deep"
            ],
        ),
        (
            GrammarSource::Lark(format!("start: {}\"a\"", "(".repeat(100_000))),
            expect!["the Lark grammar is too large: nested too deep; make it smaller"],
        ),
    ] {
        check_refused(&source, expect);
    }
}
