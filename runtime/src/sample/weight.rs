//! Unnormalised probabilities: e to the (logit - maximum) / temperature, for whole rows at once.
//!
//! A row of 248320 logits needs as many exponentials, so they are written to be vectorised: plain
//! float32 arithmetic without branches or tables, the same bits on every machine. Sums are float64.

/// Values per step of the loops over a row.
const LANES: usize = 16;

/// Where a row stands: its maximum and the factor of its logits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) max: f32,
    factor: f32,
}

impl Scale {
    /// `temperature` is positive.
    pub(super) fn new(max: f32, temperature: f32) -> Self {
        // A finite factor keeps the maximum's own weight at one for the smallest temperatures too.
        let factor = (std::f32::consts::LOG2_E / temperature).min(f32::MAX);
        Self { max, factor }
    }

    /// Exponent of a logit to base 2: 0 for the maximum, negative below it.
    #[inline]
    pub(super) fn exponent(self, logit: f32) -> f32 {
        (logit - self.max) * self.factor
    }

    /// Probability of a logit relative to that of the maximum, in [0, 1].
    #[inline]
    pub(super) fn weight(self, logit: f32) -> f64 {
        f64::from(exp2(self.exponent(logit)))
    }

    /// Sum of the weights of `logits`.
    pub(super) fn mass(self, logits: &[f32]) -> f64 {
        let mut sums = [0.0f64; LANES];
        let chunks = logits.chunks_exact(LANES);
        let rest: f64 = chunks.remainder().iter().map(|v| self.weight(*v)).sum();
        for chunk in chunks {
            // Two loops: the first then runs on float32 vectors.
            let mut weights = [0.0f32; LANES];
            for (weight, value) in weights.iter_mut().zip(chunk) {
                *weight = exp2(self.exponent(*value));
            }
            for (sum, weight) in sums.iter_mut().zip(weights) {
                *sum += f64::from(weight);
            }
        }
        sums.iter().sum::<f64>() + rest
    }
}

/// 2^x for x <= 0 within 2e-7 of its value; 0 below -125.5, where float32 ends, and for NaN.
///
/// x = n + r, |r| <= 1/2; 2^r by Cephes' polynomial of degree 6 (`exp2f`), 2^n by its exponent bits.
#[inline]
fn exp2(x: f32) -> f32 {
    const LOWEST: f32 = -125.5;
    /// Adding this rounds to an integer, whose two's complement then lies in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let rounded = x + ROUND;
    let r = x - (rounded - ROUND);
    let mut p = 1.535_336_2e-4;
    for c in [
        1.339_887_4e-3,
        9.618_437e-3,
        5.550_332_5e-2,
        0.240_226_48,
        std::f32::consts::LN_2,
    ] {
        p = p * r + c;
    }
    let power = f32::from_bits((rounded.to_bits() << 23).wrapping_add(1.0f32.to_bits()));
    let value = (p * r + 1.0) * power;
    // Below the lowest everything above is nonsense, without harm.
    if x > LOWEST { value } else { 0.0 }
}

/// Largest value of a row and where it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Peak {
    pub(super) value: f32,
    /// Lowest id with that value.
    pub(super) id: u32,
}

/// The peak of `logits`, or what is wrong with them.
pub(super) fn peak(logits: &[f32]) -> Result<Peak, &'static str> {
    /// Values per block; the block of the maximum is searched again for its place.
    const BLOCK: usize = 4096;
    let mut best = f32::NEG_INFINITY;
    let mut start = 0;
    for (at, block) in logits.chunks(BLOCK).enumerate() {
        let (max, nan) = block_peak(block);
        if nan {
            return Err("a NaN");
        }
        if max > best {
            (best, start) = (max, at * BLOCK);
        }
    }
    if best == f32::INFINITY {
        return Err("positive infinity");
    }
    match logits[start..].iter().position(|v| *v == best) {
        Some(offset) if best.is_finite() => Ok(Peak {
            value: best,
            id: (start + offset) as u32,
        }),
        _ => Err("no finite value"),
    }
}

/// Maximum of a block, and whether it holds a NaN.
fn block_peak(block: &[f32]) -> (f32, bool) {
    let mut max = [f32::NEG_INFINITY; LANES];
    let mut nan = [0u32; LANES];
    let chunks = block.chunks_exact(LANES);
    let rest = chunks.remainder();
    let step = |max: &mut f32, nan: &mut u32, value: f32| {
        *max = if value > *max { value } else { *max };
        *nan |= u32::from(value.is_nan());
    };
    for chunk in chunks {
        for ((max, nan), value) in max.iter_mut().zip(&mut nan).zip(chunk) {
            step(max, nan, *value);
        }
    }
    for value in rest {
        step(&mut max[0], &mut nan[0], *value);
    }
    let highest = max.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b));
    (highest, nan.iter().any(|n| *n > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_those_of_float64() {
        let mut worst = 0.0f64;
        for i in 0..2_000_000 {
            let x = -125.49 * (i as f32 / 2e6);
            let exact = f64::from(x).exp2();
            worst = worst.max((f64::from(exp2(x)) - exact).abs() / exact);
        }
        assert!(worst < 2e-7, "{worst}");
        assert_eq!(
            [exp2(0.0), exp2(-0.0), exp2(-1.0), exp2(-125.0)],
            [1.0, 1.0, 0.5, 2.0f32.powi(-125)]
        );
        for x in [-125.5, -126.0, f32::MIN, f32::NEG_INFINITY, f32::NAN] {
            assert_eq!(exp2(x), 0.0);
        }
    }

    #[test]
    fn masses_are_sums_whatever_the_length() {
        let scale = Scale::new(3.0, 0.7);
        for n in 0..70 {
            let row: Vec<f32> = (0..n).map(|i| 3.0 - (i as f32 * 0.37)).collect();
            let sum: f64 = row.iter().map(|v| (f64::from(v - 3.0) / 0.7).exp()).sum();
            assert!((scale.mass(&row) - sum).abs() < 1e-5 * (1.0 + sum));
        }
        // The smallest temperatures leave the maxima only.
        let cold = Scale::new(3.0, f32::from_bits(1));
        assert_eq!(cold.mass(&[3.0, 2.999, 3.0, f32::NEG_INFINITY]), 2.0);
    }

    #[test]
    fn peaks_are_found_anywhere() {
        for n in [1, 15, 16, 17, 4095, 4096, 4097, 9000] {
            for at in [0, n / 2, n - 1] {
                let mut row = vec![-1.0f32; n];
                row[at] = 2.0;
                row[n - 1] = 2.0;
                assert_eq!(
                    peak(&row),
                    Ok(Peak {
                        value: 2.0,
                        id: at as u32
                    })
                );
                row[at] = f32::NAN;
                assert_eq!(peak(&row), Err("a NaN"));
                row[at] = f32::INFINITY;
                assert_eq!(peak(&row), Err("positive infinity"));
            }
            assert_eq!(peak(&vec![f32::NEG_INFINITY; n]), Err("no finite value"));
        }
        assert_eq!(peak(&[]), Err("no finite value"));
    }
}
