//! ONNX messages (`proto`, generated from the published `onnx.proto` by prost-build and committed so that
//! no protoc is needed) and a small builder that writes graphs and function bodies node by node.

#[allow(missing_docs, clippy::all, unreachable_pub)]
pub mod proto;

mod attr;
mod builder;

pub use attr::{attr_f, attr_graph, attr_i, attr_ints, attr_ref_f, attr_ref_i, attr_s};
pub use builder::{Dim, ElementType, ExternalData, GraphBuilder};

/// Opset of the standard operators that every graph and function body imports.
pub const OPSET: i64 = 23;
/// ONNX intermediate representation version written into models (opset 23 needs 11 or later).
pub const IR_VERSION: i64 = 11;

/// Wraps a graph and its model-local functions into a model that imports the standard opset
/// [`OPSET`] and, when `functions` is not empty or `custom` is set, the `forkcast` domain, and that of the fused operators when
/// the graph has some.
#[must_use]
pub fn model(graph: proto::GraphProto, functions: Vec<proto::FunctionProto>) -> proto::ModelProto {
    let opset = |domain: &str, version| proto::OperatorSetIdProto {
        domain: Some(domain.to_owned()),
        version: Some(version),
    };
    let mut opset_import = vec![opset("", OPSET)];
    if graph.node.iter().any(|n| n.domain() == crate::ops::DOMAIN) || !functions.is_empty() {
        opset_import.push(opset(crate::ops::DOMAIN, crate::ops::VERSION));
    }
    for domain in [crate::ops::fused::DOMAIN, crate::ops::CONTRIBUTED] {
        let mut imports = functions.iter().flat_map(|f| &f.opset_import);
        let used = graph.node.iter().any(|n| n.domain() == domain);
        if used || imports.any(|i| i.domain() == domain) {
            opset_import.push(opset(domain, crate::ops::VERSION));
        }
    }
    proto::ModelProto {
        ir_version: Some(IR_VERSION),
        producer_name: Some("forkcast".to_owned()),
        opset_import,
        graph: Some(graph),
        functions,
        ..Default::default()
    }
}
