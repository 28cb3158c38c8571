//! Planning: every tensor that a graph asks for gets its place.

use super::{Transform, align, bytes};
use crate::ExportError;
use crate::checkpoint::{Checkpoint, Stored};
use forkcast_engines::manifest::{Dtype, TensorData};
use std::collections::{BTreeMap, BTreeSet};

/// A tensor of the bundle: where it lies and what it was made from.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    /// Its bytes.
    pub(crate) data: TensorData,
    /// Checkpoint tensors it was made from, each with its number of rows.
    pub(crate) parts: Vec<(String, usize)>,
    /// The manifest's name of what was done to them.
    pub(crate) transform: &'static str,
}

impl Placed {
    /// The parts of a stack from number `first` on: a stack's tail is a matrix of its own.
    pub(crate) fn tail(&self, first: usize) -> Self {
        let skipped: usize = self.parts.iter().take(first).map(|(_, rows)| rows).sum();
        let mut shape = self.data.shape.clone();
        if let Some(rows) = shape.first_mut() {
            *rows -= skipped;
        }
        let length = bytes(&shape, self.data.dtype);
        Self {
            data: TensorData {
                offset: self.data.offset + self.data.length - length,
                length,
                shape,
                ..self.data.clone()
            },
            parts: self.parts.iter().skip(first).cloned().collect(),
            transform: self.transform,
        }
    }
}

/// A tensor that has to be written.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) sources: Vec<(Stored, Dtype)>,
    pub(super) transform: Transform,
    pub(super) dtype: Dtype,
    pub(super) offset: u64,
}

/// Places tensors of one checkpoint.
#[derive(Debug)]
pub(crate) struct Store<'a> {
    pub(super) checkpoint: &'a Checkpoint,
    role: &'static str,
    /// What stands before the names that graphs use.
    prefix: String,
    copy: bool,
    /// Type of quantised matrices, where the bundle has them.
    pub(super) quantised: Option<Dtype>,
    used: BTreeSet<String>,
    cache: BTreeMap<(Vec<String>, Transform, &'static str), Placed>,
    pub(super) jobs: Vec<Job>,
    end: u64,
    referenced: BTreeSet<usize>,
}

impl<'a> Store<'a> {
    /// A store for `checkpoint`, which plays `role` (`target` or `drafter`). With `copy` nothing is referenced.
    pub(crate) fn new(checkpoint: &'a Checkpoint, role: &'static str, prefix: &str, copy: bool) -> Self {
        Self {
            checkpoint,
            role,
            prefix: prefix.to_owned(),
            copy,
            quantised: None,
            used: BTreeSet::new(),
            cache: BTreeMap::new(),
            jobs: Vec::new(),
            end: 0,
            referenced: BTreeSet::new(),
        }
    }

    /// Matrices of linear layers are quantised to `dtype`.
    pub(crate) fn quantise_to(&mut self, dtype: Option<Dtype>) {
        self.quantised = dtype;
    }

    /// The checkpoint.
    pub(crate) fn checkpoint(&self) -> &'a Checkpoint {
        self.checkpoint
    }

    /// Name of the file that the bundle owns.
    pub(crate) fn file_name(&self) -> String {
        format!("{}.weights", self.role)
    }

    /// Size of that file; 0 when everything is referenced.
    pub(crate) fn owned_bytes(&self) -> u64 {
        self.end
    }

    /// Shards that are referred to, with their bundle-local names.
    pub(crate) fn referenced(&self) -> impl Iterator<Item = (usize, String)> {
        self.referenced.iter().map(|i| (*i, self.shard_name(*i)))
    }

    fn shard_name(&self, shard: usize) -> String {
        format!("{}.{shard:02}.safetensors", self.role)
    }

    /// Marks a tensor that the model may have but that is not used.
    pub(crate) fn ignore(&mut self, full_name: &str) {
        self.used.insert(full_name.to_owned());
    }

    /// Whether the checkpoint holds `name`.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.checkpoint.tensors.contains_key(&self.full(name))
    }

    /// The first tensor that nobody asked for and that `skip` does not allow.
    pub(crate) fn leftover(&self, skip: impl Fn(&str) -> bool) -> Option<&'a Stored> {
        self.checkpoint
            .tensors
            .iter()
            .find(|(name, _)| !self.used.contains(*name) && !skip(name))
            .map(|(_, stored)| stored)
    }

    /// Names starting with `/` are at the root of the checkpoint, others follow the prefix.
    fn full(&self, name: &str) -> String {
        match name.strip_prefix('/') {
            Some(root) => root.to_owned(),
            None => format!("{}{name}", self.prefix),
        }
    }

    fn find(&mut self, name: &str, shape: &[usize]) -> Result<(Stored, Dtype), ExportError> {
        let full = self.full(name);
        let stored = self.checkpoint.require(&full)?;
        let dtype = self.checkpoint.dtype(stored)?;
        if stored.entry.shape != shape {
            return Err(ExportError::tensor(
                self.checkpoint.path_of(stored),
                &full,
                format!(
                    "shape {:?}, but the configuration asks for {shape:?}",
                    stored.entry.shape
                ),
            ));
        }
        self.used.insert(full);
        Ok((stored.clone(), dtype))
    }

    /// Places tensor `name` of shape `shape` as `dtype`: in place when nothing is to be done to it.
    pub(crate) fn place(
        &mut self,
        name: &str,
        shape: &[usize],
        dtype: Dtype,
        transform: Transform,
    ) -> Result<Placed, ExportError> {
        let source = self.find(name, shape)?;
        let key = (vec![source.0.entry.name.clone()], transform, dtype.name());
        if let Some(placed) = self.cache.get(&key) {
            return Ok(placed.clone());
        }
        let parts = vec![(source.0.entry.name.clone(), shape.first().copied().unwrap_or(1))];
        let data = if !self.copy && transform == Transform::None && source.1 == dtype {
            self.referenced.insert(source.0.shard);
            TensorData {
                file: self.shard_name(source.0.shard),
                offset: source.0.entry.offset,
                length: source.0.entry.length,
                dtype,
                shape: shape.to_vec(),
            }
        } else {
            self.own(vec![source], shape.to_vec(), dtype, transform)
        };
        let placed = Placed {
            data,
            parts,
            transform: transform.name(),
        };
        self.cache.insert(key, placed.clone());
        Ok(placed)
    }

    /// Places what `transform` makes of matrices `[rows, cols]`, one after another.
    pub(super) fn made(
        &mut self,
        parts: &[(String, usize)],
        cols: usize,
        shape: Vec<usize>,
        dtype: Dtype,
        transform: Transform,
    ) -> Result<Placed, ExportError> {
        let sources = parts
            .iter()
            .map(|(name, rows)| self.find(name, &[*rows, cols]))
            .collect::<Result<Vec<_>, _>>()?;
        let names: Vec<String> = sources.iter().map(|(s, _)| s.entry.name.clone()).collect();
        let key = (names.clone(), transform, dtype.name());
        if let Some(placed) = self.cache.get(&key) {
            return Ok(placed.clone());
        }
        let data = self.own(sources, shape, dtype, transform);
        let rows = parts.iter().map(|(_, rows)| *rows);
        let placed = Placed {
            data,
            parts: names.into_iter().zip(rows).collect(),
            transform: transform.name(),
        };
        self.cache.insert(key, placed.clone());
        Ok(placed)
    }

    /// See [`Self::stack`], for matrices that are not quantised.
    pub(super) fn stack_plain(
        &mut self,
        parts: &[(String, usize)],
        cols: usize,
        dtype: Dtype,
    ) -> Result<Option<Placed>, ExportError> {
        let sources = parts
            .iter()
            .map(|(name, rows)| self.find(name, &[*rows, cols]))
            .collect::<Result<Vec<_>, _>>()?;
        if dtype != Dtype::F32 {
            return Ok(None);
        }
        if !self.copy && sources.iter().any(|(_, stored)| *stored == dtype) {
            return Ok(None);
        }
        let names: Vec<String> = sources.iter().map(|(s, _)| s.entry.name.clone()).collect();
        let key = (names.clone(), Transform::None, dtype.name());
        if let Some(placed) = self.cache.get(&key) {
            return Ok(Some(placed.clone()));
        }
        let rows = parts.iter().map(|(_, rows)| rows).sum();
        let data = self.own(sources, vec![rows, cols], dtype, Transform::None);
        let placed = Placed {
            data,
            parts: names
                .into_iter()
                .zip(parts.iter().map(|(_, rows)| *rows))
                .collect(),
            transform: "stack",
        };
        self.cache.insert(key, placed.clone());
        Ok(Some(placed))
    }

    fn own(
        &mut self,
        sources: Vec<(Stored, Dtype)>,
        shape: Vec<usize>,
        dtype: Dtype,
        transform: Transform,
    ) -> TensorData {
        let length = bytes(&shape, dtype);
        let offset = align(self.end, length);
        self.end = offset + length;
        self.jobs.push(Job {
            sources,
            transform,
            dtype,
            offset,
        });
        TensorData {
            file: self.file_name(),
            offset,
            length,
            dtype,
            shape,
        }
    }
}
