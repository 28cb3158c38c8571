//! A bundle on disk: opened, checked and mapped before any library is called.

mod check;
mod error;

pub use error::OpenError;

use crate::manifest::{self, Dtype, Manifest, TensorData};
use half::{bf16, f16};
use memmap2::Mmap;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// An open bundle. Files it names exist, have the recorded size, and headers and graphs the recorded hash.
#[derive(Debug)]
pub struct Bundle {
    /// Folder of the bundle.
    pub dir: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
    maps: BTreeMap<String, Mmap>,
}

impl Bundle {
    /// Opens the bundle in `dir`.
    ///
    /// # Errors
    /// No manifest, an invalid one, or files that are missing or changed since the export.
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        if !dir.join(manifest::FILE_NAME).is_file() {
            return Err(OpenError::NotABundle { path: dir.to_path_buf(), found: check::describe(dir) });
        }
        let manifest = manifest::read(dir)?;
        check::files(dir, &manifest)?;
        let mut bundle = Self { dir: dir.to_path_buf(), manifest, maps: BTreeMap::new() };
        bundle.map_weights()?;
        Ok(bundle)
    }

    fn map_weights(&mut self) -> Result<(), OpenError> {
        let graphs = self.manifest.graphs.values().flat_map(|g| &g.initializers).map(|i| &i.data.file);
        let names: Vec<String> = graphs.chain([&self.manifest.embedding.file]).cloned().collect();
        for name in names {
            if !self.maps.contains_key(&name) {
                let path = self.path_of(&name);
                let map = check::map(&path)?;
                self.maps.insert(name, map);
            }
        }
        Ok(())
    }

    /// Where a named file lies: in the bundle, or a checkpoint file that it refers to.
    #[must_use]
    pub fn path_of(&self, name: &str) -> PathBuf {
        let referenced = self.manifest.weight_files.iter().find(|f| f.name == name);
        referenced.map_or_else(|| self.dir.join(name), |f| self.dir.join(&f.path))
    }

    /// Whether `name` is a checkpoint file outside the bundle.
    #[must_use]
    pub fn is_referenced(&self, name: &str) -> bool {
        self.manifest.weight_files.iter().any(|f| f.name == name)
    }

    /// The bytes of a tensor; empty only for a tensor without numbers.
    #[must_use]
    pub fn bytes(&self, tensor: &TensorData) -> &[u8] {
        let range = tensor.offset as usize..(tensor.offset + tensor.length) as usize;
        self.maps.get(&tensor.file).and_then(|m| m.get(range)).unwrap_or_default()
    }

    /// Appends the embedding of `token` `[H]` as float32.
    pub fn embed(&self, token: u32, out: &mut Vec<f32>) {
        let table = &self.manifest.embedding;
        let width = self.manifest.target.hidden * table.dtype.size();
        let bytes = self.bytes(table);
        let row = bytes.get(token as usize * width..(token as usize + 1) * width).unwrap_or_default();
        append_f32(row, table.dtype, out);
    }
}

/// Appends little-endian numbers as float32.
pub fn append_f32(bytes: &[u8], dtype: Dtype, out: &mut Vec<f32>) {
    match dtype {
        Dtype::F32 => out.extend(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))),
        Dtype::F16 => out.extend(bytes.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32())),
        Dtype::Bf16 => out.extend(bytes.chunks_exact(2).map(|b| bf16::from_le_bytes([b[0], b[1]]).to_f32())),
    }
}
