//! Sixteen lanes of f32 or i32, whatever the machine has to hold them.
//!
//! # Place
//! Part of `device::cpu::simd`. Every kernel is written once over [`Lanes`] and compiled for each
//! instruction set by [`dispatch`]; nothing else in the crate names an intrinsic.
//! # Invariants
//! - A value of a [`Lanes`] type is a proof that the machine has its instructions: only
//!   [`dispatch`] makes one, after detection. That is what makes the register operations safe.
//! - Every operation gives the same bits on every instruction set: multiply-add is always fused,
//!   conversions round to nearest even, reductions add in one fixed tree. Kernels that keep one
//!   order therefore give the same result on every machine.
//! # Shapes and units
//! `F` is 16 × f32; `I` is 64 bytes, seen as 16 × i32 or as 64 codes (4 neighbouring bytes a lane).
#![allow(unsafe_code)] // intrinsics and raw loads

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod scalar;

/// Lanes of a vector.
pub(crate) const LANES: usize = 16;

/// An instruction set that the SIMD backend has kernels for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// Plain Rust: any machine.
    Scalar,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX2 and AVX-VNNI.
    Avx2Vnni,
    /// AVX-512 F, BW, VL, DQ and VNNI.
    Avx512,
}

impl Isa {
    /// All of them, the plainest first.
    pub const ALL: [Self; 4] = [Self::Scalar, Self::Avx2, Self::Avx2Vnni, Self::Avx512];

    /// Whether this machine can run it.
    pub fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2Vnni => Self::Avx2.is_available() && is_x86_feature_detected!("avxvnni"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                Self::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vnni")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx2Vnni | Self::Avx512 => false,
        }
    }

    /// The widest instruction set of this machine.
    pub fn best() -> Self {
        [Self::Avx512, Self::Avx2Vnni, Self::Avx2]
            .into_iter()
            .find(|isa| isa.is_available())
            .unwrap_or(Self::Scalar)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx2Vnni => "avx2-vnni",
            Self::Avx512 => "avx512-vnni",
        }
    }
}

/// Work that [`dispatch`] compiles for an instruction set. `run` and what it calls must be
/// `#[inline(always)]`, or the intrinsics become calls.
pub(crate) trait Kernel {
    type Output;
    fn run<S: Lanes>(self, s: S) -> Self::Output;
}

/// Ask for `n_bytes` from `at` on, which will be read soon and in this order.
pub(super) fn ask_for(isa: Isa, at: *const u8, n_bytes: usize) {
    struct Ask(*const u8, usize);
    impl Kernel for Ask {
        type Output = ();
        #[inline(always)]
        fn run<S: Lanes>(self, s: S) {
            for line in 0..self.1 / 64 {
                s.prefetch(self.0.wrapping_add(line * 64));
            }
        }
    }
    dispatch(isa, Ask(at, n_bytes));
}

/// Run `kernel` with the instructions of `isa`.
///
/// # Panics
/// When the machine does not have them; a backend checks that once, when it is made.
pub(crate) fn dispatch<K: Kernel>(isa: Isa, kernel: K) -> K::Output {
    debug_assert!(isa.is_available());
    match isa {
        Isa::Scalar => kernel.run(scalar::Scalar),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: backends check `is_available` when they are made.
        Isa::Avx2 => unsafe { avx2::run(kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: backends check `is_available` when they are made.
        Isa::Avx2Vnni => unsafe { avx2::run_vnni(kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: backends check `is_available` when they are made.
        Isa::Avx512 => unsafe { avx512::run(kernel) },
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Avx2 | Isa::Avx2Vnni | Isa::Avx512 => {
            panic!("{} is not an instruction set of this machine", isa.name())
        }
    }
}

/// Operations on sixteen lanes.
///
/// # Safety of the pointer operations
/// `load*`/`store*` read or write the 16 elements (64 bytes for `iload`) at the pointer, at any
/// alignment; the caller owns them.
pub(crate) trait Lanes: Copy + Send + Sync + 'static {
    type F: Copy;
    type I: Copy;

    /// Most activation rows that a matrix kernel keeps in registers.
    const TILE_ROWS: usize;
    /// Most query rows that an attention kernel keeps in registers.
    const ATTENTION_ROWS: usize;

    fn splat(self, x: f32) -> Self::F;
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a · b + c`, rounded once.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `a` where `a > b`, else `b` (so a NaN in `a` is dropped).
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a` where `a < b`, else `b`.
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    fn abs(self, a: Self::F) -> Self::F;
    /// `y` where `x >= limit`, else 0.
    fn keep_ge(self, x: Self::F, limit: Self::F, y: Self::F) -> Self::F;
    /// `a` where the lane's bit is set, else `b`.
    fn select(self, bits: u16, a: Self::F, b: Self::F) -> Self::F;
    /// Sum in the tree (i, i+8), (i, i+4), (i, i+2), (i, i+1).
    fn sum(self, a: Self::F) -> f32;
    fn largest(self, a: Self::F) -> f32;

    fn isplat(self, x: i32) -> Self::I;
    fn iand(self, a: Self::I, b: Self::I) -> Self::I;
    fn ior(self, a: Self::I, b: Self::I) -> Self::I;
    fn ishr<const N: u32>(self, a: Self::I) -> Self::I;
    fn ishl<const N: u32>(self, a: Self::I) -> Self::I;
    /// Shift left by the same run-time count in every lane.
    fn ishl_by(self, a: Self::I, n: u32) -> Self::I;
    /// Lane-wise `acc + Σ codes · x` over four unsigned codes and four signed bytes in −127..=127.
    /// `wide`: codes may exceed 127.
    fn dot(self, wide: bool, acc: Self::I, codes: Self::I, x: Self::I) -> Self::I;
    /// i32 to f32, rounded to nearest even.
    fn to_f(self, a: Self::I) -> Self::F;
    /// f32 to i32, rounded to nearest even; values must fit.
    fn round(self, a: Self::F) -> Self::I;
    /// 2^a for integers −126..=127.
    fn exp2i(self, a: Self::I) -> Self::F;

    /// Ask for the cache line at `p`, which need not be memory.
    fn prefetch(self, p: *const u8);
    /// # Safety
    /// See the trait.
    unsafe fn load(self, p: *const f32) -> Self::F;
    /// # Safety
    /// See the trait.
    unsafe fn store(self, p: *mut f32, a: Self::F);
    /// # Safety
    /// See the trait.
    unsafe fn iload(self, p: *const u8) -> Self::I;
    /// # Safety
    /// See the trait.
    unsafe fn istore(self, p: *mut u8, a: Self::I);
    /// # Safety
    /// See the trait.
    unsafe fn load_f16(self, p: *const u16) -> Self::F;
    /// # Safety
    /// See the trait.
    unsafe fn load_bf16(self, p: *const u16) -> Self::F;
    /// # Safety
    /// See the trait.
    unsafe fn load_u8(self, p: *const u8) -> Self::F;
    /// # Safety
    /// See the trait.
    unsafe fn load_i8(self, p: *const i8) -> Self::F;
    /// The low byte of every lane.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn store_i8(self, p: *mut i8, a: Self::I);
    /// # Safety
    /// See the trait.
    unsafe fn store_f16(self, p: *mut u16, a: Self::F);

    /// e^x with a relative error below 2e-7; 0 below −87.3 (minus infinity included), x at most 88.
    #[inline(always)]
    fn exp(self, x: Self::F) -> Self::F {
        // x = n·ln 2 + r with |r| <= ln 2 / 2, then a polynomial in r (Taylor to r⁷, whose first
        // missing term is below 6e-9) and a shift of the exponent.
        let clamped = self.min(self.max(x, self.splat(-87.3)), self.splat(88.0));
        let n = self.round(self.mul(clamped, self.splat(std::f32::consts::LOG2_E)));
        let nf = self.to_f(n);
        let r = self.fma(nf, self.splat(-0.693_359_4), clamped);
        let r = self.fma(nf, self.splat(2.121_944_4e-4), r);
        let mut p = self.splat(1.0 / 5040.0);
        for c in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
            p = self.fma(p, r, self.splat(c));
        }
        self.keep_ge(x, self.splat(-87.3), self.mul(p, self.exp2i(n)))
    }
}

#[cfg(test)]
mod tests;
