//! Draws one token from a row of logits.

use super::dice::Dice;
use super::filter::keep;
use super::top::{Scored, top};
use super::weight::{Scale, peak};
use super::{History, Sampling, SamplingError};

/// Ids per block of the cumulative sum over a whole row.
const BLOCK: usize = 1024;

/// A drawn token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The token.
    pub token: u32,
    /// Natural logarithm of the probability with which it was drawn, after penalties, temperature and filters; 0 for a
    /// greedy choice. [`Sampler::logprobs`] has the one under the unmodified logits.
    pub logprob: f32,
}

/// Draws tokens; keeps its buffers, so that a draw allocates nothing once they have grown.
///
/// The draw at absolute position p uses one number that depends on the seed and p only, and
/// inverts the cumulative distribution in **id order**: rounding differences between passes
/// of different shape move a boundary by their own size only, and never reorder tokens.
#[derive(Clone, Debug)]
pub struct Sampler {
    settings: Sampling,
    dice: Dice,
    shaped: Vec<f32>,
    kept: Vec<Scored>,
    sums: Vec<f64>,
}

impl Sampler {
    /// A sampler for one answer. `settings` were validated.
    #[must_use]
    pub fn new(settings: &Sampling, seed: u64) -> Self {
        Self {
            settings: settings.clone(),
            dice: Dice::new(seed),
            shaped: Vec::new(),
            kept: Vec::new(),
            sums: Vec::new(),
        }
    }

    /// Draws the token at absolute `position` from `logits` `[V]`. `history` holds the tokens before it, those of the
    /// present walk included.
    ///
    /// # Errors
    /// The logits hold a NaN, positive infinity or nothing finite.
    pub fn choose(
        &mut self,
        logits: &[f32],
        position: u64,
        history: &History,
    ) -> Result<Choice, SamplingError> {
        let s = &self.settings;
        let row = if s.shapes_logits() {
            shape(s, logits, history, &mut self.shaped);
            &self.shaped[..]
        } else {
            logits
        };
        let peak = peak(row).map_err(|what| SamplingError::BadRow { position, what })?;
        if s.temperature == 0.0 {
            return Ok(Choice {
                token: peak.id,
                logprob: 0.0,
            });
        }
        let scale = Scale::new(peak.value, s.temperature);
        let uniform = self.dice.uniform(position);
        let drawn = if s.filters() {
            keep(row, scale, s, &mut self.kept);
            draw_kept(&self.kept, scale, uniform)
        } else {
            draw_row(row, scale, uniform, &mut self.sums)
        };
        // Rounding can leave the threshold beyond the last weight at most; the peak has mass for certain.
        let (token, probability) = drawn.unwrap_or((peak.id, 1.0));
        Ok(Choice {
            token,
            logprob: probability.ln() as f32,
        })
    }

    /// Natural log-probability of `token` under the unmodified `logits`, and the `n` best tokens
    /// with theirs, best first, equal ones by smaller id. Impossible tokens are not listed, so there may be
    /// fewer than `n`. Negative infinity for a token outside the row, or for a row without a distribution.
    pub fn logprobs(&mut self, logits: &[f32], token: u32, n: usize, out: &mut Vec<(u32, f32)>) -> f32 {
        out.clear();
        let Ok(peak) = peak(logits) else {
            return f32::NEG_INFINITY;
        };
        let log_mass = Scale::new(peak.value, 1.0).mass(logits).ln();
        let logp = |logit: f32| (f64::from(logit) - f64::from(peak.value) - log_mass) as f32;
        top(logits, n, &mut self.kept);
        out.extend(self.kept.iter().map(|s| (s.id, logp(s.logit))));
        logits
            .get(token as usize)
            .map_or(f32::NEG_INFINITY, |logit| logp(*logit))
    }
}

/// Penalties and bias, on a copy of the row: the repetition penalty of Hugging Face (positive logits of tokens seen in
/// prompt or answer are divided by it, others multiplied), presence and frequency penalties of the OpenAI
/// API (tokens of the answer), bias. What was finite stays finite.
fn shape(s: &Sampling, logits: &[f32], history: &History, shaped: &mut Vec<f32>) {
    shaped.clear();
    shaped.extend_from_slice(logits);
    let mut change = |token: u32, change: &dyn Fn(f32) -> f32| {
        if let Some(value) = shaped.get_mut(token as usize)
            && value.is_finite()
        {
            *value = change(*value).clamp(f32::MIN, f32::MAX);
        }
    };
    if s.penalises() {
        for (token, answer) in history.tokens() {
            let mut penalty = s.frequency_penalty * answer as f32;
            if answer > 0 {
                penalty += s.presence_penalty;
            }
            change(token, &|value| {
                let scaled = if value > 0.0 {
                    value / s.repetition_penalty
                } else {
                    value * s.repetition_penalty
                };
                scaled - penalty
            });
        }
    }
    for (token, bias) in &s.logit_bias {
        change(*token, &|value| value + bias);
    }
}

/// The token at `uniform` of the distribution over `kept`, with its probability.
fn draw_kept(kept: &[Scored], scale: Scale, uniform: f64) -> Option<(u32, f64)> {
    let total: f64 = kept.iter().map(|s| scale.weight(s.logit)).sum();
    let weights = kept.iter().map(|s| (s.id, scale.weight(s.logit)));
    invert(weights, uniform * total).map(|(id, weight)| (id, weight / total))
}

/// As [`draw_kept`], over a whole row: sums by blocks, then weights of one block only.
fn draw_row(row: &[f32], scale: Scale, uniform: f64, sums: &mut Vec<f64>) -> Option<(u32, f64)> {
    sums.clear();
    let mut total = 0.0;
    for block in row.chunks(BLOCK) {
        total += scale.mass(block);
        sums.push(total);
    }
    let threshold = uniform * total;
    let block = sums.partition_point(|sum| *sum <= threshold);
    let before = block.checked_sub(1).map_or(0.0, |b| sums[b]);
    let start = block * BLOCK;
    let weights = (0u32..)
        .zip(row)
        .skip(start)
        .take(BLOCK)
        .map(|(id, v)| (id, scale.weight(*v)));
    invert(weights, threshold - before).map(|(id, weight)| (id, weight / total))
}

/// The first token whose cumulative weight exceeds `threshold`. Rounding may leave the threshold at
/// the very end; then the last token with any weight is meant.
fn invert(weights: impl Iterator<Item = (u32, f64)>, threshold: f64) -> Option<(u32, f64)> {
    let mut sum = 0.0;
    let mut last = None;
    for (id, weight) in weights {
        if weight > 0.0 {
            sum += weight;
            last = Some((id, weight));
            if sum > threshold {
                break;
            }
        }
    }
    last
}
