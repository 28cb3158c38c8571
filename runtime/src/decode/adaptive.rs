//! How large a tree pays now: decided before and after every draft, from measured costs and from what was accepted lately.
//!
//! The text does not depend on it: a tree only decides how many rows of a pass turn out to be useful.

use super::{Method, Plan};
use crate::cost::CostModel;
use crate::tree::Tree;
use serde::Serialize;
use std::sync::Arc;

/// Weight that a round keeps in the sums with every later round: about ten rounds count.
const KEEP: f64 = 0.9;
/// Rounds that draft before it is judged whether that pays.
const TRIAL: usize = 3;
/// Plain rounds after the first trial that did not pay; each further one doubles them.
const FIRST_REST: usize = 16;
/// Most plain rounds between two trials.
const LONGEST_REST: usize = 512;
/// Least and most of what a drafter's probabilities are multiplied with.
const TRUST: [f64; 2] = [0.05, 1.5];

/// What was done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Used {
    /// Rounds that drafted.
    pub drafted_rounds: usize,
    /// Rounds that did not.
    pub plain_rounds: usize,
    /// Nodes of the trees in all, after they were cut.
    pub nodes: usize,
    /// Times that drafting was given up for a while.
    pub rests: usize,
    /// Accepted drafts by those that the drafter's probabilities promise, lately.
    pub trust: f64,
}

impl Used {
    /// Mean nodes of the rounds that drafted.
    #[must_use]
    pub fn mean_nodes(&self) -> f64 {
        self.nodes as f64 / self.drafted_rounds.max(1) as f64
    }
}

/// The decisions of one answer.
#[derive(Clone, Debug)]
pub struct Adaptive {
    costs: Arc<CostModel>,
    plan: Plan,
    /// Drafted nodes that came true, and how many were promised; sums that fade.
    accepted: f64,
    promised: f64,
    /// Tokens and modelled seconds of rounds that drafted; sums that fade.
    tokens: f64,
    seconds: f64,
    trial: usize,
    resting: usize,
    rest: usize,
    drafting: bool,
    used: Used,
}

impl Adaptive {
    /// Decides by `costs` for trees of `plan`'s method with at most its budget; with `rests` the first rounds are plain.
    #[must_use]
    pub fn new(costs: Arc<CostModel>, plan: Plan, rests: bool) -> Self {
        let mut adaptive = Self {
            costs,
            plan,
            accepted: 0.0,
            promised: 0.0,
            tokens: 0.0,
            seconds: 0.0,
            trial: 0,
            resting: if rests { FIRST_REST } else { 0 },
            rest: FIRST_REST,
            drafting: false,
            used: Used::default(),
        };
        adaptive.begin_trial();
        adaptive
    }

    /// The largest tree.
    #[must_use]
    pub fn plan(&self) -> Plan {
        self.plan
    }

    /// What was done so far.
    #[must_use]
    pub fn used(&self) -> Used {
        Used {
            trust: self.trust(),
            ..self.used
        }
    }

    fn trust(&self) -> f64 {
        (self.accepted / self.promised).clamp(TRUST[0], TRUST[1])
    }

    /// Forgets what was seen but for a little confidence in the drafter: it may have become better.
    fn begin_trial(&mut self) {
        (self.accepted, self.promised) = (1.0, 1.0);
        (self.tokens, self.seconds) = (0.0, 0.0);
        self.trial = TRIAL;
    }

    /// Whether the next round drafts.
    pub(super) fn drafts(&mut self) -> bool {
        self.drafting = self.resting == 0 && self.plan.method != Method::Plain && self.plan.budget > 0;
        if self.drafting {
            self.used.drafted_rounds += 1;
        } else {
            self.used.plain_rounds += 1;
            self.resting = self.resting.saturating_sub(1);
            if self.resting == 0 {
                self.begin_trial();
            }
        }
        self.drafting
    }

    /// Nodes of `tree` that are worth a row after `context` committed rows; its nodes are best first.
    pub(super) fn size(&self, tree: &Tree, context: usize) -> usize {
        let scores = tree.scores().get(1..).unwrap_or_default();
        self.costs
            .best_size(self.plan.method, context, scores, self.trust())
            .0
    }

    /// Learns from a round that accepted `rows` rows of `tree`, the anchor among them.
    pub(super) fn learn(&mut self, tree: &Tree, rows: usize, context: usize) {
        if !self.drafting {
            return;
        }
        let nodes = tree.len() - 1;
        self.used.nodes += nodes;
        if nodes > 0 {
            let promised: f64 = tree.scores()[1..].iter().map(|s| s.exp()).sum();
            self.accepted = KEEP * self.accepted + (rows - 1) as f64;
            self.promised = KEEP * self.promised + promised;
        }
        let cost = self.costs.round(self.plan.method, nodes, context).unwrap_or(0.0);
        self.tokens = KEEP * self.tokens + rows as f64;
        self.seconds = KEEP * self.seconds + cost;
        self.trial = self.trial.saturating_sub(1);
        if self.trial > 0 {
            return;
        }
        if self.tokens * self.costs.fed_round(context) < self.seconds {
            self.used.rests += 1;
            self.resting = self.rest;
            self.rest = (2 * self.rest).min(LONGEST_REST);
        } else {
            self.rest = FIRST_REST;
        }
    }
}
