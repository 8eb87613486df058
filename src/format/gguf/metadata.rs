//! GGUF metadata: typed values by key.
//!
//! # Place
//! Part of `format`. The meaning of a key belongs to whoever asks for it.
//! # Invariants
//! Every range kept here was walked while reading: strings are whole and UTF-8, arrays have as many
//! elements as they say. Values stay in the mapped file until asked for.

use std::fmt;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use super::super::error::{FormatError, FormatProblem};
use super::super::map::FileMap;
use super::cursor::Cursor;
use super::write::MetaValue;
use crate::base::limit;

/// The type of a metadata value; the numbers are the format's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ValueType {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Bool = 7,
    Str = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
}

impl ValueType {
    const ALL: [Self; 13] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::F32,
        Self::Bool,
        Self::Str,
        Self::Array,
        Self::U64,
        Self::I64,
        Self::F64,
    ];

    fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// Bytes of one value; `None` for strings and arrays.
    pub(super) fn bytes(self) -> Option<u64> {
        match self {
            Self::U8 | Self::I8 | Self::Bool => Some(1),
            Self::U16 | Self::I16 => Some(2),
            Self::U32 | Self::I32 | Self::F32 => Some(4),
            Self::U64 | Self::I64 | Self::F64 => Some(8),
            Self::Str | Self::Array => None,
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::F32 => "f32",
            Self::Bool => "bool",
            Self::Str => "string",
            Self::Array => "array",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F64 => "f64",
        })
    }
}

/// One metadata value, borrowed from the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    Str(&'a str),
    Array(Array<'a>),
}

/// An array of metadata values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Array<'a> {
    pub element: ValueType,
    pub len: usize,
    pub(super) bytes: &'a [u8],
}

impl<'a> Array<'a> {
    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let element = self.element;
        let mut cursor = Cursor::new(self.bytes, 0);
        (0..self.len).map(move |_| decode(element, &mut cursor).expect("walked while reading"))
    }
}

#[derive(Clone, Copy, Debug)]
struct Raw {
    ty: ValueType,
    /// Element type and count of an array.
    array: Option<(ValueType, usize)>,
    start: usize,
    end: usize,
}

/// The metadata of one GGUF file.
pub struct Metadata {
    path: PathBuf,
    map: FileMap,
    order: Vec<String>,
    raw: FxHashMap<String, Raw>,
}

impl Metadata {
    /// Read `n` entries.
    pub(super) fn read(
        path: &Path,
        map: &FileMap,
        cursor: &mut Cursor<'_>,
        n: u64,
    ) -> Result<Self, FormatProblem> {
        let mut order = Vec::new();
        let mut raw = FxHashMap::default();
        for i in 0..n {
            let key = cursor
                .string(limit::FILE_NAME_BYTES_MAX, || format!("the key of metadata entry {i}"))?;
            let value = walk_value(key, cursor)?;
            if raw.insert(key.to_owned(), value).is_some() {
                return Err(FormatProblem::Duplicate {
                    what: "metadata key",
                    name: key.to_owned(),
                });
            }
            order.push(key.to_owned());
        }
        Ok(Self { path: path.to_owned(), map: map.clone(), order, raw })
    }

    /// The keys in the order of the file.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.order.iter().map(String::as_str)
    }

    /// The value of a key, whatever its type.
    pub fn get(&self, key: &str) -> Option<Value<'_>> {
        let raw = self.raw.get(key)?;
        let bytes = &self.map[raw.start..raw.end];
        Some(match raw.array {
            Some((element, len)) => Value::Array(Array { element, len, bytes }),
            None => decode(raw.ty, &mut Cursor::new(bytes, 0)).expect("walked while reading"),
        })
    }

    /// A copy of an entry for [`super::write_gguf`].
    pub fn to_value(&self, key: &str) -> Option<MetaValue> {
        let raw = self.raw.get(key)?;
        let bytes = self.map[raw.start..raw.end].to_vec();
        Some(MetaValue::stored(raw.ty, raw.array, bytes))
    }

    /// A string.
    ///
    /// # Errors
    /// When the key has another type; so for every getter below.
    pub fn str(&self, key: &str) -> Result<Option<&str>, FormatError> {
        self.typed(key, "string", |value| match value {
            Value::Str(s) => Some(s),
            _ => None,
        })
    }

    /// A number that is a whole one and not negative, of any width.
    pub fn u64(&self, key: &str) -> Result<Option<u64>, FormatError> {
        self.typed(key, "a whole number, not negative", as_u64)
    }

    /// A whole number of any width.
    pub fn i64(&self, key: &str) -> Result<Option<i64>, FormatError> {
        self.typed(key, "a whole number", as_i64)
    }

    /// A floating point number of either width.
    pub fn f32(&self, key: &str) -> Result<Option<f32>, FormatError> {
        self.typed(key, "a floating point number", |value| match value {
            Value::Float(x) => Some(x as f32),
            _ => None,
        })
    }

    /// A truth value.
    pub fn bool(&self, key: &str) -> Result<Option<bool>, FormatError> {
        self.typed(key, "bool", |value| match value {
            Value::Bool(b) => Some(b),
            _ => None,
        })
    }

    /// An array of strings.
    pub fn strings(&self, key: &str) -> Result<Option<Vec<&str>>, FormatError> {
        self.array(key, "array of strings", |value| match value {
            Value::Str(s) => Some(s),
            _ => None,
        })
    }

    /// An array of whole numbers.
    pub fn i64s(&self, key: &str) -> Result<Option<Vec<i64>>, FormatError> {
        self.array(key, "array of whole numbers", as_i64)
    }

    /// An array of floating point numbers.
    pub fn f32s(&self, key: &str) -> Result<Option<Vec<f32>>, FormatError> {
        self.array(key, "array of floating point numbers", |value| match value {
            Value::Float(x) => Some(x as f32),
            _ => None,
        })
    }

    /// What a getter returned, or an error that names the missing key.
    ///
    /// # Errors
    /// When `value` is `None`.
    pub fn need<T>(&self, key: &str, value: Option<T>) -> Result<T, FormatError> {
        value.ok_or_else(|| {
            let key = key.to_owned();
            FormatError::new(&self.path, FormatProblem::MissingKey { key })
        })
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &'static str,
        as_type: impl Fn(Value<'a>) -> Option<T>,
    ) -> Result<Option<T>, FormatError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match as_type(value) {
            Some(value) => Ok(Some(value)),
            None => Err(self.wrong_type(key, expected)),
        }
    }

    fn array<'a, T>(
        &'a self,
        key: &str,
        expected: &'static str,
        as_type: impl Fn(Value<'a>) -> Option<T> + Copy,
    ) -> Result<Option<Vec<T>>, FormatError> {
        self.typed(key, expected, |value| match value {
            Value::Array(array) => array.iter().map(as_type).collect(),
            _ => None,
        })
    }

    fn wrong_type(&self, key: &str, expected: &'static str) -> FormatError {
        let raw = &self.raw[key];
        let problem = FormatProblem::WrongType {
            key: key.to_owned(),
            expected,
            found: raw.array.map_or(raw.ty, |(element, _)| {
                if expected.starts_with("array") { element } else { raw.ty }
            }),
        };
        FormatError::new(&self.path, problem)
    }
}

fn as_u64(value: Value<'_>) -> Option<u64> {
    match value {
        Value::Unsigned(n) => Some(n),
        Value::Signed(n) => u64::try_from(n).ok(),
        _ => None,
    }
}

fn as_i64(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Unsigned(n) => i64::try_from(n).ok(),
        Value::Signed(n) => Some(n),
        _ => None,
    }
}

/// Check one value's type and extent and step over it.
fn walk_value(key: &str, cursor: &mut Cursor<'_>) -> Result<Raw, FormatProblem> {
    let what = || format!("metadata {key:?}");
    let value_type = |id| {
        ValueType::from_number(id)
            .ok_or_else(|| FormatProblem::UnknownValueType { key: key.to_owned(), id })
    };
    let ty = value_type(cursor.u32(what)?)?;
    let array = if ty == ValueType::Array {
        let element = value_type(cursor.u32(what)?)?;
        if element == ValueType::Array {
            return Err(FormatProblem::NestedArray { key: key.to_owned() });
        }
        Some((element, cursor.u64(what)?))
    } else {
        None
    };
    let start = cursor.at();
    let (element, n) = array.unwrap_or((ty, 1));
    match element.bytes() {
        Some(size) => {
            // A product that does not fit cannot fit the file either.
            let bytes = cursor.take(n.saturating_mul(size), what)?;
            if element == ValueType::Bool
                && let Some(&got) = bytes.iter().find(|&&b| b > 1)
            {
                return Err(FormatProblem::BadBool { key: key.to_owned(), got });
            }
        }
        // Each string takes at least its 8-byte length: a hostile count ends with the file.
        None => {
            for _ in 0..n {
                cursor.string(u64::MAX, what)?;
            }
        }
    }
    Ok(Raw { ty, array: array.map(|(element, n)| (element, n as usize)), start, end: cursor.at() })
}

/// One value that is not an array.
fn decode<'a>(ty: ValueType, cursor: &mut Cursor<'a>) -> Result<Value<'a>, FormatProblem> {
    if ty == ValueType::Str {
        return Ok(Value::Str(cursor.string(u64::MAX, String::new)?));
    }
    let size = ty.bytes().expect("arrays are never decoded as one value");
    let bytes = cursor.take(size, String::new)?;
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let unsigned = u64::from_le_bytes(wide);
    let n_unused_bits = 64 - 8 * size as u32;
    // Shifted up and back down, so that the sign of the narrow type is kept.
    let signed = (unsigned << n_unused_bits).cast_signed() >> n_unused_bits;
    Ok(match ty {
        ValueType::U8 | ValueType::U16 | ValueType::U32 | ValueType::U64 => {
            Value::Unsigned(unsigned)
        }
        ValueType::F32 => Value::Float(f64::from(f32::from_bits(unsigned as u32))),
        ValueType::F64 => Value::Float(f64::from_bits(unsigned)),
        ValueType::Bool => Value::Bool(unsigned != 0),
        _ => Value::Signed(signed),
    })
}
