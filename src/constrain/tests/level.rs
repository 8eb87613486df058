//! The monitor at the levels of keyword arguments and of variables.

use expect_test::expect;

use super::fixture::{check, check_report};

#[test]
fn a_keyword_argument_must_be_one_the_call_takes() {
    check_report(
        "vocab: w h width height = == ( , ) · 1
         candidates: width height
         levels: calls
         text: f$0
         tokens: ( width = 1 , h = == 1 , · w · = )",
        expect![[r#"
            (: accept; width: accept; =: ask keyword at 2 after `` typed `width`, accept; 1: accept; ,: accept; h: accept; =: ask keyword at 10 after `` typed `h`, reject; ==: accept; 1: accept; ,: accept; ·: accept; w: accept; ·: accept; =: ask keyword at 15 after `` typed `w`, reject; ): accept; free
            keyword at 2: closed (2 names), wrote width, wanted -
            keyword at 10: closed (2 names), wrote -, wanted =
            keyword at 15: closed (2 names), wrote -, wanted ="#]],
    );
}

#[test]
fn other_arguments_are_never_asked_about() {
    check_report(
        "vocab: a b = == != ( ) [ , . + => ·
         candidates: width
         levels: calls
         text: f$0
         tokens: ( a , b == a , a . b , a + b , ( a , b ) )",
        expect![
            "(: accept; a: accept; ,: accept; b: accept; ==: accept; a: accept; ,: accept; a: accept; .: accept; b: accept; ,: accept; a: accept; +: accept; b: accept; ,: accept; (: accept; a: accept; ,: accept; b: accept; ): accept; ): accept; free"
        ],
    );
}

#[test]
fn an_equals_sign_inside_a_token_counts_like_one_alone() {
    check(
        "vocab: (a=1 (width=1 (a==1 a=( =
         candidates: width
         levels: calls
         text: f$0
         tokens: (a=1 (a==1 (width=1",
        expect![
            "(a=1: ask keyword at 2 after `(` typed `a`, reject; (a==1: accept; (width=1: ask keyword at 7 after `(` typed `width`, accept; free"
        ],
    );
}

#[test]
fn without_a_token_for_a_comparison_two_signs_are_still_possible() {
    check(
        "vocab: a = 1 =1 ) <eos>
         candidates: width
         levels: calls
         text: f(a$0
         tokens: =",
        expect!["=: ask keyword at 2 after `` typed `a`, accept; = =1"],
    );
}

#[test]
fn a_variable_that_is_read_is_one_in_scope_or_no_variable_at_all() {
    check(
        "vocab: a ab x No None not f f' f'x b' b\" 1 ( ' · ·x ·a ⏎ [ <eos> rb br
         candidates: ab abc
         levels: names
         text: return·$0",
        expect![[r#"a ab None not f f' f'x b' b" 1 ( ' · ·x ·a ⏎ [ <eos> rb br"#]],
    );
    check(
        "vocab: c x not b f ' \" b' ·in .x (
         candidates: ab abc
         levels: names
         text: return·a$0
         tokens: b",
        expect![[r#"b: accept; c ' " ·in .x ("#]],
    );
}

#[test]
fn spaces_before_a_variable_ask_once() {
    check_report(
        "vocab: return · a x + ·+· ·x ·a
         candidates: a
         levels: names
         text: $0
         tokens: return · · x ·x a ·+· ·x ·a",
        expect![[r#"
            return: accept; ·: accept; ·: accept; x: reject; ·x: reject; a: accept; ·+·: accept; ·x: reject; ·a: accept; · + ·+· ·x ·a
            name at 7: closed (1 names), wrote a, wanted -
            name at 11: closed (1 names), wrote a, wanted -"#]],
    );
}

#[test]
fn what_may_become_a_target_is_free() {
    check_report(
        "vocab: x y = , for ·in· a + ⏎ : = ( ) [ ]
         candidates: a
         levels: names calls members
         text: $0
         tokens: x = y = ( x , y ) ⏎ for ( x , y ) ·in· a : x = [ x + y ]",
        expect![[r#"
            x: accept; =: accept; y: accept; =: accept; (: accept; x: accept; ,: accept; y: accept; ): accept; ⏎: accept; for: accept; (: accept; x: accept; ,: accept; y: accept; ): accept; ·in·: accept; a: accept; :: accept; x: accept; =: accept; [: accept; x: accept; +: accept; y: accept; ]: accept; free
            name at 22: closed (1 names), wrote a, wanted -"#]],
    );
}
