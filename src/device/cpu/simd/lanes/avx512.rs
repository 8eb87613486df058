//! Lanes in one 512-bit register.
//!
//! # Place
//! Part of `device::cpu::simd::lanes`.
#![allow(unsafe_code)] // intrinsics

use std::arch::x86_64::*;

use super::{Kernel, Lanes};

#[derive(Clone, Copy)]
pub(super) struct Avx512(());

/// Compile and run `kernel` with these instructions.
///
/// # Safety
/// The machine has them.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
pub(super) unsafe fn run<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx512(()))
}

macro_rules! isa {
    ($e:expr) => {
        // SAFETY: an `Avx512` exists only after detection (`run`), and the expression touches
        // registers, or memory that the caller of an unsafe operation owns.
        unsafe { $e }
    };
}

impl Lanes for Avx512 {
    type F = __m512;
    type I = __m512i;

    const TILE_ROWS: usize = 12;
    const ATTENTION_ROWS: usize = 8;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        isa!(_mm512_set1_ps(x))
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        isa!(_mm512_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        isa!(_mm512_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        isa!(_mm512_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        isa!(_mm512_div_ps(a, b))
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        isa!(_mm512_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        isa!(_mm512_max_ps(a, b))
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        isa!(_mm512_min_ps(a, b))
    }
    #[inline(always)]
    fn abs(self, a: Self::F) -> Self::F {
        isa!(_mm512_abs_ps(a))
    }
    #[inline(always)]
    fn keep_ge(self, x: Self::F, limit: Self::F, y: Self::F) -> Self::F {
        isa!(_mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_GE_OQ>(x, limit), y))
    }
    #[inline(always)]
    fn select(self, bits: u16, a: Self::F, b: Self::F) -> Self::F {
        isa!(_mm512_mask_mov_ps(b, bits, a))
    }
    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        isa!({
            let a = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a));
            let a = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_add_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)))
        })
    }
    #[inline(always)]
    fn largest(self, a: Self::F) -> f32 {
        isa!({
            let a = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a));
            let a = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_max_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)))
        })
    }

    #[inline(always)]
    fn isplat(self, x: i32) -> Self::I {
        isa!(_mm512_set1_epi32(x))
    }
    #[inline(always)]
    fn iand(self, a: Self::I, b: Self::I) -> Self::I {
        isa!(_mm512_and_si512(a, b))
    }
    #[inline(always)]
    fn ior(self, a: Self::I, b: Self::I) -> Self::I {
        isa!(_mm512_or_si512(a, b))
    }
    #[inline(always)]
    fn ishr<const N: u32>(self, a: Self::I) -> Self::I {
        isa!(_mm512_srli_epi32::<N>(a))
    }
    #[inline(always)]
    fn ishl<const N: u32>(self, a: Self::I) -> Self::I {
        isa!(_mm512_slli_epi32::<N>(a))
    }
    #[inline(always)]
    fn ishl_by(self, a: Self::I, n: u32) -> Self::I {
        isa!(_mm512_sllv_epi32(a, _mm512_set1_epi32(n as i32)))
    }
    #[inline(always)]
    fn dot(self, _wide: bool, acc: Self::I, codes: Self::I, x: Self::I) -> Self::I {
        isa!(_mm512_dpbusd_epi32(acc, codes, x))
    }
    #[inline(always)]
    fn to_f(self, a: Self::I) -> Self::F {
        isa!(_mm512_cvtepi32_ps(a))
    }
    #[inline(always)]
    fn round(self, a: Self::F) -> Self::I {
        isa!(_mm512_cvtps_epi32(a))
    }
    #[inline(always)]
    fn exp2i(self, a: Self::I) -> Self::F {
        isa!(_mm512_castsi512_ps(_mm512_slli_epi32::<23>(_mm512_add_epi32(
            a,
            _mm512_set1_epi32(127)
        ))))
    }

    #[inline(always)]
    fn prefetch(self, p: *const u8) {
        isa!(_mm_prefetch::<_MM_HINT_T0>(p.cast()))
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> Self::F {
        isa!(_mm512_loadu_ps(p))
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, a: Self::F) {
        isa!(_mm512_storeu_ps(p, a))
    }
    #[inline(always)]
    unsafe fn iload(self, p: *const u8) -> Self::I {
        isa!(_mm512_loadu_si512(p.cast()))
    }
    #[inline(always)]
    unsafe fn istore(self, p: *mut u8, a: Self::I) {
        isa!(_mm512_storeu_si512(p.cast(), a))
    }
    #[inline(always)]
    unsafe fn load_f16(self, p: *const u16) -> Self::F {
        isa!(_mm512_cvtph_ps(_mm256_loadu_si256(p.cast())))
    }
    #[inline(always)]
    unsafe fn load_bf16(self, p: *const u16) -> Self::F {
        isa!({
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        })
    }
    #[inline(always)]
    unsafe fn load_u8(self, p: *const u8) -> Self::F {
        isa!(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast()))))
    }
    #[inline(always)]
    unsafe fn load_i8(self, p: *const i8) -> Self::F {
        isa!(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p.cast()))))
    }
    #[inline(always)]
    unsafe fn store_i8(self, p: *mut i8, a: Self::I) {
        isa!(_mm_storeu_si128(p.cast(), _mm512_cvtepi32_epi8(a)))
    }
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut u16, a: Self::F) {
        isa!({
            let narrow = _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a);
            _mm256_storeu_si256(p.cast(), narrow);
        })
    }
}
