// argmax.cuh: best[0] = lowest id with the highest logit among the ids whose bit is set; NO_ID when there is none
// Shapes     logits [n_valid] f32 (one row), mask [ceil(n_valid / 32)] bits or null.
// Types      f32; NaN ranks below everything.
// Launch     grid (1), block 256. Shared 8 warps x 8 bytes.
// Barriers   shuffles, one block barrier.
// Cost       reads 4 bytes an id: a few microseconds, and only one word goes back to the host.
// Reference  device/cpu/reference/select.rs. Test: device/emu/test/small.rs
// Source     none; no code adapted.
#pragma once
#include "common/portable.cuh"

struct ArgmaxParams {
    const float* logits;
    const u32* mask;
    u32* best;
    u32 n_valid;
    u32 pad;
};
constexpr u32 NO_ID = 0xffffffffu;

struct Candidate {
    float value;
    u32 id;
};

DEVICE Candidate better(const Candidate& a, const Candidate& b) {
    if (a.id == NO_ID) return b;
    if (b.id == NO_ID) return a;
    const bool a_nan = dev::is_nan(a.value), b_nan = dev::is_nan(b.value);
    if (a_nan != b_nan) return a_nan ? b : a;
    if (!a_nan && a.value != b.value) return a.value > b.value ? a : b;
    return a.id < b.id ? a : b;
}

DEVICE Candidate best_of_warp(Candidate c) {
    for (u32 mask = 16; mask > 0; mask /= 2) {
        c = better(c, {dev::shuffle_xor(c.value, mask), dev::shuffle_xor(c.id, mask)});
    }
    return c;
}

DEVICE void argmax(const ArgmaxParams& p) {
    Candidate c = {0.0f, NO_ID};
    for (u32 id = dev::thread(); id < p.n_valid; id += dev::n_threads()) {
        const bool allowed = p.mask == nullptr || (dev::load(p.mask + id / 32) >> (id % 32) & 1) != 0;
        if (allowed) c = better(c, {dev::load(p.logits + id), id});
    }
    c = best_of_warp(c);
    Floats2* shared = reinterpret_cast<Floats2*>(dev::shared());
    if (dev::lane() == 0) dev::store(shared + dev::warp(), Floats2{c.value, dev::bits_float(c.id)});
    dev::block_sync();
    if (dev::warp() != 0) return;
    c = {0.0f, NO_ID};
    if (dev::lane() < dev::n_threads() / 32) {
        const Floats2 v = dev::load(shared + dev::lane());
        c = {v.x, dev::float_bits(v.y)};
    }
    c = best_of_warp(c);
    if (dev::lane() == 0) dev::store(p.best, c.id);
}
