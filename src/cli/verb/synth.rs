//! `tether synth`: a model of a real one's shape with random weights.
//!
//! # Place
//! Part of `cli`.

use crate::base::DType;
use crate::cli::Outcome;
use crate::cli::output::message;
use crate::runtime::{SynthShape, write_synthetic};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// The shape.
    #[arg(long, value_enum, default_value_t = Arch::Smollm2)]
    arch: Arch,
    /// The type of the weights.
    #[arg(long, value_enum, default_value_t = Type::Bf16)]
    dtype: Type,
    /// The same seed gives the same file.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The file to write.
    #[arg(long, short, value_name = "FILE.gguf")]
    output: PathBuf,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Arch {
    /// Two small layers.
    Tiny,
    /// SmolLM2-135M.
    Smollm2,
    /// CodeLlama-7B.
    #[value(name = "llama-7b")]
    Llama7b,
    /// Llama-3.1-8B.
    #[value(name = "llama-8b")]
    Llama8b,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum Type {
    F32,
    F16,
    Bf16,
    #[value(name = "q8_0")]
    Q80,
    #[value(name = "q4_0")]
    Q40,
    #[value(name = "q4_1")]
    Q41,
    #[value(name = "q4_k")]
    Q4K,
    #[value(name = "q6_k")]
    Q6K,
}

pub(in crate::cli) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let shape = match args.arch {
        Arch::Tiny => SynthShape::Tiny,
        Arch::Smollm2 => SynthShape::SmolLm2,
        Arch::Llama7b => SynthShape::Llama7b,
        Arch::Llama8b => SynthShape::Llama8b,
    };
    let dtype = match args.dtype {
        Type::F32 => DType::F32,
        Type::F16 => DType::F16,
        Type::Bf16 => DType::BF16,
        Type::Q80 => DType::Q8_0,
        Type::Q40 => DType::Q4_0,
        Type::Q41 => DType::Q4_1,
        Type::Q4K => DType::Q4K,
        Type::Q6K => DType::Q6K,
    };
    write_synthetic(&args.output, shape, dtype, args.seed)?;
    message(&format!("wrote {}", args.output.display()));
    Ok(Outcome::Fine)
}
