//! One ONNX graph of a bundle as a session, called with tensors in a fixed order.

#![expect(unsafe_code, reason = "runs of the ONNX Runtime library on bound memory")]

use super::initializers;
use super::library::Library;
use super::memory::{Element, Tensor, View};
use super::scope::LibraryScope;
use super::weights::Weights;
use crate::backend::BackendError;
use crate::bundle::{Bundle, OpenError};
use crate::manifest::Dtype;
use ort::AsPointer;
use ort::session::Session;
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use ort::sys::OrtValue;
use ort::value::{Outlet, TensorElementType, ValueType};
use std::ffi::{CString, c_char};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::time::Duration;

/// A graph value: name, element type, and dimensions, `None` where the size varies between runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Port {
    pub(super) name: String,
    pub(super) element: Element,
    pub(super) dims: Vec<Option<usize>>,
}

impl Port {
    pub(super) fn new(name: impl Into<String>, element: Element, dims: &[Option<usize>]) -> Self {
        Self {
            name: name.into(),
            element,
            dims: dims.to_vec(),
        }
    }
}

/// Inputs and outputs of a graph, in the order in which [`Call`] takes them.
#[derive(Clone, Debug, Default)]
pub(super) struct Signature {
    pub(super) inputs: Vec<Port>,
    pub(super) outputs: Vec<Port>,
}

/// What every graph of an engine is opened with.
#[derive(Debug)]
pub(super) struct Loader<'a> {
    pub(super) library: &'static Library,
    pub(super) bundle: &'a Bundle,
    pub(super) weights: Arc<Weights>,
    pub(super) threads: usize,
}

/// A loaded graph.
#[derive(Debug)]
pub(super) struct Graph {
    // Dropped first: it points into the weights.
    session: Session,
    _weights: Arc<Weights>,
    stage: &'static str,
    ports: Signature,
    names: Names,
    inputs: Vec<*const OrtValue>,
    outputs: Vec<*mut OrtValue>,
    /// Runs so far, and the time spent in them.
    pub(super) runs: u64,
    pub(super) time: Duration,
}

#[derive(Debug)]
struct Names {
    _owned: Vec<CString>,
    inputs: Vec<*const c_char>,
    outputs: Vec<*const c_char>,
}

// SAFETY: the name pointers point into `_owned`, the value pointers are only read inside `Call::run`.
unsafe impl Send for Graph {}

impl Loader<'_> {
    /// Loads the graph of `stage`, which must have exactly the inputs and outputs of `ports`.
    pub(super) fn open(&self, stage: &'static str, ports: Signature) -> Result<Graph, OpenError> {
        let bundle = self.bundle;
        let Some(graph) = bundle.manifest.graphs.get(stage) else {
            return Err(OpenError::Graph {
                path: bundle.dir.join(crate::manifest::FILE_NAME),
                reason: format!("graphs: no {stage:?}"),
            });
        };
        let path = bundle.dir.join(&graph.file);
        let _scope = LibraryScope::enter();
        let session = self.session(graph, &path)?;
        check(&path, "input", session.inputs(), &ports.inputs)?;
        check(&path, "output", session.outputs(), &ports.outputs)?;
        let names = Names::new(&ports).map_err(|reason| OpenError::Graph { path, reason })?;
        Ok(Graph::new(
            session,
            Arc::clone(&self.weights),
            stage,
            ports,
            names,
        ))
    }

    /// Loads a graph that was made in memory and holds its own weights.
    pub(super) fn open_made(
        &self,
        stage: &'static str,
        model: &[u8],
        ports: Signature,
    ) -> Result<Graph, OpenError> {
        let _scope = LibraryScope::enter();
        let refuse = |reason: String| OpenError::Graph {
            path: PathBuf::from(stage),
            reason,
        };
        let builder = self.builder();
        let session = builder
            .and_then(|mut b| b.commit_from_memory(model))
            .map_err(|e| refuse(e.to_string()))?;
        let names = Names::new(&ports).map_err(refuse)?;
        Ok(Graph::new(session, Arc::default(), stage, ports, names))
    }

    fn session(&self, graph: &crate::manifest::Graph, path: &Path) -> Result<Session, OpenError> {
        let refuse = |e: ort::Error| OpenError::Graph {
            path: path.to_path_buf(),
            reason: e.to_string(),
        };
        initializers::check(graph, path)?;
        let mut builder = self.builder().map_err(refuse)?;
        self.weights.hand_over(graph, path, &mut builder)?;
        builder.commit_from_file(path).map_err(refuse)
    }

    /// Prepacking stays on: it keeps a second, blocked copy of every matrix that a `Gemm` reads (the mapped one is then
    /// clean page cache), and makes every pass 10 to 30 % faster. Memory patterns are off: rows vary from run to run.
    fn builder(&self) -> Result<SessionBuilder, ort::Error> {
        let mut builder = self.library.builder(self.threads)?;
        if self.bundle.manifest.dtype.activations() == Dtype::F32 {
            // The kernels take float32; other types run the function bodies that the graph carries.
            builder = builder.with_operators(forkcast_plugins::operator_domain()?)?;
            builder = builder.with_operators(forkcast_plugins::fused_domain()?)?;
        }
        Ok(builder
            .with_optimization_level(GraphOptimizationLevel::All)?
            .with_inter_threads(1)?
            .with_memory_pattern(false)?)
    }
}

fn check(path: &Path, what: &str, found: &[Outlet], expected: &[Port]) -> Result<(), OpenError> {
    let refuse = |reason: String| {
        Err(OpenError::Graph {
            path: PathBuf::from(path),
            reason,
        })
    };
    for port in expected {
        let Some(outlet) = found.iter().find(|o| o.name() == port.name) else {
            return refuse(format!("it has no {what} {:?}", port.name));
        };
        let ValueType::Tensor { ty, shape, .. } = outlet.dtype() else {
            return refuse(format!("{what} {:?} is not a tensor", port.name));
        };
        if *ty != onnx(port.element) {
            return refuse(format!(
                "{what} {:?} is {ty}, expected {:?}",
                port.name, port.element
            ));
        }
        let fits = shape.len() == port.dims.len()
            && shape
                .iter()
                .zip(&port.dims)
                .all(|(f, e)| *f < 0 || e.is_none_or(|e| e as i64 == *f));
        if !fits {
            return refuse(format!(
                "{what} {:?} has shape {:?}, expected {:?}",
                port.name,
                &shape[..],
                port.dims
            ));
        }
    }
    match found.iter().find(|o| expected.iter().all(|p| p.name != o.name())) {
        Some(outlet) => refuse(format!("unknown {what} {:?}", outlet.name())),
        None => Ok(()),
    }
}

fn onnx(element: Element) -> TensorElementType {
    match element {
        Element::F32 => TensorElementType::Float32,
        Element::F16 => TensorElementType::Float16,
        Element::Bf16 => TensorElementType::Bfloat16,
        Element::I64 => TensorElementType::Int64,
        Element::Bool => TensorElementType::Bool,
        Element::U8 => TensorElementType::Uint8,
    }
}

impl Names {
    fn new(ports: &Signature) -> Result<Self, String> {
        let all = ports.inputs.iter().chain(&ports.outputs);
        let owned = all
            .map(|p| CString::new(p.name.as_str()).map_err(|_| format!("a NUL in the name {:?}", p.name)))
            .collect::<Result<Vec<_>, _>>()?;
        let mut pointers: Vec<*const c_char> = owned.iter().map(|n| n.as_ptr()).collect();
        let outputs = pointers.split_off(ports.inputs.len());
        Ok(Self {
            _owned: owned,
            inputs: pointers,
            outputs,
        })
    }
}

impl Graph {
    fn new(
        session: Session,
        weights: Arc<Weights>,
        stage: &'static str,
        ports: Signature,
        names: Names,
    ) -> Self {
        Self {
            session,
            _weights: weights,
            stage,
            inputs: vec![null(); ports.inputs.len()],
            outputs: vec![null_mut(); ports.outputs.len()],
            names,
            ports,
            runs: 0,
            time: Duration::ZERO,
        }
    }

    /// Starts a call. Tensors are given in the order of the signature.
    pub(super) fn call(&mut self) -> Call<'_> {
        Call {
            graph: self,
            given: [0, 0],
            borrowed: PhantomData,
        }
    }
}

/// A call under construction; it borrows every tensor until it has run.
pub(super) struct Call<'a> {
    graph: &'a mut Graph,
    given: [usize; 2],
    borrowed: PhantomData<&'a mut Tensor>,
}

impl<'a> Call<'a> {
    /// The next input.
    pub(super) fn input(&mut self, tensor: &'a Tensor) -> &mut Self {
        self.put_input(tensor.value().cast_const())
    }

    /// The next output; its shape must be the one that the graph will make.
    pub(super) fn output(&mut self, tensor: &'a mut Tensor) -> &mut Self {
        self.put_output(tensor.value())
    }

    /// The next inputs.
    pub(super) fn inputs(&mut self, tensors: impl IntoIterator<Item = &'a Tensor>) {
        for tensor in tensors {
            self.input(tensor);
        }
    }

    /// The next outputs.
    pub(super) fn outputs(&mut self, tensors: impl IntoIterator<Item = &'a mut Tensor>) {
        for tensor in tensors {
            self.output(tensor);
        }
    }

    /// A view as the next input.
    pub(super) fn input_view(&mut self, view: &'a View<'_>) -> &mut Self {
        self.put_input(view.value().cast_const())
    }

    /// A view as the next output.
    pub(super) fn output_view(&mut self, view: &'a mut View<'_>) -> &mut Self {
        self.put_output(view.value())
    }

    fn put_input(&mut self, value: *const OrtValue) -> &mut Self {
        if let Some(slot) = self.graph.inputs.get_mut(self.given[0]) {
            *slot = value;
        }
        self.given[0] += 1;
        self
    }

    fn put_output(&mut self, value: *mut OrtValue) -> &mut Self {
        if let Some(slot) = self.graph.outputs.get_mut(self.given[1]) {
            *slot = value;
        }
        self.given[1] += 1;
        self
    }

    /// Runs the graph and waits for it.
    pub(super) fn run(&mut self) -> Result<(), BackendError> {
        let scope = LibraryScope::enter();
        let graph = &mut *self.graph;
        let stage = graph.stage;
        let fail = |reason: String| Err(BackendError::Run { stage, reason });
        if self.given != [graph.inputs.len(), graph.outputs.len()]
            || graph.inputs.iter().any(|p| p.is_null())
            || graph.outputs.iter().any(|p| p.is_null())
        {
            return fail(format!(
                "a call with {:?} of {} values",
                self.given,
                graph.ports.inputs.len()
            ));
        }
        // SAFETY: names and values are live for the call, which `'a` makes sure of for the tensors, and no output
        // shares memory with another tensor, since it was borrowed exclusively. The session is borrowed exclusively.
        let status = unsafe {
            ort::Error::result_from_status((ort::api().Run)(
                graph.session.ptr().cast_mut(),
                null(),
                graph.names.inputs.as_ptr(),
                graph.inputs.as_ptr(),
                graph.inputs.len(),
                graph.names.outputs.as_ptr(),
                graph.outputs.len(),
                graph.outputs.as_mut_ptr(),
            ))
        };
        graph.runs += 1;
        graph.time += scope.elapsed();
        status.or_else(|e| fail(e.to_string()))
    }
}
