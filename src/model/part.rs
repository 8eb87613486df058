//! The parts of a model, and how files spell their tensors.
//!
//! # Place
//! Part of `model`; used by `weights` and by adapters.

use crate::format::Tensors;

/// How a file spells tensor names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Naming {
    Gguf,
    HuggingFace,
}

impl Naming {
    /// How these tensors are named.
    pub(super) fn of(tensors: &dyn Tensors) -> Self {
        match tensors.tensor("token_embd.weight") {
            Some(_) => Self::Gguf,
            None => Self::HuggingFace,
        }
    }
}

/// A tensor's part in the model. Layer parts are spelled with their layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Part {
    Embedding,
    Head,
    OutputNorm,
    RopeDivisors,
    AttentionNorm,
    Query,
    Key,
    Value,
    Output,
    QueryNorm,
    KeyNorm,
    FeedForwardNorm,
    Gate,
    Up,
    Down,
}

impl Part {
    pub(super) const fn stem(self, naming: Naming) -> &'static str {
        match (naming, self) {
            (Naming::Gguf, Self::Embedding) => "token_embd",
            (Naming::Gguf, Self::Head) => "output",
            (Naming::Gguf, Self::OutputNorm) => "output_norm",
            (Naming::Gguf | Naming::HuggingFace, Self::RopeDivisors) => "rope_freqs",
            (Naming::Gguf, Self::AttentionNorm) => "attn_norm",
            (Naming::Gguf, Self::Query) => "attn_q",
            (Naming::Gguf, Self::Key) => "attn_k",
            (Naming::Gguf, Self::Value) => "attn_v",
            (Naming::Gguf, Self::Output) => "attn_output",
            (Naming::Gguf, Self::QueryNorm) => "attn_q_norm",
            (Naming::Gguf, Self::KeyNorm) => "attn_k_norm",
            (Naming::Gguf, Self::FeedForwardNorm) => "ffn_norm",
            (Naming::Gguf, Self::Gate) => "ffn_gate",
            (Naming::Gguf, Self::Up) => "ffn_up",
            (Naming::Gguf, Self::Down) => "ffn_down",
            (Naming::HuggingFace, Self::Embedding) => "model.embed_tokens",
            (Naming::HuggingFace, Self::Head) => "lm_head",
            (Naming::HuggingFace, Self::OutputNorm) => "model.norm",
            (Naming::HuggingFace, Self::AttentionNorm) => "input_layernorm",
            (Naming::HuggingFace, Self::Query) => "self_attn.q_proj",
            (Naming::HuggingFace, Self::Key) => "self_attn.k_proj",
            (Naming::HuggingFace, Self::Value) => "self_attn.v_proj",
            (Naming::HuggingFace, Self::Output) => "self_attn.o_proj",
            (Naming::HuggingFace, Self::QueryNorm) => "self_attn.q_norm",
            (Naming::HuggingFace, Self::KeyNorm) => "self_attn.k_norm",
            (Naming::HuggingFace, Self::FeedForwardNorm) => "post_attention_layernorm",
            (Naming::HuggingFace, Self::Gate) => "mlp.gate_proj",
            (Naming::HuggingFace, Self::Up) => "mlp.up_proj",
            (Naming::HuggingFace, Self::Down) => "mlp.down_proj",
        }
    }

    /// Every part.
    pub(super) const ALL: [Self; 15] = [
        Self::Embedding,
        Self::Head,
        Self::OutputNorm,
        Self::RopeDivisors,
        Self::AttentionNorm,
        Self::Query,
        Self::Key,
        Self::Value,
        Self::Output,
        Self::QueryNorm,
        Self::KeyNorm,
        Self::FeedForwardNorm,
        Self::Gate,
        Self::Up,
        Self::Down,
    ];

    /// Parts of a layer that are products, in the order of their execution.
    pub(super) const PRODUCTS: [Self; 7] =
        [Self::Query, Self::Key, Self::Value, Self::Output, Self::Gate, Self::Up, Self::Down];

    /// Whether each layer has one.
    pub(super) const fn is_of_layer(self) -> bool {
        !matches!(self, Self::Embedding | Self::Head | Self::OutputNorm | Self::RopeDivisors)
    }

    /// The part that a module's name (a tensor's name without `.weight`) means, and its layer.
    pub(super) fn find(naming: Naming, module: &str) -> Option<(Self, Option<usize>)> {
        let prefix = match naming {
            Naming::Gguf => "blk.",
            Naming::HuggingFace => "model.layers.",
        };
        let (layer, stem) = match module.strip_prefix(prefix).and_then(|m| m.split_once('.')) {
            Some((layer, stem)) => (Some(layer.parse().ok()?), stem),
            None => (None, module),
        };
        let is_it =
            |part: &Self| part.stem(naming) == stem && part.is_of_layer() == layer.is_some();
        Self::ALL.into_iter().find(is_it).map(|part| (part, layer))
    }

    /// The name of the module.
    pub(super) fn module(self, naming: Naming, layer: Option<usize>) -> String {
        let name = self.name(naming, layer, "");
        name.trim_end_matches('.').to_owned()
    }

    pub(super) fn name(self, naming: Naming, layer: Option<usize>, suffix: &str) -> String {
        let stem = self.stem(naming);
        match (layer, naming) {
            (None, _) => format!("{stem}.{suffix}"),
            (Some(i), Naming::Gguf) => format!("blk.{i}.{stem}.{suffix}"),
            (Some(i), Naming::HuggingFace) => format!("model.layers.{i}.{stem}.{suffix}"),
        }
    }
}
