//! Do the kernels compute what the function bodies say? Random trees of a model's own sizes go through one-node models
//! twice: with the kernels registered, and inlined as standard ONNX operators, which plain ONNX Runtime runs.

mod cases;
mod session;

pub use session::AgreementError;

use crate::onnx::proto::FunctionProto;
use ort::session::builder::SessionBuilder;
use session::Take;

/// Heads of a model's layers. Sizes as in `docs/operators.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Geometry {
    /// Full attention.
    Attention {
        /// Query heads.
        heads: usize,
        /// Key and value heads.
        kv_heads: usize,
        /// Size of one head.
        head_dim: usize,
    },
    /// Gated DeltaNet: convolution, delta rule and commit.
    Delta {
        /// Key heads.
        key_heads: usize,
        /// Value heads.
        value_heads: usize,
        /// Size of a key head.
        key_dim: usize,
        /// Size of a value head.
        value_dim: usize,
        /// Taps of the convolution.
        taps: usize,
    },
    /// A matrix stored in blocks.
    Blocks {
        /// Numbers of a row.
        depth: usize,
        /// Rows of the matrix, which are columns of the product.
        columns: usize,
        /// 8 or 4.
        bits: usize,
    },
}

/// What was found of one operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreement {
    /// Name of the operator.
    pub operator: &'static str,
    /// Random calls that were compared.
    pub calls: usize,
    /// Largest `|kernel - body| / max(1, max|body|)` over all outputs; infinite where one has a NaN.
    pub error: f64,
    /// Largest error that passes: 2e-5 + 4 eps max|G| (each side may be off by half of it).
    pub bound: f64,
}

impl Agreement {
    /// Whether the error is within the bound.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.error <= self.bound
    }
}

/// Makes a session builder in the process's ONNX Runtime.
pub type Builders<'a> = dyn Fn() -> Result<SessionBuilder, String> + 'a;

/// Compares the kernels with `bodies` (those of [`crate::bodies::all`] outside of tests) for the layers of a model, on
/// trees of 1 to 65 rows; `seed` draws trees and numbers.
///
/// # Errors
/// ONNX Runtime refuses a model or fails.
pub fn measure(
    builders: &Builders<'_>,
    bodies: &[FunctionProto],
    geometries: &[Geometry],
    seed: u64,
) -> Result<Vec<Agreement>, AgreementError> {
    let mut found: Vec<Agreement> = Vec::new();
    for (i, geometry) in geometries.iter().enumerate() {
        for (j, rows) in [1, 2, 9, 33, 65].into_iter().enumerate() {
            let mut dice = cases::Dice::new(seed ^ ((i as u64) << 32) ^ j as u64);
            for case in cases::first(&mut dice, *geometry, rows) {
                let kernel = session::run(builders, bodies, &case, Take::Kernel)?;
                let body = session::run(builders, bodies, &case, Take::Body)?;
                note(&mut found, &case, &kernel, &body);
                let Some(update) = cases::update(&mut dice, &case, &kernel) else {
                    continue;
                };
                let kernel = session::run(builders, bodies, &update, Take::Kernel)?;
                let body = session::run(builders, bodies, &update, Take::Body)?;
                note(&mut found, &update, &kernel, &body);
            }
        }
    }
    Ok(found)
}

fn note(found: &mut Vec<Agreement>, case: &cases::Case, kernel: &[Vec<f32>], body: &[Vec<f32>]) {
    let worst = kernel
        .iter()
        .zip(body)
        .map(|(k, b)| error(k, b))
        .fold(0.0, f64::max);
    let bound = 2e-5 + 4.0 * f64::from(f32::EPSILON) * case.gates(kernel);
    match found.iter_mut().find(|a| a.operator == case.operator) {
        Some(agreement) => {
            agreement.calls += 1;
            agreement.error = agreement.error.max(worst);
            agreement.bound = agreement.bound.max(bound);
        }
        None => found.push(Agreement {
            operator: case.operator,
            calls: 1,
            error: worst,
            bound,
        }),
    }
}

/// Largest difference on the scale of `expected`; infinite for a NaN or another length.
fn error(found: &[f32], expected: &[f32]) -> f64 {
    if found.len() != expected.len() {
        return f64::INFINITY;
    }
    let scale = expected.iter().fold(1.0f64, |m, x| m.max(f64::from(*x).abs()));
    let errors = found
        .iter()
        .zip(expected)
        .map(|(a, b)| (f64::from(*a) - f64::from(*b)).abs() / scale);
    errors.fold(0.0, |m, e| if e.is_finite() { m.max(e) } else { f64::INFINITY })
}
