//! One ONNX graph of a bundle as a session.

use super::scope::LibraryScope;
use crate::backend::BackendError;
use crate::bundle::{Bundle, OpenError, append_f32};
use crate::manifest::Initializer;
use ort::environment::Environment;
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use ort::session::{Session, SessionInputValue};
use ort::value::{DynValue, Tensor};
use std::borrow::Cow;

/// A loaded graph.
#[derive(Debug)]
pub(super) struct Graph {
    session: Session,
    stage: &'static str,
}

/// A named input of a run.
pub(super) type Input<'a> = (Cow<'a, str>, SessionInputValue<'a>);

impl Graph {
    /// Loads the graph of `stage`. Initializers in checkpoint files are handed over from memory; those in the bundle's
    /// own files are mapped by the library.
    pub(super) fn open(
        environment: &Environment,
        bundle: &Bundle,
        stage: &'static str,
        threads: usize,
    ) -> Result<Self, OpenError> {
        let Some(graph) = bundle.manifest.graphs.get(stage) else {
            return Err(OpenError::Option(format!("{}: the bundle has no {stage} graph", bundle.dir.display())));
        };
        let path = bundle.dir.join(&graph.file);
        let refuse = |e: ort::Error| OpenError::Graph { path: path.clone(), reason: e.to_string() };
        let mut builder = builder(environment, threads).map_err(refuse)?;
        for initializer in graph.initializers.iter().filter(|i| bundle.is_referenced(&i.data.file)) {
            let tensor = tensor(bundle, initializer).map_err(refuse)?;
            builder = builder.with_external_initializer(&initializer.name, tensor).map_err(|e| refuse(e.into()))?;
        }
        let session = builder.commit_from_file(&path).map_err(refuse)?;
        Ok(Self { session, stage })
    }

    /// Runs the graph; outputs in the graph's order.
    pub(super) fn run(&mut self, inputs: Vec<Input<'_>>) -> Result<Vec<DynValue>, BackendError> {
        let _scope = LibraryScope::enter();
        let stage = self.stage;
        let outputs = self
            .session
            .run(inputs)
            .map_err(|e| BackendError::Run { stage, reason: e.to_string() })?;
        Ok(outputs.into_iter().map(|(_, value)| value).collect())
    }

    /// Names of the outputs, in the order that [`Self::run`] returns them.
    pub(super) fn outputs(&self) -> Vec<String> {
        self.session.outputs().iter().map(|o| o.name().to_owned()).collect()
    }
}

fn builder(environment: &Environment, threads: usize) -> Result<SessionBuilder, ort::Error> {
    Ok(Session::builder(environment)?
        .with_operators(forkcast_plugins::operator_domain()?)?
        .with_optimization_level(GraphOptimizationLevel::Level3)?
        .with_intra_threads(threads)?
        .with_inter_threads(1)?
        .with_memory_pattern(false)?)
}

fn tensor(bundle: &Bundle, initializer: &Initializer) -> Result<DynValue, ort::Error> {
    let data = &initializer.data;
    let mut numbers = Vec::with_capacity(data.shape.iter().product());
    append_f32(bundle.bytes(data), data.dtype, &mut numbers);
    Ok(Tensor::from_array((data.shape.clone(), numbers))?.into_dyn())
}

/// Numbers of a float output.
pub(super) fn numbers<'a>(value: &'a DynValue, stage: &'static str) -> Result<&'a [f32], BackendError> {
    let extracted = value.try_extract_tensor::<f32>();
    extracted.map(|(_, data)| data).map_err(|e| BackendError::Run { stage, reason: e.to_string() })
}
