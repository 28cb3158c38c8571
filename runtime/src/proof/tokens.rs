//! Every method and budget gives the tokens of plain decoding.

use super::ties::{Listener, NearTie};
use super::{Sample, Settings, name, rows};
use crate::decode::{DecodeError, Ignore, Plan, Request, Sink, decode};
use crate::sample::{Sampling, distance};
use forkcast_engines::backend::Backend;
use serde::Serialize;

/// What was compared at one temperature, and what differed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Equality {
    /// Temperature.
    pub temperature: f32,
    /// Answers that were compared with plain's.
    pub answers: usize,
    /// Tokens of these up to the first difference.
    pub tokens: usize,
    /// First difference of each answer that has one.
    pub divergences: Vec<Divergence>,
}

impl Equality {
    /// Whether every difference is explained by a near tie.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.divergences.iter().all(|d| d.near_tie)
    }
}

/// First place where an answer differs from plain's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Divergence {
    /// Sample.
    pub sample: String,
    /// Method and budget.
    pub cell: String,
    /// Temperature.
    pub temperature: f32,
    /// Seed.
    pub seed: u64,
    /// Place in the answer, from 0.
    pub place: usize,
    /// Plain's token; none where its answer ended.
    pub expected: Option<u32>,
    /// The token of the method; none where its answer ended.
    pub found: Option<u32>,
    /// Error of the logits that it takes for `found` ([`distance`], of the row as decoded one by one); none where an answer
    /// ended too early, which no rounding explains.
    pub gap: Option<f64>,
    /// Whether the gap is below the bound of a near tie.
    pub near_tie: bool,
}

/// One temperature under way.
#[derive(Debug)]
pub(super) struct Asking<'a> {
    pub(super) samples: &'a [Sample],
    pub(super) stop_ids: &'a [u32],
    pub(super) settings: &'a Settings,
    /// Plain first.
    pub(super) plans: &'a [Plan],
    pub(super) temperature: f32,
}

impl Asking<'_> {
    /// Answers all samples with all plans; near ties of plain's rows at temperature 0 go to `ties`.
    pub(super) fn run(
        &self,
        backend: &mut dyn Backend,
        ties: &mut Vec<NearTie>,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Equality, DecodeError> {
        let mut equality = Equality {
            temperature: self.temperature,
            answers: 0,
            tokens: 0,
            divergences: Vec::new(),
        };
        let greedy = self.temperature == 0.0;
        // A greedy draw has no seed.
        let seeds = if greedy {
            &[0][..]
        } else {
            &self.settings.seeds[..]
        };
        for sample in self.samples {
            for seed in seeds {
                let expected = self.plain(backend, sample, *seed, ties)?;
                for plan in self.plans {
                    tell(&format!("T {}: {}, {}", self.temperature, sample.id, name(plan)));
                    let request = self.request(*plan, *seed, None);
                    let found = decode(backend, &sample.tokens, &request, &mut Ignore)?.token_ids;
                    equality.answers += 1;
                    let common = expected.iter().zip(&found).take_while(|(a, b)| a == b).count();
                    equality.tokens += common;
                    if common < expected.len().max(found.len()) {
                        let at = (common, expected.get(common).copied(), found.get(common).copied());
                        let judged = self.judge(backend, sample, *seed, plan, &expected[..common], at)?;
                        equality.divergences.push(judged);
                    }
                }
            }
        }
        Ok(equality)
    }

    /// Plain's answer with whole rows read.
    fn plain(
        &self,
        backend: &mut dyn Backend,
        sample: &Sample,
        seed: u64,
        ties: &mut Vec<NearTie>,
    ) -> Result<Vec<u32>, DecodeError> {
        let mut listener = Listener {
            sample: &sample.id,
            below: self.settings.bounds.listed,
            found: ties,
        };
        let mut ignore = Ignore;
        let sink: &mut dyn Sink = if self.temperature == 0.0 {
            &mut listener
        } else {
            &mut ignore
        };
        let request = self.request(self.plans[0], seed, Some(2));
        Ok(decode(backend, &sample.tokens, &request, sink)?.token_ids)
    }

    fn request(&self, plan: Plan, seed: u64, logprobs: Option<usize>) -> Request {
        Request {
            method: plan.method,
            budget: plan.budget,
            mode: plan.mode,
            max_tokens: self.settings.max_tokens,
            sampling: Sampling {
                temperature: self.temperature,
                ..Sampling::default()
            },
            seed,
            stop_ids: self.stop_ids.to_vec(),
            logprobs,
        }
    }

    /// How much the logits at the place of a difference must be off for it.
    fn judge(
        &self,
        backend: &mut dyn Backend,
        sample: &Sample,
        seed: u64,
        plan: &Plan,
        before: &[u32],
        (place, expected, found): (usize, Option<u32>, Option<u32>),
    ) -> Result<Divergence, DecodeError> {
        let prefix: Vec<u32> = sample.tokens.iter().chain(before).copied().collect();
        let gap = match (expected, found) {
            (Some(expected), Some(found)) => {
                let logits = rows::after(backend, &prefix)?;
                let of = |token| distance(&logits, self.temperature, seed, prefix.len() as u64, token);
                // Either of the two may be the one that the row by itself gives.
                Some(of(found).max(of(expected)))
            }
            _ => None,
        };
        Ok(Divergence {
            sample: sample.id.clone(),
            cell: name(plan),
            temperature: self.temperature,
            seed,
            place,
            expected,
            found,
            gap,
            near_tie: gap.is_some_and(|g| g < self.settings.bounds.near_tie),
        })
    }
}
