//! What surrounds answers: ids, choices, usage.

use super::response::{ChatLogprobs, Finish, Made, Message, TextLogprobs, Usage};
use serde::Serialize;
use utoipa::ToSchema;

/// An answer, or a chunk of one: `C` is the kind of choice.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Envelope<C> {
    /// Name of this answer; the same in all its chunks.
    pub id: String,
    /// What this is: `chat.completion`, `chat.completion.chunk` or `text_completion`.
    pub object: &'static str,
    /// Unix time in seconds.
    pub created: u64,
    /// Served model.
    pub model: String,
    /// One choice; none in the chunk that carries the usage.
    pub choices: Vec<C>,
    /// Tokens; in streams only with `stream_options.include_usage`, in a chunk of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// How the answer was made; in streams in the chunk with the finish reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forkcast: Option<Made>,
    /// With `stream_options.include_rounds`: round of this chunk, and its tree in the round's first chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round: Option<RoundView>,
}

/// Choice of a whole answer in a conversation.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ChatChoice {
    /// Always 0.
    pub index: usize,
    /// The answer.
    pub message: Message,
    /// When asked for.
    pub logprobs: Option<ChatLogprobs>,
    /// Why it ended.
    pub finish_reason: Finish,
}

/// Choice of a chunk.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ChatDelta {
    /// Always 0.
    pub index: usize,
    /// What is new.
    pub delta: Message,
    /// Of the tokens since the last chunk, when asked for.
    pub logprobs: Option<ChatLogprobs>,
    /// Why the answer ended, in its last chunk.
    pub finish_reason: Option<Finish>,
}

/// Choice of a continued text, or of a chunk of it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TextChoice {
    /// Always 0.
    pub index: usize,
    /// The text, or what is new of it.
    pub text: String,
    /// When asked for.
    pub logprobs: Option<TextLogprobs>,
    /// Why it ended; null in all chunks but the last.
    pub finish_reason: Option<Finish>,
}

/// A round as a chunk shows it.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct RoundView {
    /// Number of the round, from 1; 0 is prefill.
    pub number: usize,
    /// Place of the chunk's token in the answer, from 0.
    pub token: usize,
    /// Seconds since the request was taken from the queue.
    pub seconds: f64,
    /// The verified tree, in the first chunk of the round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeView>,
}

/// A verified tree; entry i describes row i, row 0 is the anchor.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct TreeView {
    /// Text of each row's token.
    pub tokens: Vec<String>,
    /// Parent of each row; -1 for the anchor.
    pub parents: Vec<i32>,
    /// Draft log-probability of each row's path.
    pub scores: Vec<f64>,
    /// Accepted rows, the anchor first.
    pub path: Vec<u32>,
}

/// `GET /v1/models`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ModelList {
    /// Always `list`.
    pub object: &'static str,
    /// The one model.
    pub data: Vec<ModelEntry>,
}

/// A served model.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ModelEntry {
    /// Name to ask for.
    pub id: String,
    /// Always `model`.
    pub object: &'static str,
    /// When the server started, Unix seconds.
    pub created: u64,
    /// Always `forkcast`.
    pub owned_by: &'static str,
    /// Most tokens of prompt and answer.
    pub max_model_len: usize,
}

/// `GET /health` and `GET /live`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Status {
    /// `ok`.
    pub status: &'static str,
}

/// `GET /version`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Version {
    /// Version of forkcast.
    pub version: &'static str,
    /// Served model.
    pub model: String,
    /// Method that makes the trees; null while loading.
    pub method: Option<&'static str>,
    /// Most nodes of a tree; null while loading.
    pub budget: Option<usize>,
}
