//! Why a model cannot be opened, what to do about it, and which exit code says so.

use crate::manifest::ManifestError;
use std::path::PathBuf;

/// Failure to open a model.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder has no manifest.
    #[error("{path}: not a bundle ({found})")]
    NotABundle {
        /// What was passed.
        path: PathBuf,
        /// What it is instead.
        found: String,
    },
    /// The manifest is unusable.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A file is missing or unreadable.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is not the one that was exported.
    #[error("{path}: {what} since the export (expected {expected}, found {found})")]
    Changed {
        /// The file.
        path: PathBuf,
        /// What changed: size, header or content.
        what: &'static str,
        /// As recorded.
        expected: String,
        /// As found.
        found: String,
    },
    /// The bundle's numbers are not for this engine.
    #[error("a {dtype} bundle is for TensorRT; ONNX Runtime's CPU provider has no {dtype} arithmetic")]
    Dtype {
        /// Type of the bundle.
        dtype: &'static str,
    },
    /// The library is missing or unusable.
    #[error("ONNX Runtime library: {0}")]
    Library(String),
    /// The library refuses a graph.
    #[error("{path}: ONNX Runtime refuses the graph: {reason}")]
    Graph {
        /// The graph.
        path: PathBuf,
        /// What the library said.
        reason: String,
    },
    /// A graph is not the one that the manifest describes.
    #[error("{path}: not what the manifest says: {reason}")]
    Mismatch {
        /// The graph.
        path: PathBuf,
        /// What differs.
        reason: String,
    },
    /// Caches or states do not fit this host.
    #[error("memory: {0}")]
    Memory(String),
    /// An option does not fit the model.
    #[error("{0}")]
    Option(String),
}

impl OpenError {
    /// 2: unusable input; 3: something is missing on this host.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Library(_) | Self::Memory(_) | Self::Dtype { .. } => 3,
            _ => 2,
        }
    }

    /// What the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotABundle { .. } => {
                Some("make a bundle with `forkcast export --target DIR --out BUNDLE`".to_owned())
            }
            Self::Changed { .. } => Some("export the bundle again, or put the original file back".to_owned()),
            Self::Dtype { .. } => Some("export --dtype f32".to_owned()),
            Self::Library(_) => Some("run `make`, or set ORT_DYLIB_PATH to libonnxruntime.so".to_owned()),
            Self::Memory(_) => Some("lower --max-context, or use a host with more memory".to_owned()),
            Self::Io { .. } => Some("put the file back, or export the bundle again".to_owned()),
            Self::Graph { .. } | Self::Mismatch { .. } => {
                Some("export the bundle again with this version of forkcast".to_owned())
            }
            Self::Manifest(_) | Self::Option(_) => None,
        }
    }
}
