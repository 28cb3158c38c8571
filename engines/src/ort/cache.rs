//! Key and value caches of the committed rows.

use super::graph::Input;
use crate::manifest::Attention;
use ort::value::TensorRef;

/// Caches of some attention layers of equal or different shapes; rows `[KVH, D]` lie one after another.
#[derive(Debug)]
pub(super) struct Caches {
    layers: Vec<Layer>,
    capacity: usize,
    rows: usize,
}

#[derive(Debug)]
struct Layer {
    names: [String; 2],
    shape: Attention,
    data: [Vec<f32>; 2],
}

impl Caches {
    /// Empty caches. `layers` gives the names of the k and v inputs and the shape of each layer.
    pub(super) fn new(layers: impl IntoIterator<Item = ([String; 2], Attention)>) -> Self {
        let layers = layers.into_iter().map(|(names, shape)| Layer { names, shape, data: [Vec::new(), Vec::new()] });
        Self { layers: layers.collect(), capacity: 0, rows: 0 }
    }

    /// Rows that are filled.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Number of layers.
    pub(super) fn layers(&self) -> usize {
        self.layers.len()
    }

    /// Makes room for `rows` rows, at least doubling and at most `limit`; keeps what is there.
    pub(super) fn reserve(&mut self, rows: usize, limit: usize) {
        if rows <= self.capacity {
            return;
        }
        self.capacity = rows.max(2 * self.capacity).max(256).min(limit.max(rows));
        for layer in &mut self.layers {
            let width = layer.shape.kv_heads * layer.shape.head_dim;
            for data in &mut layer.data {
                data.resize(self.capacity * width, 0.0);
            }
        }
    }

    /// Copies the rows of `path` from new keys and values `[N, KVH, D]` behind the filled rows of `layer`.
    pub(super) fn append(&mut self, layer: usize, keys: &[f32], values: &[f32], path: &[u32]) {
        let layer = &mut self.layers[layer];
        let width = layer.shape.kv_heads * layer.shape.head_dim;
        for (to, from) in layer.data.iter_mut().zip([keys, values]) {
            for (i, row) in path.iter().enumerate() {
                let (start, source) = ((self.rows + i) * width, *row as usize * width);
                to[start..start + width].copy_from_slice(&from[source..source + width]);
            }
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

    /// The caches as graph inputs `[C, KVH, D]`, without a copy.
    pub(super) fn bind<'a>(&'a self, inputs: &mut Vec<Input<'a>>) -> Result<(), ort::Error> {
        for layer in &self.layers {
            let shape = [self.capacity, layer.shape.kv_heads, layer.shape.head_dim];
            for (name, data) in layer.names.iter().zip(&layer.data) {
                let view = TensorRef::from_array_view((shape, data.as_slice()))?;
                inputs.push((name.as_str().into(), view.into()));
            }
        }
        Ok(())
    }
}
