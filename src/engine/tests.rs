//! The step loop on a tiny model: who gets which tokens, and who pays for whose failure.

use super::*;
use crate::base::{Answer, Candidates, SeqId, TokenId};
use crate::constrain::{
    AskAt, Constraint, ConstraintError, GuideReport, Need, PlaceKind, TokenMask, Verdict,
    Vocabulary,
};
use crate::device::{CpuBackend, KvType};
use crate::format::{Safetensors, Tensors};
use crate::model::{Adapter, AdapterId, Decoder, DecoderLimits, Merged, ModelConfig};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const VOCAB: usize = 288;

/// An engine over the tiny llama with `n_blocks` cache blocks of 16 tokens.
fn engine(n_blocks: usize) -> Engine {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/models/llama");
    let json = std::fs::read(dir.join("config.json")).expect("committed");
    let config =
        ModelConfig::from_hf(&serde_json::from_slice(&json).expect("JSON")).expect("config");
    let tensors = Safetensors::open(&dir).expect("weights");
    engine_of(&config, &tensors, n_blocks)
}

fn engine_of(config: &ModelConfig, tensors: &dyn Tensors, n_blocks: usize) -> Engine {
    let threads = std::num::NonZeroUsize::new(2).expect("two");
    let mut backend = Box::new(CpuBackend::new(Some(threads)).expect("threads start"));
    let limits = DecoderLimits {
        rows_max: 24,
        logit_rows_max: 8,
        kv_blocks: n_blocks,
        kv_block_tokens: 16,
        kv_type: KvType::F16,
    };
    let decoder = Decoder::load(config.clone(), tensors, backend.as_mut(), limits, &mut |_, _| {})
        .expect("loads");
    let letters: Vec<[u8; 1]> = (0..config.vocab).map(|i| [b'a' + (i % 26) as u8]).collect();
    let vocabulary =
        Vocabulary::new(letters.iter().map(|l| &l[..]), &[TokenId(1)]).expect("vocabulary");
    let config = EngineConfig { seqs_max: 8, prefill_rows_max: 24 };
    Engine::new(backend, decoder, Arc::new(vocabulary), config)
}

fn prompt(n: usize, salt: u32) -> Vec<u32> {
    (0..n as u32).map(|i| 3 + (i * 7 + salt * 13) % 280).collect()
}

fn greedy(max_tokens: usize) -> SamplingParams {
    SamplingParams { max_tokens: Some(max_tokens), ignore_eos: true, ..SamplingParams::greedy() }
}

#[derive(Debug, Default, Clone, PartialEq)]
struct Outcome {
    ids: Vec<u32>,
    text: Vec<u8>,
    reason: Option<FinishReason>,
}

/// Run to the end, answering every question at once. Outcomes by sequence id.
fn run(engine: &mut Engine, n_seqs: usize) -> Vec<Outcome> {
    let mut outcomes = vec![Outcome::default(); n_seqs];
    let mut events = Vec::new();
    while engine.step(&mut events).expect("the host is never lost") == Progress::Ran {
        for event in std::mem::take(&mut events) {
            match event {
                Event::Token { seq, id, bytes, .. } => {
                    outcomes[seq.0 as usize].ids.push(id.0);
                    outcomes[seq.0 as usize].text.extend(bytes);
                }
                Event::Ask { seq, .. } => {
                    engine.supply(seq, &Candidates::unknown(0, "test"), Duration::ZERO);
                }
                Event::Finished { seq, reason, rest, .. } => {
                    outcomes[seq.0 as usize].text.extend(rest);
                    outcomes[seq.0 as usize].reason = Some(reason);
                }
            }
        }
    }
    let (free, all) = engine.cache_blocks();
    assert_eq!(free, all, "whoever has ended holds no cache");
    outcomes
}

#[test]
fn a_sequence_writes_the_same_alone_and_among_seven_others() {
    let sizes = [5, 40, 1, 23, 17, 3, 60, 31];
    let params = [greedy(12), SamplingParams { temperature: 0.9, seed: Some(5), ..greedy(12) }];
    let mut together = engine(64);
    for (i, &n) in sizes.iter().enumerate() {
        let request = Request::new(prompt(n, i as u32), params[i % 2].clone());
        together.submit(request).expect("fits");
    }
    let among = run(&mut together, sizes.len());
    for (i, &n) in sizes.iter().enumerate() {
        let mut alone = engine(64);
        alone.submit(Request::new(prompt(n, i as u32), params[i % 2].clone())).expect("fits");
        assert_eq!(run(&mut alone, 1)[0], among[i], "sequence {i}");
        assert_eq!(among[i].ids.len(), 12);
    }
}

/// The engine with two adapters beside the weights, the second of which brings token 288.
fn adapted() -> (Engine, [AdapterId; 2]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let json = |path: &str| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(root.join(path)).expect("committed")).expect("JSON")
    };
    let adapters = ["llama-all", "llama-resized"].map(|name| {
        let folder = root.join("adapters").join(name);
        let tensors = Safetensors::open(&folder.join("adapter_model.safetensors")).expect("opens");
        let config = json(&format!("adapters/{name}/adapter_config.json"));
        Adapter::from_peft(name, &config, Arc::new(tensors)).expect("is read")
    });
    let base = ModelConfig::from_hf(&json("models/llama/config.json")).expect("config");
    let tensors = Safetensors::open(&root.join("models/llama")).expect("weights");
    let beside = [&adapters[0], &adapters[1]];
    let (tensors, config) = Merged::new(&tensors, &base, &[], &beside).expect("they fit");
    let mut engine = engine_of(&config, &tensors, 64);
    let ids = beside.map(|a| engine.add_adapter(a, base.vocab).expect("loads"));
    (engine, ids)
}

#[test]
fn sequences_with_and_without_adapters_write_the_same_alone_and_together() {
    let (mut together, ids) = adapted();
    let adapters = [Some(ids[0]), None, Some(ids[1]), Some(ids[0]), None];
    let requests = |i: usize| Request {
        adapter: adapters[i],
        ..Request::new(prompt(9 + 4 * i, 1), SamplingParams { n: 1 + i % 2, ..greedy(10) })
    };
    for i in 0..adapters.len() {
        together.submit(requests(i)).expect("fits");
    }
    let among = run(&mut together, 7);
    let mut first = 0;
    for i in 0..adapters.len() {
        let (mut alone, _) = adapted();
        alone.submit(requests(i)).expect("fits");
        let n = 1 + i % 2;
        assert_eq!(run(&mut alone, n), among[first..first + n], "request {i}");
        first += n;
    }
    let (mut plain, _) = adapted();
    plain.submit(Request { adapter: None, ..requests(0) }).expect("fits");
    assert_ne!(run(&mut plain, 1)[0].ids, among[0].ids, "the adapter changes what is written");
}

#[test]
fn a_token_of_an_adapter_can_be_read_by_its_requests_only() {
    let (mut engine, ids) = adapted();
    let request = |adapter| Request { adapter, ..Request::new(vec![5, 288], greedy(2)) };
    for adapter in [None, Some(ids[0])] {
        let error = engine.submit(request(adapter)).expect_err("it has no such token");
        assert!(error.to_string().contains("288"), "{error}");
    }
    engine.submit(request(Some(ids[1]))).expect("fits");
    assert_eq!(run(&mut engine, 1)[0].ids.len(), 2);
    let error = engine.submit(request(Some(AdapterId(2)))).expect_err("there are two");
    assert!(error.to_string().contains('2'), "{error}");
}

#[test]
fn the_same_prompt_again_gives_the_same_text() {
    let mut e = engine(64);
    for p in [1, 2, 1, 1] {
        e.submit(Request::new(prompt(20, p), greedy(8))).expect("fits");
        let outcomes = run(&mut e, 4);
        drop(outcomes);
    }
    let mut e = engine(64);
    let all: Vec<Vec<u32>> = [1, 2, 1, 1]
        .into_iter()
        .enumerate()
        .map(|(i, p)| {
            e.submit(Request::new(prompt(20, p), greedy(8))).expect("fits");
            run(&mut e, 4)[i].ids.clone()
        })
        .collect();
    assert_eq!(all[0], all[2]);
    assert_eq!(all[0], all[3]);
    assert_ne!(all[0], all[1]);
}

#[test]
fn a_prompt_that_does_not_fit_is_refused_with_both_numbers_and_the_next_one_runs() {
    let mut e = engine(64);
    let error = e.submit(Request::new(prompt(200, 0), greedy(4))).expect_err("context is 128");
    let text = error.to_string();
    assert!(text.contains("200") && text.contains("128"), "{text}");
    let error = e.submit(Request::new(prompt(120, 0), greedy(20))).expect_err("20 more do not fit");
    assert!(error.to_string().contains("20"), "{error}");
    assert!(e.submit(Request::new(Vec::new(), greedy(4))).is_err());
    assert!(e.submit(Request::new(vec![5, 9999], greedy(4))).is_err());
    e.submit(Request::new(prompt(10, 0), greedy(4))).expect("fits");
    let mut outcomes = run(&mut e, 8);
    assert_eq!(outcomes.remove(0).ids.len(), 4);
}

#[test]
fn without_a_limit_the_text_goes_on_to_the_end_of_the_context() {
    let mut e = engine(64);
    let params = SamplingParams { ignore_eos: true, ..SamplingParams::greedy() };
    e.submit(Request::new(prompt(100, 0), params)).expect("fits");
    let outcome = run(&mut e, 1).remove(0);
    assert_eq!(outcome.reason, Some(FinishReason::Context));
    assert_eq!(outcome.ids.len(), 29, "28 positions are left, and the last token needs none");
}

#[test]
fn requests_wait_for_cache_and_one_that_can_never_fit_is_refused() {
    let mut e = engine(6); // 96 tokens
    assert!(matches!(
        e.submit(Request::new(prompt(100, 0), greedy(4))),
        Err(EngineError::CacheTooSmall { cache_tokens: 96, .. })
    ));
    for i in 0..3 {
        e.submit(Request::new(prompt(60, i), greedy(4))).expect("fits alone");
    }
    let outcomes = run(&mut e, 3);
    assert!(outcomes.iter().all(|o| o.ids.len() == 4 && o.reason == Some(FinishReason::Length)));
}

#[test]
fn cancelling_frees_the_cache_at_once_in_every_state() {
    let mut e = engine(64);
    let all = e.cache_blocks().1;
    let mut events = Vec::new();
    for n_steps in [0, 1, 3, 6] {
        let id = e.submit(Request::new(prompt(50, 0), greedy(40))).expect("fits");
        for _ in 0..n_steps {
            e.step(&mut events).expect("runs");
        }
        e.cancel(id, &mut events);
        assert_eq!(e.cache_blocks(), (all, all));
    }
    assert_eq!(e.step(&mut events).expect("runs"), Progress::Idle);
    let cancelled = events
        .iter()
        .filter(|e| matches!(e, Event::Finished { reason: FinishReason::Cancelled, .. }));
    assert_eq!(cancelled.count(), 4);
}

#[test]
fn stop_strings_end_the_text_before_them_whatever_the_tokens() {
    let mut e = engine(64);
    e.submit(Request::new(prompt(10, 1), greedy(20))).expect("fits");
    let full = run(&mut e, 1).remove(0).text;
    let stop = String::from_utf8(full[5..8].to_vec()).expect("letters");
    let at = String::from_utf8(full.clone()).expect("letters").find(&stop).expect("inside");
    let params = SamplingParams { stop: vec![stop], ..greedy(20) };
    e.submit(Request::new(prompt(10, 1), params)).expect("fits");
    let outcome = run(&mut e, 2).remove(1);
    assert_eq!(outcome.text, full[..at]);
    assert_eq!(outcome.reason, Some(FinishReason::Stop));
}

#[test]
fn bad_parameters_are_named() {
    let mut e = engine(64);
    let cases: [(&str, SamplingParams); 5] = [
        ("temperature", SamplingParams { temperature: f32::NAN, ..greedy(1) }),
        ("temperature", SamplingParams { temperature: -1.0, ..greedy(1) }),
        ("top_p", SamplingParams { top_p: 1.5, ..greedy(1) }),
        ("repetition_penalty", SamplingParams { repetition_penalty: 0.0, ..greedy(1) }),
        ("stop", SamplingParams { stop: vec![String::new()], ..greedy(1) }),
    ];
    for (name, params) in cases {
        let error = e.submit(Request::new(prompt(3, 0), params)).expect_err(name);
        assert!(error.to_string().contains(name), "{error}");
    }
}

/// What a made-up constraint does at one token.
#[derive(Clone, Copy, PartialEq)]
enum Act {
    Only(u32),
    AskFirst,
    AskInCheck,
    RejectOnce,
    Panic,
    Dead,
}

/// A constraint that acts at given tokens and is free elsewhere.
#[derive(Clone)]
struct Scripted {
    acts: Vec<Act>,
    n: usize,
    answered: bool,
    rejected: Option<TokenId>,
    mask: TokenMask,
}

impl Scripted {
    fn boxed(acts: &[Act]) -> Option<Box<dyn Constraint>> {
        let (acts, mask) = (acts.to_vec(), TokenMask::all(VOCAB));
        Some(Box::new(Self { acts, n: 0, answered: false, rejected: None, mask }))
    }

    fn at(&self) -> AskAt {
        AskAt { kind: PlaceKind::Member, offset: self.n, pending: Vec::new(), typed: Vec::new() }
    }
}

impl Constraint for Scripted {
    fn next(&mut self) -> Need<'_> {
        match self.acts.get(self.n) {
            Some(Act::Only(id)) => {
                self.mask = TokenMask::none(VOCAB);
                self.mask.allow(TokenId(*id));
                Need::Mask(&self.mask)
            }
            Some(Act::AskFirst) if !self.answered => Need::Ask(self.at()),
            Some(Act::Dead) => {
                Need::DeadEnd(crate::constrain::DeadEnd::AllRejected { offset: self.n })
            }
            Some(Act::Panic) => panic!("scripted"),
            Some(Act::RejectOnce) if self.rejected.is_some() => Need::Mask(&self.mask),
            _ => Need::Free,
        }
    }

    fn check(&mut self, token: TokenId) -> Verdict {
        match self.acts.get(self.n) {
            Some(Act::AskInCheck) if !self.answered => Verdict::Ask(self.at()),
            Some(Act::RejectOnce) if self.rejected.is_none() => {
                self.rejected = Some(token);
                self.mask = TokenMask::all(VOCAB);
                self.mask.forbid(token);
                Verdict::Reject
            }
            _ => Verdict::Accept,
        }
    }

    fn accept(&mut self, _: TokenId) -> Result<(), ConstraintError> {
        self.n += 1;
        self.answered = false;
        Ok(())
    }

    fn supply(&mut self, candidates: &Candidates, _: Duration) {
        assert_eq!(candidates.answer, Answer::Unknown);
        self.answered = true;
    }

    fn note_wanted(&mut self, _: TokenId) {}

    fn rollback(&mut self, _: usize) -> Result<(), ConstraintError> {
        Ok(())
    }

    fn inside_name(&self) -> bool {
        false
    }

    fn forced(&mut self) -> Vec<u8> {
        Vec::new()
    }

    fn report(&self) -> GuideReport {
        GuideReport::default()
    }

    fn clone_box(&self) -> Box<dyn Constraint> {
        Box::new(self.clone())
    }
}

fn scripted(engine: &mut Engine, acts: &[Act]) -> SeqId {
    let mut request = Request::new(prompt(9, 2), greedy(6));
    request.constraint = Scripted::boxed(acts);
    engine.submit(request).expect("fits")
}

#[test]
fn masks_and_rejections_choose_among_what_is_left() {
    let mut e = engine(64);
    e.submit(Request::new(prompt(9, 2), greedy(6))).expect("fits");
    scripted(&mut e, &[Act::Only(77)]);
    scripted(&mut e, &[Act::RejectOnce]);
    let outcomes = run(&mut e, 3);
    assert_eq!(outcomes[1].ids[0], 77);
    assert_ne!(outcomes[2].ids[0], outcomes[0].ids[0], "the best token was rejected");
    assert_eq!(outcomes[2].ids.len(), 6);
}

#[test]
fn questions_do_not_change_an_unconstrained_text() {
    let mut e = engine(64);
    scripted(&mut e, &[]);
    scripted(&mut e, &[Act::AskFirst, Act::AskInCheck, Act::AskFirst]);
    let outcomes = run(&mut e, 2);
    assert_eq!(outcomes[0].ids, outcomes[1].ids);
}

#[test]
fn a_sequence_that_waits_for_an_answer_does_not_hold_up_the_others() {
    let mut e = engine(64);
    let waiting = scripted(&mut e, &[Act::AskInCheck]);
    let other = scripted(&mut e, &[]);
    let mut events = Vec::new();
    while e.step(&mut events).expect("runs") == Progress::Ran {}
    let finished: Vec<SeqId> = events
        .iter()
        .filter_map(|e| match e {
            Event::Finished { seq, .. } => Some(*seq),
            _ => None,
        })
        .collect();
    assert_eq!(finished, [other]);
    assert_eq!(e.step(&mut events).expect("runs"), Progress::Waiting);
    e.supply(waiting, &Candidates::unknown(0, "late"), Duration::ZERO);
    events.clear();
    while e.step(&mut events).expect("runs") == Progress::Ran {}
    assert!(matches!(events.last(), Some(Event::Finished { reason: FinishReason::Length, .. })));
}

#[test]
fn a_panic_or_dead_end_in_one_request_ends_that_request_only() {
    let mut e = engine(64);
    scripted(&mut e, &[]);
    scripted(&mut e, &[Act::Only(5), Act::Panic]);
    scripted(&mut e, &[Act::Only(5), Act::Dead]);
    let outcomes = run(&mut e, 3);
    assert_eq!(outcomes[0].ids.len(), 6);
    assert!(matches!(outcomes[1].reason, Some(FinishReason::Failed { .. })));
    assert_eq!(outcomes[1].ids, [5], "what was written before is kept");
    assert!(matches!(outcomes[2].reason, Some(FinishReason::DeadEnd { .. })));
}

/// A prompt that says the same thing several times, so that something can be guessed.
fn repetitive(salt: u32) -> Vec<u32> {
    (0..60).map(|i| 3 + (i % 12 * 7 + salt * 13) % 280).collect()
}

/// The same for the text: it goes on as the prompt does for a while, is free for two tokens, and so on.
fn goes_on(salt: u32) -> Option<Box<dyn Constraint>> {
    let acts: Vec<Act> = (60..)
        .take(40)
        .map(|i| match i % 9 {
            7 | 8 => Act::AskInCheck,
            _ => Act::Only(3 + (i % 12 * 7 + salt * 13) % 280),
        })
        .collect();
    Scripted::boxed(&acts)
}

#[test]
fn speculation_never_changes_a_text_and_saves_passes() {
    let sampled = SamplingParams { temperature: 0.7, seed: Some(3), ..greedy(40) };
    for params in [greedy(40), sampled] {
        let mut all = Vec::new();
        let mut steps = Vec::new();
        for speculate in [false, true] {
            let mut e = engine(64);
            for salt in 0..4 {
                let params = SamplingParams { speculate, ..params.clone() };
                let mut request = Request::new(repetitive(salt), params);
                request.constraint = goes_on(salt);
                e.submit(request).expect("fits");
            }
            all.push(run(&mut e, 4));
            steps.push(e.times());
        }
        assert_eq!(all[0], all[1]);
        assert!(steps[1].n_steps < steps[0].n_steps, "{steps:?}");
        assert!(steps[1].n_draft_taken > 0 && steps[1].n_draft_taken <= steps[1].n_drafted);
        assert_eq!(steps[0].n_drafted, 0);
    }
}

#[test]
fn speculation_stops_where_the_text_must() {
    let full = |speculate| {
        let mut e = engine(8);
        let params = SamplingParams { speculate, ignore_eos: true, ..SamplingParams::greedy() };
        let mut request = Request::new(repetitive(1), params);
        request.constraint = goes_on(1);
        e.submit(request).expect("fits");
        run(&mut e, 1).remove(0)
    };
    assert_eq!(full(true), full(false));
    assert_eq!(full(true).reason, Some(FinishReason::Context));
}

#[test]
fn drafts_and_questions_get_along() {
    let acts = [Act::AskFirst, Act::Only(9), Act::AskInCheck, Act::RejectOnce, Act::AskFirst];
    let texts: Vec<Outcome> = [false, true]
        .into_iter()
        .map(|speculate| {
            let mut e = engine(64);
            let params = SamplingParams { speculate, ..greedy(30) };
            let mut request = Request::new(repetitive(2), params);
            request.constraint = Scripted::boxed(&acts);
            e.submit(request).expect("fits");
            run(&mut e, 1).remove(0)
        })
        .collect();
    assert_eq!(texts[0], texts[1]);
    assert_eq!(texts[0].ids[1], 9);
}

#[test]
fn samples_share_the_prompt_and_each_is_what_it_would_be_alone() {
    let params = |seed, n| SamplingParams { temperature: 1.0, seed: Some(seed), n, ..greedy(20) };
    let mut e = engine(16);
    let all = e.cache_blocks().1;
    let first = e.submit(Request::new(prompt(70, 3), params(11, 4))).expect("fits");
    assert_eq!(first, SeqId(0));
    let mut events = Vec::new();
    while e.cache_blocks().0 == all || events.is_empty() {
        e.step(&mut events).expect("runs");
    }
    // 4 full blocks are shared; each sample has its own half-full one.
    assert_eq!(all - e.cache_blocks().0, 4 + 4);
    let mut outcomes = vec![Outcome::default(); 4];
    for event in events.drain(..) {
        if let Event::Token { seq, id, bytes, .. } = event {
            outcomes[seq.0 as usize].ids.push(id.0);
            outcomes[seq.0 as usize].text.extend(bytes);
        }
    }
    for (before, after) in outcomes.iter_mut().zip(run(&mut e, 4)) {
        before.ids.extend(after.ids);
    }
    for (k, sample) in outcomes.iter().enumerate() {
        let mut alone = engine(16);
        alone.submit(Request::new(prompt(70, 3), params(11 + k as u64, 1))).expect("fits");
        assert_eq!(run(&mut alone, 1)[0].ids, sample.ids, "sample {k}");
    }
    assert_ne!(outcomes[0].ids, outcomes[1].ids);
}

#[test]
fn samples_that_never_began_end_with_their_request() {
    let mut e = engine(64);
    let params = SamplingParams { n: 3, ..greedy(4) };
    let id = e.submit(Request::new(prompt(50, 3), params)).expect("fits");
    let mut events = Vec::new();
    e.step(&mut events).expect("runs"); // 24 rows of 50
    e.cancel(id, &mut events);
    let ended = events.iter().filter(|e| matches!(e, Event::Finished { .. })).count();
    assert_eq!(ended, 3);
    assert_eq!(e.cache_blocks().0, e.cache_blocks().1);
    let too_many = SamplingParams { n: 40, ..greedy(60) };
    let error = engine(16).submit(Request::new(prompt(50, 3), too_many)).expect_err("no room");
    assert!(matches!(error, EngineError::CacheTooSmall { .. }), "{error}");
    let none = SamplingParams { n: 0, ..greedy(4) };
    assert!(e.submit(Request::new(prompt(5, 3), none)).is_err());
}

#[test]
fn log_probabilities_come_with_each_token_before_and_after_the_mask() {
    let mut e = engine(64);
    let params = SamplingParams { logprobs: Some(2), ..greedy(3) };
    let mut request = Request::new(prompt(9, 2), params);
    request.constraint = Scripted::boxed(&[Act::Only(77)]);
    e.submit(request).expect("fits");
    let mut events = Vec::new();
    while e.step(&mut events).expect("runs") == Progress::Ran {}
    let records: Vec<(u32, TokenLogprobs)> = events
        .into_iter()
        .filter_map(|e| match e {
            Event::Token { id, logprobs, .. } => Some((id.0, *logprobs.expect("asked for"))),
            _ => None,
        })
        .collect();
    assert_eq!(records.len(), 3);
    let (id, held) = &records[0];
    assert_eq!(*id, 77);
    assert!(held.log_prob_allowed.abs() < 1e-6, "the only one allowed");
    assert!(held.log_prob < -0.1);
    assert!(held.top.iter().all(|t| t.log_prob_allowed.is_none()));
    let (id, free) = &records[1];
    assert_eq!(free.top[0].id.0, *id, "greedy takes the likeliest");
    assert_eq!(free.top.len(), 2);
    assert_eq!(free.log_prob, free.top[0].log_prob);
}
