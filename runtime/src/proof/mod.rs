//! The proof that an engine decodes losslessly: what is claimed of it, checked on its own weights.
//!
//! [`tokens`] compares the tokens of every method and budget with plain decoding, [`ties`] lists rows where rounding can
//! decide, [`state`] compares what rounds commit with the same tokens decoded one by one, [`operators`] the kernels
//! with their function bodies. Each part reports what it found; [`Proof::holds`] is the verdict.

pub mod operators;
mod rows;
pub mod state;
pub mod ties;
pub mod tokens;

use crate::decode::{DecodeError, Method, Plan};
use forkcast_engines::backend::{Backend, Shape};
use forkcast_engines::manifest::Dtype;
use serde::Serialize;

/// A prompt of the suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Name in the report.
    pub id: String,
    /// Tokens of the prompt.
    pub tokens: Vec<u32>,
}

/// How far results may be apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bounds {
    /// Error of the logits that explains another token: above it a divergence is a failure.
    pub near_tie: f64,
    /// Rows of plain decoding are listed whose best two logits are closer than this.
    pub listed: f64,
    /// Largest error of logits, relative to `max(4, max|logit|)`.
    pub logits: f64,
    /// Largest error of a conv or recurrent state, relative to `max(1, max|state|)`.
    pub state: f64,
}

impl Bounds {
    /// Bounds for graphs of a type. Those of float32 are of `qwen.md` 7: 1e-4 at logits of 4 and 1e-3 at logits
    /// of 40, states 1e-4; int8 and int4 compute in float32 too. Half precision gets 90 times as much (the square root of the
    /// ratio of their rounding errors), which is a choice.
    #[must_use]
    pub fn of(dtype: Dtype) -> Self {
        let factor = match dtype {
            Dtype::F32 | Dtype::Int8 | Dtype::Int4 => 1.0,
            Dtype::Bf16 | Dtype::F16 => 90.0,
        };
        Self {
            near_tie: 1e-3 * factor,
            listed: 1e-2 * factor,
            logits: 2.5e-5 * factor,
            state: 1e-4 * factor,
        }
    }
}

/// What is proven.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Settings {
    /// Tree budgets; a chain uses at most the block.
    pub budgets: Vec<usize>,
    /// Seeds of the draws above temperature 0.
    pub seeds: Vec<u64>,
    /// Temperature of these draws.
    pub temperature: f32,
    /// Most tokens of an answer.
    pub max_tokens: usize,
    /// How far results may be apart.
    pub bounds: Bounds,
}

/// What was found with an engine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Proof {
    /// Methods with the budgets that they really use.
    pub cells: Vec<String>,
    /// Equality with plain decoding: at temperature 0, then above.
    pub tokens: Vec<tokens::Equality>,
    /// Rows of plain decoding whose best two tokens are close.
    pub ties: Vec<ties::NearTie>,
    /// State after every round, by cell; empty where it was not asked for.
    pub states: Vec<state::Agreement>,
}

impl Proof {
    /// Whether nothing contradicts the claim.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.tokens.iter().all(tokens::Equality::holds) && self.states.iter().all(state::Agreement::holds)
    }
}

/// Proves what can be seen from outside an engine: tokens, and with `states` what rounds commit. `tell` hears of
/// every step.
///
/// # Errors
/// A sample does not fit the engine, or the engine fails.
pub fn prove(
    backend: &mut dyn Backend,
    samples: &[Sample],
    stop_ids: &[u32],
    settings: &Settings,
    states: bool,
    tell: &mut dyn FnMut(&str),
) -> Result<Proof, DecodeError> {
    let shape = backend.shape();
    let plans = plans(&settings.budgets, &shape)?;
    let mut ties = Vec::new();
    let mut equalities = Vec::new();
    for temperature in [0.0, settings.temperature] {
        let asking = tokens::Asking {
            samples,
            stop_ids,
            settings,
            plans: &plans,
            temperature,
        };
        equalities.push(asking.run(backend, &mut ties, tell)?);
    }
    let mut agreements = Vec::new();
    if states {
        for plan in largest(&plans) {
            agreements.push(state::check(backend, samples, stop_ids, settings, plan, tell)?);
        }
    }
    Ok(Proof {
        cells: plans.iter().map(name).collect(),
        tokens: equalities,
        ties,
        states: agreements,
    })
}

/// Every method that the drafter allows with every budget as it is really used; plain is first.
fn plans(budgets: &[usize], shape: &Shape) -> Result<Vec<Plan>, DecodeError> {
    let plain = Plan {
        method: Method::Plain,
        budget: 0,
        mode: 0,
    };
    let mut plans = vec![plain];
    for method in Method::ALL {
        let needed = match method {
            Method::Plain => continue,
            Method::Chain | Method::Ddtree => 1,
            Method::Mfd => 2,
        };
        if shape.modes < needed {
            continue;
        }
        for budget in budgets {
            let plan = Plan {
                method,
                budget: *budget,
                mode: 0,
            }
            .effective(shape)?;
            if !plans.contains(&plan) {
                plans.push(plan);
            }
        }
    }
    Ok(plans)
}

/// The largest budget of each method.
fn largest(plans: &[Plan]) -> Vec<Plan> {
    let mut found: Vec<Plan> = Vec::new();
    for plan in plans {
        match found.iter_mut().find(|p| p.method == plan.method) {
            Some(known) if known.budget < plan.budget => *known = *plan,
            Some(_) => {}
            None => found.push(*plan),
        }
    }
    found
}

/// A cell in reports: `ddtree 64`.
fn name(plan: &Plan) -> String {
    if plan.method == Method::Plain {
        plan.method.to_string()
    } else {
        format!("{} {}", plan.method, plan.budget)
    }
}
