// attend_precise.cuh: attention over an f32 cache, in f32 throughout
// Shapes     qkv [T, (H + 2 Hk) D], cache [block][Hk][block_tokens][D], out [T, H D], all f32. D % 4 == 0, D <= 256.
// Launch     grid (ceil(H / 4), T), block 128: a warp for one head of a row; a lane scores one key of each 32, then
//            adds up the columns lane, lane + 32, …
// Barriers   warp shuffles.
// Cost       reads the cache once for each query head and row: made to be exact, not quick.
// Reference  device/cpu/reference/attention.rs. Test: device/emu/test/attention.rs
// Source     running softmax, see common/attention.cuh. No code adapted.
#pragma once
#include "common/attention.cuh"

constexpr u32 PRECISE_COLUMNS = 8;

DEVICE float precise_score(const AttendParams& p, const SeqView& seq, const float* q, u32 kv_head, u32 key) {
    const u32 block = dev::load(p.step.blocks + seq.first_block + key / p.cache.block_tokens);
    const float* k = reinterpret_cast<const float*>(p.cache.keys) + cache_at(p.cache, block, key % p.cache.block_tokens, kv_head);
    float score = 0.0f;
    for (u32 i = 0; i < p.cache.head_dim; i += 4) {
        const Floats4 a = dev::load(reinterpret_cast<const Floats4*>(q + i)), b = dev::load(reinterpret_cast<const Floats4*>(k + i));
        score = dev::fma(a.x, b.x, score);
        score = dev::fma(a.y, b.y, score);
        score = dev::fma(a.z, b.z, score);
        score = dev::fma(a.w, b.w, score);
    }
    return score * p.scale;
}

DEVICE void attend_precise(const AttendParams& p) {
    const u32 head = dev::block_x() * 4 + dev::warp(), t = dev::block_y(), lane = dev::lane();
    if (head >= p.n_heads) return;  // the whole warp
    const SeqView seq = dev::load(p.step.seqs + dev::load(p.row_seqs + t));
    const u32 d = p.cache.head_dim, n_keys = seq.past + seq.n_rows;
    const u32 kv_head = head / (p.n_heads / p.cache.n_kv_heads);
    const float* q = p.qkv + (static_cast<u64>(t) * (p.n_heads + 2 * p.cache.n_kv_heads) + head) * d;
    const Sight sight = sight_of(p, seq, t - seq.first_row, true);
    float maximum = -dev::infinity(), weight = 0.0f, sum[PRECISE_COLUMNS] = {};
    for (u32 first = 0; first < n_keys; first += 32) {
        const bool seen = sees(p, seq, sight, first + lane);
        const float score = seen ? precise_score(p, seq, q, kv_head, first + lane) : -dev::infinity();
        const float m = dev::max(maximum, dev::warp_max(score)), base = finite(m);
        const float decay = dev::exp2(maximum - base), w = dev::exp2(score - base);
        maximum = m;
        weight = dev::fma(weight, decay, dev::warp_sum(w));
#pragma unroll
        for (u32 i = 0; i < PRECISE_COLUMNS; ++i) sum[i] *= decay;
        for (u32 k = 0; k < 32 && first + k < n_keys; ++k) {
            const float share = dev::shuffle(w, k);
            const u32 block = dev::load(p.step.blocks + seq.first_block + (first + k) / p.cache.block_tokens);
            const float* v = reinterpret_cast<const float*>(p.cache.values) +
                             cache_at(p.cache, block, (first + k) % p.cache.block_tokens, kv_head);
#pragma unroll
            for (u32 i = 0; i < PRECISE_COLUMNS; ++i)
                if (lane + 32 * i < d) sum[i] = dev::fma(share, dev::load(v + lane + 32 * i), sum[i]);
        }
    }
    float* out = p.out + (static_cast<u64>(t) * p.n_heads + head) * d;
#pragma unroll
    for (u32 i = 0; i < PRECISE_COLUMNS; ++i)
        if (lane + 32 * i < d) dev::store(out + lane + 32 * i, normalised(sum[i], weight));
}
