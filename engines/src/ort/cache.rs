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
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The repository's library, where `make` put it.
    fn library() -> bool {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../lib/libonnxruntime.so");
        let explicit = path.is_file().then_some(path);
        super::super::library::load(explicit.as_deref(), 1).is_ok()
    }

    #[test]
    fn growing_keeps_rows_and_stops_at_the_limit() {
        if !library() {
            eprintln!("skipped: no ONNX Runtime library; run `make`");
            return;
        }
        let shape = Attention {
            heads: 4,
            kv_heads: 2,
            head_dim: 8,
        };
        let mut caches = Caches::new(Element::F32, [shape, shape], 700).expect("caches");
        let fresh = |seed: usize| -> [Tensor; 2] {
            [0, 1].map(|side| {
                let mut t = Tensor::new(Element::F32, &[3, 2, 8]).expect("tensor");
                let numbers = t.numbers_mut::<f32>();
                numbers
                    .iter_mut()
                    .enumerate()
                    .for_each(|(i, x)| *x = (seed * 1000 + side * 100 + i) as f32);
                t
            })
        };
        for round in 0..300 {
            caches.reserve(caches.rows() + 2).expect("room");
            for layer in 0..2 {
                caches.append(layer, &fresh(round + layer), &[0, 2]);
            }
            caches.advance(2);
        }
        assert_eq!(caches.rows(), 600);
        assert_eq!(
            caches.layers[0][0].rows(),
            700,
            "doubled once, then cut to the limit"
        );
        for round in 0..300 {
            for (layer, pair) in caches.layers.iter().enumerate() {
                for (side, tensor) in pair.iter().enumerate() {
                    let row = |r: usize| tensor.numbers::<f32>()[(2 * round + r) * 16];
                    let first = ((round + layer) * 1000 + side * 100) as f32;
                    assert_eq!([row(0), row(1)], [first, first + 32.0]);
                }
            }
        }
        caches.truncate(10);
        assert_eq!(caches.rows(), 10);
    }
}
