// epilogue.cuh: what happens to a finished sum before it is written.
// Place      Used by matvec, product and precise.
#pragma once
#include "common/portable.cuh"

/// Values of `mode`. Set: out = y + bias. Add: out += y + bias. Gated: out = act(y of the gate) * (y of the up row).
/// After: out = act(out) * y, for an up matrix whose gate, of another type, was multiplied before it.
/// Raw: both sums of a gated matrix, the gate's at out and the up row's n_outputs further on.
constexpr u32 MODE_SET = 0, MODE_ADD = 1, MODE_SILU = 2, MODE_GELU_TANH = 3, MODE_AFTER = 2, MODE_RAW = 6;

/// Whether gate and up rows lie in one matrix.
DEVICE bool is_pair(u32 mode) { return mode == MODE_SILU || mode == MODE_GELU_TANH || mode == MODE_RAW; }

DEVICE float sigmoid(float v) { return dev::divide(1.0f, 1.0f + dev::exp2(-1.4426950408889634f * v)); }

/// The tanh form of GELU is x * sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3): tanh(u) = 2 sigmoid(2 u) - 1.
DEVICE float activate(u32 mode, float v) {
    if (mode == MODE_SILU) return v * sigmoid(v);
    return v * sigmoid(1.5957691216057308f * dev::fma(0.044715f * v * v, v, v));
}

/// Write one element of a sum that is not gated.
DEVICE void finish(u32 mode, float y, const float* bias, u32 row, float* out) {
    if (bias != nullptr) y += dev::load(bias + row);
    if (mode == MODE_ADD) y += dev::load(out);
    if (mode == MODE_SILU + MODE_AFTER || mode == MODE_GELU_TANH + MODE_AFTER) y *= activate(mode - MODE_AFTER, dev::load(out));
    dev::store(out, y);
}

/// Write a gate's sum and its up row's.
DEVICE void finish_gated(u32 mode, float gate, float up, u32 n_outputs, float* out) {
    if (mode == MODE_RAW) {
        dev::store(out, gate);
        dev::store(out + n_outputs, up);
        return;
    }
    dev::store(out, activate(mode, gate) * up);
}

/// Write the rows g and g + 8 of a tile for one token: `out` is where row 0 of the matrix goes.
DEVICE void finish_pair(u32 mode, float low, float high, u32 row_tile, u32 g, u32 n_rows, const float* bias, float* out) {
    const u32 row = 16 * row_tile + g;
    if (is_pair(mode)) {
        const u32 col = 8 * row_tile + g;
        if (2 * col < n_rows) finish_gated(mode, low, high, n_rows / 2, out + col);
        return;
    }
    if (row < n_rows) finish(mode, low, bias, row, out + row);
    if (row + 8 < n_rows) finish(mode, high, bias, row + 8, out + row + 8);
}
