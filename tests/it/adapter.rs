//! Adapters as a user meets them: listed, applied per request or merged, with a trigger, and broken in every way.

use crate::program::{data, refused, tether, tiny};
use std::path::{Path, PathBuf};
use tether::base::TokenId;
use tether::engine::SamplingParams;
use tether::runtime::{
    AdapterPlan, AdapterUse, DeviceChoice, LoadConfig, Model, ModelFiles, OpenAdapter, Prompt,
};

fn adapter(name: &str) -> String {
    data("adapters").join(name).display().to_string()
}

/// A copy of an adapter that a test may change.
fn copy(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for file in ["adapter_config.json", "adapter_model.safetensors"] {
        std::fs::copy(data("adapters").join(name).join(file), folder.path().join(file))
            .expect("committed");
    }
    folder
}

fn path(folder: &tempfile::TempDir) -> String {
    folder.path().display().to_string()
}

fn manifest(folder: &Path, json: &serde_json::Value) {
    std::fs::write(folder.join("tether.json"), json.to_string()).expect("written");
}

fn generate(more: &[&str]) -> String {
    let model = tiny("llama");
    let mut args = vec!["generate", "--model", &model, "--prompt", "def f(x):", "--json"];
    args.extend(["-n", "10", "--ignore-eos", "--kv-type", "f32", "--device", "reference"]);
    args.extend(more);
    let run = tether(&args);
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.json()["text"].as_str().expect("text").to_owned()
}

#[test]
fn a_text_is_the_same_merged_and_per_request_and_another_without() {
    let all = adapter("llama-all");
    let beside = generate(&["--adapter", &all]);
    assert_eq!(beside, generate(&["--adapter", &all, "--merge"]));
    assert_eq!(beside, generate(&["--adapter", &adapter("llama-all.gguf")]));
    let plain = generate(&[]);
    assert_ne!(beside, plain);
    assert_eq!(generate(&["--adapter", &format!("{all}:0")]), plain);
    let two = ["--adapter", &all, "--adapter", &adapter("llama-other"), "--merge"];
    assert_ne!(generate(&two), beside);
}

#[test]
fn the_list_says_what_an_adapter_is_and_whether_it_fits() {
    let folder = copy("llama-resized");
    manifest(
        folder.path(),
        &serde_json::json!({
            "base": {"name": "tiny"}, "trigger": {"text": "<COMP>", "id": 288},
            "prompt_style": "toolgen", "something_new": [1, 2],
        }),
    );
    let given = format!("mine={}", path(&folder));
    let run = tether(&["adapters", &given, "--model", &tiny("llama"), "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let json = run.json();
    let row = &json["adapters"][0];
    assert_eq!(row["name"], "mine");
    assert_eq!(row["base"], "tiny");
    assert_eq!(row["ranks"], serde_json::json!([4]));
    assert_eq!(row["modules"]["v_proj"], 2);
    assert_eq!(row["trigger"], serde_json::json!({"text": "<COMP>", "id": 288}));
    assert_eq!(row["tensors_that_fit"], 6);
    assert_eq!(row["problem"], serde_json::Value::Null);
    let run = tether(&["adapters", &path(&folder)]);
    assert!(run.stdout.contains("v_proj") && run.stdout.contains("<COMP> (288)"), "{}", run.stdout);
    let run = tether(&["adapters", &adapter("llama-all"), "--model", &tiny("mistral"), "--json"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    let problem = run.json()["adapters"][0]["problem"].as_str().expect("a problem").to_owned();
    assert!(problem.contains("of 28 tensors match"), "{problem}");
}

#[test]
fn a_completion_takes_trigger_and_style_from_the_manifest() {
    let folder = copy("llama-resized");
    manifest(
        folder.path(),
        &serde_json::json!({"trigger": {"text": "<ASK>", "id": 288}, "prompt_style": "toolgen"}),
    );
    let repo = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/inventory");
    let (repo, model, adapter) = (repo.display().to_string(), tiny("llama"), path(&folder));
    let args = [
        "complete",
        "--repo",
        &repo,
        "--symbol",
        "stockroom.store:Store.count_items",
        "--guide",
        "trigger",
        "--model",
        &model,
        "--adapter",
        &adapter,
        "-n",
        "8",
        "--json",
    ];
    let run = tether(&args);
    assert!(run.code <= 1, "{}", run.stderr);
    let toolgen = run.json()["prompt_tokens"].clone();
    let run = tether(&[&args[..], &["--prompt-style", "plain"]].concat());
    assert_ne!(run.json()["prompt_tokens"], toolgen, "an option is stronger than the manifest");
    refused(&[&args[..], &["--trigger", "<NO>"]].concat(), &["'<NO>'", "one token"]);
}

#[test]
fn files_that_are_missing_or_damaged_are_named() {
    let model = tiny("llama");
    let check = |adapter: &str, parts: &[&str]| {
        refused(&["generate", "--model", &model, "--prompt", "x", "--adapter", adapter], parts);
    };
    check("no-such-adapter", &["no-such-adapter", "models/adapters"]);
    let folder = copy("llama-all");
    std::fs::remove_file(folder.path().join("adapter_config.json")).expect("there");
    check(&path(&folder), &["adapter_config.json"]);
    let folder = copy("llama-all");
    std::fs::write(folder.path().join("adapter_config.json"), "{\"r\": ").expect("written");
    check(&path(&folder), &["adapter_config.json", "not JSON"]);
    let folder = copy("llama-all");
    std::fs::remove_file(folder.path().join("adapter_model.safetensors")).expect("there");
    check(&path(&folder), &["adapter_model.safetensors", "missing"]);
    let folder = copy("llama-all");
    let tensors = folder.path().join("adapter_model.safetensors");
    let bytes = std::fs::read(&tensors).expect("there");
    std::fs::write(&tensors, &bytes[..bytes.len() / 2]).expect("written");
    check(&path(&folder), &["incomplete"]);
    let folder = copy("llama-all");
    std::fs::write(folder.path().join("tether.json"), "{\"trigger\": 7}").expect("written");
    check(&path(&folder), &["tether.json"]);
    check(&tiny("gguf/llama-f32.gguf"), &["general.type"]);
}

#[test]
fn adapters_that_contradict_each_other_or_the_model_are_refused() {
    let model = tiny("llama");
    let check = |more: &[&str], parts: &[&str]| {
        let args = [&["generate", "--model", &model, "--prompt", "x"], more].concat();
        refused(&args, parts);
    };
    let (one, two) = (adapter("llama-all"), adapter("llama-other"));
    check(&["--adapter", &one, "--adapter", &two], &["--merge"]);
    let (one, two) = (format!("a={one}"), format!("a={two}"));
    check(&["--adapter", &one, "--adapter", &two, "--merge"], &["called 'a'", "NAME=PATH"]);
    check(&["--adapter", &adapter("llama-norms")], &["--merge"]);
    let folder = copy("llama-all");
    let base = serde_json::json!({"base": {"name": "other", "sha256": "00ff"}});
    manifest(folder.path(), &base);
    check(&["--adapter", &path(&folder)], &["other", "00ff", "--adapter-force"]);
    let forced = ["--adapter", &path(&folder), "--adapter-force"];
    assert_eq!(generate(&forced), generate(&["--adapter", &adapter("llama-all")]));
    // A text token cannot become a trigger.
    let folder = copy("llama-all");
    manifest(folder.path(), &serde_json::json!({"trigger": {"text": "<COMP>", "id": 100}}));
    check(&["--adapter", &path(&folder)], &["<COMP>", "is the text"]);
}

fn open(name: &str, folder: &Path) -> OpenAdapter {
    OpenAdapter::open(name, folder).expect("opens")
}

fn load(adapters: &[OpenAdapter], usage: AdapterUse) -> Result<Model, String> {
    let files = ModelFiles::Folder(PathBuf::from(tiny("llama")));
    let config = LoadConfig { device: DeviceChoice::Cpu, ..LoadConfig::single() };
    let plan = AdapterPlan { adapters, usage, is_forced: false };
    Model::load_planned(&files, &config, &plan, &mut |_| {}, &mut |_, _| {})
        .map_err(|e| e.to_string())
}

#[test]
fn a_new_token_is_found_in_prompts_and_never_shown() {
    let folder = copy("llama-resized");
    std::fs::write(folder.path().join("added_tokens.json"), "{\"<COMP>\": 288}").expect("written");
    let adapters = [open("a", folder.path())];
    let mut model = load(&adapters, AdapterUse::PerRequest).expect("loads");
    let id = model.trigger_token("<COMP>").expect("one token");
    assert_eq!(id, TokenId(288));
    let ids = model.encode(&Prompt::Rendered("x.<COMP>y".to_owned())).expect("encodes");
    assert_eq!(ids.iter().filter(|&&t| t == 288).count(), 1);
    let as_text = model.encode(&Prompt::Text("x.<COMP>y".to_owned())).expect("encodes");
    assert!(!as_text.contains(&288), "in other people's text it is text");
    let tokens: Vec<TokenId> = ids.iter().map(|&t| TokenId(t)).collect();
    assert_eq!(model.tokenizer().decode(&tokens), "x.y");
    let params = SamplingParams { max_tokens: Some(4), ..SamplingParams::greedy() };
    let prompt = Prompt::Tokens(ids);
    let error = model.generate(&prompt, params.clone(), &mut |_| {}).expect_err("not its token");
    assert!(error.to_string().contains("288"), "{error}");
    let adapter = model.adapter("a").expect("loaded");
    model.use_adapter(Some(adapter));
    model.generate(&prompt, params, &mut |_| {}).expect("runs");
    assert!(model.adapter("b").expect_err("there is none").to_string().contains("'b'"));
}

#[test]
fn one_token_with_two_spellings_is_refused() {
    let (first, second) = (copy("llama-resized"), copy("llama-resized"));
    std::fs::write(first.path().join("added_tokens.json"), "{\"<ONE>\": 288}").expect("written");
    std::fs::write(second.path().join("added_tokens.json"), "{\"<TWO>\": 288}").expect("written");
    let adapters = [open("a", first.path()), open("b", second.path())];
    let error = load(&adapters, AdapterUse::PerRequest).err().expect("refused");
    assert!(error.contains("<ONE>") && error.contains("<TWO>") && error.contains("288"), "{error}");
}

#[test]
fn a_cache_key_says_which_adapter_and_how_much_of_it() {
    let all = data("adapters").join("llama-all");
    let other = data("adapters").join("llama-other");
    let half = open("half", &all).scaled(0.5).expect("a number");
    let adapters = [open("all", &all), half, open("other", &other)];
    let model = load(&adapters, AdapterUse::PerRequest).expect("loads");
    let mut keys = vec![model.cache_key(None)];
    for name in ["all", "half", "other"] {
        keys.push(model.cache_key(Some(model.adapter(name).expect("loaded"))));
    }
    assert_eq!(keys[0], *model.fingerprint());
    let mut different = keys.clone();
    different.sort_by_key(|k| k.0);
    different.dedup();
    assert_eq!(different.len(), keys.len());
    let merged = load(&adapters[..1], AdapterUse::Merged).expect("loads");
    assert_ne!(merged.fingerprint(), model.fingerprint());
}
