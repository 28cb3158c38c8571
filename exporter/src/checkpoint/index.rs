//! `model.safetensors.index.json`: which shard holds which tensor.

use super::Checkpoint;
use crate::ExportError;
use crate::config::MAX_JSON;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

/// The weight map.
#[derive(Debug)]
pub(super) struct Index {
    map: BTreeMap<String, String>,
    files: BTreeSet<String>,
}

/// The part of the file that is used; its `metadata` (a total size that many writers get wrong) is not.
#[derive(serde::Deserialize)]
struct Raw {
    weight_map: BTreeMap<String, String>,
}

/// Reads the index; shard names may be odd but must stay inside the folder.
pub(super) fn read(path: &Path) -> Result<Index, ExportError> {
    let text = crate::config::read_bounded(path, MAX_JSON)?;
    let Raw { weight_map: map } =
        serde_json::from_slice(&text).map_err(|e| ExportError::file(path, e.to_string()))?;
    if map.is_empty() {
        return Err(ExportError::file(path, "weight_map is empty"));
    }
    for (tensor, file) in &map {
        let inside = Path::new(file)
            .components()
            .all(|c| matches!(c, Component::Normal(_)));
        if file.is_empty() || !inside {
            return Err(ExportError::tensor(
                path,
                tensor,
                format!("weight_map names {file:?}, which leaves the checkpoint folder"),
            ));
        }
    }
    let files = map.values().cloned().collect();
    Ok(Index { map, files })
}

impl Index {
    /// Shard names, sorted.
    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(String::as_str)
    }

    /// Index and shards must say the same: a tensor that only one of them knows is a stale index or a
    /// shard of another checkpoint.
    pub(super) fn check(&self, path: &Path, checkpoint: &Checkpoint) -> Result<(), ExportError> {
        for (tensor, file) in &self.map {
            let shard = checkpoint.dir.join(file);
            match checkpoint.tensors.get(tensor) {
                Some(stored) if checkpoint.path_of(stored) == shard => {}
                Some(stored) => {
                    return Err(stale(ExportError::tensor(
                        path,
                        tensor,
                        format!(
                            "the index names shard {file}, but {} holds it",
                            checkpoint.path_of(stored).display()
                        ),
                    )));
                }
                None => {
                    return Err(stale(ExportError::tensor(
                        &shard,
                        tensor,
                        "the index says that this shard holds it, but it does not",
                    )));
                }
            }
        }
        for (tensor, stored) in &checkpoint.tensors {
            if !self.map.contains_key(tensor) {
                return Err(stale(ExportError::tensor(
                    checkpoint.path_of(stored),
                    tensor,
                    "this shard holds it, but the index does not list it",
                )));
            }
        }
        Ok(())
    }
}

fn stale(error: ExportError) -> ExportError {
    error.with_hint("index and shards are of different versions: fetch the checkpoint again")
}
