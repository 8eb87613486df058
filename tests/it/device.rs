//! `tether devices`, and `--device` with devices that are there and that are not.

use crate::program::{refused, tether, tiny};
use std::path::Path;
use std::process::Command;

fn devices() -> serde_json::Value {
    let run = tether(&["devices", "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.json()["devices"].clone()
}

fn has_emulator() -> bool {
    devices().as_array().expect("a list").iter().any(|d| d["name"] == "emu")
}

#[test]
fn every_device_is_listed_with_what_it_is_or_why_it_cannot_be_used() {
    let list = devices();
    let list = list.as_array().expect("a list");
    for name in ["cuda", "cpu", "reference"] {
        let device = list.iter().find(|d| d["name"] == name).unwrap_or_else(|| panic!("no {name}"));
        let what =
            if device["problem"].is_null() { &device["description"] } else { &device["problem"] };
        assert!(what.as_str().is_some_and(|text| text.len() > 5), "{device}");
    }
    assert!(list.iter().any(|d| d["name"] == "cpu" && d["problem"].is_null()));
    let text = tether(&["devices"]).stdout;
    assert!(text.starts_with("device") && text.contains("\ncpu"), "{text}");
}

#[test]
fn without_a_gpu_cuda_is_refused_with_a_reason_and_auto_runs_on_the_processor() {
    let list = devices();
    let is_usable = |d: &serde_json::Value| d["name"] == "cuda" && d["problem"].is_null();
    if list.as_array().expect("a list").iter().any(is_usable) {
        println!("skipped: this machine has a GPU");
        return;
    }
    let model = tiny("llama");
    let base = ["generate", "--model", &model, "--prompt", "x", "-n", "2"];
    refused(&[&base[..], &["--device", "cuda"]].concat(), &["cuda", "--device cpu"]);
    let run = tether(&[&base[..], &["--device", "auto"]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
}

#[test]
fn the_emulated_kernels_write_what_the_processor_writes() {
    let model = tiny("llama");
    if !has_emulator() {
        let args = ["generate", "--model", &model, "--prompt", "x", "--device", "emu"];
        refused(&args, &["emu", "--features emu"]);
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut models = committed();
    assert!(models.len() >= 16, "{models:?}");
    // The types that no committed model has.
    for dtype in ["q4_1", "q4_k", "q6_k", "bf16"] {
        models.push(synthetic(folder.path(), dtype, "5"));
    }
    for model in models {
        // Quantised weights meet rows of eight bits on the processor. At q4_0 that decides a near tie of the usual prompt.
        let prompt = if model.contains("q4_0") { "import os" } else { "def sold(self):" };
        // Without a cache that rounds: what is left between the devices is how products round their rows.
        let text = |device: &str| {
            let args = ["generate", "--model", &model, "--prompt", prompt, "-n", "12"];
            let more = ["--ignore-eos", "--kv-type", "f32", "--json", "--device", device];
            let run = tether(&[&args[..], &more[..]].concat());
            assert_eq!(run.code, 0, "{}", run.stderr);
            assert!(device != "emu" || run.stderr.contains("memory: weights"), "{}", run.stderr);
            run.json()["text"].clone()
        };
        let emulated = text("emu");
        assert_eq!(emulated, text("reference"), "{model}");
        assert_eq!(emulated, text("cpu"), "{model}");
    }
}

#[test]
fn log_probabilities_found_on_a_device_are_those_of_the_processor() {
    if !has_emulator() {
        println!("skipped: built without the feature `emu`");
        return;
    }
    let model = tiny("llama");
    let base = ["generate", "--model", &model, "--prompt", "def f(", "-n", "6", "--json"];
    for more in [&["--ignore-eos"][..], &["--choice", "yes", "--choice", "maybe"][..]] {
        let records = |device: &str| {
            let rest = ["--logprobs", "5", "--kv-type", "f32", "--device", device];
            let run = tether(&[&base[..], more, &rest[..]].concat());
            assert_eq!(run.code, 0, "{}", run.stderr);
            run.json()["logprobs"].clone()
        };
        let (emu, cpu) = (records("emu"), records("cpu"));
        let (emu, cpu) = (emu.as_array().expect("a list"), cpu.as_array().expect("a list"));
        assert!(!cpu.is_empty() && emu.len() == cpu.len());
        for (a, b) in emu.iter().zip(cpu) {
            assert_eq!(a["id"], b["id"]);
            let near = |a: &serde_json::Value, b: &serde_json::Value, key: &str| {
                let same = match (a[key].as_f64(), b[key].as_f64()) {
                    (Some(a), Some(b)) => (a - b).abs() < 1e-3,
                    (a, b) => a == b,
                };
                assert!(same, "{key}: {a} and {b}");
            };
            near(a, b, "logprob");
            near(a, b, "logprob_allowed");
            let (a, b) = (a["top"].as_array().expect("5"), b["top"].as_array().expect("5"));
            assert_eq!(a.len(), b.len());
            for (a, b) in a.iter().zip(b) {
                assert_eq!(a["id"], b["id"]);
                near(a, b, "logprob");
                near(a, b, "logprob_allowed");
            }
        }
    }
}

/// Every model of the tests, folders and files.
fn committed() -> Vec<String> {
    let listed = |folder: &Path| -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(folder).expect("committed");
        entries.map(|e| e.expect("an entry").path()).collect()
    };
    let root = crate::program::data("models");
    let mut models: Vec<_> =
        listed(&root).into_iter().filter(|p| p.join("config.json").exists()).collect();
    models.extend(
        listed(&root.join("gguf"))
            .into_iter()
            .filter(|p| p.extension().is_some_and(|e| e == "gguf")),
    );
    models.sort();
    models.iter().map(|path| path.display().to_string()).collect()
}

/// A model with random weights of a type.
fn synthetic(folder: &Path, dtype: &str, seed: &str) -> String {
    let path = folder.join(format!("{dtype}-{seed}.gguf")).display().to_string();
    let run = tether(&["synth", "--arch", "tiny", "--dtype", dtype, "--seed", seed, "-o", &path]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    path
}

#[test]
fn a_profile_of_kernels_has_times_costs_and_a_timeline() {
    if !has_emulator() {
        println!("skipped: built without the feature `emu`");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("trace.json");
    let path = path.to_str().expect("UTF-8");
    let model = tiny("llama");
    let base = ["profile", "--model", &model, "--prompt-tokens", "20", "--gen-tokens", "4"];
    let sizes = ["--reps", "1", "--batch", "3", "--device", "emu"];
    let args = [&base[..], &sizes[..], &["--kernels", "--trace", path]].concat();
    let run = tether(&[&args[..], &["--json"]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let json = run.json();
    assert_eq!(json["batch"], 3);
    for phase in ["prefill", "decode"] {
        let rows = json["kernels"][phase].as_array().expect("a list");
        let named = |start: &str| {
            rows.iter().any(|r| r["name"].as_str().expect("a name").starts_with(start))
        };
        assert!(named("precise") && named("rope_store") && named("argmax"), "{phase}: {rows:?}");
        for row in rows {
            assert!(row["us"].as_f64().expect("a time") > 0.0, "{row}");
            assert!(row["bytes"].as_u64().expect("a cost") > 0, "{row}");
        }
    }
    let trace: serde_json::Value =
        serde_json::from_slice(&std::fs::read(path).expect("written")).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    assert!(
        events.iter().any(|e| e["name"] == "decode")
            && events.iter().any(|e| e["name"] == "rope_store")
    );
    let table = tether(&args).stdout;
    assert!(table.contains("rope_store") && table.contains("GB/s"), "{table}");

    // With an adapter, what is measured are requests that have it.
    let adapter = crate::program::data("adapters/llama-all").display().to_string();
    let run = tether(&[&args[..], &["--adapter", &adapter, "--json"]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let (json, decode) = (run.json(), run.json()["kernels"]["decode"].clone());
    assert_eq!(json["adapters"].as_array().expect("a list").len(), 1);
    let shrinks = |r: &serde_json::Value| r["name"].as_str().expect("a name").contains("shrink");
    assert!(decode.as_array().expect("a list").iter().any(shrinks), "{decode}");

    // A device without kernels of its own shows its steps.
    let args =
        [&base[..], &["--reps", "1", "--device", "cpu", "--kernels", "--trace", path]].concat();
    let run = tether(&args);
    assert!(run.code == 0 && run.stderr.contains("no kernels to time"), "{}", run.stderr);
    refused(&[&base[..], &["--batch", "0"]].concat(), &["--batch is 0"]);
    refused(&[&base[..], &["--batch", "2000"]].concat(), &["--batch is 2000", "64"]);
    refused(&[&base[..], &["--batch", "1,2", "--trace", path]].concat(), &["one batch"]);
    // Several batches in one run; what has no room is left out by name.
    let several = [&base[..], &["--reps", "1", "--device", "emu", "--batch", "1,2,64"]].concat();
    let run = tether(&[&several[..], &["--gpu-memory-fraction", "0.0012", "--json"]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let rows = run.json()["rows"].clone();
    assert!(rows[1]["decode_tokens_per_s"]["median"].as_f64().expect("a rate") > 0.0, "{rows}");
    assert_eq!((rows[0]["batch"].as_u64(), rows[2]["batch"].as_u64()), (Some(1), Some(64)));
    let path = folder.path().join("no/folder.json");
    let args = [&base[..], &["--reps", "1", "--trace", path.to_str().expect("UTF-8")]].concat();
    refused_with_output(&args, &["cannot write", "folder.json"]);
}

/// As [`refused`], for what is noticed after output.
#[track_caller]
fn refused_with_output(args: &[&str], parts: &[&str]) {
    let run = tether(args);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(parts.iter().all(|part| run.stderr.contains(part)), "{}", run.stderr);
}

#[test]
fn a_cache_is_sized_in_tokens_or_in_blocks_of_them() {
    let model = tiny("llama");
    let base = ["generate", "--model", &model, "--prompt", "abcdefgh", "--ignore-eos"];
    // Two blocks of 32 hold 64 tokens and no more.
    let run = |size: [&'static str; 2], n: &'static str| {
        tether(&[&base[..], &size[..], &["-n", n]].concat())
    };
    for size in [["--kv-tokens", "64"], ["--kv-blocks", "2"]] {
        assert_eq!(run(size, "40").code, 0, "{size:?}");
        let more = run(size, "70");
        assert!(more.code == 2 && more.stderr.contains("--kv-tokens"), "{}", more.stderr);
    }
    let both = tether(&[&base[..], &["--kv-tokens", "64", "--kv-blocks", "2"]].concat());
    assert_eq!(both.code, 2, "{}", both.stderr);
}

/// A driver library made of functions that do nothing, and of those given in `bodies`.
fn make_driver(folder: &Path, names: &[String], bodies: &str) {
    let rest: String =
        names.iter().map(|name| format!("int {name}(void) {{ return 0; }}\n")).collect();
    make_library(folder, "libcuda.so", &format!("{bodies}{rest}"));
}

fn make_library(folder: &Path, name: &str, bodies: &str) {
    let source = folder.join("stub.c");
    std::fs::write(&source, bodies).expect("a temporary folder");
    let library = folder.join(name);
    let args = ["-shared", "-fPIC", "-fno-builtin", "-w", "-o"];
    let built = Command::new("cc").args(args).arg(&library).arg(&source).status();
    assert!(built.expect("cc is there").success(), "{bodies}");
}

/// `tether` with a driver library of our own.
fn with_driver(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let run = Command::new(env!("CARGO_BIN_EXE_tether"))
        .args(args)
        .env("LD_LIBRARY_PATH", folder)
        .env("TETHER_HOME", folder)
        .output()
        .expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let code = run.status.code().unwrap_or_else(|| panic!("killed: {}", text(run.stderr.clone())));
    (code, text(run.stdout), text(run.stderr))
}

const BODIES: &str = r#"
int cuInit(unsigned flags) { return INIT; }
int cuDriverGetVersion(int* v) { *v = VERSION; return 0; }
int cuGetErrorName(int e, const char** s) { *s = "CUDA_ERROR_OF_THE_TEST"; return 0; }
int cuDeviceGetCount(int* n) { *n = 1; return 0; }
int cuDeviceGet(int* d, int i) { *d = i; return 0; }
int cuDeviceGetName(char* s, int n, int d) { s[0] = 'T'; s[1] = '1'; s[2] = 0; return 0; }
int cuDeviceGetAttribute(int* v, int which, int d) { *v = which == 75 ? MAJOR : 5; return 0; }
int cuDeviceTotalMem_v2(unsigned long* n, int d) { *n = 1ul << 34; return 0; }
"#;

fn bodies(init: i32, version: i32, major: i32) -> String {
    format!("#define INIT {init}\n#define VERSION {version}\n#define MAJOR {major}\n{BODIES}")
}

#[test]
fn drivers_that_are_stubs_or_old_or_without_a_gpu_are_reasons_and_not_crashes() {
    if !cfg!(target_os = "linux") || Command::new("cc").arg("--version").output().is_err() {
        println!("skipped: no C compiler, or not Linux");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    // A library that lacks functions: each is named, and none is called before all are there.
    let known: Vec<String> = BODIES
        .lines()
        .filter_map(|l| Some(l.strip_prefix("int ")?.split('(').next()?.to_owned()))
        .collect();
    let mut names: Vec<String> = Vec::new();
    let reason = loop {
        let rest: Vec<String> = names.iter().filter(|n| !known.contains(n)).cloned().collect();
        let has_known = names.iter().any(|n| known.contains(n));
        let made = if has_known { bodies(100, 13000, 9) } else { "int nothing;\n".to_owned() };
        make_driver(folder, &rest, &made);
        let (code, out, err) = with_driver(folder, &["devices"]);
        assert!(code == 0 && !err.contains("panicked"), "{err}");
        let line =
            out.lines().find(|l| l.starts_with("cuda")).expect("a line about CUDA").to_owned();
        let Some(missing) = line.split("has no function ").nth(1) else { break line };
        let missing = missing.split(':').next().expect("a name").to_owned();
        assert!(!names.contains(&missing), "{missing} is there");
        names.push(missing);
    };
    assert!(names.len() > 10, "{names:?}");
    assert!(reason.contains("shows no GPU") && reason.contains("CUDA_VISIBLE_DEVICES"), "{reason}");

    let rest: Vec<String> = names.into_iter().filter(|n| !known.contains(n)).collect();
    let listed = |bodies: &str| {
        make_driver(folder, &rest, bodies);
        let (code, out, err) = with_driver(folder, &["devices"]);
        assert!(code == 0 && !err.contains("panicked"), "{err}");
        out.lines().find(|l| l.starts_with("cuda")).expect("a line about CUDA").to_owned()
    };
    let line = listed(&bodies(999, 13000, 9));
    assert!(line.contains("does not start: CUDA_ERROR_OF_THE_TEST"), "{line}");
    let line = listed(&bodies(0, 13000, 7));
    assert!(line.contains("T1 has compute capability 7.5") && line.contains("8.0"), "{line}");
    let line = listed(&bodies(0, 12040, 9));
    assert!(
        line.contains("yes") && line.contains("T1, capability 9.5, 16.0 GiB, driver for CUDA 12.4"),
        "{line}"
    );

    // A driver too old for the kernels: refused with both versions when asked for, and passed over with a word otherwise.
    let model = tiny("llama");
    let args = ["generate", "--model", &model, "--prompt", "x", "-n", "1", "--device"];
    let (code, _, err) = with_driver(folder, &[&args[..], &["cuda"]].concat());
    assert!(code == 2 && !err.contains("panicked"), "{err}");
    assert!(err.contains("CUDA 12.4") && err.contains("13.0") || err.contains("NVRTC"), "{err}");
    let auto = || with_driver(folder, &[&args[..], &["auto"]].concat());
    let (code, _, err) = auto();
    assert!(code == 0 && err.contains("running on the processor"), "{err}");
    let (code, _, err) = auto();
    assert!(code == 0 && !err.contains("running on the processor"), "said once: {err}");
}

/// A driver that takes everything and computes nothing: `LAUNCHES` kernels may run, `FREE` bytes are free.
const WHOLE_DRIVER: &str = r#"
#include <stdlib.h>
#include <string.h>
typedef unsigned long long u64;
int cuMemGetInfo_v2(unsigned long* f, unsigned long* t) { *f = FREE; *t = 1ul << 34; return 0; }
int cuMemAlloc_v2(u64* p, unsigned long n) { static u64 at = 1ull << 40; *p = at; at += (n + 511) & ~511ull; return 0; }
int cuMemHostAlloc(void** p, unsigned long n, unsigned f) { *p = malloc(n); return 0; }
int cuMemFreeHost(void* p) { free(p); return 0; }
int cuMemcpyDtoHAsync_v2(void* to, u64 from, unsigned long n, void* s) { memset(to, 0, n); return 0; }
int cuDevicePrimaryCtxRetain(void** c, int d) { *c = (void*)1; return 0; }
int cuStreamCreate(void** s, unsigned f) { *s = (void*)2; return 0; }
int cuModuleLoadData(void** m, const void* image) { *m = (void*)3; return 0; }
int cuModuleGetFunction(void** f, void* m, const char* name) { *f = (void*)4; return 0; }
int cuStreamEndCapture(void* s, void** g) { *g = (void*)5; return 0; }
int cuGraphInstantiateWithFlags(void** e, void* g, u64 f) { *e = (void*)6; return 0; }
static int n_launches;
int cuLaunchKernel(void) { return ++n_launches > LAUNCHES ? 719 : 0; }
int cuGraphLaunch(void) { return n_launches > LAUNCHES ? 719 : 0; }
int cuEventElapsedTime_v2(float* ms, void* a, void* b) { *ms = 0.5f; return 0; }
int cuEventCreate(void** e, unsigned f) { *e = (void*)7; return 0; }
"#;

const LIBRARY: &str = r#"
#include <string.h>
int cublasLtCreate(void** h) { *h = (void*)1; return 0; }
int cublasLtDestroy(void* h) { return 0; }
int cublasLtMatrixLayoutCreate(void** l, int t, unsigned long r, unsigned long c, long ld) { *l = (void*)2; return 0; }
int cublasLtMatrixLayoutDestroy(void* l) { return 0; }
int cublasLtMatmulDescCreate(void** d, int c, int s) { *d = (void*)3; return 0; }
int cublasLtMatmulDescSetAttribute(void* d, int a, const void* v, unsigned long n) { return n == 4 ? 0 : 7; }
int cublasLtMatmulDescDestroy(void* d) { return 0; }
int cublasLtMatmulPreferenceCreate(void** p) { *p = (void*)4; return 0; }
int cublasLtMatmulPreferenceSetAttribute(void* p, int a, const void* v, unsigned long n) { return n == 8 ? 0 : 7; }
int cublasLtMatmulPreferenceDestroy(void* p) { return 0; }
int cublasLtMatmulAlgoGetHeuristic(void* h, void* d, void* a, void* b, void* c, void* e, void* p, int n, void* out, int* found) {
    memset(out, 0, 96); *found = 1; return 0; }
int cublasLtMatmul(void* h) { return 0; }
"#;

/// Names of the functions that C text defines.
fn defined(text: &str) -> Vec<String> {
    let name = |l: &str| Some(l.strip_prefix("int ")?.split('(').next()?.to_owned());
    text.lines().filter_map(name).collect()
}

/// Every function that the program looks for, learned from what it misses.
fn wanted(folder: &Path, known: &[String], bodies: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    loop {
        let rest: Vec<String> = names.iter().filter(|n| !known.contains(n)).cloned().collect();
        make_driver(folder, &rest, bodies);
        let (_, out, _) = with_driver(folder, &["devices"]);
        let line = out.lines().find(|l| l.starts_with("cuda")).expect("a line about CUDA");
        let Some(missing) = line.split("has no function ").nth(1) else { return rest };
        names.push(missing.split(':').next().expect("a name").to_owned());
    }
}

#[test]
fn a_gpu_that_is_lost_or_too_small_ends_a_run_with_a_reason_and_a_code() {
    if !cfg!(target_os = "linux") || Command::new("cc").arg("--version").output().is_err() {
        println!("skipped: no C compiler, or not Linux");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let driver = |launches: u32, free: u64| {
        let sizes = format!("#define LAUNCHES {launches}\n#define FREE {free}ul\n");
        format!("{sizes}{}{WHOLE_DRIVER}", bodies(0, 13000, 9))
    };
    let known = defined(&driver(0, 0));
    let rest = wanted(folder, &known, &driver(0, 0));
    let model = tiny("llama");
    let run = |launches: u32, free: u64, args: &[&str]| {
        make_driver(folder, &rest, &driver(launches, free));
        with_driver(folder, &[args, &["--model", &model, "--device", "cuda"]].concat())
    };
    let write = ["generate", "--prompt", "abc", "-n", "8", "--ignore-eos", "--kv-tokens", "256"];
    let (code, out, err) = run(1_000_000, 1 << 33, &write);
    if err.contains("NVRTC") {
        println!("skipped: built without nvcc, and NVRTC is not there");
        return;
    }
    // Nothing was computed, so the text means nothing; but everything ran to its end.
    assert!(code == 0 && err.contains("memory: weights"), "{out}{err}");
    // In the middle of a step, and of recording one: the error names what was running.
    for launches in [3, 20, 40] {
        let (code, _, err) = run(launches, 1 << 33, &write);
        assert!(code == 2 && !err.contains("panicked"), "{code} {err}");
        let lost = "the cuda device was lost: CUDA_ERROR_OF_THE_TEST in ";
        assert!(err.contains(lost), "after {launches} launches: {err}");
    }
    let (code, _, err) = run(1_000_000, 1 << 20, &write);
    assert!(code == 2 && !err.contains("panicked"), "{code} {err}");
    assert!(err.contains("weights of up to") && err.contains("--device cpu"), "{err}");
    // What the vendor's library would give is measured where it is there: half a millisecond for ten products.
    make_library(folder, "libcublasLt.so", LIBRARY);
    make_driver(folder, &rest, &driver(1_000_000, 1 << 33));
    let (code, out, err) = with_driver(folder, &["devices", "--measure", "cuda", "--json"]);
    assert_eq!(code, 0, "{err}");
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let ops = json["library_ops_per_s"].as_f64().expect("a rate");
    let side = (ops * 50e-6 / 2.0 / 512.0).sqrt();
    assert!((side.log2() - side.log2().round()).abs() < 1e-6, "of a square matrix: {json}");
    // Kernels are timed by events: half a millisecond between any two of this driver.
    let measure = ["profile", "--prompt-tokens", "8", "--gen-tokens", "3", "--reps", "1"];
    let (code, out, err) =
        run(1_000_000, 1 << 33, &[&measure[..], &["--kernels", "--json"]].concat());
    assert_eq!(code, 0, "{err}");
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let lists =
        ["prefill", "decode"].map(|phase| json["kernels"][phase].as_array().expect("a list"));
    let ropes: Vec<_> = lists.into_iter().flatten().filter(|r| r["name"] == "rope_store").collect();
    assert!(!ropes.is_empty(), "it runs in every layer: {json}");
    for rope in ropes {
        let number = |key: &str| rope[key].as_f64().expect("a number");
        assert!((number("us") - 500.0 * number("runs")).abs() < 1.0, "{rope}");
    }
}

#[test]
fn head_sizes_that_the_kernels_do_not_know_are_refused_when_a_model_is_loaded() {
    if !has_emulator() {
        println!("skipped: built without the feature `emu`");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let from = crate::program::data("models/llama");
    for entry in std::fs::read_dir(&from).expect("committed") {
        let path = entry.expect("an entry").path();
        std::fs::copy(&path, folder.path().join(path.file_name().expect("a name")))
            .expect("copied");
    }
    let config = folder.path().join("config.json");
    let text = std::fs::read_to_string(&config).expect("there");
    let mut json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    json["head_dim"] = 192.into();
    std::fs::write(&config, json.to_string()).expect("written");
    let model = folder.path().to_str().expect("UTF-8");
    let args = ["generate", "--model", model, "--prompt", "x", "--device", "emu"];
    refused(&args, &["heads of 192", "up to 128", "--device cpu"]);
}

#[test]
fn a_synthetic_model_is_the_same_for_a_seed_and_every_device_runs_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let make = |dtype: &str, seed: &str, name: &str| {
        let path = folder.path().join(name);
        let path = path.to_str().expect("UTF-8").to_owned();
        let run =
            tether(&["synth", "--arch", "tiny", "--dtype", dtype, "--seed", seed, "-o", &path]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        path
    };
    let read = |path: &str| std::fs::read(path).expect("written");
    assert_eq!(read(&make("q4_0", "1", "a.gguf")), read(&make("q4_0", "1", "b.gguf")));
    assert_ne!(read(&make("q4_0", "1", "a.gguf")), read(&make("q4_0", "2", "b.gguf")));
    let devices = if has_emulator() { vec!["cpu", "emu"] } else { vec!["cpu"] };
    for dtype in ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q4_k", "q6_k"] {
        let model = make(dtype, "3", "c.gguf");
        for device in &devices {
            let args = ["generate", "--model", &model, "--prompt", "ab", "-n", "3", "--ignore-eos"];
            let run = tether(&[&args[..], &["--json", "--device", device]].concat());
            assert_eq!(run.code, 0, "{dtype} on {device}: {}", run.stderr);
            assert_eq!(run.json()["tokens"], 3, "{dtype} on {device}");
        }
    }
    let path = folder.path().join("no/such/folder.gguf");
    refused(&["synth", "-o", path.to_str().expect("UTF-8")], &["folder.gguf", "cannot be written"]);
}

#[test]
fn a_device_that_is_too_small_names_what_would_fit() {
    if !has_emulator() {
        println!("skipped: built without the feature `emu`");
        return;
    }
    // The emulated device has 16 GiB.
    let model = tiny("llama");
    let base = ["generate", "--model", &model, "--prompt", "x", "--device", "emu"];
    let args = [&base[..], &["--gpu-memory-fraction", "0.00001"]].concat();
    refused(&args, &["GiB", "--gpu-memory-fraction", "--device cpu"]);
    let args = [&base[..], &["--gpu-memory-fraction", "0.001", "--kv-tokens", "900000"]].concat();
    refused(&args, &["900000 tokens", "would fit"]);
    refused(&[&base[..], &["--gpu-memory-fraction", "1.5"]].concat(), &["1.5", "up to 1"]);
}
