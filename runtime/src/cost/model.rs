//! Seconds of a round by its parts, between the sizes that were measured.

use crate::decode::{Method, Plan};
use serde::{Deserialize, Serialize};

/// Seconds of a draft with its candidates, by context, for one method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DraftCost {
    /// Method name.
    pub method: String,
    /// Seconds at each measured context.
    pub seconds: Vec<f64>,
}

/// Measured costs. All lists by context are as long as `contexts`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CostModel {
    /// Committed rows at which was measured, ascending.
    pub contexts: Vec<usize>,
    /// Rows of a pass that were measured, ascending from 1.
    pub rows: Vec<usize>,
    /// Seconds of a target pass with the head over one path of it: `[context][rows]`.
    pub verify: Vec<Vec<f64>>,
    /// Seconds of a draft by method.
    pub draft: Vec<DraftCost>,
    /// Seconds of a commit of a path that also feeds the drafter, by context.
    pub commit: Vec<f64>,
    /// The same for a single row.
    pub commit_one: Vec<f64>,
    /// Seconds of a commit of a single row that feeds no drafter, by context.
    pub commit_plain: Vec<f64>,
    /// Seconds per node that tree, mask and walk take.
    pub host_per_node: f64,
}

impl CostModel {
    /// What is wrong with the numbers, for a model that was read.
    ///
    /// # Errors
    /// The field.
    pub fn validate(&self) -> Result<(), String> {
        let ascending = |list: &[usize]| !list.is_empty() && list.is_sorted_by(|a, b| a < b);
        if !ascending(&self.contexts) || !ascending(&self.rows) || self.rows[0] != 1 {
            return Err("contexts and rows must ascend, rows from 1".to_owned());
        }
        let fine =
            |list: &[f64], len: usize| list.len() == len && list.iter().all(|s| s.is_finite() && *s >= 0.0);
        let n = self.contexts.len();
        let lists = [&self.commit, &self.commit_one, &self.commit_plain];
        let verify = self.verify.len() == n && self.verify.iter().all(|v| fine(v, self.rows.len()));
        let positive = self.verify.iter().flatten().all(|s| *s > 0.0);
        let drafts = self.draft.iter().all(|d| fine(&d.seconds, n));
        if !verify
            || !positive
            || !drafts
            || !lists.iter().all(|l| fine(l, n))
            || !fine(&[self.host_per_node], 1)
        {
            return Err("a cost is missing, negative or no number".to_owned());
        }
        Ok(())
    }

    /// Seconds of a pass of `rows` rows (the anchor among them) after `context` committed rows.
    #[must_use]
    pub fn verify(&self, rows: usize, context: usize) -> f64 {
        let at = |c: &Vec<f64>| between(&self.rows, c, rows);
        let values: Vec<f64> = self.verify.iter().map(at).collect();
        between(&self.contexts, &values, context)
    }

    /// Seconds of a draft; 0 for plain, `None` for a method that was not measured.
    #[must_use]
    pub fn draft(&self, method: Method, context: usize) -> Option<f64> {
        if method == Method::Plain {
            return Some(0.0);
        }
        let found = self.draft.iter().find(|d| d.method == method.name())?;
        Some(between(&self.contexts, &found.seconds, context))
    }

    /// Seconds of a round that verifies `nodes` nodes besides the anchor: draft, verify, commit and host.
    #[must_use]
    pub fn round(&self, method: Method, nodes: usize, context: usize) -> Option<f64> {
        let commit = if method == Method::Plain {
            &self.commit_plain
        } else {
            &self.commit
        };
        Some(
            self.draft(method, context)?
                + self.verify(nodes + 1, context)
                + between(&self.contexts, commit, context)
                + self.host_per_node * (nodes + 1) as f64,
        )
    }

    /// Seconds of a round that drafts nothing but keeps the drafter's context, so that drafting can go on later.
    #[must_use]
    pub fn fed_round(&self, context: usize) -> f64 {
        self.verify(1, context) + between(&self.contexts, &self.commit_one, context) + self.host_per_node
    }

    /// The size with the highest expected tokens per second among trees that are the first `n` nodes of a list, `n` in
    /// `0..=scores.len()`: `(1 + trust * sum of exp(score)) / cost(n)`, with that rate (`algorithms.md` 3.7; all sizes are
    /// looked at, as measured costs are not convex). `trust` is how many of the predicted tokens come true.
    #[must_use]
    pub fn best_size(&self, method: Method, context: usize, scores: &[f64], trust: f64) -> (usize, f64) {
        let (mut best, mut expected) = ((0, 0.0), 1.0);
        for n in 0..=scores.len() {
            if n > 0 {
                expected += trust * scores[n - 1].exp();
            }
            let rate = self.round(method, n, context).map_or(0.0, |cost| expected / cost);
            if rate > best.1 {
                best = (n, rate);
            }
        }
        best
    }

    /// A plan's cost at its full budget.
    #[must_use]
    pub fn plan(&self, plan: Plan, context: usize) -> Option<f64> {
        self.round(plan.method, plan.budget, context)
    }
}

/// Linear between measured sizes, the last slope beyond them, the first value before them; never below the smallest value.
fn between(sizes: &[usize], values: &[f64], at: usize) -> f64 {
    let (Some(first), Some(last)) = (values.first(), values.last()) else {
        return 0.0;
    };
    let above = sizes.partition_point(|s| *s < at);
    if above == 0 {
        return *first;
    }
    let hi = above.min(sizes.len() - 1);
    if hi == 0 {
        return *last;
    }
    let lo = hi - 1;
    let share = (at as f64 - sizes[lo] as f64) / (sizes[hi] - sizes[lo]) as f64;
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    (values[lo] + share * (values[hi] - values[lo])).max(least)
}
