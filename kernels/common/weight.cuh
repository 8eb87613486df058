// weight.cuh: how weights lie on the device, and how a lane turns its share of them into numbers.
// Place      Used by matvec, product and embed. The host writes this layout in src/device/cuda/pack.rs.
// Shapes     A matrix [R, K] is cut into tiles of 16 rows and 32 columns; edges are filled with zero codes. Tiles lie
//            in order [row tile][column tile]. Lane 4g + t of a warp owns the columns 8t .. 8t + 7 of the rows g and
//            g + 8 of a tile, so its codes are one aligned access, a warp's are contiguous, and the lane holds what
//            mma_bf16 wants from it: the columns of a tile are dealt to the two products of a tile in the order
//            PAIRS, which is the same for weights and activations and so only renames the summation index.
//            Scales of a tile follow in an array of their own; K types have one more, for eight tiles at a time.
// Types      Weights stay as the file has them; K types store their six-bit scales as bytes. A weight is computed in
//            f32 and rounded to bf16 for the product; an f16 weight is the sum of two bf16.
// Source     Block formats: the GGUF specification, as read by src/device/cpu/quant. No code adapted.
#pragma once
#include "common/portable.cuh"

/// The three arrays of a matrix. `n_k_tiles` is the number of 32-column tiles of a row.
struct WeightView {
    const u8* codes;
    const u8* scales;
    const u8* supers;
    u32 n_k_tiles;
    u32 n_rows;
};

constexpr u32 TILE_ROWS = 16;
constexpr u32 TILE_COLS = 32;
/// Column tiles that share one entry of `supers`.
constexpr u32 SUPER_TILES = 8;
/// Every sum over columns is made of this many consecutive parts, added in order, whatever kernel computes it.
constexpr u32 N_SLICES = 8;

DEVICE u32 slice_tiles(u32 n_k_tiles) { return (n_k_tiles + N_SLICES - 1) / N_SLICES; }

/// Memory that a kernel streams through, and memory that it comes back to.
struct Once {
    template <class T> DEVICE static T load(const u8* p) { return dev::load_once(reinterpret_cast<const T*>(p)); }
};
struct Kept {
    template <class T> DEVICE static T load(const u8* p) { return dev::load(reinterpret_cast<const T*>(p)); }
};

/// The 16 weights of a lane as pairs: a[0..4] columns 8t .. 8t + 7 of row g, a[4..8] of row g + 8.
struct Pairs {
    u32 a[8];
};

DEVICE Pairs round_pairs(const float (&v)[16]) {
    Pairs p;
#pragma unroll
    for (int i = 0; i < 8; ++i) p.a[i] = dev::pack_bf16(v[2 * i], v[2 * i + 1]);
    return p;
}

/// The weights of a Raw as bf16, by way of their f32 values.
template <class Format> DEVICE Pairs rounded(const typename Format::Raw& r, u32 lane) {
    float v[16];
    Format::values(r, lane, v);
    return round_pairs(v);
}

// Each format has the bytes of a tile in the three arrays, what a lane reads of it (Raw), and the weights of a Raw. A
// format whose weights bf16 does not hold has a REST: what rounding took away, multiplied in a second product.

struct Rounded {
    static constexpr bool HAS_REST = false;
};

struct Bf16 : Rounded {
    static constexpr u32 CODE_BYTES = 1024, SCALE_BYTES = 0, SUPER_BYTES = 0;
    struct Raw { Words4 low, high; };

    template <class Memory> DEVICE static Raw read(const u8* codes, const u8*, const u8*, u32 lane) {
        return {Memory::template load<Words4>(codes + 16 * lane), Memory::template load<Words4>(codes + 512 + 16 * lane)};
    }
    DEVICE static Pairs pairs(const Raw& r, u32) {
        return {{r.low.x, r.low.y, r.low.z, r.low.w, r.high.x, r.high.y, r.high.z, r.high.w}};
    }
    DEVICE static void values(const Raw& r, u32 lane, float (&v)[16]) {
        const Pairs p = pairs(r, lane);
#pragma unroll
        for (int i = 0; i < 8; ++i) v[2 * i] = dev::bf16_low(p.a[i]), v[2 * i + 1] = dev::bf16_high(p.a[i]);
    }
};

/// An f16 is the sum of two bf16: its eleven bits are kept, and x keeps bf16's range, which an f16 product would not.
struct F16 {
    static constexpr bool HAS_REST = true;
    static constexpr u32 CODE_BYTES = 1024, SCALE_BYTES = 0, SUPER_BYTES = 0;
    using Raw = Bf16::Raw;

    template <class Memory> DEVICE static Raw read(const u8* codes, const u8* s, const u8* u, u32 lane) {
        return Bf16::read<Memory>(codes, s, u, lane);
    }
    DEVICE static void values(const Raw& r, u32 lane, float (&v)[16]) {
        const Pairs p = Bf16::pairs(r, lane);
#pragma unroll
        for (int i = 0; i < 8; ++i) v[2 * i] = dev::f16_low(p.a[i]), v[2 * i + 1] = dev::f16_high(p.a[i]);
    }
    DEVICE static Pairs pairs(const Raw& r, u32 lane) { return rounded<F16>(r, lane); }
    DEVICE static Pairs rest(const Raw& r, u32 lane) {
        float v[16];
        values(r, lane, v);
        const Pairs p = round_pairs(v);
#pragma unroll
        for (int i = 0; i < 8; ++i) v[2 * i] -= dev::bf16_low(p.a[i]), v[2 * i + 1] -= dev::bf16_high(p.a[i]);
        return round_pairs(v);
    }
};

/// w = d q, eight-bit codes; a scale is the f16 of a row.
struct Q8_0 : Rounded {
    static constexpr u32 CODE_BYTES = 512, SCALE_BYTES = 32, SUPER_BYTES = 0;
    struct Raw { Words4 codes; u16 d[2]; };

    template <class Memory> DEVICE static Raw read(const u8* codes, const u8* scales, const u8*, u32 lane) {
        const u32 g = lane / 4;
        return {Memory::template load<Words4>(codes + 16 * lane),
                {Memory::template load<u16>(scales + 2 * g), Memory::template load<u16>(scales + 2 * g + 16)}};
    }
    DEVICE static void values(const Raw& r, u32, float (&v)[16]) {
        const u32 words[4] = {r.codes.x, r.codes.y, r.codes.z, r.codes.w};
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const i32 q = static_cast<i8>(words[i / 4] >> (8 * (i % 4)));
            v[i] = dev::f16_float(r.d[i / 8]) * static_cast<float>(q);
        }
    }
    DEVICE static Pairs pairs(const Raw& r, u32 lane) { return rounded<Q8_0>(r, lane); }
};

DEVICE float nibble(Words2 codes, int i) {
    return static_cast<float>(((i < 8 ? codes.x : codes.y) >> (4 * (i % 8))) & 15);
}

/// w = d (q - 8), four-bit codes: nibble i of a lane's word is column 8t + i.
struct Q4_0 : Rounded {
    static constexpr u32 CODE_BYTES = 256, SCALE_BYTES = 32, SUPER_BYTES = 0;
    struct Raw { Words2 codes; u16 d[2]; };

    template <class Memory> DEVICE static Raw read(const u8* codes, const u8* scales, const u8*, u32 lane) {
        const u32 g = lane / 4;
        return {Memory::template load<Words2>(codes + 8 * lane),
                {Memory::template load<u16>(scales + 2 * g), Memory::template load<u16>(scales + 2 * g + 16)}};
    }
    DEVICE static void values(const Raw& r, u32, float (&v)[16]) {
#pragma unroll
        for (int i = 0; i < 16; ++i) v[i] = dev::f16_float(r.d[i / 8]) * (nibble(r.codes, i) - 8.0f);
    }
    DEVICE static Pairs pairs(const Raw& r, u32 lane) { return rounded<Q4_0>(r, lane); }
};

/// w = d q + m; a scale is the pair (d, m) of a row.
struct Q4_1 : Rounded {
    static constexpr u32 CODE_BYTES = 256, SCALE_BYTES = 64, SUPER_BYTES = 0;
    struct Raw { Words2 codes; u32 dm[2]; };

    template <class Memory> DEVICE static Raw read(const u8* codes, const u8* scales, const u8*, u32 lane) {
        const u32 g = lane / 4;
        return {Memory::template load<Words2>(codes + 8 * lane),
                {Memory::template load<u32>(scales + 4 * g), Memory::template load<u32>(scales + 4 * g + 32)}};
    }
    DEVICE static void values(const Raw& r, u32, float (&v)[16]) {
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const u32 dm = r.dm[i / 8];
            v[i] = dev::fma(dev::f16_low(dm), nibble(r.codes, i), dev::f16_high(dm));
        }
    }
    DEVICE static Pairs pairs(const Raw& r, u32 lane) { return rounded<Q4_1>(r, lane); }
};

/// w = d s q - dmin m: bytes (s, m) of a row for 32 columns, the pair (d, dmin) of a row for 256.
struct Q4_K : Rounded {
    static constexpr u32 CODE_BYTES = 256, SCALE_BYTES = 32, SUPER_BYTES = 64;
    struct Raw { Words2 codes; u16 sm[2]; u32 dm[2]; };

    template <class Memory> DEVICE static Raw read(const u8* codes, const u8* scales, const u8* supers, u32 lane) {
        const u32 g = lane / 4;
        return {Memory::template load<Words2>(codes + 8 * lane),
                {Memory::template load<u16>(scales + 2 * g), Memory::template load<u16>(scales + 2 * g + 16)},
                {Memory::template load<u32>(supers + 4 * g), Memory::template load<u32>(supers + 4 * g + 32)}};
    }
    DEVICE static void values(const Raw& r, u32, float (&v)[16]) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const float d = dev::f16_low(r.dm[h]) * static_cast<float>(r.sm[h] & 255);
            const float m = dev::f16_high(r.dm[h]) * static_cast<float>(r.sm[h] >> 8);
#pragma unroll
            for (int i = 0; i < 8; ++i) v[8 * h + i] = dev::fma(d, nibble(r.codes, 8 * h + i), -m);
        }
    }
    DEVICE static Pairs pairs(const Raw& r, u32 lane) { return rounded<Q4_K>(r, lane); }
};

/// w = d s (q - 32): low nibbles, then the upper two bits; signed bytes s of a row for 16 columns, f16 d for 256.
struct Q6_K : Rounded {
    static constexpr u32 CODE_BYTES = 384, SCALE_BYTES = 32, SUPER_BYTES = 32;
    struct Raw { Words2 low; u32 high; u8 s[2]; u16 d[2]; };

    template <class Memory> DEVICE static Raw read(const u8* codes, const u8* scales, const u8* supers, u32 lane) {
        const u32 g = lane / 4, half = lane % 4 / 2;
        return {Memory::template load<Words2>(codes + 8 * lane),
                Memory::template load<u32>(codes + 256 + 4 * lane),
                {Memory::template load<u8>(scales + 2 * g + half), Memory::template load<u8>(scales + 2 * g + 16 + half)},
                {Memory::template load<u16>(supers + 2 * g), Memory::template load<u16>(supers + 2 * g + 16)}};
    }
    DEVICE static void values(const Raw& r, u32, float (&v)[16]) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const float d = dev::f16_float(r.d[h]) * static_cast<float>(static_cast<i8>(r.s[h]));
#pragma unroll
            for (int i = 8 * h; i < 8 * h + 8; ++i) {
                const float high = static_cast<float>((r.high >> (2 * i)) & 3);
                v[i] = d * (dev::fma(high, 16.0f, nibble(r.low, i)) - 32.0f);
            }
        }
    }
    DEVICE static Pairs pairs(const Raw& r, u32 lane) { return rounded<Q6_K>(r, lane); }
};

/// What the lane holds of a tile that lies in the matrix's arrays.
template <class W, class Memory> DEVICE typename W::Raw read_tile(const WeightView& w, u32 row_tile, u32 k_tile, u32 lane) {
    const u64 at = static_cast<u64>(row_tile) * w.n_k_tiles + k_tile;
    const u64 super = static_cast<u64>(row_tile) * (w.n_k_tiles / SUPER_TILES) + k_tile / SUPER_TILES;
    return W::template read<Memory>(w.codes + at * W::CODE_BYTES, w.scales + at * W::SCALE_BYTES,
                                    w.supers + super * W::SUPER_BYTES, lane);
}

/// One tile's products: c[16 rows, 8 tokens] += w[16, 32] x[32, 8], x being columns 8t .. 8t + 7 of token g.
DEVICE void multiply_tile(float (&c)[4], const Pairs& w, u32 b0, u32 b1, u32 b2, u32 b3) {
    dev::mma_bf16(c, w.a[0], w.a[4], w.a[1], w.a[5], b0, b1);
    dev::mma_bf16(c, w.a[2], w.a[6], w.a[3], w.a[7], b2, b3);
}

/// A lane's share of a tile times N tiles of tokens. Collective.
template <class W, int N>
DEVICE void multiply_raw(float (&c)[N][4], const typename W::Raw& raw, u32 lane, const Words4 (&b)[N]) {
    const Pairs w = W::pairs(raw, lane);
#pragma unroll
    for (int n = 0; n < N; ++n) multiply_tile(c[n], w, b[n].x, b[n].y, b[n].z, b[n].w);
    if constexpr (W::HAS_REST) {
        const Pairs rest = W::rest(raw, lane);
#pragma unroll
        for (int n = 0; n < N; ++n) multiply_tile(c[n], rest, b[n].x, b[n].y, b[n].z, b[n].w);
    }
}
