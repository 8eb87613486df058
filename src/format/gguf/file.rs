//! A GGUF file: header, metadata, tensor table.
//!
//! # Place
//! Part of `format`.
//! # Shapes and units
//! The file stores dimensions innermost first; they are turned around here, once.

use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use super::super::digest::Fingerprint;
use super::super::error::{FormatError, FormatProblem};
use super::super::map::FileMap;
use super::super::tensor::{Entry, TensorView, Tensors};
use super::cursor::Cursor;
use super::element;
use super::metadata::Metadata;
use crate::base::limit;

const ALIGNMENT_KEY: &str = "general.alignment";
pub(super) const ALIGNMENT_DEFAULT: u64 = 32;
const ALIGNMENT_MAX: u64 = 1 << 16;

/// An open GGUF file.
pub struct GgufFile {
    path: PathBuf,
    map: FileMap,
    metadata: Metadata,
    order: Vec<String>,
    tensors: FxHashMap<String, Entry>,
}

impl GgufFile {
    /// Map and check the file at `path`.
    ///
    /// # Errors
    /// When the file cannot be read or anything in its header is wrong.
    pub fn open(path: &Path) -> Result<Self, FormatError> {
        Self::from_map(path, FileMap::open(path)?)
    }

    /// As [`GgufFile::open`] for bytes that are mapped or in memory; `path` is for messages.
    ///
    /// # Errors
    /// When anything in the header is wrong.
    pub fn from_map(path: &Path, map: FileMap) -> Result<Self, FormatError> {
        read(path, map).map_err(|problem| FormatError::new(path, problem))
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// What identifies the content, for cache keys.
    pub fn fingerprint(&self) -> Fingerprint {
        self.map.fingerprint()
    }
}

impl Tensors for GgufFile {
    fn tensor(&self, name: &str) -> Option<TensorView<'_>> {
        Some(self.tensors.get(name)?.view(&self.map))
    }

    fn names(&self) -> Vec<&str> {
        self.order.iter().map(String::as_str).collect()
    }

    fn forget(&self, name: &str) {
        if let Some(entry) = self.tensors.get(name) {
            self.map.forget(entry.start..entry.end);
        }
    }
}

fn read(path: &Path, map: FileMap) -> Result<GgufFile, FormatProblem> {
    let mut cursor = Cursor::new(&map, 0);
    let (n_tensors, n_entries) = read_header(&mut cursor)?;
    let metadata = Metadata::read(path, &map, &mut cursor, n_entries)?;
    let alignment = alignment(&metadata)?;
    let table = read_table(&mut cursor, n_tensors, alignment)?;
    let data_start = match n_tensors {
        0 => cursor.at(),
        // A file that ends inside the padding holds no data; the first tensor will say so.
        _ => cursor.at().next_multiple_of(alignment as usize).min(map.len()),
    };
    let (order, tensors) = place(table, data_start, map.len(), alignment)?;
    Ok(GgufFile { path: path.to_owned(), metadata, order, tensors, map })
}

/// Magic, version and the two counts.
fn read_header(cursor: &mut Cursor<'_>) -> Result<(u64, u64), FormatProblem> {
    let magic = cursor.take(cursor.left().min(4) as u64, String::new)?;
    if magic != b"GGUF" {
        return Err(FormatProblem::NotGguf { begin: String::from_utf8_lossy(magic).into_owned() });
    }
    let header = || "the header".to_owned();
    let version = cursor.u32(header)?;
    if !(2..=3).contains(&version) {
        let hint = match version.swap_bytes() {
            2..=3 => " (the file is big-endian; convert it on this kind of machine)",
            _ => "",
        };
        return Err(FormatProblem::Version { version, hint });
    }
    let count = |what, got, max| {
        if got > max {
            return Err(FormatProblem::TooMany { what, got, max });
        }
        Ok(got)
    };
    let n_tensors = count("tensors", cursor.u64(header)?, limit::FILE_TENSORS_MAX)?;
    let n_entries = count("metadata entries", cursor.u64(header)?, limit::FILE_METADATA_MAX)?;
    Ok((n_tensors, n_entries))
}

fn alignment(metadata: &Metadata) -> Result<u64, FormatProblem> {
    let alignment = match metadata.u64(ALIGNMENT_KEY) {
        Ok(value) => value.unwrap_or(ALIGNMENT_DEFAULT),
        Err(error) => return Err(error.problem),
    };
    if !alignment.is_power_of_two() || alignment > ALIGNMENT_MAX {
        return Err(FormatProblem::BadAlignment { got: alignment, max: ALIGNMENT_MAX });
    }
    Ok(alignment)
}

/// One row of the tensor table; offsets count from the start of the data.
struct Row {
    name: String,
    entry: Entry,
    offset: u64,
    n_bytes: u64,
}

fn read_table(
    cursor: &mut Cursor<'_>,
    n_tensors: u64,
    alignment: u64,
) -> Result<Vec<Row>, FormatProblem> {
    let mut rows = Vec::new();
    for i in 0..n_tensors {
        let name =
            cursor.string(limit::FILE_NAME_BYTES_MAX, || format!("the name of tensor {i}"))?;
        rows.push(read_row(cursor, name, alignment)?);
    }
    Ok(rows)
}

fn read_row(cursor: &mut Cursor<'_>, name: &str, alignment: u64) -> Result<Row, FormatProblem> {
    let what = || format!("the description of tensor {name:?}");
    let tensor = name.to_owned();
    let n_dims = cursor.u32(what)?;
    if n_dims as usize > limit::TENSOR_DIMS_MAX {
        return Err(FormatProblem::TooManyDims {
            tensor,
            got: u64::from(n_dims),
            max: limit::TENSOR_DIMS_MAX as u64,
        });
    }
    let mut dims = Vec::new();
    for _ in 0..n_dims {
        dims.push(cursor.u64(what)?);
    }
    dims.reverse();
    let dtype = match element::from_number(cursor.u32(what)?) {
        Ok(dtype) => dtype,
        Err(found) => {
            return Err(FormatProblem::UnsupportedType {
                tensor,
                found,
                supported: element::SUPPORTED,
            });
        }
    };
    let offset = cursor.u64(what)?;
    if offset % alignment != 0 {
        return Err(FormatProblem::Misaligned { tensor, offset, alignment });
    }
    let (shape, n_bytes) = super::super::tensor::checked_shape(&dims, dtype).map_err(|why| {
        FormatProblem::BadShape { tensor, shape: dims.clone(), dtype: dtype.name().to_owned(), why }
    })?;
    Ok(Row {
        name: name.to_owned(),
        entry: Entry { dtype, shape, start: 0, end: 0 },
        offset,
        n_bytes,
    })
}

type Placed = (Vec<String>, FxHashMap<String, Entry>);

/// Turn offsets into ranges of the file: inside it, apart from each other, nothing left over.
fn place(
    rows: Vec<Row>,
    data_start: usize,
    file_len: usize,
    alignment: u64,
) -> Result<Placed, FormatProblem> {
    let have = (file_len - data_start) as u64;
    let mut by_offset: Vec<&Row> = rows.iter().collect();
    by_offset.sort_by_key(|row| row.offset);
    let mut end = 0;
    let mut before: Option<&Row> = None;
    for row in by_offset {
        let row_end = row.offset.saturating_add(row.n_bytes);
        if row_end > have {
            return Err(FormatProblem::OutOfRange {
                tensor: row.name.clone(),
                start: row.offset,
                end: row_end,
                have,
            });
        }
        if let Some(first) = before.filter(|_| row.offset < end) {
            return Err(FormatProblem::Overlap {
                first: first.name.clone(),
                second: row.name.clone(),
            });
        }
        end = row_end;
        before = Some(row);
    }
    // Writers pad the last tensor too; more than that is not ours.
    let stray = have - end.next_multiple_of(alignment).min(have);
    if stray > 0 {
        return Err(FormatProblem::StrayBytes {
            bytes: stray,
            place: "after the last one".to_owned(),
        });
    }
    let mut order = Vec::new();
    let mut tensors = FxHashMap::default();
    for row in rows {
        let start = data_start + row.offset as usize;
        let entry = Entry { start, end: start + row.n_bytes as usize, ..row.entry };
        if tensors.insert(row.name.clone(), entry).is_some() {
            return Err(FormatProblem::Duplicate { what: "tensor", name: row.name });
        }
        order.push(row.name);
    }
    Ok((order, tensors))
}
