//! Function bodies for TensorRT: static control flow, and no shape that depends on a tensor's values.
//!
//! Two variants, as a plan is built for one of them: [`trees`] for verification (paths of at most
//! [`TREE_DEPTH`] rows) and [`chains`] for prompts (chains of any length up to a bound).
//!
//! One condition more than for the CPU bodies: attention reads the whole cache and masks the rows
//! that are not committed, so these must hold finite numbers (a cache starts as zeros).

mod attention;
mod chain;
mod tree;

pub use chain::BLOCK;

use crate::onnx::proto::FunctionProto;

/// Longest root path, in rows, that the bodies of [`trees`] are exact for.
pub const TREE_DEPTH: usize = 16;

/// Bodies for trees of depth at most [`TREE_DEPTH`]; chains up to that length are trees too.
#[must_use]
pub fn trees() -> Vec<FunctionProto> {
    with_delta_rule(tree::function())
}

/// Bodies for chains of at most `rows` rows; `ancestors` must be the full lower triangle.
#[must_use]
pub fn chains(rows: usize) -> Vec<FunctionProto> {
    with_delta_rule(chain::function(rows))
}

fn with_delta_rule(delta_rule: FunctionProto) -> Vec<FunctionProto> {
    vec![
        attention::function(),
        super::tree_causal_conv::function(),
        delta_rule,
        super::delta_branch_update::function(),
    ]
}
