//! The target on ONNX Runtime: verify pass, head, commit, and the state between them.

use super::cache::Caches;
use super::graph::{Graph, Input, numbers};
use super::scope::LibraryScope;
use crate::backend::{BackendError, RowBatch, Snapshot};
use crate::bundle::{Bundle, OpenError};
use crate::manifest::{DeltaNet, Layer};
use ort::environment::Environment;
use ort::value::{DynValue, Tensor, TensorRef};

/// Places of a layer's results among the outputs of the target graph.
#[derive(Clone, Copy, Debug)]
enum Outputs {
    Attention { cache: usize, k: usize, v: usize },
    DeltaNet { state: usize, conv_in: usize, k: usize, u: usize, g: usize },
}

/// Conv rows `[K-1, CH]` and recurrent state `[HV, DK, DV]` of one DeltaNet layer.
#[derive(Debug)]
struct State {
    layer: usize,
    shape: DeltaNet,
    conv: DynValue,
    recurrent: DynValue,
}

/// Target graphs and the committed state.
#[derive(Debug)]
pub(super) struct Target {
    graph: Graph,
    commit: Option<Graph>,
    layers: Vec<Outputs>,
    hidden: usize,
    taps: Option<usize>,
    caches: Caches,
    states: Vec<State>,
    names: Vec<[String; 6]>,
    outputs: Vec<DynValue>,
    rows: usize,
    committed: usize,
    embedded: Vec<f32>,
    width: usize,
}

fn run_error(e: ort::Error) -> BackendError {
    BackendError::Run { stage: "verify", reason: e.to_string() }
}

impl Target {
    pub(super) fn open(environment: &Environment, bundle: &Bundle, threads: usize) -> Result<Self, OpenError> {
        let graph = Graph::open(environment, bundle, "target", threads)?;
        let target = &bundle.manifest.target;
        let hybrid = target.layers.iter().any(|l| matches!(l, Layer::DeltaNet(_)));
        let commit = if hybrid { Some(Graph::open(environment, bundle, "commit", threads)?) } else { None };
        let outputs = graph.outputs();
        let find = |name: String| {
            outputs.iter().position(|o| *o == name).ok_or_else(|| OpenError::Graph {
                path: bundle.dir.join("target.onnx"),
                reason: format!("it has no output {name:?}"),
            })
        };
        let (mut layers, mut states, mut attention, mut names) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (i, layer) in target.layers.iter().enumerate() {
            layers.push(match layer {
                Layer::Attention(shape) => {
                    attention.push(([format!("past_k.{i}"), format!("past_v.{i}")], *shape));
                    let cache = attention.len() - 1;
                    Outputs::Attention { cache, k: find(format!("k.{i}"))?, v: find(format!("v.{i}"))? }
                }
                Layer::DeltaNet(shape) => {
                    let state = states.len();
                    states.push(State::zero(i, *shape).map_err(|e| OpenError::Library(e.to_string()))?);
                    names.push(["conv", "state", "conv_in", "dk", "du", "dg"].map(|n| format!("{n}.{i}")));
                    let conv_in = find(format!("conv_in.{i}"))?;
                    let [k, u, g] = [find(format!("dk.{i}"))?, find(format!("du.{i}"))?, find(format!("dg.{i}"))?];
                    Outputs::DeltaNet { state, conv_in, k, u, g }
                }
            });
        }
        Ok(Self {
            hidden: find("hidden".to_owned())?,
            taps: if bundle.manifest.taps.is_empty() { None } else { Some(find("taps".to_owned())?) },
            graph,
            commit,
            layers,
            caches: Caches::new(attention),
            states,
            names,
            outputs: Vec::new(),
            rows: 0,
            committed: 0,
            embedded: Vec::new(),
            width: target.hidden,
        })
    }

    pub(super) fn committed(&self) -> usize {
        self.committed
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn cache_layers(&self) -> usize {
        self.caches.layers()
    }

    pub(super) fn reserve(&mut self, rows: usize, limit: usize) {
        self.caches.reserve(rows, limit);
    }

    pub(super) fn reset(&mut self) -> Result<(), BackendError> {
        self.caches.truncate(0);
        self.committed = 0;
        self.rows = 0;
        for state in &mut self.states {
            *state = State::zero(state.layer, state.shape).map_err(run_error)?;
        }
        Ok(())
    }

    pub(super) fn verify(&mut self, bundle: &Bundle, batch: &RowBatch<'_>) -> Result<(), BackendError> {
        let n = batch.len();
        self.embedded.clear();
        for token in batch.tokens {
            bundle.embed(*token, &mut self.embedded);
        }
        self.rows = 0;
        let past = [self.committed as i64];
        let scope = LibraryScope::enter();
        self.outputs.clear();
        let mut inputs: Vec<Input<'_>> = Vec::with_capacity(4 + 2 * self.layers.len());
        let view = TensorRef::from_array_view(([n, self.width], self.embedded.as_slice())).map_err(run_error)?;
        inputs.push(("x".into(), view.into()));
        let view = TensorRef::from_array_view(([n], batch.positions)).map_err(run_error)?;
        inputs.push(("positions".into(), view.into()));
        let view = TensorRef::from_array_view(([n, n], batch.ancestors)).map_err(run_error)?;
        inputs.push(("ancestors".into(), view.into()));
        let view = TensorRef::from_array_view(([1usize], past.as_slice())).map_err(run_error)?;
        inputs.push(("past_len".into(), view.into()));
        self.caches.bind(&mut inputs).map_err(run_error)?;
        for (state, names) in self.states.iter().zip(&self.names) {
            inputs.push((names[0].as_str().into(), (&state.conv).into()));
            inputs.push((names[1].as_str().into(), (&state.recurrent).into()));
        }
        self.outputs = self.graph.run(inputs)?;
        drop(scope);
        self.rows = n;
        Ok(())
    }

    /// Hidden states `[N, H]` of the last verify.
    pub(super) fn hidden(&self) -> Result<&[f32], BackendError> {
        self.outputs.get(self.hidden).map_or(Ok(&[]), |v| numbers(v, "verify"))
    }

    /// Taps `[N, T*H]` of the last verify; empty without taps.
    pub(super) fn taps(&self) -> Result<&[f32], BackendError> {
        self.taps.and_then(|t| self.outputs.get(t)).map_or(Ok(&[]), |v| numbers(v, "verify"))
    }

    pub(super) fn commit(&mut self, path: &[u32]) -> Result<(), BackendError> {
        for layer in &self.layers {
            if let Outputs::Attention { cache, k, v } = layer {
                let (k, v) = (numbers(&self.outputs[*k], "commit")?, numbers(&self.outputs[*v], "commit")?);
                self.caches.append(*cache, k, v, path);
            }
        }
        self.update_states(path)?;
        self.caches.advance(path.len());
        self.committed += path.len();
        Ok(())
    }

    fn update_states(&mut self, path: &[u32]) -> Result<(), BackendError> {
        let Some(commit) = &mut self.commit else { return Ok(()) };
        let _scope = LibraryScope::enter();
        let path: Vec<i64> = path.iter().map(|r| i64::from(*r)).collect();
        let mut inputs: Vec<Input<'_>> = Vec::with_capacity(1 + 6 * self.states.len());
        let view = TensorRef::from_array_view(([path.len()], path.as_slice())).map_err(run_error)?;
        inputs.push(("path".into(), view.into()));
        for layer in &self.layers {
            let Outputs::DeltaNet { state, conv_in, k, u, g } = *layer else { continue };
            let (held, names) = (&self.states[state], &self.names[state]);
            let values =
                [&held.conv, &held.recurrent, &self.outputs[conv_in], &self.outputs[k], &self.outputs[u], &self.outputs[g]];
            for (name, value) in names.iter().zip(values) {
                inputs.push((name.as_str().into(), value.into()));
            }
        }
        let names = commit.outputs();
        let results = commit.run(inputs)?;
        for (name, value) in names.into_iter().zip(results) {
            for state in &mut self.states {
                if name == format!("new_state.{}", state.layer) {
                    state.recurrent = value;
                    break;
                }
                if name == format!("new_conv.{}", state.layer) {
                    state.conv = value;
                    break;
                }
            }
        }
        Ok(())
    }

    pub(super) fn snapshot(&self) -> Result<Snapshot, BackendError> {
        let mut states = Vec::with_capacity(2 * self.states.len());
        for state in &self.states {
            states.push(numbers(&state.conv, "commit")?.to_vec());
            states.push(numbers(&state.recurrent, "commit")?.to_vec());
        }
        Ok(Snapshot { committed: self.committed, states })
    }

    pub(super) fn rewind(&mut self, snapshot: &Snapshot) -> Result<(), BackendError> {
        let limit = |text: &str| Err(BackendError::Limit(text.to_owned()));
        if snapshot.committed > self.committed {
            return limit("the snapshot is longer than the stream");
        }
        let sizes: Vec<usize> = self.states.iter().flat_map(|s| [s.conv_numbers(), s.recurrent_numbers()]).collect();
        if !sizes.iter().eq(snapshot.states.iter().map(Vec::len).collect::<Vec<_>>().iter()) {
            return limit("the snapshot belongs to another model");
        }
        for (state, pair) in self.states.iter_mut().zip(snapshot.states.chunks_exact(2)) {
            state.load(&pair[0], &pair[1]).map_err(run_error)?;
        }
        self.caches.truncate(snapshot.committed);
        self.committed = snapshot.committed;
        self.rows = 0;
        Ok(())
    }
}

impl State {
    fn zero(layer: usize, shape: DeltaNet) -> Result<Self, ort::Error> {
        let _scope = LibraryScope::enter();
        let empty = |dims: Vec<usize>| -> Result<DynValue, ort::Error> {
            let zeros = vec![0.0f32; dims.iter().product()];
            Ok(Tensor::from_array((dims, zeros))?.into_dyn())
        };
        Ok(Self {
            layer,
            shape,
            conv: empty(vec![shape.kernel - 1, shape.channels()])?,
            recurrent: empty(vec![shape.value_heads, shape.key_dim, shape.value_dim])?,
        })
    }

    fn conv_numbers(&self) -> usize {
        (self.shape.kernel - 1) * self.shape.channels()
    }

    fn recurrent_numbers(&self) -> usize {
        self.shape.value_heads * self.shape.key_dim * self.shape.value_dim
    }

    fn load(&mut self, conv: &[f32], recurrent: &[f32]) -> Result<(), ort::Error> {
        let mut fresh = Self::zero(self.layer, self.shape)?;
        fresh.conv.try_extract_tensor_mut::<f32>()?.1.copy_from_slice(conv);
        fresh.recurrent.try_extract_tensor_mut::<f32>()?.1.copy_from_slice(recurrent);
        *self = fresh;
        Ok(())
    }
}
