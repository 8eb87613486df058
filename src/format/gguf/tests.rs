//! Tests of the GGUF reader and writer: round trips, every kind of damage, random damage.
//!
//! # Place
//! Part of `format`.

use std::path::Path;
use std::time::{Duration, Instant};

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::super::{FileMap, FormatError, FormatProblem, TensorView, Tensors};
use super::*;
use crate::base::DType;

fn tiny() -> Vec<u8> {
    let f32s: Vec<u8> = (0..6).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let q8: Vec<u8> = (0..2 * 34).collect();
    write_gguf(
        &[
            ("general.architecture", MetaValue::Str("llama".to_owned())),
            ("llama.block_count", MetaValue::U32(3)),
            ("a.negative", MetaValue::I32(-7)),
            ("a.big", MetaValue::U64(1 << 40)),
            ("a.float", MetaValue::F32(0.5)),
            ("a.bool", MetaValue::Bool(true)),
            ("a.strings", MetaValue::Strings(vec!["x".to_owned(), "é".to_owned()])),
            ("a.ints", MetaValue::I32s(vec![1, -1])),
            ("a.floats", MetaValue::F32s(vec![1.5, -2.0])),
        ],
        &[
            ("plain", TensorView { dtype: DType::F32, shape: &[2, 3], data: &f32s }),
            ("quantised", TensorView { dtype: DType::Q8_0, shape: &[2, 32], data: &q8 }),
        ],
    )
}

fn open(bytes: Vec<u8>) -> Result<GgufFile, FormatError> {
    GgufFile::from_map(Path::new("m.gguf"), FileMap::from_vec(bytes))
}

/// The message of the error that `bytes` must give.
#[track_caller]
fn check(bytes: Vec<u8>, expect: Expect) {
    let error = open(bytes).err().expect("must be refused");
    expect.assert_eq(&error.to_string());
}

/// `tiny` with the little-endian bytes of `new` written where the bytes of `old` first are.
fn patched(old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut bytes = tiny();
    let at = bytes.windows(old.len()).position(|w| w == old).expect("old is in the file");
    bytes[at..at + new.len()].copy_from_slice(new);
    bytes
}

/// `tiny` with some bytes after the text `name` replaced.
fn patched_after(name: &str, skip: usize, new: &[u8]) -> Vec<u8> {
    let mut bytes = tiny();
    let at =
        bytes.windows(name.len()).position(|w| w == name.as_bytes()).expect("name is in the file")
            + name.len()
            + skip;
    bytes[at..at + new.len()].copy_from_slice(new);
    bytes
}

#[test]
fn what_is_written_is_read_with_dimensions_turned_around() {
    let file = open(tiny()).unwrap();
    let meta = file.metadata();
    assert_eq!(meta.str("general.architecture").unwrap(), Some("llama"));
    assert_eq!(meta.u64("llama.block_count").unwrap(), Some(3));
    assert_eq!(meta.i64("a.negative").unwrap(), Some(-7));
    assert_eq!(meta.u64("a.big").unwrap(), Some(1 << 40));
    assert_eq!(meta.f32("a.float").unwrap(), Some(0.5));
    assert_eq!(meta.bool("a.bool").unwrap(), Some(true));
    assert_eq!(meta.strings("a.strings").unwrap(), Some(vec!["x", "é"]));
    assert_eq!(meta.i64s("a.ints").unwrap(), Some(vec![1, -1]));
    assert_eq!(meta.f32s("a.floats").unwrap(), Some(vec![1.5, -2.0]));
    assert_eq!(meta.str("absent").unwrap(), None);
    assert_eq!(file.names(), ["plain", "quantised"]);
    let plain = file.tensor("plain").unwrap();
    assert_eq!((plain.dtype, plain.shape), (DType::F32, &[2, 3][..]));
    assert_eq!(plain.data[4..8], 1.0_f32.to_le_bytes());
    let quantised = file.tensor("quantised").unwrap();
    assert_eq!((quantised.dtype, quantised.shape), (DType::Q8_0, &[2, 32][..]));
    assert!(quantised.data.iter().copied().eq(0..2 * 34));
    assert!(file.tensor("absent").is_none());
}

#[test]
fn a_copy_made_of_stored_values_is_the_same_file() {
    let file = open(tiny()).unwrap();
    let meta: Vec<(&str, MetaValue)> =
        file.metadata().keys().map(|key| (key, file.metadata().to_value(key).unwrap())).collect();
    let tensors: Vec<_> =
        file.names().into_iter().map(|name| (name, file.tensor(name).unwrap())).collect();
    assert_eq!(write_gguf(&meta, &tensors), tiny());
}

#[test]
fn every_element_type_can_be_written_and_read() {
    for dtype in [
        DType::F32,
        DType::F16,
        DType::BF16,
        DType::Q8_0,
        DType::Q4_0,
        DType::Q4_1,
        DType::Q5_0,
        DType::Q5_1,
        DType::Q4K,
        DType::Q5K,
        DType::Q6K,
    ] {
        let data = vec![1; dtype.block_bytes()];
        let view = TensorView { dtype, shape: &[dtype.block_len()], data: &data };
        let file = open(write_gguf(&[], &[("t", view)])).unwrap();
        assert_eq!(file.tensor("t").unwrap().dtype, dtype);
    }
}

#[test]
fn a_getter_of_another_type_names_key_expectation_and_find() {
    let file = open(tiny()).unwrap();
    let error = file.metadata().u64("general.architecture").unwrap_err();
    expect![[r#"m.gguf: metadata "general.architecture" has type string, expected a whole number, not negative"#]]
        .assert_eq(&error.to_string());
    let error = file.metadata().strings("a.ints").unwrap_err();
    expect![[r#"m.gguf: metadata "a.ints" has type i32, expected array of strings"#]]
        .assert_eq(&error.to_string());
    let error = file.metadata().u64("a.negative").unwrap_err();
    expect![[
        r#"m.gguf: metadata "a.negative" has type i32, expected a whole number, not negative"#
    ]]
    .assert_eq(&error.to_string());
    let error = file.metadata().need::<u64>("x.y", None).unwrap_err();
    expect![[r#"m.gguf: metadata "x.y" is missing; the file was written by an incomplete converter, convert it again"#]]
        .assert_eq(&error.to_string());
}

#[test]
fn a_file_of_another_kind_says_so() {
    check(
        Vec::new(),
        expect![[r#"m.gguf: is not a GGUF file: it begins with "", expected "GGUF""#]],
    );
    check(
        b"PK\x03\x04 a zip".to_vec(),
        expect![[r#"m.gguf: is not a GGUF file: it begins with "PK\u{3}\u{4}", expected "GGUF""#]],
    );
    check(
        patched(&3_u32.to_le_bytes(), &1_u32.to_le_bytes()),
        expect!["m.gguf: has GGUF version 1; versions 2 and 3 are supported"],
    );
    check(
        patched(&3_u32.to_le_bytes(), &3_u32.to_be_bytes()),
        expect![
            "m.gguf: has GGUF version 50331648; versions 2 and 3 are supported (the file is big-endian; convert it on this kind of machine)"
        ],
    );
}

#[test]
fn a_git_lfs_pointer_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    std::fs::write(&path, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
        .unwrap();
    let error = GgufFile::open(&path).err().expect("must be refused");
    assert!(matches!(error.problem, FormatProblem::LfsPointer), "{error}");
}

#[test]
fn hostile_counts_end_at_once_and_reserve_nothing() {
    let huge = (1_u64 << 60).to_le_bytes();
    let began = Instant::now();
    check(
        patched(&2_u64.to_le_bytes(), &huge),
        expect![
            "m.gguf: says that it has 1152921504606846976 tensors; at most 100000 are accepted"
        ],
    );
    check(
        patched(&9_u64.to_le_bytes(), &huge),
        expect![
            "m.gguf: says that it has 1152921504606846976 metadata entries; at most 100000 are accepted"
        ],
    );
    // The length of a string, of an array of strings, of an array of numbers.
    check(
        patched_after("general.architecture", 4, &huge),
        expect![[
            r#"m.gguf: ends inside metadata "general.architecture": 1152921504606846976 bytes needed at offset 64, 512 left; the download is incomplete or the file is damaged"#
        ]],
    );
    check(
        patched_after("a.strings", 8, &huge),
        expect![[
            r#"m.gguf: ends inside metadata "a.strings": 21474836489 bytes needed at offset 269, 307 left; the download is incomplete or the file is damaged"#
        ]],
    );
    check(
        patched_after("a.floats", 8, &huge),
        expect![[
            r#"m.gguf: ends inside metadata "a.floats": 4611686018427387904 bytes needed at offset 317, 259 left; the download is incomplete or the file is damaged"#
        ]],
    );
    check(
        patched_after("a.floats", 8, &u64::MAX.to_le_bytes()),
        expect![[
            r#"m.gguf: ends inside metadata "a.floats": 18446744073709551615 bytes needed at offset 317, 259 left; the download is incomplete or the file is damaged"#
        ]],
    );
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[test]
fn wrong_metadata_is_refused_by_key() {
    check(
        patched_after("a.bool", 0, &99_u32.to_le_bytes()),
        expect![[
            r#"m.gguf: metadata "a.bool" has the unknown value type 99; the file is damaged or newer than this program"#
        ]],
    );
    check(
        patched_after("a.bool", 4, &[2]),
        expect![[r#"m.gguf: metadata "a.bool" is a truth value stored as 2, expected 0 or 1"#]],
    );
    check(
        patched_after("a.ints", 4, &9_u32.to_le_bytes()),
        expect![[r#"m.gguf: metadata "a.ints" is an array of arrays, which is not supported"#]],
    );
    check(
        patched_after("a.strings", 16 + 8, &[0xff]),
        expect![[r#"m.gguf: metadata "a.strings" is not UTF-8"#]],
    );
    check(patched(b"a.ints", b"a.bool"), expect![[r#"m.gguf: has metadata key "a.bool" twice"#]]);
}

#[test]
fn alignment_must_be_a_power_of_two() {
    for (bad, value) in [(0, MetaValue::U32(0)), (24, MetaValue::U32(24))] {
        let mut bytes = write_gguf(&[("general.alignmen_", value)], &[]);
        let at = bytes.windows(9).position(|w| w == b"alignmen_").unwrap();
        bytes[at + 8] = b't';
        let error = open(bytes).err().expect("must be refused");
        assert!(
            matches!(error.problem, FormatProblem::BadAlignment { got, .. } if got == bad),
            "{error}"
        );
    }
}

#[test]
fn wrong_tensors_are_refused_by_name() {
    // Rows of the table: name, number of dimensions (4 bytes), dimensions (8 each), type, offset.
    let dims = |n: u64| n.to_le_bytes();
    check(
        patched_after("plain", 0, &9_u32.to_le_bytes()),
        expect![[r#"m.gguf: tensor "plain" has 9 dimensions; at most 8 are accepted"#]],
    );
    check(
        patched_after("plain", 4, &dims(1 << 62)),
        expect![[
            r#"m.gguf: tensor "plain" has the impossible shape [2, 4611686018427387904] for F32: it has more elements than fit"#
        ]],
    );
    check(
        patched_after("plain", 4, &dims(5)),
        expect![[r#"m.gguf: tensors "plain" and "quantised" overlap"#]],
    );
    check(
        patched_after("quantised", 4, &dims(33)),
        expect![[
            r#"m.gguf: tensor "quantised" has the impossible shape [2, 33] for Q8_0: a row is not a whole number of blocks"#
        ]],
    );
    check(
        patched_after("plain", 20, &10_u32.to_le_bytes()),
        expect![[
            r#"m.gguf: tensor "plain" has type Q2_K, which is not supported; supported are F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q4_K Q5_K Q6_K"#
        ]],
    );
    check(
        patched_after("plain", 20, &77_u32.to_le_bytes()),
        expect![[
            r#"m.gguf: tensor "plain" has type number 77, which is not supported; supported are F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q4_K Q5_K Q6_K"#
        ]],
    );
    check(
        patched_after("plain", 24, &dims(1)),
        expect![[
            r#"m.gguf: tensor "plain" begins at offset 1, which is not a multiple of the alignment 32"#
        ]],
    );
    check(
        patched_after("plain", 24, &dims(u64::MAX - 31)),
        expect![[
            r#"m.gguf: tensor "plain" needs bytes 18446744073709551584 to 18446744073709551608 of the data, which has 128; the download is incomplete or the file is damaged"#
        ]],
    );
    check(
        patched_after("quantised", 24, &dims(0)),
        expect![[r#"m.gguf: tensors "plain" and "quantised" overlap"#]],
    );
    check(
        patched_after("quantised", 24, &dims(64)),
        expect![[
            r#"m.gguf: tensor "quantised" needs bytes 64 to 132 of the data, which has 128; the download is incomplete or the file is damaged"#
        ]],
    );
}

#[test]
fn a_tensor_name_that_comes_twice_is_refused() {
    let data = [0; 4];
    let view = TensorView { dtype: DType::F32, shape: &[1], data: &data };
    check(
        write_gguf(&[], &[("w", view), ("w", view)]),
        expect![[r#"m.gguf: has tensor "w" twice"#]],
    );
}

#[test]
fn bytes_after_the_last_tensor_are_refused_unless_padding() {
    let mut bytes = tiny();
    bytes.extend([0; 40]);
    check(
        bytes,
        expect![
            "m.gguf: has 40 bytes that belong to no tensor after the last one; the file is damaged or was joined with another"
        ],
    );
    // Padding after the last tensor may be missing.
    let mut bytes = tiny();
    let n_padding = 32 - (2 * 34) % 32;
    bytes.truncate(bytes.len() - n_padding);
    assert!(open(bytes).is_ok());
}

/// Read everything a file offers, so that damage which only shows on access shows here.
fn read_all(file: &GgufFile) -> usize {
    let meta = file.metadata();
    let mut n = 0;
    for key in meta.keys() {
        let _ = (meta.str(key), meta.u64(key), meta.f32(key), meta.bool(key));
        n += meta.strings(key).ok().flatten().map_or(0, |s| s.len());
        n += meta.i64s(key).ok().flatten().map_or(0, |s| s.len());
        n += meta.f32s(key).ok().flatten().map_or(0, |s| s.len());
    }
    for name in file.names() {
        let view = file.tensor(name).expect("named by the file");
        let need = view.dtype.bytes_for(view.n_elements() as u64);
        assert_eq!(need, Some(view.data.len() as u64));
        n += view.data.len();
    }
    n
}

#[test]
fn every_truncation_is_an_error_or_only_cuts_padding() {
    let whole = tiny();
    let n_padding = 32 - (2 * 34) % 32;
    for n in 0..whole.len() - n_padding {
        assert!(open(whole[..n].to_vec()).is_err(), "cut to {n} bytes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn flipped_bytes_give_an_error_or_a_readable_file(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<Option<prop::sample::Index>>(),
    ) {
        let mut bytes = tiny();
        for (at, xor) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= xor;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let began = Instant::now();
        if let Ok(file) = open(bytes) {
            read_all(&file);
        }
        prop_assert!(began.elapsed() < Duration::from_secs(1));
    }
}
