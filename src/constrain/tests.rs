//! Tests of the automata and the monitor over vocabularies small enough to check by hand.

mod automaton;

mod fixture;
mod grammar;
mod guide;
mod law;
mod level;
mod monitor;
mod policy;
mod reading;

use expect_test::expect;

use fixture::{check, check_report};

use super::{PlaceKind, PythonLexer};

#[test]
fn mask_after_dot_allows_only_member_prefixes() {
    check(
        "vocab: a an ant app
         candidates: ant
         text: x.$0",
        expect!["ant"],
    );
}

#[test]
fn every_tokenisation_of_a_name_is_legal_and_none_with_a_leading_space() {
    check(
        "vocab: sp spin spind in dle ·spin
         candidates: spin spindle
         text: x.$0",
        expect!["sp spin"],
    );
}

#[test]
fn a_name_that_begins_another_may_end_or_go_on() {
    check(
        "vocab: a ab a( ac b ( <eos>
         candidates: a ab
         text: x.$0",
        expect!["a ab a("],
    );
    check(
        "vocab: a ab a( ac b ( <eos>
         candidates: a ab
         text: x.$0
         tokens: a",
        expect!["a: accept; b ( <eos>"],
    );
}

#[test]
fn ids_with_equal_bytes_are_all_allowed() {
    check(
        "vocab: a a b
         candidates: a
         text: x.$0",
        expect!["a a"],
    );
}

#[test]
fn a_token_that_contains_the_dot_and_more_is_asked_about_before_it_counts() {
    check(
        "vocab: .app .apple .b ). ( q
         candidates: append
         text: f(x)$0
         tokens: .app",
        expect![".app: ask member at 5 after `.` typed `app`, reject; ). ( q"],
    );
}

#[test]
fn a_token_whose_rest_after_the_dot_does_not_exist_is_rejected_with_its_like() {
    check(
        "vocab: .app .apple .b .a. ). ( q e n d
         candidates: append
         text: f(x)$0
         tokens: .apple",
        expect![".apple: ask member at 5 after `.` typed `apple`, reject; .app ). ( q e n d"],
    );
}

#[test]
fn a_token_after_which_no_name_can_be_completed_is_not_allowed() {
    check(
        "vocab: s sp spi in n dle d
         candidates: spin spindle spice
         text: x.$0",
        expect!["sp spi"],
    );
    check(
        "vocab: a b
         candidates: π
         text: x.$0",
        expect![
            "dead end: no token of the vocabulary continues `` to one of the 1 names that exist at byte 2"
        ],
    );
}

#[test]
fn the_monitor_is_off_between_names() {
    check_report(
        "vocab: a b c d e . ( ) .d
         candidates: b d e
         text: $0
         tokens: a . b ( c . d . e )",
        expect![[r#"
            a: accept; .: accept; b: accept; (: accept; c: accept; .: accept; d: accept; .: accept; e: accept; ): accept; free
            member at 2: closed (3 names), wrote b, wanted -
            member at 6: closed (3 names), wrote d, wanted -
            member at 8: closed (3 names), wrote e, wanted -"#]],
    );
}

#[test]
fn only_a_closed_answer_forbids() {
    for (answer, expected) in [
        ("open", expect!["free"]),
        ("unknown", expect!["free"]),
        ("timed_out", expect!["free"]),
        ("closed", expect!["a"]),
    ] {
        check(
            &format!(
                "vocab: a b c .
                 answer: {answer}
                 candidates: a
                 text: x.$0"
            ),
            expected,
        );
    }
}

#[test]
fn dots_that_are_no_attribute_access_never_ask() {
    for text in [
        "# see os.",
        "x = 3.",
        "x = 1.e5 + .",
        "from .",
        "from ..pkg.",
        "import os.",
        "s = 'os.",
        "s = '''os.",
        "def f():\n    \"\"\"see os.",
        "x = [...,.",
        "f'os.",
        "f'{x}os.",
        "f'{x:.",
        "f'{{os.",
        "f'\\N{DASH}x.",
        "rb'os.",
        "x = ..",
        "s = 'a\\'os.",
        "s = r'a\\'os.",
        "x.\n",
    ] {
        assert!(!fires_at_end(text), "{text:?}");
    }
}

#[test]
fn dots_on_values_ask_wherever_they_stand() {
    for text in [
        "x.",
        "f(x).",
        "x[0].",
        "{}.",
        "'a'.",
        "\"\"\"a\"\"\".",
        "''.",
        "rb'a'.",
        "1.5.",
        "1..",
        "0x1f.",
        "1e5.",
        "1j.",
        "1 .",
        "....",
        "None.",
        "x .",
        "x. ",
        "(x\n.",
        "(x.\n  ",
        "x\\\n.",
        "x.\\\n",
        "x.\\\r\n",
        "(x. # why\n",
        "@a.",
        "f'{os.",
        "f'{x:{w.",
        "f'{x:{w}.3}' + s.",
        "f'{x!r:>{w}}{y.",
        "f\"{a[\"k\"].",
        "f'''{\nx.",
        "f'\\N{DASH}{x.",
        "f'\\{x.",
        "yield from x.",
        "raise A from e.",
        "s = 'not closed\nx.",
        "f(\ndef g():\n    x.",
        "lambda: x.",
        "if x: y.",
        "x if y else z.",
        "import os; os.",
        "from a import b\nb.",
        "π.",
    ] {
        assert!(fires_at_end(text), "{text:?}");
    }
}

fn fires_at_end(text: &str) -> bool {
    let mut lexer = PythonLexer::new();
    lexer.push_all(text.as_bytes());
    lexer.place() == Some(PlaceKind::Member)
}

#[test]
fn a_typed_prefix_narrows_the_names_and_is_normalised() {
    check(
        "vocab: a d e ( el f i t g l ﬁ
         candidates: field fidget
         text: x.ﬁ$0",
        expect!["d e el"],
    );
}
