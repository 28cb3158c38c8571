//! The GPU engine: plans of an engine directory, run on one stream.
//!
//! Three layers. [`device`] is what is asked of a GPU; [`GpuBackend`] is everything that an engine does, over any device; the
//! real device (`cuda`, with a feature `tensorrt` or `tensorrt-enterprise`) is TensorRT and the CUDA driver. Tests put host
//! memory and ONNX Runtime in its place.
//!
//! **Waits.** Work is queued and the host waits only for results: once for the candidates of a draft, once for the logits
//! of a verify pass, so twice a round with a draft and once without. More waits come from candidates beyond the 64 best, from rows
//! of full logits that are read in several calls, from every fourth pass of a long prompt (upload blocks are used again), and
//! from growing caches. [`Counters::syncs`] counts all of them.
//!
//! **Graphs.** The first run of a plan with some shapes and addresses is queued as it is, the second is recorded
//! as a CUDA graph, and later ones launch the recording. Commits of prompt chunks have too many lengths and are never recorded.
//!
//! [`Counters::syncs`]: crate::backend::Counters::syncs

mod backend;
mod buckets;
mod buffers;
mod caches;
mod check;
#[cfg(any(feature = "tensorrt", feature = "tensorrt-enterprise"))]
mod cuda;
pub mod device;
mod drafter;
mod error;
mod head;
mod lane;
mod load;
mod results;
mod stage;
mod target;
mod weights;

pub use backend::GpuBackend;
pub use error::GpuError;

use crate::backend::Backend;
use std::path::{Path, PathBuf};

/// How to open an engine directory.
#[derive(Clone, Debug)]
pub struct GpuOptions {
    /// Bundle with the weights; the one that the engine names by default.
    pub bundle: Option<PathBuf>,
    /// Bundle whose drafter is bound instead, of the same shape.
    pub drafter: Option<PathBuf>,
    /// Upper bound of prompt plus answer; the engine's own by default.
    pub max_context: Option<usize>,
    /// Whether runs are recorded as CUDA graphs; a recording that fails is an error.
    pub capture: bool,
}

impl Default for GpuOptions {
    fn default() -> Self {
        Self {
            bundle: None,
            drafter: None,
            max_context: None,
            capture: true,
        }
    }
}

/// What loading tells while it works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// A plan is being loaded.
    Plan {
        /// Its stage.
        stage: &'a str,
        /// Its number, from 1.
        number: usize,
        /// Plans in all.
        of: usize,
    },
    /// Weights are being uploaded.
    Weights {
        /// Bytes queued so far.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
}

/// Listens to loading.
pub type Listener<'a> = dyn FnMut(&Progress<'_>) + 'a;

/// Opens the engine directory `dir` on the GPU of this host.
///
/// # Errors
/// The directory or a bundle is unusable, they do not go together, or they do not fit this host; without a feature
/// `tensorrt` or `tensorrt-enterprise` always, with exit code 3.
#[cfg(any(feature = "tensorrt", feature = "tensorrt-enterprise"))]
pub fn open(
    dir: &Path,
    options: &GpuOptions,
    listener: &mut Listener<'_>,
) -> Result<Box<dyn Backend>, GpuError> {
    let device = cuda::open(dir, options)?;
    Ok(Box::new(GpuBackend::open(device, dir, options, listener)?))
}

/// Opens the engine directory `dir` on the GPU of this host.
///
/// # Errors
/// Always: this build of forkcast has no GPU engine.
#[cfg(not(any(feature = "tensorrt", feature = "tensorrt-enterprise")))]
pub fn open(dir: &Path, _: &GpuOptions, _: &mut Listener<'_>) -> Result<Box<dyn Backend>, GpuError> {
    // What is wrong with the directory is said first: it is wrong in every build.
    crate::engine::read(dir)?;
    Err(GpuError::Host {
        reason: format!(
            "{}: this build of forkcast runs no TensorRT engines",
            dir.display()
        ),
        hint: "`make tensorrt` builds one that does; bundles run on the CPU with this one".to_owned(),
    })
}
