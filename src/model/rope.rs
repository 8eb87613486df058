//! Rotary frequencies, with the two kinds of scaling that are supported.
//!
//! # Place
//! Part of `model`; pure.
//! # Sources
//! Su et al. 2021, arXiv:2104.09864 section 3.4.2: `theta_i = base^(-2i/d)`. Llama 3.1's stretch: the
//! formula of its reference code as documented for the `llama3` rope type of transformers.

use super::{RopeConfig, RopeScaling};

/// Inverse frequency of every rotated pair, `dims / 2` of them. `divisors` (GGUF's
/// `rope_freqs.weight`) divide on top, one for each pair.
pub(super) fn inverse_frequencies(rope: &RopeConfig, divisors: Option<&[f32]>) -> Vec<f32> {
    let half = rope.dims / 2;
    (0..half)
        .map(|i| {
            let plain = rope.theta.powf(-2.0 * i as f64 / rope.dims as f64);
            let scaled = scale(plain, rope.scaling);
            (scaled / divisors.map_or(1.0, |d| f64::from(d[i]))) as f32
        })
        .collect()
}

fn scale(freq: f64, scaling: RopeScaling) -> f64 {
    match scaling {
        RopeScaling::None => freq,
        RopeScaling::Linear { factor } => freq / factor,
        RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_context } => {
            let wavelength = 2.0 * std::f64::consts::PI / freq;
            if wavelength < original_context / high_freq_factor {
                freq
            } else if wavelength > original_context / low_freq_factor {
                freq / factor
            } else {
                let ramp = (original_context / wavelength - low_freq_factor)
                    / (high_freq_factor - low_freq_factor);
                (1.0 - ramp) * freq / factor + ramp * freq
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::RopeStyle;

    fn rope(scaling: RopeScaling) -> RopeConfig {
        RopeConfig {
            theta: 10_000.0,
            scaling,
            style: RopeStyle::Halves,
            dims: 64,
            skip_interval: None,
        }
    }

    #[test]
    fn linear_scaling_divides_every_frequency() {
        let plain = inverse_frequencies(&rope(RopeScaling::None), None);
        let scaled = inverse_frequencies(&rope(RopeScaling::Linear { factor: 8.0 }), None);
        assert_eq!(plain.len(), 32);
        assert!((plain[0] - 1.0).abs() < 1e-7);
        for (p, s) in plain.iter().zip(&scaled) {
            assert!((p / s - 8.0).abs() < 1e-5);
        }
    }

    #[test]
    fn llama3_scaling_keeps_high_frequencies_and_divides_low_ones() {
        let scaling = RopeScaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_context: 8192.0,
        };
        let plain = inverse_frequencies(&rope(RopeScaling::None), None);
        let scaled = inverse_frequencies(&rope(scaling), None);
        assert_eq!(plain[0], scaled[0]);
        assert!((plain[31] / scaled[31] - 8.0).abs() < 1e-4, "the last pair turns 8 times slower");
        assert!(scaled.windows(2).all(|w| w[0] > w[1]), "frequencies fall");
    }

    #[test]
    fn divisors_from_the_file_are_applied() {
        let divided = inverse_frequencies(&rope(RopeScaling::None), Some(&[2.0; 32]));
        assert!((divided[0] - 0.5).abs() < 1e-7);
    }
}
