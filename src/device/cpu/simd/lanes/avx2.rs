//! Lanes in two 256-bit registers, with or without AVX-VNNI's byte products.
//!
//! # Place
//! Part of `device::cpu::simd::lanes`.
#![allow(unsafe_code)] // intrinsics

use std::arch::x86_64::*;

use super::{Kernel, Lanes};

/// `VNNI`: the machine multiplies and adds bytes in one instruction.
#[derive(Clone, Copy)]
pub(super) struct Avx2<const VNNI: bool>(());

/// Compile and run `kernel` with these instructions.
///
/// # Safety
/// The machine has them.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn run<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx2::<false>(()))
}

/// Compile and run `kernel` with these instructions and AVX-VNNI.
///
/// # Safety
/// The machine has them.
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
pub(super) unsafe fn run_vnni<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx2::<true>(()))
}

macro_rules! isa {
    ($e:expr) => {
        // SAFETY: an `Avx2` exists only after detection (the functions above), and the expression touches
        // registers, or memory that the caller of an unsafe operation owns.
        unsafe { $e }
    };
}

impl<const VNNI: bool> Lanes for Avx2<VNNI> {
    type F = [__m256; 2];
    type I = [__m256i; 2];

    const TILE_ROWS: usize = 4;
    const ATTENTION_ROWS: usize = 2;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        isa!([_mm256_set1_ps(x); 2])
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        isa!([_mm256_add_ps(a[0], b[0]), _mm256_add_ps(a[1], b[1])])
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        isa!([_mm256_sub_ps(a[0], b[0]), _mm256_sub_ps(a[1], b[1])])
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        isa!([_mm256_mul_ps(a[0], b[0]), _mm256_mul_ps(a[1], b[1])])
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        isa!([_mm256_div_ps(a[0], b[0]), _mm256_div_ps(a[1], b[1])])
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        isa!([_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1])])
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        isa!([_mm256_max_ps(a[0], b[0]), _mm256_max_ps(a[1], b[1])])
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        isa!([_mm256_min_ps(a[0], b[0]), _mm256_min_ps(a[1], b[1])])
    }
    #[inline(always)]
    fn abs(self, a: Self::F) -> Self::F {
        isa!({
            let sign = _mm256_set1_ps(-0.0);
            [_mm256_andnot_ps(sign, a[0]), _mm256_andnot_ps(sign, a[1])]
        })
    }
    #[inline(always)]
    fn keep_ge(self, x: Self::F, limit: Self::F, y: Self::F) -> Self::F {
        isa!([
            _mm256_and_ps(_mm256_cmp_ps::<_CMP_GE_OQ>(x[0], limit[0]), y[0]),
            _mm256_and_ps(_mm256_cmp_ps::<_CMP_GE_OQ>(x[1], limit[1]), y[1])
        ])
    }
    #[inline(always)]
    fn select(self, bits: u16, a: Self::F, b: Self::F) -> Self::F {
        isa!({
            let lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            let pick = |bits: i32, a, b| {
                let set = _mm256_and_si256(_mm256_set1_epi32(bits), lane);
                let set = _mm256_cmpeq_epi32(set, lane);
                _mm256_blendv_ps(b, a, _mm256_castsi256_ps(set))
            };
            [pick(i32::from(bits & 255), a[0], b[0]), pick(i32::from(bits >> 8), a[1], b[1])]
        })
    }
    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        isa!({
            let a = _mm256_add_ps(a[0], a[1]);
            let a = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_add_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)))
        })
    }
    #[inline(always)]
    fn largest(self, a: Self::F) -> f32 {
        isa!({
            let a = _mm256_max_ps(a[0], a[1]);
            let a = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_max_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)))
        })
    }

    #[inline(always)]
    fn isplat(self, x: i32) -> Self::I {
        isa!([_mm256_set1_epi32(x); 2])
    }
    #[inline(always)]
    fn iand(self, a: Self::I, b: Self::I) -> Self::I {
        isa!([_mm256_and_si256(a[0], b[0]), _mm256_and_si256(a[1], b[1])])
    }
    #[inline(always)]
    fn ior(self, a: Self::I, b: Self::I) -> Self::I {
        isa!([_mm256_or_si256(a[0], b[0]), _mm256_or_si256(a[1], b[1])])
    }
    #[inline(always)]
    fn ishr<const N: u32>(self, a: Self::I) -> Self::I {
        isa!({
            let n = _mm_cvtsi32_si128(N as i32);
            [_mm256_srl_epi32(a[0], n), _mm256_srl_epi32(a[1], n)]
        })
    }
    #[inline(always)]
    fn ishl<const N: u32>(self, a: Self::I) -> Self::I {
        self.ishl_by(a, N)
    }
    #[inline(always)]
    fn ishl_by(self, a: Self::I, n: u32) -> Self::I {
        isa!({
            let n = _mm_cvtsi32_si128(n as i32);
            [_mm256_sll_epi32(a[0], n), _mm256_sll_epi32(a[1], n)]
        })
    }
    #[inline(always)]
    fn dot(self, wide: bool, acc: Self::I, codes: Self::I, x: Self::I) -> Self::I {
        if VNNI {
            return isa!([
                _mm256_dpbusd_avx_epi32(acc[0], codes[0], x[0]),
                _mm256_dpbusd_avx_epi32(acc[1], codes[1], x[1])
            ]);
        }
        isa!({
            // `maddubs` adds pairs in i16 with saturation: two products of a code up to 127 and a
            // byte down to −127 always fit, wider codes go in two parts.
            let ones = _mm256_set1_epi16(1);
            let low = _mm256_set1_epi8(127);
            let one = |acc: __m256i, codes: __m256i, x: __m256i| {
                let narrow = if wide { _mm256_and_si256(codes, low) } else { codes };
                let pairs = _mm256_maddubs_epi16(narrow, x);
                let mut acc = _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, ones));
                if wide {
                    let top = _mm256_and_si256(_mm256_srli_epi16::<7>(codes), _mm256_set1_epi8(1));
                    let pairs = _mm256_maddubs_epi16(top, x);
                    let pairs = _mm256_madd_epi16(pairs, _mm256_set1_epi16(128));
                    acc = _mm256_add_epi32(acc, pairs);
                }
                acc
            };
            [one(acc[0], codes[0], x[0]), one(acc[1], codes[1], x[1])]
        })
    }
    #[inline(always)]
    fn to_f(self, a: Self::I) -> Self::F {
        isa!([_mm256_cvtepi32_ps(a[0]), _mm256_cvtepi32_ps(a[1])])
    }
    #[inline(always)]
    fn round(self, a: Self::F) -> Self::I {
        isa!([_mm256_cvtps_epi32(a[0]), _mm256_cvtps_epi32(a[1])])
    }
    #[inline(always)]
    fn exp2i(self, a: Self::I) -> Self::F {
        isa!({
            let bias = _mm256_set1_epi32(127);
            [
                _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(a[0], bias))),
                _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(a[1], bias))),
            ]
        })
    }

    #[inline(always)]
    fn prefetch(self, p: *const u8) {
        isa!(_mm_prefetch::<_MM_HINT_T0>(p.cast()))
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> Self::F {
        isa!([_mm256_loadu_ps(p), _mm256_loadu_ps(p.add(8))])
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, a: Self::F) {
        isa!({
            _mm256_storeu_ps(p, a[0]);
            _mm256_storeu_ps(p.add(8), a[1]);
        })
    }
    #[inline(always)]
    unsafe fn iload(self, p: *const u8) -> Self::I {
        isa!([_mm256_loadu_si256(p.cast()), _mm256_loadu_si256(p.add(32).cast())])
    }
    #[inline(always)]
    unsafe fn istore(self, p: *mut u8, a: Self::I) {
        isa!({
            _mm256_storeu_si256(p.cast(), a[0]);
            _mm256_storeu_si256(p.add(32).cast(), a[1]);
        })
    }
    #[inline(always)]
    unsafe fn load_f16(self, p: *const u16) -> Self::F {
        isa!([
            _mm256_cvtph_ps(_mm_loadu_si128(p.cast())),
            _mm256_cvtph_ps(_mm_loadu_si128(p.add(8).cast()))
        ])
    }
    #[inline(always)]
    unsafe fn load_bf16(self, p: *const u16) -> Self::F {
        isa!({
            let half = |p: *const u16| {
                let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()));
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
            };
            [half(p), half(p.add(8))]
        })
    }
    #[inline(always)]
    unsafe fn load_u8(self, p: *const u8) -> Self::F {
        isa!([
            _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(p.cast()))),
            _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(p.add(8).cast())))
        ])
    }
    #[inline(always)]
    unsafe fn load_i8(self, p: *const i8) -> Self::F {
        isa!([
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p.cast()))),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p.add(8).cast())))
        ])
    }
    #[inline(always)]
    unsafe fn store_i8(self, p: *mut i8, a: Self::I) {
        isa!({
            let low = _mm256_set1_epi32(255);
            // Packing works within halves of 128 bits; the permutation puts the quarters in order.
            let words =
                _mm256_packus_epi32(_mm256_and_si256(a[0], low), _mm256_and_si256(a[1], low));
            let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(words);
            let bytes = _mm_packus_epi16(
                _mm256_castsi256_si128(words),
                _mm256_extracti128_si256::<1>(words),
            );
            _mm_storeu_si128(p.cast(), bytes);
        })
    }
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut u16, a: Self::F) {
        isa!({
            let low = _mm256_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT }>(a[0]);
            let high = _mm256_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT }>(a[1]);
            _mm_storeu_si128(p.cast(), low);
            _mm_storeu_si128(p.add(8).cast(), high);
        })
    }
}
