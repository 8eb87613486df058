// expand.cuh: out[t, r] += sum_j b[r, j] h[t, first_rank + j] for the rows t that have low-rank terms
// Shapes     h [T, h_stride] f32 from shrink, sets [T], out [T, out_stride] f32, R rows of the matrix.
// Types      f32 throughout.
// Launch     grid (ceil(R / 256), ceil(T / 8)), block 256: a thread adds one row of the matrix to eight rows of out.
// Barriers   none.
// Cost       reads 4*R*rank bytes of each set once for each eight rows that have it, reads and writes 8*T*R bytes:
//            bandwidth-bound, small beside the product that it goes with.
// Invariants The ranks of an element are added up in order, whatever T and whatever the other rows have.
// Reference  device/cpu/reference/low_rank.rs. Test: device/emu/test/low_rank.rs
// Source     as shrink.cuh; no code adapted.
#pragma once
#include "common/low_rank.cuh"

struct ExpandParams {
    const LowRankView* views;
    const u32* sets;
    const float* h;
    float* out;
    u32 n_rows, h_stride;
    /// Rows of the matrix, and elements between rows of out.
    u32 n_outputs, out_stride;
};

DEVICE void expand_part(const ExpandParams& p, const LowRankPart& part, u32 row, u32 first, u32 set,
                        const u32 (&sets)[LOW_RANK_TOKENS]) {
    const float* b = part.b + static_cast<u64>(row - part.first_row) * part.rank;
    float sum[LOW_RANK_TOKENS] = {};
    for (u32 j = 0; j < part.rank; j += 4) {
        const Floats4 b4 = dev::load(reinterpret_cast<const Floats4*>(b + j));
#pragma unroll
        for (u32 i = 0; i < LOW_RANK_TOKENS; ++i) {
            if (sets[i] != set) continue;
            const float* h = p.h + static_cast<u64>(first + i) * p.h_stride + part.first_rank + j;
            const Floats4 h4 = dev::load(reinterpret_cast<const Floats4*>(h));
            sum[i] = dev::fma(b4.x, h4.x, sum[i]);
            sum[i] = dev::fma(b4.y, h4.y, sum[i]);
            sum[i] = dev::fma(b4.z, h4.z, sum[i]);
            sum[i] = dev::fma(b4.w, h4.w, sum[i]);
        }
    }
#pragma unroll
    for (u32 i = 0; i < LOW_RANK_TOKENS; ++i) {
        if (sets[i] != set) continue;
        float* out = p.out + static_cast<u64>(first + i) * p.out_stride + row;
        dev::store(out, dev::load(out) + sum[i]);
    }
}

DEVICE void expand(const ExpandParams& p) {
    const u32 row = dev::block_x() * dev::n_threads() + dev::thread(), first = dev::block_y() * LOW_RANK_TOKENS;
    if (row >= p.n_outputs) return;
    u32 sets[LOW_RANK_TOKENS];
    sets_of_rows(p.sets, first, p.n_rows, sets);
    for (u32 set = next_set(sets, NO_TERMS); set != NO_TERMS; set = next_set(sets, set)) {
        const LowRankView view = dev::load(p.views + set);
        for (u32 i = 0; i < view.n_parts; ++i) {
            const LowRankPart part = dev::load(view.parts + i);
            const bool is_inside = row >= part.first_row && row < part.first_row + part.n_rows;
            if (is_inside) expand_part(p, part, row, first, set, sets);
        }
    }
}
