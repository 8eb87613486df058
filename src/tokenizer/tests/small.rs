//! Small vocabularies of our own, one fault of real tokenizers each.
//!
//! # Place
//! Part of the tests of `tokenizer`.

use std::time::{Duration, Instant};

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

fn encode(tokenizer: &Tokenizer, text: &str) -> Vec<TokenId> {
    tokenizer.encode(text, Specials::AsText, AddBos::Never).unwrap()
}

/// The pieces that a text is cut into, as lossy text.
fn pieces(tokenizer: &Tokenizer, text: &str) -> Vec<String> {
    let ids = encode(tokenizer, text);
    let piece = |id| String::from_utf8_lossy(tokenizer.token_bytes(id)).into_owned();
    ids.into_iter().map(piece).collect()
}

#[test]
fn bytes_are_kept_by_id_and_make_a_character_together() {
    let tokenizer = from_metadata(&byte_level("gpt-2", &[], &[])).unwrap();
    let ids = encode(&tokenizer, "€");
    assert_eq!(ids, [TokenId(0xE2), TokenId(0x82), TokenId(0xAC)]);
    let bytes: Vec<&[u8]> = ids.iter().map(|&id| tokenizer.token_bytes(id)).collect();
    assert_eq!(bytes, [b"\xE2", b"\x82", b"\xAC"]);
    assert_eq!(tokenizer.decode(&ids), "€");
    assert_eq!(tokenizer.byte_token(0xAC), Some(TokenId(0xAC)));
}

#[test]
fn spelling_of_spaces_and_newlines_is_undone() {
    let merges = ["s p", "sp in", "Ġ spin", "Ċ Ċ"].map(|m| m.replace("sp in", "sp i"));
    let merges: Vec<&str> = merges.iter().map(String::as_str).collect();
    // " spin" needs "spin": made here of "spi" and "n".
    let merges = [&merges[..2], &["spi n", "Ġ spin", "Ċ Ċ"]].concat();
    let tokenizer = from_metadata(&byte_level("gpt-2", &merges, &[])).unwrap();
    assert_eq!(pieces(&tokenizer, " spin"), [" spin"]);
    assert_eq!(pieces(&tokenizer, "spin"), ["spin"]);
    assert_eq!(pieces(&tokenizer, "\n\n"), ["\n\n"]);
    tokenizer.check_constrainable().unwrap();
}

#[test]
fn digits_are_split_as_the_named_splitter_does() {
    let merges = ["1 2", "12 3", "123 4"];
    let cut = |pre| pieces(&from_metadata(&byte_level(pre, &merges, &[])).unwrap(), "x1234");
    assert_eq!(cut("gpt-2"), ["x", "1234"]);
    assert_eq!(cut("smollm"), ["x", "1", "2", "3", "4"]);
    assert_eq!(cut("qwen2"), ["x", "1", "2", "3", "4"]);
    assert_eq!(cut("llama-bpe"), ["x", "123", "4"]);
    assert_eq!(cut("falcon"), ["x", "123", "4"]);
    assert_eq!(cut("deepseek-coder"), ["x", "1", "2", "3", "4"]);
    assert_eq!(cut("deepseek-llm"), ["x", "1234"]);
}

#[test]
fn an_unknown_or_missing_splitter_is_refused() {
    let metadata = byte_level("my-own", &[], &[]);
    let error = from_metadata(&metadata).err().expect("must be refused");
    expect![[r#"
        the text splitter "my-own" (tokenizer.ggml.pre) is not supported, and another one would silently give wrong tokens; supported are gpt-2, smollm, starcoder, refact, llama-bpe, llama3, llama-v3, qwen2, deepseek-r1-qwen, deepseek-coder, deepseek-llm, falcon"#]]
    .assert_eq(&error.to_string());
    let mut metadata = metadata;
    metadata.retain(|(key, _)| *key != "tokenizer.ggml.pre");
    let error = from_metadata(&metadata).err().expect("must be refused");
    assert!(matches!(error, TokenizerError::NoSplitter), "{error}");
}

/// The message of the error that `metadata` must give.
#[track_caller]
fn check_refused(metadata: &[(&'static str, MetaValue)], expect: Expect) {
    let error = from_metadata(metadata).err().expect("must be refused");
    expect.assert_eq(&error.to_string());
}

#[test]
fn descriptions_that_contradict_themselves_are_refused() {
    let good = || byte_level("gpt-2", &["a b"], &[]);
    let spm = || marked(&[("a", -1.0)]);
    assert!(from_metadata(&good()).is_ok() && from_metadata(&spm()).is_ok());
    let model = |name: &str| MetaValue::Str(name.to_owned());
    check_refused(
        &with(good(), "tokenizer.ggml.model", model("bert")),
        expect![[
            r#"the tokenizer model "bert" (tokenizer.ggml.model) is not supported; supported are gpt2, llama"#
        ]],
    );
    let strings =
        |items: &[&str]| MetaValue::Strings(items.iter().map(|s| s.to_string()).collect());
    check_refused(
        &with(good(), "tokenizer.ggml.tokens", strings(&[])),
        expect!["the vocabulary has 0 tokens; from 1 to 2000000 are accepted"],
    );
    check_refused(
        &with(good(), "tokenizer.ggml.token_type", MetaValue::I32s(vec![1])),
        expect!["the tokenizer has 1 entries of tokenizer.ggml.token_type, but 257 tokens"],
    );
    check_refused(
        &with(good(), "tokenizer.ggml.token_type", MetaValue::I32s(vec![9; 257])),
        expect!["token 0 has type 9 (tokenizer.ggml.token_type), expected 1 to 6"],
    );
    check_refused(
        &with(good(), "tokenizer.ggml.merges", strings(&["ab"])),
        expect![[r#"merge 0 is "ab", expected two pieces with one space between them"#]],
    );
    check_refused(
        &with(good(), "tokenizer.ggml.merges", strings(&["a c"])),
        expect!["the byte-pair merges do not fit the vocabulary: Token `ac` out of vocabulary"],
    );
    check_refused(
        &with(good(), "tokenizer.ggml.merges", MetaValue::U32(1)),
        expect![[
            r#"m.gguf: metadata "tokenizer.ggml.merges" has type u32, expected array of strings"#
        ]],
    );
    check_refused(
        &with(good(), "tokenizer.ggml.eos_token_id", MetaValue::U32(257)),
        expect!["tokenizer.ggml.eos_token_id is token 257, but the vocabulary has 257 tokens"],
    );
    check_refused(
        &with(good(), "tokenizer.ggml.bos_token_id", MetaValue::I32(-1)),
        expect![[
            r#"m.gguf: metadata "tokenizer.ggml.bos_token_id" has type i32, expected a whole number, not negative"#
        ]],
    );
    check_refused(
        &with(spm(), "tokenizer.ggml.scores", MetaValue::F32s(vec![0.0])),
        expect!["the tokenizer has 1 entries of tokenizer.ggml.scores, but 260 tokens"],
    );
    // Some converters write this for "none".
    let none = with(good(), "tokenizer.ggml.eos_token_id", MetaValue::U32(u32::MAX));
    assert_eq!(from_metadata(&none).unwrap().eos().ids(), []);
}

#[test]
fn special_tokens_are_found_only_when_asked_for_and_have_no_bytes() {
    let extra = [("<|im_end|>", 3), ("<COMP>", 4), ("<pad>", 5)];
    let tokenizer = from_metadata(&byte_level("gpt-2", &[], &extra)).unwrap();
    let [end, comp, pad] = [256, 257, 258].map(TokenId);
    let text = "a<|im_end|><COMP><pad>";
    let parsed = tokenizer.encode(text, Specials::Parse, AddBos::Never).unwrap();
    assert_eq!(parsed, [TokenId(u32::from(b'a')), end, comp, pad]);
    let as_text = encode(&tokenizer, text);
    assert!(!as_text.contains(&end) && !as_text.contains(&pad), "{as_text:?}");
    assert_eq!(tokenizer.decode(&as_text), text);
    assert_eq!(tokenizer.token_bytes(end), b"");
    assert_eq!(tokenizer.token_bytes(comp), b"<COMP>");
    assert!(tokenizer.is_control(end) && tokenizer.is_control(pad));
    assert!(tokenizer.is_control(TokenId(9999)) && !tokenizer.is_control(comp));
    assert_eq!(tokenizer.special_id("<COMP>"), Some(comp));
    assert_eq!(tokenizer.special_text(end), Some("<|im_end|>"));
    assert_eq!(tokenizer.decode(&parsed), "a<COMP>");
}

#[test]
fn the_end_is_what_any_field_or_known_control_token_says() {
    let extra = [("<|im_end|>", 3), ("<|endoftext|>", 3), ("</s>", 1), ("x1", 1), ("x2", 1)];
    let metadata = byte_level("gpt-2", &[], &extra);
    let metadata = with(metadata, "tokenizer.ggml.eos_token_id", MetaValue::U32(260));
    let metadata = with(metadata, "tokenizer.ggml.eot_token_id", MetaValue::U32(259));
    let eos = from_metadata(&metadata).unwrap().eos().clone();
    // "</s>" is an ordinary piece here: text that looks like an end is none.
    assert_eq!(eos.ids(), [256, 257, 259, 260].map(TokenId));
    assert!(eos.contains(TokenId(257)) && !eos.contains(TokenId(258)));
}

#[test]
fn infilling_tokens_come_from_keys_or_known_names() {
    let plain = byte_level("gpt-2", &[], &[]);
    assert_eq!(from_metadata(&plain).unwrap().fim(), None);
    let names = [("<fim_prefix>", 3), ("<fim_middle>", 3), ("<fim_suffix>", 3)];
    let named = from_metadata(&byte_level("gpt-2", &[], &names)).unwrap().fim().unwrap();
    assert_eq!(
        (named.prefix, named.middle, named.suffix),
        (TokenId(256), TokenId(257), TokenId(258))
    );
    let mut keyed = plain;
    for (key, id) in [
        ("tokenizer.ggml.fim_pre_token_id", 7),
        ("tokenizer.ggml.fim_suf_token_id", 8),
        ("tokenizer.ggml.fim_mid_token_id", 9),
    ] {
        keyed.push((key, MetaValue::U32(id)));
    }
    assert_eq!(from_metadata(&keyed).unwrap().fim().unwrap().middle, TokenId(9));
}

#[test]
fn the_first_token_is_added_once_or_never() {
    let template = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}";
    let metadata = byte_level("gpt-2", &[], &[("<s>", 3)]);
    let metadata = with(metadata, "tokenizer.ggml.bos_token_id", MetaValue::U32(256));
    let metadata = with(metadata, "tokenizer.chat_template", MetaValue::Str(template.to_owned()));
    let bos = TokenId(256);
    let count = |tokenizer: &Tokenizer, text: &str, add| {
        let ids = tokenizer.encode(text, Specials::Parse, add).unwrap();
        ids.iter().filter(|&&id| id == bos).count()
    };
    let tokenizer = from_metadata(&metadata).unwrap();
    assert_eq!(count(&tokenizer, "x", AddBos::Auto), 0);
    let metadata = with(metadata, "tokenizer.ggml.add_bos_token", MetaValue::Bool(true));
    let tokenizer = from_metadata(&metadata).unwrap();
    assert_eq!(count(&tokenizer, "x", AddBos::Auto), 1);
    assert_eq!(count(&tokenizer, "x", AddBos::Never), 0);
    let chat = tokenizer.chat_template().unwrap();
    assert_eq!(chat.source(), TemplateSource::Gguf);
    let options = ChatOptions {
        add_generation_prompt: false,
        now: std::time::UNIX_EPOCH,
        variables: Default::default(),
    };
    let prompt = chat.render(&[Message::new("user", "hi")], &options).unwrap();
    assert_eq!(prompt, "<s>hi");
    assert_eq!(count(&tokenizer, &prompt, AddBos::Never), 1);
    assert_eq!(count(&tokenizer, &prompt, AddBos::Auto), 1);
}

#[test]
fn a_model_without_template_and_of_no_known_kind_has_none() {
    let tokenizer = from_metadata(&byte_level("gpt-2", &[], &[])).unwrap();
    let error = tokenizer.chat_template().err().expect("must be refused");
    assert!(matches!(error, TokenizerError::NoChatTemplate), "{error}");
}

#[test]
fn a_template_that_is_not_valid_stops_conversations_only() {
    let metadata = byte_level("gpt-2", &[], &[]);
    let template = MetaValue::Str("{% if %}".to_owned());
    let tokenizer = from_metadata(&with(metadata, "tokenizer.chat_template", template)).unwrap();
    assert_eq!(encode(&tokenizer, "a"), [TokenId(u32::from(b'a'))]);
    let error = tokenizer.chat_template().err().expect("must be refused");
    assert!(matches!(error, TokenizerError::BadTemplate(_)), "{error}");
}

#[test]
fn more_tokens_than_rows_is_an_error_and_more_rows_than_tokens_is_not() {
    let tokenizer = from_metadata(&byte_level("gpt-2", &[], &[])).unwrap();
    tokenizer.check_fits(256).unwrap();
    tokenizer.check_fits(264).unwrap();
    assert!(tokenizer.is_control(TokenId(256)) && tokenizer.token_bytes(TokenId(256)).is_empty());
    let error = tokenizer.check_fits(255).unwrap_err();
    expect!["the tokenizer has 256 tokens, but the model only 255 embedding rows; the files do not belong together"]
        .assert_eq(&error.to_string());
}

#[test]
fn a_vocabulary_that_cannot_write_a_newline_is_not_constrained() {
    let pieces: Vec<String> = [" ", ".", "(", "_"].map(|p| p.replace(' ', "Ġ")).to_vec();
    let metadata = byte_level("gpt-2", &[], &[]);
    let metadata = with(metadata, "tokenizer.ggml.token_type", MetaValue::I32s(vec![1; 4]));
    let metadata = with(metadata, "tokenizer.ggml.tokens", MetaValue::Strings(pieces));
    let error = from_metadata(&metadata).unwrap().check_constrainable().unwrap_err();
    expect![r"no token of the vocabulary is exactly '\n', so text with it cannot be constrained; use --guide off"]
        .assert_eq(&error.to_string());
}

#[test]
fn sentencepiece_merges_the_best_pair_first_and_the_leftmost_of_equals() {
    let tokenizer = from_metadata(&marked(&[
        ("▁", -9.0),
        ("a", -9.0),
        ("b", -9.0),
        ("c", -9.0),
        ("ab", -2.0),
        ("bc", -1.0),
        ("aa", -3.0),
    ]))
    .unwrap();
    assert_eq!(pieces(&tokenizer, "abc"), [" ", "a", "bc"]);
    assert_eq!(pieces(&tokenizer, "aaa"), [" ", "aa", "a"]);
}

#[test]
fn sentencepiece_falls_back_to_bytes_both_ways() {
    let tokenizer = from_metadata(&marked(&[("▁", -1.0)])).unwrap();
    let ids = tokenizer.encode("π", Specials::AsText, AddBos::Never).unwrap();
    // After the space in front: 0xCF and 0x80, whose ids begin at 3.
    assert_eq!(ids[1..], [TokenId(3 + 0xCF), TokenId(3 + 0x80)]);
    assert_eq!(tokenizer.decode(&ids), "π");
    assert_eq!(tokenizer.encode("x", Specials::AsText, AddBos::Auto).unwrap()[0], TokenId(1));
}

#[test]
fn sentencepiece_puts_one_space_in_front_and_takes_it_away_again() {
    let tokenizer = from_metadata(&marked(&[
        ("▁", -9.0),
        ("▁d", -1.0),
        ("▁de", -0.8),
        ("▁def", -0.5),
        ("▁f", -1.0),
        ("d", -9.0),
        ("e", -9.0),
        ("f", -9.0),
    ]))
    .unwrap();
    let ids = encode(&tokenizer, "def f");
    assert_eq!(bytes_of(&tokenizer, &ids), b" def f");
    let mut stream = tokenizer.stream_from_start();
    let text: Vec<String> = ids.iter().map(|&id| stream.push(id)).collect();
    assert_eq!(text, ["def", " f"]);
    // In the middle of a text the space belongs to it, and nothing is put in front.
    let mut stream = tokenizer.stream();
    assert_eq!(stream.push(ids[1]), " f");
    assert_eq!(bytes_of(&tokenizer, &tokenizer.encode_bytes(b"def f")), b"def f");
    let parsed = tokenizer.encode("f</s>f", Specials::Parse, AddBos::Never).unwrap();
    assert_eq!(bytes_of(&tokenizer, &parsed), b" f f");
    assert_eq!(parsed[1], TokenId(2));
    assert!(!encode(&tokenizer, "f</s>f").contains(&TokenId(2)));
}

#[test]
fn bytes_that_are_no_text_become_byte_tokens() {
    for metadata in [byte_level("gpt-2", &[], &[]), marked(&[("▁", -1.0)])] {
        let tokenizer = from_metadata(&metadata).unwrap();
        for bytes in [&b"\xE6\xAD"[..], b"a\xFFb", b"\xF0\x9F\xA6\x80\xF0", b""] {
            assert_eq!(bytes_of(&tokenizer, &tokenizer.encode_bytes(bytes)), bytes);
        }
    }
}

#[test]
fn long_texts_take_time_in_proportion() {
    let spm =
        from_metadata(&marked(&[("▁", -9.0), ("a", -9.0), ("aa", -1.0), ("aaaa", -0.5)])).unwrap();
    let bpe = from_metadata(&byte_level("smollm", &["a a", "aa aa", "Ġ Ġ"], &[])).unwrap();
    for text in ["a".repeat(200_000), " ".repeat(200_000), "a b\n".repeat(50_000)] {
        for tokenizer in [&spm, &bpe] {
            let began = Instant::now();
            let ids = encode(tokenizer, &text);
            assert_eq!(tokenizer.decode(&ids), text);
            assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        }
    }
}

proptest! {
    #[test]
    fn any_text_and_any_bytes_come_back(text in "\\PC{0,40}|[ a-c\\n\\r\\t'0-9<|>]{0,40}", bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let merges = ["a b", "Ġ a", "Ġa b", "Ċ Ċ", "1 2"];
        for pre in ["gpt-2", "smollm", "llama-bpe", "qwen2", "deepseek-coder", "deepseek-llm", "falcon"] {
            let tokenizer = from_metadata(&byte_level(pre, &merges, &[("<|a|>", 3)])).unwrap();
            prop_assert_eq!(&tokenizer.decode(&encode(&tokenizer, &text)), &text);
            prop_assert_eq!(&bytes_of(&tokenizer, &tokenizer.encode_bytes(&bytes)), &bytes);
        }
        let tokenizer = from_metadata(&marked(&[("▁", -9.0), ("▁a", -2.0), ("a", -3.0), ("ab", -1.0)])).unwrap();
        if !text.contains('▁') {
            prop_assert_eq!(&tokenizer.decode(&encode(&tokenizer, &text)), &text);
        }
        if !String::from_utf8_lossy(&bytes).contains('▁') {
            prop_assert_eq!(&bytes_of(&tokenizer, &tokenizer.encode_bytes(&bytes)), &bytes);
        }
    }
}
