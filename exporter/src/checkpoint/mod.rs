//! A checkpoint folder: `config.json` and safetensors files, single or sharded.

pub(crate) mod header;
pub(crate) mod hub;
mod index;

use crate::ExportError;
use forkcast_engines::manifest::Dtype;
use header::Entry;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// File name of a checkpoint that is not sharded.
const SINGLE: &str = "model.safetensors";
/// File name of the index of a sharded checkpoint.
const INDEX: &str = "model.safetensors.index.json";

/// A safetensors file of the checkpoint.
#[derive(Debug)]
pub(crate) struct Shard {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Size in bytes.
    pub(crate) bytes: u64,
    /// SHA-256 of length prefix and header.
    pub(crate) header_sha256: String,
    file: File,
}

/// A tensor and the shard it lies in.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    /// Index into [`Checkpoint::shards`].
    pub(crate) shard: usize,
    /// Name, type, shape and place.
    pub(crate) entry: Entry,
}

/// An opened checkpoint: all headers read and checked, no weights read yet.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    /// The folder.
    pub(crate) dir: PathBuf,
    /// Files in order of their names.
    pub(crate) shards: Vec<Shard>,
    /// Tensors by name.
    pub(crate) tensors: BTreeMap<String, Stored>,
    /// The index, if there is one.
    index: Option<PathBuf>,
}

impl Checkpoint {
    /// Reads every header of the checkpoint in `dir`. An index wins over files that lie beside it.
    pub(crate) fn open(dir: &Path) -> Result<Self, ExportError> {
        let index_path = dir.join(INDEX);
        let single = dir.join(SINGLE);
        let mut checkpoint = Self {
            dir: dir.to_owned(),
            shards: Vec::new(),
            tensors: BTreeMap::new(),
            index: None,
        };
        if index_path.exists() {
            let map = index::read(&index_path)?;
            checkpoint.index = Some(index_path.clone());
            let missing: Vec<&str> = map.files().filter(|f| !dir.join(f).is_file()).collect();
            if !missing.is_empty() {
                return Err(ExportError::file(
                    &index_path,
                    format!("shards that the index names are absent: {}", missing.join(", ")),
                )
                .with_hint("fetch the missing files; a partial download leaves such a folder"));
            }
            for file in map.files() {
                checkpoint.add(&dir.join(file))?;
            }
            map.check(&index_path, &checkpoint)?;
        } else if single.exists() {
            checkpoint.add(&single)?;
        } else {
            return Err(
                ExportError::file(dir, format!("neither {INDEX} nor {SINGLE} is in this folder"))
                    .with_hint("give the folder of a Hugging Face checkpoint with safetensors weights"),
            );
        }
        Ok(checkpoint)
    }

    fn add(&mut self, path: &Path) -> Result<(), ExportError> {
        let file = File::open(path).map_err(ExportError::read(path))?;
        let header = header::read(path, &file)?;
        let shard = self.shards.len();
        for entry in header.entries {
            let name = entry.name.clone();
            if let Some(other) = self.tensors.insert(name.clone(), Stored { shard, entry }) {
                let other = self.shards.get(other.shard).map_or(path, |s| &s.path);
                return Err(ExportError::tensor(
                    path,
                    &name,
                    format!("also in {}", other.display()),
                ));
            }
        }
        self.shards.push(Shard {
            path: path.to_owned(),
            bytes: header.bytes,
            header_sha256: header.sha256,
            file,
        });
        Ok(())
    }

    /// The file that errors about `tensor` as a whole should name.
    pub(crate) fn place(&self) -> &Path {
        match (&self.index, self.shards.first()) {
            (Some(index), _) => index,
            (None, Some(shard)) => &shard.path,
            (None, None) => &self.dir,
        }
    }

    /// The shard file of a tensor.
    pub(crate) fn path_of(&self, stored: &Stored) -> &Path {
        self.shards.get(stored.shard).map_or(&self.dir, |s| &s.path)
    }

    /// The tensor `name`, which the model needs.
    pub(crate) fn require(&self, name: &str) -> Result<&Stored, ExportError> {
        self.tensors.get(name).ok_or_else(|| {
            let reason = if self.index.is_some() {
                "the model needs it, but the index does not list it"
            } else {
                "the model needs it, but the file does not hold it"
            };
            ExportError::tensor(self.place(), name, reason)
        })
    }

    /// Type of a tensor that the model uses.
    pub(crate) fn dtype(&self, stored: &Stored) -> Result<Dtype, ExportError> {
        match stored.entry.dtype {
            safetensors::Dtype::F32 => Ok(Dtype::F32),
            safetensors::Dtype::BF16 => Ok(Dtype::Bf16),
            safetensors::Dtype::F16 => Ok(Dtype::F16),
            other => Err(ExportError::tensor(
                self.path_of(stored),
                &stored.entry.name,
                format!("type {other:?}; weights may be F32, BF16 or F16"),
            )
            .with_hint("quantised checkpoints cannot be exported: use the original weights")),
        }
    }

    /// Fills `buffer` with bytes of a tensor, from byte `at` of it.
    pub(crate) fn read(&self, stored: &Stored, at: u64, buffer: &mut [u8]) -> Result<(), ExportError> {
        let path = self.path_of(stored);
        let Some(shard) = self.shards.get(stored.shard) else {
            return Err(ExportError::file(path, "no such shard"));
        };
        shard
            .file
            .read_exact_at(buffer, stored.entry.offset + at)
            .map_err(ExportError::read(path))
    }
}
