// portable.cuh: everything a kernel may ask of the machine, under one name on every compiler.
// Place      Included by every kernel, which uses nothing else of CUDA: no builtin variable, no intrinsic, no header of
//            the toolkit. nvcc and NVRTC compile the definitions below; the host compiler those of emu/shim.hpp.
// Invariants Collective calls (marked) are made by all 32 lanes of a warp, or all threads of a block, together.
//            Memory is only touched through load, store and copy_async, which the emulator checks.
#pragma once

#if defined(TETHER_EMU)
#include "emu/shim.hpp"
#else

#define DEVICE __device__ __forceinline__

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;

/// 8 and 16 bytes that travel as one access.
struct __align__(8) Words2 { u32 x, y; };
struct __align__(16) Words4 { u32 x, y, z, w; };
struct __align__(8) Floats2 { float x, y; };
struct __align__(16) Floats4 { float x, y, z, w; };

namespace dev {

// ---- where a thread stands ----
DEVICE u32 thread() { return threadIdx.x; }
DEVICE u32 lane() { return threadIdx.x & 31; }
DEVICE u32 warp() { return threadIdx.x >> 5; }
DEVICE u32 block_x() { return blockIdx.x; }
DEVICE u32 block_y() { return blockIdx.y; }
DEVICE u32 block_z() { return blockIdx.z; }
DEVICE u32 n_threads() { return blockDim.x; }
DEVICE u32 grid_x() { return gridDim.x; }

// ---- memory ----
template <class T> DEVICE T load(const T* p) { return *p; }
template <class T> DEVICE void store(T* p, T value) { *p = value; }

/// Data that this launch reads once: not kept in the first-level cache.
DEVICE Words4 load_once(const Words4* p) {
    Words4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}
DEVICE Words2 load_once(const Words2* p) {
    Words2 v;
    asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
    return v;
}
DEVICE Floats4 load_once(const Floats4* p) {
    const Words4 v = load_once(reinterpret_cast<const Words4*>(p));
    return {__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z), __uint_as_float(v.w)};
}
template <class T> DEVICE T load_once(const T* p) { return __ldg(p); }

/// The block's shared memory, as large as the launch asked for; its contents are undefined at first.
DEVICE u8* shared() {
    extern __shared__ __align__(128) u8 shared_bytes[];
    return shared_bytes;
}

/// Start a copy of 16 bytes from global to shared memory; zeros arrive when `wanted` is false. The data is there
/// after copy_wait, and for other threads after the next barrier.
DEVICE void copy_async16(void* to_shared, const void* from, bool wanted) {
    const u32 to = static_cast<u32>(__cvta_generic_to_shared(to_shared));
    const u32 n_bytes = wanted ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(n_bytes) : "memory");
}
/// The copies started since the last commit become one group.
DEVICE void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Wait until at most `N` groups of this thread are under way.
template <int N> DEVICE void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// ---- collective: all threads of the block, or all lanes of the warp ----
DEVICE void block_sync() { __syncthreads(); }
DEVICE void warp_sync() { __syncwarp(); }
DEVICE float shuffle_xor(float v, u32 mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
DEVICE u32 shuffle_xor(u32 v, u32 mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
DEVICE float shuffle(float v, u32 from) { return __shfl_sync(0xffffffffu, v, from); }

/// Four 8x8 matrices of 16-bit elements from shared memory: lane 8i + j gives the address of row j of matrix i, and
/// gets in r[i] the elements 2(lane % 4) and + 1 of row lane / 4.
DEVICE void load_matrix4(u32 (&r)[4], const void* row) {
    const u32 at = static_cast<u32>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
/// The same, transposed: r[i] holds rows 2(lane % 4) and + 1 of column lane / 4.
DEVICE void load_matrix4_transposed(u32 (&r)[4], const void* row) {
    const u32 at = static_cast<u32>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}

/// c[16, 8] += a[16, 16] b[16, 8] with 32-bit sums. Lane 4g + t holds of a the pairs (g, 2t), (g + 8, 2t),
/// (g, 2t + 8), (g + 8, 2t + 8), of b the pairs (2t, g), (2t + 8, g), of c the elements (g, 2t), (g, 2t + 1),
/// (g + 8, 2t), (g + 8, 2t + 1).
DEVICE void mma_bf16(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
DEVICE void mma_f16(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// ---- arithmetic ----
DEVICE float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
DEVICE float max(float a, float b) { return fmaxf(a, b); }
DEVICE float round(float v) { return rintf(v); }
DEVICE float divide(float a, float b) { return __fdiv_rn(a, b); }
DEVICE float inverse_sqrt(float v) { return __fdiv_rn(1.0f, __fsqrt_rn(v)); }
/// 2 to the power v; 0 for minus infinity.
DEVICE float exp2(float v) {
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}
DEVICE float infinity() { return __int_as_float(0x7f800000); }
DEVICE bool is_nan(float v) { return v != v; }
DEVICE float bits_float(u32 bits) { return __uint_as_float(bits); }
DEVICE u32 float_bits(float v) { return __float_as_uint(v); }

/// Two floats, rounded to nearest even, in one word: `low` in the low half.
DEVICE u32 pack_bf16(float low, float high) {
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}
DEVICE u32 pack_f16(float low, float high) {
    u32 r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}
DEVICE float f16_float(u16 bits) {
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(bits));
    return r;
}

}  // namespace dev
#endif

namespace dev {

DEVICE float bf16_low(u32 pair) { return bits_float(pair << 16); }
DEVICE float bf16_high(u32 pair) { return bits_float(pair & 0xffff0000u); }
DEVICE float f16_low(u32 pair) { return f16_float(static_cast<u16>(pair)); }
DEVICE float f16_high(u32 pair) { return f16_float(static_cast<u16>(pair >> 16)); }

/// Sum over the warp, the same in every lane, in one fixed order. Collective.
DEVICE float warp_sum(float v) {
    for (u32 mask = 16; mask > 0; mask /= 2) v += shuffle_xor(v, mask);
    return v;
}
DEVICE float warp_max(float v) {
    for (u32 mask = 16; mask > 0; mask /= 2) v = max(v, shuffle_xor(v, mask));
    return v;
}

}  // namespace dev
