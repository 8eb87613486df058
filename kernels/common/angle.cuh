// angle.cuh: sine and cosine without the slow path of the library, which spills to local memory.
// Place      Used by rope_store.
// Invariants Accurate to 2e-7 for |a| up to 1e5, more than any context length needs.
// Source     Cody and Waite, Software Manual for the Elementary Functions, 1980: reduction by pi/2 in three parts.
//            Coefficients: Taylor polynomials of sine and cosine, which reach f32 precision on [-pi/4, pi/4].
#pragma once
#include "common/portable.cuh"

DEVICE void sine_cosine(float a, float& sine, float& cosine) {
    const float k = dev::round(a * 0.63661977236758134f);
    float r = dev::fma(-k, 1.5707962512969971f, a);
    r = dev::fma(-k, 7.5497894158615964e-8f, r);
    r = dev::fma(-k, 5.3903029534742384e-15f, r);
    const float r2 = r * r;
    float s = dev::fma(r2, 2.7557319e-6f, -1.9841270e-4f);
    s = dev::fma(r2, s, 8.3333333e-3f);
    s = dev::fma(r2, s, -1.6666667e-1f);
    s = dev::fma(r2 * r, s, r);
    float c = dev::fma(r2, -2.7557319e-7f, 2.4801587e-5f);
    c = dev::fma(r2, c, -1.3888889e-3f);
    c = dev::fma(r2, c, 4.1666667e-2f);
    c = dev::fma(r2, c, -0.5f);
    c = dev::fma(r2, c, 1.0f);
    const i32 quadrant = static_cast<i32>(k) & 3;
    const float x = quadrant & 1 ? c : s, y = quadrant & 1 ? s : c;
    sine = quadrant & 2 ? -x : x;
    cosine = (quadrant + 1) & 2 ? -y : y;
}
