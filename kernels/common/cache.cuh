// cache.cuh: where keys and values lie, and the rows of a step.
// Place      Used by rope_store, the attention kernels and move_slots. Mirrored in src/device/cuda/params.rs.
// Shapes     Keys of a layer are [block][Hk][block_tokens][D]; values the same, in an array of their own. A slot is
//            block * block_tokens + offset. Eight-bit codes [block_tokens][D] of a block and head are followed by
//            their f32 scales [block_tokens].
#pragma once
#include "common/portable.cuh"

/// How an element is stored.
constexpr u32 KV_BF16 = 0, KV_F16 = 1, KV_F32 = 2, KV_Q8 = 3;

/// One layer's keys and values.
struct CacheView {
    u8* keys;
    u8* values;
    u32 n_kv_heads, head_dim;
    u32 block_tokens;
    u32 kind;
};

/// Element offset of a head's vector in a slot.
DEVICE u64 cache_at(const CacheView& c, u32 block, u32 offset, u32 kv_head) {
    return ((static_cast<u64>(block) * c.n_kv_heads + kv_head) * c.block_tokens + offset) * c.head_dim;
}

/// Byte offsets of a head's codes in a slot, and of their scale.
struct CodesAt {
    u64 codes, scale;
};
DEVICE CodesAt codes_at(const CacheView& c, u32 block, u32 offset, u32 kv_head) {
    const u64 head = static_cast<u64>(block) * c.n_kv_heads + kv_head, n_codes = c.block_tokens * c.head_dim;
    const u64 first = head * (n_codes + 4 * c.block_tokens);
    return {first + offset * c.head_dim, first + n_codes + 4 * offset};
}

/// The rows of one sequence in a step.
struct SeqView {
    u32 first_row, n_rows;
    u32 past;
    /// First entry of its block table in `blocks`.
    u32 first_block;
    /// First 64-bit word of its tree mask in `tree`, or NO_TREE.
    u32 first_word;
    /// First partial result of its first row, of a head; see attend_split.cuh.
    u32 first_partial;
    u32 n_splits;
    u32 pad;
};
constexpr u32 NO_TREE = 0xffffffffu;

/// One block's share of attention: query pairs first_pair .. of a sequence, splits first_split .. end_split.
struct AttendItem {
    u32 seq, first_pair, first_split, end_split;
};

/// Arrays that a step uploads.
struct StepView {
    const u32* positions;  // [T]
    const u32* slots;      // [T]
    const SeqView* seqs;
    const u32* blocks;
    const u64* tree;
};
