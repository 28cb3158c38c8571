//! What can go wrong. Every error names the file, and the tensor or field in it.

use std::path::{Path, PathBuf};

/// Why an export failed. [`ExportError::hint`] says what to do where that is known.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The options contradict each other or the place to write to.
    #[error("{reason}")]
    Usage {
        /// What is wrong.
        reason: String,
        /// What to do.
        hint: Option<String>,
    },
    /// A model given by hub id is not (or not completely) in the local cache.
    #[error("{id}: {reason}")]
    Hub {
        /// The id as given.
        id: String,
        /// What was looked for.
        reason: String,
    },
    /// An input file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// An input file is not what its format says, or a needed file is absent.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// What to do.
        hint: Option<String>,
    },
    /// A tensor is missing, of the wrong shape or type, or not part of the model.
    #[error("{path}: tensor {tensor}: {reason}")]
    Tensor {
        /// The file that holds it, or that should.
        path: PathBuf,
        /// Its name.
        tensor: String,
        /// What is wrong with it.
        reason: String,
        /// What to do.
        hint: Option<String>,
    },
    /// A configuration field is missing, out of range, or changes the maths in a way that is not supported.
    #[error("{path}: {field}: {reason}")]
    Config {
        /// The configuration file.
        path: PathBuf,
        /// The field, with the names of the objects around it.
        field: String,
        /// What is wrong with it.
        reason: String,
        /// What to do.
        hint: Option<String>,
    },
    /// The bundle cannot be written.
    #[error("{path}: cannot write: {source}")]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl ExportError {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Hub { id, .. } => Some(format!("hf download {id}")),
            Self::Usage { hint, .. }
            | Self::File { hint, .. }
            | Self::Tensor { hint, .. }
            | Self::Config { hint, .. } => hint.clone(),
            Self::Write { .. } => Some("name a folder in which you may write, with enough room".to_owned()),
            Self::Read { .. } => None,
        }
    }

    /// Exit code of the command: 2 for unusable input, 5 when writing failed.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Write { .. } => 5,
            _ => 2,
        }
    }

    pub(crate) fn usage(reason: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage {
            reason: reason.into(),
            hint: Some(hint.into()),
        }
    }

    pub(crate) fn file(path: &Path, reason: impl Into<String>) -> Self {
        Self::File {
            path: path.to_owned(),
            reason: reason.into(),
            hint: None,
        }
    }

    pub(crate) fn tensor(path: &Path, tensor: &str, reason: impl Into<String>) -> Self {
        Self::Tensor {
            path: path.to_owned(),
            tensor: tensor.to_owned(),
            reason: reason.into(),
            hint: None,
        }
    }

    pub(crate) fn read(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| Self::Read {
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn write(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| Self::Write {
            path: path.to_owned(),
            source,
        }
    }

    /// The same error with a hint; errors without room for one are returned unchanged.
    pub(crate) fn with_hint(mut self, text: impl Into<String>) -> Self {
        match &mut self {
            Self::Usage { hint, .. }
            | Self::File { hint, .. }
            | Self::Tensor { hint, .. }
            | Self::Config { hint, .. } => *hint = Some(text.into()),
            Self::Hub { .. } | Self::Read { .. } | Self::Write { .. } => {}
        }
        self
    }
}
