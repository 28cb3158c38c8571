//! Is every node of a graph one that the flavour can compile? A `forkcast` node without a body aborts the whole process
//! inside TensorRT-RTX's parser, so this is asked before the library is called.

use crate::recipe::Flavour;
use forkcast_plugins::onnx::proto::{AttributeProto, ModelProto, NodeProto};
use forkcast_plugins::ops;

/// Standard operators that both flavours compile in the forms that forkcast writes.
const STANDARD: [&str; 43] = [
    "Add",
    "And",
    "ArgMax",
    "Attention",
    "Cast",
    "Concat",
    "Constant",
    "Cos",
    "Div",
    "Equal",
    "Exp",
    "Expand",
    "Gather",
    "Gemm",
    "Less",
    "Log",
    "MatMul",
    "Min",
    "Mul",
    "Neg",
    "Not",
    "Or",
    "RMSNormalization",
    "Range",
    "ReduceMax",
    "ReduceSum",
    "Reshape",
    "RotaryEmbedding",
    "Shape",
    "Sigmoid",
    "Sin",
    "Slice",
    "Softplus",
    "Split",
    "Sqrt",
    "Squeeze",
    "Sub",
    "Tile",
    "TopK",
    "Transpose",
    "Trilu",
    "Unsqueeze",
    "Where",
];

/// The first node that cannot be compiled: its name and why.
pub(super) fn check(model: &ModelProto, flavour: Flavour) -> Result<(), (String, String)> {
    let graph = model.graph.iter().flat_map(|g| &g.node);
    let bodies = model.functions.iter().flat_map(|f| &f.node);
    graph
        .chain(bodies)
        .try_for_each(|node| check_node(node, model, flavour))
}

fn check_node(node: &NodeProto, model: &ModelProto, flavour: Flavour) -> Result<(), (String, String)> {
    let refuse = |reason: String| Err((node.name().to_owned(), reason));
    let op = node.op_type();
    match node.domain() {
        "" | "ai.onnx" if !STANDARD.contains(&op) => {
            return refuse(format!(
                "operator {op:?} is not among those that TensorRT compiles here"
            ));
        }
        "" | "ai.onnx" => {}
        ops::DOMAIN if !ops::ALL.contains(&op) => {
            return refuse(format!("operator forkcast.{op} is unknown"));
        }
        ops::DOMAIN => {
            let body = model
                .functions
                .iter()
                .any(|f| f.name() == op && f.domain() == ops::DOMAIN);
            if flavour == Flavour::TensorrtRtx && !body {
                return refuse(format!(
                    "operator forkcast.{op} has no function body, and TensorRT-RTX takes no plugins"
                ));
            }
            if flavour == Flavour::Tensorrt && body {
                return refuse(format!(
                    "operator forkcast.{op} has a body, which would hide the plugin"
                ));
            }
        }
        ops::fused::DOMAIN => {
            let mut bodies = model.functions.iter();
            if !bodies.any(|f| f.name() == op && f.domain() == ops::fused::DOMAIN) {
                return refuse(format!("operator forkcast.fused.{op} has no function body"));
            }
        }
        other => return refuse(format!("operator {op:?} of domain {other:?}")),
    }
    if node.attribute.iter().any(AttributeProto::has_graph) {
        return refuse(format!("operator {op:?} holds a sub-graph"));
    }
    Ok(())
}

/// Whether an attribute holds a graph.
trait HasGraph {
    fn has_graph(&self) -> bool;
}

impl HasGraph for AttributeProto {
    fn has_graph(&self) -> bool {
        self.g.is_some() || !self.graphs.is_empty()
    }
}
