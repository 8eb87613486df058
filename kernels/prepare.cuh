// prepare.cuh: xs[t, c] = bf16(x[t, c] * norm[c]), factors[t] = 1 / sqrt(mean_c(x[t, c]^2) + eps)
// Shapes     x [T, C] f32, norm [C] f32 or null (then xs = bf16(x) and factors = 1), xs [T, C] bf16, factors [T] f32.
//            C % 8 == 0.
// Launch     grid (ceil(T / 4)), block 128: one warp a row, lane 4s + t being thread t of slice s (common/rows.cuh).
//            Shared 4 * 8 floats.
// Barriers   two warp shuffles, one warp barrier.
// Cost       reads 4*T*C, writes 2*T*C bytes: bandwidth-bound.
// Reference  device/cpu/reference/norm.rs. Test: device/emu/test/product.rs
// Source     Zhang and Sennrich 2019, arXiv:1910.07467. No code adapted.
#pragma once
#include "common/rows.cuh"

struct PrepareParams {
    const float* x;
    const float* norm;
    u16* xs;
    float* factors;
    u32 n_rows, n_cols;
    float eps;
    u32 pad;
};

DEVICE void prepare(const PrepareParams& p) {
    const u32 row = dev::block_x() * 4 + dev::warp();
    const u32 slice = dev::lane() / 4, t = dev::lane() % 4;
    float* sums = reinterpret_cast<float*>(dev::shared()) + N_SLICES * dev::warp();
    if (row >= p.n_rows) return;  // the whole warp
    const u32 n_k_tiles = (p.n_cols + TILE_COLS - 1) / TILE_COLS;
    const u32 first = slice * slice_tiles(n_k_tiles);
    const float* x = p.x + static_cast<u64>(row) * p.n_cols;
    u16* xs = p.xs + static_cast<u64>(row) * p.n_cols;
    float squares = 0.0f;
    for (u32 tile = first; tile < n_k_tiles && tile < first + slice_tiles(n_k_tiles); ++tile) {
        const u32 col = TILE_COLS * tile + 8 * t;
        if (col >= p.n_cols) break;
        const Words4 v = prepare8(x + col, p.norm == nullptr ? nullptr : p.norm + col, squares);
        dev::store(reinterpret_cast<Words4*>(xs + col), v);
    }
    squares = slice_sum(squares);
    if (t == 0) dev::store(sums + slice, squares);
    dev::warp_sync();
    if (dev::lane() == 0) {
        dev::store(p.factors + row, p.norm == nullptr ? 1.0f : row_factor(sums, 1, p.n_cols, p.eps));
    }
}
