//! Tests of chat templates: what real templates use, and what a hostile one may not do.
//!
//! # Place
//! Part of `tokenizer`.

use std::time::{Duration, Instant, UNIX_EPOCH};

use super::*;

fn options() -> ChatOptions {
    ChatOptions {
        add_generation_prompt: true,
        // 2024-02-29 13:05:09 UTC, a Thursday.
        now: UNIX_EPOCH + Duration::from_secs(1_709_211_909),
        variables: BTreeMap::new(),
    }
}

fn hello() -> Vec<Message> {
    vec![Message::new("system", "S"), Message::new("user", "<&'\">")]
}

#[track_caller]
fn check(template: &str, expected: &str) {
    let template = ChatTemplate::new(template, TemplateSource::Gguf)
        .expect("compiles")
        .with_tokens("<s>".to_owned(), "</s>".to_owned());
    assert_eq!(template.render(&hello(), &options()).expect("renders"), expected);
}

#[test]
fn text_is_not_escaped_and_blocks_are_trimmed() {
    check(
        "{% for m in messages %}\n  {% if m['role'] == 'user' %}\n{{ m['content'] }}\n{% endif %}\n{% endfor %}\n{{ eos_token }}",
        "<&'\">\n</s>",
    );
}

#[test]
fn methods_of_python_strings_and_slices_work() {
    check(
        "{% set rest = messages[1:] %}{{ bos_token + messages[0].content.strip().lower() }}{{ rest | length }}{{ 'a|b'.split('|')[-1] }}{{ 'x'.startswith('x') }}",
        "<s>s1bTrue",
    );
}

#[test]
fn namespaces_loop_controls_and_the_generation_prompt_work() {
    check(
        "{% set ns = namespace(n=0) %}{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}{% if add_generation_prompt %}A{% endif %}",
        "1A",
    );
}

#[test]
fn generation_tags_are_transparent() {
    check("{%- generation -%} a {%- endgeneration -%} b", "ab");
    check("{% generation %}a{% endgeneration %}", "a");
}

#[test]
fn the_date_is_the_one_given() {
    check(
        "{{ strftime_now('%d %b %Y, %A %B %H:%M:%S %I%p %y %e %% %q') }}",
        "29 Feb 2024, Thursday February 13:05:09 01PM 24 29 % %q",
    );
}

#[test]
fn json_is_spelled_as_python_spells_it() {
    check("{{ {'a': [1, 'é<'], 'b': none} | tojson }}", "{\"a\": [1, \"é<\"], \"b\": null}");
    check("{{ [1] | tojson(indent=2) }}", "[\n  1\n]");
}

#[test]
fn variables_of_the_caller_are_seen() {
    let template = ChatTemplate::new("{{ enable_thinking }}", TemplateSource::Gguf).unwrap();
    let mut options = options();
    options.variables.insert("enable_thinking".to_owned(), false.into());
    assert_eq!(template.render(&hello(), &options).unwrap(), "False");
}

#[test]
fn an_exception_of_the_template_is_its_words_and_its_source() {
    let template = ChatTemplate::new(
        "{{ raise_exception('roles must alternate') }}",
        TemplateSource::JinjaFile,
    )
    .unwrap();
    let error = template.render(&hello(), &options()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the chat template (chat_template.jinja) refuses these messages: roles must alternate (line 1)"
    );
}

#[test]
fn a_template_that_is_none_or_never_ends_is_an_error() {
    let error =
        ChatTemplate::new("{% for %}", TemplateSource::Gguf).err().expect("must be refused");
    assert!(error.problem.contains("line 1"), "{error}");
    let template = ChatTemplate::new(
        "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}",
        TemplateSource::Gguf,
    )
    .unwrap();
    let began = Instant::now();
    let error = template.render(&hello(), &options()).unwrap_err();
    assert!(matches!(error, TokenizerError::Refused { .. }), "{error}");
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn defaults_are_given_only_to_known_vocabularies() {
    let chatml = ChatTemplate::known(|name| name.starts_with("<|im_")).expect("known");
    assert_eq!(chatml.source(), TemplateSource::DefaultChatMl);
    assert_eq!(
        chatml.render(&[Message::new("user", "x")], &options()).unwrap(),
        "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n"
    );
    let llama3 = ChatTemplate::known(|name| ["<|start_header_id|>", "<|eot_id|>"].contains(&name))
        .expect("known");
    assert_eq!(llama3.source(), TemplateSource::DefaultLlama3);
    assert!(ChatTemplate::known(|_| false).is_none());
}
