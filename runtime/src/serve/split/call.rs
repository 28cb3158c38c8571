//! The two ways in which models write tool calls.
//!
//! Qwen3: `{"name": "f", "arguments": {...}}`. Qwen3.5:
//! `<function=f><parameter=x>` value `</parameter></function>`, values as text whose types the tool's schema gives.

use super::super::api::Tool;
use serde_json::{Map, Value};

/// A call as the model wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedCall {
    /// Name of the function.
    pub name: String,
    /// Arguments: a JSON object.
    pub arguments: String,
}

/// Reads the text between the call tags; none when it is no call.
pub(super) fn parse(body: &str, tools: &[Tool]) -> Option<ParsedCall> {
    let body = body.trim();
    if body.starts_with('{') {
        parse_json(body)
    } else {
        parse_markup(body, tools)
    }
}

fn parse_json(body: &str) -> Option<ParsedCall> {
    let mut call: Map<String, Value> = serde_json::from_str(body).ok()?;
    let Value::String(name) = call.remove("name")? else {
        return None;
    };
    let arguments = match call.remove("arguments") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(map)) => map,
        Some(Value::String(text)) => serde_json::from_str(&text).ok()?,
        Some(_) => return None,
    };
    // Something beside name and arguments cannot be passed on: then it is no call that we know.
    call.is_empty().then(|| ParsedCall {
        name,
        arguments: Value::Object(arguments).to_string(),
    })
}

fn parse_markup(body: &str, tools: &[Tool]) -> Option<ParsedCall> {
    let (name, rest) = body.strip_prefix("<function=")?.split_once('>')?;
    let name = name.trim();
    let mut rest = rest.strip_suffix("</function>")?.trim();
    let tool = tools.iter().find(|t| t.name == name);
    let mut arguments = Map::new();
    while !rest.is_empty() {
        let (key, after) = rest.strip_prefix("<parameter=")?.split_once('>')?;
        let (value, after) = after.split_once("</parameter>")?;
        let value = value.strip_prefix('\n').unwrap_or(value);
        let value = value.strip_suffix('\n').unwrap_or(value);
        let key = key.trim();
        let schema = tool.and_then(|t| t.properties.get(key));
        arguments.insert(key.to_owned(), typed(value, schema));
        rest = after.trim_start();
    }
    let valid = !name.is_empty();
    valid.then(|| ParsedCall {
        name: name.to_owned(),
        arguments: Value::Object(arguments).to_string(),
    })
}

/// The value of a parameter. Only a schema without strings makes text into something else, and only when
/// the text is such a thing.
fn typed(text: &str, schema: Option<&Value>) -> Value {
    let mut types = Vec::new();
    if let Some(schema) = schema {
        collect_types(schema, 0, &mut types);
    }
    let as_text = || Value::String(text.to_owned());
    if types.is_empty() || types.contains(&"string") {
        return as_text();
    }
    // Templates write truth values as Python does.
    let json = match text.trim() {
        "True" => "true",
        "False" => "false",
        "None" => "null",
        other => other,
    };
    match serde_json::from_str::<Value>(json) {
        Ok(value) if types.iter().any(|t| fits(t, &value)) => value,
        _ => as_text(),
    }
}

fn collect_types<'a>(schema: &'a Value, depth: usize, out: &mut Vec<&'a str>) {
    match schema.get("type") {
        Some(Value::String(one)) => out.push(one),
        Some(Value::Array(list)) => out.extend(list.iter().filter_map(Value::as_str)),
        _ if depth < 4 => {
            let choices = ["anyOf", "oneOf"]
                .iter()
                .filter_map(|k| schema.get(k)?.as_array());
            for choice in choices.flatten() {
                collect_types(choice, depth + 1, out);
            }
        }
        _ => {}
    }
}

fn fits(kind: &str, value: &Value) -> bool {
    match kind {
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "null" => value.is_null(),
        _ => false,
    }
}
