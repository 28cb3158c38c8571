//! Function bodies: every operator written in standard ONNX operators.
//!
//! A body is the executable specification of its operator. Plain ONNX Runtime inlines it when no
//! kernel is registered, and every kernel is tested against it. Shapes and formulas are in
//! `docs/operators.md`.

pub mod delta_branch_update;
pub mod fused;
mod strip;
pub mod tensorrt;
pub mod tree_attention;
pub mod tree_causal_conv;
pub mod tree_delta_rule;

pub use strip::{PLUGIN_NAMESPACE, PLUGIN_VERSION, strip_bodies};

use crate::onnx::{GraphBuilder, attr_i, attr_ints, proto::FunctionProto};

/// The bodies of a CPU bundle, in a fixed order. For TensorRT see [`tensorrt`].
#[must_use]
pub fn functions() -> Vec<FunctionProto> {
    vec![
        tree_attention::function(),
        tree_causal_conv::function(),
        tree_delta_rule::function(),
        delta_branch_update::function(),
    ]
}

/// [`functions`] and those of the fused operators.
#[must_use]
pub fn all() -> Vec<FunctionProto> {
    let mut all = functions();
    all.extend(fused::functions());
    all
}

/// Size of dimension `axis` of `value` as an int64 tensor of shape [1].
fn dim(b: &mut GraphBuilder, value: &str, axis: i64) -> String {
    b.node(
        "Shape",
        &[value],
        vec![attr_i("start", axis), attr_i("end", axis + 1)],
    )
}

/// `value` with its first two axes exchanged (`rank` axes in all).
fn swap_leading(b: &mut GraphBuilder, value: &str, rank: i64) -> String {
    let perm: Vec<i64> = [1, 0].into_iter().chain(2..rank).collect();
    b.node("Transpose", &[value], vec![attr_ints("perm", &perm)])
}

/// `value` with its last two axes exchanged (`rank` axes in all).
fn swap_trailing(b: &mut GraphBuilder, value: &str, rank: i64) -> String {
    let perm: Vec<i64> = (0..rank - 2).chain([rank - 1, rank - 2]).collect();
    b.node("Transpose", &[value], vec![attr_ints("perm", &perm)])
}

/// `value` with a dimension of size 1 inserted at `axis`.
fn unsqueeze(b: &mut GraphBuilder, value: &str, axis: i64) -> String {
    let axes = b.const_i64(&[axis], &[1]);
    b.node("Unsqueeze", &[value, &axes], vec![])
}

/// `value` without its dimension `axis`, which must be of size 1.
fn squeeze(b: &mut GraphBuilder, value: &str, axis: i64) -> String {
    let axes = b.const_i64(&[axis], &[1]);
    b.node("Squeeze", &[value, &axes], vec![])
}

/// `0, 1, .., end - 1` as int64; `end` has shape [1].
fn range(b: &mut GraphBuilder, end: &str) -> String {
    let zero = b.const_i64(&[0], &[]);
    let one = b.const_i64(&[1], &[]);
    let end = squeeze(b, end, 0);
    b.node("Range", &[&zero, &end, &one], vec![])
}

/// Boolean `true` of shape [`rows`, `columns`]; both sizes have shape [1].
fn all_true(b: &mut GraphBuilder, rows: &str, columns: &str) -> String {
    let shape = b.node("Concat", &[rows, columns], vec![attr_i("axis", 0)]);
    let one = b.const_bool(&[true], &[1, 1]);
    b.node("Expand", &[&one, &shape], vec![])
}
