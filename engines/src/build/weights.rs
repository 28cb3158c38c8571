//! Weights of a graph: every external initializer becomes an input, or its bytes are put inside.
//!
//! No size is spared: a small norm weight that stayed inside would tie the plan to one checkpoint.

use crate::bundle::Bundle;
use crate::manifest::Initializer;
use forkcast_plugins::onnx::proto::{
    GraphProto, TensorProto, TensorShapeProto, TypeProto, ValueInfoProto, tensor_proto::DataLocation,
    tensor_shape_proto, type_proto,
};

/// Largest sum of weights that is put inside a message; protobuf ends at 2 GiB.
const MAX_EMBEDDED: u64 = 1800 << 20;

fn is_external(tensor: &TensorProto) -> bool {
    tensor.data_location == Some(DataLocation::External as i32)
}

/// The entry of the manifest for an initializer of the graph.
fn listed<'a>(tensor: &TensorProto, list: &'a [Initializer]) -> Result<&'a Initializer, String> {
    let name = tensor.name();
    let entry = list
        .iter()
        .find(|i| i.name == name)
        .ok_or_else(|| format!("initializer {name:?} is not in the manifest"))?;
    let dims: Vec<i64> = entry.data.shape.iter().map(|d| *d as i64).collect();
    let dtype = super::inputs::onnx_type(entry.data.dtype);
    if dims != tensor.dims || tensor.data_type != Some(dtype.onnx()) {
        return Err(format!(
            "initializer {name:?}: {:?} in the graph, {dims:?} in the manifest",
            tensor.dims
        ));
    }
    Ok(entry)
}

/// Turns every external initializer into an input of the same name; returns what must be bound, in
/// the order of the graph.
pub(super) fn to_inputs(graph: &mut GraphProto, list: &[Initializer]) -> Result<Vec<Initializer>, String> {
    let mut bound = Vec::new();
    for tensor in graph.initializer.iter().filter(|t| is_external(t)) {
        bound.push(listed(tensor, list)?.clone());
        graph.input.push(input_like(tensor));
    }
    graph.initializer.retain(|t| !is_external(t));
    Ok(bound)
}

fn input_like(tensor: &TensorProto) -> ValueInfoProto {
    let dim = |d: &i64| tensor_shape_proto::Dimension {
        value: Some(tensor_shape_proto::dimension::Value::DimValue(*d)),
        ..Default::default()
    };
    let shape = TensorShapeProto {
        dim: tensor.dims.iter().map(dim).collect(),
    };
    let tensor_type = type_proto::Tensor {
        elem_type: tensor.data_type,
        shape: Some(shape),
    };
    ValueInfoProto {
        name: tensor.name.clone(),
        r#type: Some(TypeProto {
            value: Some(type_proto::Value::TensorType(tensor_type)),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Puts the bytes of every external initializer into the message.
pub(super) fn embed(graph: &mut GraphProto, bundle: &Bundle, list: &[Initializer]) -> Result<(), String> {
    let total: u64 = list.iter().map(|i| i.data.length).sum();
    if total > MAX_EMBEDDED {
        return Err(format!(
            "{total} bytes of weights are more than the {MAX_EMBEDDED} that can be embedded; leave --weights embedded out"
        ));
    }
    for tensor in graph.initializer.iter_mut().filter(|t| is_external(t)) {
        let entry = listed(tensor, list)?;
        tensor.raw_data = Some(bundle.bytes(&entry.data).to_vec());
        tensor.external_data.clear();
        tensor.data_location = None;
    }
    Ok(())
}
