// low_rank.cuh: where the low-rank terms of a matrix lie, and which of them a row has.
// Place      Used by shrink and expand. Mirrored in src/device/cuda/params.rs.
// Shapes     Sets of terms belong to one matrix; each has `a` [n_ranks, C] f32, the ranks of all its parts one after the
//            other, each filled up with zeros to a multiple of 4, and for each part `b` [n_rows, rank] f32.
#pragma once
#include "common/portable.cuh"

/// Terms of one part of the matrix: its rows first_row .. first_row + n_rows get b h[first_rank .. first_rank + rank].
struct LowRankPart {
    const float* b;
    u32 first_row, n_rows;
    u32 rank, first_rank;
};

/// A set of terms.
struct LowRankView {
    const float* a;
    const LowRankPart* parts;
    u32 n_ranks, n_parts;
};

/// Rows that a warp or thread takes together: weights are read once for those that have the same terms.
constexpr u32 LOW_RANK_TOKENS = 8;
constexpr u32 NO_TERMS = 0xffffffffu;

/// The set of each of eight rows, NO_TERMS past the end.
DEVICE void sets_of_rows(const u32* sets, u32 first, u32 n_rows, u32 (&found)[LOW_RANK_TOKENS]) {
#pragma unroll
    for (u32 i = 0; i < LOW_RANK_TOKENS; ++i) found[i] = first + i < n_rows ? dev::load(sets + first + i) : NO_TERMS;
}

/// The lowest set above `done` among the rows (any set when that is NO_TERMS); NO_TERMS when there is none.
DEVICE u32 next_set(const u32 (&found)[LOW_RANK_TOKENS], u32 done) {
    u32 next = NO_TERMS;
#pragma unroll
    for (u32 i = 0; i < LOW_RANK_TOKENS; ++i) {
        const bool is_new = found[i] != NO_TERMS && (done == NO_TERMS || found[i] > done);
        if (is_new && (next == NO_TERMS || found[i] < next)) next = found[i];
    }
    return next;
}
