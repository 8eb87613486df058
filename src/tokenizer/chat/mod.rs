//! Chat templates: messages to a prompt, in the words the model was trained on.
//!
//! # Place
//! Part of `tokenizer`. A rendered prompt is encoded with [`super::Specials::Parse`] and
//! [`super::AddBos::Never`]: whatever begins the text is in the template.
//! # Invariants
//! A template comes with a model file and is untrusted: it sees nothing but the messages and has
//! bounded steps.
//! # Sources
//! What templates may use: the chat templating page of the transformers documentation (4.5x), as facts.

mod calendar;
mod python_json;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::SystemTime;

use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error, ErrorKind};
use serde::Serialize;

use super::error::{BrokenTemplate, TokenizerError};

/// Steps of the template machine; real templates take a few thousand for a long conversation.
const FUEL: u64 = 2_000_000;

const NAME: &str = "chat";

/// For vocabularies with `<|im_start|>`.
const CHATML: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
/// For vocabularies with `<|start_header_id|>`.
const LLAMA3: &str = "{{ bos_token }}{% for message in messages %}<|start_header_id|>{{ message.role }}<|end_header_id|>\n\n{{ message.content | trim }}<|eot_id|>{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}";

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    /// `system`, `user` or `assistant`.
    pub role: String,
    pub content: String,
}

impl Message {
    /// A turn of that role.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into() }
    }
}

/// Where a template was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateSource {
    /// `tokenizer.chat_template` of a GGUF file.
    Gguf,
    /// `chat_template` of `tokenizer_config.json`.
    TokenizerConfig,
    /// The file `chat_template.jinja`.
    JinjaFile,
    /// None came with the model; its vocabulary has the tokens of ChatML.
    DefaultChatMl,
    /// None came with the model; its vocabulary has the tokens of Llama 3.
    DefaultLlama3,
}

impl TemplateSource {
    /// The words for messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gguf => "tokenizer.chat_template of the GGUF file",
            Self::TokenizerConfig => "chat_template of tokenizer_config.json",
            Self::JinjaFile => "chat_template.jinja",
            Self::DefaultChatMl => "the default for ChatML vocabularies",
            Self::DefaultLlama3 => "the default for Llama 3 vocabularies",
        }
    }
}

/// How a conversation is rendered.
#[derive(Clone, Debug)]
pub struct ChatOptions {
    /// End with the beginning of the assistant's answer.
    pub add_generation_prompt: bool,
    /// What `strftime_now` gives, as UTC.
    pub now: SystemTime,
    /// Further variables that a template may know (`enable_thinking`).
    pub variables: BTreeMap<String, serde_json::Value>,
}

/// A compiled chat template.
#[derive(Clone)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    source: TemplateSource,
    bos: String,
    eos: String,
}

impl ChatTemplate {
    /// Compile a template.
    ///
    /// # Errors
    /// When it is not a valid template.
    pub fn new(template: &str, source: TemplateSource) -> Result<Self, BrokenTemplate> {
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_fuel(Some(FUEL));
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_filter("tojson", tojson);
        environment.add_function("raise_exception", raise_exception);
        environment
            .add_template_owned(NAME, without_generation_tags(template))
            .map_err(|e| BrokenTemplate { origin: source.as_str(), problem: describe(&e) })?;
        Ok(Self { environment, source, bos: String::new(), eos: String::new() })
    }

    /// The template for a vocabulary of a known kind.
    pub(super) fn known(has_token: impl Fn(&str) -> bool) -> Option<Self> {
        let (template, source) = if has_token("<|im_start|>") && has_token("<|im_end|>") {
            (CHATML, TemplateSource::DefaultChatMl)
        } else if has_token("<|start_header_id|>") && has_token("<|eot_id|>") {
            (LLAMA3, TemplateSource::DefaultLlama3)
        } else {
            return None;
        };
        Some(Self::new(template, source).expect("the default templates are constants that compile"))
    }

    /// With the spelling of the tokens that templates may name.
    pub(super) fn with_tokens(mut self, bos: String, eos: String) -> Self {
        self.bos = bos;
        self.eos = eos;
        self
    }

    /// Where the template was found.
    pub fn source(&self) -> TemplateSource {
        self.source
    }

    /// The prompt for a conversation.
    ///
    /// # Errors
    /// When the template refuses the messages (an unknown role, a wrong order) or does not end.
    pub fn render(
        &self,
        messages: &[Message],
        options: &ChatOptions,
    ) -> Result<String, TokenizerError> {
        let now = options.now;
        let strftime = move |format: &str| calendar::strftime(now, format);
        let mut variables: BTreeMap<&str, Value> = options
            .variables
            .iter()
            .map(|(name, value)| (name.as_str(), Value::from_serialize(value)))
            .collect();
        variables.insert("messages", Value::from_serialize(messages));
        variables.insert("add_generation_prompt", options.add_generation_prompt.into());
        variables.insert("bos_token", self.bos.as_str().into());
        variables.insert("eos_token", self.eos.as_str().into());
        variables.insert("strftime_now", Value::from_function(strftime));
        self.environment.get_template(NAME).and_then(|template| template.render(variables)).map_err(
            |e| TokenizerError::Refused { origin: self.source.as_str(), problem: describe(&e) },
        )
    }
}

/// `{% generation %}` marks what a trainer learns from and means nothing here. It becomes a condition
/// that holds, so that the white space rules around it stay.
fn without_generation_tags(template: &str) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let Some(end) = tag.find("%}") else {
            rest = tag;
            break;
        };
        let (tag, after) = tag.split_at(end);
        let word = tag.trim_start_matches("{%").trim_matches(['-', '+', ' ', '\t', '\n']);
        match word {
            "generation" => out.push_str(&tag.replace("generation", "if true")),
            "endgeneration" => out.push_str(&tag.replace("endgeneration", "endif")),
            _ => out.push_str(tag),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

/// Python's `json.dumps(value, ensure_ascii=False, indent=…)`: no HTML escapes, spaces after `:` and `,`.
fn tojson(value: Value, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = options.get("indent")?;
    // Named by some templates; what they ask for is what is done anyway.
    let _: Option<bool> = options.get("ensure_ascii")?;
    options.assert_all_used()?;
    python_json::dumps(&value, indent)
        .map(Value::from_safe_string)
        .map_err(|e| Error::new(ErrorKind::BadSerialization, e.to_string()))
}

/// The reason and the line, without the copy of the template that the error's display adds.
fn describe(error: &Error) -> String {
    let reason = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    match error.line() {
        Some(line) => format!("{reason} (line {line})"),
        None => reason,
    }
}
