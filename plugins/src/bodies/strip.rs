//! Models for TensorRT 11 with the plugin library: without the bodies, every node pointing at its plugin.
//!
//! TensorRT's ONNX parser looks at a node's operator name alone, and takes a model-local function of that name
//! before it asks the plugin registry. A model that still carries a body therefore never meets the plugin.

use crate::{
    onnx::{
        attr_s,
        proto::{GraphProto, ModelProto, NodeProto},
    },
    ops,
};

/// Attribute that tells TensorRT's parser in which namespace to look a plugin up.
pub const PLUGIN_NAMESPACE: &str = "plugin_namespace";
/// Attribute that tells TensorRT's parser which version of a plugin to look up.
pub const PLUGIN_VERSION: &str = "plugin_version";

/// Removes the function bodies of the domain `forkcast` and marks every node of that domain, also those in
/// sub-graphs and in functions of other domains, with [`PLUGIN_NAMESPACE`] and [`PLUGIN_VERSION`].
/// Returns how many nodes are marked. Nothing else changes; stripping twice is stripping once.
pub fn strip_bodies(model: &mut ModelProto) -> usize {
    model.functions.retain(|f| f.domain() != ops::DOMAIN);
    let graph = model.graph.iter_mut().map(mark_graph).sum::<usize>();
    let functions = model.functions.iter_mut().map(|f| mark_nodes(&mut f.node));
    graph + functions.sum::<usize>()
}

fn mark_graph(graph: &mut GraphProto) -> usize {
    mark_nodes(&mut graph.node)
}

fn mark_nodes(nodes: &mut [NodeProto]) -> usize {
    nodes.iter_mut().map(mark).sum()
}

fn mark(node: &mut NodeProto) -> usize {
    let inner = node
        .attribute
        .iter_mut()
        .flat_map(|a| a.g.iter_mut().chain(&mut a.graphs))
        .map(mark_graph)
        .sum::<usize>();
    if node.domain() != ops::DOMAIN {
        return inner;
    }
    let marks = [PLUGIN_NAMESPACE, PLUGIN_VERSION];
    node.attribute.retain(|a| !marks.contains(&a.name()));
    let version = ops::VERSION.to_string();
    node.attribute.push(attr_s(PLUGIN_NAMESPACE, ops::DOMAIN));
    node.attribute.push(attr_s(PLUGIN_VERSION, &version));
    inner + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        bodies,
        onnx::{
            self, Dim, ElementType, GraphBuilder, attr_f, attr_graph, attr_i,
            proto::{FunctionProto, OperatorSetIdProto},
        },
    };

    const MASK: [Dim<'static>; 2] = [Dim::Symbol("N"), Dim::Symbol("N")];

    fn convolution(b: &mut GraphBuilder, output: &str) {
        b.custom(
            ops::TREE_CAUSAL_CONV,
            &["x", "past", "weight", "ancestors"],
            &[output],
            vec![],
        );
    }

    /// A graph with two `forkcast` nodes among standard ones, and the bodies.
    fn model() -> ModelProto {
        let mut b = GraphBuilder::new("graph");
        b.input("x", ElementType::F32, &[Dim::Symbol("N"), Dim::Fixed(8)]);
        b.input("ancestors", ElementType::Bool, &MASK);
        b.node("Relu", &["x"], vec![]);
        convolution(&mut b, "y");
        b.custom(
            ops::TREE_ATTENTION,
            &["q", "k", "v", "pk", "pv", "past_len", "positions", "ancestors"],
            &["o"],
            vec![attr_f("scale", 0.125), attr_i("window", 7)],
        );
        b.output("o", ElementType::F32, &[Dim::Symbol("N"), Dim::Fixed(8)]);
        onnx::model(b.finish(), bodies::functions())
    }

    fn marks(node: &NodeProto) -> Vec<(&str, &str)> {
        node.attribute
            .iter()
            .filter(|a| a.name().starts_with("plugin_"))
            .map(|a| (a.name(), std::str::from_utf8(a.s()).expect("text")))
            .collect()
    }

    const EXPECTED: [(&str, &str); 2] = [("plugin_namespace", "forkcast"), ("plugin_version", "1")];

    /// Takes back what stripping adds and puts the bodies back.
    fn undo(mut model: ModelProto, functions: Vec<FunctionProto>) -> ModelProto {
        for node in model.graph.iter_mut().flat_map(|g| &mut g.node) {
            node.attribute.retain(|a| !a.name().starts_with("plugin_"));
        }
        model.functions = functions;
        model
    }

    #[test]
    fn bodies_go_nodes_are_marked_and_nothing_else_changes() {
        let before = model();
        let mut after = before.clone();
        assert_eq!(strip_bodies(&mut after), 2);
        assert!(after.functions.is_empty());
        let nodes = &after.graph.as_ref().expect("a graph").node;
        assert!(marks(&nodes[0]).is_empty(), "a standard node was marked");
        for node in nodes.iter().filter(|n| n.domain() == ops::DOMAIN) {
            assert_eq!(marks(node), EXPECTED, "{}", node.op_type());
        }
        let names: Vec<&str> = nodes[2].attribute.iter().map(|a| a.name()).collect();
        assert_eq!(names, ["scale", "window", "plugin_namespace", "plugin_version"]);
        assert_eq!(undo(after, before.functions.clone()), before);
    }

    #[test]
    fn stripping_twice_is_stripping_once() {
        let mut once = model();
        strip_bodies(&mut once);
        let mut twice = once.clone();
        assert_eq!(strip_bodies(&mut twice), 2);
        assert_eq!(once, twice);
    }

    #[test]
    fn a_wrong_mark_is_replaced() {
        let mut wrong = model();
        let node = &mut wrong.graph.as_mut().expect("a graph").node[1];
        node.attribute.push(attr_s(PLUGIN_VERSION, "2"));
        strip_bodies(&mut wrong);
        assert_eq!(marks(&wrong.graph.expect("a graph").node[1]), EXPECTED);
    }

    #[test]
    fn a_model_without_forkcast_nodes_is_unchanged() {
        let mut b = GraphBuilder::new("plain");
        b.node("Relu", &["x"], vec![]);
        let other = FunctionProto {
            name: Some("Other".to_owned()),
            domain: Some("elsewhere".to_owned()),
            node: b.finish().node,
            ..Default::default()
        };
        let mut b = GraphBuilder::new("graph");
        b.named("Relu", &["x"], &["y"], vec![attr_i("unused", 1)]);
        let mut before = onnx::model(b.finish(), vec![other]);
        before.opset_import.push(OperatorSetIdProto::default());
        let mut after = before.clone();
        assert_eq!(strip_bodies(&mut after), 0);
        assert_eq!(after, before);
        let mut empty = ModelProto::default();
        assert_eq!(strip_bodies(&mut empty), 0);
        assert_eq!(empty, ModelProto::default());
    }

    #[test]
    fn nodes_in_sub_graphs_and_in_other_functions_are_marked() {
        let mut inner = GraphBuilder::new("branch").with_prefix("inner.");
        convolution(&mut inner, "deep");
        let mut b = GraphBuilder::new("graph");
        let branch = inner.finish();
        b.node(
            "If",
            &["condition"],
            vec![attr_graph("then_branch", branch.clone()), attr_i("other", 3)],
        );
        let other = FunctionProto {
            name: Some("Other".to_owned()),
            domain: Some("elsewhere".to_owned()),
            node: branch.node,
            ..Default::default()
        };
        let mut functions = bodies::functions();
        functions.push(other);
        let mut model = onnx::model(b.finish(), functions);
        assert_eq!(strip_bodies(&mut model), 2);
        assert_eq!(model.functions.len(), 1);
        assert_eq!(marks(&model.functions[0].node[0]), EXPECTED);
        let node = &model.graph.as_ref().expect("a graph").node[0];
        let branch = node.attribute[0].g.as_ref().expect("a branch");
        assert_eq!(marks(&branch.node[0]), EXPECTED);
        assert!(marks(node).is_empty());
    }
}
