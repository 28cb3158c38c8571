//! The distribution of a draw in float64, by sorting everything: what [`super::Sampler`] is tested against.

use super::{History, Sampling};

/// Probability of each token `[V]`. Greedy settings put everything on the lowest id of the maximum.
#[must_use]
pub fn distribution(logits: &[f32], s: &Sampling, history: &History) -> Vec<f64> {
    let mut shaped: Vec<f64> = logits.iter().map(|l| f64::from(*l)).collect();
    for (token, answer) in history.tokens() {
        let value = &mut shaped[token as usize];
        let penalty = f64::from(s.repetition_penalty);
        *value = if *value > 0.0 {
            *value / penalty
        } else {
            *value * penalty
        };
        if answer > 0 {
            *value -= f64::from(s.presence_penalty) + f64::from(s.frequency_penalty) * f64::from(answer);
        }
    }
    for (token, bias) in &s.logit_bias {
        shaped[*token as usize] += f64::from(*bias);
    }
    let mut order: Vec<usize> = (0..shaped.len()).collect();
    order.sort_by(|a, b| shaped[*b].total_cmp(&shaped[*a]).then(a.cmp(b)));
    let mut out = vec![0.0; shaped.len()];
    if s.temperature == 0.0 {
        out[order[0]] = 1.0;
        return out;
    }
    let max = shaped[order[0]];
    let weight = |token: &usize| ((shaped[*token] - max) / f64::from(s.temperature)).exp();
    if s.top_k > 0 {
        order.truncate(s.top_k);
    }
    let limit = f64::from(s.top_p) * order.iter().map(weight).sum::<f64>();
    let mut before = 0.0;
    let mut kept = Vec::new();
    for token in order {
        if s.top_p >= 1.0 || kept.is_empty() || before < limit {
            kept.push(token);
        }
        before += weight(&token);
    }
    kept.retain(|token| weight(token) >= f64::from(s.min_p));
    let total: f64 = kept.iter().map(weight).sum();
    for token in kept {
        out[token] = weight(&token) / total;
    }
    out
}

/// The token at `uniform` in [0, 1) of a distribution, in id order.
#[must_use]
pub fn invert(distribution: &[f64], uniform: f64) -> u32 {
    let mut sum = 0.0;
    let mut last = 0;
    for (id, p) in distribution.iter().enumerate() {
        if *p > 0.0 {
            sum += p;
            last = id as u32;
            if sum > uniform {
                break;
            }
        }
    }
    last
}
