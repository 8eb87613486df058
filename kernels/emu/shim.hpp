// shim.hpp: the machine of common/portable.cuh on a host, for tests: one fiber for each thread of a block.
// Place      Included by portable.cuh when TETHER_EMU is defined; emu.cpp runs the fibers. Nothing here is quick by
//            accident: a fiber runs until it meets a barrier, shuffle, vote, matrix load or product, or copy wait.
// Invariants Every load, store and copy lies in a buffer of the launch or in the block's shared memory, is aligned, and
//            is refused otherwise. Shared memory starts as 0xff bytes, so that a value nobody wrote is a NaN. An
//            asynchronous copy moves its bytes only when it is waited for.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#define DEVICE inline

typedef uint8_t u8;
typedef int8_t i8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef int32_t i32;
typedef unsigned long long u64;

struct alignas(8) Words2 { u32 x, y; };
struct alignas(16) Words4 { u32 x, y, z, w; };
struct alignas(8) Floats2 { float x, y; };
struct alignas(16) Floats4 { float x, y, z, w; };

namespace emu {

/// What the fiber that runs now may know of itself.
struct Self {
    u32 thread, block[3], grid[3], n_threads;
    u8* shared;
    u32 n_shared;
};
extern thread_local Self self;

/// A collective operation of a warp: run once, when all 32 lanes have come, with what each of them brought.
using WarpOp = void (*)(void* const (&lanes)[32]);

/// Refuse an access that is misaligned or lies outside of every buffer; does not return then.
void check_access(const void* p, size_t n_bytes, size_t alignment, bool is_write);
void meet_warp(WarpOp op, void* mine);
void meet_block();
void start_copy(void* to_shared, const void* from, bool wanted);
void commit_copies();
void wait_copies(u32 n_pending);

void op_sync(void* const (&lanes)[32]);
void op_shuffle_xor(void* const (&lanes)[32]);
void op_shuffle(void* const (&lanes)[32]);
void op_matrix4(void* const (&lanes)[32]);
void op_matrix4_transposed(void* const (&lanes)[32]);
void op_mma_bf16(void* const (&lanes)[32]);
void op_mma_f16(void* const (&lanes)[32]);

struct Shuffle { u32 value, arg; };
struct Matrix4 { const u8* row; u32* r; };
struct Mma { float* c; u32 a[4]; u32 b[2]; };

u16 float_f16(float v);
float f16_float(u16 bits);

}  // namespace emu

namespace dev {

DEVICE u32 thread() { return emu::self.thread; }
DEVICE u32 lane() { return emu::self.thread & 31; }
DEVICE u32 warp() { return emu::self.thread >> 5; }
DEVICE u32 block_x() { return emu::self.block[0]; }
DEVICE u32 block_y() { return emu::self.block[1]; }
DEVICE u32 block_z() { return emu::self.block[2]; }
DEVICE u32 n_threads() { return emu::self.n_threads; }
DEVICE u32 grid_x() { return emu::self.grid[0]; }

template <class T> DEVICE T load(const T* p) {
    emu::check_access(p, sizeof(T), alignof(T), false);
    return *p;
}
template <class T> DEVICE T load_once(const T* p) { return load(p); }
template <class T> DEVICE void store(T* p, T value) {
    emu::check_access(p, sizeof(T), alignof(T), true);
    *p = value;
}
DEVICE u8* shared() { return emu::self.shared; }
DEVICE void copy_async16(void* to_shared, const void* from, bool wanted) { emu::start_copy(to_shared, from, wanted); }
DEVICE void copy_commit() { emu::commit_copies(); }
template <int N> DEVICE void copy_wait() { emu::wait_copies(N); }

DEVICE void block_sync() { emu::meet_block(); }
DEVICE void warp_sync() {
    u32 nothing = 0;
    emu::meet_warp(emu::op_sync, &nothing);
}

DEVICE float bits_float(u32 bits) {
    float v;
    std::memcpy(&v, &bits, 4);
    return v;
}
DEVICE u32 float_bits(float v) {
    u32 bits;
    std::memcpy(&bits, &v, 4);
    return bits;
}

DEVICE u32 shuffle_xor(u32 v, u32 mask) {
    emu::Shuffle s = {v, mask};
    emu::meet_warp(emu::op_shuffle_xor, &s);
    return s.value;
}
DEVICE float shuffle_xor(float v, u32 mask) { return bits_float(shuffle_xor(float_bits(v), mask)); }
DEVICE float shuffle(float v, u32 from) {
    emu::Shuffle s = {float_bits(v), from};
    emu::meet_warp(emu::op_shuffle, &s);
    return bits_float(s.value);
}
DEVICE void load_matrix4(u32 (&r)[4], const void* row) {
    emu::check_access(row, 16, 16, false);
    emu::Matrix4 m = {static_cast<const u8*>(row), r};
    emu::meet_warp(emu::op_matrix4, &m);
}
DEVICE void load_matrix4_transposed(u32 (&r)[4], const void* row) {
    emu::check_access(row, 16, 16, false);
    emu::Matrix4 m = {static_cast<const u8*>(row), r};
    emu::meet_warp(emu::op_matrix4_transposed, &m);
}
DEVICE void mma_bf16(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    emu::Mma m = {c, {a0, a1, a2, a3}, {b0, b1}};
    emu::meet_warp(emu::op_mma_bf16, &m);
}
DEVICE void mma_f16(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    emu::Mma m = {c, {a0, a1, a2, a3}, {b0, b1}};
    emu::meet_warp(emu::op_mma_f16, &m);
}

DEVICE float fma(float a, float b, float c) { return std::fma(a, b, c); }
DEVICE float max(float a, float b) { return std::fmax(a, b); }
DEVICE float round(float v) { return std::nearbyint(v); }
DEVICE float divide(float a, float b) { return a / b; }
DEVICE float inverse_sqrt(float v) { return 1.0f / std::sqrt(v); }
DEVICE float exp2(float v) { return std::exp2(v); }
DEVICE float infinity() { return INFINITY; }
DEVICE bool is_nan(float v) { return v != v; }

DEVICE u32 bf16_bits(float v) {
    const u32 bits = float_bits(v);
    if (v != v) return bits >> 16 | 0x40;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
DEVICE u32 pack_bf16(float low, float high) { return bf16_bits(low) | bf16_bits(high) << 16; }
DEVICE u32 pack_f16(float low, float high) {
    return emu::float_f16(low) | static_cast<u32>(emu::float_f16(high)) << 16;
}
DEVICE float f16_float(u16 bits) { return emu::f16_float(bits); }

}  // namespace dev
