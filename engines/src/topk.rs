//! Log-sum-exp and the k best of a row of logits: what a tree needs of the head.
//!
//! Both passes go over blocks that the compiler turns into vector code, once for any x86-64 and once for AVX2. A row
//! with a NaN, or without a finite maximum, has no distribution; its callers give it no candidates.

/// Reusable scratch of [`top_k`].
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    /// Largest value of each block.
    maxima: Vec<f32>,
    /// The same, in no order.
    shuffled: Vec<f32>,
    /// Values and ids in one number each, see [`key`].
    keys: Vec<u64>,
}

/// Values that go through a vector register or two at a time.
const LANES: usize = 16;
/// Values that share one maximum.
const BLOCK: usize = 2 * LANES;
/// Values summed in float32 before the sum moves on to float64.
const RUN: usize = 16 * LANES;

/// Natural logarithm of the sum of exponentials of `row`, or `None` when it holds a NaN or no finite maximum.
#[must_use]
pub fn log_sum_exp(row: &[f32]) -> Option<f64> {
    let max = maximum(row);
    if !max.is_finite() {
        return None;
    }
    Some(f64::from(max) + sum_exp(row, max).ln()).filter(|total| !total.is_nan())
}

/// Compiles a pass twice and takes the one that the processor can run.
macro_rules! dispatch {
    ($name:ident, $body:ident, ($($arg:ident: $kind:ty),*) $(-> $out:ty)?) => {
        #[expect(unsafe_code, reason = "the processor is asked for AVX2 before code for it runs")]
        fn $name($($arg: $kind),*) $(-> $out)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn wide($($arg: $kind),*) $(-> $out)? {
                    $body($($arg),*)
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: the feature was detected.
                    return unsafe { wide($($arg),*) };
                }
            }
            $body($($arg),*)
        }
    };
}

dispatch!(maximum, maximum_body, (row: &[f32]) -> f32);
dispatch!(sum_exp, sum_exp_body, (row: &[f32], max: f32) -> f64);
dispatch!(block_maxima, block_maxima_body, (row: &[f32], maxima: &mut Vec<f32>));

/// The largest value that is a number.
#[inline(always)]
fn maximum_body(row: &[f32]) -> f32 {
    let mut best = [f32::NEG_INFINITY; LANES];
    let chunks = row.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (b, v) in best.iter_mut().zip(chunk) {
            *b = if *v > *b { *v } else { *b };
        }
    }
    best.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max)
}

/// Sum of e^(x - max); NaN when the row has one.
#[inline(always)]
fn sum_exp_body(row: &[f32], max: f32) -> f64 {
    let mut total = 0.0f64;
    for run in row.chunks(RUN) {
        let mut sums = [0.0f32; LANES];
        let chunks = run.chunks_exact(LANES);
        let rest = chunks.remainder();
        for chunk in chunks {
            for (sum, value) in sums.iter_mut().zip(chunk) {
                *sum += exp(value - max);
            }
        }
        total += sums.iter().map(|s| f64::from(*s)).sum::<f64>();
        total += rest.iter().map(|v| f64::from(exp(v - max))).sum::<f64>();
    }
    total
}

/// e^x for x <= 0 with a relative error below 3e-7: range reduction by powers of two and a polynomial, so that
/// the compiler can do many at once.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // A NaN passes.
    let x = if x < -87.0 { -87.0 } else { x };
    // Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits.
    let shifted = x * std::f32::consts::LOG2_E + 12_582_912.0;
    let n = shifted - 12_582_912.0;
    let r = (x - n * 0.693_359_4) + n * 2.121_944_4e-4;
    let p = 1.987_569_1e-4f32;
    let p = p * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 5e-1;
    let y = p * r * r + r + 1.0;
    f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000)) * y
}

#[inline(always)]
fn block_maxima_body(row: &[f32], maxima: &mut Vec<f32>) {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    maxima.clear();
    let blocks = row.chunks_exact(BLOCK);
    let rest = blocks.remainder();
    for block in blocks {
        let (low, high) = block.split_at(LANES);
        let mut best = [f32::NEG_INFINITY; LANES];
        for ((b, x), y) in best.iter_mut().zip(low).zip(high) {
            *b = larger(*x, *y);
        }
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                best[i] = larger(best[i], best[i + half]);
            }
        }
        maxima.push(best[0]);
    }
    if !rest.is_empty() {
        maxima.push(rest.iter().copied().fold(f32::NEG_INFINITY, larger));
    }
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
    if k == 0 {
        return;
    }
    best(row, k, scratch);
    for key in &scratch.keys {
        let id = !(*key as u32);
        ids.push(id);
        logp.push((f64::from(row[id as usize]) - total) as f32);
    }
}

/// Orders by larger value, then smaller id: the value's bits, made to ascend, above the inverted id.
#[inline(always)]
fn key(value: f32, id: usize) -> u64 {
    // Negative zero equals zero.
    let bits = (value + 0.0).to_bits();
    let ascending = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    u64::from(ascending) << 32 | u64::from(!(id as u32))
}

/// Leaves the keys of the `k` best values of a row without NaN in `scratch`, best first.
///
/// The k-th largest block maximum is a bound: k values reach it, so nothing below it is among the best.
fn best(row: &[f32], k: usize, scratch: &mut Scratch) {
    let Scratch {
        maxima,
        shuffled,
        keys,
    } = scratch;
    keys.clear();
    block_maxima(row, maxima);
    let mut bound = f32::NEG_INFINITY;
    if k < maxima.len() {
        shuffled.clear();
        shuffled.extend_from_slice(maxima);
        bound = *shuffled.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a)).1;
    }
    for (block, max) in maxima.iter().enumerate() {
        if *max >= bound {
            let start = block * BLOCK;
            let values = row[start..row.len().min(start + BLOCK)].iter().enumerate();
            keys.extend(
                values
                    .filter(|(_, v)| **v >= bound)
                    .map(|(i, v)| key(*v, start + i)),
            );
        }
    }
    if keys.len() > k {
        keys.select_nth_unstable_by(k - 1, |a, b| b.cmp(a));
        keys.truncate(k);
    }
    keys.sort_unstable_by(|a, b| b.cmp(a));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(row: &[f32], k: usize) -> (Vec<u32>, Vec<f32>) {
        let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = row.iter().map(|v| f64::from(v - max).exp()).sum();
        let mut order: Vec<u32> = (0..row.len() as u32).collect();
        order.sort_by(|a, b| {
            row[*b as usize]
                .partial_cmp(&row[*a as usize])
                .expect("no NaN")
                .then(a.cmp(b))
        });
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
        let (mut ids, mut logp) = (Vec::new(), Vec::new());
        assert!(!top_k(
            &[f32::NEG_INFINITY; 40],
            2,
            &mut scratch,
            &mut ids,
            &mut logp
        ));
        assert!(
            !top_k(&[], 2, &mut scratch, &mut ids, &mut logp),
            "nothing of nothing"
        );
        assert_eq!(ids, [0, 1]);
        let mut row = noise(41, 1, 10.0);
        row[3] = f32::NEG_INFINITY;
        assert!(log_sum_exp(&row).is_some(), "a forbidden token is no fault");
    }

    #[test]
    fn zeros_of_both_signs_are_equal_and_infinities_come_last() {
        let row = [-0.0, 0.0, f32::NEG_INFINITY, -0.0, 0.0, -1.0];
        let (mut ids, mut logp) = (Vec::new(), Vec::new());
        assert!(top_k(&row, 6, &mut Scratch::default(), &mut ids, &mut logp));
        assert_eq!(ids, [0, 1, 3, 4, 5, 2]);
        assert_eq!(logp[5], f32::NEG_INFINITY);
        let total: f32 = logp.iter().map(|l| l.exp()).sum();
        assert!((total - 1.0).abs() < 1e-6);
    }

    #[test]
    fn far_tails_are_summed() {
        let row = vec![-40.0f32; 248_320]
            .into_iter()
            .chain([0.0])
            .collect::<Vec<_>>();
        let exact = (1.0 + 248_320.0 * (-40.0f64).exp()).ln();
        assert!((log_sum_exp(&row).expect("finite") - exact).abs() < 1e-7);
        let flat = vec![3.0f32; 100_003];
        assert!((log_sum_exp(&flat).expect("finite") - 3.0 - 100_003f64.ln()).abs() < 1e-6);
    }
}
