// embed.cuh: out[t, c] = table[ids[t], c]
// Shapes     table [V, C] as tiles (common/weight.cuh), ids [T], out [T, C] f32 row-major. C % 8 == 0.
// Types      Any weight format, read exactly (not rounded to bf16).
// Launch     grid (ceil(C / 8 / 128), T), block 128: one thread for eight columns.
// Barriers   none.
// Cost       reads T*C weights, writes 4*T*C bytes: bandwidth-bound, negligible beside a layer.
// Reference  device/cpu/reference, embed. Test: device/emu/test/product.rs
// Source     none; no code adapted.
#pragma once
#include "common/weight.cuh"

struct EmbedParams {
    WeightView table;
    const u32* ids;
    float* out;
    u32 n_cols;
    /// Row of the model's table that is row 0 here, for tables made of several parts.
    u32 first_row;
};

template <class W> DEVICE void embed(const EmbedParams& p) {
    const u32 chunk = dev::block_x() * dev::n_threads() + dev::thread();
    if (8 * chunk >= p.n_cols) return;
    const u32 id = dev::load(p.ids + dev::block_y());
    if (id < p.first_row || id - p.first_row >= p.table.n_rows) return;
    const u32 row = id - p.first_row;
    const u32 lane = row % 8 * 4 + chunk % 4;
    float v[16];
    W::values(read_tile<W, Kept>(p.table, row / TILE_ROWS, chunk / 4, lane), lane, v);
    const bool high = row % TILE_ROWS >= 8;
    float* out = p.out + static_cast<u64>(dev::block_y()) * p.n_cols + 8 * chunk;
#pragma unroll
    for (int i = 0; i < 8; i += 4) {
        const Floats4 low4 = {v[i], v[i + 1], v[i + 2], v[i + 3]};
        const Floats4 high4 = {v[8 + i], v[9 + i], v[10 + i], v[11 + i]};
        dev::store(reinterpret_cast<Floats4*>(out + i), high ? high4 : low4);
    }
}

/// The same from an f32 table, which is plain row-major in `codes`.
DEVICE void embed_precise(const EmbedParams& p) {
    const u32 chunk = dev::block_x() * dev::n_threads() + dev::thread();
    if (8 * chunk >= p.n_cols) return;
    const u32 id = dev::load(p.ids + dev::block_y());
    if (id < p.first_row || id - p.first_row >= p.table.n_rows) return;
    const Floats4* from =
        reinterpret_cast<const Floats4*>(p.table.codes) + (static_cast<u64>(id - p.first_row) * p.n_cols + 8 * chunk) / 4;
    Floats4* to = reinterpret_cast<Floats4*>(p.out + static_cast<u64>(dev::block_y()) * p.n_cols + 8 * chunk);
    dev::store(to, dev::load(from));
    dev::store(to + 1, dev::load(from + 1));
}
