//! Reading and writing `engine.json`. Reading validates what later code relies on.

use super::{Axis, Engine, FILE_NAME, PATH_ROWS, Plan, SCHEMA, WeightMode, graph_of};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Component, Path, PathBuf};

/// Largest description that is read, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Why an engine directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not what its schema says.
    #[error("{path}: {reason}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The field and what is wrong with it.
        reason: String,
    },
    /// The file was written for another schema.
    #[error(
        "{path}: schema {found}, this build reads schema {SCHEMA}\nhint: build the engine again with this version of forkcast"
    )]
    Schema {
        /// The file.
        path: PathBuf,
        /// Schema of the file.
        found: u64,
    },
}

/// Reads and validates the description of the engine directory `dir`.
///
/// # Errors
/// The file is missing, too large, not JSON, of another schema, has unknown fields, or contradicts itself.
pub fn read(dir: &Path) -> Result<Engine, EngineError> {
    let path = dir.join(FILE_NAME);
    let io = |source| EngineError::Io {
        path: path.clone(),
        source,
    };
    let invalid = |reason: String| EngineError::Invalid {
        path: path.clone(),
        reason,
    };
    let size = std::fs::metadata(&path).map_err(io)?.len();
    if size > MAX_BYTES {
        return Err(invalid(format!(
            "{size} bytes, more than the {MAX_BYTES} that are read"
        )));
    }
    let text = std::fs::read(&path).map_err(io)?;
    let value: serde_json::Value = serde_json::from_slice(&text).map_err(|e| invalid(e.to_string()))?;
    let found = value
        .get("schema")
        .and_then(serde_json::Value::as_u64)
        .unwrap_or(0);
    if found != u64::from(SCHEMA) {
        return Err(EngineError::Schema { path, found });
    }
    let engine: Engine = serde_json::from_value(value).map_err(|e| invalid(e.to_string()))?;
    validate(&engine).map_err(invalid)?;
    Ok(engine)
}

/// Writes `engine.json` into `dir`, atomically.
///
/// # Errors
/// The file cannot be written.
pub fn write(dir: &Path, engine: &Engine) -> Result<(), EngineError> {
    let path = dir.join(FILE_NAME);
    let io = |source| EngineError::Io {
        path: path.clone(),
        source,
    };
    let mut text = serde_json::to_vec_pretty(engine).map_err(|e| io(e.into()))?;
    text.push(b'\n');
    let temporary = dir.join(".engine.json.part");
    let mut file = std::fs::File::create(&temporary).map_err(io)?;
    file.write_all(&text).and_then(|()| file.sync_all()).map_err(io)?;
    std::fs::rename(&temporary, &path).map_err(io)
}

fn validate(engine: &Engine) -> Result<(), String> {
    engine.recipe.validate().map_err(|e| format!("recipe.{e}"))?;
    if engine.requires.sm != engine.recipe.sm || engine.requires.flavour != engine.recipe.flavour {
        return Err("requires: contradicts the recipe".to_owned());
    }
    let l = &engine.limits;
    if l.rows == 0 || l.prefill_rows == 0 || l.depth == 0 || l.depth > PATH_ROWS {
        return Err(format!(
            "limits: {} rows, {} rows of prefill, paths of {} (at most {PATH_ROWS})",
            l.rows, l.prefill_rows, l.depth
        ));
    }
    for stage in ["target", "prefill", "head", "head_greedy", "head_top"] {
        if !engine.plans.contains_key(stage) {
            return Err(format!("plans: no {stage:?}"));
        }
    }
    if engine.contexts.is_empty() || engine.contexts.last() != Some(&engine.limits.context) {
        return Err(format!(
            "contexts: {:?} do not end at limits.context",
            engine.contexts
        ));
    }
    let mut names = BTreeSet::from([FILE_NAME]);
    for (stage, plan) in &engine.plans {
        let field = format!("plans.{stage}");
        if !engine.graphs.contains_key(graph_of(stage)) {
            return Err(format!(
                "graphs: no {:?}, which {field} was made from",
                graph_of(stage)
            ));
        }
        if !names.insert(&plan.plan) {
            return Err(format!("{field}.plan: {:?} is listed twice", plan.plan));
        }
        validate_plan(plan, engine.weights).map_err(|e| format!("{field}.{e}"))?;
    }
    Ok(())
}

fn validate_plan(plan: &Plan, weights: WeightMode) -> Result<(), String> {
    let mut parts = Path::new(&plan.plan).components();
    if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) {
        return Err(format!("plan: {:?} is not a plain file name", plan.plan));
    }
    if weights == WeightMode::Embedded && !plan.weights.is_empty() {
        return Err("weights: listed, but the weights are embedded".to_owned());
    }
    if plan.profiles.is_empty() {
        return Err("profiles: empty".to_owned());
    }
    let mut names = BTreeSet::new();
    let ports = plan.inputs.iter().chain(&plan.outputs);
    for port in ports.clone() {
        if !names.insert(port.name.as_str()) {
            return Err(format!("inputs: {:?} is listed twice", port.name));
        }
        if element_size(&port.dtype).is_none() {
            return Err(format!("inputs: {:?} has dtype {:?}", port.name, port.dtype));
        }
    }
    for weight in &plan.weights {
        if !names.insert(weight.name.as_str()) {
            return Err(format!("weights: {:?} is listed twice", weight.name));
        }
    }
    for (i, sizes) in plan.profiles.iter().enumerate() {
        for (symbol, [min, opt, max]) in sizes {
            if *min == 0 || min > opt || opt > max || *max > 1 << 24 {
                return Err(format!(
                    "profiles[{i}].{symbol}: {min}, {opt}, {max} do not ascend from 1"
                ));
            }
        }
        for axis in ports.clone().flat_map(|p| &p.shape) {
            if let Axis::Symbol(symbol) = axis
                && !sizes.contains_key(symbol)
            {
                return Err(format!("profiles[{i}]: no size for {symbol:?}"));
            }
        }
    }
    Ok(())
}

/// Bytes of one element of a port.
#[must_use]
pub(crate) fn element_size(dtype: &str) -> Option<usize> {
    match dtype {
        "f32" | "i32" => Some(4),
        "bf16" | "f16" => Some(2),
        "i64" => Some(8),
        "bool" => Some(1),
        _ => None,
    }
}
