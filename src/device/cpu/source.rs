//! Checks of what a model hands over while it loads, shared by the CPU backends.
//!
//! # Place
//! Part of `device::cpu`. A wrong shape is an error that names it; nothing here looks at values.

use crate::base::DType;
use crate::base::limit::LOW_RANK_MAX;
use crate::device::{DeviceError, KvShape, LowRankSource, MatrixSource, Stacking};

/// Largest number of rows or columns of a matrix, so that sizes cannot overflow.
const SIDE_MAX: usize = 1 << 28;

fn refuse(device: &'static str, what: String, problem: String) -> DeviceError {
    DeviceError::UnsupportedShape { device, what, problem }
}

/// Every part holds what its shape says, and the parts fit together.
pub(in crate::device) fn check(
    device: &'static str,
    parts: &[MatrixSource<'_>],
    stacking: Stacking,
) -> Result<(), DeviceError> {
    let Some(first) = parts.first() else {
        return Err(refuse(device, "a matrix".into(), "it has no parts".into()));
    };
    for part in parts {
        let what = || format!("a {} × {} {} matrix", part.rows, part.cols, part.dtype);
        if part.rows == 0 || part.cols == 0 || part.rows > SIDE_MAX || part.cols > SIDE_MAX {
            let problem = format!("each side must be between 1 and {SIDE_MAX}");
            return Err(refuse(device, what(), problem));
        }
        let Some(row_bytes) = part.dtype.bytes_for(part.cols as u64) else {
            let problem = format!("rows must be whole blocks of {}", part.dtype.block_len());
            return Err(refuse(device, what(), problem));
        };
        let need = u128::from(row_bytes) * part.rows as u128;
        if need != part.data.len() as u128 {
            let problem = format!("it needs {need} bytes and {} were given", part.data.len());
            return Err(refuse(device, what(), problem));
        }
        if part.cols != first.cols {
            let problem = format!("it is stacked with a matrix of {} columns", first.cols);
            return Err(refuse(device, what(), problem));
        }
    }
    if stacking == Stacking::GatedPair && (parts.len() != 2 || parts[1].rows != first.rows) {
        let rows: Vec<usize> = parts.iter().map(|p| p.rows).collect();
        let problem = format!("two parts of one shape are needed, not parts of {rows:?} rows");
        return Err(refuse(device, "a gated pair".into(), problem));
    }
    Ok(())
}

/// Low-rank terms fit the parts of a matrix of `cols` columns.
pub(in crate::device) fn check_low_rank(
    device: &'static str,
    cols: usize,
    part_rows: &[usize],
    parts: &[Option<LowRankSource<'_>>],
) -> Result<(), DeviceError> {
    let refuse = |problem| Err(refuse(device, "low-rank terms".into(), problem));
    if parts.len() != part_rows.len() {
        let (got, need) = (parts.len(), part_rows.len());
        return refuse(format!("{got} were given for a matrix of {need} parts"));
    }
    for (part, &rows) in parts.iter().zip(part_rows) {
        let Some(LowRankSource { rank, a, b }) = *part else { continue };
        if rank == 0 || rank > LOW_RANK_MAX {
            return refuse(format!("the rank is {rank}, expected 1 to {LOW_RANK_MAX}"));
        }
        if a.len() != rank * cols || b.len() != rows * rank {
            let (got_a, got_b) = (a.len(), b.len());
            let problem = format!(
                "{got_a} and {got_b} elements were given for {rank} × {cols} and {rows} × {rank}"
            );
            return refuse(problem);
        }
    }
    Ok(())
}

/// Elements of the keys (or the values) of a store.
pub(in crate::device) fn kv_elements(
    device: &'static str,
    shape: &KvShape,
) -> Result<usize, DeviceError> {
    let sides =
        [shape.n_layers, shape.n_blocks, shape.block_tokens, shape.n_kv_heads, shape.head_dim];
    let n = sides
        .iter()
        .try_fold(1usize, |n, &side| n.checked_mul(side))
        .filter(|&n| n > 0 && n < isize::MAX as usize / 16);
    n.ok_or_else(|| {
        let problem = "each side must be at least 1 and the product must fit memory".into();
        refuse(device, format!("a cache of shape {shape:?}"), problem)
    })
}

/// Whether rows of this type are blocks of codes (otherwise plain numbers).
pub(super) const fn is_blocks(dtype: DType) -> bool {
    dtype.block_len() > 1
}
