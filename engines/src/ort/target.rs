//! The target on ONNX Runtime: verify pass, commit, and the state between them.

use super::cache::Caches;
use super::graph::{Graph, Loader, Port, Signature};
use super::memory::{Element, Tensor};
use super::state::States;
use crate::backend::{BackendError, RowBatch, Snapshot};
use crate::bundle::{Bundle, OpenError};
use crate::manifest::{DeltaNet, Layer};

/// What the last verify made for a commit, one a layer.
#[derive(Debug)]
enum Fresh {
    /// Keys and values `[N, KVH, D]`.
    Attention([Tensor; 2]),
    /// Conv inputs `[N, CH]`, k `[N, HK, DK]`, u `[N, HV, DV]`, G `[N, HV]`.
    DeltaNet([Tensor; 4]),
}

/// Target graphs and the committed state.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) graph: Graph,
    pub(super) commit: Option<Graph>,
    caches: Caches,
    states: States,
    inputs: Inputs,
    hidden: Tensor,
    taps: Option<Tensor>,
    fresh: Vec<Fresh>,
    path: Tensor,
    rows: usize,
    committed: usize,
}

#[derive(Debug)]
struct Inputs {
    x: Tensor,
    positions: Tensor,
    ancestors: Tensor,
    past: Tensor,
}

/// Rows that buffers have room for at first: those of a chain of 16.
const FIRST: usize = 17;

fn failed(stage: &'static str) -> impl Fn(ort::Error) -> BackendError {
    move |e| BackendError::Run {
        stage,
        reason: e.to_string(),
    }
}

/// Graph values that a DeltaNet layer stashes: conv inputs, k, u, G.
fn stash(i: usize, d: &DeltaNet, element: Element) -> [Port; 4] {
    let rows = |heads, dim| [None, Some(heads), Some(dim)];
    [
        Port::new(format!("conv_in.{i}"), element, &[None, Some(d.channels())]),
        Port::new(format!("dk.{i}"), Element::F32, &rows(d.key_heads, d.key_dim)),
        Port::new(format!("du.{i}"), Element::F32, &rows(d.value_heads, d.value_dim)),
        Port::new(format!("dg.{i}"), Element::F32, &[None, Some(d.value_heads)]),
    ]
}

/// A tensor for the values of `port`, [`FIRST`] rows long.
fn buffer(port: &Port) -> Result<Tensor, ort::Error> {
    let dims: Vec<usize> = port.dims.iter().map(|d| d.unwrap_or(FIRST)).collect();
    Tensor::new(port.element, &dims)
}

fn pair<const M: usize>(ports: [Port; M]) -> Result<[Tensor; M], ort::Error> {
    let tensors = ports.iter().map(buffer).collect::<Result<Vec<_>, _>>()?;
    tensors
        .try_into()
        .map_err(|_| ort::Error::new("a layer has another number of values"))
}

impl Target {
    pub(super) fn open(loader: &Loader<'_>, element: Element, max_context: usize) -> Result<Self, OpenError> {
        let m = &loader.bundle.manifest;
        let (layers, h) = (&m.target.layers, m.target.hidden);
        let (verify, commit) = signatures(layers, h, m.taps.len(), element);
        let hybrid = layers.iter().any(|l| matches!(l, Layer::DeltaNet(_)));
        let memory = |e: ort::Error| OpenError::Memory(e.to_string());
        let fresh = layers.iter().enumerate().map(|(i, layer)| match layer {
            Layer::Attention(a) => {
                pair(["k", "v"].map(|n| Caches::port(format!("{n}.{i}"), element, a))).map(Fresh::Attention)
            }
            Layer::DeltaNet(d) => pair(stash(i, d, element)).map(Fresh::DeltaNet),
        });
        let attention = layers.iter().filter_map(|l| {
            if let Layer::Attention(a) = l {
                Some(*a)
            } else {
                None
            }
        });
        let delta = layers.iter().filter_map(|l| {
            if let Layer::DeltaNet(d) = l {
                Some(*d)
            } else {
                None
            }
        });
        let taps = (!m.taps.is_empty()).then(|| Tensor::new(element, &[FIRST, m.taps.len() * h]));
        Ok(Self {
            graph: loader.open("target", verify)?,
            commit: if hybrid {
                Some(loader.open("commit", commit)?)
            } else {
                None
            },
            caches: Caches::new(element, attention, max_context).map_err(memory)?,
            states: States::new(element, delta).map_err(memory)?,
            inputs: Inputs::new(element, h).map_err(memory)?,
            hidden: Tensor::new(Element::F32, &[FIRST, h]).map_err(memory)?,
            taps: taps.transpose().map_err(memory)?,
            fresh: fresh.collect::<Result<_, _>>().map_err(memory)?,
            path: Tensor::new(Element::I64, &[FIRST]).map_err(memory)?,
            rows: 0,
            committed: 0,
        })
    }

    pub(super) fn committed(&self) -> usize {
        self.committed
    }

    /// Rows of the last verify; 0 once they are committed or forgotten.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn cache_layers(&self) -> usize {
        self.caches.layers()
    }

    pub(super) fn reserve(&mut self, rows: usize) -> Result<(), BackendError> {
        self.caches.reserve(rows).map_err(failed("verify"))
    }

    pub(super) fn reset(&mut self) {
        self.caches.truncate(0);
        self.states.clear();
        (self.committed, self.rows) = (0, 0);
    }

    pub(super) fn verify(&mut self, bundle: &Bundle, batch: &RowBatch<'_>) -> Result<(), BackendError> {
        self.rows = 0;
        self.inputs
            .fill(bundle, batch, self.committed)
            .map_err(failed("verify"))?;
        self.resize(batch.len()).map_err(failed("verify"))?;
        let mut call = self.graph.call();
        let i = &self.inputs;
        call.input(&i.x)
            .input(&i.positions)
            .input(&i.ancestors)
            .input(&i.past);
        call.output(&mut self.hidden);
        if let Some(taps) = &mut self.taps {
            call.output(taps);
        }
        let (mut attention, mut delta) = (0, 0);
        for fresh in &mut self.fresh {
            match fresh {
                Fresh::Attention(tensors) => {
                    self.caches.bind(attention, &mut call);
                    attention += 1;
                    call.outputs(tensors);
                }
                Fresh::DeltaNet(tensors) => {
                    self.states.bind(delta, &mut call);
                    delta += 1;
                    call.outputs(tensors);
                }
            }
        }
        call.run()?;
        self.rows = batch.len();
        Ok(())
    }

    fn resize(&mut self, rows: usize) -> Result<(), ort::Error> {
        self.hidden.set_rows(rows)?;
        if let Some(taps) = &mut self.taps {
            taps.set_rows(rows)?;
        }
        for fresh in &mut self.fresh {
            match fresh {
                Fresh::Attention(tensors) => tensors.iter_mut().try_for_each(|t| t.set_rows(rows))?,
                Fresh::DeltaNet(tensors) => tensors.iter_mut().try_for_each(|t| t.set_rows(rows))?,
            }
        }
        Ok(())
    }

    /// Hidden states `[N, H]` of the last verify.
    pub(super) fn hidden(&self) -> &Tensor {
        &self.hidden
    }

    /// Taps `[N, T*H]` of the last verify.
    pub(super) fn taps(&self) -> Option<&Tensor> {
        self.taps.as_ref()
    }

    /// Whether `path` runs from row 0 along parents: each row sees exactly those before it and itself.
    pub(super) fn is_root_path(&self, path: &[u32]) -> bool {
        let n = self.rows;
        let seen = self.inputs.ancestors.bytes();
        path.first() == Some(&0)
            && path.iter().enumerate().all(|(depth, row)| {
                let row = *row as usize;
                let Some(line) = seen.get(row * n..(row + 1) * n).filter(|_| row < n) else {
                    return false;
                };
                let count: usize = line.iter().map(|b| usize::from(*b)).sum();
                count == depth + 1 && path[..=depth].iter().all(|p| line.get(*p as usize) == Some(&1))
            })
    }

    /// Commits a root path: next states first, so that a failure leaves everything as it was.
    pub(super) fn commit(&mut self, path: &[u32]) -> Result<(), BackendError> {
        self.next_states(path)?;
        if self.states.len() > 0 {
            self.states.flip();
        }
        let mut layer = 0;
        for fresh in &self.fresh {
            if let Fresh::Attention(tensors) = fresh {
                self.caches.append(layer, tensors, path);
                layer += 1;
            }
        }
        self.caches.advance(path.len());
        self.committed += path.len();
        self.rows = 0;
        Ok(())
    }

    fn next_states(&mut self, path: &[u32]) -> Result<(), BackendError> {
        let Some(commit) = &mut self.commit else {
            return Ok(());
        };
        self.path.reshape(&[path.len()]).map_err(failed("commit"))?;
        for (to, from) in self.path.numbers_mut::<i64>().iter_mut().zip(path) {
            *to = i64::from(*from);
        }
        let mut call = commit.call();
        call.input(&self.path);
        let stashes = self
            .fresh
            .iter()
            .filter_map(|f| if let Fresh::DeltaNet(t) = f { Some(t) } else { None });
        for (([state, conv], [next_state, next_conv]), stash) in self.states.sides().zip(stashes) {
            call.input(state).input(conv);
            call.inputs(stash);
            call.output(next_state).output(next_conv);
        }
        call.run()
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot {
            committed: self.committed,
            states: self.states.copy(),
        }
    }

    pub(super) fn rewind(&mut self, snapshot: &Snapshot) -> Result<(), BackendError> {
        let limit = |text: String| Err(BackendError::Limit(text));
        if snapshot.committed > self.committed {
            let (there, here) = (snapshot.committed, self.committed);
            return limit(format!(
                "a snapshot of {there} rows is longer than the stream of {here}"
            ));
        }
        if !self.states.load(&snapshot.states) {
            return limit("the snapshot belongs to another model".to_owned());
        }
        self.caches.truncate(snapshot.committed);
        self.committed = snapshot.committed;
        self.rows = 0;
        Ok(())
    }
}

impl Inputs {
    fn new(element: Element, h: usize) -> Result<Self, ort::Error> {
        Ok(Self {
            x: Tensor::new(element, &[FIRST, h])?,
            positions: Tensor::new(Element::I64, &[FIRST])?,
            ancestors: Tensor::new(Element::Bool, &[FIRST, FIRST])?,
            past: Tensor::new(Element::I64, &[1])?,
        })
    }

    fn fill(&mut self, bundle: &Bundle, batch: &RowBatch<'_>, committed: usize) -> Result<(), ort::Error> {
        let n = batch.len();
        self.x.set_rows(n)?;
        self.positions.set_rows(n)?;
        self.ancestors.reshape(&[n, n])?;
        embed(bundle, batch.tokens, &mut self.x);
        self.positions
            .numbers_mut::<i64>()
            .copy_from_slice(batch.positions);
        self.ancestors
            .bytes_mut()
            .copy_from_slice(bytemuck::cast_slice(batch.ancestors));
        self.past.numbers_mut::<i64>().fill(committed as i64);
        Ok(())
    }
}

/// Embeds one token a row into the leading rows of `x`.
pub(super) fn embed(bundle: &Bundle, tokens: &[u32], x: &mut Tensor) {
    let width = x.width();
    match x.element() {
        Element::F16 => {
            let rows = x.numbers_mut::<half::f16>().chunks_exact_mut(width);
            rows.zip(tokens)
                .for_each(|(row, token)| bundle.embed_into(*token, row));
        }
        _ => {
            let rows = x.numbers_mut::<f32>().chunks_exact_mut(width);
            rows.zip(tokens)
                .for_each(|(row, token)| bundle.embed_into(*token, row));
        }
    }
}

/// Signatures of `target.onnx` and `commit.onnx`, in the order in which the calls give values.
fn signatures(layers: &[Layer], h: usize, taps: usize, element: Element) -> (Signature, Signature) {
    let (mut verify, mut commit) = (Signature::default(), Signature::default());
    verify.inputs = vec![
        Port::new("x", element, &[None, Some(h)]),
        Port::new("positions", Element::I64, &[None]),
        Port::new("ancestors", Element::Bool, &[None, None]),
        Port::new("past_len", Element::I64, &[Some(1)]),
    ];
    verify.outputs = vec![Port::new("hidden", Element::F32, &[None, Some(h)])];
    if taps > 0 {
        verify
            .outputs
            .push(Port::new("taps", element, &[None, Some(taps * h)]));
    }
    commit.inputs = vec![Port::new("path", Element::I64, &[None])];
    for (i, layer) in layers.iter().enumerate() {
        match layer {
            Layer::Attention(a) => {
                let ports = |names: [&str; 2]| names.map(|n| Caches::port(format!("{n}.{i}"), element, a));
                verify.inputs.extend(ports(["past_k", "past_v"]));
                verify.outputs.extend(ports(["k", "v"]));
            }
            Layer::DeltaNet(d) => {
                let ports = |names: [&str; 2]| States::ports(names.map(|n| format!("{n}.{i}")), element, d);
                verify.inputs.extend(ports(["state", "conv"]));
                verify.outputs.extend(stash(i, d, element));
                commit.inputs.extend(ports(["state", "conv"]));
                commit.inputs.extend(stash(i, d, element));
                commit.outputs.extend(ports(["new_state", "new_conv"]));
            }
        }
    }
    (verify, commit)
}
