//! Model folders: `tokenizer.json` and the files beside it.
//!
//! # Place
//! Part of the tests of `tokenizer`.

use std::fs;

use serde_json::{Value, json};

use super::*;

/// A folder with these files.
fn folder(files: &[(&str, Value)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, json) in files {
        fs::write(dir.path().join(name), json.to_string()).unwrap();
    }
    dir
}

fn load(files: &[(&str, Value)]) -> Result<Tokenizer, TokenizerError> {
    Tokenizer::from_folder(folder(files).path())
}

fn added(id: u32, content: &str, special: bool) -> Value {
    json!({"id": id, "content": content, "special": special, "single_word": false,
        "lstrip": false, "rstrip": false, "normalized": false})
}

/// A byte-level vocabulary: `a`, `b`, space, `ab`, with ids that leave a hole at 4.
fn byte_level_json() -> Value {
    json!({
        "version": "1.0",
        "added_tokens": [added(5, "<end>", true), added(6, "<COMP>", false), added(7, "<s>", true)],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0},
        "padding": null,
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": {"a": 0, "b": 1, "Ġ": 2, "ab": 3}, "merges": ["a b"]},
    })
}

/// A vocabulary as the Llama 2 conversion writes it.
fn marked_json() -> Value {
    let mut vocab = serde_json::Map::new();
    for (id, piece) in ["<unk>", "<s>", "</s>"].iter().enumerate() {
        vocab.insert((*piece).to_owned(), id.into());
    }
    for byte in 0..=255_u32 {
        vocab.insert(format!("<0x{byte:02X}>"), (3 + byte).into());
    }
    for (i, piece) in ["▁", "f", "▁f"].iter().enumerate() {
        vocab.insert((*piece).to_owned(), (259 + i).into());
    }
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [added(0, "<unk>", true), added(1, "<s>", true), added(2, "</s>", true)],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "pre_tokenizer": null,
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
            "vocab": vocab, "merges": ["▁ f"]},
    })
}

#[test]
fn a_byte_level_folder_is_read_whole() {
    let tokenizer = load(&[("tokenizer.json", byte_level_json())]).unwrap();
    assert_eq!(tokenizer.len(), 8);
    let ids = tokenizer.encode("ab ab a", Specials::AsText, AddBos::Auto).unwrap();
    // Neither the hole nor the truncation of the training run matters.
    assert_eq!(ids, [3, 2, 3, 2, 0].map(TokenId));
    assert_eq!(tokenizer.token_bytes(TokenId(2)), b" ");
    assert!(tokenizer.is_control(TokenId(4)) && tokenizer.is_control(TokenId(5)));
    assert_eq!(tokenizer.token_bytes(TokenId(6)), b"<COMP>");
    let parsed = tokenizer.encode("a<end><COMP>", Specials::Parse, AddBos::Never).unwrap();
    assert_eq!(parsed, [0, 5, 6].map(TokenId));
    assert!(tokenizer.eos().ids().is_empty());
}

#[test]
fn a_llama_2_folder_puts_a_space_in_front_only_of_whole_texts() {
    let tokenizer = load(&[("tokenizer.json", marked_json())]).unwrap();
    assert_eq!(tokenizer.bos(), Some(TokenId(1)));
    assert!(tokenizer.add_bos());
    let ids = tokenizer.encode("f f", Specials::AsText, AddBos::Auto).unwrap();
    assert_eq!(ids, [1, 261, 261].map(TokenId));
    assert_eq!(tokenizer.decode(&ids), "f f");
    assert_eq!(tokenizer.encode_bytes(b"f f"), [260, 261].map(TokenId));
    assert_eq!(tokenizer.encode_bytes("é".as_bytes()), [3 + 0xC3, 3 + 0xA9].map(TokenId));
    assert_eq!(tokenizer.encode_bytes(b"\xFF"), [TokenId(3 + 0xFF)]);
    // A space and a newline have byte tokens at least.
    tokenizer.check_constrainable().unwrap();
}

#[test]
fn the_end_is_the_union_of_all_configurations() {
    let tokenizer = load(&[
        ("tokenizer.json", byte_level_json()),
        ("tokenizer_config.json", json!({"eos_token": {"content": "<end>"}})),
        ("generation_config.json", json!({"eos_token_id": [7, 2]})),
        ("config.json", json!({"eos_token_id": 1})),
    ])
    .unwrap();
    assert_eq!(tokenizer.eos().ids(), [1, 2, 5, 7].map(TokenId));
}

#[test]
fn the_configuration_decides_on_the_first_token() {
    let config = |add: bool| json!({"bos_token": "<s>", "add_bos_token": add});
    for add in [true, false] {
        let tokenizer =
            load(&[("tokenizer.json", byte_level_json()), ("tokenizer_config.json", config(add))])
                .unwrap();
        let ids = tokenizer.encode("a", Specials::AsText, AddBos::Auto).unwrap();
        assert_eq!(ids.contains(&TokenId(7)), add);
    }
    let tokenizer = load(&[
        ("tokenizer.json", marked_json()),
        ("tokenizer_config.json", json!({"add_bos_token": false})),
    ])
    .unwrap();
    assert!(!tokenizer.add_bos());
}

/// Where the template of a folder with these files comes from.
#[track_caller]
fn check_template(files: &[(&str, Value)], source: TemplateSource) {
    let files = [&[("tokenizer.json", byte_level_json())], files].concat();
    assert_eq!(load(&files).unwrap().chat_template().unwrap().source(), source);
}

#[test]
fn the_template_is_found_in_each_place_and_named() {
    check_template(
        &[("tokenizer_config.json", json!({"chat_template": "x"}))],
        TemplateSource::TokenizerConfig,
    );
    let list = json!([{"name": "rag", "template": "{% bad"}, {"name": "default", "template": "x"}]);
    check_template(
        &[("tokenizer_config.json", json!({"chat_template": list}))],
        TemplateSource::TokenizerConfig,
    );
    check_template(
        &[
            ("chat_template.jinja", json!("a template in quotes")),
            ("tokenizer_config.json", json!({"chat_template": "y"})),
        ],
        TemplateSource::JinjaFile,
    );
}

#[test]
fn files_that_are_not_what_they_should_be_are_named() {
    let error = load(&[]).err().expect("must be refused").to_string();
    assert!(error.contains("tokenizer.json"), "{error}");
    let mut unknown = byte_level_json();
    unknown["decoder"] = json!({"type": "WordPiece", "prefix": "##", "cleanup": true});
    let good = ("tokenizer.json", byte_level_json());
    for (files, part) in [
        (vec![("tokenizer.json", json!({"model": 1}))], "tokenizer.json"),
        (vec![("tokenizer.json", unknown)], "decoder"),
        (
            vec![good.clone(), ("tokenizer_config.json", json!({"chat_template": 3}))],
            "chat_template",
        ),
        (vec![good.clone(), ("tokenizer_config.json", json!({"chat_template": []}))], "default"),
    ] {
        let error = load(&files).err().expect("must be refused").to_string();
        assert!(error.contains(part), "{error}");
    }
    let dir = folder(&[good]);
    fs::write(dir.path().join("generation_config.json"), "{").unwrap();
    let error = Tokenizer::from_folder(dir.path()).err().expect("must be refused").to_string();
    assert!(error.contains("generation_config.json"), "{error}");
}
