//! What is refused before anything is queued, and whether parts fit each other.

use super::device::{Device, Program};
use super::error::GpuError;
use crate::backend::{BackendError, RowBatch};
use crate::bundle::Bundle;
use crate::engine::{Axis, Engine, Model, Plan, Port, essence};
use std::path::Path;

fn limit<T>(text: String) -> Result<T, BackendError> {
    Err(BackendError::Limit(text))
}

/// Refuses rows that no plan is meant for.
pub(super) fn batch(batch: &RowBatch<'_>, vocab: usize) -> Result<(), BackendError> {
    let n = batch.len();
    if n == 0 {
        return limit("no rows in a pass".to_owned());
    }
    if batch.positions.len() != n || batch.ancestors.len() != n * n {
        let (p, a) = (batch.positions.len(), batch.ancestors.len());
        return limit(format!("{n} rows with {p} positions and {a} visibilities"));
    }
    if let Some(token) = batch.tokens.iter().find(|t| **t as usize >= vocab) {
        return limit(format!("token id {token} is outside the vocabulary of {vocab}"));
    }
    if let Some(position) = batch.positions.iter().find(|p| **p < 0) {
        return limit(format!("position {position} is negative"));
    }
    for (i, line) in batch.ancestors.chunks_exact(n).enumerate() {
        if !line[i] || line[i + 1..].iter().any(|b| *b) {
            return limit(format!("row {i} must see itself and no later row"));
        }
    }
    Ok(())
}

/// Whether a loaded plan has the inputs and outputs that `engine.json` lists.
pub(super) fn bindings<D: Device>(path: &Path, plan: &Plan, program: &D::Program) -> Result<(), GpuError> {
    let stage = path.display().to_string();
    let found = program.bindings().map_err(|reason| GpuError::Device {
        stage: stage.clone(),
        reason,
    })?;
    let wrong = |expected: String, found: String| GpuError::Corrupt {
        path: path.to_path_buf(),
        what: "the plan is not what engine.json describes",
        expected,
        found,
    };
    let weights = plan.weights.iter().map(|w| Port {
        name: w.name.clone(),
        dtype: w.data.dtype.name().to_owned(),
        shape: w.data.shape.iter().map(|n| Axis::Fixed(*n)).collect(),
    });
    let inputs = plan.inputs.iter().cloned().chain(weights).map(|p| (p, true));
    let outputs = plan.outputs.iter().cloned().map(|p| (p, false));
    let expected: Vec<(Port, bool)> = inputs.chain(outputs).collect();
    for (port, input) in &expected {
        let Some(binding) = found.iter().find(|b| b.name == port.name && b.input == *input) else {
            return Err(wrong(
                format!("{:?}", port.name),
                "nothing of that name".to_owned(),
            ));
        };
        let sizes: Vec<Option<usize>> = port.shape.iter().map(fixed).collect();
        // A size that only one profile has may be fixed in the plan.
        let fits = sizes.len() == binding.shape.len()
            && sizes
                .iter()
                .zip(&binding.shape)
                .all(|(e, f)| e.is_none() || e == f);
        if !fits || binding.dtype != port.dtype {
            let text = |dtype: &str, shape: &[Option<usize>]| format!("{:?} {dtype} {shape:?}", port.name);
            return Err(wrong(
                text(&port.dtype, &sizes),
                text(&binding.dtype, &binding.shape),
            ));
        }
    }
    match found
        .iter()
        .find(|b| expected.iter().all(|(p, _)| p.name != b.name))
    {
        Some(other) => Err(wrong("nothing else".to_owned(), format!("{:?}", other.name))),
        None => Ok(()),
    }
}

fn fixed(axis: &Axis) -> Option<usize> {
    match axis {
        Axis::Fixed(n) => Some(*n),
        Axis::Symbol(_) => None,
    }
}

/// Whether the drafter of `other` can stand in for that of `bundle` on `engine`: the same shapes, and graphs that compute
/// the same.
pub(super) fn drafter(engine: &Engine, bundle: &Bundle, other: &Bundle) -> Result<(), GpuError> {
    let mismatch = |reason: String| GpuError::Mismatch {
        reason: format!("--drafter {}: {reason}", other.dir.display()),
        hint: "use a drafter of the same shape, or build an engine from a bundle with this one".to_owned(),
    };
    let found = Model::of(&other.manifest);
    let pairs = [
        (
            "drafter",
            format!("{:?}", engine.model.drafter),
            format!("{:?}", found.drafter),
        ),
        (
            "taps",
            format!("{:?}", engine.model.taps),
            format!("{:?}", found.taps),
        ),
        (
            "dtype",
            format!("{:?}", engine.model.dtype),
            format!("{:?}", found.dtype),
        ),
        (
            "hidden and vocabulary size",
            format!("{:?}", (engine.model.target.hidden, engine.model.target.vocab)),
            format!("{:?}", (found.target.hidden, found.target.vocab)),
        ),
    ];
    if found.drafter.is_none() {
        return Err(mismatch("the bundle has no drafter".to_owned()));
    }
    if let Some((field, a, b)) = pairs.into_iter().find(|(_, a, b)| a != b) {
        return Err(mismatch(format!("{field} is {b}, the engine was built for {a}")));
    }
    if engine.plans.values().all(|p| p.weights.is_empty()) {
        return Err(mismatch(
            "the engine's weights are embedded and cannot be replaced".to_owned(),
        ));
    }
    for stage in ["context", "draft"] {
        let (own, new) = (essence::of(bundle, stage)?, essence::of(other, stage)?);
        let differs = |(key, count): &(&String, &usize)| own.get(*key) != Some(*count);
        let missing = |(key, _): &(&String, &usize)| !new.contains_key(*key);
        if let Some((what, _)) = new.iter().find(differs).or_else(|| own.iter().find(missing)) {
            let what: String = what.chars().take(120).collect();
            return Err(mismatch(format!(
                "its graph {stage:?} computes something else than the one that the engine was built from ({what})"
            )));
        }
    }
    Ok(())
}
