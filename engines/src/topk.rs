//! Log-sum-exp and the k best of a row of logits: what a tree needs of the head.

/// Reusable scratch of [`top_k`].
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    order: Vec<(f32, u32)>,
}

const LANES: usize = 16;

/// Natural logarithm of the sum of exponentials of `row`, or `None` when it holds a NaN or no finite maximum.
#[must_use]
pub fn log_sum_exp(row: &[f32]) -> Option<f64> {
    let max = maximum(row)?;
    let mut sums = [0.0f64; LANES];
    let chunks = row.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += f64::from(exp(value - max));
        }
    }
    let mut total: f64 = sums.iter().sum();
    total += rest.iter().map(|v| f64::from(exp(v - max))).sum::<f64>();
    Some(f64::from(max) + total.ln())
}

/// e^x for x <= 0 with a relative error below 3e-7: range reduction by powers of two and a polynomial, so that
/// the compiler can do many at once.
#[inline(always)]
fn exp(x: f32) -> f32 {
    let x = x.max(-87.0);
    // Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits.
    let shifted = x * std::f32::consts::LOG2_E + 12_582_912.0;
    let n = shifted - 12_582_912.0;
    let r = (x - n * 0.693_359_375) + n * 2.121_944_4e-4;
    let p = 1.987_569_1e-4f32;
    let p = p * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 5.000_000_1e-1;
    let y = p * r * r + r + 1.0;
    f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000)) * y
}

fn maximum(row: &[f32]) -> Option<f32> {
    let mut best = [f32::NEG_INFINITY; LANES];
    let mut poison = [0.0f32; LANES];
    let chunks = row.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for ((b, p), v) in best.iter_mut().zip(&mut poison).zip(chunk) {
            *b = if *v > *b { *v } else { *b };
            // NaN and infinities survive the product with zero, finite values do not.
            *p += *v * 0.0;
        }
    }
    let max = best.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max);
    let clean = poison.iter().all(|p| !p.is_nan()) && rest.iter().all(|v| v.is_finite());
    if clean {
        return max.is_finite().then_some(max);
    }
    let nan = row.iter().any(|v| v.is_nan());
    (!nan && max.is_finite()).then_some(max)
}

/// Appends the `k` best ids of `row` with their log-probabilities, best first, equal ones by smaller id.
/// Returns false, and appends ids 0..k with negative infinity, when the row cannot be normalised.
pub fn top_k(row: &[f32], k: usize, scratch: &mut Scratch, ids: &mut Vec<u32>, logp: &mut Vec<f32>) -> bool {
    let total = log_sum_exp(row);
    select(row, total, k, scratch, ids, logp);
    total.is_some()
}

/// [`top_k`] with the row's [`log_sum_exp`] already at hand.
pub fn select(
    row: &[f32],
    total: Option<f64>,
    k: usize,
    scratch: &mut Scratch,
    ids: &mut Vec<u32>,
    logp: &mut Vec<f32>,
) {
    let k = k.min(row.len());
    let Some(total) = total else {
        ids.extend(0..k as u32);
        logp.extend(std::iter::repeat_n(f32::NEG_INFINITY, k));
        return;
    };
    best(row, k, &mut scratch.order);
    for (value, id) in &scratch.order {
        ids.push(*id);
        logp.push((f64::from(*value) - total) as f32);
    }
}

fn before(a: &(f32, u32), b: &(f32, u32)) -> std::cmp::Ordering {
    b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
}

/// The k best of a row, sorted. Keeps up to 2k entries above a threshold that rises each time they are cut back.
fn best(row: &[f32], k: usize, order: &mut Vec<(f32, u32)>) {
    order.clear();
    if k == 0 {
        return;
    }
    let room = (2 * k).max(64);
    let mut threshold = f32::NEG_INFINITY;
    for (base, chunk) in row.chunks(LANES).enumerate() {
        if !chunk.iter().fold(false, |any, v| any | (*v > threshold)) && order.len() >= k {
            continue;
        }
        for (i, value) in chunk.iter().enumerate() {
            if *value > threshold || order.len() < k {
                order.push((*value, (base * LANES + i) as u32));
            }
        }
        if order.len() + LANES > room {
            cut(order, k);
            threshold = order.iter().map(|e| e.0).fold(f32::INFINITY, f32::min);
        }
    }
    cut(order, k);
    order.sort_unstable_by(before);
}

fn cut(order: &mut Vec<(f32, u32)>, k: usize) {
    if order.len() > k {
        order.select_nth_unstable_by(k - 1, before);
        order.truncate(k);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(row: &[f32], k: usize) -> (Vec<u32>, Vec<f32>) {
        let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = row.iter().map(|v| f64::from(v - max).exp()).sum();
        let mut order: Vec<u32> = (0..row.len() as u32).collect();
        order.sort_by(|a, b| row[*b as usize].total_cmp(&row[*a as usize]).then(a.cmp(b)));
        order.truncate(k);
        let logp = order
            .iter()
            .map(|i| (f64::from(row[*i as usize] - max) - sum.ln()) as f32)
            .collect();
        (order, logp)
    }

    fn noise(n: usize, seed: u64, steps: f32) -> Vec<f32> {
        let mut state = seed;
        (0..n)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (((state >> 40) as f32 / (1 << 24) as f32 - 0.5) * 20.0 * steps).round() / steps
            })
            .collect()
    }

    #[test]
    fn equals_sorting_everything() {
        let mut scratch = Scratch::default();
        for (n, steps) in [
            (1, 1.0),
            (7, 1.0),
            (16, 2.0),
            (100, 1.0),
            (2048, 1000.0),
            (5000, 3.0),
            (50_000, 1e5),
        ] {
            for k in [1, 2, 32, 256, 1024] {
                let row = noise(n, n as u64 + k as u64, steps);
                let (mut ids, mut logp) = (Vec::new(), Vec::new());
                assert!(top_k(&row, k, &mut scratch, &mut ids, &mut logp));
                let (expected, p) = reference(&row, k);
                assert_eq!(ids, expected, "n {n} k {k}");
                for (a, b) in logp.iter().zip(&p) {
                    assert!((a - b).abs() <= 4e-6, "n {n} k {k}: {a} {b}");
                }
            }
        }
    }

    #[test]
    fn rows_that_cannot_be_normalised_are_said_to_be_so() {
        let mut scratch = Scratch::default();
        for bad in [f32::NAN, f32::INFINITY] {
            for at in [0, 5, 40] {
                let mut row = noise(41, 1, 10.0);
                row[at] = bad;
                let (mut ids, mut logp) = (Vec::new(), Vec::new());
                assert!(!top_k(&row, 3, &mut scratch, &mut ids, &mut logp));
                assert_eq!(ids, [0, 1, 2]);
                assert!(logp.iter().all(|l| *l == f32::NEG_INFINITY));
            }
        }
        let mut row = noise(41, 1, 10.0);
        row[3] = f32::NEG_INFINITY;
        assert!(log_sum_exp(&row).is_some(), "a forbidden token is no fault");
    }
}
