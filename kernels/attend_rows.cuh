// attend_rows.cuh: attention of many query rows over the paged cache, own keys included
// Shapes     qkv [T, (H + 2 Hk) D] f32 after rope_store; the cache [block][Hk][block_tokens][D] bf16, f16 or codes; out [T, H D].
// Launch     grid (items, Hk), block 128: four warps of 16 query rows share the tiles of keys. An item is (sequence,
//            64 pairs). Shared 2 stages x (keys + values of 32 tokens), and the merged sums of each thread: they are
//            touched once a split, and as registers they would spill on some architectures.
// Barriers   two block barriers a tile: it has arrived; it may be overwritten.
// Cost       4*D operations for each query row and key it sees: bound by the matrix units. Masks are evaluated only for
//            tiles that reach past the cached tokens, or with a window.
// Reference  device/cpu/reference/attention.rs. Test: device/emu/test/attention.rs
// Source     Dao 2023, FlashAttention-2, arXiv:2307.08691 (the loop over tiles of keys). No code adapted.
#pragma once
#include "common/attention.cuh"

/// Merged splits of a lane's two query rows. The sums are the thread's own column of a shared array.
template <u32 D> struct Merged {
    float maximum[2], weight[2];
    float* sums;

    DEVICE float* at(u32 j, u32 i) const { return sums + (4 * j + i) * 128; }

    DEVICE void clear() {
        maximum[0] = maximum[1] = -dev::infinity();
        weight[0] = weight[1] = 0.0f;
#pragma unroll
        for (u32 j = 0; j < D / 8; ++j)
#pragma unroll
            for (u32 i = 0; i < 4; ++i) dev::store(at(j, i), 0.0f);
    }

    DEVICE void add(const Softmax<D>& split) {
#pragma unroll
        for (u32 h = 0; h < 2; ++h) {
            const Merge m = merge_of(maximum[h], split.maximum[h]);
            maximum[h] = m.maximum;
            weight[h] = merged(m, weight[h], split.weight[h]);
#pragma unroll
            for (u32 j = 0; j < D / 8; ++j)
#pragma unroll
                for (u32 i = 2 * h; i < 2 * h + 2; ++i)
                    dev::store(at(j, i), merged(m, dev::load(at(j, i)), split.sum[j][i]));
        }
    }
};

template <class N, u32 D> DEVICE void attend_rows(const AttendParams& p) {
    using T = KeyTile<D>;
    const AttendItem item = dev::load(p.items + dev::block_x());
    const SeqView seq = dev::load(p.step.seqs + item.seq);
    const u32 kv_head = dev::block_y(), first_pair = item.first_pair + 16 * dev::warp();
    u8* shared = dev::shared();

    const u32 n_keys = seq.past + seq.n_rows, first_tile = item.first_split * SPLIT_TILES;
    u32 end_tile = (n_keys + TILE_KEYS - 1) / TILE_KEYS;
    if (end_tile > item.end_split * SPLIT_TILES) end_tile = item.end_split * SPLIT_TILES;
    const Query<D> query = load_query<N, D>(p, seq, kv_head, first_pair);
    Softmax<D> state;
    Merged<D> total;
    total.sums = reinterpret_cast<float*>(shared + 4 * T::BYTES) + dev::thread();
    total.clear();
    state.clear();
    fetch_tile<N, D>(p, seq, kv_head, first_tile * TILE_KEYS, shared, shared + T::BYTES, dev::thread(), dev::n_threads());
    dev::copy_commit();
    for (u32 tile = first_tile; tile < end_tile; ++tile) {
        u8* here = shared + tile % 2 * 2 * T::BYTES;
        u8* next = shared + (tile + 1) % 2 * 2 * T::BYTES;
        if (tile + 1 < end_tile) {
            fetch_tile<N, D>(p, seq, kv_head, (tile + 1) * TILE_KEYS, next, next + T::BYTES, dev::thread(), dev::n_threads());
        }
        dev::copy_commit();
        dev::copy_wait<1>();
        dev::block_sync();
        take_tile<N, D>(p, seq, query, state, tile * TILE_KEYS, here, here + T::BYTES);
        if ((tile + 1) % SPLIT_TILES == 0 || tile + 1 == end_tile) {
            close_split(state);
            total.add(state);
            state.clear();
        }
        dev::block_sync();
    }
    dev::copy_wait<0>();
    const u32 group = p.n_heads / p.cache.n_kv_heads, d = p.cache.head_dim, t = dev::lane() % 4;
#pragma unroll
    for (u32 h = 0; h < 2; ++h) {
        if (!query.sight[h].exists) continue;
        const u32 head = kv_head * group + (first_pair + dev::lane() / 4 + 8 * h) % group;
        float* out = p.out + (static_cast<u64>(seq.first_row + query.sight[h].row) * p.n_heads + head) * d;
#pragma unroll
        for (u32 j = 0; j < D / 8; ++j) {
            const u32 col = 8 * j + 2 * t;
            const Floats2 v = {normalised(dev::load(total.at(j, 2 * h)), total.weight[h]),
                               normalised(dev::load(total.at(j, 2 * h + 1)), total.weight[h])};
            if (col < d) dev::store(reinterpret_cast<Floats2*>(out + col), v);
        }
    }
}
