//! `DeltaBranchUpdate`: commit of the accepted path into the recurrent state (`algorithms.md` 5.5).

use super::{dim, swap_leading, unsqueeze};
use crate::onnx::{GraphBuilder, attr_i, attr_ints, proto::FunctionProto};

/// `exp(G_last) S0 + sum_j exp(G_last - G_j) k_j u_j^T` over the rows of the path.
#[must_use]
pub fn function() -> FunctionProto {
    let mut b = GraphBuilder::new("DeltaBranchUpdate");
    let axis0 = || vec![attr_i("axis", 0)];
    let k = b.node("Gather", &["k", "path"], axis0());
    let u = b.node("Gather", &["u", "path"], axis0());
    let gates = b.node("Gather", &["G", "path"], axis0());
    let zero = b.const_i64(&[0], &[1]);
    let last = b.const_i64(&[-1], &[1]);
    let end = b.const_i64(&[i64::MAX], &[1]);
    let gate_last = b.node("Slice", &[&gates, &last, &end, &zero], vec![]);
    let difference = b.node("Sub", &[&gate_last, &gates], vec![]);
    let weights = b.node("Exp", &[&difference], vec![]);
    let weights = unsqueeze(&mut b, &weights, 2);
    let weighted = b.node("Mul", &[&u, &weights], vec![]);

    // Value heads as [HK,R,..]: a key head serves R = HV / HK value heads in a row.
    let key_heads = dim(&mut b, "k", 1);
    let infer = b.const_i64(&[-1], &[1]);
    let rows = dim(&mut b, "path", 0);
    let value_dim = dim(&mut b, "u", 2);
    let shape = b.node("Concat", &[&key_heads, &infer, &rows, &value_dim], axis0());
    let weighted = swap_leading(&mut b, &weighted, 3);
    let weighted = b.node("Reshape", &[&weighted, &shape], vec![]);
    let k = b.node("Transpose", &[&k], vec![attr_ints("perm", &[1, 2, 0])]);
    let k = unsqueeze(&mut b, &k, 1);
    let update = b.node("MatMul", &[&k, &weighted], vec![]);
    let state_shape = b.node("Shape", &["state"], vec![]);
    let update = b.node("Reshape", &[&update, &state_shape], vec![]);

    let decay = b.node("Exp", &[&gate_last], vec![]);
    let decay = b.node("Transpose", &[&decay], vec![attr_ints("perm", &[1, 0])]);
    let decay = unsqueeze(&mut b, &decay, 2);
    let kept = b.node("Mul", &["state", &decay], vec![]);
    b.named("Add", &[&kept, &update], &["state_out"], vec![]);
    b.into_function(
        crate::ops::DELTA_BRANCH_UPDATE,
        &["state", "k", "u", "G", "path"],
        &["state_out"],
        &[],
    )
}
