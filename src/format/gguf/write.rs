//! Writing GGUF version 3: metadata and tensors to bytes.
//!
//! # Place
//! Part of `format`. Makes requantised copies and the files of tests.

use super::super::tensor::TensorView;
use super::element;
use super::file::ALIGNMENT_DEFAULT;
use super::metadata::ValueType;
use crate::base::DType;

/// A metadata value to be written.
#[derive(Clone, Debug, PartialEq)]
pub enum MetaValue {
    U32(u32),
    I32(i32),
    U64(u64),
    F32(f32),
    Bool(bool),
    Str(String),
    Strings(Vec<String>),
    I32s(Vec<i32>),
    F32s(Vec<f32>),
    /// A value taken from another file as it is stored there: [`super::Metadata::to_value`].
    Stored(Stored),
}

/// A value's stored form, which only this folder can make.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    ty: ValueType,
    array: Option<(ValueType, usize)>,
    bytes: Vec<u8>,
}

impl MetaValue {
    pub(super) fn stored(ty: ValueType, array: Option<(ValueType, usize)>, bytes: Vec<u8>) -> Self {
        Self::Stored(Stored { ty, array, bytes })
    }

    fn write(&self, out: &mut Vec<u8>) {
        let ty = |out: &mut Vec<u8>, ty: ValueType| out.extend((ty as u32).to_le_bytes());
        let array = |out: &mut Vec<u8>, element: ValueType, n: usize| {
            ty(out, ValueType::Array);
            ty(out, element);
            out.extend((n as u64).to_le_bytes());
        };
        match self {
            Self::U32(x) => {
                ty(out, ValueType::U32);
                out.extend(x.to_le_bytes());
            }
            Self::I32(x) => {
                ty(out, ValueType::I32);
                out.extend(x.to_le_bytes());
            }
            Self::U64(x) => {
                ty(out, ValueType::U64);
                out.extend(x.to_le_bytes());
            }
            Self::F32(x) => {
                ty(out, ValueType::F32);
                out.extend(x.to_le_bytes());
            }
            Self::Bool(x) => {
                ty(out, ValueType::Bool);
                out.push(u8::from(*x));
            }
            Self::Str(s) => {
                ty(out, ValueType::Str);
                write_str(out, s);
            }
            Self::Strings(strings) => {
                array(out, ValueType::Str, strings.len());
                strings.iter().for_each(|s| write_str(out, s));
            }
            Self::I32s(xs) => {
                array(out, ValueType::I32, xs.len());
                xs.iter().for_each(|x| out.extend(x.to_le_bytes()));
            }
            Self::F32s(xs) => {
                array(out, ValueType::F32, xs.len());
                xs.iter().for_each(|x| out.extend(x.to_le_bytes()));
            }
            Self::Stored(stored) => {
                match stored.array {
                    Some((element, n)) => array(out, element, n),
                    None => ty(out, stored.ty),
                }
                out.extend(&stored.bytes);
            }
        }
    }
}

/// The bytes of a GGUF file with these entries and tensors, in this order, at the default alignment
/// of 32 (a copied `general.alignment` other than that is left out).
///
/// # Panics
/// When a tensor's data is not as long as its type and shape say: our own mistake.
pub fn write_gguf(metadata: &[(&str, MetaValue)], tensors: &[(&str, TensorView<'_>)]) -> Vec<u8> {
    let infos: Vec<_> = tensors.iter().map(|(name, t)| (*name, t.dtype, t.shape)).collect();
    let mut out = header(metadata, &infos);
    for (name, tensor) in tensors {
        let need = tensor.dtype.bytes_for(tensor.n_elements() as u64);
        assert_eq!(
            need,
            Some(tensor.data.len() as u64),
            "data of {name} as long as its type and shape say"
        );
        out.extend(tensor.data);
        pad(&mut out);
    }
    out
}

/// Write such a file without holding it in memory: `fill` appends the data of tensor `i` to an empty buffer.
///
/// # Errors
/// What the writer says.
/// # Panics
/// When a tensor's data is not as long as its type and shape say: our own mistake.
pub fn stream_gguf(
    out: &mut dyn std::io::Write,
    metadata: &[(&str, MetaValue)],
    tensors: &[(&str, DType, &[usize])],
    fill: &mut dyn FnMut(usize, &mut Vec<u8>),
) -> std::io::Result<()> {
    out.write_all(&header(metadata, tensors))?;
    let mut data = Vec::new();
    for (i, (name, dtype, shape)) in tensors.iter().enumerate() {
        data.clear();
        fill(i, &mut data);
        let n_elements: usize = shape.iter().product();
        let need = dtype.bytes_for(n_elements as u64);
        assert_eq!(need, Some(data.len() as u64), "data of {name} as long as its shape says");
        pad(&mut data);
        out.write_all(&data)?;
    }
    out.flush()
}

/// Everything before the first tensor's data, padded.
fn header(metadata: &[(&str, MetaValue)], tensors: &[(&str, DType, &[usize])]) -> Vec<u8> {
    let metadata: Vec<_> = metadata.iter().filter(|(key, _)| *key != "general.alignment").collect();
    let mut out = Vec::new();
    out.extend(b"GGUF");
    out.extend(3_u32.to_le_bytes());
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend((metadata.len() as u64).to_le_bytes());
    for (key, value) in metadata {
        write_str(&mut out, key);
        value.write(&mut out);
    }
    let mut offset = 0_u64;
    for (name, dtype, shape) in tensors {
        write_str(&mut out, name);
        out.extend((shape.len() as u32).to_le_bytes());
        for &dim in shape.iter().rev() {
            out.extend((dim as u64).to_le_bytes());
        }
        out.extend(element::number(*dtype).to_le_bytes());
        out.extend(offset.to_le_bytes());
        let n_elements: usize = shape.iter().product();
        let n_bytes = dtype.bytes_for(n_elements as u64).expect("shapes of whole blocks");
        offset += n_bytes.next_multiple_of(ALIGNMENT_DEFAULT);
    }
    if !tensors.is_empty() {
        pad(&mut out);
    }
    out
}

fn write_str(out: &mut Vec<u8>, s: &str) {
    out.extend((s.len() as u64).to_le_bytes());
    out.extend(s.as_bytes());
}

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(ALIGNMENT_DEFAULT as usize), 0);
}
