//! Types and sizes of a graph's values without running it: sizes are numbers or the names of the graph's symbols.
//!
//! Knows the operators that the exporter writes, `forkcast` ones by their contract (`docs/operators.md`). A value it
//! cannot work out is left out, and a size it cannot work out is called `?`.

use forkcast_plugins::onnx::ElementType;
use forkcast_plugins::onnx::proto::{
    AttributeProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, tensor_shape_proto::dimension,
    type_proto,
};
use forkcast_plugins::ops;
use std::collections::HashMap;

/// A size that could not be worked out.
const UNKNOWN: &str = "?";

/// Type and sizes of a value; `ints` where it is a constant list of integers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The number ONNX uses for the element type.
    pub element: i32,
    /// Sizes: numbers or symbols.
    pub dims: Vec<String>,
    ints: Option<Vec<i64>>,
}

impl Value {
    fn new(element: i32, dims: Vec<String>) -> Self {
        Self {
            element,
            dims,
            ints: None,
        }
    }

    /// Whether every size is a number or a symbol of the graph.
    #[must_use]
    pub fn known(&self) -> bool {
        self.dims.iter().all(|d| d != UNKNOWN)
    }
}

/// What is declared for a graph input or output.
#[must_use]
pub fn declared(info: &ValueInfoProto) -> Option<Value> {
    let Some(type_proto::Value::TensorType(tensor)) = info.r#type.as_ref()?.value.as_ref() else {
        return None;
    };
    let dims = tensor.shape.as_ref()?.dim.iter().map(|d| match &d.value {
        Some(dimension::Value::DimValue(n)) => n.to_string(),
        Some(dimension::Value::DimParam(s)) => s.clone(),
        None => UNKNOWN.to_owned(),
    });
    Some(Value::new(tensor.elem_type(), dims.collect()))
}

/// Every value of the main graph that can be worked out, by name.
#[must_use]
pub fn infer(model: &ModelProto) -> HashMap<String, Value> {
    let mut values = HashMap::new();
    let Some(graph) = &model.graph else {
        return values;
    };
    for info in &graph.input {
        if let Some(value) = declared(info) {
            values.insert(info.name().to_owned(), value);
        }
    }
    for tensor in &graph.initializer {
        values.insert(tensor.name().to_owned(), constant(tensor));
    }
    for node in &graph.node {
        for (name, value) in node.output.iter().zip(outputs(node, &values).unwrap_or_default()) {
            values.insert(name.clone(), value);
        }
    }
    values
}

fn constant(tensor: &TensorProto) -> Value {
    let mut value = Value::new(
        tensor.data_type(),
        tensor.dims.iter().map(ToString::to_string).collect(),
    );
    if value.element == ElementType::I64.onnx() {
        let chunks = tensor.raw_data().chunks_exact(8);
        value.ints = Some(
            chunks
                .map(|b| i64::from_le_bytes(b.try_into().expect("8 bytes")))
                .collect(),
        );
    }
    value
}

fn attribute<'a>(node: &'a NodeProto, name: &str) -> Option<&'a AttributeProto> {
    node.attribute.iter().find(|a| a.name() == name)
}

fn int(node: &NodeProto, name: &str, otherwise: i64) -> i64 {
    attribute(node, name).map_or(otherwise, AttributeProto::i)
}

/// The values that `node` makes; `None` if they cannot be worked out.
fn outputs(node: &NodeProto, values: &HashMap<String, Value>) -> Option<Vec<Value>> {
    let input = |i: usize| node.input.get(i).and_then(|name| values.get(name));
    let first = || input(0);
    if node.domain() == ops::DOMAIN {
        return custom(node.op_type(), &input);
    }
    if node.domain() == ops::fused::DOMAIN {
        return fused(node, &input);
    }
    let one = match node.op_type() {
        "Constant" => constant(attribute(node, "value")?.t.as_ref()?),
        "Cast" => Value::new(int(node, "to", 0) as i32, first()?.dims.clone()),
        "Sigmoid" | "Softplus" | "Cos" | "Sin" | "RMSNormalization" | "RotaryEmbedding" => {
            Value::new(first()?.element, first()?.dims.clone())
        }
        "Mul" | "Add" => Value::new(first()?.element, broadcast(&first()?.dims, &input(1)?.dims)),
        "Gemm" => {
            let rows = first()?.dims.first()?.clone();
            let columns = input(1)?.dims.first()?.clone();
            Value::new(first()?.element, vec![rows, columns])
        }
        "Reshape" => Value::new(
            first()?.element,
            reshape(&first()?.dims, input(1)?.ints.as_ref()?)?,
        ),
        "Split" => {
            let axis = int(node, "axis", 0) as usize;
            let sizes = input(1)?.ints.as_ref()?;
            return sizes.iter().map(|n| with(first, axis, n.to_string())).collect();
        }
        "Concat" => {
            let axis = int(node, "axis", 0) as usize;
            let parts = (0..node.input.len()).map(input).collect::<Option<Vec<_>>>()?;
            let sizes = parts.iter().map(|p| p.dims.get(axis)?.parse::<i64>().ok());
            let sum = sizes.sum::<Option<i64>>();
            with(first, axis, sum.map_or(UNKNOWN.to_owned(), |n| n.to_string()))?
        }
        "Slice" => {
            let mut value = first()?.clone();
            for axis in input(3)?.ints.as_ref()? {
                UNKNOWN.clone_into(value.dims.get_mut(*axis as usize)?);
            }
            value
        }
        "Gather" => {
            let mut dims = input(1)?.dims.clone();
            dims.extend(first()?.dims.iter().skip(1).cloned());
            Value::new(first()?.element, dims)
        }
        "Tile" => {
            let times = input(1)?.ints.as_ref()?;
            let dims = first()?.dims.iter().zip(times).map(|(d, t)| product(d, *t));
            Value::new(first()?.element, dims.collect())
        }
        _ => return None,
    };
    Some(vec![one])
}

/// The value with another size at `axis`.
fn with<'a>(value: impl Fn() -> Option<&'a Value>, axis: usize, size: String) -> Option<Value> {
    let mut value = Value::new(value()?.element, value()?.dims.clone());
    *value.dims.get_mut(axis)? = size;
    Some(value)
}

fn product(size: &str, times: i64) -> String {
    match (size.parse::<i64>(), times) {
        (Ok(n), t) => (n * t).to_string(),
        (Err(_), 1) => size.to_owned(),
        _ => UNKNOWN.to_owned(),
    }
}

fn broadcast(a: &[String], b: &[String]) -> Vec<String> {
    let (long, short) = if a.len() < b.len() { (b, a) } else { (a, b) };
    let offset = long.len() - short.len();
    let pair = |(i, size): (usize, &String)| match i.checked_sub(offset).map(|at| &short[at]) {
        Some(other) if size == "1" => other.clone(),
        _ => size.clone(),
    };
    long.iter().enumerate().map(pair).collect()
}

fn reshape(from: &[String], to: &[i64]) -> Option<Vec<String>> {
    let keep = |(i, n): (usize, &i64)| match n {
        0 => from.get(i).cloned(),
        n => Some(n.to_string()),
    };
    let mut dims = to.iter().enumerate().map(keep).collect::<Option<Vec<_>>>()?;
    let Some(open) = to.iter().position(|n| *n == -1) else {
        return Some(dims);
    };
    // What the other sizes leave of the input's: symbols cancel one by one, numbers by division.
    let mut rest: Vec<&String> = from.iter().filter(|d| d.parse::<i64>().is_err()).collect();
    let mut number: i64 = from.iter().filter_map(|d| d.parse::<i64>().ok()).product();
    for (i, size) in dims.iter().enumerate().filter(|(i, _)| *i != open) {
        match size.parse::<i64>() {
            Ok(n) if n > 0 && number % n == 0 => number /= n,
            Ok(_) => return None,
            Err(_) => {
                let at = rest.iter().position(|r| *r == &dims[i])?;
                rest.remove(at);
            }
        }
    }
    dims[open] = match (rest.as_slice(), number) {
        ([], n) => n.to_string(),
        ([symbol], 1) => (*symbol).clone(),
        _ => UNKNOWN.to_owned(),
    };
    Some(dims)
}

/// Outputs of the operators of `docs/operators.md`.
fn custom<'a>(op: &str, input: &impl Fn(usize) -> Option<&'a Value>) -> Option<Vec<Value>> {
    let like = |i: usize| Some(Value::new(input(i)?.element, input(i)?.dims.clone()));
    match op {
        ops::TREE_ATTENTION | ops::TREE_CAUSAL_CONV | ops::DELTA_BRANCH_UPDATE => Some(vec![like(0)?]),
        ops::TREE_DELTA_RULE => Some(vec![like(2)?, like(2)?, like(3)?]),
        _ => None,
    }
}

/// Outputs of the fused operators.
fn fused<'a>(node: &NodeProto, input: &impl Fn(usize) -> Option<&'a Value>) -> Option<Vec<Value>> {
    let x = input(0)?;
    let (element, rows) = (x.element, x.dims.first()?.clone());
    let size = |name: &str| int(node, name, 0);
    let number = |i: usize, axis: usize| input(i)?.dims.get(axis)?.parse::<i64>().ok();
    let value = |dims: &[i64]| {
        let dims = dims.iter().map(i64::to_string);
        Value::new(element, std::iter::once(rows.clone()).chain(dims).collect())
    };
    Some(match node.op_type() {
        ops::fused::SWI_GLU => vec![value(&[number(0, 1)? / 2])],
        ops::fused::BLOCK_MAT_MUL => vec![value(&[number(1, 0)?])],
        ops::fused::GATED_NORM | ops::fused::SIGMOID_GATE => vec![value(&[number(0, 1)? * number(0, 2)?])],
        ops::fused::HEAD_NORM_ROPE => vec![value(&[size("heads"), number(1, 0)?])],
        ops::fused::DELTA_INPUTS => {
            let (heads, dim, values) = (size("key_heads"), size("key_dim"), number(1, 1)?);
            let keys = value(&[heads, dim]);
            let per_head = (number(0, 1)? - 2 * heads * dim) / values;
            let gates = value(&[values]);
            vec![
                keys.clone(),
                keys,
                value(&[values, per_head]),
                gates.clone(),
                gates,
            ]
        }
        _ => return None,
    })
}
