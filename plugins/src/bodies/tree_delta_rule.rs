//! `TreeDeltaRule`: the gated delta rule along every root path in one pass (`algorithms.md` 5.4).

use super::{dim, swap_leading, swap_trailing, unsqueeze};
use crate::onnx::{ElementType, GraphBuilder, attr_graph, attr_i, proto::FunctionProto};

pub(super) const INPUTS: [&str; 7] = ["q", "k", "v", "g", "beta", "state", "ancestors"];
pub(super) const OUTPUTS: [&str; 3] = ["o", "u", "G"];

/// Values of one pass, laid out [HK,R,..] with R = HV / HK value heads per key head, so that matrix
/// products broadcast a key head over its value heads (value head h uses key head h / R).
pub(super) struct Terms {
    /// Strictly lower triangular `beta_i exp(G_i - G_j) k_i.k_j` on strict ancestors, [HK,R,N,N].
    pub(super) l: String,
    /// `exp(G_i - G_j) q_i.k_j` on inclusive ancestors, [HK,R,N,N].
    pub(super) a: String,
    /// `beta (v - exp(G) S0^T k)`, [HK,R,N,DV].
    pub(super) r: String,
    /// `exp(G) S0^T q`, [HK,R,N,DV].
    pub(super) o: String,
}

/// Depth iteration in a `Loop`: step d computes the rows at depth d from final rows only. Rows that are
/// not reached yet stay zero: if they took part, their partial sums would grow like binomial
/// coefficients on a long chain of alike keys and overflow.
#[must_use]
pub fn function() -> FunctionProto {
    let mut b = GraphBuilder::new("TreeDeltaRule");
    let terms = terms(&mut b);
    let axis = b.const_i64(&[1], &[1]);
    let seen = b.node("Cast", &["ancestors"], vec![attr_i("to", 7)]);
    let seen = b.node("ReduceSum", &[&seen, &axis], vec![attr_i("keepdims", 1)]);
    let one = b.const_i64(&[1], &[]);
    let depth = b.node("Sub", &[&seen, &one], vec![]);
    let trips = b.node("ReduceMax", &[&seen], vec![attr_i("keepdims", 0)]);
    let go_on = b.const_bool(&[true], &[]);
    let zero = b.const_f32(&[0.0], &[]);
    let start = b.node("Mul", &[&terms.r, &zero], vec![]);
    let body = step(&terms, &depth);
    let u = b.node("Loop", &[&trips, &go_on, &start], vec![attr_graph("body", body)]);
    finish(&mut b, &terms, &u);
    b.into_function(crate::ops::TREE_DELTA_RULE, &INPUTS, &OUTPUTS, &[])
}

/// Loop body: `U[depth = d] = (R - L U)[depth = d]`.
fn step(terms: &Terms, depth: &str) -> crate::onnx::proto::GraphProto {
    let mut b = GraphBuilder::new("depth_step").with_prefix("step_");
    let d = b.input("step_d", ElementType::I64, &[]);
    let go_on = b.input("step_go_on", ElementType::Bool, &[]);
    let u = b.input_unshaped("step_u", ElementType::F32);
    let known = b.node("MatMul", &[&terms.l, &u], vec![]);
    let next = b.node("Sub", &[&terms.r, &known], vec![]);
    let here = b.node("Equal", &[depth, &d], vec![]);
    b.named("Identity", &[&go_on], &["step_go_on_out"], vec![]);
    b.named("Where", &[&here, &next, &u], &["step_u_out"], vec![]);
    b.output("step_go_on_out", ElementType::Bool, &[]);
    b.output_unshaped("step_u_out", ElementType::F32);
    b.finish()
}

/// Everything that does not depend on U; also produces the output `G`.
pub(super) fn terms(b: &mut GraphBuilder) -> Terms {
    let key_heads = dim(b, "k", 1);
    let infer = b.const_i64(&[-1], &[1]);
    let rows = dim(b, "q", 0);
    let value_dim = dim(b, "v", 2);
    let key_dim = dim(b, "k", 2);
    let one = b.const_i64(&[1], &[1]);
    // [HV,N,X] -> [HK,R,N,X]
    let grouped = |b: &mut GraphBuilder, value: &str, second: &str, last: &str| {
        let shape = b.node(
            "Concat",
            &[&key_heads, &infer, second, last],
            vec![attr_i("axis", 0)],
        );
        b.node("Reshape", &[value, &shape], vec![])
    };

    let path = b.node("Cast", &["ancestors"], vec![attr_i("to", 1)]);
    b.named("MatMul", &[&path, "g"], &["G"], vec![]);
    let gates = swap_leading(b, "G", 2);
    let gates = grouped(b, &gates, &rows, &one);
    let gates_across = swap_trailing(b, &gates, 4);
    let difference = b.node("Sub", &[&gates, &gates_across], vec![]);
    // Masked before exp: off the path the difference can be large and positive.
    let minus_infinity = b.const_f32(&[f32::MIN], &[]);
    let difference = b.node("Where", &["ancestors", &difference, &minus_infinity], vec![]);
    let decay = b.node("Exp", &[&difference], vec![]);
    let decay_from_root = b.node("Exp", &[&gates], vec![]);

    let heads_first = |b: &mut GraphBuilder, value: &str| {
        let swapped = swap_leading(b, value, 3);
        unsqueeze(b, &swapped, 1)
    };
    let q = heads_first(b, "q");
    let k = heads_first(b, "k");
    let k_across = swap_trailing(b, &k, 4);
    let v = swap_leading(b, "v", 3);
    let v = grouped(b, &v, &rows, &value_dim);
    let beta = swap_leading(b, "beta", 2);
    let beta = grouped(b, &beta, &rows, &one);
    let state = grouped(b, "state", &key_dim, &value_dim);

    let kk = b.node("MatMul", &[&k, &k_across], vec![]);
    let kk = b.node("Mul", &[&kk, &decay], vec![]);
    let kk = b.node("Mul", &[&kk, &beta], vec![]);
    // Strictly lower triangular: a row is its own ancestor, but not a strict one.
    let below = b.const_i64(&[-1], &[]);
    let l = b.node("Trilu", &[&kk, &below], vec![attr_i("upper", 0)]);
    let qk = b.node("MatMul", &[&q, &k_across], vec![]);
    let a = b.node("Mul", &[&qk, &decay], vec![]);
    let ks = b.node("MatMul", &[&k, &state], vec![]);
    let ks = b.node("Mul", &[&ks, &decay_from_root], vec![]);
    let r = b.node("Sub", &[&v, &ks], vec![]);
    let r = b.node("Mul", &[&r, &beta], vec![]);
    let qs = b.node("MatMul", &[&q, &state], vec![]);
    let o = b.node("Mul", &[&qs, &decay_from_root], vec![]);
    Terms { l, a, r, o }
}

/// Produces the outputs `o` and `u` from U [HK,R,N,DV].
pub(super) fn finish(b: &mut GraphBuilder, terms: &Terms, u: &str) {
    let inside = b.node("MatMul", &[&terms.a, u], vec![]);
    let o = b.node("Add", &[&terms.o, &inside], vec![]);
    let shape = b.node("Shape", &["v"], vec![]);
    for (value, name) in [(o.as_str(), "o"), (u, "u")] {
        let rows_first = b.node(
            "Transpose",
            &[value],
            vec![crate::onnx::attr_ints("perm", &[2, 0, 1, 3])],
        );
        b.named("Reshape", &[&rows_first, &shape], &[name], vec![]);
    }
}
