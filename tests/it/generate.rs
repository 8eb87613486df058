//! `tether generate` and `tether profile` on tiny models, and every way of giving them bad input.

use crate::program::{data, refused, tether, tiny};
use std::path::Path;

const PROMPT: &str = "def sold(self):\n    return";

fn generate(model: &str, more: &[&str]) -> serde_json::Value {
    let mut args = vec!["generate", "--model", model, "--prompt", PROMPT, "--json"];
    args.extend(more);
    let run = tether(&args);
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.json()
}

#[test]
fn generated_json_has_the_shape_that_stays() {
    let json = generate(&tiny("llama"), &["--max-tokens", "8", "--ignore-eos"]);
    assert_eq!(json["tokens"], 8);
    assert_eq!(json["finish_reason"], "length");
    assert!(json["prompt_tokens"].as_u64().expect("a count") > 4);
    assert!(json["text"].is_string());
    for key in ["first_token_ms", "total_ms", "decode_tokens_per_s", "prefill_tokens_per_s"] {
        assert!(json["timings"][key].is_number(), "{key}");
    }
}

#[test]
fn every_family_generates_and_the_devices_agree() {
    for model in ["llama", "llama-tied", "mistral", "qwen2", "qwen3", "smollm3"] {
        let args = ["--max-tokens", "12", "--ignore-eos", "--kv-type", "f32"];
        let cpu = generate(&tiny(model), &[&args[..], &["--device", "cpu"]].concat());
        let plain = generate(&tiny(model), &[&args[..], &["--device", "reference"]].concat());
        assert_eq!(cpu["text"], plain["text"], "{model}");
        assert_eq!(cpu["tokens"], 12, "{model}");
    }
}

#[test]
fn gguf_and_safetensors_of_one_model_write_the_same() {
    let more = ["--max-tokens", "12", "--ignore-eos", "--kv-type", "f32"];
    let folder = generate(&tiny("llama"), &more);
    let gguf = generate(&tiny("gguf/llama-f32.gguf"), &more);
    assert_eq!(folder["text"], gguf["text"]);
}

#[test]
fn the_number_of_threads_does_not_change_the_text() {
    let texts = ["1", "2", "3"].map(|n| {
        generate(
            &tiny("gguf/llama-q4_0.gguf"),
            &["-n", "16", "--ignore-eos", "--threads", n],
        )["text"]
            .clone()
    });
    assert!(texts.iter().all(|t| *t == texts[0]), "{texts:?}");
}

#[test]
fn a_seed_repeats_a_sampled_text() {
    let sample = |seed: &str| {
        let more = ["-n", "16", "--ignore-eos", "--temperature", "1.5", "--seed", seed];
        generate(&tiny("llama"), &more)["text"].clone()
    };
    assert_eq!(sample("1"), sample("1"));
    assert_ne!(sample("1"), sample("2"));
}

#[test]
fn a_prompt_that_does_not_fit_names_both_numbers() {
    let long = "x = 1\n".repeat(200);
    refused(&["generate", "--model", &tiny("llama"), "--prompt", &long], &["128", "context"]);
    let args = ["generate", "--model", &tiny("llama"), "--prompt", "x", "--max-tokens", "500"];
    refused(&args, &["500", "128"]);
}

#[test]
fn bad_arguments_are_named() {
    let model = tiny("llama");
    let base = ["generate", "--model", &model, "--prompt", "x"];
    refused(&["generate", "--model", &model, "--prompt", ""], &["prompt is empty"]);
    refused(&[&base[..], &["--temperature", "nan"]].concat(), &["temperature"]);
    refused(&[&base[..], &["--temperature", "-1"]].concat(), &["temperature", "-1"]);
    refused(&[&base[..], &["--top-p", "2"]].concat(), &["top_p"]);
    refused(&[&base[..], &["--stop", ""]].concat(), &["stop"]);
    refused(&[&base[..], &["--threads", "0"]].concat(), &["threads"]);
    refused(&[&base[..], &["--guided-regex", "x"]].concat(), &["--guided-regex"]);
    let args = ["generate", "--model", &model, "--prompt-file", "/nonexistent/prompt"];
    refused(&args, &["/nonexistent/prompt"]);
}

/// A copy of a tiny model that a test may damage.
fn copy_of(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    for entry in std::fs::read_dir(data("models").join(name)).expect("committed") {
        let entry = entry.expect("entry");
        std::fs::copy(entry.path(), dir.path().join(entry.file_name())).expect("copied");
    }
    dir
}

fn refused_model(path: &Path, parts: &[&str]) {
    let path = path.display().to_string();
    refused(&["generate", "--model", &path, "--prompt", "x", "-n", "1"], parts);
}

#[test]
fn models_that_are_not_there_or_not_models_are_named() {
    refused_model(Path::new("/nonexistent/model.gguf"), &["/nonexistent/model.gguf"]);
    let dir = tempfile::tempdir().expect("a folder");
    refused_model(dir.path(), &["config.json"]);
    let pointer = dir.path().join("model.gguf");
    std::fs::write(&pointer, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
        .expect("written");
    refused_model(&pointer, &["LFS"]);
    std::fs::write(&pointer, "").expect("written");
    refused_model(&pointer, &["model.gguf"]);
    std::fs::write(&pointer, [0u8; 4096]).expect("written");
    refused_model(&pointer, &["model.gguf"]);
}

#[test]
fn a_truncated_file_is_refused_at_every_length() {
    let whole = std::fs::read(data("models/gguf/llama-f32.gguf")).expect("committed");
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("cut.gguf");
    for n in [4, 100, 5000, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..n]).expect("written");
        refused_model(&path, &["cut.gguf"]);
    }
}

#[test]
fn a_missing_shard_is_named() {
    let dir = copy_of("llama-tied");
    let shard = dir.path().join("model-00002-of-00002.safetensors");
    std::fs::remove_file(&shard).expect("there");
    refused_model(dir.path(), &["model-00002-of-00002.safetensors"]);
}

#[test]
fn configurations_that_do_not_match_the_weights_are_named() {
    let change = |from: &str, to: &str, parts: &[&str]| {
        let dir = copy_of("llama");
        let path = dir.path().join("config.json");
        let text = std::fs::read_to_string(&path).expect("there");
        assert!(text.contains(from), "{from} is in the configuration");
        std::fs::write(&path, text.replace(from, to)).expect("written");
        refused_model(dir.path(), parts);
    };
    change("\"llama\"", "\"gpt_bigcode\"", &["gpt_bigcode", "qwen2"]);
    change("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", &["model.layers.2."]);
    change("\"vocab_size\": 288", "\"vocab_size\": 100", &["288", "100"]);
    change("{", "{{", &["config.json", "JSON"]);
}

#[test]
fn a_profile_reports_rates_percentiles_and_where_the_time_goes() {
    let model = tiny("llama");
    let args = ["profile", "--model", &model, "--prompt-tokens", "20", "--gen-tokens", "5"];
    let run = tether(&[&args[..], &["--reps", "2", "--threads", "2", "--json"]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let json = run.json();
    for key in ["prefill_tokens_per_s", "decode_tokens_per_s", "first_token_ms"] {
        assert!(json[key]["median"].as_f64().expect(key) > 0.0);
        assert_eq!(json[key]["samples"].as_array().expect(key).len(), 2);
    }
    assert_eq!((json["threads"].as_u64(), json["device"].as_str()), (Some(2), Some("cpu")));
    assert!(json["split_ms_per_token"]["model"].is_number());
    let table = tether(&[&args[..], &["--reps", "1"]].concat());
    assert!(table.stdout.contains("decode, tokens/s"), "{}", table.stdout);
    let one = tether(&[
        "profile",
        "--model",
        &model,
        "--prompt-tokens",
        "1",
        "--gen-tokens",
        "1",
        "--json",
    ]);
    assert!(one.json()["decode_tokens_per_s"]["median"].is_null(), "a rate needs two tokens");
}

#[test]
fn samples_are_what_their_seeds_give_alone() {
    let sampling = ["-n", "10", "--ignore-eos", "--temperature", "1"];
    let json =
        generate(&tiny("llama"), &[&sampling[..], &["--samples", "3", "--seed", "5"]].concat());
    let samples = json["samples"].as_array().expect("three");
    for (sample, seed) in samples.iter().zip(["5", "6", "7"]) {
        let alone = generate(&tiny("llama"), &[&sampling[..], &["--seed", seed]].concat());
        assert_eq!(sample["text"], alone["text"], "seed {seed}");
    }
    assert_eq!(samples.len(), 3);
    refused(&["generate", "--model", &tiny("llama"), "-p", "x", "--samples", "0"], &["n is 0"]);
}

#[test]
fn log_probabilities_are_strict_json_with_the_bytes_of_each_token() {
    let more = ["-n", "6", "--ignore-eos", "--logprobs", "3"];
    let json = generate(&tiny("llama"), &more);
    let records = json["logprobs"].as_array().expect("a list");
    assert_eq!(records.len(), 6);
    for record in records {
        assert!(record["logprob"].as_f64().expect("a number") <= 0.0);
        assert_eq!(record["logprob"], record["logprob_allowed"], "nothing was masked");
        assert_eq!(record["top"].as_array().expect("a list").len(), 3);
        assert_eq!(record["top"][0]["id"], record["id"], "greedy");
    }
    let written: Vec<u8> = records
        .iter()
        .flat_map(|r| r["bytes"].as_array().expect("bytes"))
        .map(|b| u8::try_from(b.as_u64().expect("a byte")).expect("a byte"))
        .collect();
    assert_eq!(String::from_utf8_lossy(&written), json["text"].as_str().expect("text"));
    // Tokens that a grammar forbids have no allowed probability.
    let held = generate(&tiny("llama"), &["-n", "6", "--logprobs", "5", "--choice", "yes"]);
    let top = held["logprobs"][0]["top"].as_array().expect("a list");
    assert!(top.iter().any(|t| t["logprob_allowed"].is_null()), "{held}");
}

#[test]
fn speculation_does_not_change_a_text() {
    for sampling in [&["--temperature", "0"], &["--temperature", "0.8"]] {
        let texts = ["off", "on"].map(|speculate| {
            let more = ["-n", "60", "--ignore-eos", "--seed", "3", "--speculate", speculate];
            generate(&tiny("gguf/llama-q4_0.gguf"), &[&more[..], &sampling[..]].concat())["text"]
                .clone()
        });
        assert_eq!(texts[0], texts[1]);
    }
}
