//! What the head's plans say about rows, and small results in pinned memory.

use super::buffers::Buffers;
use super::device::{Device, DeviceError, Pinned};
use super::lane::{Lane, get_f32, get_i64};

/// What is known of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// All logits, on the device.
    Full,
    /// The best with the normaliser, on the host.
    Top,
    /// The best one, on the host.
    Greedy,
}

/// Results of one run, in pinned memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Results {
    block: Pinned,
    rows: usize,
    /// Candidates a row.
    width: usize,
}

impl Results {
    pub(super) fn new<D: Device>(lane: &mut Lane<D>, rows: usize, width: usize) -> Result<Self, DeviceError> {
        let bytes = rows * (width.max(1) * 12 + 4);
        let block = lane.device.pin(bytes)?;
        Ok(Self {
            block,
            rows,
            width: width.max(1),
        })
    }

    /// Where logits, ids and normalisers begin.
    fn parts(&self) -> [usize; 3] {
        let ids = self.rows * self.width * 4;
        [0, ids, ids + self.rows * self.width * 8]
    }

    /// Best logits of a row, best first, and their ids.
    pub(super) fn top<'a, D: Device>(
        &self,
        lane: &'a Lane<D>,
        row: usize,
    ) -> impl Iterator<Item = (f32, i64)> + use<'a, D> {
        let (bytes, [top, ids, _], width) = (lane.device.pinned(self.block), self.parts(), self.width);
        let values = get_f32(&bytes[top + row * width * 4..][..width * 4]);
        values.zip(get_i64(&bytes[ids + row * width * 8..][..width * 8]))
    }

    /// Logarithm of the sum of exponentials of a row; for [`Kind::Greedy`] the sum of its logits.
    pub(super) fn total<D: Device>(&self, lane: &Lane<D>, row: usize) -> f32 {
        let bytes = &lane.device.pinned(self.block)[self.parts()[2] + row * 4..][..4];
        get_f32(bytes).next().unwrap_or(f32::NAN)
    }

    /// Best token of a row.
    pub(super) fn best<D: Device>(&self, lane: &Lane<D>, row: usize) -> i64 {
        let bytes = &lane.device.pinned(self.block)[row * 8..][..8];
        get_i64(bytes).next().unwrap_or(-1)
    }

    /// Queues the copies of small results of `rows` rows to the host.
    pub(super) fn fetch<D: Device>(
        self,
        lane: &mut Lane<D>,
        buffers: &Buffers,
        kind: Kind,
        rows: usize,
    ) -> Result<(), DeviceError> {
        let mut get = |name: &str, at: usize, bytes: usize| {
            lane.device.download(self.block, at, buffers.need(name)?, bytes)
        };
        let [top, ids, total] = self.parts();
        match kind {
            Kind::Full => Ok(()),
            Kind::Greedy => {
                get("best", 0, rows * 8)?;
                get("sum", total, rows * 4)
            }
            Kind::Top => {
                get("top", top, rows * self.width * 4)?;
                get("ids", ids, rows * self.width * 8)?;
                get("total", total, rows * 4)
            }
        }
    }
}
