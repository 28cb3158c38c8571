//! A builder that appends nodes in execution order and hands out fresh value names.
//! Names come from a counter, so the same calls give the same bytes.

use super::proto::{
    AttributeProto, FunctionProto, GraphProto, NodeProto, OperatorSetIdProto, StringStringEntryProto,
    TensorProto, TensorShapeProto, TypeProto, ValueInfoProto, tensor_proto, tensor_shape_proto, type_proto,
};

/// Element types that forkcast's graphs use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// 64-bit signed integer.
    I64,
    /// Boolean, one byte.
    Bool,
    /// Unsigned byte.
    U8,
}

impl ElementType {
    /// The number ONNX uses for this type.
    #[must_use]
    pub fn onnx(self) -> i32 {
        (match self {
            Self::F32 => tensor_proto::DataType::Float,
            Self::F16 => tensor_proto::DataType::Float16,
            Self::Bf16 => tensor_proto::DataType::Bfloat16,
            Self::I64 => tensor_proto::DataType::Int64,
            Self::Bool => tensor_proto::DataType::Bool,
            Self::U8 => tensor_proto::DataType::Uint8,
        }) as i32
    }

    /// Size of one element in bytes.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::I64 => 8,
            Self::Bool | Self::U8 => 1,
        }
    }
}

/// One dimension of a graph input or output: fixed, or a named symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dim<'a> {
    /// Known at export.
    Fixed(usize),
    /// Known at run time; equal names mean equal sizes.
    Symbol(&'a str),
}

/// Where the bytes of an external initializer lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalData {
    /// File name relative to the model's folder.
    pub location: String,
    /// First byte in that file.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

/// Builds a [`GraphProto`] or the body of a [`FunctionProto`].
#[derive(Debug, Default)]
pub struct GraphBuilder {
    graph: GraphProto,
    fresh: usize,
    prefix: String,
}

impl GraphBuilder {
    /// An empty graph called `name`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let graph = GraphProto {
            name: Some(name.to_owned()),
            ..Default::default()
        };
        Self {
            graph,
            fresh: 0,
            prefix: String::new(),
        }
    }

    /// Puts `prefix` before every fresh name (sub-graphs must not reuse names of the outer graph).
    #[must_use]
    pub fn with_prefix(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.prefix);
        self
    }

    /// Declares a graph input.
    pub fn input(&mut self, name: &str, element: ElementType, dims: &[Dim<'_>]) -> String {
        self.graph.input.push(value_info(name, element, dims));
        name.to_owned()
    }

    /// Declares a graph input of unknown rank (sub-graph inputs inside function bodies, whose sizes
    /// differ from call to call).
    pub fn input_unshaped(&mut self, name: &str, element: ElementType) -> String {
        self.graph.input.push(unshaped_info(name, element));
        name.to_owned()
    }

    /// Declares a graph output of unknown rank, see [`Self::input_unshaped`].
    pub fn output_unshaped(&mut self, name: &str, element: ElementType) {
        self.graph.output.push(unshaped_info(name, element));
    }

    /// Declares a graph output; a node must produce it (see [`Self::named`]).
    pub fn output(&mut self, name: &str, element: ElementType, dims: &[Dim<'_>]) {
        self.graph.output.push(value_info(name, element, dims));
    }

    /// Appends a standard node with one output and returns the output's name.
    pub fn node(&mut self, op: &str, inputs: &[&str], attributes: Vec<AttributeProto>) -> String {
        self.nodes(op, inputs, 1, attributes).remove(0)
    }

    /// Appends a standard node with `outputs` outputs.
    pub fn nodes(
        &mut self,
        op: &str,
        inputs: &[&str],
        outputs: usize,
        attributes: Vec<AttributeProto>,
    ) -> Vec<String> {
        let names: Vec<String> = (0..outputs).map(|_| self.fresh_name(op)).collect();
        let refs: Vec<&str> = names.iter().map(String::as_str).collect();
        self.push("", op, inputs, &refs, attributes);
        names
    }

    /// Appends a standard node whose outputs have given names.
    pub fn named(&mut self, op: &str, inputs: &[&str], outputs: &[&str], attributes: Vec<AttributeProto>) {
        self.push("", op, inputs, outputs, attributes);
    }

    /// Appends a `forkcast` node whose outputs have given names.
    pub fn custom(&mut self, op: &str, inputs: &[&str], outputs: &[&str], attributes: Vec<AttributeProto>) {
        self.push(crate::ops::DOMAIN, op, inputs, outputs, attributes);
    }

    /// Appends a node of ONNX Runtime's own operators (`com.microsoft`).
    pub fn contributed(
        &mut self,
        op: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: Vec<AttributeProto>,
    ) {
        self.push(crate::ops::CONTRIBUTED, op, inputs, outputs, attributes);
    }

    /// Appends a `forkcast.fused` node whose outputs have given names.
    pub fn fused(&mut self, op: &str, inputs: &[&str], outputs: &[&str], attributes: Vec<AttributeProto>) {
        self.push(crate::ops::fused::DOMAIN, op, inputs, outputs, attributes);
    }

    fn push(
        &mut self,
        domain: &str,
        op: &str,
        inputs: &[&str],
        outputs: &[&str],
        attribute: Vec<AttributeProto>,
    ) {
        let index = self.graph.node.len();
        self.graph.node.push(NodeProto {
            name: Some(format!("{}{op}.{index}", self.prefix)),
            op_type: Some(op.to_owned()),
            domain: (!domain.is_empty()).then(|| domain.to_owned()),
            input: inputs.iter().map(|s| (*s).to_owned()).collect(),
            output: outputs.iter().map(|s| (*s).to_owned()).collect(),
            attribute,
            ..Default::default()
        });
    }

    /// A name that no other value of this builder has.
    pub fn fresh_name(&mut self, stem: &str) -> String {
        self.fresh += 1;
        format!("{}{stem}_{}", self.prefix, self.fresh)
    }

    /// A `Constant` node holding integers; `dims` empty gives a scalar.
    pub fn const_i64(&mut self, values: &[i64], dims: &[i64]) -> String {
        let data = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.constant(ElementType::I64, dims, data)
    }

    /// A `Constant` node holding floats; `dims` empty gives a scalar.
    pub fn const_f32(&mut self, values: &[f32], dims: &[i64]) -> String {
        let data = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.constant(ElementType::F32, dims, data)
    }

    /// A `Constant` node holding numbers as they lie in a file: row-major, little endian.
    pub fn const_bytes(&mut self, element: ElementType, bytes: Vec<u8>, dims: &[i64]) -> String {
        self.constant(element, dims, bytes)
    }

    /// A `Constant` node holding booleans.
    pub fn const_bool(&mut self, values: &[bool], dims: &[i64]) -> String {
        let data = values.iter().map(|v| u8::from(*v)).collect();
        self.constant(ElementType::Bool, dims, data)
    }

    fn constant(&mut self, element: ElementType, dims: &[i64], raw: Vec<u8>) -> String {
        let tensor = TensorProto {
            dims: dims.to_vec(),
            data_type: Some(element.onnx()),
            raw_data: Some(raw),
            ..Default::default()
        };
        let attribute = AttributeProto {
            name: Some("value".to_owned()),
            r#type: Some(super::proto::attribute_proto::AttributeType::Tensor as i32),
            t: Some(tensor),
            ..Default::default()
        };
        self.node("Constant", &[], vec![attribute])
    }

    /// Declares an initializer whose bytes lie in another file.
    pub fn external(
        &mut self,
        name: &str,
        element: ElementType,
        dims: &[usize],
        data: &ExternalData,
    ) -> String {
        let entry = |key: &str, value: String| StringStringEntryProto {
            key: Some(key.to_owned()),
            value: Some(value),
        };
        self.graph.initializer.push(TensorProto {
            name: Some(name.to_owned()),
            dims: dims.iter().map(|d| *d as i64).collect(),
            data_type: Some(element.onnx()),
            data_location: Some(tensor_proto::DataLocation::External as i32),
            external_data: vec![
                entry("location", data.location.clone()),
                entry("offset", data.offset.to_string()),
                entry("length", data.length.to_string()),
            ],
            ..Default::default()
        });
        name.to_owned()
    }

    /// The finished graph.
    #[must_use]
    pub fn finish(self) -> GraphProto {
        self.graph
    }

    /// The nodes as the body of function `name` of the `forkcast` domain. `attributes` are the
    /// names of required attributes.
    #[must_use]
    pub fn into_function(
        self,
        name: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: &[&str],
    ) -> FunctionProto {
        let owned = |names: &[&str]| names.iter().map(|s| (*s).to_owned()).collect();
        FunctionProto {
            name: Some(name.to_owned()),
            domain: Some(crate::ops::DOMAIN.to_owned()),
            input: owned(inputs),
            output: owned(outputs),
            attribute: owned(attributes),
            node: self.graph.node,
            opset_import: vec![OperatorSetIdProto {
                domain: Some(String::new()),
                version: Some(super::OPSET),
            }],
            ..Default::default()
        }
    }
}

fn unshaped_info(name: &str, element: ElementType) -> ValueInfoProto {
    let tensor = type_proto::Tensor {
        elem_type: Some(element.onnx()),
        shape: None,
    };
    ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: Some(TypeProto {
            value: Some(type_proto::Value::TensorType(tensor)),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn value_info(name: &str, element: ElementType, dims: &[Dim<'_>]) -> ValueInfoProto {
    let dim = dims
        .iter()
        .map(|d| tensor_shape_proto::Dimension {
            value: Some(match d {
                Dim::Fixed(n) => tensor_shape_proto::dimension::Value::DimValue(*n as i64),
                Dim::Symbol(s) => tensor_shape_proto::dimension::Value::DimParam((*s).to_owned()),
            }),
            ..Default::default()
        })
        .collect();
    let tensor = type_proto::Tensor {
        elem_type: Some(element.onnx()),
        shape: Some(TensorShapeProto { dim }),
    };
    ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: Some(TypeProto {
            value: Some(type_proto::Value::TensorType(tensor)),
            ..Default::default()
        }),
        ..Default::default()
    }
}
