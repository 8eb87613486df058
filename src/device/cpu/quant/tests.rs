//! Block formats against vectors made by another implementation, and against blocks made by hand.
//!
//! # Place
//! Tests of `device::cpu::quant`.

use std::path::PathBuf;

use super::{dequantise, quantise, unpack32};
use crate::base::DType;

const BLOCK_TYPES: [DType; 8] = [
    DType::Q8_0,
    DType::Q4_0,
    DType::Q4_1,
    DType::Q5_0,
    DType::Q5_1,
    DType::Q4K,
    DType::Q5K,
    DType::Q6K,
];

/// Largest distance of a weight from its block, in steps of the block's scale: half a step of
/// rounding, plus what clamping at the end of the code range costs (`_0` types), plus f16 scales;
/// the K types round their scales to 6 or 8 bits as well.
fn steps_max(dtype: DType) -> f32 {
    match dtype {
        DType::Q8_0 | DType::Q4_1 | DType::Q5_1 => 0.6,
        DType::Q4_0 | DType::Q5_0 => 1.1,
        _ => 1.5,
    }
}

#[track_caller]
fn check_rounding(dtype: DType, values: &[f32], blocks: &[u8]) {
    let out = dequantise(dtype, blocks);
    assert_eq!(out.len(), values.len(), "{dtype}");
    for (i, (a, b)) in values.iter().zip(&out).enumerate() {
        let columns = unpack32(dtype, blocks, i / 32);
        let step = columns.d[i % 32 / 16].abs();
        let off = (a - b).abs();
        assert!(
            off <= step * steps_max(dtype) + 1e-6,
            "{dtype}[{i}]: {a} became {b}, {off} away with steps of {step}"
        );
    }
}

#[test]
fn shared_vectors_dequantise_within_the_formats_own_rounding() {
    let shared = std::env::var_os("TETHER_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let folder = shared.join("data/quants");
    if !folder.is_dir() {
        println!("skipped: {} is not there", folder.display());
        return;
    }
    for dtype in BLOCK_TYPES {
        let n = if dtype.block_len() == 32 { 64 } else { 512 };
        let name = dtype.name().to_lowercase();
        let input = std::fs::read(folder.join(format!("{name}_{n}_noim_input.bin"))).unwrap();
        let blocks = std::fs::read(folder.join(format!("{name}_{n}_noim_expected.bin"))).unwrap();
        let values = dequantise(DType::F32, &input);
        check_rounding(dtype, &values, &blocks);
        if let Some(own) = quantise(dtype, &values) {
            check_rounding(dtype, &values, &own);
        }
    }
}

#[test]
fn blocks_made_by_hand_have_the_documented_values() {
    // d = 0.5 (f16 0x3800), m = -2.0 (f16 0xC000).
    let half = [0x00, 0x38];
    let minus_two = [0x00, 0xC0];

    let mut q8 = half.to_vec();
    q8.extend((0..32).map(|i| (i * 8 - 128i32) as u8));
    let out = dequantise(DType::Q8_0, &q8);
    assert_eq!(out[..3], [-64.0, -60.0, -56.0]);
    assert_eq!(out[31], 60.0);

    let nibbles: Vec<u8> = (0..16).map(|i| i | (15 - i) << 4).collect();
    let q4_0 = [&half[..], &nibbles].concat();
    let out = dequantise(DType::Q4_0, &q4_0);
    assert_eq!((out[0], out[15], out[16], out[31]), (-4.0, 3.5, 3.5, -4.0));

    let q4_1 = [&half[..], &minus_two, &nibbles].concat();
    let out = dequantise(DType::Q4_1, &q4_1);
    assert_eq!((out[0], out[15], out[16], out[31]), (-2.0, 5.5, 5.5, -2.0));

    let high = 0x8000_0001u32.to_le_bytes();
    let q5_0 = [&half[..], &high, &nibbles].concat();
    let out = dequantise(DType::Q5_0, &q5_0);
    assert_eq!((out[0], out[1], out[31]), (0.0, -7.5, 0.0));

    let q5_1 = [&half[..], &minus_two, &high, &nibbles].concat();
    let out = dequantise(DType::Q5_1, &q5_1);
    assert_eq!((out[0], out[1], out[31]), (6.0, -1.5, 6.0));
}

#[test]
fn k_blocks_made_by_hand_have_the_documented_values() {
    let one = [0x00, 0x3C];
    let half = [0x00, 0x38];
    // Sub-block 0: scale 3, minimum 5. Sub-block 5: scale 0x21 = 33, minimum 0x12 = 18, whose high
    // bit pairs hide in the top of entries 1 and 5.
    let mut scales = [0u8; 12];
    scales[0] = 3;
    scales[4] = 5;
    scales[9] = 0x21;
    scales[1] = 2 << 6;
    scales[5] = 1 << 6;
    let mut low = [0u8; 128];
    low[0] = 7;
    low[64 + 9] = 0xB0; // columns 160 + 9 (sub-block 5) = 11
    let q4 = [&one[..], &half, &scales, &low].concat();
    let out = dequantise(DType::Q4K, &q4);
    assert_eq!((out[0], out[1]), (3.0 * 7.0 - 2.5, -2.5));
    assert_eq!(out[169], 33.0 * 11.0 - 9.0);

    let mut high = [0u8; 32];
    high[0] = 1;
    high[9] = 1 << 5;
    let q5 = [&one[..], &half, &scales, &high, &low].concat();
    let out = dequantise(DType::Q5K, &q5);
    assert_eq!((out[0], out[1]), (3.0 * 23.0 - 2.5, -2.5));
    assert_eq!(out[169], 33.0 * 27.0 - 9.0);

    let mut low = [0u8; 128];
    let mut high = [0u8; 64];
    let mut scales = [1u8; 16];
    low[64 + 40] = 0xA0; // second half, columns 128 + 96 + 8: low bits 10
    high[32 + 8] = 2 << 6; // and high bits 2
    scales[14] = -3i8 as u8;
    let q6 = [&low[..], &high, &scales, &half].concat();
    let out = dequantise(DType::Q6K, &q6);
    assert_eq!(out[232], 0.5 * -3.0 * (42.0 - 32.0));
    assert_eq!(out[0], 0.5 * -32.0);
}

#[test]
fn zeros_denormals_and_outliers_are_quantised_within_a_step() {
    let mut outlier: Vec<f32> = (0..64).map(|i| (i as f32 * 0.7).sin()).collect();
    outlier[5] = 20.0;
    outlier[40] = -20.0;
    for values in [vec![0.0; 32], vec![1e-40; 32], vec![3.25; 32], outlier] {
        for dtype in [DType::Q8_0, DType::Q4_0, DType::Q4_1] {
            let blocks = quantise(dtype, &values).unwrap();
            check_rounding(dtype, &values, &blocks);
        }
    }
    assert_eq!(quantise(DType::Q8_0, &[1.0; 31]), None);
    assert_eq!(quantise(DType::Q6K, &[1.0; 256]), None);
}
