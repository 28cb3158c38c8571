//! Some rows of the head as a small head of its own: what drafting may read instead of the whole vocabulary.

use super::graph::{Graph, Loader, Port, Signature};
use super::memory::Element;
use crate::backend::BackendError;
use crate::manifest::{Dtype, QUANT_BLOCK, TensorData};
use forkcast_plugins::onnx::{self, Dim, ElementType, GraphBuilder, attr_i};
use forkcast_plugins::ops::fused;
use prost::Message;

/// Largest copy of head rows, in bytes: a graph must stay below 2 GiB.
const MAX_BYTES: u64 = 1 << 30;

/// A head over `ids.len()` rows of the vocabulary.
#[derive(Debug)]
pub(super) struct Shortlist {
    pub(super) graph: Graph,
    /// Token of each column of its logits, ascending.
    pub(super) ids: Vec<u32>,
}

impl Shortlist {
    /// Copies rows `ids` of the head.
    ///
    /// # Errors
    /// No ids, an id outside of the vocabulary or twice, a head of another type, too many rows of it, or the library fails.
    pub(super) fn open(loader: &Loader<'_>, ids: &[u32]) -> Result<Self, BackendError> {
        let limit = |text: String| Err(BackendError::Limit(format!("draft vocabulary: {text}")));
        let target = &loader.bundle.manifest.target;
        let (vocab, width) = (target.vocab, target.hidden);
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        if ids.is_empty() {
            return limit("it holds no token".to_owned());
        }
        if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return limit(format!("token id {} is in it twice", pair[0]));
        }
        if let Some(id) = ids.iter().find(|id| **id as usize >= vocab) {
            return limit(format!("token id {id} is outside the vocabulary of {vocab}"));
        }
        let head = loader.bundle.manifest.graphs.get("head");
        let parts: Vec<&TensorData> = head
            .iter()
            .flat_map(|g| &g.initializers)
            .map(|i| &i.data)
            .collect();
        let Some(matrix) = Matrix::of(&parts, [vocab, width]) else {
            return limit("the head of this bundle is neither a float32 matrix nor quantised".to_owned());
        };
        let bytes = parts
            .iter()
            .map(|part| part.length / vocab as u64 * ids.len() as u64);
        if bytes.sum::<u64>() > MAX_BYTES {
            return limit(format!(
                "{} rows of {width} numbers exceed {MAX_BYTES} bytes",
                ids.len()
            ));
        }
        let rows = parts.iter().map(|part| {
            let bytes = loader.bundle.bytes(part);
            let row = bytes.len() / vocab;
            let rows = ids.iter().flat_map(|id| &bytes[*id as usize * row..][..row]);
            rows.copied().collect()
        });
        let model = model(matrix, rows.collect(), ids.len(), width);
        let ports = Signature {
            inputs: vec![Port::new("hidden", Element::F32, &[None, Some(width)])],
            outputs: vec![Port::new("logits", Element::F32, &[None, Some(ids.len())])],
        };
        let graph = loader.open_made("draft head", &model, ports);
        Ok(Self {
            graph: graph.map_err(|e| BackendError::Run {
                stage: "draft",
                reason: e.to_string(),
            })?,
            ids,
        })
    }
}

/// How a head is stored.
#[derive(Clone, Copy, Debug)]
enum Matrix {
    /// Float32, `[V,H]`.
    Plain,
    /// Blocks `[V,H/32,32 or 16]` and scales `[V,H/32]`.
    Blocks { bits: usize },
}

impl Matrix {
    /// What the initializers of the head graph are.
    fn of(parts: &[&TensorData], [vocab, width]: [usize; 2]) -> Option<Self> {
        match parts {
            [w] => (w.dtype == Dtype::F32 && w.shape == [vocab, width]).then_some(Self::Plain),
            [w, scales] => {
                let (bytes, blocks) = (w.dtype.block_bytes()?, width / QUANT_BLOCK);
                let fits = w.shape == [vocab, blocks, bytes] && scales.shape == [vocab, blocks];
                (fits && scales.dtype == Dtype::F32).then_some(Self::Blocks {
                    bits: bytes * 8 / QUANT_BLOCK,
                })
            }
            _ => None,
        }
    }
}

/// `logits [R,n] = hidden [R,H] rows^T`; `rows` are the bytes of the parts of the matrix.
fn model(matrix: Matrix, rows: Vec<Vec<u8>>, n: usize, width: usize) -> Vec<u8> {
    let mut b = GraphBuilder::new("draft_head");
    b.input("hidden", ElementType::F32, &[Dim::Symbol("R"), Dim::Fixed(width)]);
    let blocks = (width / QUANT_BLOCK) as i64;
    let shapes = match matrix {
        Matrix::Plain => vec![(ElementType::F32, vec![n as i64, width as i64])],
        Matrix::Blocks { bits } => vec![
            (
                ElementType::U8,
                vec![n as i64, blocks, (QUANT_BLOCK * bits / 8) as i64],
            ),
            (ElementType::F32, vec![n as i64, blocks]),
        ],
    };
    let mut inputs = vec!["hidden".to_owned()];
    for (bytes, (element, dims)) in rows.into_iter().zip(shapes) {
        inputs.push(b.const_bytes(element, bytes, &dims));
    }
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    match matrix {
        Matrix::Plain => b.named("Gemm", &inputs, &["logits"], vec![attr_i("transB", 1)]),
        Matrix::Blocks { bits } => {
            let sizes = [("K", width), ("N", n), ("bits", bits)];
            let attributes = sizes.map(|(name, size)| attr_i(name, size as i64)).to_vec();
            b.fused(fused::BLOCK_MAT_MUL, &inputs, &["logits"], attributes);
        }
    }
    b.output("logits", ElementType::F32, &[Dim::Symbol("R"), Dim::Fixed(n)]);
    onnx::model(b.finish(), Vec::new()).encode_to_vec()
}
