//! A rewritten ONNX message as a plan: its inputs and outputs, and runs on ONNX Runtime.

use forkcast_engines::gpu::device::{Address, Binding, DeviceError, Result};
use forkcast_engines::ort::session_builder;
use forkcast_plugins::onnx::proto::{
    ModelProto, ValueInfoProto, tensor_shape_proto::dimension::Value as Dim, type_proto::Value as Type,
};
use forkcast_tests::paths;
use half::bf16;
use ort::session::builder::GraphOptimizationLevel;
use ort::session::{Session, SessionInputValue};
use ort::value::{DynValue, Tensor};
use prost::Message;
use std::collections::BTreeMap;

/// One input or output.
#[derive(Clone, Debug)]
struct Value {
    name: String,
    onnx: i32,
    dims: Vec<std::result::Result<usize, String>>,
    input: bool,
}

/// A message, and a session on it.
#[derive(Debug)]
pub(crate) struct Model {
    values: Vec<Value>,
    session: Option<Session>,
    /// Tensors of weights, made once: everything that has no symbol in its shape and more than a few numbers.
    weights: BTreeMap<String, (Address, DynValue)>,
}

fn said(error: impl std::fmt::Display) -> DeviceError {
    DeviceError(error.to_string())
}

fn value(info: &ValueInfoProto, input: bool) -> Value {
    let Some(Type::TensorType(tensor)) = info.r#type.as_ref().and_then(|t| t.value.as_ref()) else {
        panic!("{:?} is no tensor", info.name());
    };
    let dims = tensor.shape.iter().flat_map(|s| &s.dim).map(|d| match &d.value {
        Some(Dim::DimValue(n)) => Ok(*n as usize),
        Some(Dim::DimParam(s)) => Err(s.clone()),
        None => panic!("{:?} has an unknown shape", info.name()),
    });
    Value {
        name: info.name().to_owned(),
        onnx: tensor.elem_type(),
        dims: dims.collect(),
        input,
    }
}

fn dtype(onnx: i32) -> (&'static str, usize) {
    match onnx {
        1 => ("f32", 4),
        7 => ("i64", 8),
        9 => ("bool", 1),
        10 => ("f16", 2),
        16 => ("bf16", 2),
        other => panic!("element type {other}"),
    }
}

impl Model {
    pub(crate) fn load(plan: &[u8], idle: bool) -> Result<Self> {
        let model = ModelProto::decode(plan).map_err(said)?;
        let graph = model.graph.as_ref().expect("a graph");
        let inputs = graph.input.iter().map(|v| value(v, true));
        let values = inputs.chain(graph.output.iter().map(|v| value(v, false)));
        let session = || -> Result<Session> {
            session_builder(Some(&paths::onnxruntime()))
                .map_err(said)?
                .with_optimization_level(GraphOptimizationLevel::Level3)
                .map_err(said)?
                .commit_from_memory(plan)
                .map_err(said)
        };
        Ok(Self {
            values: values.collect(),
            session: if idle { None } else { Some(session()?) },
            weights: BTreeMap::new(),
        })
    }

    pub(crate) fn bindings(&self) -> Vec<Binding> {
        let binding = |v: &Value| Binding {
            name: v.name.clone(),
            dtype: dtype(v.onnx).0.to_owned(),
            shape: v.dims.iter().map(|d| d.clone().ok()).collect(),
            input: v.input,
        };
        self.values.iter().map(binding).collect()
    }

    fn find(&self, name: &str) -> Result<&Value> {
        let found = self.values.iter().find(|v| v.name == name);
        found.ok_or_else(|| DeviceError(format!("no value {name:?}")))
    }

    /// Sizes of the symbols, from the shapes of the inputs, which must agree.
    pub(crate) fn shapes(&self, inputs: &[(String, Address, Vec<usize>)]) -> Result<BTreeMap<String, usize>> {
        let mut sizes = BTreeMap::new();
        for (name, _, shape) in inputs {
            let value = self.find(name)?;
            if shape.len() != value.dims.len() {
                return Err(DeviceError(format!("{name:?} has shape {shape:?}")));
            }
            for (dim, size) in value.dims.iter().zip(shape) {
                let known = match dim {
                    Ok(n) => *n,
                    Err(symbol) => *sizes.entry(symbol.clone()).or_insert(*size),
                };
                if known != *size {
                    return Err(DeviceError(format!("{name:?} has shape {shape:?}, not {known}")));
                }
            }
        }
        Ok(sizes)
    }

    /// Bytes of a value.
    pub(crate) fn bytes(&self, name: &str, sizes: &BTreeMap<String, usize>) -> Result<usize> {
        let value = self.find(name)?;
        let size = |dim: &std::result::Result<usize, String>| match dim {
            Ok(n) => Ok(*n),
            Err(symbol) => sizes
                .get(symbol)
                .copied()
                .ok_or_else(|| said(format!("no size for {symbol}"))),
        };
        let mut bytes = dtype(value.onnx).1;
        for dim in &value.dims {
            bytes *= size(dim)?;
        }
        Ok(bytes)
    }

    /// Runs the message; gives the bytes of every output.
    pub(crate) fn run(
        &mut self,
        inputs: Vec<(String, Address, Vec<usize>, Vec<u8>)>,
    ) -> Result<BTreeMap<String, Vec<u8>>> {
        let mut fresh = Vec::new();
        for (name, at, shape, bytes) in inputs {
            let value = self.find(&name)?;
            let is_weight = value.dims.iter().all(|d| d.is_ok()) && bytes.len() > 64 && is_weight(&name);
            if !is_weight {
                fresh.push((name, tensor(value.onnx, shape, &bytes)?));
            } else if self.weights.get(&name).is_none_or(|(known, _)| *known != at) {
                let made = tensor(value.onnx, shape, &bytes)?;
                self.weights.insert(name, (at, made));
            }
        }
        let weights = self
            .weights
            .iter()
            .map(|(n, (_, v))| (n.clone(), SessionInputValue::from(v)));
        let fresh = fresh.into_iter().map(|(n, v)| (n, SessionInputValue::from(v)));
        let all: Vec<(String, SessionInputValue<'_>)> = weights.chain(fresh).collect();
        let session = self.session.as_mut().expect("a session");
        let outputs = session.run(all).map_err(said)?;
        let mut found = BTreeMap::new();
        for value in self.values.iter().filter(|v| !v.input) {
            let output = &outputs[value.name.as_str()];
            let bytes = match value.onnx {
                1 => raw(output.try_extract_tensor::<f32>().map_err(said)?.1, |x| {
                    x.to_le_bytes()
                }),
                7 => raw(output.try_extract_tensor::<i64>().map_err(said)?.1, |x| {
                    x.to_le_bytes()
                }),
                other => panic!("an output of type {other}"),
            };
            found.insert(value.name.clone(), bytes);
        }
        Ok(found)
    }
}

/// States change behind the same address; weights do not.
fn is_weight(name: &str) -> bool {
    !["state.", "conv.", "tokens", "positions", "hidden"]
        .iter()
        .any(|p| name.starts_with(p))
}

fn raw<T: Copy, const N: usize>(numbers: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    numbers.iter().flat_map(|x| bytes(*x)).collect()
}

fn numbers<T, const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> T) -> Vec<T> {
    let chunks = bytes.chunks_exact(N);
    chunks
        .map(|c| number(c.try_into().expect("a whole number")))
        .collect()
}

fn tensor(onnx: i32, shape: Vec<usize>, bytes: &[u8]) -> Result<DynValue> {
    let made = match onnx {
        1 => Tensor::from_array((shape, numbers(bytes, f32::from_le_bytes))).map(Tensor::into_dyn),
        7 => Tensor::from_array((shape, numbers(bytes, i64::from_le_bytes))).map(Tensor::into_dyn),
        9 => Tensor::from_array((shape, bytes.iter().map(|b| *b != 0).collect::<Vec<_>>()))
            .map(Tensor::into_dyn),
        16 => Tensor::from_array((shape, numbers(bytes, bf16::from_le_bytes))).map(Tensor::into_dyn),
        other => panic!("an input of type {other}"),
    };
    made.map_err(said)
}
