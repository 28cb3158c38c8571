//! The head on the device: three plans over the same rows. Full rows of logits stay on the device and are read back where
//! they are asked for; the largest logit, or the 64 best with the logarithm of the sum of exponentials, come back for all rows
//! at once.

use super::buckets::{Rows, holding};
use super::buffers::{Buffers, Source};
use super::device::{Device, DeviceError};
use super::lane::{Bounce, Lane, failed, get_f32};
use super::results::{Kind, Results};
use super::stage::{Mode, Stage};
use crate::backend::{BackendError, LogitNeeds};

/// The head.
pub(super) struct Head<D: Device> {
    full: Stage<D>,
    top: Stage<D>,
    greedy: Stage<D>,
    vocab: usize,
    hidden_bytes: usize,
    /// Rows of a run, and the largest of them.
    buckets: Vec<usize>,
    largest: usize,
    pub(super) width: usize,
    pass: Results,
    pub(super) drafted: Results,
    bounce: Bounce,
    mode: Mode,
    /// What is known of the last pass.
    known: Option<Kind>,
    pub(super) runs: u64,
}

/// What [`Head::new`] takes.
pub(super) struct Parts<D: Device> {
    pub(super) full: Stage<D>,
    pub(super) top: Stage<D>,
    pub(super) greedy: Stage<D>,
    pub(super) vocab: usize,
    pub(super) hidden: usize,
    pub(super) drafted_rows: usize,
    pub(super) buckets: Vec<usize>,
    pub(super) mode: Mode,
}

impl<D: Device> Head<D> {
    pub(super) fn new(lane: &mut Lane<D>, parts: Parts<D>, bounce: Bounce) -> Result<Self, DeviceError> {
        let largest = parts.buckets.last().copied().unwrap_or(1);
        let top = parts.top.plan().outputs.iter().find(|p| p.name == "top");
        let width = match top.and_then(|p| p.shape.get(1)) {
            Some(crate::engine::Axis::Fixed(n)) => *n,
            _ => {
                return Err(DeviceError(
                    "head_top: output \"top\" has no fixed width".to_owned(),
                ));
            }
        };
        Ok(Self {
            pass: Results::new(lane, largest, width)?,
            drafted: Results::new(lane, parts.drafted_rows, width)?,
            full: parts.full,
            top: parts.top,
            greedy: parts.greedy,
            vocab: parts.vocab,
            hidden_bytes: parts.hidden * 4,
            largest,
            buckets: parts.buckets,
            width,
            bounce,
            mode: parts.mode,
            known: None,
            runs: 0,
        })
    }

    /// The kind of result that serves `needs`.
    fn kind(&self, needs: LogitNeeds) -> Kind {
        match needs {
            LogitNeeds::Greedy => Kind::Greedy,
            LogitNeeds::Top(k) if k <= self.width => Kind::Top,
            _ => Kind::Full,
        }
    }

    /// Forgets what is known of the last pass.
    pub(super) fn forget(&mut self) {
        self.known = None;
    }

    fn run(
        &mut self,
        lane: &mut Lane<D>,
        buffers: &Buffers,
        word: &'static str,
        kind: Kind,
        source: Source,
        rows: usize,
    ) -> Result<(), BackendError> {
        let (stage, name) = match kind {
            Kind::Full => (&mut self.full, "head"),
            Kind::Top => (&mut self.top, "head_top"),
            Kind::Greedy => (&mut self.greedy, "head_greedy"),
        };
        self.runs += 1;
        let variant = rows * 4 + source as usize;
        stage.run(lane, word, variant, self.mode, &[("R", rows)], &|value| {
            buffers.value(name, value, 0, source)
        })
    }

    /// Logits `[rows, V]` of rows of the last pass; with less than full needs, entries that are not known are negative
    /// infinity.
    pub(super) fn logits(
        &mut self,
        lane: &mut Lane<D>,
        buffers: &Buffers,
        pass: Rows,
        needs: LogitNeeds,
        rows: &[u32],
        out: &mut Vec<f32>,
    ) -> Result<(), BackendError> {
        out.clear();
        let kind = self.kind(needs);
        if pass.prefill {
            return rows
                .chunks(self.largest)
                .try_for_each(|part| self.gathered(lane, buffers, kind, part, out));
        }
        if rows.is_empty() {
            return Ok(());
        }
        if self.known != Some(kind) {
            self.known = None;
            self.run(lane, buffers, "verify", kind, Source::Pass, pass.bucket)?;
            if kind != Kind::Full {
                self.pass
                    .fetch(lane, buffers, kind, pass.live)
                    .map_err(failed("verify"))?;
                lane.wait().map_err(failed("verify"))?;
            }
            self.known = Some(kind);
        }
        self.emit(lane, buffers, kind, rows.iter().map(|r| *r as usize), out)
    }

    /// Runs the head for rows of a prefill pass, brought together first.
    fn gathered(
        &mut self,
        lane: &mut Lane<D>,
        buffers: &Buffers,
        kind: Kind,
        rows: &[u32],
        out: &mut Vec<f32>,
    ) -> Result<(), BackendError> {
        let to = buffers.need("gathered").map_err(failed("verify"))?;
        let from = buffers.need("hidden").map_err(failed("verify"))?;
        let width = self.hidden_bytes;
        for (i, row) in rows.iter().enumerate() {
            let copied = lane
                .device
                .copy(to.at(i * width), from.at(*row as usize * width), width);
            copied.map_err(failed("verify"))?;
        }
        let bucket = holding(&self.buckets, rows.len()).unwrap_or(rows.len());
        self.run(lane, buffers, "verify", kind, Source::Gathered, bucket)?;
        self.known = None;
        if kind != Kind::Full {
            self.pass
                .fetch(lane, buffers, kind, rows.len())
                .map_err(failed("verify"))?;
            lane.wait().map_err(failed("verify"))?;
        }
        self.emit(lane, buffers, kind, 0..rows.len(), out)
    }

    /// Appends rows of results as rows of logits.
    fn emit(
        &self,
        lane: &mut Lane<D>,
        buffers: &Buffers,
        kind: Kind,
        rows: impl Iterator<Item = usize>,
        out: &mut Vec<f32>,
    ) -> Result<(), BackendError> {
        if kind == Kind::Full {
            return self.read_full(lane, buffers, "verify", rows, out);
        }
        let outside = |id: i64| {
            failed("verify")(DeviceError(format!(
                "the head returned token {id} of {}",
                self.vocab
            )))
        };
        for row in rows {
            let start = out.len();
            out.resize(start + self.vocab, f32::NEG_INFINITY);
            let line = &mut out[start..];
            let mut set = |id: i64, value: f32| {
                let place = usize::try_from(id).ok().and_then(|i| line.get_mut(i));
                place.map(|p| *p = value).ok_or_else(|| outside(id))
            };
            // A NaN anywhere shows in the normaliser and in the sum; the row must not look sound then.
            if self.pass.total(lane, row).is_nan() {
                line[0] = f32::NAN;
                continue;
            }
            if kind == Kind::Greedy {
                set(self.pass.best(lane, row), 0.0)?;
                continue;
            }
            for (value, id) in self.pass.top(lane, row) {
                set(id, value)?;
            }
        }
        Ok(())
    }

    /// Reads whole rows of logits, one wait for as many as fit the pinned block.
    fn read_full(
        &self,
        lane: &mut Lane<D>,
        buffers: &Buffers,
        word: &'static str,
        rows: impl Iterator<Item = usize>,
        out: &mut Vec<f32>,
    ) -> Result<(), BackendError> {
        let bytes = self.vocab * 4;
        let logits = buffers.need("logits").map_err(failed(word))?;
        let from = rows.map(|row| logits.at(row * bytes));
        self.bounce
            .read(lane, from, bytes, |piece| out.extend(get_f32(piece)))
            .map_err(failed(word))
    }

    /// Runs `head_top` over the `rows` drafted rows and waits for the results.
    pub(super) fn draft_top(
        &mut self,
        lane: &mut Lane<D>,
        buffers: &Buffers,
        rows: usize,
    ) -> Result<(), BackendError> {
        self.known = None;
        self.run(lane, buffers, "draft", Kind::Top, Source::Draft, rows)?;
        self.drafted
            .fetch(lane, buffers, Kind::Top, rows)
            .map_err(failed("draft"))?;
        lane.wait().map_err(failed("draft"))
    }

    /// Logits `[rows, V]` of the drafted rows.
    pub(super) fn draft_full(
        &mut self,
        lane: &mut Lane<D>,
        buffers: &Buffers,
        rows: usize,
        out: &mut Vec<f32>,
    ) -> Result<(), BackendError> {
        self.known = None;
        self.run(lane, buffers, "draft", Kind::Full, Source::Draft, rows)?;
        out.clear();
        self.read_full(lane, buffers, "draft", 0..rows, out)
    }
}
