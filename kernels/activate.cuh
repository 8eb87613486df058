// activate.cuh: out[t, c] = act(pairs[t, c]) * pairs[t, C + c]
// Shapes     pairs [T, 2 C], out [T, C], both f32. C % 4 == 0.
// Launch     grid (ceil(C / 4 / 128), T), block 128: a thread four columns.
// Barriers   none.
// Cost       reads 8*T*C and writes 4*T*C bytes: bandwidth-bound. Only where low-rank terms come between the product of a
//            gated pair and its gate; everywhere else the product's end does this.
// Reference  device/cpu/reference/gated.rs. Test: device/emu/test/low_rank.rs
// Source     none; no code adapted.
#pragma once
#include "common/epilogue.cuh"

struct ActivateParams {
    const float* pairs;
    float* out;
    u32 n_cols;
    u32 mode;
};

DEVICE void activate_pairs(const ActivateParams& p) {
    const u32 col = 4 * (dev::block_x() * dev::n_threads() + dev::thread());
    if (col >= p.n_cols) return;
    const float* pairs = p.pairs + 2 * static_cast<u64>(dev::block_y()) * p.n_cols + col;
    const Floats4 g = dev::load(reinterpret_cast<const Floats4*>(pairs));
    const Floats4 u = dev::load(reinterpret_cast<const Floats4*>(pairs + p.n_cols));
    const Floats4 y = {activate(p.mode, g.x) * u.x, activate(p.mode, g.y) * u.y, activate(p.mode, g.z) * u.z,
                       activate(p.mode, g.w) * u.w};
    dev::store(reinterpret_cast<Floats4*>(p.out + static_cast<u64>(dev::block_y()) * p.n_cols + col), y);
}
