//! How far a draw is from giving another token.

use super::dice::Dice;

/// The error of a row's logits that could have made the draw at `position` give `token`, as a bound from below.
///
/// At temperature 0 that is the distance of the token's logit to the best one. Above it the draw inverts the cumulative
/// distribution at a number u; errors of at most e in every logit move a boundary by at most e / (2 T)
/// in probability (the derivative of a share c is c (1 - c) / T times the differences, which are at most 2 e), so the
/// distance d of u to the token's interval needs an error of at least 2 T d. Filters and penalties are not applied.
/// Infinite for a token outside the row.
#[must_use]
pub fn distance(logits: &[f32], temperature: f32, seed: u64, position: u64, token: u32) -> f64 {
    let Some(own) = logits.get(token as usize) else {
        return f64::INFINITY;
    };
    let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if temperature == 0.0 {
        return f64::from(best) - f64::from(*own);
    }
    let weight = |logit: f32| ((f64::from(logit) - f64::from(best)) / f64::from(temperature)).exp();
    let total: f64 = logits.iter().map(|l| weight(*l)).sum();
    let low: f64 = logits[..token as usize].iter().map(|l| weight(*l)).sum::<f64>() / total;
    let high = low + weight(*own) / total;
    let uniform = Dice::new(seed).uniform(position);
    let away = (low - uniform).max(uniform - high).max(0.0);
    2.0 * f64::from(temperature) * away
}

#[cfg(test)]
mod tests {
    use super::super::{History, Sampler, Sampling};
    use super::*;

    const LOGITS: [f32; 5] = [0.5, -1.0, 2.0, 1.999, 0.0];

    #[test]
    fn greedy_distance_is_the_gap_of_the_logits() {
        assert_eq!(distance(&LOGITS, 0.0, 1, 2, 2), 0.0);
        assert!((distance(&LOGITS, 0.0, 1, 2, 3) - 1e-3).abs() < 1e-6);
        assert_eq!(distance(&LOGITS, 0.0, 1, 2, 9), f64::INFINITY);
    }

    /// The drawn token is at no distance, and an error of less than the distance never brings another one.
    #[test]
    fn no_smaller_error_changes_the_draw() {
        let temperature = 0.8;
        let sampling = Sampling {
            temperature,
            ..Sampling::default()
        };
        let history = History::with_vocab(LOGITS.len());
        for position in 0..200 {
            let draw = |row: &[f32]| {
                let choice = Sampler::new(&sampling, 7).choose(row, position, &history);
                choice.expect("a finite row").token
            };
            let drawn = draw(&LOGITS);
            assert!(distance(&LOGITS, temperature, 7, position, drawn) < 1e-9);
            for error in [0.01f32, 0.1, 0.5] {
                // Every sign of every logit.
                for signs in 0..1u32 << LOGITS.len() {
                    let mut row = LOGITS;
                    for (i, logit) in row.iter_mut().enumerate() {
                        *logit += if signs >> i & 1 == 1 { error } else { -error };
                    }
                    let other = draw(&row);
                    let needed = distance(&LOGITS, temperature, 7, position, other);
                    assert!(
                        needed <= f64::from(error) + 1e-6,
                        "{needed} > {error} at {position}"
                    );
                }
            }
        }
    }
}
