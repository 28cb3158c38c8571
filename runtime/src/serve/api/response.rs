//! Answers as clients see them.

use serde::{Serialize, Serializer};
use utoipa::ToSchema;

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// A stop token or a stop string came.
    Stop,
    /// `max_tokens` or the context limit was reached.
    Length,
    /// The answer calls tools.
    ToolCalls,
}

impl Finish {
    /// Name as in answers, logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
        }
    }
}

/// Tokens of request and answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens of the answer, a stop token included.
    pub completion_tokens: usize,
    /// Both together.
    pub total_tokens: usize,
    /// Of the prompt.
    pub prompt_tokens_details: PromptDetails,
    /// Of the answer.
    pub completion_tokens_details: CompletionDetails,
}

/// Part of [`Usage`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct PromptDetails {
    /// Tokens whose state was kept from the request before.
    pub cached_tokens: usize,
}

/// Part of [`Usage`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct CompletionDetails {
    /// Tokens that came before the end of the reasoning, tags included.
    pub reasoning_tokens: usize,
}

/// How the answer was made (our own field).
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct Made {
    /// Method that made the trees.
    pub method: &'static str,
    /// Most nodes of a tree.
    pub budget: usize,
    /// Seed of the draws.
    pub seed: u64,
    /// Verify passes after prefill.
    pub rounds: usize,
    /// Of these, passes over a tree; others verified the anchor alone.
    pub drafted_rounds: usize,
    /// Tree nodes verified.
    pub draft_tokens: usize,
    /// Drafted tokens accepted.
    pub accepted_tokens: usize,
    /// Mean tokens per round.
    pub tau: f64,
    /// Seconds in the queue.
    pub queue_seconds: f64,
    /// Seconds from the arrival of the request to the first token.
    pub first_token_seconds: f64,
    /// Tokens after the first per second after the first.
    pub tokens_per_second: f64,
    /// Seconds in each stage.
    pub stage_seconds: Stages,
}

/// Seconds of one answer by stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct Stages {
    /// Prompt passes up to the first token.
    pub prefill: f64,
    /// Drafter passes.
    pub draft: f64,
    /// Tree building.
    pub tree: f64,
    /// Target and head passes.
    pub verify: f64,
    /// Drawing tokens.
    pub walk: f64,
    /// Taking accepted rows into the state.
    pub commit: f64,
}

/// A called tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ToolCall {
    /// Place among the calls of the answer; in streams only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// Name of this call.
    pub id: String,
    /// Always `function`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// What is called.
    pub function: Called,
}

/// Function and arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Called {
    /// Name of the function.
    pub name: String,
    /// Arguments as a JSON object in a string.
    pub arguments: String,
}

/// Message of an answer, or a part of it in a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Message {
    /// Always `assistant`; in streams in the first chunk only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    /// Text for the reader; null in an answer that only calls tools.
    #[serde(skip_serializing_if = "Absent::is_absent")]
    #[schema(value_type = Option<String>)]
    pub content: Absent,
    /// What the model thought before answering.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// Called tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
}

/// A text that may be absent, null or there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::enum_variant_names,
    reason = "the first variant says what the type is about"
)]
pub enum Absent {
    /// The field is left out.
    #[default]
    Absent,
    /// The field is null.
    Null,
    /// The field is a text.
    Text(String),
}

impl Absent {
    fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

impl Serialize for Absent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Absent | Self::Null => serializer.serialize_none(),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

/// A token with its log-probability.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct TokenLogprob {
    /// Text of the token; bytes that are no UTF-8 alone show as U+FFFD.
    pub token: String,
    /// Natural log-probability under the model's own distribution.
    pub logprob: f32,
    /// Bytes of the token.
    pub bytes: Vec<u8>,
    /// Best alternatives, best first.
    pub top_logprobs: Vec<Alternative>,
}

/// An alternative to a token.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Alternative {
    /// Text of the token.
    pub token: String,
    /// Natural log-probability.
    pub logprob: f32,
    /// Bytes of the token.
    pub bytes: Vec<u8>,
}

/// Log-probabilities of an answer in a conversation, or of a part of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct ChatLogprobs {
    /// One entry a token of the answer: reasoning and stop token included.
    pub content: Vec<TokenLogprob>,
}

/// Log-probabilities of a continued text, or of a part of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct TextLogprobs {
    /// Text of each token.
    pub tokens: Vec<String>,
    /// Log-probability of each token.
    pub token_logprobs: Vec<f32>,
    /// Alternatives of each token by text.
    pub top_logprobs: Vec<serde_json::Map<String, serde_json::Value>>,
    /// Where the token starts in the answer, in characters.
    pub text_offset: Vec<usize>,
}
