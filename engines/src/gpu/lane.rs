//! The device with what is counted about it, and host memory that queued copies pass through.

use super::device::{Address, Device, DeviceError, Pinned};
use crate::backend::BackendError;
use std::time::{Duration, Instant};

/// Turns a failure of the device into one of `stage`.
pub(super) fn failed(stage: &'static str) -> impl Fn(DeviceError) -> BackendError {
    move |error| BackendError::Run {
        stage,
        reason: error.0,
    }
}

/// A device and its counters.
pub(super) struct Lane<D> {
    pub(super) device: D,
    /// Times the host waited.
    pub(super) syncs: u64,
    /// Time spent waiting and queueing.
    pub(super) time: Duration,
}

impl<D: Device> Lane<D> {
    pub(super) fn new(device: D) -> Self {
        Self {
            device,
            syncs: 0,
            time: Duration::ZERO,
        }
    }

    /// Waits for everything that was queued.
    pub(super) fn wait(&mut self) -> Result<(), DeviceError> {
        let begin = Instant::now();
        self.syncs += 1;
        let done = self.device.synchronise();
        self.time += begin.elapsed();
        done
    }

    /// Memory of zeros.
    pub(super) fn zeros(&mut self, bytes: usize) -> Result<Address, DeviceError> {
        let at = self.device.allocate(bytes)?;
        self.device.zero(at, bytes)?;
        Ok(at)
    }
}

/// Pinned blocks that uploads take turns with, so that one can be filled while others are still being copied.
#[derive(Debug)]
pub(super) struct Staging {
    /// Blocks, and the number of waits when each was used last.
    blocks: Vec<(Pinned, Option<u64>)>,
    next: usize,
}

impl Staging {
    pub(super) fn new<D: Device>(
        lane: &mut Lane<D>,
        bytes: usize,
        blocks: usize,
    ) -> Result<Self, DeviceError> {
        let blocks = (0..blocks).map(|_| Ok((lane.device.pin(bytes)?, None)));
        Ok(Self {
            blocks: blocks.collect::<Result<_, DeviceError>>()?,
            next: 0,
        })
    }

    /// A block that no queued copy reads. Waits only when all have been used since the last wait.
    pub(super) fn take<D: Device>(&mut self, lane: &mut Lane<D>) -> Result<Pinned, DeviceError> {
        let count = self.blocks.len();
        let (block, used) = &mut self.blocks[self.next];
        if *used == Some(lane.syncs) {
            lane.wait()?;
        }
        *used = Some(lane.syncs);
        self.next = (self.next + 1) % count;
        Ok(*block)
    }

    /// Copies `bytes` to the device, piece by piece.
    pub(super) fn send<D: Device>(
        &mut self,
        lane: &mut Lane<D>,
        to: Address,
        bytes: &[u8],
    ) -> Result<(), DeviceError> {
        let size = self.blocks[0].0.bytes;
        for (i, piece) in bytes.chunks(size).enumerate() {
            let block = self.take(lane)?;
            lane.device.pinned_mut(block)[..piece.len()].copy_from_slice(piece);
            lane.device.upload(to.at(i * size), block, 0..piece.len())?;
        }
        Ok(())
    }
}

/// A pinned block that results come back through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounce(pub(super) Pinned);

impl Bounce {
    /// Reads `bytes` bytes at each address, in order; `sink` gets them in pieces. Waits once for each filling of the block.
    pub(super) fn read<D: Device>(
        self,
        lane: &mut Lane<D>,
        from: impl Iterator<Item = Address>,
        bytes: usize,
        mut sink: impl FnMut(&[u8]),
    ) -> Result<(), DeviceError> {
        let mut used = 0;
        for address in from {
            let mut done = 0;
            while done < bytes {
                if used == self.0.bytes {
                    lane.wait()?;
                    sink(lane.device.pinned(self.0));
                    used = 0;
                }
                let piece = (bytes - done).min(self.0.bytes - used);
                lane.device.download(self.0, used, address.at(done), piece)?;
                (used, done) = (used + piece, done + piece);
            }
        }
        if used > 0 {
            lane.wait()?;
            sink(&lane.device.pinned(self.0)[..used]);
        }
        Ok(())
    }
}

/// Small inputs that lie side by side on the device, so that one copy brings all of them.
#[derive(Debug)]
pub(super) struct Packed {
    address: Address,
    offsets: Vec<usize>,
    staging: Staging,
}

/// Passes in flight before a block must be used again.
const BLOCKS: usize = 4;

impl Packed {
    /// Room for parts of these sizes in bytes.
    pub(super) fn new<D: Device>(lane: &mut Lane<D>, parts: &[usize]) -> Result<Self, DeviceError> {
        let mut offsets = Vec::with_capacity(parts.len());
        let mut end = 0;
        for bytes in parts {
            offsets.push(end);
            end += bytes.next_multiple_of(super::device::ALIGN);
        }
        Ok(Self {
            address: lane.zeros(end)?,
            offsets,
            staging: Staging::new(lane, end, BLOCKS)?,
        })
    }

    /// Address of part `i`.
    pub(super) fn part(&self, i: usize) -> Address {
        self.address.at(self.offsets[i])
    }

    /// A block to fill, and where the parts lie in it.
    pub(super) fn block<'a, D: Device>(
        &'a mut self,
        lane: &'a mut Lane<D>,
    ) -> Result<(Pinned, &'a [usize], &'a mut [u8]), DeviceError> {
        let block = self.staging.take(lane)?;
        Ok((block, &self.offsets, lane.device.pinned_mut(block)))
    }

    /// Queues the copy of a filled block, of which the last part holds `last` bytes.
    pub(super) fn upload<D: Device>(
        &self,
        lane: &mut Lane<D>,
        block: Pinned,
        last: usize,
    ) -> Result<(), DeviceError> {
        let end = self.offsets.last().map_or(0, |o| o + last);
        lane.device.upload(self.address, block, 0..end)
    }
}

/// Writes numbers into pinned memory.
pub(super) fn put_i64(to: &mut [u8], numbers: impl Iterator<Item = i64>) {
    for (bytes, number) in to.chunks_exact_mut(8).zip(numbers) {
        bytes.copy_from_slice(&number.to_le_bytes());
    }
}

/// The numbers in pinned memory.
pub(super) fn get_i64(bytes: &[u8]) -> impl Iterator<Item = i64> + '_ {
    let number = |b: &[u8]| i64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]);
    bytes.chunks_exact(8).map(number)
}

/// The numbers in pinned memory.
pub(super) fn get_f32(bytes: &[u8]) -> impl Iterator<Item = f32> + '_ {
    bytes
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}
