// attend_combine.cuh: out[row, head] = the splits of attend_split, merged in order
// Shapes     partial sums [partial][H][D] and (maximum, weight) [partial][H], out [T, H D], all f32.
// Launch     grid (items, Hk), block 128: a warp merges four of the item's 16 pairs, a lane the columns lane, lane + 32, …
// Barriers   none.
// Cost       reads 4*(D + 2) bytes for each split of a row and head: small beside the cache that the splits stand for.
// Reference  device/cpu/reference/attention.rs. Test: device/emu/test/attention.rs
// Source     Flash-Decoding, see common/attention.cuh. No code adapted.
#pragma once
#include "common/attention.cuh"

DEVICE void attend_combine(const AttendParams& p) {
    const AttendItem item = dev::load(p.items + dev::block_x());
    const SeqView seq = dev::load(p.step.seqs + item.seq);
    const u32 group = p.n_heads / p.cache.n_kv_heads, d = p.cache.head_dim;
    for (u32 i = 0; i < 4; ++i) {
        const u32 pair = item.first_pair + 4 * dev::warp() + i, row = pair / group;
        if (row >= seq.n_rows) return;
        const u32 head = dev::block_y() * group + pair % group;
        const u64 first = static_cast<u64>(seq.first_partial) + row * seq.n_splits;
        for (u32 col = dev::lane(); col < d; col += 32) {
            float maximum = -dev::infinity(), weight = 0.0f, sum = 0.0f;
#pragma unroll 4
            for (u32 split = item.first_split; split < item.end_split; ++split) {
                const u64 at = (first + split) * p.n_heads + head;
                const Floats2 mw = dev::load(p.partial_weights + at);
                const Merge m = merge_of(maximum, mw.x);
                maximum = m.maximum;
                weight = merged(m, weight, mw.y);
                sum = merged(m, sum, dev::load(p.partial_sums + at * d + col));
            }
            dev::store(p.out + (static_cast<u64>(seq.first_row + row) * p.n_heads + head) * d + col, normalised(sum, weight));
        }
    }
}
