//! What the executor asks of a GPU: memory, copies, one stream, graphs, and plans.
//!
//! Everything above these two traits runs on any device, also on one that a test makes of host memory. Calls with a
//! stream behind them only queue work; nothing is done for certain before [`Device::synchronise`] returns. Pinned
//! memory that a queued copy reads or writes must be left alone until then.

use bytemuck::{Pod, Zeroable};
use std::ops::Range;

/// Addresses given to a plan are multiples of this many bytes, as TensorRT asks.
pub const ALIGN: usize = 256;

/// What the driver or the library said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DeviceError(pub String);

/// Result of a call to the device.
pub type Result<T> = std::result::Result<T, DeviceError>;

/// An address in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub u64);

impl Address {
    /// The address `bytes` further on.
    #[must_use]
    pub fn at(self, bytes: usize) -> Self {
        Self(self.0 + bytes as u64)
    }
}

/// A block of pinned host memory, owned by its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// Number that the device gave it.
    pub id: usize,
    /// Size in bytes.
    pub bytes: usize,
}

/// One cache of an append, as the kernel reads it (`KvCopy` of `plugins/cuda/kernels/kernels.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct RowCopy {
    /// Address of the new rows.
    pub source: u64,
    /// Address of the cache.
    pub cache: u64,
    /// Bytes of a row, a multiple of 16.
    pub row_bytes: i64,
}

/// `cache[first_row + p] = source[path[p]]` for several caches in one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendRows {
    /// Address of `copy_count` [`RowCopy`]s.
    pub copies: Address,
    /// Caches.
    pub copy_count: usize,
    /// Address of `path_length` row numbers, i64.
    pub path: Address,
    /// Rows to append.
    pub path_length: usize,
    /// Filled rows of every cache.
    pub first_row: usize,
    /// Rows that every cache has room for.
    pub capacity: usize,
    /// Rows that every source has.
    pub rows: usize,
}

/// A way to run a plan: an optimisation profile together with one set of shapes and addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// Optimisation profile.
    pub profile: usize,
    /// What else tells apart the shapes and addresses that are bound.
    pub variant: usize,
    /// Whether shapes and addresses stay as they are bound first; otherwise they are set before every run.
    pub exact: bool,
}

/// An input or output as a plan itself describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Its name.
    pub name: String,
    /// Element type, as in `engine.json`: `f32 bf16 f16 i64 bool`.
    pub dtype: String,
    /// Dimensions; `None` where the size varies.
    pub shape: Vec<Option<usize>>,
    /// Whether it is an input.
    pub input: bool,
}

/// A GPU with one stream.
pub trait Device: Sized {
    /// A loaded plan.
    type Program: Program<Self>;
    /// Captured work that can be launched again; freed when dropped.
    type Graph;

    /// Loads the plan of `stage`.
    ///
    /// # Errors
    /// The library refuses the plan.
    fn load(&mut self, stage: &str, plan: &[u8]) -> Result<Self::Program>;

    /// `bytes` bytes of device memory, aligned to [`ALIGN`], of any content.
    ///
    /// # Errors
    /// There is not enough memory.
    fn allocate(&mut self, bytes: usize) -> Result<Address>;

    /// Gives memory back; no queued work may use it. What is left is freed with the device.
    fn free(&mut self, at: Address);

    /// `bytes` bytes of pinned host memory; freed with the device.
    ///
    /// # Errors
    /// There is not enough memory.
    fn pin(&mut self, bytes: usize) -> Result<Pinned>;

    /// Reads pinned memory.
    fn pinned(&self, block: Pinned) -> &[u8];

    /// Writes pinned memory.
    fn pinned_mut(&mut self, block: Pinned) -> &mut [u8];

    /// Queues a copy of a part of `from` to the device.
    ///
    /// # Errors
    /// The driver refuses.
    fn upload(&mut self, to: Address, from: Pinned, part: Range<usize>) -> Result<()>;

    /// Queues a copy of `bytes` bytes to `to`, from byte `at` on.
    ///
    /// # Errors
    /// The driver refuses.
    fn download(&mut self, to: Pinned, at: usize, from: Address, bytes: usize) -> Result<()>;

    /// Queues a copy on the device.
    ///
    /// # Errors
    /// The driver refuses.
    fn copy(&mut self, to: Address, from: Address, bytes: usize) -> Result<()>;

    /// Queues zeros.
    ///
    /// # Errors
    /// The driver refuses.
    fn zero(&mut self, at: Address, bytes: usize) -> Result<()>;

    /// Queues an append, one launch.
    ///
    /// # Errors
    /// The driver refuses.
    fn append_rows(&mut self, launch: &AppendRows) -> Result<()>;

    /// Waits until everything that was queued is done.
    ///
    /// # Errors
    /// Queued work failed.
    fn synchronise(&mut self) -> Result<()>;

    /// From here on work is recorded instead of queued.
    ///
    /// # Errors
    /// The driver refuses.
    fn begin_capture(&mut self) -> Result<()>;

    /// Ends a recording; the recorded work has not been queued.
    ///
    /// # Errors
    /// Something in between cannot be captured.
    fn end_capture(&mut self) -> Result<Self::Graph>;

    /// Queues recorded work.
    ///
    /// # Errors
    /// The driver refuses.
    fn launch(&mut self, graph: &Self::Graph) -> Result<()>;
}

/// A loaded plan.
pub trait Program<D> {
    /// Inputs and outputs.
    ///
    /// # Errors
    /// The library fails.
    fn bindings(&self) -> Result<Vec<Binding>>;

    /// Makes `slot` the present one; a new slot has neither shapes nor addresses.
    ///
    /// # Errors
    /// The plan has no such profile, or the library fails.
    fn select(&mut self, device: &mut D, slot: Slot) -> Result<()>;

    /// Sets the shape of an input of the present slot.
    ///
    /// # Errors
    /// The profile does not allow it.
    fn set_shape(&mut self, name: &str, shape: &[usize]) -> Result<()>;

    /// Sets the address of an input or output of the present slot.
    ///
    /// # Errors
    /// The plan has no such value.
    fn set_address(&mut self, name: &str, at: Address) -> Result<()>;

    /// Queues a run of the present slot.
    ///
    /// # Errors
    /// Something is not bound, or the library fails.
    fn enqueue(&mut self, device: &mut D) -> Result<()>;

    /// Forgets all slots; no queued work or graph may use them.
    fn forget(&mut self);
}
