//! Typed access to a JSON object; every error names file and field.

use crate::ExportError;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// Largest size that a field may state; keeps products far from overflow.
const MAX_DIM: u64 = 1 << 28;

/// An object of a configuration file.
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    path: PathBuf,
    prefix: String,
    map: Map<String, Value>,
}

impl Fields {
    /// The top-level object of `path`.
    pub(crate) fn new(path: PathBuf, value: Value) -> Result<Self, ExportError> {
        match value {
            Value::Object(map) => Ok(Self {
                path,
                prefix: String::new(),
                map,
            }),
            _ => Err(ExportError::file(&path, "is not a JSON object")),
        }
    }

    /// An error about `field` of this object.
    pub(crate) fn error(&self, field: &str, reason: impl Into<String>) -> ExportError {
        ExportError::Config {
            path: self.path.clone(),
            field: format!("{}{field}", self.prefix),
            reason: reason.into(),
            hint: None,
        }
    }

    /// The value of `field`; null counts as absent.
    pub(crate) fn get(&self, field: &str) -> Option<&Value> {
        self.map.get(field).filter(|v| !v.is_null())
    }

    /// Names of the fields that are not null.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.map
            .iter()
            .filter(|(_, v)| !v.is_null())
            .map(|(k, _)| k.as_str())
    }

    /// A nested object, if present.
    pub(crate) fn object(&self, field: &str) -> Result<Option<Fields>, ExportError> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(Self {
                path: self.path.clone(),
                prefix: format!("{}{field}.", self.prefix),
                map: map.clone(),
            })),
            Some(_) => Err(self.error(field, "is not an object")),
        }
    }

    /// An optional whole number within `0..=MAX_DIM`.
    pub(crate) fn whole(&self, field: &str) -> Result<Option<usize>, ExportError> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        match value.as_u64() {
            Some(n) if n <= MAX_DIM => Ok(usize::try_from(n).ok()),
            _ => Err(self.error(field, format!("{value} is not a whole number up to {MAX_DIM}"))),
        }
    }

    /// An optional size, at least 1.
    pub(crate) fn size(&self, field: &str) -> Result<Option<usize>, ExportError> {
        match self.whole(field)? {
            Some(0) => Err(self.error(field, "is 0")),
            other => Ok(other),
        }
    }

    /// A size that must be there.
    pub(crate) fn need_size(&self, field: &str) -> Result<usize, ExportError> {
        self.size(field)?.ok_or_else(|| self.error(field, "is missing"))
    }

    /// An optional finite number.
    pub(crate) fn number(&self, field: &str) -> Result<Option<f64>, ExportError> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        match value.as_f64() {
            Some(n) if n.is_finite() => Ok(Some(n)),
            _ => Err(self.error(field, format!("{value} is not a number"))),
        }
    }

    /// An optional number above 0.
    pub(crate) fn positive(&self, field: &str) -> Result<Option<f64>, ExportError> {
        match self.number(field)? {
            Some(n) if n <= 0.0 => Err(self.error(field, format!("{n} is not above 0"))),
            other => Ok(other),
        }
    }

    /// An optional truth value.
    pub(crate) fn flag(&self, field: &str) -> Result<Option<bool>, ExportError> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Bool(b)) => Ok(Some(*b)),
            Some(other) => Err(self.error(field, format!("{other} is neither true nor false"))),
        }
    }

    /// An optional text.
    pub(crate) fn text(&self, field: &str) -> Result<Option<&str>, ExportError> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::String(s)) => Ok(Some(s)),
            Some(other) => Err(self.error(field, format!("{other} is not a string"))),
        }
    }

    /// An optional list of texts.
    pub(crate) fn texts(&self, field: &str) -> Result<Option<Vec<&str>>, ExportError> {
        self.list(field, Value::as_str, "strings")
    }

    /// An optional list of indices.
    pub(crate) fn indices(&self, field: &str) -> Result<Option<Vec<usize>>, ExportError> {
        let index = |v: &Value| {
            v.as_u64()
                .filter(|n| *n <= MAX_DIM)
                .and_then(|n| usize::try_from(n).ok())
        };
        self.list(field, index, "whole numbers")
    }

    fn list<'a, T>(
        &'a self,
        field: &str,
        read: impl Fn(&'a Value) -> Option<T>,
        what: &str,
    ) -> Result<Option<Vec<T>>, ExportError> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        value
            .as_array()
            .and_then(|items| items.iter().map(read).collect::<Option<Vec<T>>>())
            .map(Some)
            .ok_or_else(|| self.error(field, format!("is not a list of {what}")))
    }

    /// Token ids in `field`: one number, a list, or nothing.
    pub(crate) fn token_ids(&self, field: &str) -> Result<Vec<u32>, ExportError> {
        let id = |v: &Value| v.as_u64().and_then(|n| u32::try_from(n).ok());
        let wrong = || self.error(field, "is neither a token id nor a list of them");
        match self.get(field) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => items.iter().map(|v| id(v).ok_or_else(wrong)).collect(),
            Some(value) => Ok(vec![id(value).ok_or_else(wrong)?]),
        }
    }
}
