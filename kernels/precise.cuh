// precise.cuh: y[t, r] = factor(t) * sum_c w[r, c] x[t, c] norm[c] in f32 throughout, then set, added, or gated
// Shapes     x [T, C] f32, w [R, C] f32 row-major (a gated matrix: all gate rows, then all up rows), bias [R] or null,
//            out [T, R] (gated: [T, R / 2]) f32. C % 8 == 0.
// Launch     grid (ceil(outputs / 8), ceil(T / 8)), block 256: a warp computes one output row for eight tokens.
// Barriers   warp shuffles.
// Cost       2*T*R*C operations outside the matrix units, weights read ceil(T / 8) times. For weights that a file keeps
//            in f32: made to be exact, not quick.
// Invariants A sum over columns is 32 strided sums and a tree over lanes, whatever T.
// Reference  device/cpu/reference/matmul.rs, gated.rs. Test: device/emu/test/product.rs
// Source     none; no code adapted.
#pragma once
#include "common/epilogue.cuh"
#include "matvec.cuh"

constexpr u32 PRECISE_TOKENS = 8;

/// Sums of one row of w with the block's tokens; `squares` of the tokens when there is a norm. Collective.
DEVICE void precise_row(const MatvecParams& p, u32 row, u32 first, float (&sum)[PRECISE_TOKENS],
                        float (&squares)[PRECISE_TOKENS]) {
    const float* w = reinterpret_cast<const float*>(p.w.codes) + static_cast<u64>(row) * p.n_cols;
    for (u32 col = 4 * dev::lane(); col < p.n_cols; col += 128) {
        const Floats4 w4 = dev::load_once(reinterpret_cast<const Floats4*>(w + col));
        Floats4 n4 = {1.0f, 1.0f, 1.0f, 1.0f};
        if (p.norm != nullptr) n4 = dev::load(reinterpret_cast<const Floats4*>(p.norm + col));
#pragma unroll
        for (u32 i = 0; i < PRECISE_TOKENS; ++i) {
            if (first + i >= p.n_rows) break;
            const Floats4 x = dev::load(reinterpret_cast<const Floats4*>(p.x + static_cast<u64>(first + i) * p.n_cols + col));
            sum[i] = dev::fma(w4.x, x.x * n4.x, sum[i]);
            sum[i] = dev::fma(w4.y, x.y * n4.y, sum[i]);
            sum[i] = dev::fma(w4.z, x.z * n4.z, sum[i]);
            sum[i] = dev::fma(w4.w, x.w * n4.w, sum[i]);
            squares[i] = dev::fma(x.x, x.x, squares[i]);
            squares[i] = dev::fma(x.y, x.y, squares[i]);
            squares[i] = dev::fma(x.z, x.z, squares[i]);
            squares[i] = dev::fma(x.w, x.w, squares[i]);
        }
    }
#pragma unroll
    for (u32 i = 0; i < PRECISE_TOKENS; ++i) {
        if (first + i >= p.n_rows) break;  // the whole warp
        sum[i] = dev::warp_sum(sum[i]);
        if (p.norm == nullptr) continue;
        const float mean = dev::divide(dev::warp_sum(squares[i]), static_cast<float>(p.n_cols));
        sum[i] *= dev::inverse_sqrt(mean + p.eps);
    }
}

DEVICE void precise(const MatvecParams& p) {
    const bool gated = is_pair(p.mode);
    const u32 n_out = gated ? p.w.n_rows / 2 : p.w.n_rows;
    const u32 row = dev::block_x() * 8 + dev::warp(), first = dev::block_y() * PRECISE_TOKENS;
    if (row >= n_out) return;  // the whole warp
    float sum[PRECISE_TOKENS] = {}, squares[PRECISE_TOKENS] = {};
    precise_row(p, row, first, sum, squares);
    float up[PRECISE_TOKENS] = {};
    if (gated) {
        float again[PRECISE_TOKENS] = {};
        precise_row(p, p.up_first + row, first, up, again);
    }
    if (dev::lane() != 0) return;
#pragma unroll
    for (u32 i = 0; i < PRECISE_TOKENS; ++i) {
        if (first + i >= p.n_rows) break;
        float* out = p.out + static_cast<u64>(first + i) * p.out_stride + p.out_first + row;
        if (gated) {
            finish_gated(p.mode, sum[i], up[i], n_out, out);
        } else {
            finish(p.mode, sum[i], p.bias, row, out);
        }
    }
}
