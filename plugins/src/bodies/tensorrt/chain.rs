//! `TreeDeltaRule` for chains: the chunked form of `qwen.md` 3.8 on blocks of [`BLOCK`] rows.

use crate::{
    bodies::{
        dim, swap_trailing,
        tree_delta_rule::{INPUTS, OUTPUTS},
        unsqueeze,
    },
    onnx::{GraphBuilder, attr_i, attr_ints, proto::FunctionProto},
};

/// Rows of a block; gates are summed from the start of the block.
pub const BLOCK: usize = 64;

const SIDE: i64 = BLOCK as i64;

/// What does not depend on the state, for all blocks at once. Layout [HK,R,B,64,..]: R value heads share
/// a key head, B blocks.
struct Chunks {
    /// `T beta v`
    u: String,
    /// `T beta exp(G) k`
    w: String,
    /// `exp(G) q`
    q: String,
    /// `exp(G_i - G_j) q_i.k_j` for j <= i
    a: String,
    /// `exp(G_last - G) k`, transposed
    k: String,
    /// `exp(G_last)`, [HK,R,B,1,1]
    decay: String,
}

/// The last block is filled up with neutral rows (q, k, v, beta and g are 0), then every block is
/// solved by block recursion and the state is carried from block to block, `rows` / 64 times.
pub(super) fn function(rows: usize) -> FunctionProto {
    let blocks = rows.div_ceil(BLOCK).max(1);
    let mut b = GraphBuilder::new("TreeDeltaRule");
    let path = b.node("Cast", &["ancestors"], vec![attr_i("to", 1)]);
    b.named("MatMul", &[&path, "g"], &["G"], vec![]);
    let chunks = chunks(&mut b, blocks);

    let key_heads = dim(&mut b, "k", 1);
    let infer = b.const_i64(&[-1], &[1]);
    let (key_dim, value_dim) = (dim(&mut b, "k", 2), dim(&mut b, "v", 2));
    let shape = b.node(
        "Concat",
        &[&key_heads, &infer, &key_dim, &value_dim],
        vec![attr_i("axis", 0)],
    );
    let mut state = b.node("Reshape", &["state", &shape], vec![]);
    let (mut us, mut os) = (Vec::new(), Vec::new());
    for block in 0..blocks {
        let index = b.const_i64(&[block as i64], &[]);
        let mut part = |value: &str| b.node("Gather", &[value, &index], vec![attr_i("axis", 2)]);
        let [u, w, q, a, k, decay] = [
            &chunks.u,
            &chunks.w,
            &chunks.q,
            &chunks.a,
            &chunks.k,
            &chunks.decay,
        ]
        .map(|value| part(value));
        let known = b.node("MatMul", &[&w, &state], vec![]);
        let u = b.node("Sub", &[&u, &known], vec![]);
        let from_state = b.node("MatMul", &[&q, &state], vec![]);
        let inside = b.node("MatMul", &[&a, &u], vec![]);
        os.push(b.node("Add", &[&from_state, &inside], vec![]));
        if block + 1 < blocks {
            let kept = b.node("Mul", &[&state, &decay], vec![]);
            let added = b.node("MatMul", &[&k, &u], vec![]);
            state = b.node("Add", &[&kept, &added], vec![]);
        }
        us.push(u);
    }
    for (parts, name) in [(os, "o"), (us, "u")] {
        rows_first(&mut b, &parts, name);
    }
    b.into_function(crate::ops::TREE_DELTA_RULE, &INPUTS, &OUTPUTS, &[])
}

/// Joins blocks [HK,R,64,DV] and drops the rows that were filled up: output `name` [N,HV,DV].
fn rows_first(b: &mut GraphBuilder, parts: &[String], name: &str) {
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let joined = b.node("Concat", &parts, vec![attr_i("axis", 2)]);
    let joined = b.node("Transpose", &[&joined], vec![attr_ints("perm", &[2, 0, 1, 3])]);
    let zero = b.const_i64(&[0], &[1]);
    let rows = dim(b, "v", 0);
    let kept = b.node("Slice", &[&joined, &zero, &rows, &zero], vec![]);
    let shape = b.node("Shape", &["v"], vec![]);
    b.named("Reshape", &[&kept, &shape], &[name], vec![]);
}

/// Brings inputs [N,heads,..] into blocks and computes [`Chunks`].
fn chunks(b: &mut GraphBuilder, blocks: usize) -> Chunks {
    let numbers: Vec<i64> = (0..(blocks * BLOCK) as i64).collect();
    let numbers = b.const_i64(&numbers, &[numbers.len() as i64]);
    let rows = dim(b, "q", 0);
    let one = b.const_i64(&[1], &[]);
    let last = b.node("Sub", &[&rows, &one], vec![]);
    let source = b.node("Min", &[&numbers, &last], vec![]);
    let real = b.node("Less", &[&numbers, &rows], vec![]);
    let real = b.node("Cast", &[&real], vec![attr_i("to", 1)]);

    let key_heads = dim(b, "k", 1);
    let key_dim = dim(b, "k", 2);
    let value_dim = dim(b, "v", 2);
    let single = b.const_i64(&[1], &[1]);
    let split = b.const_i64(&[blocks as i64, SIDE], &[2]);
    let infer = b.const_i64(&[-1], &[1]);
    // [N,heads,X] or [N,heads] -> [HK,R or 1,B,64,X]
    let blocked = |b: &mut GraphBuilder, value: &str, rank: i64, last: &str| {
        let filled = b.node("Gather", &[value, &source], vec![attr_i("axis", 0)]);
        let mut mask = real.clone();
        for axis in 1..rank {
            mask = unsqueeze(b, &mask, axis);
        }
        let filled = b.node("Mul", &[&filled, &mask], vec![]);
        let shape = b.node(
            "Concat",
            &[&split, &key_heads, &infer, last],
            vec![attr_i("axis", 0)],
        );
        let split = b.node("Reshape", &[&filled, &shape], vec![]);
        b.node("Transpose", &[&split], vec![attr_ints("perm", &[2, 3, 0, 1, 4])])
    };
    let q = blocked(b, "q", 3, &key_dim);
    let k = blocked(b, "k", 3, &key_dim);
    let v = blocked(b, "v", 3, &value_dim);
    let g = blocked(b, "g", 2, &single);
    let beta = blocked(b, "beta", 2, &single);

    let triangle = square(|i, j| j <= i);
    let ones: Vec<f32> = triangle.iter().map(|x| f32::from(u8::from(*x))).collect();
    let sums = b.const_f32(&ones, &[SIDE, SIDE]);
    let gates = b.node("MatMul", &[&sums, &g], vec![]);
    let gates_across = swap_trailing(b, &gates, 5);
    let difference = b.node("Sub", &[&gates, &gates_across], vec![]);
    // Masked before exp: above the diagonal the difference is positive and can be large.
    let triangle = b.const_bool(&triangle, &[SIDE, SIDE]);
    let lowest = b.const_f32(&[f32::MIN], &[]);
    let difference = b.node("Where", &[&triangle, &difference, &lowest], vec![]);
    let decays = b.node("Exp", &[&difference], vec![]);
    let from_start = b.node("Exp", &[&gates], vec![]);
    let end = [
        b.const_i64(&[-1], &[1]),
        b.const_i64(&[SIDE], &[1]),
        b.const_i64(&[3], &[1]),
    ];
    let gate_last = b.node("Slice", &[&gates, &end[0], &end[1], &end[2]], vec![]);

    let k_across = swap_trailing(b, &k, 5);
    let kk = b.node("MatMul", &[&k, &k_across], vec![]);
    let kk = b.node("Mul", &[&kk, &decays], vec![]);
    let l = b.node("Mul", &[&kk, &beta], vec![]);
    let t = inverse(b, &l);
    let beta_v = b.node("Mul", &[&v, &beta], vec![]);
    let u = b.node("MatMul", &[&t, &beta_v], vec![]);
    let beta_k = b.node("Mul", &[&beta, &from_start], vec![]);
    let beta_k = b.node("Mul", &[&k, &beta_k], vec![]);
    let w = b.node("MatMul", &[&t, &beta_k], vec![]);
    let qk = b.node("MatMul", &[&q, &k_across], vec![]);
    let a = b.node("Mul", &[&qk, &decays], vec![]);
    let q = b.node("Mul", &[&q, &from_start], vec![]);
    let to_end = b.node("Sub", &[&gate_last, &gates], vec![]);
    let to_end = b.node("Exp", &[&to_end], vec![]);
    let k = b.node("Mul", &[&k, &to_end], vec![]);
    let k = swap_trailing(b, &k, 5);
    let decay = b.node("Exp", &[&gate_last], vec![]);
    Chunks { u, w, q, a, k, decay }
}

/// Inverse of I + strictly lower part of `l`, by merging inverted diagonal blocks of 1, 2, 4, .. rows: with
/// T the inverse of all blocks of s rows, the next one is `T - T (L restricted to the lower left
/// quarters) T`. As accurate as forward substitution, unlike products of powers of L.
fn inverse(b: &mut GraphBuilder, l: &str) -> String {
    let zero = b.const_f32(&[0.0], &[]);
    let identity: Vec<f32> = square(|i, j| i == j)
        .iter()
        .map(|x| f32::from(u8::from(*x)))
        .collect();
    let mut t = b.const_f32(&identity, &[SIDE, SIDE]);
    let mut side = 1;
    while side < BLOCK {
        let quarter = square(|i, j| i / (2 * side) == j / (2 * side) && i / side > j / side);
        let quarter = b.const_bool(&quarter, &[SIDE, SIDE]);
        let below = b.node("Where", &[&quarter, l, &zero], vec![]);
        // At side 1, T is the identity on both sides.
        let change = if side == 1 {
            below
        } else {
            let right = b.node("MatMul", &[&below, &t], vec![]);
            b.node("MatMul", &[&t, &right], vec![])
        };
        t = b.node("Sub", &[&t, &change], vec![]);
        side *= 2;
    }
    t
}

/// Row-major [64,64] of a condition on (row, column).
fn square(condition: impl Fn(usize, usize) -> bool) -> Vec<bool> {
    (0..BLOCK * BLOCK)
        .map(|at| condition(at / BLOCK, at % BLOCK))
        .collect()
}
