//! `TreeDeltaRule` for trees: a fixed number of depth iterations.

use super::TREE_DEPTH;
use crate::{
    bodies::tree_delta_rule::{INPUTS, OUTPUTS, finish, terms},
    onnx::{GraphBuilder, proto::FunctionProto},
};

/// `X <- R - L X`, starting from R: after d steps the rows at depth d and above are final
/// (`algorithms.md` 5.4). Rows below hold partial sums meanwhile; within [`TREE_DEPTH`] these stay small.
pub(super) fn function() -> FunctionProto {
    let mut b = GraphBuilder::new("TreeDeltaRule");
    let terms = terms(&mut b);
    let mut u = terms.r.clone();
    for _ in 1..TREE_DEPTH {
        let known = b.node("MatMul", &[&terms.l, &u], vec![]);
        u = b.node("Sub", &[&terms.r, &known], vec![]);
    }
    finish(&mut b, &terms, &u);
    b.into_function(crate::ops::TREE_DELTA_RULE, &INPUTS, &OUTPUTS, &[])
}
