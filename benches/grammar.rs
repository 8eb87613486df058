//! Time of JSON schema masks, token by token, over the schemas of the JSON Schema test suite and a real
//! vocabulary, and of refusing what is too large.
//!
//! # Place
//! Uses the library only. `cargo bench --bench grammar -- VOCABULARY.gguf SUITE.zip [--json FILE]` prints
//! percentiles and keeps every sample; `--test` runs small cases of its own once.

#![allow(clippy::print_stdout)] // a benchmark reports on standard output

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tether::base::TokenId;
use tether::constrain::{
    Constraint, GrammarCompiler, GrammarConstraint, GrammarSource, Need, Vocabulary,
};
use tether::format::GgufFile;
use tether::tokenizer::{AddBos, Specials, Tokenizer};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given: Vec<&String> = arguments.iter().filter(|a| !a.starts_with("--")).collect();
    let (vocabulary, suite) = match &given[..] {
        [vocabulary, suite, ..] => (vocabulary, suite),
        _ if arguments.iter().any(|a| a == "--test") => {
            println!("the masks of a suite need a vocabulary and the suite; nothing to check");
            return;
        }
        _ => {
            panic!("usage: cargo bench --bench grammar -- VOCABULARY.gguf SUITE.zip [--json FILE]")
        }
    };
    let json_file = arguments.iter().position(|a| a == "--json").map(|i| &arguments[i + 1]);
    let file = GgufFile::open(Path::new(vocabulary)).expect("a GGUF file");
    let tokenizer = Tokenizer::from_gguf(file.metadata()).expect("a vocabulary");
    let tokens = (0..tokenizer.len() as u32).map(|id| tokenizer.token_bytes(TokenId(id)));
    let bytes = Vocabulary::new(tokens, tokenizer.eos().ids()).expect("within the limits");
    let began = Instant::now();
    let compiler = GrammarCompiler::new(Arc::new(bytes)).expect("a vocabulary with an end");
    println!("vocabulary of {} tokens prepared in {:?}", tokenizer.len(), began.elapsed());

    let mut times = Times::default();
    for (schema, instances) in schemas(Path::new(suite)) {
        measure(&compiler, &tokenizer, schema, &instances, &mut times);
    }
    println!(
        "{} schemas, {} refused, {} instances walked, {} left at a token they may not have",
        times.compile.len() + times.refuse.len(),
        times.refuse.len(),
        times.n_walked,
        times.n_left
    );
    refusals(&compiler, &mut times);
    let mut all = serde_json::Map::new();
    for (what, samples) in [
        ("compile, first mask included", &mut times.compile),
        ("refuse a schema of the suite", &mut times.refuse),
        ("mask of a token", &mut times.mask),
        ("take a token", &mut times.accept),
        ("refuse what is too large", &mut times.hostile),
    ] {
        print(what, samples);
        all.insert(what.to_owned(), json!(samples.iter().map(micros).collect::<Vec<_>>()));
    }
    if let Some(path) = json_file {
        let result = json!({
            "vocabulary": Path::new(vocabulary).file_name().map(|n| n.to_string_lossy()),
            "tokens": tokenizer.len(),
            "unit": "microseconds",
            "samples": all,
        });
        std::fs::write(path, format!("{result}\n")).expect("the result can be written");
    }
}

#[derive(Default)]
struct Times {
    compile: Vec<Duration>,
    refuse: Vec<Duration>,
    mask: Vec<Duration>,
    accept: Vec<Duration>,
    hostile: Vec<Duration>,
    n_walked: usize,
    n_left: usize,
}

/// The schemas of draft 2020-12 with their valid instances.
fn schemas(path: &Path) -> Vec<(Value, Vec<Value>)> {
    let file = std::fs::File::open(path).expect("the suite");
    let mut archive = zip::ZipArchive::new(file).expect("a zip file");
    let mut names: Vec<String> = archive
        .file_names()
        .map(|name| name.expect("names are text").into_owned())
        .filter(|n| n.starts_with("tests/draft2020-12/") && n.ends_with(".json"))
        .collect();
    names.sort_unstable();
    let mut schemas = Vec::new();
    for name in names {
        let mut text = String::new();
        archive.by_name(&name).expect("listed").read_to_string(&mut text).expect("UTF-8");
        let groups: Vec<Value> = serde_json::from_str(&text).expect("a list of groups");
        for group in groups {
            let tests = group["tests"].as_array().expect("a list of tests").iter();
            let valid = tests.filter(|t| t["valid"] == true).map(|t| t["data"].clone()).collect();
            schemas.push((group["schema"].clone(), valid));
        }
    }
    schemas
}

/// Compile a schema and walk its valid instances, as compact JSON and with indentation.
fn measure(
    compiler: &GrammarCompiler,
    tokenizer: &Tokenizer,
    schema: Value,
    instances: &[Value],
    times: &mut Times,
) {
    let began = Instant::now();
    let compiled = compiler.compile(&GrammarSource::JsonSchema(schema));
    let took = began.elapsed();
    let Ok(constraint) = compiled else {
        times.refuse.push(took);
        return;
    };
    times.compile.push(took);
    for instance in instances {
        for text in [instance.to_string(), format!("{instance:#}")] {
            let ids = tokenizer.encode(&text, Specials::AsText, AddBos::Never).expect("JSON text");
            times.n_walked += 1;
            times.n_left += usize::from(!walk(&mut constraint.clone(), &ids, times));
        }
    }
}

/// False when a token may not come: another order of keys than the schema's, say.
fn walk(constraint: &mut GrammarConstraint, ids: &[TokenId], times: &mut Times) -> bool {
    for (i, &id) in ids.iter().enumerate() {
        let began = Instant::now();
        let is_allowed = match constraint.next() {
            Need::Mask(mask) => mask.is_allowed(id),
            _ => false,
        };
        // The first mask was made while compiling.
        if i > 0 {
            times.mask.push(began.elapsed());
        }
        if !is_allowed {
            return false;
        }
        let began = Instant::now();
        constraint.accept(id).expect("allowed");
        times.accept.push(began.elapsed());
    }
    true
}

/// What is refused because it grows too large.
fn refusals(compiler: &GrammarCompiler, times: &mut Times) {
    let deep = (0..120).fold(json!(true), |inner, _| json!({ "items": inner, "type": "array" }));
    let wide: Value = (0..60_000).map(|i| (format!("k{i}"), json!({ "type": "null" }))).collect();
    let sources = [
        GrammarSource::Regex("(a{1,500}){1,500}".into()),
        GrammarSource::Regex("((a{1,50}){1,50}b){1,50}".into()),
        GrammarSource::Regex("(a|b)*a(a|b){300}".into()),
        GrammarSource::Regex("(x+x+)+y".into()),
        GrammarSource::Lark("start: (\"a\"{1,500}){1,500}".into()),
        GrammarSource::JsonSchema(json!({ "pattern": "^(a{1,500}){1,500}$" })),
        GrammarSource::JsonSchema(json!({ "minLength": 3_000_000_000u64, "type": "string" })),
        GrammarSource::JsonSchema(json!({ "minItems": 1_000_000, "items": {}, "type": "array" })),
        GrammarSource::JsonSchema(json!({ "enum": (0..100_000).collect::<Vec<_>>() })),
        GrammarSource::JsonSchema(deep),
        GrammarSource::JsonSchema(json!({ "properties": wide })),
        GrammarSource::Choice((0..20_000).map(|i| format!("choice {i}")).collect()),
    ];
    for source in sources {
        let began = Instant::now();
        let outcome = compiler.compile(&source);
        let took = began.elapsed();
        let verdict = match &outcome {
            Ok(_) => "taken".to_owned(),
            Err(error) => error.to_string(),
        };
        let shown: String = source.key().chars().take(60).collect();
        println!("{:>9.2} ms  {shown}: {verdict}", took.as_secs_f64() * 1e3);
        if outcome.is_err() {
            times.hostile.push(took);
        }
    }
}

fn micros(d: &Duration) -> f64 {
    (d.as_secs_f64() * 1e8).round() / 1e2
}

fn print(what: &str, samples: &mut [Duration]) {
    samples.sort_unstable();
    let at = |q: f64| samples[((samples.len() - 1) as f64 * q).round() as usize];
    let row = [0.5, 0.9, 0.99, 0.999, 1.0].map(|q| format!("{:>10.1}", micros(&at(q))));
    println!("{what:<30} n {:>6}  p50, p90, p99, p99.9, max µs: {}", samples.len(), row.join(" "));
}
