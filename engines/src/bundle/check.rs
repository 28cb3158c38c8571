//! Are the files of a bundle the files that were exported?

use super::{Deep, OpenError};
use crate::manifest::{Manifest, OwnedFile, WeightFile};
use memmap2::Mmap;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Largest safetensors header that is read.
const MAX_HEADER: u64 = 100 << 20;
/// Graphs and text files are hashed at every start, others (weights) up to this size; larger ones by
/// `verify --deep`.
const HASH_UP_TO: u64 = 4 << 20;

/// Checks every file that the manifest lists.
pub(super) fn files(dir: &Path, manifest: &Manifest) -> Result<(), OpenError> {
    let text = &manifest.text;
    let text = [
        &text.tokenizer,
        &text.tokenizer_config,
        &text.chat_template,
        &text.generation_config,
    ];
    let read: Vec<&str> = manifest
        .graphs
        .values()
        .map(|g| g.file.as_str())
        .chain(text.into_iter().flatten().map(String::as_str))
        .collect();
    for file in &manifest.files {
        owned(
            dir,
            file,
            file.bytes <= HASH_UP_TO || read.contains(&file.name.as_str()),
        )?;
    }
    for file in &manifest.weight_files {
        referenced(dir, file)?;
    }
    Ok(())
}

/// Hashes every file that the manifest lists whole. Tells for how many checkpoint files the manifest has only a hash
/// of the header: of those nothing more can be said.
pub(super) fn all_content(dir: &Path, manifest: &Manifest) -> Result<Deep, OpenError> {
    let mut deep = Deep::default();
    for file in &manifest.files {
        owned(dir, file, true)?;
        deep.hashed(file.bytes);
    }
    for file in &manifest.weight_files {
        let path = dir.join(&file.path);
        let Some(expected) = &file.sha256 else {
            deep.headers_only += 1;
            continue;
        };
        size(&path, file.bytes)?;
        compare(&path, "content changed", expected, &digest(&path)?)?;
        deep.hashed(file.bytes);
    }
    Ok(deep)
}

impl Deep {
    fn hashed(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
    }
}

fn size(path: &Path, expected: u64) -> Result<(), OpenError> {
    let meta = std::fs::metadata(path).map_err(|source| io(path, source))?;
    if !meta.is_file() {
        // A pipe would block, a device never end.
        let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, "is no file");
        return Err(io(path, source));
    }
    let found = meta.len();
    if found != expected {
        return Err(changed(
            path,
            "size changed",
            format!("{expected} bytes"),
            format!("{found} bytes"),
        ));
    }
    Ok(())
}

fn owned(dir: &Path, file: &OwnedFile, hash: bool) -> Result<(), OpenError> {
    let path = dir.join(&file.name);
    size(&path, file.bytes)?;
    if !hash {
        return Ok(());
    }
    compare(&path, "content changed", &file.sha256, &digest(&path)?)
}

/// SHA-256 of a file, piece by piece: its size is what a manifest says.
fn digest(path: &Path) -> Result<Vec<u8>, OpenError> {
    let mut file = File::open(path).map_err(|source| io(path, source))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        let n = file.read(&mut buffer).map_err(|source| io(path, source))?;
        if n == 0 {
            return Ok(hash.finalize().to_vec());
        }
        hash.update(&buffer[..n]);
    }
}

fn referenced(dir: &Path, file: &WeightFile) -> Result<(), OpenError> {
    let path = dir.join(&file.path);
    size(&path, file.bytes)?;
    let mut reader = File::open(&path).map_err(|source| io(&path, source))?;
    let mut prefix = [0u8; 8];
    reader
        .read_exact(&mut prefix)
        .map_err(|source| io(&path, source))?;
    let length = u64::from_le_bytes(prefix);
    if length > MAX_HEADER.min(file.bytes) {
        return Err(changed(
            &path,
            "header changed",
            file.header_sha256.clone(),
            format!("a length of {length}"),
        ));
    }
    let mut header = vec![0; length as usize];
    reader
        .read_exact(&mut header)
        .map_err(|source| io(&path, source))?;
    let mut hash = Sha256::new();
    hash.update(prefix);
    hash.update(&header);
    compare(&path, "header changed", &file.header_sha256, &hash.finalize())
}

fn compare(path: &Path, what: &'static str, expected: &str, digest: &[u8]) -> Result<(), OpenError> {
    let found: String = digest.iter().map(|b| format!("{b:02x}")).collect();
    if found == expected {
        Ok(())
    } else {
        Err(changed(path, what, expected.to_owned(), found))
    }
}

fn changed(path: &Path, what: &'static str, expected: String, found: String) -> OpenError {
    OpenError::Changed {
        path: path.to_path_buf(),
        what,
        expected,
        found,
    }
}

fn io(path: &Path, source: std::io::Error) -> OpenError {
    OpenError::Io {
        path: path.to_path_buf(),
        source,
    }
}

/// Maps a file read-only.
#[expect(unsafe_code, reason = "memory mapping")]
pub(super) fn map(path: &Path) -> Result<Mmap, OpenError> {
    let file = File::open(path).map_err(|source| io(path, source))?;
    // SAFETY: the mapping is read-only and private. A file that another process truncates while it is mapped can
    // raise SIGBUS; weights are read-only by contract, and their size was just checked.
    unsafe { Mmap::map(&file) }.map_err(|source| io(path, source))
}

/// What a folder that is no bundle seems to be.
pub(super) fn describe(path: &Path) -> String {
    let Ok(meta) = std::fs::metadata(path) else {
        return "it does not exist".to_owned();
    };
    if !meta.is_dir() {
        return "it is a file".to_owned();
    }
    let Ok(text) = std::fs::read_to_string(path.join("config.json")) else {
        return "no manifest.json".to_owned();
    };
    if text.contains("dflash_config") || text.contains("DFlashDraftModel") {
        return "this is a drafter checkpoint; it drafts for a target and is no model by itself".to_owned();
    }
    "this is a checkpoint that was not exported".to_owned()
}
