//! The drafter on ONNX Runtime: context of committed rows, and the block pass of all modes.

use super::cache::Caches;
use super::graph::{Graph, Loader, Port, Signature};
use super::memory::{Element, Tensor};
use super::target::embed;
use crate::backend::BackendError;
use crate::bundle::{Bundle, OpenError};
use crate::manifest;

/// Drafter graphs and the context cache.
#[derive(Debug)]
pub(super) struct Drafter {
    pub(super) context: Graph,
    pub(super) draft: Graph,
    caches: Caches,
    /// Features `[R, T*H]`, positions `[R]` and what `context.onnx` makes of them.
    taps: Tensor,
    rows: Tensor,
    fresh: Vec<[Tensor; 2]>,
    order: Vec<u32>,
    /// Block `[b, H]` (all masks but the first row), positions `[b]`, context length, hidden `[modes * (b-1), H]`.
    block: Tensor,
    positions: Tensor,
    past: Tensor,
    hidden: Tensor,
    drafted: bool,
}

fn failed(stage: &'static str) -> impl Fn(ort::Error) -> BackendError {
    move |e| BackendError::Run {
        stage,
        reason: e.to_string(),
    }
}

impl Drafter {
    pub(super) fn open(
        loader: &Loader<'_>,
        shape: &manifest::Drafter,
        element: Element,
        max_context: usize,
    ) -> Result<Self, OpenError> {
        let m = &loader.bundle.manifest;
        let (h, width, block) = (m.target.hidden, m.taps.len() * m.target.hidden, shape.block);
        let (context, draft) = signatures(shape, h, width, element);
        let (context, draft) = (loader.open("context", context)?, loader.open("draft", draft)?);
        let memory = |e: ort::Error| OpenError::Memory(e.to_string());
        let a = shape.attention;
        // A commit has at most the rows of a block; prefill grows these once.
        let fresh = || Tensor::new(element, &[block + 1, a.kv_heads, a.head_dim]);
        let mut blocks = Tensor::new(element, &[block, h]).map_err(memory)?;
        embed(loader.bundle, &vec![shape.mask_id; block], &mut blocks);
        Ok(Self {
            context,
            draft,
            caches: Caches::new(element, std::iter::repeat_n(a, shape.layers), max_context)
                .map_err(memory)?,
            taps: Tensor::new(element, &[block + 1, width]).map_err(memory)?,
            rows: Tensor::new(Element::I64, &[block + 1]).map_err(memory)?,
            fresh: (0..shape.layers)
                .map(|_| Ok([fresh()?, fresh()?]))
                .collect::<Result<_, _>>()
                .map_err(memory)?,
            order: Vec::with_capacity(block + 1),
            block: blocks,
            positions: Tensor::new(Element::I64, &[block]).map_err(memory)?,
            past: Tensor::new(Element::I64, &[1]).map_err(memory)?,
            hidden: Tensor::new(Element::F32, &[shape.modes * (block - 1), h]).map_err(memory)?,
            drafted: false,
        })
    }

    /// Committed rows that the context holds.
    pub(super) fn rows(&self) -> usize {
        self.caches.rows()
    }

    pub(super) fn cache_layers(&self) -> usize {
        self.caches.layers()
    }

    pub(super) fn reserve(&mut self, rows: usize) -> Result<(), BackendError> {
        self.caches.reserve(rows).map_err(failed("draft"))
    }

    pub(super) fn truncate(&mut self, rows: usize) {
        self.caches.truncate(rows);
        self.drafted = false;
    }

    /// Projects rows `path` of the taps `[N, T*H]` into keys and values, for [`Self::append`].
    pub(super) fn project(&mut self, taps: &Tensor, path: &[u32]) -> Result<(), BackendError> {
        self.resize(path.len()).map_err(failed("commit"))?;
        self.taps.copy_rows(0, taps, path);
        for (to, position) in self
            .rows
            .numbers_mut::<i64>()
            .iter_mut()
            .zip(self.caches.rows()..)
        {
            *to = position as i64;
        }
        let mut call = self.context.call();
        call.input(&self.taps).input(&self.rows);
        call.outputs(self.fresh.iter_mut().flatten());
        call.run()
    }

    fn resize(&mut self, rows: usize) -> Result<(), ort::Error> {
        self.taps.set_rows(rows)?;
        self.rows.set_rows(rows)?;
        self.fresh.iter_mut().flatten().try_for_each(|t| t.set_rows(rows))
    }

    /// Appends the `rows` rows of the last [`Self::project`].
    pub(super) fn append(&mut self, rows: usize) {
        self.order.clear();
        self.order.extend(0..rows as u32);
        for (layer, fresh) in self.fresh.iter().enumerate() {
            self.caches.append(layer, fresh, &self.order);
        }
        self.caches.advance(rows);
    }

    /// Runs the block `[anchor, mask, ...]` at positions from the context's length on.
    pub(super) fn run(&mut self, bundle: &Bundle, anchor: u32) -> Result<(), BackendError> {
        self.drafted = false;
        let start = self.caches.rows();
        embed(bundle, &[anchor], &mut self.block);
        for (to, position) in self.positions.numbers_mut::<i64>().iter_mut().zip(start..) {
            *to = position as i64;
        }
        self.past.numbers_mut::<i64>().fill(start as i64);
        let mut call = self.draft.call();
        call.input(&self.block).input(&self.positions).input(&self.past);
        for layer in 0..self.caches.layers() {
            self.caches.bind(layer, &mut call);
        }
        call.output(&mut self.hidden).run()?;
        self.drafted = true;
        Ok(())
    }

    /// Hidden states `[modes * (b-1), H]` of the last block, if there was one since the state changed.
    pub(super) fn hidden(&self) -> Option<&[f32]> {
        self.drafted.then(|| self.hidden.numbers())
    }
}

/// Signatures of `context.onnx` and `draft.onnx`, in the order in which the calls give values.
fn signatures(shape: &manifest::Drafter, h: usize, width: usize, element: Element) -> (Signature, Signature) {
    let a = &shape.attention;
    let caches = |stem: &str| -> Vec<Port> {
        let names = (0..shape.layers).flat_map(|l| [format!("{stem}k.{l}"), format!("{stem}v.{l}")]);
        names.map(|n| Caches::port(n, element, a)).collect()
    };
    let context = Signature {
        inputs: vec![
            Port::new("taps", element, &[None, Some(width)]),
            Port::new("positions", Element::I64, &[None]),
        ],
        outputs: caches("draft_"),
    };
    let mut inputs = vec![
        Port::new("block", element, &[Some(shape.block), Some(h)]),
        Port::new("positions", Element::I64, &[Some(shape.block)]),
        Port::new("past_len", Element::I64, &[Some(1)]),
    ];
    inputs.extend(caches("past_draft_"));
    let rows = shape.modes * (shape.block - 1);
    let draft = Signature {
        inputs,
        outputs: vec![Port::new("hidden", Element::F32, &[Some(rows), Some(h)])],
    };
    (context, draft)
}
