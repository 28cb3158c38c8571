//! Messages of a conversation.

use super::ApiError;
use super::fields::{Fields, Read, wrong};
use serde_json::{Map, Value, json};

/// Messages as the chat template takes them: known fields only, text parts joined.
pub type Messages = Vec<Value>;

/// Reads `messages`.
pub(super) fn read_messages(fields: &mut Fields) -> Read<Messages> {
    let list = fields
        .array("messages")?
        .ok_or_else(|| fields.missing("messages"))?;
    if list.is_empty() {
        return Err(fields.invalid("messages", "there is no message"));
    }
    let mut calls = Vec::new();
    let one = |(i, value)| read_message(format!("messages[{i}]"), value, &mut calls);
    list.into_iter().enumerate().map(one).collect()
}

/// Reads one message. `calls` collects the ids of tool calls, to which tool messages must refer.
fn read_message(place: String, value: Value, calls: &mut Vec<String>) -> Read<Value> {
    let mut fields = Fields::object(place, value)?;
    let role = fields.needed_string("role")?;
    let mut out = Map::new();
    out.insert("role".to_owned(), Value::String(role.clone()));
    let content = content(&mut fields)?;
    match role.as_str() {
        "system" | "user" => {
            let text = content.ok_or_else(|| fields.missing("content"))?;
            out.insert("content".to_owned(), Value::String(text));
        }
        "assistant" => assistant(&mut fields, content, calls, &mut out)?,
        "tool" => {
            let text = content.ok_or_else(|| fields.missing("content"))?;
            let id = fields.needed_string("tool_call_id")?;
            if !calls.contains(&id) {
                let reason = format!("no earlier message called a tool with the id {id:?}");
                return Err(fields.invalid("tool_call_id", reason));
            }
            out.insert("content".to_owned(), Value::String(text));
        }
        other => {
            let reason = format!("expected system, user, assistant or tool, found {other:?}");
            return Err(fields.invalid("role", reason));
        }
    }
    fields.finish()?;
    Ok(Value::Object(out))
}

/// Text of a message: a string, or the text parts one after another.
fn content(fields: &mut Fields) -> Read<Option<String>> {
    let place = fields.place("content");
    match fields.take("content") {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(Value::Array(parts)) => {
            let mut text = String::new();
            for (i, part) in parts.into_iter().enumerate() {
                let mut part = Fields::object(format!("{place}[{i}]"), part)?;
                let kind = part.needed_string("type")?;
                if kind != "text" {
                    let reason = format!("only \"text\" parts are supported, found {kind:?}");
                    return Err(part.invalid("type", reason));
                }
                text.push_str(&part.needed_string("text")?);
                part.finish()?;
            }
            Ok(Some(text))
        }
        Some(other) => Err(wrong(place, "a string or a list of text parts", &other)),
    }
}

fn assistant(
    fields: &mut Fields,
    content: Option<String>,
    calls: &mut Vec<String>,
    out: &mut Map<String, Value>,
) -> Read<()> {
    if let Some(reasoning) = fields.string("reasoning_content")? {
        out.insert("reasoning_content".to_owned(), Value::String(reasoning));
    }
    // Clients send back what they received, `refusal: null` included.
    if let Some(refusal) = fields.take("refusal") {
        return Err(wrong(fields.place("refusal"), "null", &refusal));
    }
    let called = fields.array("tool_calls")?.unwrap_or_default();
    if content.is_none() && called.is_empty() {
        return Err(fields.invalid("content", "needed, because there are no tool_calls"));
    }
    out.insert("content".to_owned(), Value::String(content.unwrap_or_default()));
    let place = fields.place("tool_calls");
    let one = |(i, value)| read_call(format!("{place}[{i}]"), value, calls);
    let called: Read<Vec<Value>> = called.into_iter().enumerate().map(one).collect();
    let called = called?;
    if !called.is_empty() {
        out.insert("tool_calls".to_owned(), Value::Array(called));
    }
    Ok(())
}

fn read_call(place: String, value: Value, calls: &mut Vec<String>) -> Read<Value> {
    let mut call = Fields::object(place, value)?;
    let id = call.needed_string("id")?;
    function_type(&mut call)?;
    // Streamed calls carry an index; clients that collect chunks send it back.
    call.whole("index", 0..=usize::MAX)?;
    let mut function = call.nested("function")?.ok_or_else(|| call.missing("function"))?;
    let name = function.needed_string("name")?;
    let arguments = function.needed_string("arguments")?;
    if serde_json::from_str::<Map<String, Value>>(&arguments).is_err() {
        return Err(function.invalid("arguments", "expected a JSON object in a string"));
    }
    function.finish()?;
    call.finish()?;
    calls.push(id.clone());
    Ok(json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}))
}

/// Tools and calls are of type `function`, if they say a type.
pub(super) fn function_type(fields: &mut Fields) -> Result<(), ApiError> {
    match fields.string("type")? {
        Some(kind) if kind != "function" => {
            Err(fields.invalid("type", format!("only \"function\" is supported, found {kind:?}")))
        }
        _ => Ok(()),
    }
}
