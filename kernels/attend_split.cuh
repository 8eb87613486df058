// attend_split.cuh: partial attention of few query rows over one split of the keys; attend_combine adds the splits up
// Shapes     qkv [T, (H + 2 Hk) D] f32 after rope_store; the cache [block][Hk][block_tokens][D] bf16, f16 or codes.
//            Partial results of row i, split s of a sequence stand at first_partial + i n_splits + s.
// Launch     grid (ceil(most splits of an item / 2), Hk, items), block 64: a warp takes one split for 16 query rows.
//            An item is (sequence, 16 pairs). Shared 2 warps x 2 stages x (keys + values of 32 tokens).
// Barriers   warp barriers around the asynchronous copies of a warp's own tiles.
// Cost       reads 4*S*Hk*D bytes of cache once for each 16 pairs: bandwidth-bound. The split length is a constant, so
//            a row's sums do not depend on the batch, and the grid does not depend on anything but the longest row.
// Reference  device/cpu/reference/attention.rs. Test: device/emu/test/attention.rs
// Source     Flash-Decoding, see common/attention.cuh. No code adapted.
#pragma once
#include "common/attention.cuh"

template <class N, u32 D> DEVICE void attend_split(const AttendParams& p) {
    using T = KeyTile<D>;
    const AttendItem item = dev::load(p.items + dev::block_z());
    const u32 kv_head = dev::block_y(), split = item.first_split + 2 * dev::block_x() + dev::warp();
    if (split >= item.end_split) return;  // the whole warp
    const SeqView seq = dev::load(p.step.seqs + item.seq);
    u8* shared = dev::shared() + dev::warp() * 4 * T::BYTES;

    const u32 n_keys = seq.past + seq.n_rows, first_key = split * SPLIT_KEYS;
    u32 n_tiles = (n_keys - first_key + TILE_KEYS - 1) / TILE_KEYS;
    if (n_tiles > SPLIT_TILES) n_tiles = SPLIT_TILES;
    fetch_tile<N, D>(p, seq, kv_head, first_key, shared, shared + T::BYTES, dev::lane(), 32);
    dev::copy_commit();
    const Query<D> query = load_query<N, D>(p, seq, kv_head, item.first_pair);
    Softmax<D> state;
    state.clear();
    for (u32 tile = 0; tile < n_tiles; ++tile) {
        u8* here = shared + tile % 2 * 2 * T::BYTES;
        u8* next = shared + (tile + 1) % 2 * 2 * T::BYTES;
        if (tile + 1 < n_tiles) {
            fetch_tile<N, D>(p, seq, kv_head, first_key + (tile + 1) * TILE_KEYS, next, next + T::BYTES, dev::lane(), 32);
        }
        dev::copy_commit();
        dev::copy_wait<1>();
        dev::warp_sync();
        take_tile<N, D>(p, seq, query, state, first_key + tile * TILE_KEYS, here, here + T::BYTES);
        dev::warp_sync();  // before the tile is overwritten
    }
    dev::copy_wait<0>();
    close_split(state);

    const u32 group = p.n_heads / p.cache.n_kv_heads, d = p.cache.head_dim, t = dev::lane() % 4;
#pragma unroll
    for (u32 h = 0; h < 2; ++h) {
        if (!query.sight[h].exists) continue;
        const u32 pair = item.first_pair + dev::lane() / 4 + 8 * h;
        const u64 partial = static_cast<u64>(seq.first_partial) + query.sight[h].row * seq.n_splits + split;
        const u64 at = partial * p.n_heads + kv_head * group + pair % group;
        if (t == 0) dev::store(p.partial_weights + at, Floats2{state.maximum[h], state.weight[h]});
#pragma unroll
        for (u32 j = 0; j < D / 8; ++j) {
            const u32 col = 8 * j + 2 * t;
            const Floats2 v = {state.sum[j][2 * h], state.sum[j][2 * h + 1]};
            if (col < d) dev::store(reinterpret_cast<Floats2*>(p.partial_sums + at * d + col), v);
        }
    }
}
