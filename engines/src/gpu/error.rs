//! Why an engine cannot be opened, and which exit code says so.

use super::device::DeviceError;
use crate::bundle::OpenError;
use crate::engine::EngineError;
use std::path::PathBuf;

/// Failure to open an engine directory.
#[derive(Debug, thiserror::Error)]
pub enum GpuError {
    /// The description is missing or unusable.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The bundle with the weights is unusable.
    #[error(transparent)]
    Bundle(#[from] OpenError),
    /// A file is not the one that was built.
    #[error("{path}: {what} (expected {expected}, found {found})")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
        /// As recorded.
        expected: String,
        /// As found.
        found: String,
    },
    /// The engine does not fit this host, or this build of forkcast.
    #[error("{reason}")]
    Host {
        /// What does not fit.
        reason: String,
        /// What to do.
        hint: String,
    },
    /// Engine, bundle and drafter do not go together.
    #[error("{reason}")]
    Mismatch {
        /// What contradicts.
        reason: String,
        /// What to do.
        hint: String,
    },
    /// An option does not fit the engine.
    #[error("{0}")]
    Option(String),
    /// The GPU has no room for it.
    #[error("{what}: {reason}")]
    Memory {
        /// What was to be placed.
        what: String,
        /// What the driver said.
        reason: DeviceError,
    },
    /// Driver or library fail.
    #[error("{stage}: {reason}")]
    Device {
        /// What was being done.
        stage: String,
        /// What they said.
        reason: DeviceError,
    },
}

impl GpuError {
    /// 1: a plan is not what was built; 2: unusable input; 3: does not fit this host; 5: failed while loading.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Corrupt { .. } => 1,
            Self::Bundle(error) => error.exit_code(),
            Self::Host { .. } | Self::Mismatch { .. } | Self::Memory { .. } => 3,
            Self::Device { .. } => 5,
            Self::Engine(_) | Self::Option(_) => 2,
        }
    }

    /// What the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Bundle(error) => error.hint(),
            Self::Host { hint, .. } | Self::Mismatch { hint, .. } => Some(hint.clone()),
            Self::Corrupt { .. } => Some(
                "copy the engine directory again, or build it again: forkcast build BUNDLE --recipe NAME --out DIR"
                    .to_owned(),
            ),
            Self::Memory { .. } => Some("use a recipe with smaller context buckets, or a GPU with more memory".to_owned()),
            Self::Device { .. } => Some("run again with RUST_LOG=info for what the library says".to_owned()),
            Self::Engine(_) | Self::Option(_) => None,
        }
    }
}
