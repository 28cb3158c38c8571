//! Why an engine cannot be built, and which exit code says so.

use crate::bundle::OpenError;
use crate::engine::EngineError;
use crate::recipe::RecipeError;
use crate::staging::StagingError;
use std::path::PathBuf;

/// Failure of a build. Nothing is left behind, and an engine directory that was there before stays as it was.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The bundle is unusable.
    #[error(transparent)]
    Bundle(#[from] OpenError),
    /// The recipe is unusable.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// Bundle and recipe, or an option, do not go together.
    #[error("{reason}")]
    Mismatch {
        /// What contradicts.
        reason: String,
        /// What to do.
        hint: String,
    },
    /// A graph of the bundle is not what its manifest says.
    #[error("{path}: {reason}")]
    Graph {
        /// The graph.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A node that the flavour cannot compile.
    #[error("{path}: node {node:?}: {reason}")]
    Unsupported {
        /// The graph.
        path: PathBuf,
        /// The node.
        node: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The library is missing or of another version.
    #[error("{library}: {reason}")]
    Library {
        /// Which one.
        library: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The library refuses a graph.
    #[error("{stage}: {library} refuses the graph: {reason}")]
    Compile {
        /// Stage of the graph.
        stage: String,
        /// Which library.
        library: &'static str,
        /// What it said.
        reason: String,
    },
    /// The place to write to.
    #[error(transparent)]
    Staging(#[from] StagingError),
    /// The description cannot be written.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The listener said stop.
    #[error("cancelled; nothing was written")]
    Cancelled,
}

impl BuildError {
    /// 2: unusable input; 3: a library is missing; 5: failed while running.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Bundle(error) => error.exit_code(),
            Self::Library { .. } => 3,
            Self::Compile { .. } | Self::Engine(_) | Self::Cancelled => 5,
            Self::Staging(StagingError::Write { .. }) => 5,
            _ => 2,
        }
    }

    /// What the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Bundle(error) => error.hint(),
            Self::Mismatch { hint, .. } => Some(hint.clone()),
            Self::Staging(StagingError::Place { hint, .. }) => Some(hint.clone()),
            Self::Graph { .. } | Self::Unsupported { .. } => {
                Some("export the bundle again with this version of forkcast".to_owned())
            }
            Self::Library { .. } => Some(
                "`make tensorrt` fetches TensorRT-RTX and builds forkcast with it; TensorRT 11 must be installed"
                    .to_owned(),
            ),
            Self::Staging(StagingError::Write { .. }) | Self::Engine(_) => {
                Some("name a folder in which you may write, with enough room".to_owned())
            }
            Self::Compile { .. } => Some("run again with RUST_LOG=info for what the library says".to_owned()),
            _ => None,
        }
    }
}
