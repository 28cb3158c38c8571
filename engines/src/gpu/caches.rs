//! Key and value caches of target and drafter on the device.

use super::buckets::holding;
use super::buffers::{Buffers, row_bytes};
use super::device::{Address, AppendRows, Device, DeviceError, RowCopy};
use super::lane::{Lane, Staging};
use crate::engine::Engine;

/// Rows are copied in pieces of this many bytes.
const CHUNK: usize = 16;

/// One cache `[capacity, KVH, D]`.
#[derive(Debug)]
struct Cache {
    /// Input that it is bound to.
    name: String,
    row_bytes: usize,
    source: Address,
    address: Address,
}

/// All caches: those of the target first. They have room for the same number of rows.
#[derive(Debug)]
pub(super) struct Caches {
    caches: Vec<Cache>,
    of_target: usize,
    capacity: usize,
    /// Context buckets, ascending.
    buckets: Vec<usize>,
    /// [`RowCopy`] of each cache, on the device.
    table: Address,
    staging: Staging,
}

impl Caches {
    /// Caches of the smallest bucket.
    pub(super) fn new<D: Device>(
        lane: &mut Lane<D>,
        engine: &Engine,
        buffers: &Buffers,
        buckets: &[usize],
    ) -> Result<Self, DeviceError> {
        let mut caches = list(engine, buffers, "target", "target")?;
        let of_target = caches.len();
        if engine.plans.contains_key("draft") {
            caches.extend(list(engine, buffers, "draft", "context")?);
        }
        let capacity = buckets.first().copied().unwrap_or(engine.limits.context);
        for cache in &mut caches {
            cache.address = lane.zeros(capacity * cache.row_bytes)?;
        }
        let table = size_of::<RowCopy>() * caches.len().max(1);
        let mut made = Self {
            table: lane.zeros(table)?,
            staging: Staging::new(lane, table, 2)?,
            caches,
            of_target,
            capacity,
            buckets: buckets.to_vec(),
        };
        made.write_table(lane)?;
        Ok(made)
    }

    pub(super) fn of_target(&self) -> usize {
        self.of_target
    }

    pub(super) fn of_drafter(&self) -> usize {
        self.caches.len() - self.of_target
    }

    /// Whether `rows` rows fit.
    pub(super) fn holds(&self, rows: usize) -> bool {
        rows <= self.capacity
    }

    /// Address of the cache behind an input.
    pub(super) fn get(&self, name: &str) -> Option<Address> {
        self.caches.iter().find(|c| c.name == name).map(|c| c.address)
    }

    /// Moves to the smallest bucket that holds `rows` rows, of which the first `filled` are kept. Rows that hold nothing are
    /// zero: the bodies read and mask them, so they must be finite.
    pub(super) fn grow<D: Device>(
        &mut self,
        lane: &mut Lane<D>,
        rows: usize,
        filled: usize,
    ) -> Result<(), DeviceError> {
        let capacity = holding(&self.buckets, rows)
            .ok_or_else(|| DeviceError(format!("no context bucket holds {rows} rows")))?;
        let mut fresh = Vec::with_capacity(self.caches.len());
        for cache in &self.caches {
            match lane.zeros(capacity * cache.row_bytes) {
                Ok(address) => fresh.push(address),
                Err(error) => {
                    // What was had goes back, and the old caches stay in use.
                    lane.wait()?;
                    fresh.into_iter().for_each(|at| lane.device.free(at));
                    return Err(error);
                }
            }
        }
        for (cache, to) in self.caches.iter_mut().zip(&mut fresh) {
            if filled > 0 {
                lane.device.copy(*to, cache.address, filled * cache.row_bytes)?;
            }
            std::mem::swap(&mut cache.address, to);
        }
        self.capacity = capacity;
        self.write_table(lane)?;
        lane.wait()?;
        fresh.into_iter().for_each(|at| lane.device.free(at));
        Ok(())
    }

    fn write_table<D: Device>(&mut self, lane: &mut Lane<D>) -> Result<(), DeviceError> {
        let rows = self.caches.iter().map(|c| RowCopy {
            source: c.source.0,
            cache: c.address.0,
            row_bytes: c.row_bytes as i64,
        });
        let table: Vec<RowCopy> = rows.collect();
        self.staging.send(lane, self.table, bytemuck::cast_slice(&table))
    }

    /// Queues the append of rows `path` (`length` numbers on the device) of a pass of `rows` rows to the target's caches.
    pub(super) fn append_target<D: Device>(
        &self,
        lane: &mut Lane<D>,
        path: Address,
        length: usize,
        first: usize,
        rows: usize,
    ) -> Result<(), DeviceError> {
        self.append(lane, 0..self.of_target, path, length, first, rows)
    }

    /// Queues the append of rows 0, 1, ... `length` of what `context` made to the drafter's caches; `order` holds these numbers.
    pub(super) fn append_drafter<D: Device>(
        &self,
        lane: &mut Lane<D>,
        order: Address,
        length: usize,
        first: usize,
    ) -> Result<(), DeviceError> {
        self.append(
            lane,
            self.of_target..self.caches.len(),
            order,
            length,
            first,
            length,
        )
    }

    fn append<D: Device>(
        &self,
        lane: &mut Lane<D>,
        which: std::ops::Range<usize>,
        path: Address,
        path_length: usize,
        first_row: usize,
        rows: usize,
    ) -> Result<(), DeviceError> {
        if which.is_empty() || path_length == 0 {
            return Ok(());
        }
        lane.device.append_rows(&AppendRows {
            copies: self.table.at(which.start * size_of::<RowCopy>()),
            copy_count: which.len(),
            path,
            path_length,
            first_row,
            capacity: self.capacity,
            rows,
        })
    }
}

/// Caches that plan `reader` reads, filled from outputs of plan `writer`.
fn list(engine: &Engine, buffers: &Buffers, reader: &str, writer: &str) -> Result<Vec<Cache>, DeviceError> {
    let inputs = engine.plans.get(reader).into_iter().flat_map(|p| &p.inputs);
    let names = inputs.filter_map(|p| Some((&p.name, p.name.strip_prefix("past_")?)));
    let cache = |(name, source): (&String, &str)| {
        let wrong = |what: &str| DeviceError(format!("{reader}: {name:?} {what}"));
        let row_bytes = row_bytes(engine, writer, source).ok_or_else(|| wrong("has no source"))?;
        if !row_bytes.is_multiple_of(CHUNK) || row_bytes == 0 {
            return Err(wrong(&format!(
                "has rows of {row_bytes} bytes, not a multiple of {CHUNK}"
            )));
        }
        Ok(Cache {
            name: name.clone(),
            row_bytes,
            source: buffers.get(source).ok_or_else(|| wrong("has no source"))?,
            address: Address(0),
        })
    };
    names.filter(|(name, _)| *name != "past_len").map(cache).collect()
}
