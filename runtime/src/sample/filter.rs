//! Top-k, top-p and min-p: which tokens may be drawn.

use super::Sampling;

/// Puts the tokens that may be drawn into `kept`, in id order. `logits` are already divided by the
/// temperature, `max` is their maximum. Equal logits rank by smaller id.
pub(super) fn keep(
    logits: &[f32],
    max: f32,
    settings: &Sampling,
    kept: &mut Vec<u32>,
    weights: &mut Vec<f64>,
) {
    kept.clear();
    kept.extend(0..logits.len() as u32);
    let order = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
    if settings.top_k > 0 && settings.top_k < kept.len() {
        kept.select_nth_unstable_by(settings.top_k - 1, order);
        kept.truncate(settings.top_k);
    }
    if settings.top_p < 1.0 {
        kept.sort_unstable_by(order);
        weights.clear();
        weights.extend(kept.iter().map(|t| f64::from(logits[*t as usize] - max).exp()));
        let limit = weights.iter().sum::<f64>() * f64::from(settings.top_p);
        let mut before = 0.0;
        let mut count = 0;
        // A token stays while the mass before it is below top-p, so the first always does.
        while count < kept.len() && before < limit {
            before += weights[count];
            count += 1;
        }
        kept.truncate(count.max(1));
    }
    if settings.min_p > 0.0 {
        let floor = f64::from(settings.min_p);
        kept.retain(|t| f64::from(logits[*t as usize] - max).exp() >= floor);
    }
    kept.sort_unstable();
}
