//! Lanes in plain Rust, for machines without an instruction set of their own here.
//!
//! # Place
//! Part of `device::cpu::simd::lanes`.
#![allow(unsafe_code)] // the raw loads and stores of the trait

use half::{bf16, f16};

use super::{LANES, Lanes};

#[derive(Clone, Copy)]
pub(super) struct Scalar;

#[inline(always)]
fn each<A: Copy, T: Copy + Default>(a: [A; LANES], f: impl Fn(A) -> T) -> [T; LANES] {
    let mut out = [T::default(); LANES];
    for i in 0..LANES {
        out[i] = f(a[i]);
    }
    out
}

#[inline(always)]
fn both<A: Copy, T: Copy + Default>(
    a: [A; LANES],
    b: [A; LANES],
    f: impl Fn(A, A) -> T,
) -> [T; LANES] {
    let mut out = [T::default(); LANES];
    for i in 0..LANES {
        out[i] = f(a[i], b[i]);
    }
    out
}

impl Lanes for Scalar {
    type F = [f32; LANES];
    type I = [i32; LANES];

    const TILE_ROWS: usize = 4;
    const ATTENTION_ROWS: usize = 2;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        [x; LANES]
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        both(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        both(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        both(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        both(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        let mut out = c;
        for i in 0..LANES {
            out[i] = a[i].mul_add(b[i], c[i]);
        }
        out
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        both(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        both(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn abs(self, a: Self::F) -> Self::F {
        each(a, f32::abs)
    }
    #[inline(always)]
    fn keep_ge(self, x: Self::F, limit: Self::F, y: Self::F) -> Self::F {
        let mut out = y;
        for i in 0..LANES {
            out[i] = if x[i] >= limit[i] { y[i] } else { 0.0 };
        }
        out
    }
    #[inline(always)]
    fn select(self, bits: u16, a: Self::F, b: Self::F) -> Self::F {
        let mut out = b;
        for i in 0..LANES {
            if bits >> i & 1 == 1 {
                out[i] = a[i];
            }
        }
        out
    }
    #[inline(always)]
    fn sum(self, mut a: Self::F) -> f32 {
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                a[i] += a[i + half];
            }
        }
        a[0]
    }
    #[inline(always)]
    fn largest(self, mut a: Self::F) -> f32 {
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                a[i] = if a[i] > a[i + half] { a[i] } else { a[i + half] };
            }
        }
        a[0]
    }

    #[inline(always)]
    fn isplat(self, x: i32) -> Self::I {
        [x; LANES]
    }
    #[inline(always)]
    fn iand(self, a: Self::I, b: Self::I) -> Self::I {
        both(a, b, |a, b| a & b)
    }
    #[inline(always)]
    fn ior(self, a: Self::I, b: Self::I) -> Self::I {
        both(a, b, |a, b| a | b)
    }
    #[inline(always)]
    fn ishr<const N: u32>(self, a: Self::I) -> Self::I {
        each(a, |a| (a as u32 >> N) as i32)
    }
    #[inline(always)]
    fn ishl<const N: u32>(self, a: Self::I) -> Self::I {
        each(a, |a| a << N)
    }
    #[inline(always)]
    fn ishl_by(self, a: Self::I, n: u32) -> Self::I {
        each(a, |a| a << n)
    }
    #[inline(always)]
    fn dot(self, _wide: bool, acc: Self::I, codes: Self::I, x: Self::I) -> Self::I {
        let mut out = acc;
        for i in 0..LANES {
            let (codes, x) = (codes[i].to_le_bytes(), x[i].to_le_bytes());
            for k in 0..4 {
                out[i] += i32::from(codes[k]) * i32::from(x[k] as i8);
            }
        }
        out
    }
    #[inline(always)]
    fn to_f(self, a: Self::I) -> Self::F {
        each(a, |a| a as f32)
    }
    #[inline(always)]
    fn round(self, a: Self::F) -> Self::I {
        each(a, |a| a.round_ties_even() as i32)
    }
    #[inline(always)]
    fn exp2i(self, a: Self::I) -> Self::F {
        each(a, |a| f32::from_bits(((a + 127) << 23) as u32))
    }

    #[inline(always)]
    fn prefetch(self, _p: *const u8) {}
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> Self::F {
        // SAFETY: the caller owns 16 elements there.
        unsafe { p.cast::<Self::F>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, a: Self::F) {
        // SAFETY: the caller owns 16 elements there.
        unsafe { p.cast::<Self::F>().write_unaligned(a) }
    }
    #[inline(always)]
    unsafe fn iload(self, p: *const u8) -> Self::I {
        // SAFETY: the caller owns 64 bytes there.
        let bytes = unsafe { p.cast::<[[u8; 4]; LANES]>().read_unaligned() };
        each(bytes, i32::from_le_bytes)
    }
    #[inline(always)]
    unsafe fn istore(self, p: *mut u8, a: Self::I) {
        let bytes = each(a, i32::to_le_bytes);
        // SAFETY: the caller owns 64 bytes there.
        unsafe { p.cast::<[[u8; 4]; LANES]>().write_unaligned(bytes) }
    }
    #[inline(always)]
    unsafe fn load_f16(self, p: *const u16) -> Self::F {
        // SAFETY: the caller owns 16 elements there.
        let bits = unsafe { p.cast::<[u16; LANES]>().read_unaligned() };
        each(bits, |b| f16::from_bits(b).to_f32())
    }
    #[inline(always)]
    unsafe fn load_bf16(self, p: *const u16) -> Self::F {
        // SAFETY: the caller owns 16 elements there.
        let bits = unsafe { p.cast::<[u16; LANES]>().read_unaligned() };
        each(bits, |b| bf16::from_bits(b).to_f32())
    }
    #[inline(always)]
    unsafe fn load_u8(self, p: *const u8) -> Self::F {
        // SAFETY: the caller owns 16 elements there.
        each(unsafe { p.cast::<[u8; LANES]>().read_unaligned() }, f32::from)
    }
    #[inline(always)]
    unsafe fn load_i8(self, p: *const i8) -> Self::F {
        // SAFETY: the caller owns 16 elements there.
        each(unsafe { p.cast::<[i8; LANES]>().read_unaligned() }, f32::from)
    }
    #[inline(always)]
    unsafe fn store_i8(self, p: *mut i8, a: Self::I) {
        // SAFETY: the caller owns 16 elements there.
        unsafe { p.cast::<[i8; LANES]>().write_unaligned(each(a, |a| a as i8)) }
    }
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut u16, a: Self::F) {
        let bits = each(a, |a| f16::from_f32(a).to_bits());
        // SAFETY: the caller owns 16 elements there.
        unsafe { p.cast::<[u16; LANES]>().write_unaligned(bits) }
    }
}
