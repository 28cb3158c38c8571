//! What the GPU does instead of the host: looking up embeddings, and taking the rows of the accepted path.

use crate::engine::{Axis, EMBEDDING, Port};
use crate::manifest::{Dtype, TensorData};
use forkcast_plugins::onnx::proto::{
    GraphProto, NodeProto, TensorProto, ValueInfoProto, tensor_proto::DataLocation,
    tensor_shape_proto::dimension, type_proto,
};
use forkcast_plugins::onnx::{Dim, ElementType, ExternalData, GraphBuilder, attr_i};

/// The ONNX type of stored numbers.
pub(crate) fn onnx_type(dtype: Dtype) -> ElementType {
    match dtype {
        Dtype::F32 => ElementType::F32,
        Dtype::F16 => ElementType::F16,
        Dtype::Bf16 => ElementType::Bf16,
        Dtype::Int8 | Dtype::Int4 => ElementType::U8,
    }
}

/// Name of an ONNX type in `engine.json`.
fn dtype_name(onnx: i32) -> Option<&'static str> {
    [
        (ElementType::F32, "f32"),
        (ElementType::F16, "f16"),
        (ElementType::Bf16, "bf16"),
        (ElementType::I64, "i64"),
        (ElementType::Bool, "bool"),
    ]
    .into_iter()
    .find(|(e, _)| e.onnx() == onnx)
    .map(|(_, name)| name)
}

/// Describes a graph input or output.
pub(super) fn port(value: &ValueInfoProto) -> Result<Port, String> {
    let name = value.name().to_owned();
    let tensor = match value.r#type.as_ref().and_then(|t| t.value.as_ref()) {
        Some(type_proto::Value::TensorType(tensor)) => tensor,
        _ => return Err(format!("{name:?} is no tensor")),
    };
    let dtype = dtype_name(tensor.elem_type()).ok_or_else(|| format!("{name:?} has an unknown type"))?;
    let dims = tensor.shape.iter().flat_map(|s| &s.dim);
    let axis = |dim: &dimension::Value| match dim {
        dimension::Value::DimValue(n) => usize::try_from(*n).ok().map(Axis::Fixed),
        dimension::Value::DimParam(s) => Some(Axis::Symbol(s.clone())),
    };
    let shape = dims
        .map(|d| d.value.as_ref().and_then(axis))
        .collect::<Option<Vec<_>>>();
    Ok(Port {
        dtype: dtype.to_owned(),
        shape: shape.ok_or_else(|| format!("{name:?} has an unknown shape"))?,
        name,
    })
}

/// Index of the input called `name`.
fn input(graph: &GraphProto, name: &str) -> Result<usize, String> {
    let found = graph.input.iter().position(|v| v.name() == name);
    found.ok_or_else(|| format!("no input {name:?}"))
}

/// The external initializer under which the embedding table goes, as the manifest has it.
pub(super) fn embedding_initializer(table: &TensorData) -> TensorProto {
    let mut builder = GraphBuilder::new("embedding");
    let data = ExternalData {
        location: table.file.clone(),
        offset: table.offset,
        length: table.length,
    };
    builder.external(EMBEDDING, onnx_type(table.dtype), &table.shape, &data);
    let mut tensor = builder.finish().initializer.remove(0);
    tensor.data_location = Some(DataLocation::External as i32);
    tensor
}

/// Replaces the embeddings `name` [rows, H] by `tokens` i64 [rows] and a lookup in the table.
pub(super) fn look_up_tokens(graph: &mut GraphProto, name: &str, table: &TensorData) -> Result<(), String> {
    let at = input(graph, name)?;
    let old = port(&graph.input[at])?;
    let Some(rows) = old.shape.first() else {
        return Err(format!("{name:?} has no rows"));
    };
    if graph.initializer.iter().any(|t| t.name() == EMBEDDING) {
        return Err(format!("an initializer is called {EMBEDDING:?}"));
    }
    let mut builder = GraphBuilder::new("lookup").with_prefix("forkcast.");
    let dim = match rows {
        Axis::Fixed(n) => Dim::Fixed(*n),
        Axis::Symbol(s) => Dim::Symbol(s),
    };
    builder.input("tokens", ElementType::I64, &[dim]);
    let gather = vec![attr_i("axis", 0)];
    if dtype_name(onnx_type(table.dtype).onnx()) == Some(old.dtype.as_str()) {
        builder.named("Gather", &[EMBEDDING, "tokens"], &[name], gather);
    } else {
        let rows = builder.node("Gather", &[EMBEDDING, "tokens"], gather);
        let act = graph_type(&graph.input[at]);
        builder.named("Cast", &[&rows], &[name], vec![attr_i("to", i64::from(act))]);
    }
    let mut lookup = builder.finish();
    graph.input[at] = lookup.input.remove(0);
    graph.initializer.push(embedding_initializer(table));
    prepend(graph, lookup.node);
    Ok(())
}

fn graph_type(value: &ValueInfoProto) -> i32 {
    match value.r#type.as_ref().and_then(|t| t.value.as_ref()) {
        Some(type_proto::Value::TensorType(tensor)) => tensor.elem_type(),
        _ => 0,
    }
}

fn prepend(graph: &mut GraphProto, mut nodes: Vec<NodeProto>) {
    nodes.append(&mut graph.node);
    graph.node = nodes;
}

/// Lets `context.onnx` take all rows of a pass and pick the accepted ones: `taps` [N,..] and `path` i64 [P] instead of
/// `taps` [R,..]; what had R rows has P rows.
pub(super) fn take_path(graph: &mut GraphProto) -> Result<(), String> {
    let at = input(graph, "taps")?;
    for node in &mut graph.node {
        node.input
            .iter_mut()
            .filter(|i| *i == "taps")
            .for_each(|i| "taps.path".clone_into(i));
    }
    for value in graph.input.iter_mut().chain(&mut graph.output) {
        let to = if value.name() == "taps" { "N" } else { "P" };
        rename_symbol(value, "R", to);
    }
    let mut builder = GraphBuilder::new("path").with_prefix("forkcast.");
    builder.input("path", ElementType::I64, &[Dim::Symbol("P")]);
    builder.named(
        "Gather",
        &["taps", "path"],
        &["taps.path"],
        vec![attr_i("axis", 0)],
    );
    let mut gather = builder.finish();
    graph.input.insert(at + 1, gather.input.remove(0));
    prepend(graph, gather.node);
    Ok(())
}

fn rename_symbol(value: &mut ValueInfoProto, from: &str, to: &str) {
    if let Some(type_proto::Value::TensorType(tensor)) = value.r#type.as_mut().and_then(|t| t.value.as_mut())
    {
        for dim in tensor.shape.iter_mut().flat_map(|s| &mut s.dim) {
            if let Some(dimension::Value::DimParam(symbol)) = &mut dim.value
                && symbol == from
            {
                to.clone_into(symbol);
            }
        }
    }
}
