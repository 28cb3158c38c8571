//! What can go wrong while measuring.

use crate::decode::DecodeError;
use forkcast_engines::backend::BackendError;
use forkcast_engines::bundle::OpenError;
use std::path::PathBuf;

/// Why a model cannot be tuned.
#[derive(Debug, thiserror::Error)]
pub enum CostError {
    /// A stage failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// A prompt cannot be answered.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// ONNX Runtime failed while the host was measured.
    #[error(transparent)]
    Library(#[from] OpenError),
    /// The model holds too few tokens to measure anything.
    #[error("the context of {0} tokens is too short to measure")]
    Context(usize),
    /// `tune.json` cannot be written.
    #[error("{}: cannot write: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}
