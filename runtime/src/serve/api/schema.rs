//! Request bodies as the published description shows them. The server reads bodies with
//! [`super::fields`]; a test compares the names here with the names that are read.

use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Body of `POST /v1/chat/completions`. Any other field is refused.
#[derive(Debug, ToSchema)]
#[schema(as = ChatCompletionRequest)]
pub struct ChatBody {
    /// Name of the served model; may be left out.
    pub model: Option<String>,
    /// The conversation.
    pub messages: Vec<MessageBody>,
    /// Functions that the answer may call; refused when the model's template does not show them.
    pub tools: Option<Vec<Value>>,
    /// `auto` or `none`.
    pub tool_choice: Option<String>,
    /// `enable_thinking`: true or false.
    pub chat_template_kwargs: Option<BTreeMap<String, bool>>,
    /// Most tokens of the answer, reasoning included; without it the context is the limit.
    pub max_tokens: Option<u64>,
    /// The same as `max_tokens`.
    pub max_completion_tokens: Option<u64>,
    /// Whether tokens carry their log-probabilities.
    pub logprobs: Option<bool>,
    /// Alternatives per token, 0 to 20; needs `logprobs`.
    pub top_logprobs: Option<u8>,
    /// Only `{"type": "text"}`.
    pub response_format: Option<Value>,
    /// Only 1.
    pub n: Option<u8>,
    /// 0 to 100; 0 takes the likeliest token.
    pub temperature: Option<f32>,
    /// Above 0, at most 1.
    pub top_p: Option<f32>,
    /// 0 keeps all tokens.
    pub top_k: Option<u32>,
    /// 0 to 1.
    pub min_p: Option<f32>,
    /// Above 0, at most 100; 1 is off.
    pub repetition_penalty: Option<f32>,
    /// -2 to 2.
    pub presence_penalty: Option<f32>,
    /// -2 to 2.
    pub frequency_penalty: Option<f32>,
    /// Token id to a number from -100 to 100.
    pub logit_bias: Option<BTreeMap<String, f32>>,
    /// Same seed, same text.
    pub seed: Option<i64>,
    /// A string, or up to 16 of them.
    pub stop: Option<Value>,
    /// Whether tokens are sent as they come.
    pub stream: Option<bool>,
    /// `include_usage`, `include_rounds`; needs `stream`.
    pub stream_options: Option<BTreeMap<String, bool>>,
}

/// A message of a conversation.
#[derive(Debug, ToSchema)]
#[schema(as = ChatMessage)]
pub struct MessageBody {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// A string, or a list of text parts.
    pub content: Option<Value>,
    /// What an assistant thought.
    pub reasoning_content: Option<String>,
    /// Tools that an assistant called.
    pub tool_calls: Option<Vec<Value>>,
    /// Call that a tool answers.
    pub tool_call_id: Option<String>,
}

/// Body of `POST /v1/completions`. Any other field is refused.
#[derive(Debug, ToSchema)]
#[schema(as = CompletionRequest)]
pub struct CompletionBody {
    /// Name of the served model; may be left out.
    pub model: Option<String>,
    /// A string or token ids, or a list with one of them.
    pub prompt: Value,
    /// Most tokens of the answer; 16 when absent.
    pub max_tokens: Option<u64>,
    /// Alternatives per token, 0 to 20.
    pub logprobs: Option<u8>,
    /// Only 1.
    pub n: Option<u8>,
    /// 0 to 100; 0 takes the likeliest token.
    pub temperature: Option<f32>,
    /// Above 0, at most 1.
    pub top_p: Option<f32>,
    /// 0 keeps all tokens.
    pub top_k: Option<u32>,
    /// 0 to 1.
    pub min_p: Option<f32>,
    /// Above 0, at most 100; 1 is off.
    pub repetition_penalty: Option<f32>,
    /// -2 to 2.
    pub presence_penalty: Option<f32>,
    /// -2 to 2.
    pub frequency_penalty: Option<f32>,
    /// Token id to a number from -100 to 100.
    pub logit_bias: Option<BTreeMap<String, f32>>,
    /// Same seed, same text.
    pub seed: Option<i64>,
    /// A string, or up to 16 of them.
    pub stop: Option<Value>,
    /// Whether tokens are sent as they come.
    pub stream: Option<bool>,
    /// `include_usage`, `include_rounds`; needs `stream`.
    pub stream_options: Option<BTreeMap<String, bool>>,
}

/// Body of `POST /tokenize`: `prompt`, or `messages` with what the template takes.
#[derive(Debug, ToSchema)]
#[schema(as = TokenizeRequest)]
pub struct TokenizeBody {
    /// Name of the served model; may be left out.
    pub model: Option<String>,
    /// A raw text.
    pub prompt: Option<String>,
    /// A conversation.
    pub messages: Option<Vec<MessageBody>>,
    /// Tools that the template shows.
    pub tools: Option<Vec<Value>>,
    /// `enable_thinking`: true or false.
    pub chat_template_kwargs: Option<BTreeMap<String, bool>>,
}

/// Body of `POST /detokenize`.
#[derive(Debug, ToSchema)]
#[schema(as = DetokenizeRequest)]
pub struct DetokenizeBody {
    /// Name of the served model; may be left out.
    pub model: Option<String>,
    /// Token ids.
    pub tokens: Vec<u32>,
}
