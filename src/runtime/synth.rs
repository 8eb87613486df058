//! Synthetic models: the shape of a real one, random weights, and a vocabulary of bytes.
//!
//! # Place
//! Part of `runtime`. For measuring and for comparing devices where no real model can be had; what they write
//! means nothing.

use super::RuntimeError;
use crate::base::DType;
use crate::device::cpu::quant::{RandomBits, random_weights};
use crate::format::{MetaValue, stream_gguf};
use std::io::BufWriter;
use std::path::Path;

/// A shape that a synthetic model can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SynthShape {
    /// Small enough for the emulator.
    Tiny,
    /// SmolLM2-135M.
    SmolLm2,
    /// CodeLlama-7B.
    Llama7b,
    /// Llama-3.1-8B: grouped queries, a large vocabulary.
    Llama8b,
}

/// Letters as in [`crate::device`].
struct Sizes {
    layers: usize,
    hidden: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    ff: usize,
    vocab: usize,
    context: usize,
    is_tied: bool,
}

impl SynthShape {
    fn sizes(self) -> Sizes {
        let (layers, hidden, heads, kv_heads, head_dim, ff, vocab, context, is_tied) = match self {
            Self::Tiny => (2, 256, 4, 2, 64, 512, 512, 1024, false),
            Self::SmolLm2 => (30, 576, 9, 3, 64, 1536, 49_152, 16_384, true),
            Self::Llama7b => (32, 4096, 32, 32, 128, 11_008, 32_016, 16_384, false),
            Self::Llama8b => (32, 4096, 32, 8, 128, 14_336, 128_256, 16_384, false),
        };
        Sizes { layers, hidden, heads, kv_heads, head_dim, ff, vocab, context, is_tied }
    }
}

/// Write a synthetic model as a GGUF file.
///
/// # Errors
/// A type whose blocks do not divide the shape's rows; a file that cannot be written.
pub fn write_synthetic(
    path: &Path,
    shape: SynthShape,
    dtype: DType,
    seed: u64,
) -> Result<(), RuntimeError> {
    let sizes = shape.sizes();
    let tensors = tensors(&sizes, dtype);
    if let Some((name, ..)) = tensors
        .iter()
        .find(|(_, dtype, shape)| !shape[shape.len() - 1].is_multiple_of(dtype.block_len()))
    {
        let problem = format!(
            "{dtype} has blocks of {}, which the rows of {name} are not made of",
            dtype.block_len()
        );
        return Err(RuntimeError::BadFile { path: path.to_owned(), problem });
    }
    let bad = |e: std::io::Error| RuntimeError::BadFile {
        path: path.to_owned(),
        problem: format!("cannot be written: {e}"),
    };
    let mut file = BufWriter::with_capacity(1 << 20, std::fs::File::create(path).map_err(bad)?);
    let mut random = RandomBits::new(seed);
    let infos: Vec<(&str, DType, &[usize])> = tensors
        .iter()
        .map(|(name, dtype, shape)| (name.as_str(), *dtype, shape.as_slice()))
        .collect();
    let mut fill = |i: usize, data: &mut Vec<u8>| {
        let (name, dtype, shape) = &tensors[i];
        let n_elements = shape.iter().product();
        if shape.len() == 1 {
            data.extend(std::iter::repeat_n(1f32.to_le_bytes(), n_elements).flatten());
        } else {
            // Sums of the columns then stay about as large as their terms.
            let size =
                if name == "token_embd.weight" { 1.0 } else { (3.0 / shape[1] as f32).sqrt() };
            random_weights(*dtype, n_elements, size, &mut random, data);
        }
    };
    stream_gguf(&mut file, &metadata(&sizes), &infos, &mut fill).map_err(bad)
}

type Tensor = (String, DType, Vec<usize>);

fn tensors(s: &Sizes, dtype: DType) -> Vec<Tensor> {
    let (q, kv) = (s.heads * s.head_dim, s.kv_heads * s.head_dim);
    let matrix = |name: String, rows: usize, cols: usize| (name, dtype, vec![rows, cols]);
    let norm = |name: String| (name, DType::F32, vec![s.hidden]);
    let mut list = vec![
        matrix("token_embd.weight".to_owned(), s.vocab, s.hidden),
        norm("output_norm.weight".to_owned()),
    ];
    if !s.is_tied {
        list.push(matrix("output.weight".to_owned(), s.vocab, s.hidden));
    }
    for i in 0..s.layers {
        let name = |part: &str| format!("blk.{i}.{part}.weight");
        list.extend([
            norm(name("attn_norm")),
            matrix(name("attn_q"), q, s.hidden),
            matrix(name("attn_k"), kv, s.hidden),
            matrix(name("attn_v"), kv, s.hidden),
            matrix(name("attn_output"), s.hidden, q),
            norm(name("ffn_norm")),
            matrix(name("ffn_gate"), s.ff, s.hidden),
            matrix(name("ffn_up"), s.ff, s.hidden),
            matrix(name("ffn_down"), s.hidden, s.ff),
        ]);
    }
    list
}

fn metadata(s: &Sizes) -> Vec<(&'static str, MetaValue)> {
    let size = |n: usize| MetaValue::U32(n as u32);
    // Unknown, begin and end of text, the bytes, and names of numbers up to the size of the vocabulary.
    let mut tokens = vec!["<unk>".to_owned(), "<s>".to_owned(), "</s>".to_owned()];
    tokens.extend((0..256).map(|byte| format!("<0x{byte:02X}>")));
    let n_fixed = tokens.len();
    tokens.extend((n_fixed..s.vocab).map(|i| format!("x{i}")));
    let kinds = (0..s.vocab).map(|i| match i {
        0 => 2,
        1 | 2 => 3,
        i if i < n_fixed => 6,
        _ => 1,
    });
    let scores = (0..s.vocab).map(|i| -(i as f32));
    vec![
        ("general.architecture", MetaValue::Str("llama".to_owned())),
        ("general.name", MetaValue::Str("synthetic".to_owned())),
        ("llama.block_count", size(s.layers)),
        ("llama.context_length", size(s.context)),
        ("llama.embedding_length", size(s.hidden)),
        ("llama.feed_forward_length", size(s.ff)),
        ("llama.attention.head_count", size(s.heads)),
        ("llama.attention.head_count_kv", size(s.kv_heads)),
        ("llama.attention.key_length", size(s.head_dim)),
        ("llama.attention.value_length", size(s.head_dim)),
        ("llama.rope.dimension_count", size(s.head_dim)),
        ("llama.attention.layer_norm_rms_epsilon", MetaValue::F32(1e-5)),
        ("tokenizer.ggml.model", MetaValue::Str("llama".to_owned())),
        ("tokenizer.ggml.scores", MetaValue::F32s(scores.collect())),
        ("tokenizer.ggml.token_type", MetaValue::I32s(kinds.collect())),
        ("tokenizer.ggml.tokens", MetaValue::Strings(tokens)),
        ("tokenizer.ggml.bos_token_id", MetaValue::U32(1)),
        ("tokenizer.ggml.eos_token_id", MetaValue::U32(2)),
        ("tokenizer.ggml.unknown_token_id", MetaValue::U32(0)),
    ]
}
