//! `TreeAttention`: attention over committed rows and over the visible rows of the pass.

use super::{all_true, dim, range, squeeze, swap_leading, unsqueeze};
use crate::onnx::{GraphBuilder, attr_i, attr_ints, attr_ref_f, attr_ref_i, proto::FunctionProto};

const INPUTS: [&str; 8] = [
    "q",
    "k",
    "v",
    "past_k",
    "past_v",
    "past_len",
    "positions",
    "visible",
];

/// Slices the cache to its committed rows, so that rows beyond `past_len` are never read
/// (they may hold anything), then runs opset-23 `Attention` with a boolean mask.
#[must_use]
pub fn function() -> FunctionProto {
    let mut b = GraphBuilder::new("TreeAttention");
    let zero = b.const_i64(&[0], &[1]);
    let past_k = b.node("Slice", &["past_k", &zero, "past_len", &zero], vec![]);
    let past_v = b.node("Slice", &["past_v", &zero, "past_len", &zero], vec![]);
    let rows = dim(&mut b, "q", 0);
    let committed = all_true(&mut b, &rows, "past_len");
    let cached = range(&mut b, "past_len");
    attention(&mut b, [&past_k, &past_v], &committed, &cached);
    into_function(b)
}

/// The nodes as the function `TreeAttention`.
pub(super) fn into_function(b: GraphBuilder) -> FunctionProto {
    b.into_function(crate::ops::TREE_ATTENTION, &INPUTS, &["o"], &["scale", "window"])
}

/// Appends the attention of `q` over `past` (keys and values [P,KVH,D]) and over the rows of the pass;
/// produces `o`. `committed` bool [N,P] says which cached rows count, `cached` int64 [P] is their position.
pub(super) fn attention(b: &mut GraphBuilder, past: [&str; 2], committed: &str, cached: &str) {
    let visible = b.node("Concat", &[committed, "visible"], vec![attr_i("axis", 1)]);
    let key_positions = b.node("Concat", &[cached, "positions"], vec![attr_i("axis", 0)]);
    let mask = windowed(b, &visible, &key_positions);

    let heads_first = |b: &mut GraphBuilder, value: &str| {
        let swapped = swap_leading(b, value, 3);
        unsqueeze(b, &swapped, 0)
    };
    let keys = b.node("Concat", &[past[0], "k"], vec![attr_i("axis", 0)]);
    let values = b.node("Concat", &[past[1], "v"], vec![attr_i("axis", 0)]);
    let q = heads_first(b, "q");
    let keys = heads_first(b, &keys);
    let values = heads_first(b, &values);
    let o = b.node(
        "Attention",
        &[&q, &keys, &values, &mask],
        vec![attr_ref_f("scale", "scale")],
    );
    let o = squeeze(b, &o, 0);
    b.named("Transpose", &[&o], &["o"], vec![attr_ints("perm", &[1, 0, 2])]);
}

/// `visible` [N,P+N] restricted to keys closer than the attribute `window`; 0 means no window.
fn windowed(b: &mut GraphBuilder, visible: &str, key_positions: &str) -> String {
    let window = b.node("Constant", &[], vec![attr_ref_i("value_int", "window")]);
    let zero = b.const_i64(&[0], &[]);
    let unlimited = b.node("Equal", &[&window, &zero], vec![]);
    let row_positions = unsqueeze(b, "positions", 1);
    let key_positions = unsqueeze(b, key_positions, 0);
    let distance = b.node("Sub", &[&row_positions, &key_positions], vec![]);
    let near = b.node("Less", &[&distance, &window], vec![]);
    let near = b.node("Or", &[&near, &unlimited], vec![]);
    b.node("And", &[visible, &near], vec![])
}
