//! What can be wrong with suites, settings and records.

use crate::decode::DecodeError;
use crate::text::TextError;
use std::path::PathBuf;

/// Why a bench cannot run or a record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A suite file is unusable.
    #[error("{}:{line}: {reason}", path.display())]
    Suite {
        /// The file.
        path: PathBuf,
        /// Line from 1; for a JSON array, the place of the element from 1; 0 for the file itself.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A prompt of a suite cannot be asked.
    #[error("suite {suite}, prompt {prompt}: {source}")]
    Prompt {
        /// Suite.
        suite: String,
        /// Prompt.
        prompt: String,
        /// Why.
        source: TextError,
    },
    /// The engine failed or refused while a prompt was answered.
    #[error("suite {suite}, prompt {prompt}, {cell}: {source}")]
    Decode {
        /// Suite.
        suite: String,
        /// Prompt.
        prompt: String,
        /// Method, budget, temperature.
        cell: String,
        /// Why.
        source: Box<DecodeError>,
    },
    /// Flags that do not go together or do not fit the model.
    #[error("{0}")]
    Settings(String),
    /// A record that is no record.
    #[error("{}: {reason}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Two records of different things.
    #[error("not comparable: {0}")]
    Incomparable(String),
    /// A plot cannot be drawn.
    #[error("plot {name}: {reason}")]
    Plot {
        /// File name.
        name: &'static str,
        /// What the library said.
        reason: String,
    },
}

impl BenchError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Suite { .. } => {
                "a suite is JSON lines with `messages`, `prompt` or `ids`, or one of gsm8k, math500, aime, humaneval, mbpp, mt-bench"
            }
            Self::Prompt { source, .. } => return source.hint().map(ToString::to_string),
            Self::Decode { source, .. } => return source.hint().map(str::to_owned),
            Self::Settings(_) => "see `forkcast help bench`",
            Self::Record { .. } => "name the bench.json that `forkcast bench --out DIR` wrote",
            Self::Incomparable(_) => "run both with the same suites, settings and weights",
            Self::Plot { .. } => return None,
        };
        Some(text.to_owned())
    }

    /// Whether the input was at fault, and not the run.
    #[must_use]
    pub fn is_input(&self) -> bool {
        match self {
            Self::Decode { source, .. } => source.is_input(),
            Self::Plot { .. } => false,
            _ => true,
        }
    }
}
