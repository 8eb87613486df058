// gather.cuh: out[i, :] = x[rows[i], :]
// Shapes     x [_, C], rows [R], out [R, C]; C % 4 == 0.
// Types      f32.
// Launch     grid (ceil(C / 4 / 128), R), block 128: a thread for four columns.
// Barriers   none.
// Cost       reads and writes 4*R*C bytes: bandwidth-bound, small.
// Reference  device/cpu/reference, gather. Test: device/emu/test/small.rs
// Source     none; no code adapted.
#pragma once
#include "common/portable.cuh"

struct GatherParams {
    const float* x;
    const u32* rows;
    float* out;
    u32 n_cols;
    u32 pad;
};

DEVICE void gather(const GatherParams& p) {
    const u32 col = 4 * (dev::block_x() * dev::n_threads() + dev::thread());
    if (col >= p.n_cols) return;
    const u64 from = static_cast<u64>(dev::load(p.rows + dev::block_y())) * p.n_cols + col;
    const u64 to = static_cast<u64>(dev::block_y()) * p.n_cols + col;
    dev::store(reinterpret_cast<Floats4*>(p.out + to), dev::load(reinterpret_cast<const Floats4*>(p.x + from)));
}
