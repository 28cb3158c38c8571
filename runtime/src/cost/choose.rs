//! The method and budget with the most expected tokens per second.

use super::CostModel;
use super::acceptance::Acceptance;
use crate::decode::Method;
use serde::{Deserialize, Serialize};

/// Budgets whose expected rate is within this share of the best one are as good; the smallest of them is taken.
const AS_GOOD: f64 = 0.01;

/// A method at its best budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Method name.
    pub method: String,
    /// Budget.
    pub budget: usize,
    /// Measured tokens of a round at this budget.
    pub tau: f64,
    /// Seconds of a round by the cost model.
    pub round: f64,
    /// `tau / round`.
    pub tokens_per_second: f64,
}

impl Choice {
    /// The method.
    #[must_use]
    pub fn method(&self) -> Method {
        self.method.parse().unwrap_or(Method::Plain)
    }
}

/// Every method at its best budget after `context` committed rows, the best method first.
#[must_use]
pub fn choose(model: &CostModel, acceptances: &[Acceptance], context: usize) -> Vec<Choice> {
    let one = |method: Method, budget: usize, tau: f64| {
        let round = model.round(method, budget, context)?;
        (round > 0.0).then(|| Choice {
            method: method.name().to_owned(),
            budget,
            tau,
            round,
            tokens_per_second: tau / round,
        })
    };
    let mut found: Vec<Choice> = one(Method::Plain, 0, 1.0).into_iter().collect();
    for acceptance in acceptances {
        let Ok(method) = acceptance.method.parse::<Method>() else {
            continue;
        };
        let all: Vec<Choice> = acceptance
            .tau
            .iter()
            .enumerate()
            .skip(1)
            .filter_map(|(budget, tau)| one(method, budget, *tau))
            .collect();
        let best = all.iter().map(|c| c.tokens_per_second).fold(0.0, f64::max);
        let good = |c: &Choice| c.tokens_per_second >= best * (1.0 - AS_GOOD);
        found.extend(all.into_iter().find(good));
    }
    found.sort_by(|a, b| b.tokens_per_second.total_cmp(&a.tokens_per_second));
    found
}
