//! Entry points for the fuzz targets: parts that are otherwise reached only with a whole checkpoint. Not an interface.

use crate::ExportError;
use crate::checkpoint::{Checkpoint, header};
use crate::config::{DrafterConfig, Fields, TargetConfig, check_pair};
use crate::text;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Reads the header of the safetensors file `path`; returns its number of tensors.
///
/// # Errors
/// The file is refused.
pub fn header(path: &Path) -> Result<usize, ExportError> {
    let file = File::open(path).map_err(ExportError::read(path))?;
    Ok(header::read(path, &file)?.entries.len())
}

/// Reads index and headers of the checkpoint in `dir`; returns its number of tensors.
///
/// # Errors
/// The checkpoint is refused.
pub fn checkpoint(dir: &Path) -> Result<usize, ExportError> {
    Ok(Checkpoint::open(dir)?.tensors.len())
}

fn fields(json: &[u8]) -> Result<Fields, ExportError> {
    let path = PathBuf::from("config.json");
    let value = serde_json::from_slice(json).map_err(|e| ExportError::file(&path, e.to_string()))?;
    Fields::new(path, value)
}

/// Reads a target's configuration; returns its number of layers.
///
/// # Errors
/// The configuration is refused.
pub fn target_config(json: &[u8]) -> Result<usize, ExportError> {
    Ok(TargetConfig::read(&fields(json)?)?.layers.len())
}

/// Reads a drafter's configuration and pairs it with a target's; returns the number of tapped layers.
///
/// # Errors
/// One of them is refused, or they do not go together.
pub fn drafter_config(target: &[u8], drafter: &[u8]) -> Result<usize, ExportError> {
    let drafter = DrafterConfig::read(&fields(drafter)?)?;
    let target = TargetConfig::read(&fields(target)?)?;
    Ok(check_pair(&target, &drafter)?.len())
}

/// Stop tokens that the text files in `dir` name, for a vocabulary of `vocab`.
///
/// # Errors
/// A file is refused.
pub fn stop_ids(dir: &Path, vocab: usize) -> Result<usize, ExportError> {
    let ids = text::stop_ids(dir, &text::files(dir), &[], vocab, &mut Vec::new())?;
    Ok(ids.len())
}
