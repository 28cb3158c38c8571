//! The target on the device: verify pass, commit, and the recurrent states between them.

use super::buckets::{Buckets, Rows};
use super::buffers::{Buffers, Source};
use super::caches::Caches;
use super::device::{Address, Device, DeviceError};
use super::lane::{Bounce, Lane, Staging, failed, put_i64};
use super::stage::{Mode, Stage};
use super::weights::convert;
use crate::backend::{BackendError, RowBatch, Snapshot};
use crate::manifest::Dtype;

/// One conv or recurrent state.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// Both sides.
    pub(super) sides: [Address; 2],
    pub(super) bytes: usize,
    pub(super) dtype: Dtype,
}

/// Plans of the target, and what a stream has committed.
pub(super) struct Target<D: Device> {
    pub(super) verify: Stage<D>,
    pub(super) prefill: Stage<D>,
    pub(super) commit: Option<Stage<D>>,
    /// Conv rows, then state, of each DeltaNet layer.
    pub(super) states: Vec<State>,
    pub(super) side: usize,
    pub(super) committed: usize,
    pub(super) mode: Mode,
    pub(super) buckets: Buckets,
    pub(super) rows: Option<Rows>,
    /// Visibility of the last pass, `[live, live]`.
    pub(super) ancestors: Vec<bool>,
}

impl<D: Device> Target<D> {
    /// Rows of the last verify; 0 once they are committed or forgotten.
    pub(super) fn live(&self) -> usize {
        self.rows.map_or(0, |r| r.live)
    }

    /// Queues a pass; committed state is unchanged.
    pub(super) fn verify(
        &mut self,
        lane: &mut Lane<D>,
        buffers: &mut Buffers,
        caches: &Caches,
        batch: &RowBatch<'_>,
    ) -> Result<(), BackendError> {
        self.rows = None;
        let rows = self.buckets.choose(batch)?;
        let context = self.buckets.context(self.committed);
        upload(lane, buffers, batch, rows, self.committed).map_err(failed("verify"))?;
        let (stage, name) = if rows.prefill {
            (&mut self.prefill, "prefill")
        } else {
            (&mut self.verify, "target")
        };
        let side = self.side;
        let variant = (context * 2048 + rows.bucket) * 2 + side;
        let sizes = [("N", rows.bucket), ("C", context)];
        stage.run(lane, "verify", variant, self.mode, &sizes, &|value| {
            let cache = caches.get(value);
            cache.or_else(|| buffers.value(name, value, side, Source::Pass))
        })?;
        self.ancestors.clear();
        self.ancestors.extend_from_slice(batch.ancestors);
        self.rows = Some(rows);
        Ok(())
    }

    /// Whether `path` runs from row 0 along parents: each row sees exactly those before it and itself.
    pub(super) fn is_root_path(&self, path: &[u32]) -> bool {
        let n = self.live();
        path.first() == Some(&0)
            && path.iter().enumerate().all(|(depth, row)| {
                let row = *row as usize;
                let Some(line) = self.ancestors.get(row * n..(row + 1) * n).filter(|_| row < n) else {
                    return false;
                };
                let count = line.iter().filter(|b| **b).count();
                count == depth + 1
                    && path[..=depth]
                        .iter()
                        .all(|p| line.get(*p as usize) == Some(&true))
            })
    }

    /// Queues the next states after the uploaded path of `length` rows and makes them the present ones.
    pub(super) fn next_states(
        &mut self,
        lane: &mut Lane<D>,
        buffers: &Buffers,
        rows: Rows,
        length: usize,
    ) -> Result<(), BackendError> {
        let Some(commit) = &mut self.commit else {
            return Ok(());
        };
        let side = self.side;
        let (variant, mode) = rows.path(length, side, self.mode);
        let sizes = [("N", rows.bucket), ("P", length)];
        commit.run(lane, "commit", variant, mode, &sizes, &|value| {
            buffers.value("commit", value, side, Source::Pass)
        })?;
        self.side = 1 - side;
        Ok(())
    }

    /// Zero states, zero rows.
    pub(super) fn reset(&mut self, lane: &mut Lane<D>) -> Result<(), DeviceError> {
        (self.committed, self.rows) = (0, None);
        let side = self.side;
        self.states
            .iter()
            .try_for_each(|s| lane.device.zero(s.sides[side], s.bytes))
    }

    /// Copies the states as float32.
    pub(super) fn snapshot(&self, lane: &mut Lane<D>, bounce: Bounce) -> Result<Snapshot, DeviceError> {
        let mut states = Vec::with_capacity(self.states.len());
        for state in &self.states {
            let mut numbers = Vec::new();
            let from = std::iter::once(state.sides[self.side]);
            read_f32(lane, bounce, from, state.bytes, state.dtype, &mut numbers)?;
            states.push(numbers);
        }
        Ok(Snapshot {
            committed: self.committed,
            states,
        })
    }

    /// Goes back to a snapshot.
    pub(super) fn rewind(
        &mut self,
        lane: &mut Lane<D>,
        staging: &mut Staging,
        snapshot: &Snapshot,
    ) -> Result<(), BackendError> {
        let limit = |text: String| Err(BackendError::Limit(text));
        if snapshot.committed > self.committed {
            let (there, here) = (snapshot.committed, self.committed);
            return limit(format!(
                "a snapshot of {there} rows is longer than the stream of {here}"
            ));
        }
        let lengths = self.states.iter().map(|s| s.bytes / s.dtype.size());
        if !lengths.eq(snapshot.states.iter().map(Vec::len)) {
            return limit("the snapshot belongs to another model".to_owned());
        }
        let mut bytes = Vec::new();
        for (state, numbers) in self.states.iter().zip(&snapshot.states) {
            bytes.clear();
            convert(bytemuck::cast_slice(numbers), Dtype::F32, state.dtype, &mut bytes);
            staging
                .send(lane, state.sides[self.side], &bytes)
                .map_err(failed("commit"))?;
        }
        (self.committed, self.rows) = (snapshot.committed, None);
        Ok(())
    }
}

/// Reads numbers of any float type as float32, `bytes` bytes from each address.
pub(super) fn read_f32<D: Device>(
    lane: &mut Lane<D>,
    bounce: Bounce,
    from: impl Iterator<Item = Address>,
    bytes: usize,
    dtype: Dtype,
    out: &mut Vec<f32>,
) -> Result<(), DeviceError> {
    let mut wide = Vec::new();
    bounce.read(lane, from, bytes, |piece| {
        wide.clear();
        convert(piece, dtype, Dtype::F32, &mut wide);
        out.extend(super::lane::get_f32(&wide));
    })
}

/// Uploads a batch, filled up to its bucket. Dead rows repeat the last position and see only themselves; those of a prefill
/// pass go on with the chain, since its bodies take the full lower triangle for granted.
fn upload<D: Device>(
    lane: &mut Lane<D>,
    buffers: &mut Buffers,
    batch: &RowBatch<'_>,
    rows: Rows,
    committed: usize,
) -> Result<(), DeviceError> {
    let (live, bucket) = (rows.live, rows.bucket);
    let (block, parts, bytes) = buffers.pass.block(lane)?;
    let [past, tokens, positions, ancestors] = [parts[0], parts[1], parts[2], parts[3]];
    put_i64(&mut bytes[past..past + 8], std::iter::once(committed as i64));
    let padded = batch
        .tokens
        .iter()
        .map(|t| i64::from(*t))
        .chain(std::iter::repeat(0));
    put_i64(&mut bytes[tokens..tokens + bucket * 8], padded);
    let last = batch.positions.last().copied().unwrap_or(0);
    let padded = batch.positions.iter().copied().chain(std::iter::repeat(last));
    put_i64(&mut bytes[positions..positions + bucket * 8], padded);
    let visible = &mut bytes[ancestors..ancestors + bucket * bucket];
    for (i, line) in visible.chunks_exact_mut(bucket).enumerate() {
        line.fill(0);
        if i < live {
            line[..live].copy_from_slice(bytemuck::cast_slice(&batch.ancestors[i * live..(i + 1) * live]));
        } else if rows.prefill {
            line[..=i].fill(1);
        } else {
            line[i] = 1;
        }
    }
    buffers.pass.upload(lane, block, bucket * bucket)
}

/// Uploads a path, and the positions of its rows from `start` on.
pub(super) fn upload_path<D: Device>(
    lane: &mut Lane<D>,
    buffers: &mut Buffers,
    path: &[u32],
    start: usize,
) -> Result<Address, BackendError> {
    let (pinned, parts, bytes) = buffers.path.block(lane).map_err(failed("commit"))?;
    let size = path.len() * 8;
    let [rows, positions] = [parts[0], parts[1]];
    put_i64(&mut bytes[rows..rows + size], path.iter().map(|r| i64::from(*r)));
    put_i64(
        &mut bytes[positions..positions + size],
        (start..).map(|p| p as i64),
    );
    buffers
        .path
        .upload(lane, pinned, size)
        .map_err(failed("commit"))?;
    buffers.need("path").map_err(failed("commit"))
}
