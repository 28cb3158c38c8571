//! `POST /v1/chat/completions`: what is taken, and what is refused.

use super::common::{Common, MAX_TOP_LOGPROBS};
use super::fields::{Fields, Read, wrong};
use super::message::{Messages, read_messages};
use super::tool::{Tool, read_tools};
use serde_json::Value;

/// A valid request for an answer in a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatRequest {
    /// Fields shared with plain completions.
    pub common: Common,
    /// The conversation.
    pub messages: Messages,
    /// Functions that the answer may call; empty when `tool_choice` is `none`.
    pub tools: Vec<Tool>,
    /// `enable_thinking` of `chat_template_kwargs`.
    pub thinking: Option<bool>,
    /// `max_tokens` or `max_completion_tokens`.
    pub max_tokens: Option<usize>,
    /// With `logprobs: true`, how many alternatives each token carries.
    pub logprobs: Option<usize>,
}

impl ChatRequest {
    /// Reads a request body.
    pub fn parse(body: &[u8]) -> Read<Self> {
        let mut fields = Fields::body(body)?;
        let request = Self::read(&mut fields)?;
        fields.finish()?;
        Ok(request)
    }

    pub(super) fn read(fields: &mut Fields) -> Read<Self> {
        let common = Common::read(fields)?;
        let max_tokens = max_tokens(fields)?;
        let logprobs = logprobs(fields)?;
        response_format(fields)?;
        let tools = read_tools(fields)?;
        let calls = tool_choice(fields)?;
        Ok(Self {
            common,
            thinking: template_thinking(fields)?,
            max_tokens,
            logprobs,
            tools: if calls { tools } else { Vec::new() },
            messages: read_messages(fields)?,
        })
    }
}

fn max_tokens(fields: &mut Fields) -> Read<Option<usize>> {
    let old = fields.whole("max_tokens", 1..=usize::MAX)?;
    let new = fields.whole("max_completion_tokens", 1..=usize::MAX)?;
    match (old, new) {
        (Some(a), Some(b)) if a != b => Err(fields.invalid(
            "max_completion_tokens",
            format!("{b} contradicts max_tokens: {a}"),
        )),
        (a, b) => Ok(b.or(a)),
    }
}

fn logprobs(fields: &mut Fields) -> Read<Option<usize>> {
    let on = fields.flag("logprobs")?;
    let top = fields.whole("top_logprobs", 0..=MAX_TOP_LOGPROBS)?;
    match (on, top) {
        (true, top) => Ok(Some(top.unwrap_or(0))),
        (false, None | Some(0)) => Ok(None),
        (false, Some(_)) => Err(fields.invalid("top_logprobs", "needs logprobs: true")),
    }
}

/// Only the format that means nothing special can be honoured.
fn response_format(fields: &mut Fields) -> Read<()> {
    let Some(mut format) = fields.nested("response_format")? else {
        return Ok(());
    };
    let kind = format.needed_string("type")?;
    if kind != "text" {
        return Err(format.invalid("type", format!("only \"text\" is supported, found {kind:?}")));
    }
    format.finish().map(drop)
}

/// Whether tools may be called. Forcing a call would need a grammar, so it is refused.
fn tool_choice(fields: &mut Fields) -> Read<bool> {
    match fields.take("tool_choice") {
        None => Ok(true),
        Some(Value::String(word)) if word == "auto" => Ok(true),
        Some(Value::String(word)) if word == "none" => Ok(false),
        Some(other) => Err(wrong(fields.place("tool_choice"), "\"auto\" or \"none\"", &other)),
    }
}

/// `enable_thinking` of `chat_template_kwargs`; the only one that is known.
pub(super) fn template_thinking(fields: &mut Fields) -> Read<Option<bool>> {
    let Some(mut kwargs) = fields.nested("chat_template_kwargs")? else {
        return Ok(None);
    };
    let thinking = match kwargs.take("enable_thinking") {
        None => None,
        Some(Value::Bool(on)) => Some(on),
        Some(other) => return Err(wrong(kwargs.place("enable_thinking"), "true or false", &other)),
    };
    kwargs.finish()?;
    Ok(thinking)
}
