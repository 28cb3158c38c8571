//! A GPU made of host memory. Queued work is done at the wait and not before, in order, so a host that overwrites a
//! block too early, reads a result too early or frees memory in use is found out. A plan is the ONNX message that the
//! compiler would get, run by ONNX Runtime, or by nothing at all.

use crate::model::Model;
use crate::plan::Plan;
use forkcast_engines::gpu::device::{
    Address, AppendRows, Device, DeviceError, Pinned, Result, RowCopy, Slot,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// A queued or recorded piece of work.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Upload(Address, Pinned, Range<usize>),
    Download(Pinned, usize, Address, usize),
    Copy(Address, Address, usize),
    Zero(Address, usize),
    Append(AppendRows),
    Run(Run),
}

/// A run of a plan with what was bound when it was queued.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) program: usize,
    pub(crate) stage: String,
    pub(crate) slot: Slot,
    pub(crate) inputs: Vec<(String, Address, Vec<usize>)>,
    pub(crate) outputs: Vec<(String, Address)>,
}

/// What was done, for tests to look at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    pub(crate) allocations: usize,
    pub(crate) pins: usize,
    pub(crate) waits: usize,
    pub(crate) uploads: usize,
    pub(crate) uploaded: usize,
    pub(crate) appends: usize,
    /// Plans queued one by one, recorded, and launched from a recording, by stage and slot.
    pub(crate) eager: Vec<(String, Slot)>,
    pub(crate) captured: Vec<(String, Slot)>,
    pub(crate) launched: Vec<(String, Slot)>,
}

/// The device.
#[derive(Debug, Default)]
pub(crate) struct Sim {
    memory: BTreeMap<u64, Vec<u8>>,
    next: u64,
    pinned: Vec<Vec<u8>>,
    queue: Vec<Op>,
    pub(crate) recording: Option<Vec<Op>>,
    models: Vec<Model>,
    pub(crate) log: Rc<RefCell<Log>>,
    /// Without a library, plans do nothing: only the calls are of interest.
    pub(crate) idle: bool,
    /// Recordings fail.
    pub(crate) refuse_capture: bool,
    /// Most bytes that can be had.
    pub(crate) room: Option<usize>,
}

fn error<T>(text: impl Into<String>) -> Result<T> {
    Err(DeviceError(text.into()))
}

impl Sim {
    /// Bytes in device memory.
    pub(crate) fn used(&self) -> usize {
        self.memory.values().map(Vec::len).sum()
    }

    fn at(&self, at: Address, bytes: usize) -> Result<&[u8]> {
        let (base, block) = self
            .memory
            .range(..=at.0)
            .next_back()
            .ok_or_else(|| outside(at, bytes))?;
        let start = (at.0 - base) as usize;
        block.get(start..start + bytes).ok_or_else(|| outside(at, bytes))
    }

    fn at_mut(&mut self, at: Address, bytes: usize) -> Result<&mut [u8]> {
        let found = self.memory.range_mut(..=at.0).next_back();
        let (base, block) = found.ok_or_else(|| outside(at, bytes))?;
        let start = (at.0 - base) as usize;
        block
            .get_mut(start..start + bytes)
            .ok_or_else(|| outside(at, bytes))
    }

    /// Queues or records work.
    pub(crate) fn put(&mut self, op: Op) {
        match &mut self.recording {
            Some(list) => list.push(op),
            None => self.queue.push(op),
        }
    }

    fn do_now(&mut self, op: Op) -> Result<()> {
        match op {
            Op::Upload(to, from, part) => {
                let bytes = self.pinned[from.id][part].to_vec();
                self.at_mut(to, bytes.len())?.copy_from_slice(&bytes);
            }
            Op::Download(to, at, from, bytes) => {
                let found = self.at(from, bytes)?.to_vec();
                self.pinned[to.id][at..at + bytes].copy_from_slice(&found);
            }
            Op::Copy(to, from, bytes) => {
                let found = self.at(from, bytes)?.to_vec();
                self.at_mut(to, bytes)?.copy_from_slice(&found);
            }
            Op::Zero(at, bytes) => self.at_mut(at, bytes)?.fill(0),
            Op::Append(launch) => self.append(&launch)?,
            Op::Run(run) => self.run(&run)?,
        }
        Ok(())
    }

    /// What `forkcast_kv_row_append` does, bounds included.
    fn append(&mut self, launch: &AppendRows) -> Result<()> {
        let table = self
            .at(launch.copies, launch.copy_count * size_of::<RowCopy>())?
            .to_vec();
        let path = self.at(launch.path, launch.path_length * 8)?.to_vec();
        for line in table.chunks_exact(size_of::<RowCopy>()) {
            let number = |i: usize| i64::from_le_bytes(line[i * 8..i * 8 + 8].try_into().expect("8 bytes"));
            let (source, cache, bytes) = (number(0) as u64, number(1) as u64, number(2) as usize);
            if !bytes.is_multiple_of(16) {
                return error(format!("rows of {bytes} bytes"));
            }
            for (p, row) in path.chunks_exact(8).enumerate() {
                let row = i64::from_le_bytes(row.try_into().expect("8 bytes")) as usize;
                let to = launch.first_row + p;
                if row >= launch.rows || to >= launch.capacity {
                    return error(format!("append of row {row} of {} to row {to}", launch.rows));
                }
                let from = self.at(Address(source).at(row * bytes), bytes)?.to_vec();
                self.at_mut(Address(cache).at(to * bytes), bytes)?
                    .copy_from_slice(&from);
            }
        }
        Ok(())
    }

    fn run(&mut self, run: &Run) -> Result<()> {
        let model = &self.models[run.program];
        let shapes = model.shapes(&run.inputs)?;
        for (name, at, _) in &run.inputs {
            self.at(*at, model.bytes(name, &shapes)?)?;
        }
        for (name, at) in &run.outputs {
            self.at(*at, model.bytes(name, &shapes)?)?;
        }
        if self.idle {
            // Zeros are sound numbers and sound tokens.
            for (name, at) in &run.outputs {
                let bytes = self.models[run.program].bytes(name, &shapes)?;
                self.at_mut(*at, bytes)?.fill(0);
            }
            return Ok(());
        }
        let mut inputs = Vec::new();
        for (name, at, shape) in &run.inputs {
            let bytes = self.at(*at, model.bytes(name, &shapes)?)?;
            inputs.push((name.clone(), *at, shape.clone(), bytes.to_vec()));
        }
        let outputs = self.models[run.program].run(inputs)?;
        for (name, at) in &run.outputs {
            let bytes = outputs
                .get(name)
                .ok_or_else(|| DeviceError(format!("no output {name:?}")))?;
            self.at_mut(*at, bytes.len())?.copy_from_slice(bytes);
        }
        Ok(())
    }
}

fn outside(at: Address, bytes: usize) -> DeviceError {
    DeviceError(format!("{bytes} bytes at {:#x} are not in one block", at.0))
}

impl Device for Sim {
    type Program = Plan;
    type Graph = Vec<Op>;

    fn load(&mut self, stage: &str, plan: &[u8]) -> Result<Plan> {
        let model = Model::load(plan, self.idle)?;
        let bindings = model.bindings();
        self.models.push(model);
        Ok(Plan::new(stage, self.models.len() - 1, bindings))
    }

    fn allocate(&mut self, bytes: usize) -> Result<Address> {
        if self.room.is_some_and(|room| self.used() + bytes > room) {
            return error(format!("{bytes} bytes cannot be had"));
        }
        self.log.borrow_mut().allocations += 1;
        let at = self.next.max(1 << 32);
        self.next = (at + bytes as u64 + 1).next_multiple_of(256);
        // All ones is a NaN in every float type.
        self.memory.insert(at, vec![0xff; bytes]);
        Ok(Address(at))
    }

    fn free(&mut self, at: Address) {
        assert!(self.queue.is_empty(), "memory is freed while work is queued");
        assert!(self.memory.remove(&at.0).is_some(), "freed twice");
    }

    fn pin(&mut self, bytes: usize) -> Result<Pinned> {
        self.log.borrow_mut().pins += 1;
        self.pinned.push(vec![0xff; bytes]);
        let id = self.pinned.len() - 1;
        Ok(Pinned { id, bytes })
    }

    fn pinned(&self, block: Pinned) -> &[u8] {
        &self.pinned[block.id]
    }

    fn pinned_mut(&mut self, block: Pinned) -> &mut [u8] {
        &mut self.pinned[block.id]
    }

    fn upload(&mut self, to: Address, from: Pinned, part: Range<usize>) -> Result<()> {
        self.log.borrow_mut().uploads += 1;
        self.log.borrow_mut().uploaded += part.len();
        self.put(Op::Upload(to, from, part));
        Ok(())
    }

    fn download(&mut self, to: Pinned, at: usize, from: Address, bytes: usize) -> Result<()> {
        assert!(at + bytes <= to.bytes, "a download beyond its block");
        self.put(Op::Download(to, at, from, bytes));
        Ok(())
    }

    fn copy(&mut self, to: Address, from: Address, bytes: usize) -> Result<()> {
        self.put(Op::Copy(to, from, bytes));
        Ok(())
    }

    fn zero(&mut self, at: Address, bytes: usize) -> Result<()> {
        self.put(Op::Zero(at, bytes));
        Ok(())
    }

    fn append_rows(&mut self, launch: &AppendRows) -> Result<()> {
        self.log.borrow_mut().appends += 1;
        self.put(Op::Append(*launch));
        Ok(())
    }

    fn synchronise(&mut self) -> Result<()> {
        self.log.borrow_mut().waits += 1;
        assert!(self.recording.is_none(), "a wait inside a recording");
        std::mem::take(&mut self.queue)
            .into_iter()
            .try_for_each(|op| self.do_now(op))
    }

    fn begin_capture(&mut self) -> Result<()> {
        assert!(self.recording.is_none(), "a recording inside a recording");
        self.recording = Some(Vec::new());
        Ok(())
    }

    fn end_capture(&mut self) -> Result<Vec<Op>> {
        let recorded = self.recording.take().expect("a recording");
        if self.refuse_capture {
            return error("operation not permitted when stream is capturing");
        }
        Ok(recorded)
    }

    fn launch(&mut self, graph: &Vec<Op>) -> Result<()> {
        for op in graph {
            if let Op::Run(run) = op {
                self.log.borrow_mut().launched.push((run.stage.clone(), run.slot));
            }
            self.put(op.clone());
        }
        Ok(())
    }
}
