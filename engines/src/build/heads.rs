//! Variants of the head, so that a round reads back a few numbers a row instead of the vocabulary.

use forkcast_plugins::onnx::proto::GraphProto;
use forkcast_plugins::onnx::{Dim, ElementType, GraphBuilder, attr_i};

/// Candidates a row of `head_top`: enough for every top-k up to it.
pub(super) const TOP: usize = 64;

/// `head_greedy`: the id of the largest logit of each row, i64 [R], and the sum of its logits, f32 [R], which shows a NaN
/// wherever it is.
pub(super) fn greedy(graph: &mut GraphProto) {
    let mut builder = GraphBuilder::new("greedy").with_prefix("forkcast.");
    builder.named(
        "ArgMax",
        &["logits"],
        &["best"],
        vec![attr_i("axis", 1), attr_i("keepdims", 0)],
    );
    let axis = builder.const_i64(&[1], &[1]);
    builder.named(
        "ReduceSum",
        &["logits", &axis],
        &["sum"],
        vec![attr_i("keepdims", 0)],
    );
    builder.output("best", ElementType::I64, &[Dim::Symbol("R")]);
    builder.output("sum", ElementType::F32, &[Dim::Symbol("R")]);
    replace_output(graph, builder.finish());
}

/// `head_top`: the [`TOP`] largest logits of each row, f32 [R,k] in descending order, their ids, i64 [R,k], and the
/// logarithm of the sum of the exponentials of all of them, f32 [R].
pub(super) fn top(graph: &mut GraphProto, vocab: usize) {
    let k = TOP.min(vocab);
    let mut builder = GraphBuilder::new("top").with_prefix("forkcast.");
    let count = builder.const_i64(&[k as i64], &[1]);
    builder.named(
        "TopK",
        &["logits", &count],
        &["top", "ids"],
        vec![attr_i("axis", 1)],
    );
    // Shifted by the largest logit, so that no exponential overflows.
    let (zero, one, axis) = (
        builder.const_i64(&[0], &[1]),
        builder.const_i64(&[1], &[1]),
        builder.const_i64(&[1], &[1]),
    );
    let largest = builder.node("Slice", &["top", &zero, &one, &axis], vec![]);
    let shifted = builder.node("Sub", &["logits", &largest], vec![]);
    let exponentials = builder.node("Exp", &[&shifted], vec![]);
    let sum = builder.node("ReduceSum", &[&exponentials, &axis], vec![attr_i("keepdims", 1)]);
    let log = builder.node("Log", &[&sum], vec![]);
    let total = builder.node("Add", &[&log, &largest], vec![]);
    builder.named("Squeeze", &[&total, &axis], &["total"], vec![]);
    builder.output("top", ElementType::F32, &[Dim::Symbol("R"), Dim::Fixed(k)]);
    builder.output("ids", ElementType::I64, &[Dim::Symbol("R"), Dim::Fixed(k)]);
    builder.output("total", ElementType::F32, &[Dim::Symbol("R")]);
    replace_output(graph, builder.finish());
}

fn replace_output(graph: &mut GraphProto, tail: GraphProto) {
    graph.node.extend(tail.node);
    graph.output = tail.output;
}
