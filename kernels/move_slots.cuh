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

DEVICE void move_slots(const MoveSlotsParams& p) {
    const Words2 pair = dev::load(p.pairs + dev::block_x());
    const u32 bt = p.cache.block_tokens, n_words = p.cache.head_dim * (p.cache.kind == KV_F32 ? 4 : 2) / 4;
    u8* array = (dev::block_z() % 2 == 0 ? p.cache.keys : p.cache.values) + dev::block_z() / 2 * p.layer_bytes;
    const u32* from = reinterpret_cast<const u32*>(array) + cache_at(p.cache, pair.x / bt, pair.x % bt, dev::block_y()) / p.cache.head_dim * n_words;
    u32* to = reinterpret_cast<u32*>(array) + cache_at(p.cache, pair.y / bt, pair.y % bt, dev::block_y()) / p.cache.head_dim * n_words;
    for (u32 i = dev::lane(); i < n_words; i += 32) dev::store(to + i, dev::load(from + i));
}
