//! Conversations as files and requests carry them.

use super::TextError;
use serde_json::{Map, Value};

/// Messages of a conversation, with the tools that may be called.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversation {
    messages: Vec<Value>,
    tools: Option<Vec<Value>>,
}

impl Conversation {
    /// Reads a conversation from JSON: an array of messages, or an object with `messages` and perhaps
    /// `tools`; its `id` is a remark.
    ///
    /// # Errors
    /// Not JSON, or not a conversation; the message names the place.
    pub fn parse(json: &[u8]) -> Result<Self, TextError> {
        let value: Value = serde_json::from_slice(json).map_err(|e| wrong(format!("not valid JSON: {e}")))?;
        match value {
            Value::Array(messages) => Self::new(messages, None),
            Value::Object(mut fields) => {
                let messages = fields
                    .remove("messages")
                    .ok_or_else(|| wrong("`messages` is missing"))?;
                let tools = fields.remove("tools").filter(|t| !t.is_null());
                fields.remove("id");
                if let Some(name) = fields.keys().next() {
                    return Err(wrong(format!("field `{name}` is not known")));
                }
                let Value::Array(messages) = messages else {
                    return Err(wrong("`messages` is not an array"));
                };
                let tools = match tools {
                    None => None,
                    Some(Value::Array(tools)) => Some(tools),
                    Some(_) => return Err(wrong("`tools` is not an array")),
                };
                Self::new(messages, tools)
            }
            _ => Err(wrong(
                "neither an array of messages nor an object with `messages`",
            )),
        }
    }

    /// Checks messages and tools. Contents that are lists of text parts are joined; other parts are refused.
    ///
    /// # Errors
    /// The first message that is malformed, by its place.
    pub fn new(messages: Vec<Value>, tools: Option<Vec<Value>>) -> Result<Self, TextError> {
        if messages.is_empty() {
            return Err(wrong("`messages` is empty"));
        }
        let messages = messages.into_iter().enumerate();
        let messages: Result<Vec<Value>, TextError> = messages.map(|(i, m)| message(i, m)).collect();
        if let Some(i) = tools.iter().flatten().position(|t| !t.is_object()) {
            return Err(wrong(format!("tools[{i}] is not an object")));
        }
        Ok(Self {
            messages: messages?,
            tools: tools.filter(|t| !t.is_empty()),
        })
    }

    /// One user message.
    #[must_use]
    pub fn user(text: &str) -> Self {
        Self {
            messages: vec![serde_json::json!({"role": "user", "content": text})],
            tools: None,
        }
    }

    /// The messages.
    #[must_use]
    pub fn messages(&self) -> &[Value] {
        &self.messages
    }

    /// The tools, if there are any.
    #[must_use]
    pub fn tools(&self) -> Option<&[Value]> {
        self.tools.as_deref()
    }

    /// The same conversation without the messages from place `n` on.
    #[must_use]
    pub fn truncated(&self, n: usize) -> Self {
        let mut short = self.clone();
        short.messages.truncate(n);
        short
    }

    /// The same conversation with tool-call arguments as objects, if any was an object in a string.
    pub(super) fn with_parsed_arguments(&self) -> Option<Self> {
        let mut parsed = self.clone();
        let mut changed = false;
        let calls = parsed
            .messages
            .iter_mut()
            .filter_map(|m| m.get_mut("tool_calls")?.as_array_mut());
        for call in calls.flatten() {
            let call = match call.get("function") {
                Some(Value::Object(_)) => &mut call["function"],
                _ => call,
            };
            let Some(Value::String(text)) = call.get("arguments") else {
                continue;
            };
            if let Ok(object) = serde_json::from_str::<Map<String, Value>>(text) {
                call["arguments"] = Value::Object(object);
                changed = true;
            }
        }
        changed.then_some(parsed)
    }
}

fn message(i: usize, message: Value) -> Result<Value, TextError> {
    let Value::Object(mut fields) = message else {
        return Err(wrong(format!("messages[{i}] is not an object")));
    };
    match fields.get("role") {
        Some(Value::String(_)) => {}
        Some(_) => return Err(wrong(format!("messages[{i}].role is not a string"))),
        None => return Err(wrong(format!("messages[{i}].role is missing"))),
    }
    match fields.get("content") {
        Some(Value::String(_) | Value::Null) => {}
        None if fields.contains_key("tool_calls") => {}
        None => return Err(wrong(format!("messages[{i}].content is missing"))),
        Some(Value::Array(parts)) => {
            let text = joined(i, parts)?;
            fields.insert("content".to_owned(), Value::String(text));
        }
        Some(_) => {
            let reason = "is neither a string, a list of parts nor null";
            return Err(wrong(format!("messages[{i}].content {reason}")));
        }
    }
    Ok(Value::Object(fields))
}

/// Text of a list of parts: templates of text models either join them or drop them, and dropping is wrong.
fn joined(i: usize, parts: &[Value]) -> Result<String, TextError> {
    let mut text = String::new();
    for (j, part) in parts.iter().enumerate() {
        let place = format!("messages[{i}].content[{j}]");
        match (part.get("type").and_then(Value::as_str), part.get("text")) {
            (Some("text") | None, Some(Value::String(t))) => text.push_str(t),
            (Some("text") | None, _) => return Err(wrong(format!("{place} has no text"))),
            (Some(kind), _) => {
                return Err(wrong(format!(
                    "{place}: type `{kind}` is not supported, only text is"
                )));
            }
        }
    }
    Ok(text)
}

fn wrong(reason: impl Into<String>) -> TextError {
    TextError::Conversation(reason.into())
}
