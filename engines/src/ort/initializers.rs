//! Are the weights that a graph names those of the manifest? The library takes what it is given under a name, and looks for
//! the rest in files, so it would not notice.

use crate::build::onnx_type;
use crate::bundle::OpenError;
use crate::manifest::{Graph, Initializer};
use forkcast_plugins::onnx::proto::{ModelProto, TensorProto};
use prost::Message;
use std::collections::BTreeMap;
use std::path::Path;

/// Compares name, type, shape and place of every external initializer of the model at `path` with the manifest's.
///
/// # Errors
/// The file cannot be read or is no model; or names the first initializer that differs.
pub(super) fn check(graph: &Graph, path: &Path) -> Result<(), OpenError> {
    let bytes = std::fs::read(path).map_err(|source| OpenError::Io {
        path: path.to_path_buf(),
        source,
    })?;
    let refuse = |reason: String| OpenError::Mismatch {
        path: path.to_path_buf(),
        reason,
    };
    let model = ModelProto::decode(bytes.as_slice()).map_err(|e| refuse(e.to_string()))?;
    let stored = model.graph.iter().flat_map(|g| &g.initializer);
    let stored = stored.filter(|t| !t.external_data.is_empty());
    let mut stored: BTreeMap<&str, &TensorProto> = stored.map(|t| (t.name(), t)).collect();
    for initializer in &graph.initializers {
        let found = stored.remove(initializer.name.as_str());
        compare(initializer, found)
            .map_err(|e| refuse(format!("initializer {:?}: {e}", initializer.name)))?;
    }
    match stored.keys().next() {
        Some(name) => Err(refuse(format!(
            "initializer {name:?}: the manifest does not have it"
        ))),
        None => Ok(()),
    }
}

fn compare(expected: &Initializer, found: Option<&TensorProto>) -> Result<(), String> {
    let Some(found) = found else {
        return Err("the graph does not have it".to_owned());
    };
    let data = &expected.data;
    if found.data_type() != onnx_type(data.dtype).onnx() {
        return Err(format!("another type than {}", data.dtype.name()));
    }
    let shape = data.shape.iter().map(|d| i64::try_from(*d).unwrap_or(i64::MAX));
    if !shape.eq(found.dims.iter().copied()) {
        return Err(format!(
            "shape {:?} in the graph, {:?} in the manifest",
            found.dims, data.shape
        ));
    }
    let expected = [
        ("location", data.file.clone()),
        ("offset", data.offset.to_string()),
        ("length", data.length.to_string()),
    ];
    for (key, expected) in expected {
        let entry = found.external_data.iter().find(|e| e.key() == key);
        let found = entry.map_or("none", |e| e.value());
        if found != expected {
            return Err(format!("{key} {found} in the graph, {expected} in the manifest"));
        }
    }
    Ok(())
}
