//! A key or value head in eight bits: codes and one scale.
//!
//! # Place
//! Part of `device::cpu::quant`. What the eight-bit cache of every device stores; `kernels/rope_store.cuh` does the same
//! arithmetic.

/// Codes of a head, and the scale that they stand for: an element is `code · scale`, off by half a scale at most.
pub(in crate::device) fn quantise_head(values: &[f32], codes: &mut [i8]) -> f32 {
    let largest = values.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    let inverse = if largest > 0.0 { 127.0 / largest } else { 0.0 };
    for (code, v) in codes.iter_mut().zip(values) {
        *code = (v * inverse).round_ties_even() as i8;
    }
    largest / 127.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_off_by_half_a_scale_at_most_and_its_largest_element_is_kept() {
        let values = [0.1, -2.0, 0.7, 1.999];
        let mut codes = [0; 4];
        let scale = quantise_head(&values, &mut codes);
        assert_eq!(codes[1], -127);
        for (code, v) in codes.iter().zip(values) {
            assert!((f32::from(*code) * scale - v).abs() <= 0.5001 * scale, "{v}");
        }
        assert_eq!(quantise_head(&[0.0; 4], &mut codes), 0.0);
        assert_eq!(codes, [0; 4], "nothing is divided by nothing");
    }
}
