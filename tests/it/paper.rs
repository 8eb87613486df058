//! ToolGen's rule in the engine, with a tiny model's own logits, against an implementation of its own in
//! Python over transformers (`scripts/golden/paper_model.py`).

use crate::program::data;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tether::base::{Answer, Candidate, CandidateKind, Candidates, Origin, TokenId};
use tether::constrain::{PaperCache, PaperConfig, PaperGuide, Vocabulary};
use tether::device::KvType;
use tether::engine::{Event, Progress, Request, SamplingParams};
use tether::runtime::{DeviceChoice, LoadConfig, Model, ModelFiles};

/// Stands before the number of a name in the text of a candidate; no token writes it.
const MARK: char = '\u{e000}';

fn numbers(value: &Value) -> Vec<u32> {
    let list = value.as_array().expect("a list").iter();
    list.map(|n| n.as_u64().expect("a number") as u32).collect()
}

/// The ids that the engine writes under the rule, and the steps before which it asked.
fn run(model: &mut Model, case: &Value) -> (Vec<u32>, Vec<u32>) {
    let names: Vec<Vec<u32>> =
        case["names"].as_array().expect("names").iter().map(numbers).collect();
    let candidates = Candidates {
        answer: Answer::Closed,
        names: (0..names.len())
            .map(|i| {
                let text = format!("{MARK}{i}");
                Candidate::new(text, CandidateKind::Unknown, Origin::Unknown)
            })
            .collect(),
        start_byte: 0,
        reason: None,
    };
    let tokenizer = model.tokenizer();
    let bytes = (0..tokenizer.len() as u32).map(|id| tokenizer.token_bytes(TokenId(id)));
    let vocabulary = Vocabulary::new(bytes, tokenizer.eos().ids()).expect("a vocabulary");
    let config = PaperConfig {
        vocabulary: Arc::new(vocabulary),
        trigger: TokenId(case["trigger"].as_u64().expect("an id") as u32),
        trigger_text: "<COMP>".to_owned(),
        confidence: case["confidence"].as_f64().expect("a number"),
        // The text is one token, a candidate behind it those of its path.
        encode: Arc::new(move |text| {
            let name =
                text.rsplit_once(MARK).map(|(_, i)| &names[i.parse::<usize>().expect("ours")]);
            let path = name.into_iter().flatten().map(|&id| TokenId(id));
            std::iter::once(TokenId(0)).chain(path).collect()
        }),
        cache: PaperCache::default(),
    };
    let prompt = numbers(&case["prompt"]);
    let n_max = case["ids"].as_array().expect("ids").len();
    let params = SamplingParams { max_tokens: Some(n_max), ..SamplingParams::greedy() };
    let mut request = Request::new(prompt, params);
    request.constraint = Some(Box::new(PaperGuide::new(config, 0)));
    let engine = model.engine_mut();
    engine.submit(request).expect("fits");
    let (mut ids, mut asked, mut events) = (Vec::new(), Vec::new(), Vec::new());
    while engine.step(&mut events).expect("runs") == Progress::Ran {
        for event in std::mem::take(&mut events) {
            match event {
                Event::Token { id, .. } => ids.push(id.0),
                Event::Ask { seq, .. } => {
                    asked.push(ids.len() as u32);
                    engine.supply(seq, &candidates, Duration::ZERO);
                }
                _ => {}
            }
        }
    }
    (ids, asked)
}

#[test]
fn the_engine_follows_the_papers_rule_with_a_models_own_logits() {
    let folder = data("models/llama");
    let golden = std::fs::read(folder.join("paper.json")).expect("committed");
    let golden: Value = serde_json::from_slice(&golden).expect("JSON");
    let cases = golden["cases"].as_array().expect("cases");
    assert!(cases.len() >= 20);
    for device in [DeviceChoice::Reference, DeviceChoice::Cpu] {
        let config = LoadConfig { device, kv_type: KvType::F32, ..LoadConfig::single() };
        let files = ModelFiles::Folder(folder.clone());
        let mut model = Model::load(&files, &config, &mut |_, _| {}).expect("a model");
        for case in cases {
            let (ids, asked) = run(&mut model, case);
            assert_eq!(ids, numbers(&case["ids"]), "{device:?} {case}");
            assert_eq!(asked, numbers(&case["asked_at"]), "{device:?} {case}");
        }
    }
}
