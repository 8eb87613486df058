// rope_store.cuh: norm (optional) and rotate each query in place, each key into the cache, and store the values
// Shapes     qkv [T, (H + 2 Hk) D] f32, inv_freq [n_pairs] or null, q_norm, k_norm [D] or null; 2 n_pairs <= D.
// Types      The cache is bf16, f16, f32 or eight-bit codes (largest element: 127). The angle is an f32 product of position and frequency.
// Launch     grid (ceil((H + 2 Hk) / 4), T), block 128: one warp a head of a row.
// Barriers   warp shuffles for the norm; they also part the last read of a head from its first write.
// Cost       reads 4*T*(H + 2 Hk)*D bytes and writes as much or less: bandwidth-bound, small.
// Reference  device/cpu/reference/rope.rs, norm.rs. Test: device/emu/test/attention.rs
// Source     Su et al. 2021, arXiv:2104.09864. No code adapted.
#pragma once
#include "common/angle.cuh"
#include "common/cache.cuh"

constexpr u32 ROPE_INTERLEAVED = 0, ROPE_HALVES = 1;

struct RopeStoreParams {
    float* qkv;
    CacheView cache;
    const u32* positions;
    const u32* slots;
    const float* inv_freq;
    const float* q_norm;
    const float* k_norm;
    u32 n_heads, n_pairs;
    u32 style;
    float eps;
};

/// Write a head's element to a cache array, two elements at a time where the type is narrow.
DEVICE void store_pair(const CacheView& c, u8* array, u64 at, u32 i, float a, float b) {
    if (c.kind == KV_F32) {
        dev::store(reinterpret_cast<Floats2*>(array) + (at + i) / 2, Floats2{a, b});
    } else {
        const u32 pair = c.kind == KV_BF16 ? dev::pack_bf16(a, b) : dev::pack_f16(a, b);
        dev::store(reinterpret_cast<u32*>(array) + (at + i) / 2, pair);
    }
}

/// Write a head as codes and a scale. Collective.
DEVICE void store_codes(const CacheView& c, u8* array, const CodesAt& at, const float* x) {
    float largest = 0.0f;
    for (u32 i = dev::lane(); i < c.head_dim; i += 32) {
        const float v = dev::load(x + i);
        largest = dev::max(largest, v < 0.0f ? -v : v);
    }
    largest = dev::warp_max(largest);
    const float inverse = largest > 0.0f ? dev::divide(127.0f, largest) : 0.0f;
    for (u32 i = dev::lane(); i < c.head_dim; i += 32) {
        const float v = dev::round(dev::load(x + i) * inverse);
        dev::store(array + at.codes + i, static_cast<u8>(dev::is_nan(v) ? 0 : static_cast<i32>(v)));
    }
    if (dev::lane() == 0) dev::store(reinterpret_cast<float*>(array + at.scale), dev::divide(largest, 127.0f));
}

/// Rotate a head in place. Pairs stand at (2i, 2i + 1), or at (i, i + n_pairs). `factor` and `norm` come first.
DEVICE void rotate(const RopeStoreParams& p, float* head, float position, const float* norm, float factor) {
    const u32 d = p.cache.head_dim, n_pairs = p.inv_freq == nullptr ? 0 : p.n_pairs;
    for (u32 i = dev::lane(); i < d / 2; i += 32) {
        u32 a = 2 * i, b = 2 * i + 1;
        if (i < n_pairs && p.style == ROPE_HALVES) a = i, b = i + n_pairs;
        float x = dev::load(head + a), y = dev::load(head + b);
        if (norm != nullptr) {
            x = x * factor * dev::load(norm + a);
            y = y * factor * dev::load(norm + b);
        }
        if (i < n_pairs) {
            float sine, cosine;
            sine_cosine(position * dev::load(p.inv_freq + i), sine, cosine);
            const float turned = dev::fma(x, cosine, -(y * sine));
            y = dev::fma(x, sine, y * cosine);
            x = turned;
        }
        dev::store(head + a, x);
        dev::store(head + b, y);
    }
}

DEVICE void rope_store(const RopeStoreParams& p) {
    const u32 n_kv = p.cache.n_kv_heads, d = p.cache.head_dim;
    const u32 head = dev::block_x() * 4 + dev::warp(), row = dev::block_y();
    if (head >= p.n_heads + 2 * n_kv) return;  // the whole warp
    float* x = p.qkv + (static_cast<u64>(row) * (p.n_heads + 2 * n_kv) + head) * d;
    const bool is_value = head >= p.n_heads + n_kv;
    if (!is_value) {
        const float* norm = head < p.n_heads ? p.q_norm : p.k_norm;
        float squares = 0.0f;
        if (norm != nullptr) {
            for (u32 i = dev::lane(); i < d; i += 32) {
                const float v = dev::load(x + i);
                squares = dev::fma(v, v, squares);
            }
        }
        squares = dev::warp_sum(squares);
        const float factor = dev::inverse_sqrt(dev::divide(squares, static_cast<float>(d)) + p.eps);
        rotate(p, x, static_cast<float>(dev::load(p.positions + row)), norm, factor);
        if (head < p.n_heads) return;
        dev::warp_sync();  // a pair of neighbours may come from two lanes
    }
    const u32 slot = dev::load(p.slots + row);
    const u32 kv_head = head - p.n_heads - (is_value ? n_kv : 0);
    const u32 block = slot / p.cache.block_tokens, offset = slot % p.cache.block_tokens;
    u8* array = is_value ? p.cache.values : p.cache.keys;
    if (p.cache.kind == KV_Q8) {
        store_codes(p.cache, array, codes_at(p.cache, block, offset, kv_head), x);
        return;
    }
    const u64 at = cache_at(p.cache, block, offset, kv_head);
    for (u32 i = 2 * dev::lane(); i < d; i += 64) store_pair(p.cache, array, at, i, dev::load(x + i), dev::load(x + i + 1));
}
