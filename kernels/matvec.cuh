// matvec.cuh: y[t, r] = factor(t) * sum_c w[r, c] bf16(x[t, c] norm[c]), then set, added, or gated; few rows of x
// Shapes     x [T, C] f32, w [R, C] as tiles, bias [R] or null, out [T, R] (gated: [T, R / 2]) f32. T <= 8 * NT,
//            C % 8 == 0. A gated matrix has eight gate rows and their eight up rows in each tile.
// Types      Any weight format; products bf16 x bf16 in the matrix units with f32 sums.
// Launch     grid (ceil(R / 16 / MT)), block 256: warp s sums slice s of the columns for MT row tiles.
//            Shared (MT * NT * 32 * 4 + 8 * NT) * 8 * 4 bytes.
// Barriers   one block barrier between the partial sums and their total; shuffles.
// Cost       reads the weights once at 16 (four-bit: 8) bytes a lane, and x once for each block: bandwidth-bound.
//            At one row only an eighth of the matrix units' work is used; they are far from busy.
// Invariants The sum over columns is eight slices, added in order: the same bits as product.cuh gives, whatever T, NT, MT.
// Reference  device/cpu/reference/matmul.rs, gated.rs. Test: device/emu/test/product.rs
// Source     none; no code adapted.
#pragma once
#include "common/epilogue.cuh"
#include "common/rows.cuh"

struct MatvecParams {
    const float* x;
    const float* norm;
    WeightView w;
    const float* bias;
    float* out;
    u32 n_rows, n_cols;
    /// Elements between rows of out, and the column of out that row 0 of w writes.
    u32 out_stride, out_first;
    u32 mode;
    float eps;
    /// First up row of a gated f32 matrix; unused otherwise.
    u32 up_first;
    u32 pad;
};

/// Column tiles whose weights a lane has under way at once.
constexpr u32 MATVEC_DEPTH = 4;

/// The partial sums of a slice, and its sums of squares, for the tokens 8n + lane / 4.
template <class W, int MT, int NT>
DEVICE void matvec_slice(const MatvecParams& p, u32 first_row_tile, float (&acc)[MT][NT][4], float (&squares)[NT]) {
    const u32 lane = dev::lane(), g = lane / 4, t = lane % 4;
    const u32 n_row_tiles = (p.w.n_rows + TILE_ROWS - 1) / TILE_ROWS;
    const u32 n_tiles = p.w.n_k_tiles, per_slice = slice_tiles(n_tiles);
    const u32 first = dev::warp() * per_slice;
    const u32 end = first + per_slice < n_tiles ? first + per_slice : n_tiles;
    for (u32 base = first; base < end; base += MATVEC_DEPTH) {
        typename W::Raw raw[MATVEC_DEPTH][MT];
#pragma unroll
        for (u32 d = 0; d < MATVEC_DEPTH; ++d)
#pragma unroll
            for (int m = 0; m < MT; ++m)
                if (base + d < end && first_row_tile + m < n_row_tiles)
                    raw[d][m] = read_tile<W, Once>(p.w, first_row_tile + m, base + d, lane);
#pragma unroll
        for (u32 d = 0; d < MATVEC_DEPTH; ++d) {
            if (base + d >= end) break;
            const u32 col = TILE_COLS * (base + d) + 8 * t;
            Words4 b[NT];
#pragma unroll
            for (int n = 0; n < NT; ++n) {
                const u32 token = 8 * n + g;
                b[n] = {0, 0, 0, 0};
                if (token < p.n_rows && col < p.n_cols) {
                    b[n] = prepare8(p.x + static_cast<u64>(token) * p.n_cols + col,
                                    p.norm == nullptr ? nullptr : p.norm + col, squares[n]);
                }
            }
#pragma unroll
            for (int m = 0; m < MT; ++m) {
                if (first_row_tile + m >= n_row_tiles) break;
                multiply_raw<W>(acc[m], raw[d][m], lane, b);
            }
        }
    }
}

template <class W, int MT, int NT> DEVICE void matvec(const MatvecParams& p) {
    const u32 lane = dev::lane(), warp = dev::warp();
    const u32 first_row_tile = dev::block_x() * MT;
    float acc[MT][NT][4] = {};
    float squares[NT] = {};
    matvec_slice<W, MT, NT>(p, first_row_tile, acc, squares);

    // [slice][row tile][token tile][lane][4], then [slice][token].
    float* sums = reinterpret_cast<float*>(dev::shared());
    float* slices = sums + N_SLICES * MT * NT * 128;
#pragma unroll
    for (int n = 0; n < NT; ++n) {
#pragma unroll
        for (int m = 0; m < MT; ++m) {
            const Floats4 v = {acc[m][n][0], acc[m][n][1], acc[m][n][2], acc[m][n][3]};
            dev::store(reinterpret_cast<Floats4*>(sums + ((warp * MT + m) * NT + n) * 128 + 4 * lane), v);
        }
        const float sum = slice_sum(squares[n]);
        if (lane % 4 == 0) dev::store(slices + warp * 8 * NT + 8 * n + lane / 4, sum);
    }
    dev::block_sync();

    // A thread finishes the four elements that a lane of tile (m, n) held: rows g and g + 8, tokens 2t and 2t + 1.
    for (u32 item = dev::thread(); item < MT * NT * 32; item += dev::n_threads()) {
        const u32 g = item % 32 / 4, t = item % 4, n = item / 32 % NT, m = item / 32 / NT;
        const u32 row_tile = first_row_tile + m;
        float total[4] = {};
        for (u32 s = 0; s < N_SLICES; ++s) {
            const Floats4 v = dev::load(reinterpret_cast<Floats4*>(sums + ((s * MT + m) * NT + n) * 128 + 4 * (item % 32)));
            total[0] += v.x, total[1] += v.y, total[2] += v.z, total[3] += v.w;
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const u32 token = 8 * n + 2 * t + i;
            if (token >= p.n_rows) continue;
            const float factor = p.norm == nullptr ? 1.0f : row_factor(slices + token, 8 * NT, p.n_cols, p.eps);
            finish_pair(p.mode, factor * total[i], factor * total[2 + i], row_tile, g, p.w.n_rows, p.bias,
                        p.out + static_cast<u64>(token) * p.out_stride + p.out_first);
        }
    }
}
