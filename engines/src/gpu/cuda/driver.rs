//! Memory, the stream, graphs and the append kernel, through the CUDA driver.

use super::Shared;
use super::graph::Graph;
use super::program::Plan;
use crate::gpu::device::{ALIGN, Address, AppendRows, Device, DeviceError, Pinned, Result};
use cudarc::driver::{result, sys};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ops::Range;
use std::rc::Rc;

/// The append kernel, made by `make ptx` in `plugins/cuda`, with the zero that the driver wants behind it.
const PTX: &str = concat!(include_str!("kv_row_append.ptx"), "\0");
const KERNEL: &std::ffi::CStr = c"forkcast_kv_row_append";
/// Threads of a block of the kernel.
const THREADS: u32 = 128;

pub(super) fn said(error: result::DriverError) -> DeviceError {
    DeviceError(error.to_string())
}

/// The driver's side of a device.
pub(super) struct Driver {
    device: sys::CUdevice,
    context: sys::CUcontext,
    pub(super) stream: sys::CUstream,
    module: sys::CUmodule,
    kernel: sys::CUfunction,
    memory: RefCell<BTreeSet<u64>>,
    /// Memory that plans work in, one after another on one stream.
    scratch: Cell<(Address, usize)>,
    pinned: RefCell<Vec<*mut c_void>>,
}

/// `KvRowAppendParams` of `plugins/cuda/kernels/kernels.h`.
#[repr(C)]
struct AppendParams {
    copies: u64,
    path: u64,
    first_row: i64,
    capacity: i64,
    copy_count: i32,
    path_length: i32,
    rows: i32,
}

impl Driver {
    /// Opens GPU `ordinal`. The caller knows that the driver is there.
    pub(super) fn open(ordinal: usize) -> Result<Self> {
        result::init().map_err(said)?;
        let device = result::device::get(i32::try_from(ordinal).unwrap_or(0)).map_err(said)?;
        // SAFETY: the driver just gave this device; the context is released in `drop`.
        let context = unsafe { result::primary_ctx::retain(device) }.map_err(said)?;
        let mut driver = Self {
            device,
            context,
            stream: std::ptr::null_mut(),
            module: std::ptr::null_mut(),
            kernel: std::ptr::null_mut(),
            memory: RefCell::default(),
            scratch: Cell::new((Address(0), 0)),
            pinned: RefCell::default(),
        };
        driver.enter()?;
        driver.stream = result::stream::create(result::stream::StreamKind::NonBlocking).map_err(said)?;
        // SAFETY: the image is text with a zero behind it, and the context is current.
        driver.module = unsafe { result::module::load_data(PTX.as_ptr().cast()) }.map_err(said)?;
        // SAFETY: the module was just loaded.
        driver.kernel =
            unsafe { result::module::get_function(driver.module, KERNEL.to_owned()) }.map_err(said)?;
        Ok(driver)
    }

    /// Makes the context current, whichever thread this is.
    pub(super) fn enter(&self) -> Result<()> {
        // SAFETY: the context is retained for as long as `self` lives.
        unsafe { result::ctx::set_current(self.context) }.map_err(said)
    }

    fn allocate(&self, bytes: usize) -> Result<Address> {
        self.enter()?;
        let bytes = bytes.max(ALIGN);
        // SAFETY: the memory is written before anything reads it (`Lane::zeros`, weights, outputs) and freed once.
        let at = unsafe { result::malloc_sync(bytes) }
            .map_err(|e| DeviceError(format!("{bytes} bytes of GPU memory: {e}")))?;
        self.memory.borrow_mut().insert(at);
        Ok(Address(at))
    }

    /// Working memory of `bytes` bytes. A larger block replaces a smaller one for plans to come; those that are bound to the
    /// smaller one keep it.
    pub(super) fn scratch(&self, bytes: usize) -> Result<Address> {
        let (at, size) = self.scratch.get();
        if bytes <= size {
            return Ok(at);
        }
        let at = self.allocate(bytes)?;
        self.scratch.set((at, bytes));
        Ok(at)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if self.enter().is_err() {
            return;
        }
        // Nobody can be told of a failure here, and the process is about to let go of the GPU anyway.
        // SAFETY: everything was made by this driver, is freed once, and after the work that uses it is done; plans, graphs
        // and the runtime are gone, since they hold on to `Shared`.
        unsafe {
            if !self.stream.is_null() {
                let _ = result::stream::synchronize(self.stream);
            }
            for at in self.memory.get_mut().iter() {
                let _ = result::free_sync(*at);
            }
            for block in self.pinned.get_mut().drain(..) {
                let _ = result::free_host(block);
            }
            if !self.module.is_null() {
                let _ = result::module::unload(self.module);
            }
            if !self.stream.is_null() {
                let _ = result::stream::destroy(self.stream);
            }
            let _ = result::primary_ctx::release(self.device);
        }
    }
}

/// A GPU with TensorRT.
pub(in crate::gpu) struct Cuda {
    shared: Rc<Shared>,
    /// Pinned blocks; the driver frees them.
    blocks: Vec<(*mut u8, usize)>,
}

impl Cuda {
    pub(super) fn new(shared: Rc<Shared>) -> Self {
        Self {
            shared,
            blocks: Vec::new(),
        }
    }

    fn driver(&self) -> Result<&Driver> {
        self.shared.driver.enter()?;
        Ok(&self.shared.driver)
    }
}

impl Device for Cuda {
    type Program = Plan;
    type Graph = Graph;

    fn load(&mut self, stage: &str, plan: &[u8]) -> Result<Plan> {
        self.driver()?;
        Plan::load(stage, plan, Rc::clone(&self.shared))
    }

    fn allocate(&mut self, bytes: usize) -> Result<Address> {
        self.shared.driver.allocate(bytes)
    }

    fn free(&mut self, at: Address) {
        let driver = &self.shared.driver;
        if driver.enter().is_ok() && driver.memory.borrow_mut().remove(&at.0) {
            // SAFETY: it was allocated here and is freed once; the caller has waited for the work that uses it.
            let _ = unsafe { result::free_sync(at.0) };
        }
    }

    fn pin(&mut self, bytes: usize) -> Result<Pinned> {
        let driver = self.driver()?;
        // SAFETY: the memory is set to zero below before it can be read.
        let block = unsafe { result::malloc_host(bytes.max(1), 0) }
            .map_err(|e| DeviceError(format!("{bytes} bytes of pinned memory: {e}")))?;
        driver.pinned.borrow_mut().push(block);
        let block = block.cast::<u8>();
        // SAFETY: the driver gave `bytes` bytes.
        unsafe { block.write_bytes(0, bytes.max(1)) };
        self.blocks.push((block, bytes));
        Ok(Pinned {
            id: self.blocks.len() - 1,
            bytes,
        })
    }

    fn pinned(&self, block: Pinned) -> &[u8] {
        let Some((at, bytes)) = self.blocks.get(block.id) else {
            return &[];
        };
        // SAFETY: the block holds `bytes` initialised bytes for as long as `self` lives; queued copies into it are
        // waited for before it is read.
        unsafe { std::slice::from_raw_parts(*at, *bytes) }
    }

    fn pinned_mut(&mut self, block: Pinned) -> &mut [u8] {
        let Some((at, bytes)) = self.blocks.get(block.id) else {
            return &mut [];
        };
        // SAFETY: as above; blocks do not overlap, and queued copies from it are waited for before it is written.
        unsafe { std::slice::from_raw_parts_mut(*at, *bytes) }
    }

    fn upload(&mut self, to: Address, from: Pinned, part: Range<usize>) -> Result<()> {
        let driver = self.driver()?;
        let bytes = self.pinned(from).get(part);
        let bytes = bytes.ok_or_else(|| DeviceError("an upload beyond its block".to_owned()))?;
        // SAFETY: the source is pinned and left alone until the next wait; the target is the executor's own block, which it
        // sized for this copy.
        unsafe { result::memcpy_htod_async(to.0, bytes, driver.stream) }.map_err(said)
    }

    fn download(&mut self, to: Pinned, at: usize, from: Address, bytes: usize) -> Result<()> {
        let stream = self.driver()?.stream;
        let part = self.pinned_mut(to).get_mut(at..at + bytes);
        let part = part.ok_or_else(|| DeviceError("a download beyond its block".to_owned()))?;
        // SAFETY: the target is pinned and left alone until the next wait; the source is a block of at least that size.
        unsafe { result::memcpy_dtoh_async(part, from.0, stream) }.map_err(said)
    }

    fn copy(&mut self, to: Address, from: Address, bytes: usize) -> Result<()> {
        let driver = self.driver()?;
        // SAFETY: both blocks are the executor's own, at least that large, and not freed before a wait.
        unsafe { result::memcpy_dtod_async(to.0, from.0, bytes, driver.stream) }.map_err(said)
    }

    fn zero(&mut self, at: Address, bytes: usize) -> Result<()> {
        let driver = self.driver()?;
        // SAFETY: the block is the executor's own and at least that large.
        unsafe { result::memset_d8_async(at.0, 0, bytes, driver.stream) }.map_err(said)
    }

    fn append_rows(&mut self, launch: &AppendRows) -> Result<()> {
        let driver = self.driver()?;
        let small = |n: usize| i32::try_from(n).map_err(|_| DeviceError(format!("{n} rows or caches")));
        let mut params = AppendParams {
            copies: launch.copies.0,
            path: launch.path.0,
            first_row: launch.first_row as i64,
            capacity: launch.capacity as i64,
            copy_count: small(launch.copy_count)?,
            path_length: small(launch.path_length)?,
            rows: small(launch.rows)?,
        };
        let grid = (params.path_length as u32, params.copy_count as u32, 1);
        let mut list = [(&raw mut params).cast::<c_void>()];
        // SAFETY: the kernel takes this struct by value, which the driver copies during the call; it checks row numbers and
        // rows against the sizes given, and the table and path lie in blocks of the executor.
        unsafe { result::launch_kernel(driver.kernel, grid, (THREADS, 1, 1), 0, driver.stream, &mut list) }
            .map_err(said)
    }

    fn synchronise(&mut self) -> Result<()> {
        let driver = self.driver()?;
        // SAFETY: the stream lives as long as the driver.
        unsafe { result::stream::synchronize(driver.stream) }.map_err(said)
    }

    fn begin_capture(&mut self) -> Result<()> {
        let driver = self.driver()?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream lives as long as the driver.
        unsafe { result::stream::begin_capture(driver.stream, mode) }.map_err(said)
    }

    fn end_capture(&mut self) -> Result<Graph> {
        let driver = self.driver()?;
        // SAFETY: the stream lives as long as the driver and is recording.
        let graph = unsafe { result::stream::end_capture(driver.stream) }.map_err(said)?;
        Graph::new(graph, Rc::clone(&self.shared))
    }

    fn launch(&mut self, graph: &Graph) -> Result<()> {
        let driver = self.driver()?;
        // SAFETY: the graph is whole, or `end_capture` would not have given it; what it is bound to lives until it is forgotten.
        unsafe { result::graph::launch(graph.exec(), driver.stream) }.map_err(said)
    }
}
