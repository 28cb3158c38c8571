//! Bodies of the fused operators ([`crate::ops::fused`]): the chains of standard operators that they stand for.

use super::dim;
use crate::args::BLOCK;
use crate::onnx::proto::{FunctionProto, OperatorSetIdProto};
use crate::onnx::{ElementType, GraphBuilder, attr_i, attr_ref_f, attr_ref_i};
use crate::ops::{CONTRIBUTED, VERSION, fused};

/// All fused bodies, in the order of [`fused::ALL`]. They serve TensorRT as well, but for the last, which no engine has.
#[must_use]
pub fn functions() -> Vec<FunctionProto> {
    vec![
        swi_glu(),
        delta_inputs(),
        gated_norm(),
        head_norm_rope(),
        sigmoid_gate(),
        block_matmul(),
    ]
}

fn into_function(
    b: GraphBuilder,
    op: &str,
    inputs: &[&str],
    outputs: &[&str],
    attributes: &[&str],
) -> FunctionProto {
    let mut function = b.into_function(op, inputs, outputs, attributes);
    function.domain = Some(fused::DOMAIN.to_owned());
    function
}

fn silu(b: &mut GraphBuilder, x: &str) -> String {
    let s = b.node("Sigmoid", &[x], vec![]);
    b.node("Mul", &[x, &s], vec![])
}

/// Elements `start..end` along `axis`; bounds have shape [1].
fn slice(b: &mut GraphBuilder, x: &str, start: &str, end: &str, axis: i64) -> String {
    let axis = b.const_i64(&[axis], &[1]);
    b.node("Slice", &[x, start, end, &axis], vec![])
}

/// `x` with the dimensions that `parts` (shape [1] each) give; 0 keeps one.
fn reshape(b: &mut GraphBuilder, x: &str, parts: &[&str]) -> String {
    let shape = b.node("Concat", parts, vec![attr_i("axis", 0)]);
    b.node("Reshape", &[x, &shape], vec![])
}

/// The attribute `name` as int64 of shape [1].
fn attribute(b: &mut GraphBuilder, name: &str) -> String {
    let value = b.node("Constant", &[], vec![attr_ref_i("value_int", name)]);
    let one = b.const_i64(&[1], &[1]);
    b.node("Reshape", &[&value, &one], vec![])
}

fn swi_glu() -> FunctionProto {
    let mut b = GraphBuilder::new(fused::SWI_GLU);
    let halves = b.nodes(
        "Split",
        &["x"],
        2,
        vec![attr_i("axis", 1), attr_i("num_outputs", 2)],
    );
    let gate = silu(&mut b, &halves[0]);
    b.named("Mul", &[&gate, &halves[1]], &["y"], vec![]);
    into_function(b, fused::SWI_GLU, &["x"], &["y"], &[])
}

fn delta_inputs() -> FunctionProto {
    let mut b = GraphBuilder::new(fused::DELTA_INPUTS);
    let (heads, size) = (attribute(&mut b, "key_heads"), attribute(&mut b, "key_dim"));
    let keys = b.node("Mul", &[&heads, &size], vec![]);
    let both = b.node("Add", &[&keys, &keys], vec![]);
    let [zero, keep, rest] = [0, 0, -1].map(|n| b.const_i64(&[n], &[1]));
    let end = b.const_i64(&[i64::MAX], &[1]);
    let q = slice(&mut b, "c", &zero, &keys, 1);
    let k = slice(&mut b, "c", &keys, &both, 1);
    let v = slice(&mut b, "c", &both, &end, 1);
    let q = normed(&mut b, &q, [&keep, &heads, &size], "q_normed");
    let to = vec![attr_i("to", 1)];
    let root = b.node("Cast", &[&size], to);
    let root = b.node("Sqrt", &[&root], vec![]);
    b.named("Div", &[&q, &root], &["q"], vec![]);
    normed(&mut b, &k, [&keep, &heads, &size], "k");
    let values = dim(&mut b, "a", 1);
    let shape = b.node("Concat", &[&keep, &values, &rest], vec![attr_i("axis", 0)]);
    b.named("Reshape", &[&v, &shape], &["v"], vec![]);
    let x = b.node("Add", &["a", "dt_bias"], vec![]);
    let x = b.node("Softplus", &[&x], vec![]);
    b.named("Mul", &[&x, "decay"], &["g"], vec![]);
    b.named("Sigmoid", &["b"], &["beta"], vec![]);
    into_function(
        b,
        fused::DELTA_INPUTS,
        &["c", "a", "b", "dt_bias", "decay"],
        &["q", "k", "v", "g", "beta"],
        &["key_heads", "key_dim"],
    )
}

/// Heads of unit length, called `name`: `x / sqrt(sum x² + 1e-6)`.
fn normed(b: &mut GraphBuilder, x: &str, shape: [&str; 3], name: &str) -> String {
    let x = reshape(b, x, &shape);
    let axis = b.const_i64(&[2], &[1]);
    let square = b.node("Mul", &[&x, &x], vec![]);
    let square = b.node("ReduceSum", &[&square, &axis], vec![attr_i("keepdims", 1)]);
    let epsilon = b.const_f32(&[1e-6], &[]);
    let square = b.node("Add", &[&square, &epsilon], vec![]);
    let length = b.node("Sqrt", &[&square], vec![]);
    b.named("Div", &[&x, &length], &[name], vec![]);
    name.to_owned()
}

fn gated_norm() -> FunctionProto {
    let mut b = GraphBuilder::new(fused::GATED_NORM);
    let o = b.node(
        "RMSNormalization",
        &["o", "w"],
        vec![attr_ref_f("epsilon", "epsilon")],
    );
    let [keep, rest] = [0, -1].map(|n| b.const_i64(&[n], &[1]));
    let o = reshape(&mut b, &o, &[&keep, &rest]);
    let gate = silu(&mut b, "z");
    b.named("Mul", &[&o, &gate], &["y"], vec![]);
    into_function(b, fused::GATED_NORM, &["o", "z", "w"], &["y"], &["epsilon"])
}

fn head_norm_rope() -> FunctionProto {
    let mut b = GraphBuilder::new(fused::HEAD_NORM_ROPE);
    let heads = attribute(&mut b, "heads");
    let [zero, keep, one, rest] = [0, 0, 1, -1].map(|n| b.const_i64(&[n], &[1]));
    let x = reshape(&mut b, "x", &[&keep, &heads, &one, &rest]);
    let size = dim(&mut b, "w", 0);
    let x = slice(&mut b, &x, &zero, &size, 3);
    let x = b.node(
        "RMSNormalization",
        &[&x, "w"],
        vec![attr_ref_f("epsilon", "epsilon")],
    );
    let rotary = vec![attr_ref_i("rotary_embedding_dim", "rotary")];
    let x = b.node("RotaryEmbedding", &[&x, "cos", "sin"], rotary);
    let axis = b.const_i64(&[2], &[1]);
    b.named("Squeeze", &[&x, &axis], &["y"], vec![]);
    into_function(
        b,
        fused::HEAD_NORM_ROPE,
        &["x", "w", "cos", "sin"],
        &["y"],
        &["heads", "rotary", "epsilon"],
    )
}

fn sigmoid_gate() -> FunctionProto {
    let mut b = GraphBuilder::new(fused::SIGMOID_GATE);
    let (heads, size) = (dim(&mut b, "o", 1), dim(&mut b, "o", 2));
    let [keep, rest] = [0, -1].map(|n| b.const_i64(&[n], &[1]));
    let end = b.const_i64(&[i64::MAX], &[1]);
    let x = reshape(&mut b, "x", &[&keep, &heads, &rest]);
    let x = slice(&mut b, &x, &size, &end, 2);
    let gate = b.node("Sigmoid", &[&x], vec![]);
    let y = b.node("Mul", &["o", &gate], vec![]);
    let shape = b.node("Concat", &[&keep, &rest], vec![attr_i("axis", 0)]);
    b.named("Reshape", &[&y, &shape], &["y"], vec![]);
    into_function(b, fused::SIGMOID_GATE, &["o", "x"], &["y"], &[])
}

/// ONNX Runtime's own operator, told to keep activations float32 (`accuracy_level` 1).
fn block_matmul() -> FunctionProto {
    let mut b = GraphBuilder::new(fused::BLOCK_MAT_MUL);
    let mut attributes = vec![attr_i("block_size", BLOCK as i64), attr_i("accuracy_level", 1)];
    attributes.extend(["K", "N", "bits"].map(|name| attr_ref_i(name, name)));
    let bits = attribute(&mut b, "bits");
    let eight = b.const_i64(&[8], &[1]);
    // 128 with 8 bits, else 0: what turns signed numbers into those that the operator subtracts 128 from.
    let signed = b.node("Equal", &[&bits, &eight], vec![]);
    let [top, none] = [128, 0].map(|byte| b.const_bytes(ElementType::U8, vec![byte], &[1]));
    let flip = b.node("Where", &[&signed, &top, &none], vec![]);
    let w = b.node("BitwiseXor", &["w", &flip], vec![]);
    b.contributed("MatMulNBits", &["x", &w, "scales"], &["y"], attributes);
    let inputs = ["x", "w", "scales"];
    let mut function = into_function(b, fused::BLOCK_MAT_MUL, &inputs, &["y"], &["K", "N", "bits"]);
    function.opset_import.push(OperatorSetIdProto {
        domain: Some(CONTRIBUTED.to_owned()),
        version: Some(VERSION),
    });
    function
}
