//! `TreeAttention` over the whole cache, rows from `past_len` on masked.

use crate::{
    bodies::{dim, range, tree_attention, unsqueeze},
    onnx::{GraphBuilder, proto::FunctionProto},
};

pub(super) fn function() -> FunctionProto {
    let mut b = GraphBuilder::new("TreeAttention");
    let rows = dim(&mut b, "q", 0);
    let capacity = dim(&mut b, "past_k", 0);
    let cached = range(&mut b, &capacity);
    let committed = b.node("Less", &[&cached, "past_len"], vec![]);
    let committed = unsqueeze(&mut b, &committed, 0);
    let shape = b.node(
        "Concat",
        &[&rows, &capacity],
        vec![crate::onnx::attr_i("axis", 0)],
    );
    let committed = b.node("Expand", &[&committed, &shape], vec![]);
    tree_attention::attention(&mut b, ["past_k", "past_v"], &committed, &cached);
    tree_attention::into_function(b)
}
