//! Key and value caches of the committed rows.

use super::graph::{Call, Port};
use super::memory::{Element, Tensor};
use crate::manifest::Attention;

/// Rows that caches have room for at first.
const FIRST: usize = 256;

/// Keys and values `[C, KVH, D]` of some attention layers. Rows lie one after another, so an append is a copy of
/// rows, and growing keeps the prefix.
#[derive(Debug)]
pub(super) struct Caches {
    layers: Vec<[Tensor; 2]>,
    rows: usize,
    limit: usize,
}

impl Caches {
    /// Empty caches for layers of these shapes, for at most `limit` rows.
    pub(super) fn new(
        element: Element,
        shapes: impl IntoIterator<Item = Attention>,
        limit: usize,
    ) -> Result<Self, ort::Error> {
        let one = |a: &Attention| Tensor::new(element, &[FIRST.min(limit), a.kv_heads, a.head_dim]);
        let layers = shapes
            .into_iter()
            .map(|a| Ok([one(&a)?, one(&a)?]))
            .collect::<Result<_, ort::Error>>()?;
        Ok(Self {
            layers,
            rows: 0,
            limit,
        })
    }

    /// A cache as a graph value.
    pub(super) fn port(name: String, element: Element, a: &Attention) -> Port {
        Port::new(name, element, &[None, Some(a.kv_heads), Some(a.head_dim)])
    }

    /// Rows that are filled.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Number of layers.
    pub(super) fn layers(&self) -> usize {
        self.layers.len()
    }

    /// Makes room for `rows` rows, at least doubling; keeps what is there.
    pub(super) fn reserve(&mut self, rows: usize) -> Result<(), ort::Error> {
        for cache in self.layers.iter_mut().flatten() {
            if rows > cache.rows() {
                let room = rows.max((2 * cache.rows()).min(self.limit));
                cache.set_rows(room)?;
            }
        }
        Ok(())
    }

    /// Copies rows `path` of new keys and values behind the filled rows of `layer`.
    pub(super) fn append(&mut self, layer: usize, fresh: &[Tensor; 2], path: &[u32]) {
        for (to, from) in self.layers[layer].iter_mut().zip(fresh) {
            to.copy_rows(self.rows, from, path);
        }
    }

    /// Counts rows that were appended to every layer.
    pub(super) fn advance(&mut self, rows: usize) {
        self.rows += rows;
    }

    /// Forgets rows from `rows` on.
    pub(super) fn truncate(&mut self, rows: usize) {
        self.rows = self.rows.min(rows);
    }

    /// Gives keys and values of `layer` to a call.
    pub(super) fn bind<'a>(&'a self, layer: usize, call: &mut Call<'a>) {
        for cache in &self.layers[layer] {
            call.input(cache);
        }
    }

    /// Committed bytes of `layer`, for tests.
    #[cfg(test)]
    pub(super) fn bytes(&self, layer: usize) -> [&[u8]; 2] {
        self.layers[layer]
            .each_ref()
            .map(|t| &t.bytes()[..self.rows * t.row_bytes()])
    }
}
