//! How many drafts of a tree come true, for every size of the tree at once.
//!
//! Trees grow best first, so the tree of budget n is the first n nodes of any larger one, and a round with it would have
//! accepted the part of the walk that lies within them. One run with the largest budget therefore shows all sizes (as far
//! as the next round would have begun elsewhere, by averages only).

use crate::decode::{DecodeError, Emitted, Method, Request, Sink, Verdict, decode};
use crate::proof::Sample;
use crate::sample::Sampling;
use crate::tree::Tree;
use forkcast_engines::backend::Backend;
use serde::{Deserialize, Serialize};

/// Acceptance of a method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Acceptance {
    /// Method name.
    pub method: String,
    /// Rounds that were watched.
    pub rounds: usize,
    /// Mean tokens of a round (accepted drafts and the next token) by budget, from 0.
    pub tau: Vec<f64>,
    /// What the drafter's probabilities predict of it, by budget: 1 + mean sum of exp(score).
    pub predicted: Vec<f64>,
    /// Seconds per node that tree, mask and walk took.
    pub host_per_node: f64,
    /// Mean committed rows of a round.
    pub context: f64,
}

/// What is answered.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    /// Prompts.
    pub samples: &'a [Sample],
    /// Tokens that end an answer.
    pub stop_ids: &'a [u32],
    /// Most tokens of an answer.
    pub max_tokens: usize,
    /// Largest budget.
    pub budget: usize,
}

impl Asking<'_> {
    /// Answers all prompts at temperature 0 with `method` and the largest budget.
    ///
    /// # Errors
    /// A prompt does not fit, or the engine fails.
    pub fn watch(&self, backend: &mut dyn Backend, method: Method) -> Result<Acceptance, DecodeError> {
        let mut seen = Seen {
            accepted: vec![0.0; self.budget + 1],
            predicted: vec![0.0; self.budget + 1],
            rounds: 0,
            context: 0.0,
            at: 0,
        };
        let (mut host, mut nodes) = (0.0, 0.0);
        for sample in self.samples {
            seen.at = sample.tokens.len();
            let request = self.request(method, self.budget);
            let report = decode(backend, &sample.tokens, &request, &mut seen)?;
            host += report.seconds.tree + report.seconds.walk;
            nodes += (report.draft_tokens + report.rounds) as f64;
        }
        let rounds = seen.rounds.max(1) as f64;
        let sums = |steps: &[f64]| -> Vec<f64> {
            let mut sum = rounds;
            let add = |s: &f64| {
                sum += s;
                sum / rounds
            };
            steps.iter().map(add).collect()
        };
        Ok(Acceptance {
            method: method.name().to_owned(),
            rounds: seen.rounds,
            tau: sums(&seen.accepted),
            predicted: sums(&seen.predicted),
            host_per_node: if nodes > 0.0 { host / nodes } else { 0.0 },
            context: seen.context / rounds,
        })
    }

    /// A request at temperature 0.
    #[must_use]
    pub fn request(&self, method: Method, budget: usize) -> Request {
        Request {
            method,
            budget,
            mode: 0,
            max_tokens: self.max_tokens,
            sampling: Sampling::default(),
            seed: 0,
            stop_ids: self.stop_ids.to_vec(),
            logprobs: None,
        }
    }
}

/// Sums by the place of a node in the tree; place 0 stays 0.
struct Seen {
    accepted: Vec<f64>,
    predicted: Vec<f64>,
    rounds: usize,
    context: f64,
    /// Committed rows.
    at: usize,
}

impl Sink for Seen {
    fn token(&mut self, _token: &Emitted<'_>) -> Verdict {
        Verdict::Continue
    }

    fn round(&mut self, tree: &Tree, path: &[u32]) {
        self.rounds += 1;
        self.context += self.at as f64;
        self.at += path.len();
        for row in path.iter().filter(|r| **r > 0) {
            if let Some(slot) = self.accepted.get_mut(*row as usize) {
                *slot += 1.0;
            }
        }
        for (slot, score) in self.predicted.iter_mut().zip(tree.scores()).skip(1) {
            *slot += score.exp();
        }
    }
}
