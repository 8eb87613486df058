//! Element types by their ggml numbers.
//!
//! # Place
//! Part of the GGUF reader and writer.

use crate::base::DType;

/// The types that are read, as messages list them.
pub(super) const SUPPORTED: &str = "F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q4_K Q5_K Q6_K";

/// ggml's number for each type that is read.
const NUMBERS: [(u32, DType); 11] = [
    (0, DType::F32),
    (1, DType::F16),
    (2, DType::Q4_0),
    (3, DType::Q4_1),
    (6, DType::Q5_0),
    (7, DType::Q5_1),
    (8, DType::Q8_0),
    (12, DType::Q4K),
    (13, DType::Q5K),
    (14, DType::Q6K),
    (30, DType::BF16),
];

/// Names of ggml's other types, so that a refused file is told what it holds.
const OTHERS: [(u32, &str); 24] = [
    (4, "Q4_2 (removed)"),
    (5, "Q4_3 (removed)"),
    (9, "Q8_1"),
    (10, "Q2_K"),
    (11, "Q3_K"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (29, "IQ1_M"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
    (40, "NVFP4"),
];

/// The type of a ggml number, or the name of what it stands for.
pub(super) fn from_number(number: u32) -> Result<DType, String> {
    if let Some(&(_, dtype)) = NUMBERS.iter().find(|(n, _)| *n == number) {
        return Ok(dtype);
    }
    Err(OTHERS
        .iter()
        .find(|(n, _)| *n == number)
        .map_or_else(|| format!("number {number}"), |&(_, name)| name.to_owned()))
}

/// The ggml number of a type.
pub(super) fn number(dtype: DType) -> u32 {
    NUMBERS
        .iter()
        .find(|(_, d)| *d == dtype)
        .map(|&(n, _)| n)
        .expect("every DType has a row in NUMBERS; the writer's test walks them all")
}
