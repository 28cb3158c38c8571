//! `POST /v1/completions`: what is taken, and what is refused.

use super::ApiError;
use super::common::{Common, MAX_TOP_LOGPROBS};
use super::fields::{Fields, Read, wrong};
use serde_json::Value;

/// Tokens of an answer when the request does not say, as the original API has it.
pub const DEFAULT_MAX_TOKENS: usize = 16;

/// A raw prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// Text, to be tokenized.
    Text(String),
    /// Token ids.
    Ids(Vec<u32>),
}

/// A valid request to continue a text.
#[derive(Clone, Debug, PartialEq)]
pub struct CompletionRequest {
    /// Fields shared with chat.
    pub common: Common,
    /// What is continued.
    pub prompt: Prompt,
    /// `max_tokens`.
    pub max_tokens: usize,
    /// `logprobs`: how many alternatives each token carries.
    pub logprobs: Option<usize>,
}

impl CompletionRequest {
    /// Reads a request body.
    pub fn parse(body: &[u8]) -> Read<Self> {
        let mut fields = Fields::body(body)?;
        let request = Self::read(&mut fields)?;
        fields.finish()?;
        Ok(request)
    }

    pub(super) fn read(fields: &mut Fields) -> Read<Self> {
        Ok(Self {
            common: Common::read(fields)?,
            max_tokens: fields
                .whole("max_tokens", 1..=usize::MAX)?
                .unwrap_or(DEFAULT_MAX_TOKENS),
            logprobs: fields.whole("logprobs", 0..=MAX_TOP_LOGPROBS)?,
            prompt: read_prompt(fields)?,
        })
    }
}

/// `prompt`: a string, token ids, or a list with one of them.
fn read_prompt(fields: &mut Fields) -> Read<Prompt> {
    let value = fields.take("prompt").ok_or_else(|| fields.missing("prompt"))?;
    match value {
        Value::String(text) => Ok(Prompt::Text(text)),
        Value::Array(mut list) if list.first().is_some_and(|v| v.is_string() || v.is_array()) => {
            if list.len() > 1 {
                let reason = format!(
                    "{} prompts, there is one stream: send them one by one",
                    list.len()
                );
                return Err(fields.invalid("prompt", reason));
            }
            match list.swap_remove(0) {
                Value::String(text) => Ok(Prompt::Text(text)),
                Value::Array(ids) => read_ids("prompt[0]", ids).map(Prompt::Ids),
                other => Err(wrong("prompt[0]".to_owned(), "a string or token ids", &other)),
            }
        }
        Value::Array(ids) => read_ids("prompt", ids).map(Prompt::Ids),
        other => Err(wrong(fields.place("prompt"), "a string or token ids", &other)),
    }
}

/// A list of token ids.
pub(super) fn read_ids(place: &str, list: Vec<Value>) -> Result<Vec<u32>, ApiError> {
    let one = |(i, value): (usize, Value)| match value.as_u64().and_then(|v| u32::try_from(v).ok()) {
        Some(id) => Ok(id),
        None => Err(wrong(format!("{place}[{i}]"), "a token id", &value)),
    };
    list.into_iter().enumerate().map(one).collect()
}
