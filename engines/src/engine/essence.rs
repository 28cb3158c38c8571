//! What the graphs of a bundle compute, apart from the values of their weights and how these are laid out.
//!
//! Shapes do not tell rotary bases, windows, scales and epsilons apart: these are constants of the graphs and inside the
//! plans. An engine must not run a bundle whose constants are others.

use crate::bundle::{Bundle, OpenError};
use forkcast_plugins::onnx::proto::ModelProto;
use forkcast_plugins::ops::fused;
use prost::Message;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Fingerprint of each graph of `bundle`, hexadecimal.
///
/// # Errors
/// A graph cannot be read.
pub(crate) fn fingerprints(bundle: &Bundle) -> Result<BTreeMap<String, String>, OpenError> {
    let stages = bundle.manifest.graphs.keys();
    stages
        .map(|stage| Ok((stage.clone(), fingerprint(bundle, stage)?)))
        .collect()
}

fn fingerprint(bundle: &Bundle, stage: &str) -> Result<String, OpenError> {
    let mut hash = Sha256::new();
    for (part, count) in of(bundle, stage)? {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
        hash.update((count as u64).to_le_bytes());
    }
    Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
}

/// Operators by which layouts of the same weights differ: one matrix for several projections, split afterwards.
const LAYOUT: [&str; 2] = ["Gemm", "Split"];
/// Integers are shapes and places, which the layout decides.
const I64: i32 = 7;

/// What a graph computes, whatever the layout of its weights: its nodes with their attributes, and its constants, each with
/// how often it occurs.
pub(crate) fn of(bundle: &Bundle, stage: &str) -> Result<BTreeMap<String, usize>, OpenError> {
    let mut found = BTreeMap::new();
    let Some(model) = graph(bundle, stage)? else {
        return Ok(found);
    };
    let mut note = |key: String| *found.entry(key).or_insert(0) += 1;
    let swi_glu = |domain: &str, op: &str| domain == fused::DOMAIN && op == fused::SWI_GLU;
    for function in &model.functions {
        if !swi_glu(function.domain(), function.name()) {
            note(format!("{function:?}"));
        }
    }
    if let Some(graph) = &model.graph {
        let constants = graph.initializer.iter().filter(|t| t.data_location != Some(1));
        for tensor in constants.filter(|t| t.data_type() != I64) {
            let mut tensor = tensor.clone();
            tensor.name = None;
            note(format!("{tensor:?}"));
        }
        for node in graph.node.iter().filter(|n| !LAYOUT.contains(&n.op_type())) {
            if swi_glu(node.domain(), node.op_type()) {
                // Written for stacked projections only; otherwise the nodes that it stands for are there.
                ["Sigmoid", "Mul", "Mul"]
                    .iter()
                    .for_each(|op| note(format!(".{op} []")));
                continue;
            }
            let tensors = node.attribute.iter().filter_map(|a| a.t.as_ref());
            if tensors.into_iter().all(|t| t.data_type() != I64) {
                note(format!(
                    "{}.{} {:?}",
                    node.domain(),
                    node.op_type(),
                    node.attribute
                ));
            }
        }
    }
    Ok(found)
}

/// A graph of a bundle.
fn graph(bundle: &Bundle, stage: &str) -> Result<Option<ModelProto>, OpenError> {
    let Some(entry) = bundle.manifest.graphs.get(stage) else {
        return Ok(None);
    };
    let path = bundle.dir.join(&entry.file);
    let bytes = std::fs::read(&path).map_err(|source| OpenError::Io {
        path: path.clone(),
        source,
    })?;
    let model = ModelProto::decode(bytes.as_slice()).map_err(|e| OpenError::Graph {
        path,
        reason: e.to_string(),
    })?;
    Ok(Some(model))
}
