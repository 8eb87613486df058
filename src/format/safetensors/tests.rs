//! Tests of the safetensors reader: files, shards, every kind of damage, random damage.
//!
//! # Place
//! Part of `format`.

use std::path::Path;
use std::time::{Duration, Instant};

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::super::FormatProblem;
use super::*;
use crate::base::DType;

const HEADER: &str = r#"{"__metadata__":{"format":"pt"},
    "a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},
    "b":{"dtype":"BF16","shape":[3],"data_offsets":[8,14]}}"#;

fn file(header: &str, n_data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend((0..n_data).map(|i| i as u8));
    bytes
}

fn open(bytes: Vec<u8>) -> Result<Safetensors, FormatError> {
    Safetensors::from_map(Path::new("m.safetensors"), FileMap::from_vec(bytes))
}

/// The message of the error that a file with this header and amount of data must give.
#[track_caller]
fn check(header: &str, n_data: usize, expect: Expect) {
    let error = open(file(header, n_data)).err().expect("must be refused");
    expect.assert_eq(&error.to_string());
}

#[test]
fn a_file_gives_its_tensors() {
    let tensors = open(file(HEADER, 14)).unwrap();
    assert_eq!(tensors.names(), ["a", "b"]);
    let a = tensors.tensor("a").unwrap();
    assert_eq!((a.dtype, a.shape), (DType::F32, &[2, 1][..]));
    assert_eq!(a.data, [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(tensors.tensor("b").unwrap().data.len(), 6);
    assert!(tensors.tensor("__metadata__").is_none());
}

#[test]
fn a_file_written_by_the_reference_crate_is_read() {
    let data = [1_u8, 2, 3, 4];
    let view =
        safetensors::tensor::TensorView::new(safetensors::Dtype::F16, vec![2], &data).unwrap();
    let bytes = safetensors::serialize([("w", view)], None).unwrap();
    let tensors = open(bytes).unwrap();
    assert_eq!(tensors.tensor("w").unwrap().data, data);
}

#[test]
fn damage_is_named() {
    check(
        "{",
        0,
        expect![
            "m.safetensors: the header is not what it should be: EOF while parsing an object at line 1 column 1"
        ],
    );
    check(
        "[]",
        0,
        expect![
            "m.safetensors: the header is not what it should be: invalid type: sequence, expected an object of tensors at line 1 column 0"
        ],
    );
    check(
        "{} x",
        0,
        expect![
            "m.safetensors: the header is not what it should be: trailing characters at line 1 column 4"
        ],
    );
    check(
        HEADER,
        13,
        expect![[
            r#"m.safetensors: tensor "b" needs bytes 8 to 14 of the data, which has 13; the download is incomplete or the file is damaged"#
        ]],
    );
    check(
        HEADER,
        20,
        expect![
            "m.safetensors: has 6 bytes that belong to no tensor after the last one; the file is damaged or was joined with another"
        ],
    );
    check(
        &HEADER.replace("[8,14]", "[6,12]"),
        12,
        expect![[r#"m.safetensors: tensors "a" and "b" overlap"#]],
    );
    check(
        &HEADER.replace("[8,14]", "[10,16]"),
        16,
        expect![[
            r#"m.safetensors: has 2 bytes that belong to no tensor before "b"; the file is damaged or was joined with another"#
        ]],
    );
    check(
        &HEADER.replace("[8,14]", "[8,16]"),
        16,
        expect![[r#"m.safetensors: tensor "b" takes 8 bytes, its type and shape need 6"#]],
    );
    check(
        &HEADER.replace("[8,14]", "[14,8]"),
        14,
        expect![[
            r#"m.safetensors: tensor "b" needs bytes 14 to 8 of the data, which has 14; the download is incomplete or the file is damaged"#
        ]],
    );
    check(
        &HEADER.replace("[8,14]", "[8]"),
        14,
        expect![[
            r#"m.safetensors: the header is not what it should be: tensor "b": invalid length 1, expected an array of length 2 at line 3 column 54"#
        ]],
    );
    check(
        &HEADER.replace("[3]", "[4611686018427387904,4]"),
        14,
        expect![[
            r#"m.safetensors: tensor "b" has the impossible shape [4611686018427387904, 4] for BF16: it has more elements than fit"#
        ]],
    );
    check(
        &HEADER.replace("[3]", "[1,1,1,1,1,1,1,1,3]"),
        14,
        expect![[r#"m.safetensors: tensor "b" has 9 dimensions; at most 8 are accepted"#]],
    );
    check(
        &HEADER.replace("[3]", "[-3]"),
        14,
        expect![[
            r#"m.safetensors: the header is not what it should be: tensor "b": invalid value: integer `-3`, expected u64 at line 3 column 35"#
        ]],
    );
    check(
        &HEADER.replace("BF16", "I64"),
        14,
        expect![[
            r#"m.safetensors: tensor "b" has type I64, which is not supported; supported are F32 F16 BF16"#
        ]],
    );
    check(
        &HEADER.replace("\"b\"", "\"a\""),
        14,
        expect![[r#"m.safetensors: has tensor "a" twice"#]],
    );
}

#[test]
fn a_length_that_is_no_length_is_refused_at_once() {
    let error = open(b"abc".to_vec()).err().expect("must be refused");
    assert!(matches!(error.problem, FormatProblem::Truncated { .. }));
    let error = open(b"not a safetensors file at all".to_vec()).err().expect("must be refused");
    assert!(matches!(error.problem, FormatProblem::TooLong { .. }), "{error}");
    let error = open(1000_u64.to_le_bytes().to_vec()).err().expect("must be refused");
    assert!(matches!(error.problem, FormatProblem::Truncated { .. }), "{error}");
}

#[test]
fn a_git_lfs_pointer_says_so() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("model.safetensors"),
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
    )
    .unwrap();
    let error = Safetensors::open(dir.path()).err().expect("must be refused");
    assert!(matches!(error.problem, FormatProblem::LfsPointer), "{error}");
}

/// A folder with two shards and this index.
fn sharded(index: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let one = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let two = r#"{"b":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}}"#;
    std::fs::write(dir.path().join("one.safetensors"), file(one, 4)).unwrap();
    std::fs::write(dir.path().join("two.safetensors"), file(two, 2)).unwrap();
    std::fs::write(dir.path().join(INDEX), index).unwrap();
    dir
}

#[test]
fn shards_are_one_set_of_tensors() {
    let dir = sharded(r#"{"weight_map":{"b":"two.safetensors","a":"one.safetensors"}}"#);
    let tensors = Safetensors::open(dir.path()).unwrap();
    assert_eq!(tensors.names(), ["b", "a"]);
    assert_eq!(tensors.tensor("a").unwrap().data.len(), 4);
    assert_eq!(tensors.tensor("b").unwrap().dtype, DType::F16);
}

/// The problem, without the path, that a folder with this index must give.
#[track_caller]
fn check_index(index: &str, expect: Expect) {
    let dir = sharded(index);
    let error = Safetensors::open(dir.path()).err().expect("must be refused");
    expect.assert_eq(&error.problem.to_string());
}

#[test]
fn a_bad_index_is_named() {
    check_index(
        r#"{"weight_map":{"a":"one.safetensors","c":"three.safetensors"}}"#,
        expect![[r#"shard "three.safetensors" is missing; download all 2 files of the model"#]],
    );
    check_index(
        r#"{"weight_map":{"a":"two.safetensors"}}"#,
        expect![[
            r#"the index says that tensor "a" is in shard "two.safetensors", where it is not"#
        ]],
    );
    check_index(
        r#"{"weight_map":{"a":"../one.safetensors"}}"#,
        expect![[
            r#"the index names the shard "../one.safetensors", which is not a plain file name"#
        ]],
    );
    check_index(
        r#"{"weight_map":{"a":3}}"#,
        expect![[
            r#"the shard index is not what it should be: the shard of tensor "a" is not a string"#
        ]],
    );
    check_index(
        r#"{"weights":{}}"#,
        expect![[r#"the shard index is not what it should be: it has no object "weight_map""#]],
    );
    check_index(
        "{",
        expect![
            "the shard index is not what it should be: EOF while parsing an object at line 1 column 1"
        ],
    );
}

#[test]
fn a_folder_without_weights_and_shards_without_index_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let error = Safetensors::open(dir.path()).err().expect("must be refused");
    assert!(matches!(error.problem, FormatProblem::NoSafetensors), "{error}");
    let dir = sharded("{}");
    std::fs::remove_file(dir.path().join(INDEX)).unwrap();
    let error = Safetensors::open(dir.path()).err().expect("must be refused");
    assert!(error.path.ends_with(INDEX), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn flipped_bytes_give_an_error_or_a_readable_file(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<Option<prop::sample::Index>>(),
    ) {
        let mut bytes = file(HEADER, 14);
        for (at, xor) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= xor;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let began = Instant::now();
        if let Ok(tensors) = open(bytes) {
            for name in tensors.names() {
                let view = tensors.tensor(name).expect("named by the file");
                prop_assert_eq!(
                    view.dtype.bytes_for(view.n_elements() as u64),
                    Some(view.data.len() as u64)
                );
            }
        }
        prop_assert!(began.elapsed() < Duration::from_secs(1));
    }
}
