//! The drafter on the device: its context, a block, and the candidates of a block.

use super::buckets::{Buckets, Rows};
use super::buffers::{Buffers, Source};
use super::caches::Caches;
use super::device::{Address, Device, DeviceError};
use super::head::Head;
use super::lane::{Lane, failed, put_i64};
use super::stage::{Mode, Stage};
use crate::backend::{BackendError, Candidates};
use crate::topk::{Scratch, log_sum_exp, select};
use std::ops::Range;

/// What is known of the last block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Known {
    Nothing,
    /// Hidden states, on the device.
    Hidden,
    /// The best candidates, on the host.
    Top,
    /// All logits, on the host.
    Full,
}

/// Plans of the drafter and the last block.
pub(super) struct Drafter<D: Device> {
    pub(super) context: Stage<D>,
    pub(super) draft: Stage<D>,
    block: usize,
    modes: usize,
    mask: u32,
    vocab: usize,
    mode: Mode,
    buckets: Buckets,
    /// Row numbers 0, 1, ... on the device.
    order: Address,
    /// Committed rows that the context holds.
    rows: usize,
    known: Known,
    logits: Vec<f32>,
    totals: Vec<f64>,
    line: Vec<(f32, i64)>,
    scratch: Scratch,
    pub(super) bad_rows: u64,
}

/// What [`Drafter::new`] takes.
pub(super) struct Parts<D: Device> {
    pub(super) context: Stage<D>,
    pub(super) draft: Stage<D>,
    pub(super) shape: crate::manifest::Drafter,
    pub(super) vocab: usize,
    pub(super) mode: Mode,
    pub(super) buckets: Buckets,
    pub(super) order: Address,
}

impl<D: Device> Drafter<D> {
    pub(super) fn new(parts: Parts<D>) -> Self {
        Self {
            context: parts.context,
            draft: parts.draft,
            block: parts.shape.block,
            modes: parts.shape.modes,
            mask: parts.shape.mask_id,
            vocab: parts.vocab,
            mode: parts.mode,
            buckets: parts.buckets,
            order: parts.order,
            rows: 0,
            known: Known::Nothing,
            logits: Vec::new(),
            totals: Vec::new(),
            line: Vec::new(),
            scratch: Scratch::default(),
            bad_rows: 0,
        }
    }

    /// Committed rows that the context holds.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn truncate(&mut self, rows: usize) {
        self.rows = self.rows.min(rows);
        self.forget();
    }

    /// Forgets the last block.
    pub(super) fn forget(&mut self) {
        self.known = Known::Nothing;
    }

    /// Queues keys and values of the uploaded path of `length` rows of the last pass, for [`Self::append`].
    pub(super) fn project(
        &mut self,
        lane: &mut Lane<D>,
        buffers: &Buffers,
        rows: Rows,
        length: usize,
    ) -> Result<(), BackendError> {
        let (variant, mode) = rows.path(length, 0, self.mode);
        let sizes = [("N", rows.bucket), ("P", length)];
        self.context.run(lane, "commit", variant, mode, &sizes, &|value| {
            buffers.value("context", value, 0, Source::Pass)
        })
    }

    /// Queues the append of the `length` rows of the last [`Self::project`].
    pub(super) fn append(
        &mut self,
        lane: &mut Lane<D>,
        caches: &Caches,
        length: usize,
    ) -> Result<(), BackendError> {
        caches
            .append_drafter(lane, self.order, length, self.rows)
            .map_err(failed("commit"))?;
        self.rows += length;
        Ok(())
    }

    /// Queues the block `[anchor, mask, ...]` at positions from the context's length on.
    pub(super) fn run(
        &mut self,
        lane: &mut Lane<D>,
        buffers: &mut Buffers,
        caches: &Caches,
        anchor: u32,
    ) -> Result<(), BackendError> {
        self.forget();
        self.upload(lane, buffers, anchor).map_err(failed("draft"))?;
        let context = self.buckets.context(self.rows);
        self.draft
            .run(lane, "draft", context, self.mode, &[("C", context)], &|value| {
                let cache = caches.get(value);
                cache.or_else(|| buffers.value("draft", value, 0, Source::Draft))
            })?;
        self.known = Known::Hidden;
        Ok(())
    }

    fn upload(&self, lane: &mut Lane<D>, buffers: &mut Buffers, anchor: u32) -> Result<(), DeviceError> {
        let (rows, size) = (self.rows, self.block * 8);
        let (block, parts, bytes) = buffers.draft.block(lane)?;
        let [past, positions, tokens] = [parts[0], parts[1], parts[2]];
        put_i64(&mut bytes[past..past + 8], std::iter::once(rows as i64));
        put_i64(
            &mut bytes[positions..positions + size],
            (rows..).map(|p| p as i64),
        );
        let masks = std::iter::repeat(i64::from(self.mask));
        put_i64(
            &mut bytes[tokens..tokens + size],
            std::iter::once(i64::from(anchor)).chain(masks),
        );
        buffers.draft.upload(lane, block, size)
    }

    /// The `k` best of each drafted row of `modes`.
    pub(super) fn candidates(
        &mut self,
        lane: &mut Lane<D>,
        buffers: &Buffers,
        head: &mut Head<D>,
        modes: Range<usize>,
        k: usize,
        out: &mut Candidates,
    ) -> Result<(), BackendError> {
        let positions = self.block - 1;
        let rows = self.modes * positions;
        let k = k.clamp(1, self.vocab);
        let needed = if k <= head.width { Known::Top } else { Known::Full };
        if self.known == Known::Nothing {
            return Err(BackendError::Limit("nothing was drafted".to_owned()));
        }
        if self.known < needed {
            let counted = self.known >= Known::Top;
            if needed == Known::Top {
                head.draft_top(lane, buffers, rows)?;
            } else {
                head.draft_full(lane, buffers, rows, &mut self.logits)?;
                let totals = self.logits.chunks_exact(self.vocab).map(log_sum_exp);
                self.totals.clear();
                self.totals.extend(totals.map(|t| t.unwrap_or(f64::NAN)));
            }
            self.known = needed;
            if !counted {
                self.bad_rows += (0..rows).filter(|r| self.is_bad(lane, head, *r)).count() as u64;
            }
        }
        (out.modes, out.positions, out.k) = (modes.len(), positions, k);
        out.ids.clear();
        out.logp.clear();
        for row in modes.start * positions..modes.end * positions {
            if self.known == Known::Full {
                let total = Some(self.totals[row]).filter(|t| !t.is_nan());
                let logits = &self.logits[row * self.vocab..(row + 1) * self.vocab];
                select(logits, total, k, &mut self.scratch, &mut out.ids, &mut out.logp);
            } else {
                self.take_top(lane, head, row, k, out)?;
            }
        }
        Ok(())
    }

    /// Whether a row has no distribution.
    fn is_bad(&self, lane: &Lane<D>, head: &Head<D>, row: usize) -> bool {
        match self.known {
            Known::Full => self.totals[row].is_nan(),
            _ => !head.drafted.total(lane, row).is_finite(),
        }
    }

    /// Appends the `k` best of a row whose best candidates are on the host.
    fn take_top(
        &mut self,
        lane: &Lane<D>,
        head: &Head<D>,
        row: usize,
        k: usize,
        out: &mut Candidates,
    ) -> Result<(), BackendError> {
        if self.is_bad(lane, head, row) {
            out.ids.extend(0..k as u32);
            out.logp.resize(out.logp.len() + k, f32::NEG_INFINITY);
            return Ok(());
        }
        let total = f64::from(head.drafted.total(lane, row));
        self.line.clear();
        self.line.extend(head.drafted.top(lane, row));
        // Which of two equal logits comes first is the library's affair; here it is the smaller id.
        self.line
            .sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for (logit, id) in &self.line[..k] {
            let known = u32::try_from(*id).ok().filter(|id| (*id as usize) < self.vocab);
            let outside = || DeviceError(format!("the head returned token {id} of {}", self.vocab));
            out.ids.push(known.ok_or_else(outside).map_err(failed("draft"))?);
            out.logp.push((f64::from(*logit) - total) as f32);
        }
        Ok(())
    }
}
