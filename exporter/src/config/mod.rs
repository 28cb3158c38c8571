//! `config.json` of targets and drafters: what is read, and what is refused by name.

mod drafter;
mod fields;
mod pair;
mod refuse;
mod rope;
mod target;

pub(crate) use drafter::{DraftLayer, DrafterConfig, MAX_DRAFT_ROWS, MAX_MODES, ModeRows};
pub(crate) use fields::Fields;
pub(crate) use pair::check_pair;
pub(crate) use rope::Rope;
pub(crate) use target::{LayerKind, TargetConfig};

use crate::ExportError;
use std::io::Read;
use std::path::Path;

/// Largest JSON file that is read, in bytes.
pub(crate) const MAX_JSON: u64 = 64 << 20;

/// Reads a whole file of at most `limit` bytes.
pub(crate) fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, ExportError> {
    let file = std::fs::File::open(path).map_err(ExportError::read(path))?;
    let mut text = Vec::new();
    file.take(limit + 1)
        .read_to_end(&mut text)
        .map_err(ExportError::read(path))?;
    if text.len() as u64 > limit {
        return Err(ExportError::file(
            path,
            format!("more than the {limit} bytes that are read"),
        ));
    }
    Ok(text)
}

/// Reads `config.json` in `dir`.
pub(crate) fn read(dir: &Path) -> Result<Fields, ExportError> {
    let path = dir.join("config.json");
    let text = read_bounded(&path, MAX_JSON)?;
    let value: serde_json::Value =
        serde_json::from_slice(&text).map_err(|e| ExportError::file(&path, e.to_string()))?;
    Fields::new(path, value)
}
