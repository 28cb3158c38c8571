//! The kernels of the CPU engine against their function bodies, for the layers of a model.

use forkcast_engines::manifest::{Dtype, Layer, Manifest, QUANT_BLOCK};
use forkcast_engines::ort::session_builder;
use forkcast_plugins::agreement::{self, AgreementError, Geometry};
use forkcast_plugins::bodies;
use serde::Serialize;

/// What was found of one operator.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Operator {
    /// Its name.
    pub operator: String,
    /// Random calls that were compared.
    pub calls: usize,
    /// Largest error relative to `max(1, max|value|)`.
    pub error: f64,
    /// Largest error that passes.
    pub bound: f64,
    /// Whether it does.
    pub holds: bool,
}

/// Compares the operators of the model's layers, on random calls of its own sizes.
///
/// # Errors
/// ONNX Runtime is missing or fails.
pub fn check(manifest: &Manifest, seed: u64) -> Result<Vec<Operator>, AgreementError> {
    let builders = || session_builder(None).map_err(|e| e.to_string());
    let found = agreement::measure(&builders, &bodies::all(), &geometries(manifest), seed)?;
    Ok(found
        .into_iter()
        .map(|a| Operator {
            operator: a.operator.to_owned(),
            calls: a.calls,
            error: a.error,
            bound: a.bound,
            holds: a.holds(),
        })
        .collect())
}

/// The different layers of target and drafter.
fn geometries(manifest: &Manifest) -> Vec<Geometry> {
    let mut found: Vec<Geometry> = Vec::new();
    let attention = manifest.drafter.iter().map(|d| Layer::Attention(d.attention));
    for layer in manifest.target.layers.iter().copied().chain(attention) {
        let geometry = match layer {
            Layer::Attention(a) => Geometry::Attention {
                heads: a.heads,
                kv_heads: a.kv_heads,
                head_dim: a.head_dim,
            },
            Layer::DeltaNet(d) => Geometry::Delta {
                key_heads: d.key_heads,
                value_heads: d.value_heads,
                key_dim: d.key_dim,
                value_dim: d.value_dim,
                taps: d.kernel,
            },
        };
        if !found.contains(&geometry) {
            found.push(geometry);
        }
    }
    found.extend(blocks(manifest));
    found
}

/// A layer's narrowest quantised matrix, in a bundle that has some: all of them are computed alike, and the body of a wide one
/// takes long.
fn blocks(manifest: &Manifest) -> Option<Geometry> {
    let tensors = manifest.graphs.values().flat_map(|g| &g.initializers);
    let smallest = tensors
        .map(|i| &i.data)
        .filter(|d| d.shape.len() == 3 && d.dtype.block_bytes().is_some())
        .min_by_key(|d| d.length)?;
    Some(Geometry::Blocks {
        depth: smallest.shape[1] * QUANT_BLOCK,
        columns: smallest.shape[0],
        bits: if smallest.dtype == Dtype::Int4 { 4 } else { 8 },
    })
}
