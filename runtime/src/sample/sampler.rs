//! Draws one token from a row of logits.

use super::filter::keep;
use super::{History, Sampling, SamplingError};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// A drawn token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The token.
    pub token: u32,
}

/// Draws tokens; keeps its buffers.
///
/// The draw at absolute position p uses one number of the counter-based generator ChaCha8 keyed by the seed, with
/// stream p, and inverts the cumulative distribution in **id order**: rounding differences between passes
/// of different shape move a boundary by their own size only, and never reorder tokens.
#[derive(Clone, Debug)]
pub struct Sampler {
    settings: Sampling,
    generator: ChaCha8Rng,
    shaped: Vec<f32>,
    kept: Vec<u32>,
    weights: Vec<f64>,
    top: Vec<u32>,
}

impl Sampler {
    /// A sampler for one answer. `settings` were validated.
    #[must_use]
    pub fn new(settings: &Sampling, seed: u64) -> Self {
        Self {
            settings: settings.clone(),
            generator: ChaCha8Rng::seed_from_u64(seed),
            shaped: Vec::new(),
            kept: Vec::new(),
            weights: Vec::new(),
            top: Vec::new(),
        }
    }

    /// Draws the token at absolute `position` from `logits` `[V]`.
    ///
    /// # Errors
    /// The logits hold a NaN or nothing finite.
    pub fn choose(
        &mut self,
        logits: &[f32],
        position: u64,
        history: &History,
    ) -> Result<Choice, SamplingError> {
        let greedy = self.settings.temperature == 0.0;
        if greedy && !self.settings.shapes_logits() {
            return Ok(Choice {
                token: best(logits, position)?,
            });
        }
        self.shape(logits, history);
        if greedy {
            return Ok(Choice {
                token: best(&self.shaped, position)?,
            });
        }
        let scale = self.settings.temperature.recip();
        for value in &mut self.shaped {
            *value *= scale;
        }
        let max = self.shaped[best(&self.shaped, position)? as usize];
        let filtered = self.settings.top_k > 0 || self.settings.top_p < 1.0 || self.settings.min_p > 0.0;
        if filtered {
            keep(
                &self.shaped,
                max,
                &self.settings,
                &mut self.kept,
                &mut self.weights,
            );
        } else {
            self.kept.clear();
            self.kept.extend(0..self.shaped.len() as u32);
        }
        let token = self.invert(max, position);
        Ok(Choice { token })
    }

    /// Penalties and bias, on a copy of the row.
    fn shape(&mut self, logits: &[f32], history: &History) {
        let s = &self.settings;
        self.shaped.clear();
        self.shaped.extend_from_slice(logits);
        if !s.shapes_logits() {
            return;
        }
        for (token, answer) in history.tokens() {
            let Some(value) = self.shaped.get_mut(token as usize) else {
                continue;
            };
            *value = if *value > 0.0 {
                *value / s.repetition_penalty
            } else {
                *value * s.repetition_penalty
            };
            if answer > 0 {
                *value -= s.presence_penalty + s.frequency_penalty * answer as f32;
            }
        }
        for (token, bias) in &s.logit_bias {
            if let Some(value) = self.shaped.get_mut(*token as usize) {
                *value += bias;
            }
        }
    }

    fn invert(&mut self, max: f32, position: u64) -> u32 {
        self.weights.clear();
        let mut total = 0.0;
        for token in &self.kept {
            total += f64::from(self.shaped[*token as usize] - max).exp();
            self.weights.push(total);
        }
        let threshold = self.uniform(position) * total;
        // Rounding can only leave the threshold at the total itself: then the last token with mass is meant.
        let at = self.weights.partition_point(|sum| *sum <= threshold);
        match self.kept.get(at) {
            Some(token) => *token,
            None => {
                self.kept[self
                    .weights
                    .partition_point(|sum| *sum < total)
                    .min(self.kept.len() - 1)]
            }
        }
    }

    /// The number in [0, 1) that belongs to a position.
    fn uniform(&mut self, position: u64) -> f64 {
        self.generator.set_stream(position);
        self.generator.set_word_pos(0);
        (self.generator.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Natural log-probability of `token` under the unmodified `logits`, and the `n` best tokens
    /// with theirs, best first, equal ones by smaller id.
    pub fn logprobs(&mut self, logits: &[f32], token: u32, n: usize, out: &mut Vec<(u32, f32)>) -> f32 {
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = logits.iter().map(|v| f64::from(v - max).exp()).sum();
        let logp = |t: u32| (f64::from(logits[t as usize] - max) - sum.ln()) as f32;
        out.clear();
        let n = n.min(logits.len());
        if n > 0 {
            let order = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
            self.top.clear();
            self.top.extend(0..logits.len() as u32);
            self.top.select_nth_unstable_by(n - 1, order);
            self.top.truncate(n);
            self.top.sort_unstable_by(order);
            out.extend(self.top.iter().map(|t| (*t, logp(*t))));
        }
        logp(token)
    }
}

/// Lowest id of the maximum.
fn best(logits: &[f32], position: u64) -> Result<u32, SamplingError> {
    let bad = |what| SamplingError::BadRow { position, what };
    let mut at = 0;
    let mut max = f32::NEG_INFINITY;
    for (i, value) in logits.iter().enumerate() {
        if value.is_nan() {
            return Err(bad("a NaN"));
        }
        if *value > max {
            (at, max) = (i, *value);
        }
    }
    if max.is_finite() {
        Ok(at as u32)
    } else {
        Err(bad("no finite value"))
    }
}
