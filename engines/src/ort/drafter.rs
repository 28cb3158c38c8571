//! The drafter on ONNX Runtime: context of committed rows, and the block pass of all modes.

use super::cache::Caches;
use super::graph::{Graph, Input, numbers};
use super::scope::LibraryScope;
use crate::backend::BackendError;
use crate::bundle::{Bundle, OpenError};
use crate::manifest;
use ort::environment::Environment;
use ort::value::{DynValue, TensorRef};

/// Drafter graphs and the context cache.
#[derive(Debug)]
pub(super) struct Drafter {
    context: Graph,
    draft: Graph,
    caches: Caches,
    shape: manifest::Drafter,
    hidden: Option<DynValue>,
    block: Vec<f32>,
    positions: Vec<i64>,
    gathered: Vec<f32>,
    order: Vec<u32>,
    outputs: Vec<[usize; 2]>,
}

fn run_error(e: ort::Error) -> BackendError {
    BackendError::Run { stage: "draft", reason: e.to_string() }
}

impl Drafter {
    pub(super) fn open(
        environment: &Environment,
        bundle: &Bundle,
        shape: &manifest::Drafter,
        threads: usize,
    ) -> Result<Self, OpenError> {
        let context = Graph::open(environment, bundle, "context", threads)?;
        let names = context.outputs();
        let find = |name: String| {
            names.iter().position(|o| *o == name).ok_or_else(|| OpenError::Graph {
                path: bundle.dir.join("context.onnx"),
                reason: format!("it has no output {name:?}"),
            })
        };
        let outputs = (0..shape.layers)
            .map(|l| Ok([find(format!("draft_k.{l}"))?, find(format!("draft_v.{l}"))?]))
            .collect::<Result<_, OpenError>>()?;
        let layers =
            (0..shape.layers).map(|l| ([format!("past_draft_k.{l}"), format!("past_draft_v.{l}")], shape.attention));
        Ok(Self {
            draft: Graph::open(environment, bundle, "draft", threads)?,
            context,
            caches: Caches::new(layers),
            shape: shape.clone(),
            hidden: None,
            block: Vec::new(),
            positions: Vec::new(),
            gathered: Vec::new(),
            order: Vec::new(),
            outputs,
        })
    }

    /// Committed rows that the context holds.
    pub(super) fn rows(&self) -> usize {
        self.caches.rows()
    }

    pub(super) fn cache_layers(&self) -> usize {
        self.caches.layers()
    }

    pub(super) fn reserve(&mut self, rows: usize, limit: usize) {
        self.caches.reserve(rows, limit);
    }

    pub(super) fn truncate(&mut self, rows: usize) {
        self.caches.truncate(rows);
        self.hidden = None;
    }

    /// Projects the taps `[N, width]` of the rows in `path` and appends them; `start` is the position of the first.
    pub(super) fn extend(&mut self, taps: &[f32], width: usize, path: &[u32], start: usize) -> Result<(), BackendError> {
        self.gathered.clear();
        for row in path {
            self.gathered.extend_from_slice(&taps[*row as usize * width..(*row as usize + 1) * width]);
        }
        self.positions.clear();
        self.positions.extend((start..start + path.len()).map(|p| p as i64));
        let results = {
            let _scope = LibraryScope::enter();
            let view = TensorRef::from_array_view(([path.len(), width], self.gathered.as_slice())).map_err(run_error)?;
            let positions =
                TensorRef::from_array_view(([path.len()], self.positions.as_slice())).map_err(run_error)?;
            self.context.run(vec![("taps".into(), view.into()), ("positions".into(), positions.into())])?
        };
        self.order.clear();
        self.order.extend(0..path.len() as u32);
        for (layer, [k, v]) in self.outputs.iter().enumerate() {
            let (k, v) = (numbers(&results[*k], "commit")?, numbers(&results[*v], "commit")?);
            self.caches.append(layer, k, v, &self.order);
        }
        self.caches.advance(path.len());
        let _scope = LibraryScope::enter();
        drop(results);
        Ok(())
    }

    /// Runs the block `[anchor, mask, ...]` at positions from the committed length on.
    pub(super) fn run(&mut self, bundle: &Bundle, anchor: u32) -> Result<(), BackendError> {
        let (block, start) = (self.shape.block, self.caches.rows());
        self.block.clear();
        bundle.embed(anchor, &mut self.block);
        for _ in 1..block {
            bundle.embed(self.shape.mask_id, &mut self.block);
        }
        self.positions.clear();
        self.positions.extend((start..start + block).map(|p| p as i64));
        let past = [start as i64];
        let width = self.block.len() / block;
        let _scope = LibraryScope::enter();
        self.hidden = None;
        let mut inputs: Vec<Input<'_>> = Vec::with_capacity(3 + 2 * self.caches.layers());
        let view = TensorRef::from_array_view(([block, width], self.block.as_slice())).map_err(run_error)?;
        inputs.push(("block".into(), view.into()));
        let view = TensorRef::from_array_view(([block], self.positions.as_slice())).map_err(run_error)?;
        inputs.push(("positions".into(), view.into()));
        let view = TensorRef::from_array_view(([1usize], past.as_slice())).map_err(run_error)?;
        inputs.push(("past_len".into(), view.into()));
        self.caches.bind(&mut inputs).map_err(run_error)?;
        self.hidden = self.draft.run(inputs)?.into_iter().next();
        Ok(())
    }

    /// Hidden states `[modes * (block - 1), H]` of the last block; empty before the first.
    pub(super) fn hidden(&self) -> Result<&[f32], BackendError> {
        self.hidden.as_ref().map_or(Ok(&[]), |v| numbers(v, "draft"))
    }
}
