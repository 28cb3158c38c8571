//! The `forkcast` nodes of a stripped model as text, for the fake plugin registry of `plugins/cuda/test/parse`, which
//! describes the form (`node_list.h`).

use crate::symbolic::{Value, declared, infer};
use anyhow::{Context, Result, bail, ensure};
use forkcast_plugins::onnx::ElementType;
use forkcast_plugins::onnx::proto::{AttributeProto, ModelProto, NodeProto, attribute_proto::AttributeType};
use forkcast_plugins::ops;
use std::collections::HashMap;
use std::fmt::Write as _;

/// Lists the nodes of `model`'s main graph with types and sizes of their inputs and outputs.
///
/// # Errors
/// A type or size of a `forkcast` node cannot be worked out, or the graph declares another for an output.
pub fn list(model: &ModelProto) -> Result<String> {
    let graph = model.graph.as_ref().context("a model without a graph")?;
    let values = infer(model);
    for output in &graph.output {
        let (Some(wanted), Some(found)) = (declared(output), values.get(output.name())) else {
            continue;
        };
        let same = wanted.element == found.element && (!found.known() || wanted.dims == found.dims);
        ensure!(
            same,
            "output {}: declared {wanted:?}, found {found:?}",
            output.name()
        );
    }
    let mut text = format!("graph {}\n", word(graph.name())?);
    for function in &model.functions {
        writeln!(text, "function {}", word(function.name())?)?;
    }
    for node in graph.node.iter().filter(|n| n.domain() == ops::DOMAIN) {
        list_node(&mut text, node, &values)
            .with_context(|| format!("{} '{}'", node.op_type(), node.name()))?;
    }
    Ok(text)
}

fn list_node(text: &mut String, node: &NodeProto, values: &HashMap<String, Value>) -> Result<()> {
    writeln!(text, "node {} {}", word(node.op_type())?, word(node.name())?)?;
    for attribute in &node.attribute {
        writeln!(
            text,
            "attribute {} {}",
            word(attribute.name())?,
            value(attribute)?
        )?;
    }
    for (side, names) in [("input", &node.input), ("output", &node.output)] {
        for name in names {
            let tensor = values.get(name).filter(|v| v.known());
            let tensor = tensor.with_context(|| format!("type or size of {side} {name} is not known"))?;
            writeln!(
                text,
                "{side} {} {}",
                element(tensor.element)?,
                tensor.dims.join(" ")
            )?;
        }
    }
    Ok(())
}

fn value(attribute: &AttributeProto) -> Result<String> {
    Ok(match attribute.r#type() {
        AttributeType::Float => format!("float {:e}", attribute.f()),
        AttributeType::Int => format!("int {}", attribute.i()),
        AttributeType::String => format!("string {}", word(std::str::from_utf8(attribute.s())?)?),
        other => bail!("attribute {} is of type {other:?}", attribute.name()),
    })
}

fn element(number: i32) -> Result<&'static str> {
    let types = [
        (ElementType::F32, "f32"),
        (ElementType::F16, "f16"),
        (ElementType::Bf16, "bf16"),
        (ElementType::I64, "i64"),
        (ElementType::Bool, "bool"),
    ];
    let found = types.iter().find(|(t, _)| t.onnx() == number);
    Ok(found.with_context(|| format!("element type {number}"))?.1)
}

/// `text`, which must be one word of the list.
fn word(text: &str) -> Result<&str> {
    ensure!(
        !text.is_empty() && !text.contains(char::is_whitespace),
        "'{text}' is not one word"
    );
    Ok(text)
}
