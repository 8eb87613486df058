// product.cuh: y[t, r] = factors[t] * sum_c w[r, c] xs[t, c], then set, added, or gated; many rows of x
// Shapes     xs [T, C] bf16 and factors [T] from prepare, w [R, C] as tiles, bias [R] or null, out [T, R] (gated:
//            [T, R / 2]) f32. C % 8 == 0.
// Types      Any weight format; products bf16 x bf16 in the matrix units with f32 sums.
// Launch     grid (ceil(T / 64), ceil(R / 128)), block 256: eight warps of 32 rows x 32 tokens. Tokens are the fast
//            axis of the grid, so that blocks which share weights run together and meet in the second-level cache.
//            Shared PRODUCT_STAGES stages of weights (as they lie in memory) and 64 x 64 bf16 of xs.
// Barriers   one block barrier a stage; asynchronous copies run PRODUCT_STAGES - 1 stages ahead.
// Cost       2*T*R*C operations; reads R*C weights ceil(T / 64) times and 2*T*C bytes ceil(R / 128) times, mostly from
//            the second-level cache: bound by the matrix units from T of about 256.
// Layout     Weights need no swizzle: a tile's codes are already in lane order. A row of xs is eight 16-byte chunks; chunk
//            i of token t lies at i ^ 4(t % 2), so that the eight lanes of a 16-byte access meet all banks once.
// Invariants The sum over columns is eight slices, added in order: the same bits as matvec.cuh gives, whatever T.
// Reference  device/cpu/reference/matmul.rs, gated.rs. Test: device/emu/test/product.rs
// Source     none; no code adapted.
#pragma once
#include "common/epilogue.cuh"
#include "common/weight.cuh"

struct ProductParams {
    const u16* xs;
    const float* factors;
    WeightView w;
    const float* bias;
    float* out;
    u32 n_rows, n_cols;
    u32 out_stride, out_first;
    u32 mode;
    u32 pad;
};

constexpr u32 PRODUCT_STAGES = 4;
/// Column tiles of a stage, row tiles and tokens of a block.
constexpr u32 PRODUCT_K_TILES = 2, PRODUCT_ROW_TILES = 8, PRODUCT_TOKENS = 64;
constexpr u32 PRODUCT_XS_BYTES = PRODUCT_TOKENS * PRODUCT_K_TILES * TILE_COLS * 2;

/// Where the parts of a stage lie in shared memory.
template <class W> struct ProductStage {
    static constexpr u32 N_TILES = PRODUCT_ROW_TILES * PRODUCT_K_TILES;
    static constexpr u32 SCALES = N_TILES * W::CODE_BYTES;
    static constexpr u32 SUPERS = SCALES + N_TILES * W::SCALE_BYTES;
    static constexpr u32 XS = SUPERS + PRODUCT_ROW_TILES * W::SUPER_BYTES;
    static constexpr u32 BYTES = XS + PRODUCT_XS_BYTES;
};

/// Start copying `n_bytes` (a multiple of 16) by all threads of the block.
DEVICE void copy_span(u8* to, const u8* from, u32 n_bytes, bool wanted, u32 thread, u32 n_threads) {
    for (u32 at = 16 * thread; at < n_bytes; at += 16 * n_threads) dev::copy_async16(to + at, from + at, wanted);
}

template <class W> DEVICE void product_fetch(const ProductParams& p, u8* stage, u32 k_tile) {
    using S = ProductStage<W>;
    const u32 thread = dev::thread(), n_threads = dev::n_threads();
    const u32 n_k_tiles = p.w.n_k_tiles, n_row_tiles = (p.w.n_rows + TILE_ROWS - 1) / TILE_ROWS;
    // A warp copies one row tile: its column tiles are neighbours in memory.
    const u32 m = dev::warp(), lane = dev::lane(), row_tile = dev::block_y() * PRODUCT_ROW_TILES + m;
    const bool is_row = row_tile < n_row_tiles;
    const u32 n_here = n_k_tiles - k_tile < PRODUCT_K_TILES ? n_k_tiles - k_tile : PRODUCT_K_TILES;
    if (is_row) {
        const u64 tile = static_cast<u64>(row_tile) * n_k_tiles + k_tile;
        copy_span(stage + m * PRODUCT_K_TILES * W::CODE_BYTES, p.w.codes + tile * W::CODE_BYTES, n_here * W::CODE_BYTES,
                  true, lane, 32);
        copy_span(stage + S::SCALES + m * PRODUCT_K_TILES * W::SCALE_BYTES, p.w.scales + tile * W::SCALE_BYTES,
                  n_here * W::SCALE_BYTES, true, lane, 32);
        const u64 super = static_cast<u64>(row_tile) * (n_k_tiles / SUPER_TILES) + k_tile / SUPER_TILES;
        copy_span(stage + S::SUPERS + m * W::SUPER_BYTES, p.w.supers + super * W::SUPER_BYTES, W::SUPER_BYTES, true, lane, 32);
    }
    const u32 first_token = dev::block_x() * PRODUCT_TOKENS, first_col = k_tile * TILE_COLS;
    for (u32 i = thread; i < PRODUCT_TOKENS * 8; i += n_threads) {
        const u32 token = i / 8, chunk = i % 8, col = first_col + 8 * chunk;
        const bool wanted = first_token + token < p.n_rows && col < p.n_cols;
        const u16* from = wanted ? p.xs + static_cast<u64>(first_token + token) * p.n_cols + col : p.xs;
        dev::copy_async16(stage + S::XS + 128 * token + 16 * (chunk ^ (4 * (token % 2))), from, wanted);
    }
}

template <class W> DEVICE void product(const ProductParams& p) {
    using S = ProductStage<W>;
    u8* shared = dev::shared();
    const u32 lane = dev::lane(), g = lane / 4, t = lane % 4;
    const u32 m0 = dev::warp() % 4 * 2, n0 = dev::warp() / 4 * 4;  // of the block's row tiles, and of its token tiles
    const u32 n_tiles = p.w.n_k_tiles, n_stages = (n_tiles + PRODUCT_K_TILES - 1) / PRODUCT_K_TILES;
    const u32 per_slice = slice_tiles(n_tiles), n_row_tiles = (p.w.n_rows + TILE_ROWS - 1) / TILE_ROWS;
    const u32 first_row_tile = dev::block_y() * PRODUCT_ROW_TILES + m0;

    for (u32 s = 0; s < PRODUCT_STAGES - 1; ++s) {
        if (s < n_stages) product_fetch<W>(p, shared + s * S::BYTES, s * PRODUCT_K_TILES);
        dev::copy_commit();
    }
    float total[2][4][4] = {}, acc[2][4][4] = {};
    u32 in_slice = 0;
    for (u32 s = 0; s < n_stages; ++s) {
        dev::copy_wait<PRODUCT_STAGES - 2>();
        dev::block_sync();  // the stage has arrived for all, and all have left the one that is fetched now
        const u32 ahead = s + PRODUCT_STAGES - 1;
        if (ahead < n_stages) product_fetch<W>(p, shared + ahead % PRODUCT_STAGES * S::BYTES, ahead * PRODUCT_K_TILES);
        dev::copy_commit();
        const u8* stage = shared + s % PRODUCT_STAGES * S::BYTES;
#pragma unroll
        for (u32 k = 0; k < PRODUCT_K_TILES; ++k) {
            if (s * PRODUCT_K_TILES + k >= n_tiles) break;
            Words4 b[4];
#pragma unroll
            for (u32 n = 0; n < 4; ++n) {
                const u32 token = 8 * (n0 + n) + g, chunk = (4 * k + t) ^ (4 * (token % 2));
                b[n] = dev::load(reinterpret_cast<const Words4*>(stage + S::XS + 128 * token + 16 * chunk));
            }
#pragma unroll
            for (u32 m = 0; m < 2; ++m) {
                if (first_row_tile + m >= n_row_tiles) break;
                const u32 tile = (m0 + m) * PRODUCT_K_TILES + k;
                const typename W::Raw raw = W::template read<Kept>(
                    stage + tile * W::CODE_BYTES, stage + S::SCALES + tile * W::SCALE_BYTES,
                    stage + S::SUPERS + (m0 + m) * W::SUPER_BYTES, lane);
                multiply_raw<W>(acc[m], raw, lane, b);
            }
            if (++in_slice == per_slice || s * PRODUCT_K_TILES + k + 1 == n_tiles) {
                in_slice = 0;
#pragma unroll
                for (u32 m = 0; m < 2; ++m)
#pragma unroll
                    for (u32 n = 0; n < 4; ++n)
#pragma unroll
                        for (u32 i = 0; i < 4; ++i) total[m][n][i] += acc[m][n][i], acc[m][n][i] = 0.0f;
            }
        }
    }
    dev::copy_wait<0>();
#pragma unroll
    for (u32 n = 0; n < 4; ++n) {
#pragma unroll
        for (u32 i = 0; i < 2; ++i) {
            const u32 token = dev::block_x() * PRODUCT_TOKENS + 8 * (n0 + n) + 2 * t + i;
            if (token >= p.n_rows) continue;
            const float factor = dev::load(p.factors + token);
            float* out = p.out + static_cast<u64>(token) * p.out_stride + p.out_first;
#pragma unroll
            for (u32 m = 0; m < 2; ++m) {
                finish_pair(p.mode, factor * total[m][n][i], factor * total[m][n][2 + i], first_row_tile + m, g,
                            p.w.n_rows, p.bias, out);
            }
        }
    }
}
