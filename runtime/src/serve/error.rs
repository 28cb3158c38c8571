//! Why a server does not start or does not go on.

use crate::decode::DecodeError;
use crate::text::TextError;
use forkcast_engines::backend::BackendError;
use forkcast_engines::bundle::OpenError;
use forkcast_engines::manifest::ManifestError;
use forkcast_engines::model::ModelError;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Failure of `forkcast serve`.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The bundle's manifest cannot be used.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// Tokenizer or template cannot be used.
    #[error(transparent)]
    Text(#[from] TextError),
    /// `generation_config.json` cannot be used.
    #[error("{path}: {reason}")]
    GenerationConfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// An API key cannot be used.
    #[error("{origin}: {reason}")]
    Key {
        /// Flag or file.
        origin: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A value of the command line cannot be used.
    #[error("{flag}: {reason}")]
    Flag {
        /// The flag.
        flag: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// Method, budget or mode do not fit the engine.
    #[error(transparent)]
    Settings(DecodeError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address.
        address: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The engine cannot be opened: it does not fit this host, or a library is missing.
    #[error(transparent)]
    Open(#[from] ModelError),
    /// The engine failed while it was warmed up.
    #[error("warm-up: {0}")]
    WarmUp(DecodeError),
    /// The engine failed and did not recover.
    #[error("the engine failed: {0}")]
    Engine(BackendError),
    /// The engine's thread ended without a word.
    #[error("the engine's thread ended unexpectedly")]
    WorkerLost,
    /// No thread could be started.
    #[error("cannot start the engine's thread: {0}")]
    Thread(std::io::Error),
    /// The asynchronous runtime could not be started, or signals cannot be received.
    #[error("cannot start the server: {0}")]
    Runtime(std::io::Error),
    /// Serving ended with an error.
    #[error("serving on {address}: {source}")]
    Http {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The metrics could not be set up.
    #[error("metrics: {0}")]
    Metrics(#[from] metrics_exporter_prometheus::BuildError),
}

impl From<OpenError> for ServeError {
    fn from(error: OpenError) -> Self {
        Self::Open(error.into())
    }
}

impl ServeError {
    /// Exit code of the program: 2 wrong usage or files, 3 does not fit this host, 5 failure while running.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Manifest(_)
            | Self::Text(_)
            | Self::GenerationConfig { .. }
            | Self::Key { .. }
            | Self::Flag { .. }
            | Self::Settings(_) => 2,
            Self::Open(error) => error.exit_code(),
            _ => 5,
        }
    }

    /// What the user can do about it, where something can be done.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Open(e) => return e.hint(),
            Self::Text(e) => e.hint(),
            Self::Settings(e) | Self::WarmUp(e) => e.hint(),
            Self::Flag { flag: "--host", .. } => {
                Some("--host takes an address of this machine: 127.0.0.1, or 0.0.0.0 for all of them")
            }
            Self::Bind { .. } => Some("another server may hold the port: choose another with --port"),
            _ => None,
        };
        hint.map(str::to_owned)
    }
}
