//! Tools that an answer may call.

use super::fields::{Fields, Read, wrong};
use super::message::function_type;
use serde_json::{Map, Value};

/// Most tools of a request.
const MAX_TOOLS: usize = 128;

/// A function that may be called.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Name of the function.
    pub name: String,
    /// `parameters.properties`: what types arguments have.
    pub properties: Map<String, Value>,
    /// The tool as the request has it, for the template.
    pub json: Value,
}

/// Reads `tools`.
pub(super) fn read_tools(fields: &mut Fields) -> Read<Vec<Tool>> {
    let list = fields.array("tools")?.unwrap_or_default();
    if list.len() > MAX_TOOLS {
        return Err(fields.invalid(
            "tools",
            format!("{} tools, at most {MAX_TOOLS} are taken", list.len()),
        ));
    }
    let one = |(i, value)| read_tool(format!("tools[{i}]"), value);
    list.into_iter().enumerate().map(one).collect()
}

fn read_tool(place: String, json: Value) -> Read<Tool> {
    let mut fields = Fields::object(place, json.clone())?;
    function_type(&mut fields)?;
    let mut function = fields
        .nested("function")?
        .ok_or_else(|| fields.missing("function"))?;
    fields.finish()?;
    let name = function.needed_string("name")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
        let reason = format!("expected 1 to 64 letters, digits, _ - or ., found {name:?}");
        return Err(function.invalid("name", reason));
    }
    function.string("description")?;
    if function.flag("strict")? {
        return Err(function.invalid("strict", "arguments are not forced into a schema here"));
    }
    let place = function.place("parameters");
    let parameters = match function.take("parameters") {
        None => Map::new(),
        Some(Value::Object(map)) => map,
        Some(other) => return Err(wrong(place, "a JSON schema", &other)),
    };
    function.finish()?;
    let properties = match parameters.get("properties") {
        Some(Value::Object(map)) => map.clone(),
        _ => Map::new(),
    };
    Ok(Tool {
        name,
        properties,
        json,
    })
}
