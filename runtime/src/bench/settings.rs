//! What is measured: the cells, and how often.

use super::BenchError;
use crate::decode::{Method, Plan};
use crate::sample::Sampling;
use forkcast_engines::backend::Shape;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One way of decoding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Method name.
    pub method: String,
    /// Nodes of a tree; 0 for plain.
    pub budget: usize,
    /// Temperature.
    pub temperature: f32,
}

impl Cell {
    /// The method.
    #[must_use]
    pub fn method(&self) -> Method {
        self.method.parse().unwrap_or(Method::Plain)
    }

    /// Whether this is the baseline.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.method == Method::Plain.name()
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} budget {} T {}", self.method, self.budget, self.temperature)
    }
}

/// How a bench runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Times that every cell answers every prompt.
    pub repeat: usize,
    /// Most tokens of an answer.
    pub max_tokens: usize,
    /// Seed of the draws of the first prompt of a suite; the next one has the next seed.
    pub seed: u64,
    /// Whether the template lets the model think; its own default without.
    pub thinking: Option<bool>,
    /// Keep the K most likely tokens; 0 keeps all.
    pub top_k: usize,
    /// Nucleus; 1 keeps all.
    pub top_p: f32,
    /// Mode that chain and ddtree read.
    pub mode: usize,
    /// Rows that rounds accept on average, whatever is drafted; the text then means nothing.
    pub synthetic_acceptance: Option<f64>,
    /// The first N prompts of every suite.
    pub samples: Option<usize>,
    /// Seed of the order of the prompts.
    pub shuffle: Option<u64>,
    /// Tokens that drafting chooses among; all without.
    #[serde(default)]
    pub draft_vocab: Option<usize>,
}

impl Settings {
    /// The draw of a cell.
    #[must_use]
    pub fn sampling(&self, cell: &Cell) -> Sampling {
        Sampling {
            temperature: cell.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            ..Sampling::default()
        }
    }
}

/// The cells of a bench: for every temperature plain first, then every method at every budget that makes a difference
/// (a chain uses at most `block - 1`).
///
/// # Errors
/// A method, mode or budget does not fit the engine.
pub fn cells(
    methods: &[Method],
    budgets: &[usize],
    temperatures: &[f32],
    mode: usize,
    shape: &Shape,
) -> Result<Vec<Cell>, BenchError> {
    let mut cells: Vec<Cell> = Vec::new();
    for temperature in temperatures {
        let mut add = |method: Method, budget| {
            let cell = Cell {
                method: method.name().to_owned(),
                budget,
                temperature: *temperature,
            };
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        };
        add(Method::Plain, 0);
        for method in methods {
            for budget in budgets {
                let asked = Plan {
                    method: *method,
                    budget: *budget,
                    mode,
                };
                let plan = asked
                    .effective(shape)
                    .map_err(|e| BenchError::Settings(format!("--methods {method}: {e}")))?;
                if plan.budget > 0 {
                    add(plan.method, plan.budget);
                }
            }
        }
    }
    Ok(cells)
}
