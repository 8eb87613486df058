// shrink.cuh: h[t, j] = factor(t) * sum_c a[j, c] x[t, c] norm[c] for the rows t that have low-rank terms
// Shapes     x [T, C] f32, norm [C] or null, sets [T], h [T, h_stride] f32. C % 8 == 0.
// Types      f32 throughout.
// Launch     grid (ceil(largest n_ranks / 8), ceil(T / 8)), block 256: a warp computes one rank of eight rows. The warps
//            of a block read the same rows of x, from the first-level cache.
// Barriers   warp shuffles.
// Cost       reads 4*n_ranks*C bytes of each set once for each eight rows that have it; 2*T*n_ranks*C operations:
//            bandwidth for few rows, arithmetic for many; small beside the product that it goes with.
// Invariants A sum over columns is 32 strided sums and a tree over lanes, whatever T and whatever the other rows have.
// Reference  device/cpu/reference/low_rank.rs. Test: device/emu/test/low_rank.rs
// Source     Hu et al. 2021, arXiv:2106.09685; several sets in one launch: Chen et al. 2023, arXiv:2310.18547 (the idea).
//            No code adapted.
#pragma once
#include "common/low_rank.cuh"

struct ShrinkParams {
    const float* x;
    const float* norm;
    const LowRankView* views;
    /// Which view each row has. [T]
    const u32* sets;
    float* h;
    u32 n_rows, n_cols;
    u32 h_stride;
    float eps;
};

/// A rank of the rows that have `set`. Collective.
DEVICE void shrink_set(const ShrinkParams& p, const LowRankView& view, u32 rank, u32 first, u32 set,
                       const u32 (&sets)[LOW_RANK_TOKENS]) {
    const float* a = view.a + static_cast<u64>(rank) * p.n_cols;
    float sum[LOW_RANK_TOKENS] = {}, squares[LOW_RANK_TOKENS] = {};
    for (u32 col = 4 * dev::lane(); col < p.n_cols; col += 128) {
        const Floats4 a4 = dev::load(reinterpret_cast<const Floats4*>(a + col));
        Floats4 n4 = {1.0f, 1.0f, 1.0f, 1.0f};
        if (p.norm != nullptr) n4 = dev::load(reinterpret_cast<const Floats4*>(p.norm + col));
#pragma unroll
        for (u32 i = 0; i < LOW_RANK_TOKENS; ++i) {
            if (sets[i] != set) continue;
            const Floats4 x = dev::load(reinterpret_cast<const Floats4*>(p.x + static_cast<u64>(first + i) * p.n_cols + col));
            sum[i] = dev::fma(a4.x, x.x * n4.x, sum[i]);
            sum[i] = dev::fma(a4.y, x.y * n4.y, sum[i]);
            sum[i] = dev::fma(a4.z, x.z * n4.z, sum[i]);
            sum[i] = dev::fma(a4.w, x.w * n4.w, sum[i]);
            squares[i] = dev::fma(x.x, x.x, squares[i]);
            squares[i] = dev::fma(x.y, x.y, squares[i]);
            squares[i] = dev::fma(x.z, x.z, squares[i]);
            squares[i] = dev::fma(x.w, x.w, squares[i]);
        }
    }
#pragma unroll
    for (u32 i = 0; i < LOW_RANK_TOKENS; ++i) {
        if (sets[i] != set) continue;  // the whole warp
        float total = dev::warp_sum(sum[i]);
        if (p.norm != nullptr) {
            const float mean = dev::divide(dev::warp_sum(squares[i]), static_cast<float>(p.n_cols));
            total *= dev::inverse_sqrt(mean + p.eps);
        }
        if (dev::lane() == 0) dev::store(p.h + static_cast<u64>(first + i) * p.h_stride + rank, total);
    }
}

DEVICE void shrink(const ShrinkParams& p) {
    const u32 rank = dev::block_x() * 8 + dev::warp(), first = dev::block_y() * LOW_RANK_TOKENS;
    u32 sets[LOW_RANK_TOKENS];
    sets_of_rows(p.sets, first, p.n_rows, sets);
    for (u32 set = next_set(sets, NO_TERMS); set != NO_TERMS; set = next_set(sets, set)) {
        const LowRankView view = dev::load(p.views + set);
        if (rank < view.n_ranks) shrink_set(p, view, rank, first, set, sets);
    }
}
