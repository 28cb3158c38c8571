//! [`Backend`] over any device.

use super::buffers::Buffers;
use super::caches::Caches;
use super::check;
use super::device::Device;
use super::drafter::Drafter;
use super::head::Head;
use super::lane::{Bounce, Lane, Staging, failed};
use super::target::{Target, read_f32, upload_path};
use crate::backend::{Backend, BackendError, Candidates, Counters, LogitNeeds, RowBatch, Shape, Snapshot};
use crate::manifest::Dtype;
use std::ops::Range;
use std::time::Duration;

/// An engine directory on a GPU, with the state of one stream.
pub struct GpuBackend<D: Device> {
    // The order of the fields is that of unloading: graphs and contexts before the device, which frees the rest.
    pub(super) target: Target<D>,
    pub(super) head: Head<D>,
    pub(super) drafter: Option<Drafter<D>>,
    pub(super) caches: Caches,
    pub(super) buffers: Buffers,
    pub(super) staging: Staging,
    pub(super) bounce: Bounce,
    pub(super) shape: Shape,
    pub(super) dtype: Dtype,
    pub(super) needs: LogitNeeds,
    pub(super) drafting: bool,
    pub(super) row_copies: u64,
    pub(super) lane: Lane<D>,
}

impl<D: Device> Drop for GpuBackend<D> {
    fn drop(&mut self) {
        // Graphs and contexts must not go while the GPU works with them; there is nobody to tell of a failure.
        drop(self.lane.wait());
    }
}

impl<D: Device> std::fmt::Debug for GpuBackend<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GpuBackend")
            .field("shape", &self.shape)
            .field("committed", &self.target.committed)
            .finish_non_exhaustive()
    }
}

fn limit<T>(text: String) -> Result<T, BackendError> {
    Err(BackendError::Limit(text))
}

impl<D: Device> GpuBackend<D> {
    /// The device.
    pub fn device(&self) -> &D {
        &self.lane.device
    }

    /// The device, to change.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.lane.device
    }

    fn check_rows(&self, rows: &[u32]) -> Result<(), BackendError> {
        let live = self.target.live();
        match rows.iter().find(|r| **r as usize >= live) {
            Some(row) => limit(format!("row {row} is not among the {live} of the last verify")),
            None => Ok(()),
        }
    }

    /// Moves to larger caches. Everything that is bound to the old ones is bound anew at its next run.
    fn grow(&mut self, rows: usize) -> Result<(), BackendError> {
        let filled = self.target.committed;
        // Plans and graphs must be idle before they are forgotten.
        self.caches
            .grow(&mut self.lane, rows, filled)
            .map_err(failed("verify"))?;
        self.target.verify.forget();
        self.target.prefill.forget();
        if let Some(drafter) = &mut self.drafter {
            drafter.draft.forget();
        }
        Ok(())
    }

    fn commit_path(&mut self, path: &[u32]) -> Result<(), BackendError> {
        let Some(rows) = self.target.rows else {
            return limit("nothing was verified since the last commit".to_owned());
        };
        let (lane, start, length) = (&mut self.lane, self.target.committed, path.len());
        let at = upload_path(lane, &mut self.buffers, path, start)?;
        // A drafter that missed rows stays behind, and `draft` says so.
        let drafter = self.drafter.as_mut();
        let mut drafter = drafter.filter(|d| self.drafting && d.rows() == start);
        if let Some(drafter) = &mut drafter {
            drafter.project(lane, &self.buffers, rows, length)?;
        }
        self.target.next_states(lane, &self.buffers, rows, length)?;
        self.caches
            .append_target(lane, at, length, start, rows.bucket)
            .map_err(failed("commit"))?;
        if let Some(drafter) = drafter {
            drafter.append(lane, &self.caches, length)?;
            self.row_copies += (length * self.caches.of_drafter() / 2) as u64;
        }
        self.row_copies += (length * self.caches.of_target() / 2) as u64;
        self.target.committed += length;
        self.target.rows = None;
        Ok(())
    }

    fn forget(&mut self) {
        self.head.forget();
        if let Some(drafter) = &mut self.drafter {
            drafter.forget();
        }
    }
}

impl<D: Device> Backend for GpuBackend<D> {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn committed(&self) -> usize {
        self.target.committed
    }

    fn reset(&mut self) -> Result<(), BackendError> {
        self.forget();
        if let Some(drafter) = &mut self.drafter {
            drafter.truncate(0);
        }
        self.target.reset(&mut self.lane).map_err(failed("commit"))
    }

    fn reserve(&mut self, rows: usize) -> Result<(), BackendError> {
        if rows > self.shape.max_context {
            return limit(format!(
                "{rows} rows exceed the context of {}",
                self.shape.max_context
            ));
        }
        if self.caches.holds(rows) {
            return Ok(());
        }
        self.grow(rows)
    }

    fn set_drafting(&mut self, on: bool) {
        self.drafting = on;
    }

    fn set_needs(&mut self, needs: LogitNeeds) {
        self.needs = needs;
    }

    fn verify(&mut self, batch: &RowBatch<'_>) -> Result<(), BackendError> {
        check::batch(batch, self.shape.vocab)?;
        self.reserve(self.committed() + batch.len())?;
        self.head.forget();
        self.target
            .verify(&mut self.lane, &mut self.buffers, &self.caches, batch)
    }

    fn logits(&mut self, rows: &[u32], out: &mut Vec<f32>) -> Result<(), BackendError> {
        self.check_rows(rows)?;
        let Some(pass) = self.target.rows else {
            out.clear();
            return Ok(());
        };
        self.head
            .logits(&mut self.lane, &self.buffers, pass, self.needs, rows, out)
    }

    fn features(&mut self, hidden: &mut Vec<f32>, taps: &mut Vec<f32>) -> Result<(), BackendError> {
        hidden.clear();
        taps.clear();
        let live = self.target.live();
        if live == 0 {
            return limit("nothing was verified since the last commit".to_owned());
        }
        let parts = [
            ("hidden", self.shape.hidden, Dtype::F32, hidden),
            ("taps", self.shape.tap_width, self.dtype, taps),
        ];
        for (name, width, dtype, out) in parts {
            if width > 0 {
                let from = std::iter::once(self.buffers.need(name).map_err(failed("verify"))?);
                let bytes = live * width * dtype.size();
                read_f32(&mut self.lane, self.bounce, from, bytes, dtype, out).map_err(failed("verify"))?;
            }
        }
        Ok(())
    }

    fn commit(&mut self, path: &[u32]) -> Result<(), BackendError> {
        self.check_rows(path)?;
        if !self.target.is_root_path(path) {
            return limit(format!("{path:?} is not a path from the anchor along parents"));
        }
        self.commit_path(path)?;
        self.forget();
        Ok(())
    }

    fn draft(&mut self, anchor: u32) -> Result<(), BackendError> {
        let committed = self.committed();
        if anchor as usize >= self.shape.vocab {
            let vocab = self.shape.vocab;
            return limit(format!("token id {anchor} is outside the vocabulary of {vocab}"));
        }
        let Some(drafter) = &mut self.drafter else {
            return limit("this model has no drafter".to_owned());
        };
        if drafter.rows() != committed {
            let rows = drafter.rows();
            return limit(format!("the drafter saw {rows} of {committed} committed rows"));
        }
        drafter.run(&mut self.lane, &mut self.buffers, &self.caches, anchor)
    }

    fn candidates(
        &mut self,
        modes: Range<usize>,
        k: usize,
        out: &mut Candidates,
    ) -> Result<(), BackendError> {
        if modes.is_empty() || modes.end > self.shape.modes {
            return limit(format!("modes {modes:?} of a drafter with {}", self.shape.modes));
        }
        let Some(drafter) = &mut self.drafter else {
            return limit("nothing was drafted".to_owned());
        };
        drafter.candidates(&mut self.lane, &self.buffers, &mut self.head, modes, k, out)
    }

    fn snapshot(&mut self) -> Result<Snapshot, BackendError> {
        let states = self.target.snapshot(&mut self.lane, self.bounce);
        states.map_err(failed("commit"))
    }

    fn rewind(&mut self, snapshot: &Snapshot) -> Result<(), BackendError> {
        self.target.rewind(&mut self.lane, &mut self.staging, snapshot)?;
        self.forget();
        if let Some(drafter) = &mut self.drafter {
            drafter.truncate(snapshot.committed);
        }
        Ok(())
    }

    fn counters(&self) -> Counters {
        Counters {
            syncs: self.lane.syncs,
            row_copies: self.row_copies,
            head_runs: self.head.runs,
            bad_draft_rows: self.drafter.as_ref().map_or(0, |d| d.bad_rows),
        }
    }

    fn library_time(&self) -> Duration {
        self.lane.time
    }
}
