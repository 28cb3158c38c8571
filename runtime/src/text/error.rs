//! Why text could not become tokens.

use std::path::PathBuf;

/// Failure of tokenizer, template or conversation. All of them are the input's fault.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// A file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is not what its format says, or needs something that is not supported.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file is not the one that was exported.
    #[error("{path}: content changed since the export (expected {expected}, found {found})")]
    Changed {
        /// The file.
        path: PathBuf,
        /// Hash that the manifest has.
        expected: String,
        /// Hash of the file.
        found: String,
    },
    /// The model carries no tokenizer.
    #[error("this model has no tokenizer")]
    NoTokenizer,
    /// The model carries no chat template.
    #[error("this model has no chat template")]
    NoTemplate,
    /// The tokenizer failed on a text.
    #[error("the text cannot be encoded: {0}")]
    Encode(String),
    /// The template failed on a conversation, or refused it.
    #[error("chat template: {0}")]
    Template(String),
    /// A conversation is not what its format says.
    #[error("{0}")]
    Conversation(String),
    /// A stop string is unusable.
    #[error("{0}")]
    Stop(&'static str),
}

impl TextError {
    /// What the user can do about it, where something can be done.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoTokenizer => {
                Some("give token ids (--ids), or export from a checkpoint with tokenizer.json")
            }
            Self::NoTemplate => Some("use --prompt, or export from a checkpoint with chat_template.jinja"),
            Self::Conversation(_) => Some(
                "a conversation is [{\"role\": \"user\", \"content\": \"...\"}], or an object with `messages` and perhaps `tools`",
            ),
            Self::Changed { .. } => Some("export the bundle again, or put the original file back"),
            _ => None,
        }
    }

    pub(super) fn file(path: &std::path::Path, reason: impl ToString) -> Self {
        Self::File {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }
}
