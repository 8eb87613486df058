// attention.cuh: softmax attention of 16 query rows with 32 keys at a time, in the matrix units.
// Place      Used by attend_split (few rows, splits in parallel), attend_rows (many rows, splits in turn) and
//            attend_combine. They share every step of the arithmetic, so a row's result has the same bits whichever
//            of them computed it.
// Shapes     A query row is a pair (row of the sequence, query head of a key-value head's group): pair p is row p / G
//            and head p % G, G = H / Hk. Sixteen pairs make the rows of a matrix product. `D` is the head size rounded up
//            to 16, 64 or 128; the rest is zeros.
// Invariants Keys are taken in tiles of 32 from position 0, tiles in splits of SPLIT_KEYS from position 0. Within a split
//            the softmax is the running one; splits are merged in order. A tile, or split, that a row does not see
//            leaves its state bit for bit as it was, so it may be computed or left out.
// Source     Running softmax: Milakov and Gimelshein 2018, arXiv:1805.02867. Splits over keys: Dao et al. 2023,
//            Flash-Decoding. No code adapted.
#pragma once
#include "common/cache.cuh"

constexpr u32 TILE_KEYS = 32, SPLIT_TILES = 4, SPLIT_KEYS = TILE_KEYS * SPLIT_TILES;

/// What every attention kernel is told.
struct AttendParams {
    const float* qkv;
    CacheView cache;
    StepView step;
    const AttendItem* items;
    /// Results of splits: sums [partial][H][D], then pairs of (maximum, weight) [partial][H].
    float* partial_sums;
    Floats2* partial_weights;
    float* out;
    u32 n_heads;
    /// 0: no window.
    u32 window;
    /// Score scale times log2(e).
    float scale;
    u32 n_rows;
    /// Sequence of every row; used by attend_precise only. [T]
    const u32* row_seqs;
};

/// What a cache holds: how rows are packed for the product, and whether keys and values are codes to be unpacked.
struct NumberBf16 {
    static constexpr bool IS_CODES = false;
    DEVICE static u32 pack(float a, float b) { return dev::pack_bf16(a, b); }
    DEVICE static void mma(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
        dev::mma_bf16(c, a0, a1, a2, a3, b0, b1);
    }
};
struct NumberF16 {
    static constexpr bool IS_CODES = false;
    DEVICE static u32 pack(float a, float b) { return dev::pack_f16(a, b); }
    DEVICE static void mma(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
        dev::mma_f16(c, a0, a1, a2, a3, b0, b1);
    }
};

/// Codes times their scale are rounded to f16, which loses an eighth of what the codes had lost before.
struct NumberQ8 : NumberF16 {
    static constexpr bool IS_CODES = true;
};

template <u32 D> struct KeyTile {
    static constexpr u32 CHUNKS = D / 8, ROW_BYTES = 2 * D, BYTES = TILE_KEYS * ROW_BYTES;
    static constexpr u32 SWIZZLE = (CHUNKS < 8 ? CHUNKS : 8) - 1;
    /// Eight keys of one chunk, which a matrix load reads at once, lie in different banks.
    DEVICE static u32 at(u32 key, u32 chunk) { return key * ROW_BYTES + 16 * (chunk ^ (key & SWIZZLE)); }
};

/// Which keys a query row sees.
struct Sight {
    u32 row;
    bool exists;
    u32 position;
};

DEVICE Sight sight_of(const AttendParams& p, const SeqView& seq, u32 row, bool exists) {
    return {row, exists, exists ? dev::load(p.step.positions + seq.first_row + row) : 0};
}

DEVICE bool sees(const AttendParams& p, const SeqView& seq, const Sight& s, u32 key) {
    if (!s.exists || key >= seq.past + seq.n_rows) return false;
    u32 key_position = key;
    if (key >= seq.past) {
        const u32 own = key - seq.past;
        if (seq.first_word == NO_TREE) {
            if (own > s.row) return false;
        } else {
            const u32 n_words = (seq.n_rows + 63) / 64;
            const u64 word = dev::load(p.step.tree + seq.first_word + s.row * n_words + own / 64);
            if (!(word >> (own % 64) & 1)) return false;
        }
        if (p.window != 0) key_position = dev::load(p.step.positions + seq.first_row + own);
    }
    return p.window == 0 || s.position < key_position + p.window;
}

/// Eight codes as f16.
DEVICE Words4 unpack_codes(const u8* codes, const u8* scale) {
    const Words2 w = dev::load(reinterpret_cast<const Words2*>(codes));
    const float s = dev::load(reinterpret_cast<const float*>(scale));
    float v[8];
#pragma unroll
    for (u32 i = 0; i < 8; ++i) v[i] = s * static_cast<float>(static_cast<i8>((i < 4 ? w.x : w.y) >> (8 * (i % 4))));
    return {dev::pack_f16(v[0], v[1]), dev::pack_f16(v[2], v[3]), dev::pack_f16(v[4], v[5]), dev::pack_f16(v[6], v[7])};
}

/// Start copying keys and values first_key .. first_key + 31 of a sequence; zeros past its end. Codes
/// are unpacked on the way: they are in place for other threads after the next barrier, as copies are.
template <class N, u32 D>
DEVICE void fetch_tile(const AttendParams& p, const SeqView& seq, u32 kv_head, u32 first_key, u8* keys, u8* values,
                       u32 thread, u32 n_threads) {
    using T = KeyTile<D>;
    for (u32 i = thread; i < TILE_KEYS * T::CHUNKS; i += n_threads) {
        const u32 key = i / T::CHUNKS, chunk = i % T::CHUNKS, position = first_key + key;
        const bool wanted = position < seq.past + seq.n_rows && 8 * chunk < p.cache.head_dim;
        u32 block = 0;
        if (wanted) block = dev::load(p.step.blocks + seq.first_block + position / p.cache.block_tokens);
        const u32 offset = position % p.cache.block_tokens;
        if constexpr (N::IS_CODES) {
            Words4 k = {0, 0, 0, 0}, v = k;
            if (wanted) {
                const CodesAt at = codes_at(p.cache, block, offset, kv_head);
                k = unpack_codes(p.cache.keys + at.codes + 8 * chunk, p.cache.keys + at.scale);
                v = unpack_codes(p.cache.values + at.codes + 8 * chunk, p.cache.values + at.scale);
            }
            dev::store(reinterpret_cast<Words4*>(keys + T::at(key, chunk)), k);
            dev::store(reinterpret_cast<Words4*>(values + T::at(key, chunk)), v);
            continue;
        }
        const u64 at = wanted ? 2 * (cache_at(p.cache, block, offset, kv_head) + 8 * chunk) : 0;
        dev::copy_async16(keys + T::at(key, chunk), p.cache.keys + at, wanted);
        dev::copy_async16(values + T::at(key, chunk), p.cache.values + at, wanted);
    }
}

/// A lane's share of 16 query rows: rows g and g + 8, as the left side of a product.
template <u32 D> struct Query {
    u32 q[D / 16][4];
    Sight sight[2];
};

template <class N, u32 D>
DEVICE Query<D> load_query(const AttendParams& p, const SeqView& seq, u32 kv_head, u32 first_pair) {
    const u32 group = p.n_heads / p.cache.n_kv_heads, d = p.cache.head_dim;
    const u32 width = (p.n_heads + 2 * p.cache.n_kv_heads) * d;
    const u32 g = dev::lane() / 4, t = dev::lane() % 4;
    Query<D> query;
#pragma unroll
    for (u32 h = 0; h < 2; ++h) {
        const u32 pair = first_pair + g + 8 * h, row = pair / group;
        const bool exists = row < seq.n_rows;
        query.sight[h] = sight_of(p, seq, row, exists);
        const float* q = p.qkv + static_cast<u64>(seq.first_row + row) * width + (kv_head * group + pair % group) * d;
#pragma unroll
        for (u32 k = 0; k < D / 16; ++k) {
#pragma unroll
            for (u32 i = 0; i < 2; ++i) {
                const u32 col = 16 * k + 8 * i + 2 * t;
                Floats2 v = {0.0f, 0.0f};
                if (exists && col < d) v = dev::load(reinterpret_cast<const Floats2*>(q + col));
                query.q[k][2 * i + h] = N::pack(v.x, v.y);
            }
        }
    }
    return query;
}

/// Running softmax of a lane's two query rows: maximum of the scores (in powers of two), sum of the weights (of this
/// lane's keys until it is reduced), weighted values.
template <u32 D> struct Softmax {
    float maximum[2], weight[2];
    float sum[D / 8][4];

    DEVICE void clear() {
        maximum[0] = maximum[1] = -dev::infinity();
        weight[0] = weight[1] = 0.0f;
#pragma unroll
        for (u32 j = 0; j < D / 8; ++j)
#pragma unroll
            for (u32 i = 0; i < 4; ++i) sum[j][i] = 0.0f;
    }
};

/// Scores of 16 query rows with a tile's keys: s[j] are keys 8j .. 8j + 7. Collective.
template <class N, u32 D> DEVICE void tile_scores(const Query<D>& query, const u8* keys, float (&s)[4][4]) {
    const u32 lane = dev::lane(), matrix = lane / 8;
#pragma unroll
    for (u32 k = 0; k < D / 16; ++k) {
#pragma unroll
        for (u32 jj = 0; jj < 2; ++jj) {
            u32 b[4];
            const u32 key = 16 * jj + 8 * (matrix / 2) + lane % 8, chunk = 2 * k + matrix % 2;
            dev::load_matrix4(b, keys + KeyTile<D>::at(key, chunk));
            N::mma(s[2 * jj], query.q[k][0], query.q[k][1], query.q[k][2], query.q[k][3], b[0], b[1]);
            N::mma(s[2 * jj + 1], query.q[k][0], query.q[k][1], query.q[k][2], query.q[k][3], b[2], b[3]);
        }
    }
}

/// The exponent base that a maximum stands for: rows that see nothing yet have none.
DEVICE float finite(float maximum) { return maximum == -dev::infinity() ? 0.0f : maximum; }

/// Take a tile of keys and values into the softmax. Collective.
template <class N, u32 D>
DEVICE void take_tile(const AttendParams& p, const SeqView& seq, const Query<D>& query, Softmax<D>& state, u32 first_key,
                      const u8* keys, const u8* values) {
    const u32 lane = dev::lane(), t = lane % 4;
    float s[4][4] = {};
    tile_scores<N, D>(query, keys, s);
    const bool all_see = first_key + TILE_KEYS <= seq.past && p.window == 0;
    float tile_maximum[2] = {-dev::infinity(), -dev::infinity()};
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            const bool seen = all_see ? query.sight[i / 2].exists : sees(p, seq, query.sight[i / 2], first_key + 8 * j + 2 * t + i % 2);
            s[j][i] = seen ? s[j][i] * p.scale : -dev::infinity();
            tile_maximum[i / 2] = dev::max(tile_maximum[i / 2], s[j][i]);
        }
    }
    float base[2];
#pragma unroll
    for (u32 h = 0; h < 2; ++h) {
        float m = tile_maximum[h];
        m = dev::max(m, dev::shuffle_xor(m, 1));
        m = dev::max(m, dev::shuffle_xor(m, 2));
        m = dev::max(m, state.maximum[h]);
        base[h] = finite(m);
        const float decay = dev::exp2(state.maximum[h] - base[h]);
        state.maximum[h] = m;
        state.weight[h] *= decay;
#pragma unroll
        for (u32 j = 0; j < D / 8; ++j) state.sum[j][2 * h] *= decay, state.sum[j][2 * h + 1] *= decay;
    }
    u32 weights[4][2];
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            s[j][i] = dev::exp2(s[j][i] - base[i / 2]);
            state.weight[i / 2] += s[j][i];
        }
        weights[j][0] = N::pack(s[j][0], s[j][1]);
        weights[j][1] = N::pack(s[j][2], s[j][3]);
    }
    const u32 matrix = lane / 8;
#pragma unroll
    for (u32 k = 0; k < 2; ++k) {
#pragma unroll
        for (u32 j = 0; j < D / 8; j += 2) {
            u32 b[4];
            const u32 key = 16 * k + 8 * (matrix % 2) + lane % 8, chunk = j + matrix / 2;
            dev::load_matrix4_transposed(b, values + KeyTile<D>::at(key, chunk));
            N::mma(state.sum[j], weights[2 * k][0], weights[2 * k][1], weights[2 * k + 1][0], weights[2 * k + 1][1], b[0], b[1]);
            N::mma(state.sum[j + 1], weights[2 * k][0], weights[2 * k][1], weights[2 * k + 1][0], weights[2 * k + 1][1], b[2], b[3]);
        }
    }
}

/// Sum the weights of a row over the four lanes that share it. Collective.
template <u32 D> DEVICE void close_split(Softmax<D>& state) {
#pragma unroll
    for (u32 h = 0; h < 2; ++h) {
        state.weight[h] += dev::shuffle_xor(state.weight[h], 1);
        state.weight[h] += dev::shuffle_xor(state.weight[h], 2);
    }
}

/// How a merged state and a further split are scaled to each other.
struct Merge {
    float maximum, old_scale, new_scale;
};

DEVICE Merge merge_of(float old_maximum, float new_maximum) {
    const float m = dev::max(old_maximum, new_maximum), base = finite(m);
    return {m, dev::exp2(old_maximum - base), dev::exp2(new_maximum - base)};
}
DEVICE float merged(const Merge& m, float old_value, float new_value) {
    return dev::fma(old_value, m.old_scale, new_value * m.new_scale);
}
/// A row that saw no key is zero.
DEVICE float normalised(float sum, float weight) { return weight == 0.0f ? 0.0f : dev::divide(sum, weight); }
