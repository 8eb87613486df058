//! Writing code into a file: a function's body, or whatever goes on at a position.
//!
//! # Place
//! Part of `runtime`. Where the function is comes from `repo`; names come from a
//! [`CandidateSource`]; this module says what the model is shown and which text is kept.
//! # Invariants
//! What is kept is exactly what the model wrote, cut where the body ends: nothing is tidied up.

use super::ask::ToolTimes;
use super::body::{BodyRule, indent_cols};
use super::drive::{Output, Surroundings, Work};
use super::prompt::cut_to_fit;
use super::{Model, RuntimeError};
use crate::augment;
use crate::base::{CandidateSource, Query, TokenId, limit};
use crate::constrain::{Both, Constraint, Lead, Monitor, MonitorLevels, PaperGuide, TriggerGuide};
use crate::engine::{Request, SamplingParams, Selection};
use crate::repo::FunctionInfo;
use crate::tokenizer::{AddBos, ChatOptions, Message, Specials};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

/// The place in a file where text is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub path: PathBuf,
    /// The whole file.
    pub text: String,
    /// Bytes that the new text replaces; empty at a mere position.
    pub range: std::ops::Range<usize>,
    /// White space that every line of the new text begins with.
    pub indent: String,
    /// What is put before the text that the model writes: its first indentation, and a line end when
    /// the place is not at the start of a line. Empty at a mere position.
    pub lead: String,
    /// The function's header and the first sentence of its documentation, as fine-tuning data shows them;
    /// none without documentation, and none at a mere position.
    pub example: Option<String>,
}

impl Target {
    /// The body of a function; its docstring stays.
    pub fn body(function: &FunctionInfo, text: &str) -> Self {
        let at_line_start = text[..function.body.start].ends_with(['\n', '\r']);
        let line_end = if at_line_start { "" } else { "\n" };
        Self {
            path: function.path.to_path_buf(),
            text: text.to_owned(),
            range: function.body.clone(),
            indent: function.indent.clone(),
            lead: format!("{line_end}{}", function.indent),
            example: augment::prompt(text, function),
        }
    }

    /// A byte offset, from which the text goes on to the end of the block around it.
    pub fn position(path: PathBuf, text: &str, offset: usize) -> Self {
        let line_start = text[..offset].rfind(['\n', '\r']).map_or(0, |n| n + 1);
        let line = &text[line_start..offset];
        let indent = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
        Self {
            path,
            text: text.to_owned(),
            range: offset..offset,
            indent: indent.to_owned(),
            lead: String::new(),
            example: None,
        }
    }
}

impl Target {
    /// What of the lead is given, and what the model must write: the last byte of the first
    /// indentation is left to it, so that it can choose a token that spans it and the code after it,
    /// as in the text it was trained on.
    ///
    /// Fine-tuning data cuts tokens before the first indentation, so there all of it is left.
    fn split_lead(&self, style: PromptStyle) -> (&str, &str) {
        let n_left = if style == PromptStyle::ToolGen { self.lead.len() } else { 1 };
        self.lead.split_at(self.lead.len().saturating_sub(n_left))
    }

    /// The file with what was written.
    fn completed(&self, output: Output, style: PromptStyle, is_cut: bool) -> Completion {
        let (given, _) = self.split_lead(style);
        let after = &self.text[self.range.end..];
        let written = output.text.trim_end_matches(['\n', '\r', ' ', '\t']);
        let mut body = format!("{given}{written}");
        if !self.lead.is_empty() && !after.starts_with(['\n', '\r']) {
            body.push('\n');
        }
        if self.text.contains("\r\n") {
            body = body.replace("\r\n", "\n").replace('\n', "\r\n");
        }
        let start = self.range.start;
        let file = format!("{}{body}{after}", &self.text[..start]);
        Completion { range: start..start + body.len(), body, file, is_cut, output }
    }
}

/// How the model is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptStyle {
    /// As an assistant that has begun to answer with the file, when the model has a chat template;
    /// otherwise the file alone.
    Auto,
    /// The file alone.
    Plain,
    /// As an assistant; an error when there is no chat template.
    Chat,
    /// The function's header and the first sentence of its documentation, and nothing else: as models are
    /// fine-tuned by `tether augment`.
    ToolGen,
}

impl PromptStyle {
    /// By the spelling that options and manifests use.
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Self::Auto),
            "plain" => Some(Self::Plain),
            "chat" => Some(Self::Chat),
            "toolgen" => Some(Self::ToolGen),
            _ => None,
        }
    }
}

/// What guides the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GuideMode {
    Off,
    /// Ask the tool at the places where a name begins.
    Monitor(MonitorLevels),
    /// Ask where the model emits this token, and hold it to the answer.
    Trigger(TokenId),
    /// Ask where the model emits this token, and follow ToolGen's published rule: the tool is asked when
    /// the trigger was at least this likely.
    Paper {
        trigger: TokenId,
        confidence: f64,
    },
}

/// How to complete.
#[derive(Clone, Debug)]
pub struct CompleteConfig {
    pub guide: GuideMode,
    pub style: PromptStyle,
    pub params: SamplingParams,
    /// How a constrained name is chosen.
    pub selection: Selection,
    /// Record how likely the chosen names were.
    pub explain: bool,
    /// Deadlines of the completion tool.
    pub times: ToolTimes,
    /// Most tokens of the file that are shown.
    pub prompt_tokens_max: usize,
}

impl CompleteConfig {
    /// The usual settings for a guide.
    pub fn new(guide: GuideMode, params: SamplingParams) -> Self {
        Self {
            guide,
            style: PromptStyle::Auto,
            params,
            selection: Selection::Greedy,
            explain: false,
            times: ToolTimes::default(),
            prompt_tokens_max: 2048,
        }
    }
}

/// A finished completion.
#[derive(Clone, Debug)]
pub struct Completion {
    /// What was written, its first indentation included.
    pub body: String,
    /// The whole file with the body in place.
    pub file: String,
    /// Where the body is in that file.
    pub range: std::ops::Range<usize>,
    /// The file was too long to be shown whole.
    pub is_cut: bool,
    pub output: Output,
}

impl Model {
    /// Write at a target. With several samples: the first of them.
    ///
    /// # Errors
    /// Prompts that do not fit, parameters out of range, a chat template that is asked for and missing,
    /// a vocabulary that cannot be constrained, a lost device.
    pub fn complete(
        &mut self,
        target: &Target,
        config: &CompleteConfig,
        tool: &mut dyn CandidateSource,
    ) -> Result<Completion, RuntimeError> {
        let all = self.complete_all(std::slice::from_ref(target), config, tool)?;
        all.into_iter().next().ok_or(RuntimeError::Stalled)
    }

    /// Write at several targets at once, as many samples at each as the parameters say; completions in
    /// the order of the targets.
    ///
    /// # Errors
    /// As [`Model::complete`]; nothing is written then.
    pub fn complete_all(
        &mut self,
        targets: &[Target],
        config: &CompleteConfig,
        tool: &mut dyn CandidateSource,
    ) -> Result<Vec<Completion>, RuntimeError> {
        let mut works = Vec::with_capacity(targets.len());
        let mut cuts = Vec::with_capacity(targets.len());
        for target in targets {
            if config.guide != GuideMode::Off {
                warm_up(tool, target);
            }
            let (work, is_cut) = self.work(target, config)?;
            works.push(work);
            cuts.push(is_cut);
        }
        let outputs = self.run(works, Some(tool), &mut |_, _| {})?;
        let n = config.params.n;
        let placed = outputs.into_iter().enumerate();
        Ok(placed
            .map(|(i, output)| targets[i / n].completed(output, config.style, cuts[i / n]))
            .collect())
    }

    /// The tokens that the model is shown for a target.
    ///
    /// # Errors
    /// As [`Model::complete`].
    pub fn prompt(
        &self,
        target: &Target,
        config: &CompleteConfig,
    ) -> Result<Vec<u32>, RuntimeError> {
        let (given, _) = target.split_lead(config.style);
        let before = format!("{}{given}", &target.text[..target.range.start]);
        Ok(self.prompt_ids(target, &before, config)?.0)
    }

    /// The request that writes at a target, and whether the top of the file was left out.
    fn work(&self, target: &Target, config: &CompleteConfig) -> Result<(Work, bool), RuntimeError> {
        let (given, healed) = target.split_lead(config.style);
        let before = format!("{}{given}", &target.text[..target.range.start]);
        let (prompt, is_cut) = self.prompt_ids(target, &before, config)?;
        let mut parts: Vec<Box<dyn Constraint>> = Vec::new();
        if !target.lead.is_empty() {
            let lead = Lead::new(self.vocabulary(), healed);
            parts.push(Box::new(match config.guide {
                GuideMode::Trigger(trigger) | GuideMode::Paper { trigger, .. } => {
                    lead.or_trigger(trigger)
                }
                GuideMode::Off | GuideMode::Monitor(_) => lead,
            }));
        }
        parts.extend(self.guide(config.guide, before.as_bytes())?);
        let constraint = parts
            .into_iter()
            .reduce(|first, second| Box::new(Both::new(first, second)) as Box<dyn Constraint>);
        let rule = BodyRule::new(before.as_bytes(), indent_cols(&target.indent));
        let request = Request {
            prompt,
            params: config.params.clone(),
            constraint,
            stop_rule: Some(Box::new(rule)),
            selection: config.selection,
            explain: config.explain,
            adapter: self.current_adapter(),
        };
        let after = target.text[target.range.end..].to_owned();
        let surroundings = Surroundings { path: target.path.clone(), before, after };
        let work = Work { request, surroundings: Some(surroundings), times: config.times };
        Ok((work, is_cut))
    }

    /// The guide of a text that begins with `prefix`.
    fn guide(
        &self,
        mode: GuideMode,
        prefix: &[u8],
    ) -> Result<Option<Box<dyn Constraint>>, RuntimeError> {
        Ok(match mode {
            GuideMode::Off => None,
            GuideMode::Monitor(levels) => {
                Some(Box::new(Monitor::new(self.name_store()?, levels, prefix)))
            }
            GuideMode::Trigger(trigger) => {
                Some(Box::new(TriggerGuide::new(self.name_store()?, trigger, prefix)))
            }
            GuideMode::Paper { trigger, confidence } => {
                let config = self.paper_config(trigger, confidence);
                Some(Box::new(PaperGuide::new(config, prefix.len())))
            }
        })
    }

    /// The tokens that the model is shown, and whether something was left out.
    fn prompt_ids(
        &self,
        target: &Target,
        before: &str,
        config: &CompleteConfig,
    ) -> Result<(Vec<u32>, bool), RuntimeError> {
        if config.style != PromptStyle::ToolGen {
            return self.file_prompt(before, config);
        }
        let example = target.example.as_ref().ok_or(RuntimeError::NoExamplePrompt)?;
        let ids = self.tokenizer().encode(example, Specials::AsText, AddBos::Auto)?;
        Ok((ids.into_iter().map(|id| id.0).collect(), false))
    }

    /// The tokens that show the file up to the cursor, and whether its top was left out.
    fn file_prompt(
        &self,
        before: &str,
        config: &CompleteConfig,
    ) -> Result<(Vec<u32>, bool), RuntimeError> {
        let lead = self.chat_lead(config.style)?;
        let room = self
            .config()
            .context
            .saturating_sub(config.params.max_tokens.unwrap_or(1))
            .saturating_sub(lead.len());
        let budget = room.min(config.prompt_tokens_max);
        let bos = if lead.is_empty() { AddBos::Auto } else { AddBos::Never };
        let encode = |text: &str| self.tokenizer().encode(text, Specials::AsText, bos);
        let mut ids = encode(before)?;
        let is_cut = ids.len() > budget;
        if is_cut {
            let mut failed = None;
            let kept = cut_to_fit(before, |text| match encode(text) {
                Ok(ids) => ids.len() <= budget,
                Err(error) => {
                    failed = Some(error);
                    true
                }
            });
            if let Some(error) = failed {
                return Err(error.into());
            }
            ids = encode(&kept)?;
        }
        let ids = lead.into_iter().chain(ids.into_iter().map(|id| id.0)).collect();
        Ok((ids, is_cut))
    }

    /// The tokens before the file: a request, and the beginning of an answer that quotes code.
    fn chat_lead(&self, style: PromptStyle) -> Result<Vec<u32>, RuntimeError> {
        let template = match (style, self.tokenizer().chat_template()) {
            (PromptStyle::Plain | PromptStyle::ToolGen, _) | (PromptStyle::Auto, Err(_)) => {
                return Ok(Vec::new());
            }
            (PromptStyle::Chat, Err(error)) => return Err(error.into()),
            (PromptStyle::Auto | PromptStyle::Chat, Ok(template)) => template,
        };
        const REQUEST: &str =
            "Complete the last function of this Python file. Answer with the code only.";
        let options = ChatOptions {
            add_generation_prompt: true,
            now: SystemTime::now(),
            variables: BTreeMap::new(),
        };
        let mut text = template.render(&[Message::new("user", REQUEST)], &options)?;
        text.push_str("```python\n");
        let ids = self.tokenizer().encode(&text, Specials::Parse, AddBos::Never)?;
        Ok(ids.into_iter().map(|id| id.0).collect())
    }
}

/// Ask about `self` where the text will begin, before the model runs: the first question analyses what
/// the function's class is made of, which would otherwise hold up the first name.
fn warm_up(tool: &mut dyn CandidateSource, target: &Target) {
    let before = format!("{}{}self.", &target.text[..target.range.start], target.lead);
    let text = format!("{before}{}", &target.text[target.range.end..]);
    let deadline = Instant::now() + Duration::from_millis(limit::TOOL_CALL_MS_MAX);
    let query = Query { path: &target.path, text: &text, offset: before.len(), deadline };
    // Only its traces in the tool's caches matter.
    let _ = tool.candidates(&query);
}
