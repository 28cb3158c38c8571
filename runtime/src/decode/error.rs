//! Why an answer could not be generated.

use crate::sample::SamplingError;
use forkcast_engines::backend::BackendError;

/// Failure of the loop. [`DecodeError::is_input`] tells refusals of the request from failures while running.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The prompt has no token.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// The prompt leaves no room for an answer.
    #[error("the prompt has {prompt} tokens, the context holds {context} with at least one token of answer")]
    PromptTooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// Most tokens of prompt and answer.
        context: usize,
    },
    /// A prompt token does not exist.
    #[error("token id {id} at place {place} of the prompt is outside the vocabulary of {vocab}")]
    TokenOutside {
        /// The id.
        id: u32,
        /// Its place in the prompt, from 0.
        place: usize,
        /// Vocabulary size.
        vocab: usize,
    },
    /// The budget is too large.
    #[error("budget {0} is outside 0..={max}", max = super::MAX_BUDGET)]
    Budget(usize),
    /// The method needs a drafter, and the model has none.
    #[error("method {0} needs a drafter, and this model has none")]
    NoDrafter(super::Method),
    /// `mfd` on a drafter with one mode.
    #[error("method mfd needs a drafter with several modes, this one has {0}")]
    OneMode(usize),
    /// The mode does not exist.
    #[error("mode {mode} does not exist, the drafter has {modes}")]
    Mode {
        /// Mode asked for.
        mode: usize,
        /// Modes of the drafter.
        modes: usize,
    },
    /// A sampling field is out of range, or a row cannot be sampled.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// The engine failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

impl DecodeError {
    /// Whether the request is at fault (exit code 2, HTTP 400) rather than the engine.
    #[must_use]
    pub fn is_input(&self) -> bool {
        !matches!(
            self,
            Self::Backend(_) | Self::Sampling(SamplingError::BadRow { .. })
        )
    }

    /// What the user can do about it, where something can be done.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::PromptTooLong { .. } => Some("shorten the prompt or raise --max-context"),
            Self::NoDrafter(_) => Some("export the bundle with --drafter, or use --method plain"),
            Self::OneMode(_) => Some("use --method ddtree or chain, or export with an MFD drafter"),
            _ => None,
        }
    }
}
