//! A bundle on disk: opened, checked and mapped before any library is called.

mod check;
mod error;

pub use error::OpenError;

use crate::manifest::{self, Dtype, Manifest, QUANT_BLOCK, TensorData};
use half::{bf16, f16};
use memmap2::Mmap;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file in memory, shared by everything that points into it.
pub(crate) type Map = Arc<Mmap>;

/// What [`verify_deep`] read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deep {
    /// Files whose whole content is the exported one.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Checkpoint files of which only size and header are known: the export did not hash them.
    pub headers_only: usize,
}

/// Hashes every byte of a bundle and of the checkpoint files that it refers to, as far as the export recorded
/// hashes of them (`export --hash-weights`). Opening checks sizes, headers, graphs, text and small files only.
///
/// # Errors
/// The first file that is missing or not the exported one.
pub fn verify_deep(bundle: &Bundle) -> Result<Deep, OpenError> {
    check::all_content(&bundle.dir, &bundle.manifest)
}

/// An open bundle. Files it names exist, have the recorded size, and headers and graphs the recorded hash.
#[derive(Debug)]
pub struct Bundle {
    /// Folder of the bundle.
    pub dir: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
    maps: BTreeMap<String, Map>,
}

impl Bundle {
    /// Opens the bundle in `dir`.
    ///
    /// # Errors
    /// No manifest, an invalid one, or files that are missing or changed since the export.
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        if !dir.join(manifest::FILE_NAME).is_file() {
            return Err(OpenError::NotABundle {
                path: dir.to_path_buf(),
                found: check::describe(dir),
            });
        }
        let manifest = manifest::read(dir)?;
        check::files(dir, &manifest)?;
        let mut bundle = Self {
            dir: dir.to_path_buf(),
            manifest,
            maps: BTreeMap::new(),
        };
        bundle.map_weights()?;
        Ok(bundle)
    }

    fn map_weights(&mut self) -> Result<(), OpenError> {
        let graphs = self
            .manifest
            .graphs
            .values()
            .flat_map(|g| &g.initializers)
            .map(|i| &i.data.file);
        let scales = self.manifest.embedding_scales.iter().map(|s| &s.file);
        let embedding = [&self.manifest.embedding.file].into_iter().chain(scales);
        let names: Vec<String> = graphs.chain(embedding).cloned().collect();
        for name in names {
            if !self.maps.contains_key(&name) {
                let path = self.path_of(&name);
                let map = check::map(&path)?;
                self.maps.insert(name, Arc::new(map));
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
        self.maps
            .get(&tensor.file)
            .and_then(|m| m.get(range))
            .unwrap_or_default()
    }

    /// The mapped files.
    pub(crate) fn maps(&self) -> Vec<Map> {
        self.maps.values().map(Arc::clone).collect()
    }

    /// Writes the embedding of `token` into a row `[H]`; a token outside the table leaves it as it was.
    pub(crate) fn embed_into<T: Number>(&self, token: u32, row: &mut [T]) {
        let table = &self.manifest.embedding;
        if let Some(bytes) = table.dtype.block_bytes() {
            self.embed_blocks(token as usize, bytes, row);
            return;
        }
        let width = self.manifest.target.hidden * table.dtype.size();
        let bytes = self
            .bytes(table)
            .get(token as usize * width..(token as usize + 1) * width)
            .unwrap_or_default();
        match table.dtype {
            Dtype::F32 => {
                if let (Some(to), Ok(from)) = (T::same(row), bytemuck::try_cast_slice::<u8, f32>(bytes))
                    && to.len() == from.len()
                {
                    to.copy_from_slice(from);
                    return;
                }
                let numbers = bytes
                    .chunks_exact(4)
                    .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
                row.iter_mut()
                    .zip(numbers)
                    .for_each(|(to, x)| *to = T::from_f32(x));
            }
            Dtype::F16 => {
                let numbers = bytes.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]));
                row.iter_mut()
                    .zip(numbers)
                    .for_each(|(to, x)| *to = T::from_f32(x.to_f32()));
            }
            Dtype::Bf16 => {
                let numbers = bytes.chunks_exact(2).map(|b| bf16::from_le_bytes([b[0], b[1]]));
                row.iter_mut()
                    .zip(numbers)
                    .for_each(|(to, x)| *to = T::from_f32(x.to_f32()));
            }
            // Done above.
            Dtype::Int8 | Dtype::Int4 => {}
        }
    }

    /// Row `token` of a quantised table: `scale * (q - zero)`, blocks of `bytes` bytes.
    fn embed_blocks<T: Number>(&self, token: usize, bytes: usize, row: &mut [T]) {
        let blocks = self.manifest.target.hidden / QUANT_BLOCK;
        let part = |tensor: &TensorData, width: usize| -> &[u8] {
            let all = self.bytes(tensor);
            all.get(token * width..(token + 1) * width).unwrap_or_default()
        };
        let Some(scales) = &self.manifest.embedding_scales else {
            return;
        };
        let codes = part(&self.manifest.embedding, blocks * bytes).chunks_exact(bytes);
        let scales = part(scales, blocks * 4).chunks_exact(4);
        for ((codes, scale), row) in codes.zip(scales).zip(row.chunks_exact_mut(QUANT_BLOCK)) {
            let scale = f32::from_le_bytes([scale[0], scale[1], scale[2], scale[3]]);
            let number = |q: u8| T::from_f32(scale * (f32::from(q) - 8.0));
            if bytes == QUANT_BLOCK {
                row.iter_mut()
                    .zip(codes)
                    .for_each(|(to, q)| *to = T::from_f32(scale * f32::from(q.cast_signed())));
            } else {
                for (pair, q) in row.chunks_exact_mut(2).zip(codes) {
                    pair[0] = number(q & 15);
                    pair[1] = number(q >> 4);
                }
            }
        }
    }
}

/// Types that activations have on the CPU.
pub(crate) trait Number: Sized {
    /// The nearest number of this type.
    fn from_f32(x: f32) -> Self;

    /// The row itself when it holds float32.
    fn same(_row: &mut [Self]) -> Option<&mut [f32]> {
        None
    }
}

impl Number for f32 {
    fn from_f32(x: f32) -> Self {
        x
    }

    fn same(row: &mut [Self]) -> Option<&mut [f32]> {
        Some(row)
    }
}

impl Number for f16 {
    fn from_f32(x: f32) -> Self {
        Self::from_f32(x)
    }
}
