//! One-node models, run by kernel or by body.

use super::Builders;
use super::cases::{Case, Data};
use crate::onnx::{self, Dim, ElementType, GraphBuilder, proto::FunctionProto};
use crate::ops;
use ort::{session::SessionInputValue, session::builder::GraphOptimizationLevel, value::Tensor};
use prost::Message;

/// Which implementation a session takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Take {
    Kernel,
    Body,
}

/// Why kernels and bodies could not be compared.
#[derive(Debug, thiserror::Error)]
pub enum AgreementError {
    /// No session can be made.
    #[error("{0}")]
    Library(String),
    /// ONNX Runtime refuses a one-node model, or fails running it.
    #[error("{operator}: {source}")]
    Run {
        /// The operator.
        operator: &'static str,
        /// What ONNX Runtime said.
        source: ort::Error,
    },
}

/// Runs a case; outputs in the operator's order.
pub(super) fn run(
    builders: &Builders<'_>,
    bodies: &[FunctionProto],
    case: &Case,
    take: Take,
) -> Result<Vec<Vec<f32>>, AgreementError> {
    let builder = builders().map_err(AgreementError::Library)?;
    let inner = || -> ort::Result<Vec<Vec<f32>>> {
        let mut builder = builder.with_optimization_level(GraphOptimizationLevel::Level3)?;
        if take == Take::Kernel {
            builder = builder.with_operators(crate::operator_domain()?)?;
            builder = builder.with_operators(crate::fused_domain()?)?;
        }
        let mut session = builder.commit_from_memory(&model(case, bodies))?;
        let values = case
            .feeds
            .iter()
            .map(|(name, data)| Ok(((*name).to_owned(), value(data)?)))
            .collect::<ort::Result<Vec<_>>>()?;
        let outputs = session.run(values)?;
        case.outputs
            .iter()
            .map(|(name, _)| Ok(outputs[*name].try_extract_tensor::<f32>()?.1.to_vec()))
            .collect()
    };
    inner().map_err(|source| AgreementError::Run {
        operator: case.operator,
        source,
    })
}

fn value(data: &Data) -> ort::Result<SessionInputValue<'static>> {
    Ok(match data {
        Data::F32(shape, data) => Tensor::from_array((shape.clone(), data.clone()))?.into(),
        Data::U8(shape, data) => Tensor::from_array((shape.clone(), data.clone()))?.into(),
        Data::I64(shape, data) => Tensor::from_array((shape.clone(), data.clone()))?.into(),
        Data::Bool(shape, data) => Tensor::from_array((shape.clone(), data.clone()))?.into(),
    })
}

/// The serialised model of one node; inputs and outputs are of unknown sizes.
fn model(case: &Case, bodies: &[FunctionProto]) -> Vec<u8> {
    let mut b = GraphBuilder::new("one_node");
    for (name, data) in &case.feeds {
        let (element, rank) = match data {
            Data::F32(shape, _) => (ElementType::F32, shape.len()),
            Data::U8(shape, _) => (ElementType::U8, shape.len()),
            Data::I64(shape, _) => (ElementType::I64, shape.len()),
            Data::Bool(shape, _) => (ElementType::Bool, shape.len()),
        };
        let symbols = symbols(name, rank);
        b.input(name, element, &dims(&symbols));
    }
    let names: Vec<&str> = case.feeds.iter().map(|(name, _)| *name).collect();
    let produced: Vec<&str> = case.outputs.iter().map(|(name, _)| *name).collect();
    let fused = ops::fused::ALL.contains(&case.operator);
    if fused {
        b.fused(case.operator, &names, &produced, case.attributes.clone());
    } else {
        b.custom(case.operator, &names, &produced, case.attributes.clone());
    }
    for (name, rank) in case.outputs {
        let symbols = symbols(name, *rank);
        b.output(name, ElementType::F32, &dims(&symbols));
    }
    // A model imports the domains of its nodes only.
    let ours = |f: &&FunctionProto| (f.domain() == ops::fused::DOMAIN) == fused;
    onnx::model(b.finish(), bodies.iter().filter(ours).cloned().collect()).encode_to_vec()
}

fn symbols(name: &str, rank: usize) -> Vec<String> {
    (0..rank).map(|axis| format!("{name}_{axis}")).collect()
}

fn dims(symbols: &[String]) -> Vec<Dim<'_>> {
    symbols.iter().map(|s| Dim::Symbol(s)).collect()
}
