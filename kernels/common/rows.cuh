// rows.cuh: how a product reads the rows of x, with or without a norm, and the sum of squares that goes with it.
// Place      Used by matvec (from f32 rows, while multiplying) and prepare (ahead of product). Both give the same bits.
// Invariants y = (sum over c of w[c] bf16(x[c] norm[c])) / sqrt(mean(x^2) + eps): the factor of a row is applied to the
//            finished sum, so a product can begin before the row was read to its end. The squares of a row are summed
//            in 8 slices of 4 threads; thread t of a slice takes the columns 8t .. 8t + 7 of each 32.
#pragma once
#include "common/weight.cuh"

/// Eight columns of a row, scaled by the norm's weights and rounded; their squares are added to `squares`.
DEVICE Words4 prepare8(const float* x, const float* norm, float& squares) {
    const Floats4 low = dev::load(reinterpret_cast<const Floats4*>(x));
    const Floats4 high = dev::load(reinterpret_cast<const Floats4*>(x) + 1);
    float v[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    if (norm != nullptr) {
        const Floats4 n0 = dev::load(reinterpret_cast<const Floats4*>(norm));
        const Floats4 n1 = dev::load(reinterpret_cast<const Floats4*>(norm) + 1);
        const float n[8] = {n0.x, n0.y, n0.z, n0.w, n1.x, n1.y, n1.z, n1.w};
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            squares = dev::fma(v[i], v[i], squares);
            v[i] *= n[i];
        }
    }
    return {dev::pack_bf16(v[0], v[1]), dev::pack_bf16(v[2], v[3]), dev::pack_bf16(v[4], v[5]),
            dev::pack_bf16(v[6], v[7])};
}

/// The squares of a slice, summed over its four threads; lanes are 4 apart from one slice or token to the next. Collective.
DEVICE float slice_sum(float squares) {
    squares += dev::shuffle_xor(squares, 1);
    return squares + dev::shuffle_xor(squares, 2);
}

/// The factor of a row whose slices have these sums of squares.
DEVICE float row_factor(const float* slices, u32 stride, u32 n_cols, float eps) {
    float sum = 0.0f;
    for (u32 s = 0; s < N_SLICES; ++s) sum += dev::load(slices + s * stride);
    return dev::inverse_sqrt(dev::divide(sum, static_cast<float>(n_cols)) + eps);
}
