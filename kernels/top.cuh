// top.cuh: the k likeliest ids of a row of logits, the best allowed one, and what their probabilities are relative to
// Shapes     logits [n_valid] f32 (one row), mask [ceil(n_valid / 32)] bits or null, parts [n_parts][TOP_HEAD + 2 k]
//            words, out the same once: best allowed id and its logit, the largest logit, sum of 2^((logit - largest)
//            log2 e) over all and over the allowed ids; then k ids with their logits, best first.
// Types      f32. NaN is never among the likeliest and counts as impossible; ties go to the lower id.
// Launch     top_part: grid (ceil(n_valid / 2048)), block 256, eight ids a thread; top_merge: grid (1), block 256.
//            Shared 8 warps x 8 bytes, then 8 warps x 16 bytes.
// Barriers   two block barriers for each of the k; shuffles.
// Cost       reads 4 bytes an id once; k steps of a few hundred nanoseconds each, twice: only 8 k + 32 bytes go to the
//            host instead of the row.
// Reference  engine/logprobs.rs on the host. Test: device/emu/test/small.rs
// Source     none; no code adapted.
#pragma once
#include "argmax.cuh"

struct TopParams {
    const float* logits;
    const u32* mask;
    u32* parts;
    u32* out;
    u32 n_valid, k;
    u32 n_parts, pad;
};

/// Ids of a part, ids of a thread.
constexpr u32 TOP_IDS = 2048, TOP_OWN = 8;
/// Words before the list of a part.
constexpr u32 TOP_HEAD = 8;

/// Whether `c` comes after `last` in the order of the list.
DEVICE bool comes_after(const Candidate& c, const Candidate& last) {
    if (last.id == NO_ID) return true;
    return c.value < last.value || (c.value == last.value && c.id > last.id);
}

/// The best of all threads, known to all. Collective.
DEVICE Candidate best_of_block(Candidate c) {
    Floats2* shared = reinterpret_cast<Floats2*>(dev::shared());
    c = best_of_warp(c);
    dev::block_sync();  // the last result has been read
    if (dev::lane() == 0) dev::store(shared + dev::warp(), Floats2{c.value, dev::bits_float(c.id)});
    dev::block_sync();
    Candidate best = {0.0f, NO_ID};
    for (u32 i = 0; i < dev::n_threads() / 32; ++i) {
        const Floats2 v = dev::load(shared + i);
        best = better(best, {v.x, dev::float_bits(v.y)});
    }
    return best;
}

/// Sums of a softmax: the largest logit, and the sums relative to it.
struct TopSums {
    float largest, all, allowed;
};

DEVICE TopSums merged_sums(const TopSums& a, const TopSums& b) {
    const float m = dev::max(a.largest, b.largest), base = m == -dev::infinity() ? 0.0f : m;
    const float x = dev::exp2(1.4426950408889634f * (a.largest - base)), y = dev::exp2(1.4426950408889634f * (b.largest - base));
    return {m, dev::fma(a.all, x, b.all * y), dev::fma(a.allowed, x, b.allowed * y)};
}

DEVICE void write_head(u32* to, const Candidate& best, const TopSums& sums) {
    dev::store(to, best.id);
    dev::store(to + 1, dev::float_bits(best.value));
    dev::store(to + 2, dev::float_bits(sums.largest));
    dev::store(to + 3, dev::float_bits(sums.all));
    dev::store(to + 4, dev::float_bits(sums.allowed));
}

DEVICE void write_entry(u32* list, u32 i, const Candidate& c) {
    dev::store(list + 2 * i, c.id);
    dev::store(list + 2 * i + 1, dev::float_bits(c.value));
}

DEVICE bool top_allows(const TopParams& p, u32 id) {
    return p.mask == nullptr || (dev::load(p.mask + id / 32) >> (id % 32) & 1) != 0;
}

/// The sums of a block's ids, warp by warp, known to all. Collective.
DEVICE TopSums sums_of_block(const TopParams& p, const float (&own)[TOP_OWN], u32 first, float largest) {
    const float base = largest == -dev::infinity() ? 0.0f : largest;
    float all = 0.0f, allowed = 0.0f;
#pragma unroll
    for (u32 i = 0; i < TOP_OWN; ++i) {
        const u32 id = first + i * dev::n_threads();
        if (id >= p.n_valid || dev::is_nan(own[i])) continue;
        const float weight = dev::exp2(1.4426950408889634f * (own[i] - base));
        all += weight;
        if (top_allows(p, id)) allowed += weight;
    }
    all = dev::warp_sum(all);
    allowed = dev::warp_sum(allowed);
    Floats2* shared = reinterpret_cast<Floats2*>(dev::shared() + 64);
    if (dev::lane() == 0) dev::store(shared + dev::warp(), Floats2{all, allowed});
    dev::block_sync();
    TopSums sums = {largest, 0.0f, 0.0f};
    for (u32 i = 0; i < dev::n_threads() / 32; ++i) {
        const Floats2 v = dev::load(shared + i);
        sums.all += v.x;
        sums.allowed += v.y;
    }
    return sums;
}

DEVICE void top_part(const TopParams& p) {
    const u32 first = dev::block_x() * TOP_IDS + dev::thread();
    u32* part = p.parts + static_cast<u64>(dev::block_x()) * (TOP_HEAD + 2 * p.k);
    float own[TOP_OWN];
    Candidate allowed = {0.0f, NO_ID};
    float largest = -dev::infinity();
#pragma unroll
    for (u32 i = 0; i < TOP_OWN; ++i) {
        const u32 id = first + i * dev::n_threads();
        own[i] = id < p.n_valid ? dev::load(p.logits + id) : -dev::infinity();
        if (id >= p.n_valid) continue;
        if (top_allows(p, id)) allowed = better(allowed, {own[i], id});
        if (!dev::is_nan(own[i])) largest = dev::max(largest, own[i]);
    }
    allowed = best_of_block(allowed);
    Candidate last = {0.0f, NO_ID};
    for (u32 n = 0; n < p.k; ++n) {
        Candidate c = {0.0f, NO_ID};
#pragma unroll
        for (u32 i = 0; i < TOP_OWN; ++i) {
            const Candidate mine = {own[i], first + i * dev::n_threads()};
            const bool is_one = mine.id < p.n_valid && !dev::is_nan(mine.value);
            if (is_one && comes_after(mine, last)) c = better(c, mine);
        }
        c = best_of_block(c);
        if (dev::thread() == 0) write_entry(part + TOP_HEAD, n, c);
        // Nothing is left: an id above all others keeps it so.
        last = c.id == NO_ID ? Candidate{-dev::infinity(), NO_ID - 1} : c;
    }
    // The largest logit is only a base: any order finds the same.
    const Candidate top = best_of_block({largest, dev::thread()});
    const TopSums sums = sums_of_block(p, own, first, top.value);
    if (dev::thread() == 0) write_head(part, allowed, sums);
}

DEVICE void top_merge(const TopParams& p) {
    const u32 stride = TOP_HEAD + 2 * p.k;
    Candidate last = {0.0f, NO_ID};
    for (u32 n = 0; n < p.k; ++n) {
        Candidate c = {0.0f, NO_ID};
        for (u32 i = dev::thread(); i < p.n_parts * p.k; i += dev::n_threads()) {
            const u32* entry = p.parts + static_cast<u64>(i / p.k) * stride + TOP_HEAD + 2 * (i % p.k);
            const Candidate mine = {dev::bits_float(dev::load(entry + 1)), dev::load(entry)};
            if (mine.id != NO_ID && comes_after(mine, last)) c = better(c, mine);
        }
        c = best_of_block(c);
        if (dev::thread() == 0) write_entry(p.out + TOP_HEAD, n, c);
        last = c.id == NO_ID ? Candidate{-dev::infinity(), NO_ID - 1} : c;
    }
    if (dev::thread() != 0) return;
    Candidate best = {0.0f, NO_ID};
    TopSums sums = {-dev::infinity(), 0.0f, 0.0f};
    for (u32 i = 0; i < p.n_parts; ++i) {
        const u32* part = p.parts + static_cast<u64>(i) * stride;
        best = better(best, {dev::bits_float(dev::load(part + 1)), dev::load(part)});
        sums = merged_sums(sums, {dev::bits_float(dev::load(part + 2)), dev::bits_float(dev::load(part + 3)),
                                  dev::bits_float(dev::load(part + 4))});
    }
    write_head(p.out, best, sums);
}
