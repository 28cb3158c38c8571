//! One-node models and sessions that run them by kernel or by body.

use forkcast_plugins::onnx::{
    self, Dim, ElementType, GraphBuilder,
    proto::{AttributeProto, FunctionProto},
};
use forkcast_plugins::ops;
use ort::{
    environment::Environment,
    session::{Session, SessionInputValue, builder::GraphOptimizationLevel},
    value::Tensor,
};
use prost::Message;
use std::{path::PathBuf, sync::OnceLock};

/// A tensor on its way into a session.
#[derive(Clone, Debug)]
pub enum Data {
    F32(Vec<usize>, Vec<f32>),
    U8(Vec<usize>, Vec<u8>),
    I64(Vec<usize>, Vec<i64>),
    Bool(Vec<usize>, Vec<bool>),
}

impl Data {
    pub fn element(&self) -> ElementType {
        match self {
            Self::F32(..) => ElementType::F32,
            Self::U8(..) => ElementType::U8,
            Self::I64(..) => ElementType::I64,
            Self::Bool(..) => ElementType::Bool,
        }
    }

    pub fn rank(&self) -> usize {
        match self {
            Self::F32(shape, _) | Self::U8(shape, _) | Self::I64(shape, _) | Self::Bool(shape, _) => {
                shape.len()
            }
        }
    }

    fn value(&self) -> ort::Result<SessionInputValue<'static>> {
        Ok(match self {
            Self::F32(shape, data) => Tensor::from_array((shape.clone(), data.clone()))?.into(),
            Self::U8(shape, data) => Tensor::from_array((shape.clone(), data.clone()))?.into(),
            Self::I64(shape, data) => Tensor::from_array((shape.clone(), data.clone()))?.into(),
            Self::Bool(shape, data) => Tensor::from_array((shape.clone(), data.clone()))?.into(),
        })
    }
}

/// Loads ONNX Runtime once: `ORT_DYLIB_PATH`, else the workspace's `lib/`.
pub fn environment() -> &'static Environment {
    static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        let path = std::env::var_os("ORT_DYLIB_PATH").map_or_else(
            || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../lib/libonnxruntime.so"),
            PathBuf::from,
        );
        ort::init_from(path)
            .expect("ONNX Runtime loads")
            .build()
            .expect("an environment")
    })
}

/// Which implementation a session takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    Kernel,
    Body,
}

/// Serialised model with one `forkcast` node; inputs and outputs are of unknown sizes.
pub fn one_node(
    op: &str,
    inputs: &[(&str, Data)],
    outputs: &[(&str, usize)],
    attributes: Vec<AttributeProto>,
    functions: Vec<FunctionProto>,
) -> Vec<u8> {
    let mut b = GraphBuilder::new("one_node");
    for (name, data) in inputs {
        let symbols: Vec<String> = (0..data.rank()).map(|axis| format!("{name}_{axis}")).collect();
        let dims: Vec<Dim<'_>> = symbols.iter().map(|s| Dim::Symbol(s)).collect();
        b.input(name, data.element(), &dims);
    }
    let names: Vec<&str> = inputs.iter().map(|(name, _)| *name).collect();
    let produced: Vec<&str> = outputs.iter().map(|(name, _)| *name).collect();
    if ops::fused::ALL.contains(&op) {
        b.fused(op, &names, &produced, attributes);
    } else {
        b.custom(op, &names, &produced, attributes);
    }
    for (name, rank) in outputs {
        let symbols: Vec<String> = (0..*rank).map(|axis| format!("{name}_{axis}")).collect();
        let dims: Vec<Dim<'_>> = symbols.iter().map(|s| Dim::Symbol(s)).collect();
        b.output(name, ElementType::F32, &dims);
    }
    onnx::model(b.finish(), functions).encode_to_vec()
}

pub fn session(model: &[u8], take: Take) -> ort::Result<Session> {
    let mut builder = Session::builder(environment())?
        .with_intra_threads(2)?
        .with_optimization_level(GraphOptimizationLevel::Level3)?;
    if take == Take::Kernel {
        builder = builder.with_operators(forkcast_plugins::operator_domain()?)?;
        builder = builder.with_operators(forkcast_plugins::fused_domain()?)?;
    }
    builder.commit_from_memory(model)
}

/// Runs a session; outputs in the model's order.
pub fn run(session: &mut Session, inputs: &[(&str, Data)]) -> ort::Result<Vec<Vec<f32>>> {
    let values = inputs
        .iter()
        .map(|(name, data)| Ok(((*name).to_owned(), data.value()?)))
        .collect::<ort::Result<Vec<_>>>()?;
    let names: Vec<String> = session.outputs().iter().map(|o| o.name().to_owned()).collect();
    let outputs = session.run(values)?;
    names
        .iter()
        .map(|name| Ok(outputs[name.as_str()].try_extract_tensor::<f32>()?.1.to_vec()))
        .collect()
}
