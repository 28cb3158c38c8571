//! `/tokenize` and `/detokenize`.

use super::chat::template_thinking;
use super::completion::read_ids;
use super::fields::{Fields, Read};
use super::message::{Messages, read_messages};
use super::tool::{Tool, read_tools};
use serde::Serialize;
use utoipa::ToSchema;

/// What is to be tokenized.
#[derive(Clone, Debug, PartialEq)]
pub enum TokenizeRequest {
    /// A raw text.
    Text(String),
    /// A conversation, through the chat template.
    Chat {
        /// The conversation.
        messages: Messages,
        /// Tools that the template renders.
        tools: Vec<Tool>,
        /// `enable_thinking` of `chat_template_kwargs`.
        thinking: Option<bool>,
    },
}

impl TokenizeRequest {
    /// Reads a request body; gives the model asked for beside it.
    pub fn parse(body: &[u8]) -> Read<(Option<String>, Self)> {
        let mut fields = Fields::body(body)?;
        let request = Self::read(&mut fields)?;
        fields.finish()?;
        Ok(request)
    }

    pub(super) fn read(fields: &mut Fields) -> Read<(Option<String>, Self)> {
        let model = fields.string("model")?;
        if let Some(text) = fields.string("prompt")? {
            return Ok((model, Self::Text(text)));
        }
        let chat = Self::Chat {
            tools: read_tools(fields)?,
            thinking: template_thinking(fields)?,
            messages: read_messages(fields)?,
        };
        Ok((model, chat))
    }
}

/// Reads the body of `/detokenize`: the model asked for and the ids.
pub fn read_detokenize(body: &[u8]) -> Read<(Option<String>, Vec<u32>)> {
    let mut fields = Fields::body(body)?;
    let model = fields.string("model")?;
    let list = fields.array("tokens")?.ok_or_else(|| fields.missing("tokens"))?;
    let ids = read_ids("tokens", list)?;
    fields.finish()?;
    Ok((model, ids))
}

/// Answer of `/tokenize`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Tokenized {
    /// Number of tokens.
    pub count: usize,
    /// Most tokens of prompt and answer.
    pub max_model_len: usize,
    /// The tokens.
    pub tokens: Vec<u32>,
}

/// Answer of `/detokenize`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Detokenized {
    /// The text, special tokens included.
    pub prompt: String,
}
