//! JSON schemas, through real generation: whatever a random model writes under a schema is valid against
//! it, says another implementation. The schemas are those of the JSON Schema test suite where it is there,
//! and a few of our own.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jsonschema::Draft;
use serde_json::{Value, json};
use tether::base::{Candidates, TokenId};
use tether::constrain::{
    Constraint, ConstraintError, GrammarCompiler, GrammarConstraint, GrammarSource, GuideReport,
    Need, TokenMask, Verdict, Vocabulary,
};
use tether::engine::{FinishReason, SamplingParams};
use tether::runtime::{LoadConfig, Model, ModelFiles, Prompt};

use crate::program::data;

/// A schema with instances and whether they are valid.
struct Group {
    name: String,
    schema: Value,
    instances: Vec<(Value, bool)>,
}

/// The groups of one draft, or `None` without the suite.
#[allow(clippy::print_stdout)] // a skipped test says so
fn suite(draft: &str) -> Option<Vec<Group>> {
    let shared = std::env::var_os("TETHER_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let path = shared.join("data/json-schema/tests-and-remotes.zip");
    let Ok(file) = std::fs::File::open(&path) else {
        println!("SKIPPED: no JSON Schema test suite at {}", path.display());
        return None;
    };
    let mut archive = zip::ZipArchive::new(file).expect("the suite is a zip file");
    let folder = format!("tests/{draft}/");
    let mut names: Vec<String> = archive
        .file_names()
        .map(|name| name.expect("names are text").into_owned())
        .filter(|name| name.starts_with(&folder) && name.ends_with(".json"))
        .collect();
    names.sort_unstable();
    let mut groups = Vec::new();
    for name in names {
        let mut text = String::new();
        archive.by_name(&name).expect("listed").read_to_string(&mut text).expect("UTF-8");
        let content: Value = serde_json::from_str(&text).expect("JSON");
        for group in content.as_array().expect("a list of groups") {
            let instances = group["tests"].as_array().expect("a list of tests").iter();
            groups.push(Group {
                name: format!("{name}: {}", group["description"].as_str().unwrap_or_default()),
                schema: group["schema"].clone(),
                instances: instances
                    .map(|t| (t["data"].clone(), t["valid"].as_bool().expect("a verdict")))
                    .collect(),
            });
        }
    }
    Some(groups)
}

/// All bytes as tokens, after an end token.
fn compiler() -> GrammarCompiler {
    let single: Vec<[u8; 1]> = (0..=255u8).map(|b| [b]).collect();
    let tokens = std::iter::once(&b""[..]).chain(single.iter().map(|b| &b[..]));
    let vocabulary = Vocabulary::new(tokens, &[TokenId(0)]).expect("a small vocabulary");
    GrammarCompiler::new(Arc::new(vocabulary)).expect("a vocabulary with an end")
}

/// Whether the constraint takes a whole text.
fn accepts(constraint: &GrammarConstraint, text: &str) -> bool {
    let mut constraint = constraint.clone();
    for byte in text.bytes() {
        if constraint.accept(TokenId(u32::from(byte) + 1)).is_err() {
            return false;
        }
    }
    constraint.is_complete()
}

/// Whether an instance breaks the schema in a way that is known: patterns are those of Rust's `regex`,
/// where the byte order mark is no white space.
fn is_known_difference(instance: &Value) -> bool {
    instance == &json!("\u{feff}")
}

/// The reason why a schema was refused, without what differs from schema to schema.
fn reason(error: &ConstraintError, schema: &Value) -> String {
    match error {
        ConstraintError::UnsupportedSchema { what } => {
            let place = what.strip_prefix("a reference to ");
            let word = what.split(['"', ',']).nth(1).or(place).expect("what is refused is named");
            let text = schema.to_string(); // what it refers to counts as part of it
            assert!(text.contains(word) || text.contains("$ref"), "{what} is not in {schema}");
            format!("uses {}", place.map_or(&**what, |_| "a reference out of the schema"))
        }
        ConstraintError::Grammar { problem, .. } => {
            assert!(!problem.is_empty(), "{schema}");
            problem.clone()
        }
        ConstraintError::GrammarTooLarge { what, .. } => (*what).to_owned(),
        other => panic!("{schema}: {other}"),
    }
}

#[test]
fn an_instance_that_a_schema_forbids_is_never_taken_and_refusals_name_the_keyword() {
    let compiler = compiler();
    let Some(groups) = suite("draft2020-12") else { return };
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    let (mut n_compiled, mut n_forbidden, mut n_valid, mut n_taken) = (0, 0, 0, 0);
    for group in &groups {
        let constraint = match compiler.compile(&GrammarSource::JsonSchema(group.schema.clone())) {
            Ok(constraint) => constraint,
            Err(error) => {
                *refused.entry(reason(&error, &group.schema)).or_default() += 1;
                continue;
            }
        };
        n_compiled += 1;
        for (instance, is_valid) in &group.instances {
            let is_taken = accepts(&constraint, &instance.to_string());
            if *is_valid {
                n_valid += 1;
                n_taken += usize::from(is_taken);
            } else {
                n_forbidden += 1;
                assert!(
                    !is_taken || is_known_difference(instance),
                    "{}: {} takes {instance}",
                    group.name,
                    group.schema
                );
            }
        }
    }
    println!(
        "draft 2020-12: {n_compiled} of {} schemas compile; {n_taken} of {n_valid} valid instances \
         are taken as the suite writes them, 0 of {n_forbidden} forbidden ones",
        groups.len()
    );
    for (reason, n) in &refused {
        println!("  {n:3} {reason}");
    }
    assert!(n_compiled >= 225 && n_taken >= 600, "{n_compiled} schemas, {n_taken} instances");
}

/// A constraint that lets a text grow for a while and then prefers what brings it to an end.
struct Hurry {
    inner: Box<dyn Constraint>,
    n_free: usize,
    n_written: usize,
    /// For each token how much it is wanted when the text is to end; lower is better.
    ranks: Arc<Vec<u8>>,
    mask: Option<TokenMask>,
}

impl Hurry {
    fn ranks(model: &Model) -> Arc<Vec<u8>> {
        let tokenizer = model.tokenizer();
        let rank = |id: u32| match tokenizer.token_bytes(TokenId(id)) {
            bytes if bytes.is_empty() || tokenizer.eos().ids().contains(&TokenId(id)) => 0,
            [b'"' | b'}' | b']'] => 1,
            [b'0'..=b'9' | b'a'..=b'z'] => 2,
            [b' ' | b'\t' | b'\n' | b'\r' | b',' | b'{' | b'[' | b'\\', ..] => 4,
            _ => 3,
        };
        Arc::new((0..tokenizer.len() as u32).map(rank).collect())
    }
}

impl Constraint for Hurry {
    fn next(&mut self) -> Need<'_> {
        let is_free = self.n_written < self.n_free;
        match self.inner.next() {
            Need::Mask(mask) if !is_free => {
                let best = mask.ids().map(|id| self.ranks[id.index()]).min().unwrap_or(0);
                let mut narrow = TokenMask::none(mask.n_tokens());
                mask.ids()
                    .filter(|id| self.ranks[id.index()] == best)
                    .for_each(|id| narrow.allow(id));
                self.mask = Some(narrow);
            }
            _ => return self.inner.next(),
        }
        Need::Mask(self.mask.as_ref().expect("made above"))
    }

    fn check(&mut self, token: TokenId) -> Verdict {
        self.inner.check(token)
    }

    fn accept(&mut self, token: TokenId) -> Result<(), ConstraintError> {
        self.n_written += 1;
        self.inner.accept(token)
    }

    fn supply(&mut self, _: &Candidates, _: Duration) {}

    fn note_wanted(&mut self, _: TokenId) {}

    fn rollback(&mut self, n_tokens: usize) -> Result<(), ConstraintError> {
        self.n_written -= n_tokens;
        self.inner.rollback(n_tokens)
    }

    fn inside_name(&self) -> bool {
        false
    }

    fn forced(&mut self) -> Vec<u8> {
        Vec::new()
    }

    fn report(&self) -> GuideReport {
        self.inner.report()
    }

    fn clone_box(&self) -> Box<dyn Constraint> {
        Box::new(Self {
            inner: self.inner.clone_box(),
            n_free: self.n_free,
            n_written: self.n_written,
            ranks: Arc::clone(&self.ranks),
            mask: self.mask.clone(),
        })
    }
}

/// The tiny random model with room for longer texts.
fn random_model() -> Model {
    let dir = tempfile::tempdir().expect("a folder");
    for entry in std::fs::read_dir(data("models/llama")).expect("committed") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), dir.path().join(entry.file_name())).expect("copied");
    }
    let path = dir.path().join("config.json");
    let text = std::fs::read_to_string(&path).expect("there");
    let from = "\"max_position_embeddings\": 128";
    assert!(text.contains(from), "{text}");
    std::fs::write(&path, text.replace(from, "\"max_position_embeddings\": 1024"))
        .expect("written");
    let files = ModelFiles::Folder(dir.path().to_owned());
    Model::load(&files, &LoadConfig::single(), &mut |_, _| {}).expect("a model")
}

/// What became of the schemas that were written under.
#[derive(Debug, Default)]
struct Written {
    schemas: usize,
    /// Schemas with at least one text that the other implementation found valid.
    confirmed: usize,
    texts: usize,
    /// Texts that did not come to an end.
    unfinished: usize,
    /// Texts with numbers that the other implementation cannot read exactly.
    beyond_f64: usize,
}

/// Whether some number of a text is more than 64-bit floats hold.
fn is_beyond_f64(text: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit() || c == '.';
    text.split(|c| !is_digit(c)).any(|run| run.len() > 15)
        || text.split(['e', 'E']).skip(1).any(|tail| {
            let digits = tail.trim_start_matches(['+', '-']);
            digits.chars().take_while(char::is_ascii_digit).count() > 2
        })
}

/// Let the model write under each schema, and check what it wrote.
fn write_under(model: &mut Model, schemas: &[(String, Value, Draft)], n_texts: u64) -> Written {
    let ranks = Hurry::ranks(model);
    let mut written = Written::default();
    for (name, schema, draft) in schemas {
        let Ok(constraint) = model.grammars().compile(&GrammarSource::JsonSchema(schema.clone()))
        else {
            continue; // what is refused, and why, is the other test's business
        };
        let validator = jsonschema::options()
            .with_draft(*draft)
            .should_validate_formats(true)
            .build(schema)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        written.schemas += 1;
        let mut is_confirmed = false;
        for seed in 0..n_texts {
            let hurry = Hurry {
                inner: Box::new(constraint.clone()),
                n_free: 2 + 4 * seed as usize,
                n_written: 0,
                ranks: Arc::clone(&ranks),
                mask: None,
            };
            let params = SamplingParams {
                temperature: 1.0,
                seed: Some(seed),
                max_tokens: Some(900),
                ..SamplingParams::greedy()
            };
            let prompt = Prompt::Text(name.chars().take(20).collect());
            let output = model
                .generate_constrained(&prompt, params, Box::new(hurry), &mut |_| {})
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            written.texts += 1;
            match output.reason {
                FinishReason::Stop => {}
                FinishReason::Length => {
                    written.unfinished += 1;
                    continue;
                }
                other => panic!("{name}: {other:?} after {:?}", output.text),
            }
            serde_json::from_str::<serde::de::IgnoredAny>(&output.text)
                .unwrap_or_else(|e| panic!("{name}: {e} in {:?}", output.text));
            let value: Result<Value, _> = serde_json::from_str(&output.text);
            match value.map_err(|e| e.to_string()) {
                Ok(value) if validator.is_valid(&value) => is_confirmed = true,
                _ if is_beyond_f64(&output.text) => written.beyond_f64 += 1,
                other => panic!("{name}: {schema} does not allow {other:?}, {:?}", output.text),
            }
        }
        written.confirmed += usize::from(is_confirmed);
    }
    written
}

#[test]
fn what_a_random_model_writes_under_a_schema_of_ours_is_valid() {
    let schemas = [
        json!({ "type": "object", "properties": { "a": { "type": "integer", "minimum": 3 } },
                "required": ["a"], "additionalProperties": false }),
        json!({ "type": "array", "items": { "type": "number", "multipleOf": 0.5 }, "maxItems": 4 }),
        json!({ "type": "string", "pattern": "^a+b?$", "minLength": 3, "maxLength": 5 }),
        json!({ "enum": ["x", 1, null, [true]] }),
        json!({ "anyOf": [{ "type": "null" }, { "const": { "k": [1, 2] } }] }),
        json!({ "format": "date", "type": "string" }),
        json!({ "format": "date-time", "type": "string" }),
        json!({ "format": "hostname", "type": "string", "maxLength": 30 }),
        json!({ "format": "uuid", "type": "string" }),
        json!({ "format": "ipv4", "type": "string" }),
        json!({ "$defs": { "t": { "type": "array", "items": { "$ref": "#/$defs/t" } } },
                "$ref": "#/$defs/t" }),
        json!({ "type": "object", "patternProperties": { "^p": { "type": "boolean" } },
                "additionalProperties": false, "minProperties": 1 }),
        json!({ "prefixItems": [{ "type": "string" }, { "const": 2 }], "items": false,
                "minItems": 2, "type": "array" }),
        json!({ "allOf": [{ "minimum": -2 }, { "exclusiveMaximum": 7 }], "type": "integer" }),
        json!(true),
    ];
    let schemas: Vec<_> =
        schemas.into_iter().map(|s| (s.to_string(), s, Draft::Draft202012)).collect();
    let written = write_under(&mut random_model(), &schemas, 6);
    assert_eq!(written.schemas, schemas.len(), "all of them are supported");
    assert_eq!(written.confirmed, schemas.len(), "{written:?}");
}

#[test]
fn what_a_random_model_writes_under_the_suites_schemas_is_valid() {
    let mut schemas = Vec::new();
    for (folder, draft) in [
        ("draft2020-12", Draft::Draft202012),
        ("draft2019-09", Draft::Draft201909),
        ("draft7", Draft::Draft7),
        ("draft6", Draft::Draft6),
    ] {
        let Some(groups) = suite(folder) else { return };
        // The other implementation takes `\s` for less than it is; and every schema is read as one of
        // 2020-12, where `$ref` leaves its siblings alone.
        let is_odd = |name: &str| {
            name.contains("ecmascript-regex") || name.contains("$ref prevents a sibling")
        };
        let groups = groups.into_iter().filter(|g| !is_odd(&g.name));
        schemas.extend(groups.map(|g| (g.name, g.schema, draft)));
    }
    let written = write_under(&mut random_model(), &schemas, 4);
    println!("{written:?}");
    assert!(written.confirmed >= 750, "{written:?}");
    assert!(written.confirmed * 100 >= written.schemas * 99, "{written:?}");
    assert!((written.unfinished + written.beyond_f64) * 10 <= written.texts, "{written:?}");
}
