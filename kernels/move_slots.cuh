// move_slots.cuh: copy keys and values of single tokens to other slots, in every layer
// Shapes     pairs [n] of (from slot, to slot). Layers of the cache are `layer_bytes` apart, and all keys lie before all
//            values.
// Launch     grid (n, Hk, 2 L), block 32: a warp moves one head's vector of one token in one layer.
// Barriers   none. Slots that are read must not be written in the same launch; the host splits the list where they are.
// Cost       reads and writes 2*n*L*Hk*D elements: bandwidth-bound, small.
// Reference  device/cpu/reference, move_slots and copy_blocks. Test: device/emu/test/small.rs
// Source     none; no code adapted.
#pragma once
#include "common/cache.cuh"

struct MoveSlotsParams {
    /// Layer 0.
    CacheView cache;
    const Words2* pairs;
    u64 layer_bytes;
};

DEVICE void move_words(u8* to, const u8* from, u32 n_words) {
    for (u32 i = dev::lane(); i < n_words; i += 32) {
        dev::store(reinterpret_cast<u32*>(to) + i, dev::load(reinterpret_cast<const u32*>(from) + i));
    }
}

DEVICE void move_slots(const MoveSlotsParams& p) {
    const Words2 pair = dev::load(p.pairs + dev::block_x());
    const u32 bt = p.cache.block_tokens, kv_head = dev::block_y();
    u8* array = (dev::block_z() % 2 == 0 ? p.cache.keys : p.cache.values) + dev::block_z() / 2 * p.layer_bytes;
    if (p.cache.kind == KV_Q8) {
        const CodesAt from = codes_at(p.cache, pair.x / bt, pair.x % bt, kv_head);
        const CodesAt to = codes_at(p.cache, pair.y / bt, pair.y % bt, kv_head);
        move_words(array + to.codes, array + from.codes, p.cache.head_dim / 4);
        move_words(array + to.scale, array + from.scale, 1);
        return;
    }
    const u32 n_bytes = p.cache.kind == KV_F32 ? 4 : 2;
    const u64 from = n_bytes * cache_at(p.cache, pair.x / bt, pair.x % bt, kv_head);
    const u64 to = n_bytes * cache_at(p.cache, pair.y / bt, pair.y % bt, kv_head);
    move_words(array + to, array + from, p.cache.head_dim * n_bytes / 4);
}
