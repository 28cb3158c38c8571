//! JSON as template values: keys keep their order.

use minijinja::Value;
use minijinja::value::{Enumerator, Object, ObjectRepr};
use std::sync::Arc;

/// A JSON object; few keys, so they are searched.
#[derive(Debug)]
struct Map(Vec<(String, Value)>);

impl Object for Map {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let key = key.as_str()?;
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone())
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.iter().map(|(k, _)| Value::from(k.as_str())).collect())
    }
}

/// `json` as a value of the template engine.
pub(super) fn from_json(json: &serde_json::Value) -> Value {
    use serde_json::Value as Json;
    match json {
        Json::Null => Value::from(()),
        Json::Bool(b) => Value::from(*b),
        Json::Number(n) => n
            .as_i64()
            .map(Value::from)
            .or_else(|| n.as_u64().map(Value::from))
            .unwrap_or_else(|| Value::from(n.as_f64().unwrap_or(f64::NAN))),
        Json::String(s) => Value::from(s.as_str()),
        Json::Array(items) => items.iter().map(from_json).collect(),
        Json::Object(map) => map_of(map.iter().map(|(k, v)| (k.clone(), from_json(v)))),
    }
}

/// A map value with the keys in the given order.
pub(super) fn map_of(pairs: impl Iterator<Item = (String, Value)>) -> Value {
    Value::from_object(Map(pairs.collect()))
}
