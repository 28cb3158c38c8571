//! The head on ONNX Runtime: logits of chosen rows, and the candidates of a draft.

use super::graph::{Graph, Loader, Port, Signature};
use super::memory::{Element, Tensor, View};
use super::shortlist::Shortlist;
use crate::backend::{BackendError, Candidates};
use crate::bundle::OpenError;
use crate::topk::{Scratch, log_sum_exp, select};
use std::ops::Range;

/// The head, and the logits of the last draft.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) graph: Graph,
    /// What drafts read instead of the whole head, if anything.
    pub(super) short: Option<Shortlist>,
    vocab: usize,
    width: usize,
    /// Hidden rows that were asked for, `[R, H]`.
    gathered: Tensor,
    /// Positions of a draft that trees can reach.
    pub(super) depth: usize,
    /// Logits of the last draft `[modes * positions, V]`, and per mode for how many positions they were computed.
    drafted: Vec<f32>,
    known: Vec<usize>,
    /// Log-sum-exp of each drafted row; NaN for a row that cannot be normalised.
    totals: Vec<f64>,
    scratch: Scratch,
    /// Drafted rows that could not be normalised.
    pub(super) bad_rows: u64,
}

impl Head {
    pub(super) fn open(loader: &Loader<'_>, modes: usize) -> Result<Self, OpenError> {
        let target = &loader.bundle.manifest.target;
        let (vocab, width) = (target.vocab, target.hidden);
        let ports = Signature {
            inputs: vec![Port::new("hidden", Element::F32, &[None, Some(width)])],
            outputs: vec![Port::new("logits", Element::F32, &[None, Some(vocab)])],
        };
        let gathered =
            Tensor::new(Element::F32, &[17, width]).map_err(|e| OpenError::Memory(e.to_string()))?;
        Ok(Self {
            graph: loader.open("head", ports)?,
            short: None,
            vocab,
            width,
            gathered,
            depth: usize::MAX,
            drafted: Vec::new(),
            known: vec![0; modes],
            totals: Vec::new(),
            scratch: Scratch::default(),
            bad_rows: 0,
        })
    }

    /// Logits `[rows, V]` of rows of `hidden` `[N, H]`, written straight into `out`.
    pub(super) fn logits(
        &mut self,
        hidden: &Tensor,
        rows: &[u32],
        out: &mut Vec<f32>,
    ) -> Result<(), BackendError> {
        let failed = |e: ort::Error| BackendError::Run {
            stage: "verify",
            reason: e.to_string(),
        };
        out.resize(rows.len() * self.vocab, 0.0);
        if rows.is_empty() {
            return Ok(());
        }
        self.gathered.set_rows(rows.len()).map_err(failed)?;
        self.gathered.copy_rows(0, hidden, rows);
        let mut logits = View::write(out, [rows.len(), self.vocab]).map_err(failed)?;
        let mut call = self.graph.call();
        call.input(&self.gathered).output_view(&mut logits);
        call.run()
    }

    /// Drafts read `short` from now on.
    pub(super) fn shorten(&mut self, short: Shortlist) {
        self.forget();
        self.drafted.clear();
        self.short = Some(short);
    }

    /// Logits of a drafted row.
    fn columns(&self) -> usize {
        self.short.as_ref().map_or(self.vocab, |s| s.ids.len())
    }

    /// Forgets the last draft.
    pub(super) fn forget(&mut self) {
        self.known.fill(0);
    }

    /// The `k` best of each row of `hidden` `[modes * positions, H]` that belongs to `modes`.
    pub(super) fn candidates(
        &mut self,
        hidden: &[f32],
        modes: Range<usize>,
        k: usize,
        out: &mut Candidates,
    ) -> Result<(), BackendError> {
        let positions = hidden.len() / self.width / self.known.len().max(1);
        let rows = self.known.len() * positions;
        let columns = self.columns();
        self.drafted.resize(rows * columns, 0.0);
        self.totals.resize(rows, f64::NAN);
        // Rows of several modes go through the head together, so they are left whole.
        let wanted = if modes.len() == 1 {
            positions.min(self.depth.max(1))
        } else {
            positions
        };
        let mut mode = modes.start;
        while mode < modes.end {
            // Neighbours that are missing too share one read of the head.
            let missing = self.known[mode..modes.end]
                .iter()
                .take_while(|known| **known < wanted)
                .count();
            if missing > 0 {
                let end = (mode + missing - 1) * positions + wanted;
                self.complete(hidden, mode * positions..end)?;
                self.known[mode..mode + missing].fill(wanted);
            }
            mode += missing.max(1);
        }
        let k = k.clamp(1, columns);
        (out.modes, out.positions, out.k) = (modes.len(), wanted, k);
        out.ids.clear();
        out.logp.clear();
        let rows = modes.flat_map(|mode| mode * positions..mode * positions + wanted);
        for row in rows {
            let logits = &self.drafted[row * columns..(row + 1) * columns];
            let total = Some(self.totals[row]).filter(|t| !t.is_nan());
            select(logits, total, k, &mut self.scratch, &mut out.ids, &mut out.logp);
        }
        if let Some(short) = &self.short {
            // Columns are in the order of ids, so equal logits still come by smaller id.
            out.ids.iter_mut().for_each(|id| *id = short.ids[*id as usize]);
        }
        Ok(())
    }

    /// Computes logits and normalisers of drafted rows.
    fn complete(&mut self, hidden: &[f32], rows: Range<usize>) -> Result<(), BackendError> {
        let failed = |e: ort::Error| BackendError::Run {
            stage: "draft",
            reason: e.to_string(),
        };
        let input = &hidden[rows.start * self.width..rows.end * self.width];
        let columns = self.columns();
        let output = &mut self.drafted[rows.start * columns..rows.end * columns];
        let input = View::read(input, [rows.len(), self.width]).map_err(failed)?;
        let mut logits = View::write(output, [rows.len(), columns]).map_err(failed)?;
        let graph = self.short.as_mut().map_or(&mut self.graph, |s| &mut s.graph);
        let mut call = graph.call();
        call.input_view(&input).output_view(&mut logits);
        call.run()?;
        for row in rows {
            let total = log_sum_exp(&self.drafted[row * columns..(row + 1) * columns]);
            self.bad_rows += u64::from(total.is_none());
            self.totals[row] = total.unwrap_or(f64::NAN);
        }
        Ok(())
    }
}
