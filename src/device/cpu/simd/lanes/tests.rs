//! Every instruction set computes the same bits, and the exponential is accurate.
//!
//! # Place
//! Tests of `device::cpu::simd::lanes`.
#![allow(unsafe_code)] // raw loads and stores of test arrays

use super::*;

/// One result of every operation, as bits.
struct Everything {
    a: [f32; LANES],
    b: [f32; LANES],
    codes: [u8; 64],
}

impl Kernel for Everything {
    type Output = Vec<u32>;

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) -> Vec<u32> {
        let mut out = Vec::new();
        let mut keep = |f: S::F| {
            let mut lanes = [0.0f32; LANES];
            // SAFETY: sixteen elements.
            unsafe { s.store(lanes.as_mut_ptr(), f) };
            out.extend(lanes.map(f32::to_bits));
        };
        // SAFETY: arrays of sixteen elements or 64 bytes.
        let (a, b, codes) = unsafe {
            (s.load(self.a.as_ptr()), s.load(self.b.as_ptr()), s.iload(self.codes.as_ptr()))
        };
        keep(s.add(a, b));
        keep(s.sub(a, b));
        keep(s.mul(a, b));
        keep(s.div(a, b));
        keep(s.fma(a, b, a));
        keep(s.max(a, b));
        keep(s.min(a, b));
        keep(s.abs(a));
        keep(s.exp(a));
        keep(s.keep_ge(a, b, a));
        keep(s.select(0b1010_0110_1100_0001, a, b));
        keep(s.splat(s.sum(a)));
        keep(s.splat(s.largest(b)));
        let rounded = s.round(a);
        keep(s.to_f(rounded));
        keep(s.exp2i(s.round(b)));
        let low = s.iand(codes, s.isplat(0x7F7F_7F7F));
        let signed = s.ior(s.iand(codes, s.isplat(0x3F3F_3F3F)), s.isplat(0x4000_8000u32 as i32));
        keep(s.to_f(s.dot(false, s.isplat(5), low, signed)));
        keep(s.to_f(s.dot(true, rounded, codes, signed)));
        keep(s.to_f(s.ishr::<7>(codes)));
        keep(s.to_f(s.ishl::<5>(codes)));
        keep(s.to_f(s.ishl_by(rounded, 7)));
        let mut bytes = [0i8; 64];
        let mut halves = [0u16; LANES];
        // SAFETY: arrays of at least sixteen elements.
        unsafe {
            s.store_i8(bytes.as_mut_ptr(), rounded);
            keep(s.load_i8(bytes.as_ptr()));
            s.istore(bytes.as_mut_ptr().cast(), codes);
            keep(s.load_u8(bytes.as_ptr().add(40).cast()));
            s.store_f16(halves.as_mut_ptr(), a);
            keep(s.load_f16(halves.as_ptr()));
            keep(s.load_bf16(halves.as_ptr()));
        }
        out
    }
}

#[test]
fn every_instruction_set_computes_the_same_bits() {
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    for round in 0..200 {
        let scale = [1.0, 100.0, 1e-3, 127.0][round % 4];
        let a = [0.0; LANES].map(|_: f32| random() * scale);
        let b = [0.0; LANES].map(|_: f32| random() * scale.min(120.0));
        let codes = [0u8; 64].map(|_| (random() * 128.0 + 128.0) as u8);
        let want = dispatch(Isa::Scalar, Everything { a, b, codes });
        for isa in Isa::ALL {
            if isa.is_available() {
                let got = dispatch(isa, Everything { a, b, codes });
                for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                    assert_eq!(got, want, "{}: operation {}, lane {}", isa.name(), i / 16, i % 16);
                }
            }
        }
    }
}

struct Exp([f32; LANES]);

impl Kernel for Exp {
    type Output = [f32; LANES];

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) -> [f32; LANES] {
        let mut out = self.0;
        // SAFETY: sixteen elements.
        unsafe { s.store(out.as_mut_ptr(), s.exp(s.load(out.as_ptr()))) };
        out
    }
}

#[test]
fn the_exponential_is_accurate_and_ends_in_zero() {
    for i in 0..20_000 {
        let x = -87.0 + i as f32 * (175.0 / 20_000.0);
        let [got, ..] = dispatch(Isa::best(), Exp([x; LANES]));
        let want = f64::from(x).exp();
        let error = (f64::from(got) - want).abs() / want;
        assert!(error < 2e-7, "e^{x} is {got}, off by {error}");
    }
    let got = dispatch(Isa::best(), Exp([f32::NEG_INFINITY; LANES]));
    assert_eq!(got, [0.0; LANES]);
    assert_eq!(dispatch(Isa::best(), Exp([0.0; LANES])), [1.0; LANES]);
}
