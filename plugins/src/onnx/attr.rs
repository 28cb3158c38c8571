//! Constructors for node attributes.

use super::proto::{AttributeProto, GraphProto, attribute_proto::AttributeType};

fn typed(name: &str, kind: AttributeType) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(kind as i32),
        ..Default::default()
    }
}

/// Integer attribute.
#[must_use]
pub fn attr_i(name: &str, value: i64) -> AttributeProto {
    AttributeProto {
        i: Some(value),
        ..typed(name, AttributeType::Int)
    }
}

/// Float attribute.
#[must_use]
pub fn attr_f(name: &str, value: f32) -> AttributeProto {
    AttributeProto {
        f: Some(value),
        ..typed(name, AttributeType::Float)
    }
}

/// List of integers.
#[must_use]
pub fn attr_ints(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto {
        ints: values.to_vec(),
        ..typed(name, AttributeType::Ints)
    }
}

/// String attribute.
#[must_use]
pub fn attr_s(name: &str, value: &str) -> AttributeProto {
    AttributeProto {
        s: Some(value.as_bytes().to_vec()),
        ..typed(name, AttributeType::String)
    }
}

/// Sub-graph attribute (bodies of `Loop` and `If`).
#[must_use]
pub fn attr_graph(name: &str, value: GraphProto) -> AttributeProto {
    AttributeProto {
        g: Some(value),
        ..typed(name, AttributeType::Graph)
    }
}

/// Inside a function body: integer attribute `name` takes the function's attribute `from`.
#[must_use]
pub fn attr_ref_i(name: &str, from: &str) -> AttributeProto {
    AttributeProto {
        ref_attr_name: Some(from.to_owned()),
        ..typed(name, AttributeType::Int)
    }
}

/// Inside a function body: float attribute `name` takes the function's attribute `from`.
#[must_use]
pub fn attr_ref_f(name: &str, from: &str) -> AttributeProto {
    AttributeProto {
        ref_attr_name: Some(from.to_owned()),
        ..typed(name, AttributeType::Float)
    }
}
