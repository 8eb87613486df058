//! A bf16 product by cuBLASLt, timed: what the matrix units give in a program that NVIDIA tuned for this GPU.
//!
//! # Place
//! Part of `device::cuda`, used by `nvidia` when ceilings are measured. No step runs it: its sums follow an order that
//! depends on how many rows there are, and it wants weights row by row.
#![allow(unsafe_code)] // calls into the library

use std::ffi::c_void;

use cudarc::cublaslt::{result, sys};
use cudarc::driver;

use super::driver::DevicePtr;

/// Every function that is called here; the binding panics when one is missing.
const SYMBOLS: [&[u8]; 12] = [
    b"cublasLtCreate\0",
    b"cublasLtDestroy\0",
    b"cublasLtMatrixLayoutCreate\0",
    b"cublasLtMatrixLayoutDestroy\0",
    b"cublasLtMatmulDescCreate\0",
    b"cublasLtMatmulDescSetAttribute\0",
    b"cublasLtMatmulDescDestroy\0",
    b"cublasLtMatmulPreferenceCreate\0",
    b"cublasLtMatmulPreferenceSetAttribute\0",
    b"cublasLtMatmulPreferenceDestroy\0",
    b"cublasLtMatmulAlgoGetHeuristic\0",
    b"cublasLtMatmul\0",
];

pub(super) const WORKSPACE_BYTES: usize = 32 << 20;
const WARM_UPS: usize = 2;
const REPS: usize = 10;

/// A product's arrays on the device: xs `[T, C]` bf16, w `[R, C]` bf16 row by row, out `[T, R]` f32.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrays {
    pub(super) xs: DevicePtr,
    pub(super) w: DevicePtr,
    pub(super) out: DevicePtr,
    pub(super) workspace: DevicePtr,
}

pub(super) fn is_there() -> bool {
    // SAFETY: tries to open a library by name.
    let is_present = unsafe { sys::is_culib_present() };
    let has = |name: &&[u8]| {
        // SAFETY: the library is there; the symbol's address is not used.
        unsafe { sys::culib().get::<unsafe extern "C" fn()>(*name).is_ok() }
    };
    is_present && SYMBOLS.iter().all(has)
}

/// What a plan is made of; destroyed with it.
struct Plan {
    handle: sys::cublasLtHandle_t,
    product: sys::cublasLtMatmulDesc_t,
    layouts: [sys::cublasLtMatrixLayout_t; 3],
    wishes: sys::cublasLtMatmulPreference_t,
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: each was made in `Plan::new` or is null, and is destroyed once.
        unsafe {
            if !self.wishes.is_null() {
                let _ = result::destroy_matmul_pref(self.wishes);
            }
            for layout in self.layouts.into_iter().filter(|layout| !layout.is_null()) {
                let _ = result::destroy_matrix_layout(layout);
            }
            if !self.product.is_null() {
                let _ = result::destroy_matmul_desc(self.product);
            }
            let _ = result::destroy_handle(self.handle);
        }
    }
}

impl Plan {
    /// `[T, R] = [T, C] · [R, C]ᵀ`, which in the library's order of columns is `wᵀ · xs`.
    fn new(n_rows: u64, n_cols: u64, n_outputs: u64) -> Result<Self, result::CublasError> {
        let handle = result::create_handle()?;
        let mut plan = Self {
            handle,
            product: std::ptr::null_mut(),
            layouts: [std::ptr::null_mut(); 3],
            wishes: std::ptr::null_mut(),
        };
        let f32_type = sys::cudaDataType_t::CUDA_R_32F;
        let bf16_type = sys::cudaDataType_t::CUDA_R_16BF;
        plan.product =
            result::create_matmul_desc(sys::cublasComputeType_t::CUBLAS_COMPUTE_32F, f32_type)?;
        let (transposed, n_workspace) = (1i32, WORKSPACE_BYTES);
        let side = sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSA;
        // SAFETY: the descriptor was just made, and the value has the attribute's size.
        unsafe {
            result::set_matmul_desc_attribute(
                plan.product,
                side,
                (&raw const transposed).cast::<c_void>(),
                size_of::<i32>(),
            )?;
        }
        plan.layouts[0] =
            result::create_matrix_layout(bf16_type, n_cols, n_outputs, n_cols.cast_signed())?;
        plan.layouts[1] =
            result::create_matrix_layout(bf16_type, n_cols, n_rows, n_cols.cast_signed())?;
        plan.layouts[2] =
            result::create_matrix_layout(f32_type, n_outputs, n_rows, n_outputs.cast_signed())?;
        plan.wishes = result::create_matmul_pref()?;
        let wish =
            sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        // SAFETY: as above.
        unsafe {
            result::set_matmul_pref_attribute(
                plan.wishes,
                wish,
                (&raw const n_workspace).cast::<c_void>(),
                size_of::<usize>(),
            )?;
        }
        Ok(plan)
    }

    /// # Safety
    /// The arrays have the plan's sizes.
    unsafe fn run(
        &self,
        algorithm: &sys::cublasLtMatmulAlgo_t,
        arrays: &Arrays,
        stream: driver::sys::CUstream,
    ) -> Result<(), result::CublasError> {
        let (one, zero) = (1.0f32, 0.0f32);
        let [w, xs, out] = self.layouts;
        let at = |p: DevicePtr| p.0 as *mut c_void;
        // SAFETY: the plan's parts live, and the arrays are what the caller says.
        unsafe {
            result::matmul(
                self.handle,
                self.product,
                (&raw const one).cast(),
                (&raw const zero).cast(),
                at(arrays.w),
                w,
                at(arrays.xs),
                xs,
                at(arrays.out),
                out,
                at(arrays.out),
                out,
                algorithm,
                at(arrays.workspace),
                WORKSPACE_BYTES,
                stream.cast(),
            )
        }
    }
}

/// Why no time was measured.
#[derive(Debug)]
pub(super) enum Failure {
    /// It has no program for this product, or none for this GPU.
    Library,
    Device(driver::result::DriverError),
}

impl From<result::CublasError> for Failure {
    fn from(_: result::CublasError) -> Self {
        Self::Library
    }
}

impl From<driver::result::DriverError> for Failure {
    fn from(error: driver::result::DriverError) -> Self {
        Self::Device(error)
    }
}

/// Microseconds of a product of `[n_rows, n_cols]` with `[n_outputs, n_cols]`, on average after a warm-up.
///
/// # Safety
/// The arrays are of these sizes, the workspace of [`WORKSPACE_BYTES`]; the context of `stream` is current.
pub(super) unsafe fn time(
    stream: driver::sys::CUstream,
    arrays: &Arrays,
    (n_rows, n_cols, n_outputs): (usize, usize, usize),
) -> Result<f64, Failure> {
    use driver::result::{event, stream as streams};
    let plan = Plan::new(n_rows as u64, n_cols as u64, n_outputs as u64)?;
    let [w, xs, out] = plan.layouts;
    // SAFETY: the plan's parts live until the end of this function.
    let found = unsafe {
        result::get_matmul_algo_heuristic(plan.handle, plan.product, w, xs, out, out, plan.wishes)
    }?;
    let flags = driver::sys::CUevent_flags::CU_EVENT_DEFAULT;
    let (first, last) = (event::create(flags)?, event::create(flags)?);
    let measure = || {
        // SAFETY: the arrays are what the caller says; the events and the stream live.
        unsafe {
            for _ in 0..WARM_UPS {
                plan.run(&found.algo, arrays, stream)?;
            }
            event::record(first, stream)?;
            for _ in 0..REPS {
                plan.run(&found.algo, arrays, stream)?;
            }
            event::record(last, stream)?;
            streams::synchronize(stream)?;
            Ok(f64::from(event::elapsed(first, last)?) * 1e3 / REPS as f64)
        }
    };
    let us = measure();
    // SAFETY: made above, and nothing uses them any more.
    unsafe {
        let _ = event::destroy(first);
        let _ = event::destroy(last);
    }
    us
}
