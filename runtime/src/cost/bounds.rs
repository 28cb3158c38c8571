//! The least time that a stage can take on a host, from the bytes it must read and its arithmetic.

use super::host::Rates;
use forkcast_engines::manifest::{Layer, Manifest};

/// Bytes and float operations of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Bytes of weights and state that are read once.
    pub bytes: f64,
    /// Operations, two a multiply-add.
    pub flops: f64,
}

impl Work {
    /// Seconds that the slower of memory and arithmetic takes.
    #[must_use]
    pub fn seconds(&self, rates: &Rates) -> f64 {
        (self.bytes / rates.read).max(self.flops / rates.gemm)
    }
}

impl std::ops::Add for Work {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            flops: self.flops + other.flops,
        }
    }
}

/// A graph over `rows` rows: all of its weights once, two operations a weight and row.
fn graph(manifest: &Manifest, name: &str, rows: usize) -> Work {
    let tensors = manifest
        .graphs
        .get(name)
        .into_iter()
        .flat_map(|g| &g.initializers);
    tensors.fold(Work::default(), |w, i| {
        let numbers: usize = i.data.shape.iter().product();
        w + Work {
            bytes: i.data.length as f64,
            flops: 2.0 * (numbers * rows) as f64,
        }
    })
}

/// Caches and states of the target, read once; attention scores and sums over the context for each row.
fn state(manifest: &Manifest, rows: usize, context: usize) -> Work {
    let size = manifest.dtype.size();
    manifest.target.layers.iter().fold(Work::default(), |w, layer| {
        w + match layer {
            Layer::Attention(a) => Work {
                bytes: (2 * a.kv_heads * a.head_dim * context * size) as f64,
                flops: (4 * a.heads * a.head_dim * context * rows) as f64,
            },
            Layer::DeltaNet(d) => {
                let numbers = d.value_heads * d.key_dim * d.value_dim;
                Work {
                    bytes: (4 * numbers) as f64,
                    flops: (4 * numbers * rows) as f64,
                }
            }
        }
    })
}

/// The head over `rows` rows.
#[must_use]
pub fn head(manifest: &Manifest, rows: usize) -> Work {
    graph(manifest, "head", rows)
}

/// A verify pass with the head over one path.
#[must_use]
pub fn verify(manifest: &Manifest, rows: usize, context: usize) -> Work {
    let path = rows.min(manifest.drafter.as_ref().map_or(2, |d| d.block));
    graph(manifest, "target", rows) + state(manifest, rows, context) + head(manifest, path)
}

/// A draft of all modes with the head over what `modes` of them drafted.
#[must_use]
pub fn draft(manifest: &Manifest, modes: usize, context: usize) -> Work {
    let Some(d) = &manifest.drafter else {
        return Work::default();
    };
    let rows = d.modes * d.block;
    let a = d.attention;
    let cache = Work {
        bytes: (d.layers * 2 * a.kv_heads * a.head_dim * context * manifest.dtype.size()) as f64,
        flops: (d.layers * 4 * a.heads * a.head_dim * context * rows) as f64,
    };
    graph(manifest, "draft", rows) + cache + head(manifest, modes * (d.block - 1))
}

/// A commit of `rows` rows that feeds the drafter.
#[must_use]
pub fn commit(manifest: &Manifest, rows: usize) -> Work {
    let states = manifest.target.layers.iter().map(|layer| match layer {
        Layer::Attention(_) => 0,
        Layer::DeltaNet(d) => d.value_heads * d.key_dim * d.value_dim,
    });
    let numbers: usize = states.sum();
    let update = Work {
        bytes: (8 * numbers) as f64,
        flops: (2 * numbers * rows) as f64,
    };
    graph(manifest, "context", rows) + update
}

/// Seconds per prompt token, weights read once a pass of `rows` rows.
#[must_use]
pub fn prefill(manifest: &Manifest, rows: usize, context: usize, rates: &Rates) -> f64 {
    let pass = graph(manifest, "target", rows)
        + state(manifest, rows, context)
        + graph(manifest, "context", rows)
        + head(manifest, 1);
    pass.seconds(rates) / rows.max(1) as f64
}
