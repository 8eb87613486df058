//! The JSON header of a safetensors file.
//!
//! # Place
//! Part of the safetensors reader.
//! # Invariants
//! The tensors fill the data without gap or overlap; no name comes twice (a map type would silently
//! keep the last one and then blame an offset).

use std::fmt;

use rustc_hash::FxHashMap;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use super::super::error::FormatProblem;
use super::super::tensor::{Entry, checked_shape};
use crate::base::{DType, limit};

/// Length of the header's length.
const PREFIX_BYTES: usize = 8;

const SUPPORTED: &str = "F32 F16 BF16";

/// The tensors of one file.
pub(super) struct Header {
    pub(super) order: Vec<String>,
    pub(super) tensors: FxHashMap<String, Entry>,
}

/// One tensor as the header describes it.
#[derive(serde::Deserialize)]
struct Description {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// Read and check the header of a file.
pub(super) fn read_header(bytes: &[u8]) -> Result<Header, FormatProblem> {
    let left = bytes.len() as u64;
    let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX_BYTES>() else {
        return Err(FormatProblem::Truncated {
            what: "the length of the header".to_owned(),
            at: 0,
            need: PREFIX_BYTES as u64,
            left,
        });
    };
    let n = u64::from_le_bytes(*prefix);
    if n > limit::SAFETENSORS_HEADER_BYTES_MAX {
        return Err(FormatProblem::TooLong {
            what: "the header (is this a safetensors file?)".to_owned(),
            got: n,
            max: limit::SAFETENSORS_HEADER_BYTES_MAX,
        });
    }
    if n > rest.len() as u64 {
        return Err(FormatProblem::Truncated {
            what: "the header".to_owned(),
            at: PREFIX_BYTES as u64,
            need: n,
            left: rest.len() as u64,
        });
    }
    let (json, data) = rest.split_at(n as usize);
    let descriptions = parse(json)?;
    place(descriptions, PREFIX_BYTES + json.len(), data.len() as u64)
}

fn parse(json: &[u8]) -> Result<Vec<(String, Description)>, FormatProblem> {
    let mut duplicate = None;
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let parsed = Descriptions { duplicate: &mut duplicate }
        .deserialize(&mut deserializer)
        .and_then(|found| deserializer.end().map(|()| found));
    if let Some(name) = duplicate {
        return Err(FormatProblem::Duplicate { what: "tensor", name });
    }
    parsed.map_err(|e| FormatProblem::BadJson {
        what: "the header".to_owned(),
        problem: e.to_string(),
    })
}

/// Reads the header's object entry by entry, so that a name that comes twice is seen.
struct Descriptions<'a> {
    duplicate: &'a mut Option<String>,
}

impl<'de> DeserializeSeed<'de> for Descriptions<'_> {
    type Value = Vec<(String, Description)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Descriptions<'_> {
    type Value = Vec<(String, Description)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut found = Vec::new();
        let mut names = rustc_hash::FxHashSet::default();
        while let Some(name) = map.next_key::<String>()? {
            if !names.insert(name.clone()) {
                *self.duplicate = Some(name);
                return Err(M::Error::custom("a name comes twice"));
            }
            if name == "__metadata__" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let description = map
                .next_value()
                .map_err(|e| M::Error::custom(format_args!("tensor {name:?}: {e}")))?;
            found.push((name, description));
            if found.len() as u64 > limit::FILE_TENSORS_MAX {
                return Err(M::Error::custom(format_args!(
                    "it has more than {} tensors",
                    limit::FILE_TENSORS_MAX
                )));
            }
        }
        Ok(found)
    }
}

/// Check shapes and ranges: inside the data, one after the other, nothing left over.
fn place(
    descriptions: Vec<(String, Description)>,
    data_start: usize,
    have: u64,
) -> Result<Header, FormatProblem> {
    let mut order = Vec::new();
    let mut tensors = FxHashMap::default();
    let mut ranges = Vec::new();
    for (name, description) in descriptions {
        let [start, end] = description.data_offsets;
        let entry = check(&name, &description, have)?;
        ranges.push((start, end, name.clone()));
        let entry =
            Entry { start: data_start + start as usize, end: data_start + end as usize, ..entry };
        tensors.insert(name.clone(), entry);
        order.push(name);
    }
    ranges.sort();
    let mut end = 0;
    for (i, (start, range_end, name)) in ranges.iter().enumerate() {
        if *start < end {
            return Err(FormatProblem::Overlap {
                first: ranges[i - 1].2.clone(),
                second: name.clone(),
            });
        }
        if *start > end {
            return Err(FormatProblem::StrayBytes {
                bytes: start - end,
                place: format!("before {name:?}"),
            });
        }
        end = *range_end;
    }
    if have > end {
        return Err(FormatProblem::StrayBytes {
            bytes: have - end,
            place: "after the last one".to_owned(),
        });
    }
    Ok(Header { order, tensors })
}

fn check(name: &str, description: &Description, have: u64) -> Result<Entry, FormatProblem> {
    let tensor = name.to_owned();
    let dtype = match description.dtype.as_str() {
        "F32" => DType::F32,
        "F16" => DType::F16,
        "BF16" => DType::BF16,
        other => {
            return Err(FormatProblem::UnsupportedType {
                tensor,
                found: other.to_owned(),
                supported: SUPPORTED,
            });
        }
    };
    let n_dims = description.shape.len();
    if n_dims > limit::TENSOR_DIMS_MAX {
        return Err(FormatProblem::TooManyDims {
            tensor,
            got: n_dims as u64,
            max: limit::TENSOR_DIMS_MAX as u64,
        });
    }
    let (shape, need) = match checked_shape(&description.shape, dtype) {
        Ok(checked) => checked,
        Err(why) => {
            return Err(FormatProblem::BadShape {
                tensor,
                shape: description.shape.clone(),
                dtype: dtype.name().to_owned(),
                why,
            });
        }
    };
    let [start, end] = description.data_offsets;
    if start > end || end > have {
        return Err(FormatProblem::OutOfRange { tensor, start, end, have });
    }
    if end - start != need {
        return Err(FormatProblem::WrongSize { tensor, got: end - start, need });
    }
    Ok(Entry { dtype, shape, start: 0, end: 0 })
}
