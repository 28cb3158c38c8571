//! `TreeCausalConv`: depthwise convolution over each row's own last ancestors, then SiLU.

use super::{all_true, dim, range};
use crate::onnx::{GraphBuilder, attr_i, attr_ints, proto::FunctionProto};

/// Rows are in topological order and a row sees every committed row, so the taps of row i are the K
/// highest visible columns of [past; x]: a `TopK` over column numbers (`algorithms.md` 5.3 gives
/// the same table recursively).
#[must_use]
pub fn function() -> FunctionProto {
    let mut b = GraphBuilder::new("TreeCausalConv");
    let rows = dim(&mut b, "x", 0);
    let history = dim(&mut b, "past", 0);
    let taps = dim(&mut b, "weight", 1);
    let committed = all_true(&mut b, &rows, &history);
    let visible = b.node("Concat", &[&committed, "ancestors"], vec![attr_i("axis", 1)]);
    let width = b.node("Add", &[&rows, &history], vec![]);
    let columns = range(&mut b, &width);
    // Column numbers are small integers, exact in float32, a type that every TopK takes.
    let columns = b.node("Cast", &[&columns], vec![attr_i("to", 1)]);
    let hidden = b.const_f32(&[-1.0], &[]);
    let score = b.node("Where", &[&visible, &columns, &hidden], vec![]);
    let newest_first = b
        .nodes("TopK", &[&score, &taps], 2, vec![attr_i("axis", 1)])
        .remove(1);

    let history_and_rows = b.node("Concat", &["past", "x"], vec![attr_i("axis", 0)]);
    let windows = b.node(
        "Gather",
        &[&history_and_rows, &newest_first],
        vec![attr_i("axis", 0)],
    );
    // The newest row comes first in a window but meets the last tap: reverse the taps.
    let last = b.const_i64(&[-1], &[1]);
    let before_first = b.const_i64(&[i64::MIN], &[1]);
    let axis = b.const_i64(&[1], &[1]);
    let reversed = b.node("Slice", &["weight", &last, &before_first, &axis, &last], vec![]);
    let reversed = b.node("Transpose", &[&reversed], vec![attr_ints("perm", &[1, 0])]);
    let products = b.node("Mul", &[&windows, &reversed], vec![]);
    let sum = b.node("ReduceSum", &[&products, &axis], vec![attr_i("keepdims", 0)]);
    let gate = b.node("Sigmoid", &[&sum], vec![]);
    b.named("Mul", &[&sum, &gate], &["y"], vec![]);
    b.into_function(
        crate::ops::TREE_CAUSAL_CONV,
        &["x", "past", "weight", "ancestors"],
        &["y"],
        &[],
    )
}
