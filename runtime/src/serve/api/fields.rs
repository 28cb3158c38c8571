//! Reads JSON objects field by field, so that every refusal names its field and no field is skipped.

use super::ApiError;
use super::strict::Strict;
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

/// Result of reading a field.
pub(super) type Read<T> = Result<T, ApiError>;

/// The fields of one object that are still to be read.
#[derive(Debug)]
pub struct Fields {
    prefix: String,
    map: Map<String, Value>,
    asked: Vec<&'static str>,
}

impl Fields {
    /// The fields of the request body.
    pub fn body(bytes: &[u8]) -> Read<Self> {
        let Strict(value) = serde_json::from_slice(bytes)
            .map_err(|e| ApiError::bad_request("invalid_json", format!("the body is not valid JSON: {e}")))?;
        match value {
            Value::Object(map) => Ok(Self::of(String::new(), map)),
            _ => Err(ApiError::bad_request(
                "invalid_json",
                "the body is not a JSON object",
            )),
        }
    }

    /// The fields of the object at `place`.
    pub fn object(place: String, value: Value) -> Read<Self> {
        match value {
            Value::Object(map) => Ok(Self::of(place + ".", map)),
            other => Err(wrong(place, "an object", &other)),
        }
    }

    fn of(prefix: String, map: Map<String, Value>) -> Self {
        Self {
            prefix,
            map,
            asked: Vec::new(),
        }
    }

    /// Full name of a field, for errors.
    #[must_use]
    pub fn place(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// An error about a field.
    pub fn invalid(&self, name: &str, message: impl Into<String>) -> ApiError {
        ApiError::invalid(self.place(name), message)
    }

    /// Takes a field as it is; null counts as absent.
    pub fn take(&mut self, name: &'static str) -> Option<Value> {
        self.asked.push(name);
        self.map.remove(name).filter(|v| !v.is_null())
    }

    /// A string.
    pub fn string(&mut self, name: &'static str) -> Read<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(self.place(name), "a string", &other)),
        }
    }

    /// A string that must be there.
    pub fn needed_string(&mut self, name: &'static str) -> Read<String> {
        self.string(name)?.ok_or_else(|| self.missing(name))
    }

    /// The error for an absent field.
    #[must_use]
    pub fn missing(&self, name: &str) -> ApiError {
        self.invalid(name, "this field is needed")
    }

    /// A truth value; absent is false.
    pub fn flag(&mut self, name: &'static str) -> Read<bool> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(on)) => Ok(on),
            Some(other) => Err(wrong(self.place(name), "true or false", &other)),
        }
    }

    /// A finite number inside `range`.
    pub fn number(&mut self, name: &'static str, range: RangeInclusive<f32>) -> Read<Option<f32>> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let what = format!("a number in [{}, {}]", range.start(), range.end());
        match value.as_f64().map(|v| v as f32) {
            Some(number) if range.contains(&number) => Ok(Some(number)),
            _ => Err(wrong(self.place(name), &what, &value)),
        }
    }

    /// A whole number inside `range`.
    pub fn whole(&mut self, name: &'static str, range: RangeInclusive<usize>) -> Read<Option<usize>> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let what = format!("a whole number in [{}, {}]", range.start(), range.end());
        match value.as_u64().and_then(|v| usize::try_from(v).ok()) {
            Some(number) if range.contains(&number) => Ok(Some(number)),
            _ => Err(wrong(self.place(name), &what, &value)),
        }
    }

    /// An array.
    pub fn array(&mut self, name: &'static str) -> Read<Option<Vec<Value>>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(other) => Err(wrong(self.place(name), "an array", &other)),
        }
    }

    /// A nested object.
    pub fn nested(&mut self, name: &'static str) -> Read<Option<Self>> {
        match self.take(name) {
            None => Ok(None),
            Some(value) => Self::object(self.place(name), value).map(Some),
        }
    }

    /// The remaining fields as they are.
    #[must_use]
    pub fn rest(self) -> Map<String, Value> {
        self.map
    }

    /// Ends the reading: whatever was not read is refused. Gives the names that were known.
    pub fn finish(self) -> Read<Vec<&'static str>> {
        match self.map.keys().next() {
            Some(name) => Err(ApiError::unknown_field(format!("{}{name}", self.prefix))),
            None => Ok(self.asked),
        }
    }
}

/// The error for a value of the wrong type or range.
pub(super) fn wrong(place: String, expected: &str, found: &Value) -> ApiError {
    let mut shown = found.to_string();
    if shown.chars().count() > 60 {
        shown = shown.chars().take(60).collect::<String>() + "...";
    }
    ApiError::invalid(place, format!("expected {expected}, found {shown}"))
}
