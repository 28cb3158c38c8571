//! Files that come from elsewhere.

use super::halves;
use crate::scratch::{folder, put};
use forkcast_engines::recipe::Recipe;
use forkcast_engines::{engine as directory, manifest as bundle};
use forkcast_exporter::entry;
use std::fs::File;

/// Largest sparse file that a header is given to describe.
const MOST_DATA: u64 = 1 << 40;

/// A safetensors file: first the bytes as they are, then as the header of a sparse file that is as long as the header's
/// last offset says.
pub fn safetensors(data: &[u8]) {
    let dir = folder("safetensors");
    put(&dir, "raw", data);
    drop(entry::header(&dir.join("raw")));
    let mut whole = (data.len() as u64).to_le_bytes().to_vec();
    whole.extend_from_slice(data);
    put(&dir, "whole", &whole);
    let end = serde_json::from_slice(data).map_or(0, |v: serde_json::Value| last_offset(&v));
    if let Ok(file) = File::options().write(true).open(dir.join("whole")) {
        drop(file.set_len((whole.len() as u64 + end).min(MOST_DATA)));
    }
    drop(entry::header(&dir.join("whole")));
}

fn last_offset(header: &serde_json::Value) -> u64 {
    let tensors = header.as_object().into_iter().flat_map(|o| o.values());
    let ends = tensors.filter_map(|t| t.get("data_offsets")?.get(1)?.as_u64());
    ends.filter(|e| *e < MOST_DATA).max().unwrap_or(0)
}

/// The index of a checkpoint whose shards `a.safetensors` (tensors `x`, `y`) and `b.safetensors` (`z`) exist.
pub fn index(data: &[u8]) {
    let dir = folder("index");
    shard(&dir, "a.safetensors", &["x", "y"]);
    shard(&dir, "b.safetensors", &["z"]);
    put(&dir, "model.safetensors.index.json", data);
    drop(entry::checkpoint(&dir));
}

fn shard(dir: &std::path::Path, name: &str, tensors: &[&str]) {
    if dir.join(name).exists() {
        return;
    }
    let entries: Vec<String> = tensors
        .iter()
        .enumerate()
        .map(|(i, t)| {
            let (from, to) = (4 * i, 4 * i + 4);
            format!("\"{t}\":{{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[{from},{to}]}}")
        })
        .collect();
    let header = format!("{{{}}}", entries.join(","));
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.resize(bytes.len() + 4 * tensors.len(), 0);
    put(dir, name, &bytes);
}

/// `config.json` of a target, a line `---`, and that of a drafter.
pub fn config(data: &[u8]) {
    let (target, drafter) = halves(data);
    drop(entry::target_config(target));
    drop(entry::drafter_config(target, drafter));
}

/// `manifest.json` of a bundle. What is read must be written and read again as the same.
pub fn manifest(data: &[u8]) {
    let dir = folder("manifest");
    put(&dir, bundle::FILE_NAME, data);
    if let Ok(read) = bundle::read(&dir) {
        bundle::write(&dir, &read).expect("written");
        let again = bundle::read(&dir).expect("read again");
        assert!(again == read, "another manifest when written and read");
    }
}

/// `engine.json` of an engine directory. What is read must be written and read again as the same.
pub fn engine(data: &[u8]) {
    let dir = folder("engine");
    put(&dir, directory::FILE_NAME, data);
    if let Ok(read) = directory::read(&dir) {
        directory::write(&dir, &read).expect("written");
        let again = directory::read(&dir).expect("read again");
        assert!(again == read, "another description when written and read");
    }
}

/// A recipe file.
pub fn recipe(data: &[u8]) {
    let dir = folder("recipe");
    put(&dir, "recipe.toml", data);
    drop(Recipe::load(&dir.join("recipe.toml").to_string_lossy()));
}
