//! Recorded work.

use super::Shared;
use super::driver::said;
use crate::gpu::device::{DeviceError, Result};
use cudarc::driver::{result, sys};
use std::rc::Rc;

/// A recorded graph.
pub(in crate::gpu) struct Graph {
    graph: sys::CUgraph,
    exec: sys::CUgraphExec,
    shared: Rc<Shared>,
}

impl Graph {
    /// Takes over what a recording gave, and makes it ready to launch.
    pub(super) fn new(graph: sys::CUgraph, shared: Rc<Shared>) -> Result<Self> {
        let mut made = Self {
            graph,
            exec: std::ptr::null_mut(),
            shared,
        };
        if graph.is_null() {
            return Err(DeviceError("the recording was invalidated".to_owned()));
        }
        // SAFETY: the graph is live and owned by `made`.
        made.exec =
            unsafe { result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)) }.map_err(said)?;
        Ok(made)
    }

    /// What the driver launches.
    pub(super) fn exec(&self) -> sys::CUgraphExec {
        self.exec
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.shared.driver.enter().is_err() {
            return;
        }
        // SAFETY: both handles were made together and are destroyed once; the executor waits before it drops graphs.
        unsafe {
            if !self.exec.is_null() {
                let _ = result::graph::exec_destroy(self.exec);
            }
            if !self.graph.is_null() {
                let _ = result::graph::destroy(self.graph);
            }
        }
    }
}
