//! Weight matrices on the device: how they get there and where their parts are.
//!
//! # Place
//! Part of `device::cuda`. Packs on all cores, a few megabytes at a time, and uploads what is packed.

use super::driver::Driver;
use super::kernel::WeightAxis;
use super::low_rank::TermTable;
use super::pack::{self, Panel, TILE_COLS, TILE_ROWS};
use super::params::WeightView;
use crate::base::DType;
use crate::device::{DeviceError, MatrixSource, Stacking};

/// Bytes that are packed before they are uploaded.
const CHUNK_BYTES: usize = 32 << 20;
/// Matrices below this are packed on one thread.
const SERIAL_BYTES: usize = 1 << 20;

/// How a part's weights lie on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    Tiles(WeightAxis),
    /// f32, row-major; a gated pair: all gate rows, then all up rows.
    Plain,
}

/// Rows of one layout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) layout: Layout,
    pub(super) view: WeightView,
    /// Row of the matrix that is row 0 here.
    pub(super) first_row: usize,
    pub(super) rows: usize,
    pub(super) n_bytes: u64,
}

/// A weight matrix. A gated pair is one part whose tiles hold rows of both, or two where a file keeps them in two types.
#[derive(Debug)]
pub(super) struct Matrix {
    pub(super) parts: Vec<Part>,
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) gated: bool,
    /// Rows of each of the sources.
    pub(super) source_rows: Vec<usize>,
    /// Its sets of low-rank terms.
    pub(super) terms: TermTable,
}

impl Matrix {
    /// Columns of a product with this matrix.
    pub(super) fn out_cols(&self) -> usize {
        if self.gated { self.rows / 2 } else { self.rows }
    }
}

/// Where the rows of a part come from: one source, or a gate and an up matrix that share tiles.
struct Rows<'a> {
    dtype: DType,
    sources: &'a [MatrixSource<'a>],
    rows: usize,
    cols: usize,
}

impl<'a> Rows<'a> {
    /// Row `r` of row tile `tile`, if there is one.
    fn get(&self, tile: usize, r: usize) -> Option<&'a [u8]> {
        let (source, row) = match self.sources {
            [one] => (one, tile * TILE_ROWS + r),
            pair => (&pair[r / 8], tile * 8 + r % 8),
        };
        let n_bytes = source.data.len() / source.rows;
        (row < source.rows).then(|| &source.data[row * n_bytes..][..n_bytes])
    }
}

/// Put a matrix on the device. The sources were checked against each other.
///
/// # Errors
/// Types and sizes that the kernels do not read; no memory.
pub(super) fn load(
    driver: &mut dyn Driver,
    sources: &[MatrixSource<'_>],
    stacking: Stacking,
) -> Result<Matrix, DeviceError> {
    let cols = sources[0].cols;
    let rows = sources.iter().map(|s| s.rows).sum();
    sources.iter().try_for_each(|source| check(driver.name(), source))?;
    let gated = stacking == Stacking::GatedPair;
    let mut parts = Vec::new();
    if gated && sources.iter().all(|s| s.dtype == sources[0].dtype) {
        parts.push(load_part(driver, sources, 0)?);
    } else {
        let mut first_row = 0;
        for source in sources {
            parts.push(load_part(driver, std::slice::from_ref(source), first_row)?);
            first_row += source.rows;
        }
    }
    let source_rows = sources.iter().map(|s| s.rows).collect();
    Ok(Matrix { parts, rows, cols, gated, source_rows, terms: TermTable::default() })
}

fn check(device: &'static str, source: &MatrixSource<'_>) -> Result<(), DeviceError> {
    let what = || format!("a {} × {} matrix", source.rows, source.cols);
    if source.dtype != DType::F32 && WeightAxis::of(source.dtype).is_none() {
        return Err(DeviceError::UnsupportedType {
            device,
            what: what(),
            dtype: source.dtype,
            supported: "F32, BF16, F16, Q8_0, Q4_0, Q4_1, Q4_K, Q6_K; --device cpu runs it",
        });
    }
    if !source.cols.is_multiple_of(8) {
        return Err(DeviceError::UnsupportedShape {
            device,
            what: what(),
            problem: "the kernels need a multiple of 8 columns; --device cpu runs it".to_owned(),
        });
    }
    Ok(())
}

fn load_part(
    driver: &mut dyn Driver,
    sources: &[MatrixSource<'_>],
    first_row: usize,
) -> Result<Part, DeviceError> {
    let rows = Rows {
        dtype: sources[0].dtype,
        sources,
        rows: sources.iter().map(|s| s.rows).sum(),
        cols: sources[0].cols,
    };
    let (layout, (mut view, n_bytes)) = match WeightAxis::of(rows.dtype) {
        Some(format) => (Layout::Tiles(format), load_tiles(driver, &rows, format)?),
        None => (Layout::Plain, load_plain(driver, &rows)?),
    };
    view.n_rows = rows.rows as u32;
    Ok(Part { layout, view, first_row, rows: rows.rows, n_bytes: n_bytes as u64 })
}

fn load_plain(
    driver: &mut dyn Driver,
    rows: &Rows<'_>,
) -> Result<(WeightView, usize), DeviceError> {
    let n_bytes = rows.sources.iter().map(|s| s.data.len()).sum();
    let codes = driver.allocate(n_bytes, "a weight matrix")?;
    let mut at = 0;
    for source in rows.sources {
        driver.upload(codes.at(at), source.data)?;
        at += source.data.len();
    }
    let view = WeightView { codes, scales: codes, supers: codes, n_k_tiles: 0, n_rows: 0 };
    Ok((view, n_bytes))
}

fn load_tiles(
    driver: &mut dyn Driver,
    rows: &Rows<'_>,
    format: WeightAxis,
) -> Result<(WeightView, usize), DeviceError> {
    let n_panels = rows.rows.div_ceil(TILE_ROWS);
    let bytes = pack::panel_bytes(format, rows.cols);
    let aligned = |n: usize| n.next_multiple_of(256);
    let scales_at = aligned(n_panels * bytes.codes);
    let supers_at = scales_at + aligned(n_panels * bytes.scales);
    let n_bytes = supers_at + n_panels * bytes.supers;
    let codes = driver.allocate(n_bytes, "a weight matrix")?;
    let panel = bytes.codes + bytes.scales + bytes.supers;
    let per_chunk = (CHUNK_BYTES / panel).clamp(1, n_panels);
    let mut room = vec![0; per_chunk * panel];
    for first in (0..n_panels).step_by(per_chunk) {
        let n = per_chunk.min(n_panels - first);
        room.fill(0);
        let (c, rest) = room.split_at_mut(per_chunk * bytes.codes);
        let (s, u) = rest.split_at_mut(per_chunk * bytes.scales);
        pack_panels(rows, first, n, bytes, (&mut *c, &mut *s, &mut *u));
        driver.upload(codes.at(first * bytes.codes), &c[..n * bytes.codes])?;
        driver.upload(codes.at(scales_at + first * bytes.scales), &s[..n * bytes.scales])?;
        driver.upload(codes.at(supers_at + first * bytes.supers), &u[..n * bytes.supers])?;
    }
    let view = WeightView {
        codes,
        scales: codes.at(scales_at),
        supers: codes.at(supers_at),
        n_k_tiles: rows.cols.div_ceil(TILE_COLS) as u32,
        n_rows: 0,
    };
    Ok((view, n_bytes))
}

/// Pack panels `first .. first + n` into the start of the three arrays.
fn pack_panels(
    rows: &Rows<'_>,
    first: usize,
    n: usize,
    bytes: pack::TileBytes,
    arrays: (&mut [u8], &mut [u8], &mut [u8]),
) {
    let fill = |i: usize, mut panel: Panel<'_>| {
        for r in 0..TILE_ROWS {
            if let Some(row) = rows.get(first + i, r) {
                panel.put_row(rows.dtype, r, row, rows.cols);
            }
        }
    };
    let mut panels: Vec<(usize, Panel<'_>)> = Vec::with_capacity(n);
    let (mut c, mut s, mut u) = arrays;
    for i in 0..n {
        let (codes, rest_c) = c.split_at_mut(bytes.codes);
        let (scales, rest_s) = s.split_at_mut(bytes.scales);
        let (supers, rest_u) = u.split_at_mut(bytes.supers);
        (c, s, u) = (rest_c, rest_s, rest_u);
        panels.push((i, Panel { codes, scales, supers }));
    }
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    if n * bytes.codes < SERIAL_BYTES || n_threads == 1 {
        panels.into_iter().for_each(|(i, panel)| fill(i, panel));
        return;
    }
    let each = n.div_ceil(n_threads);
    std::thread::scope(|scope| {
        while !panels.is_empty() {
            let rest = panels.split_off(each.min(panels.len()));
            let mine = std::mem::replace(&mut panels, rest);
            scope.spawn(|| mine.into_iter().for_each(|(i, panel)| fill(i, panel)));
        }
    });
}
