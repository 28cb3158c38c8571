//! Top-k, top-p and min-p: which tokens may be drawn.

use super::Sampling;
use super::top::{Scored, order, top};
use super::weight::Scale;

/// Puts the tokens that may be drawn into `kept`, in id order: at least the most likely one.
///
/// * top-k: the k most likely.
/// * top-p: of those, most likely first, every token before which less than p of their mass lies
///   (the rule of the DFlash package, `algorithms.md` 2.1, and of Hugging Face).
/// * min-p: of those, the tokens at least min-p times as likely as the most likely one (Nguyen et al. 2024).
///
/// Equal logits rank by smaller id.
pub(super) fn keep(logits: &[f32], scale: Scale, settings: &Sampling, kept: &mut Vec<Scored>) {
    let top_k = settings.top_k > 0 && settings.top_k < logits.len();
    if top_k {
        top(logits, settings.top_k, kept);
        if settings.top_p < 1.0 {
            let total: f64 = kept.iter().map(|s| scale.weight(s.logit)).sum();
            if let Some(count) = nucleus(kept, scale, total * f64::from(settings.top_p)) {
                kept.truncate(count);
            }
        }
    } else if settings.top_p < 1.0 {
        let limit = scale.mass(logits) * f64::from(settings.top_p);
        // A nucleus is a few tokens most of the time: sort as many as it takes, not the row.
        let mut n = 64;
        loop {
            top(logits, n, kept);
            if let Some(count) = nucleus(kept, scale, limit) {
                kept.truncate(count);
                break;
            }
            if n >= logits.len() {
                break;
            }
            n *= 8;
        }
    }
    // Compared as exponents, so that no power is needed; the logarithm of 0 keeps everything.
    let floor = f64::from(settings.min_p).log2() as f32;
    let enough = |logit: f32| scale.exponent(logit) >= floor;
    if top_k || settings.top_p < 1.0 {
        kept.retain(|s| enough(s.logit));
        kept.sort_unstable_by_key(|s| s.id);
    } else {
        gather(logits, enough, kept);
    }
}

/// The tokens of a row whose logit is `enough`, in id order.
fn gather(logits: &[f32], enough: impl Fn(f32) -> bool, kept: &mut Vec<Scored>) {
    const BLOCK: usize = 64;
    kept.clear();
    for (at, block) in logits.chunks(BLOCK).enumerate() {
        // Most blocks have none, and looking without stopping runs on vectors.
        if block.iter().fold(false, |any, v| any | enough(*v)) {
            let ids = (at * BLOCK) as u32..;
            let found = ids.zip(block).filter(|(_, v)| enough(**v));
            kept.extend(found.map(|(id, v)| Scored { logit: *v, id }));
        }
    }
}

/// How many of the sorted tokens have less than `limit` of mass before them; `None` if the list may be too short to tell.
fn nucleus(sorted: &[Scored], scale: Scale, limit: f64) -> Option<usize> {
    debug_assert!(sorted.is_sorted_by(|a, b| order(a, b).is_le()));
    let mut before = 0.0;
    for (count, token) in sorted.iter().enumerate() {
        if count > 0 && before >= limit {
            return Some(count);
        }
        before += scale.weight(token.logit);
    }
    (before >= limit).then_some(sorted.len())
}
