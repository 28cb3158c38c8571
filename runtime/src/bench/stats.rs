//! Medians, means and the noise of a speedup.

use super::record::Response;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Resamplings of a bootstrap.
const DRAWS: usize = 200;
/// From so many repeats on, the repeats themselves say how noisy a time is.
const ENOUGH: usize = 3;

/// Middle of the values; mean of the two middle ones of an even number, 0 of none.
pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

/// Mean; 0 of none.
pub(super) fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value;
        count += 1.0;
    }
    if count > 0.0 { sum / count } else { 0.0 }
}

/// Seconds per token of each repeat of a response.
pub(super) fn times(response: &Response) -> Vec<f64> {
    response.samples.iter().map(|s| response.per_token(s)).collect()
}

/// Mean over responses of plain's time per token by that of the method (`algorithms.md` 2.2); each response counts
/// with the median of its repeats.
pub(super) fn speedup(plain: &[Vec<f64>], method: &[Vec<f64>]) -> f64 {
    let of = |all: &[Vec<f64>]| mean(all.iter().map(|t| median(&mut t.clone())));
    let seconds = of(method);
    if seconds > 0.0 { of(plain) / seconds } else { 0.0 }
}

/// Standard error of the logarithm of [`speedup`], by bootstrap: over the repeats of each response where there are at
/// least three, else over responses, whose spread then stands for the noise that one repeat does not show.
pub(super) fn noise(plain: &[Vec<f64>], method: &[Vec<f64>]) -> f64 {
    let repeats = plain.iter().chain(method).map(Vec::len).min().unwrap_or(0);
    let mut dice = ChaCha8Rng::seed_from_u64(0);
    let mut pick = |n: usize| (dice.next_u64() % n.max(1) as u64) as usize;
    let mut logs = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let drawn = if repeats >= ENOUGH {
            let mut again = |all: &[Vec<f64>]| -> Vec<Vec<f64>> {
                all.iter()
                    .map(|t| (0..t.len()).map(|_| t[pick(t.len())]).collect())
                    .collect()
            };
            speedup(&again(plain), &again(method))
        } else {
            let chosen: Vec<usize> = (0..plain.len()).map(|_| pick(plain.len())).collect();
            let of = |all: &[Vec<f64>]| -> Vec<Vec<f64>> { chosen.iter().map(|i| all[*i].clone()).collect() };
            speedup(&of(plain), &of(method))
        };
        if drawn > 0.0 {
            logs.push(drawn.ln());
        }
    }
    let middle = mean(logs.iter().copied());
    mean(logs.iter().map(|l| (l - middle).powi(2))).sqrt()
}
